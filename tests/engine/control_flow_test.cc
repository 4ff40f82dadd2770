// SPDX-License-Identifier: Apache-2.0
// Loops, conditionals and their gradients, in both executors and under several scheduling orders. Covers A14, K4, K6,
// K7, L1 to L6. Random ones: random_graph_test.
#include <cmath>
#include <functional>

#include "tests/engine/engine.h"

namespace tenon::engine::control_flow_test {
namespace {

// Straight, dynamic, and dynamic under other orders.
std::vector<SessionOptions> AllWays() {
  std::vector<SessionOptions> ways(6);
  for (size_t i = 1; i < ways.size(); ++i) {
    ways[i].executor = TENON_EXECUTOR_DYNAMIC;
    ways[i].debug.schedule_seed = static_cast<uint32_t>(i - 1);
  }
  ways.emplace_back().optimize = false;
  return ways;
}

TEST(Loop, CountsToTheLimit) {
  for (const int32_t limit : {0, 1, 7, 1000}) {
    Graph g(TheRuntime());
    const Output end = g.Const(limit);
    const std::vector<Output> out =
        While(g, {g.Const(0), g.Const(1.0)}, {end}, [&](const auto& v) { return g.Op("Less", {v[0], v[2]}); },
              [&](const auto& v) {
                return std::vector<Output>{g.Op("AddV2", {v[0], g.Const(1)}), g.Op("Mul", {v[1], g.Const(0.5)})};
              });
    for (const SessionOptions& way : AllWays()) {
      const auto values = RunOnce(g, {}, {out[0], out[1]}, way);
      ASSERT_EQ(values.size(), 2u);
      EXPECT_EQ(Values<int32_t>(values[0])[0], limit);
      EXPECT_EQ(Values<double>(values[1])[0], std::pow(0.5, limit));
    }
  }
}

TEST(Loop, SwapsItsVariablesWithoutMixingThemUp) {
  Graph g(TheRuntime());
  const std::vector<Output> out = While(
      g, {g.Const(0), g.Const(int64_t{0}), g.Const(int64_t{1})}, {},
      [&](const auto& v) {
        return g.Op("Less", {v[0], g.Const(30)});
      },
      [&](const auto& v) {
        return std::vector<Output>{g.Op("AddV2", {v[0], g.Const(1)}), g.Op("Identity", {v[2]}),
                                   g.Op("AddV2", {v[1], v[2]})};
      });
  for (const SessionOptions& way : AllWays()) {
    const auto values = RunOnce(g, {}, {out[1], out[2]}, way);
    ASSERT_EQ(values.size(), 2u);
    EXPECT_EQ(Values<int64_t>(values[0])[0], 832040);
    EXPECT_EQ(Values<int64_t>(values[1])[0], 1346269);
  }
}

TEST(Loop, TakesAnInvariantAsAVariablesNextValue) {
  Graph g(TheRuntime());
  const std::vector<Output> out = While(
      g, {g.Const(0), g.Const(1.0)}, {g.Const(3), g.Const(7.0)},
      [&](const auto& v) {
        return g.Op("Less", {v[0], v[2]});
      },
      [&](const auto& v) {
        return std::vector<Output>{g.Op("AddV2", {v[0], g.Const(1)}), v[3]};
      });
  for (const SessionOptions& way : AllWays()) {
    const auto values = RunOnce(g, {}, {out[0], out[1]}, way);
    ASSERT_EQ(values.size(), 2u);
    EXPECT_EQ(Values<int32_t>(values[0])[0], 3);
    EXPECT_EQ(Values<double>(values[1])[0], 7.0);
  }
}

TEST(Loop, NestsThreeDeep) {
  Graph g(TheRuntime());
  const Output three = g.Const(3), zero = g.Const(0), one = g.Const(1);
  std::function<std::vector<Output>(int, const Output&, const Output&, const Output&, const Output&)> level =
      [&](int depth, const Output& total, const Output& n, const Output& z, const Output& o) {
        LoopOptions options;
        options.name = "level" + std::to_string(depth);
        return While(
            g, {z, total}, {n, z, o},
            [&](const auto& v) {
              return g.Op("Less", {v[0], v[2]});
            },
            [&](const auto& v) {
              const Output inner =
                  depth == 0 ? g.Op("AddV2", {v[1], v[4]}) : level(depth - 1, v[1], v[2], v[3], v[4])[1];
              return std::vector<Output>{g.Op("AddV2", {v[0], v[4]}), inner};
            },
            options);
      };
  const Output total = level(2, zero, three, zero, one)[1];
  for (const SessionOptions& way : AllWays()) {
    const auto values = RunOnce(g, {}, {total}, way);
    ASSERT_EQ(values.size(), 1u);
    EXPECT_EQ(Values<int32_t>(values[0])[0], 27);
  }
}

TEST(Loop, GrowsATensorFromTurnToTurn) {
  Graph g(TheRuntime());
  const std::vector<Output> out = While(
      g, {g.Const(0), g.Const({1.0f})}, {}, [&](const auto& v) { return g.Op("Less", {v[0], g.Const(4)}); },
      [&](const auto& v) {
        return std::vector<Output>{g.Op("AddV2", {v[0], g.Const(1)}), g.Op("ConcatV2", {v[1], v[1], g.Const(0)})};
      });
  for (const SessionOptions& way : AllWays()) {
    const auto values = RunOnce(g, {}, {out[1]}, way);
    ASSERT_EQ(values.size(), 1u);
    EXPECT_EQ(Values<float>(values[0]), std::vector<float>(16, 1.0f));
  }
}

TEST(Cond, TakesOneBranchAndSkipsTheOther) {
  Graph g(TheRuntime());
  const Output p = g.Placeholder("p", DType::kBool, {});
  const Output x = g.Placeholder("x", DType::kInt32, {});
  // The branch that is not taken would divide by zero.
  const std::vector<Output> out =
      Cond(g, p, {x}, [&](const auto& v) { return std::vector<Output>{g.Op("FloorDiv", {g.Const(10), v[0]})}; },
           [&](const auto& v) { return std::vector<Output>{g.Op("Neg", {v[0]})}; });
  for (const SessionOptions& way : AllWays()) {
    auto session = Session::Create(TheRuntime(), g, way);
    ASSERT_TRUE(session.ok()) << session.status().message();
    for (const int32_t value : {0, 3}) {
      const uint8_t taken = value != 0;
      const bool predicate = taken != 0;
      auto values = session->Run({{"p", *Tensor::Scalar(predicate)}, {"x", *Tensor::Scalar(value)}}, {out[0]});
      ASSERT_TRUE(values.ok()) << values.status().message();
      EXPECT_EQ(Values<int32_t>((*values)[0])[0], value == 0 ? 0 : 3);
    }
  }
}

// All that a branch gives is known before the step, but for which one is taken: that hangs on what is known alone.
TEST(Cond, OfConstantsWhosePredicateAnotherOneGives) {
  Graph g(TheRuntime());
  const auto branch = [&](int32_t constant) {
    return Define(g, "give_" + std::to_string(constant), [constant](Graph& b, const std::vector<Output>&) {
      return b.Op("FloorMod", {b.Op("Sum", {b.Const({constant, 1}), b.Const({0})}), b.Const(10)});
    }, {});
  };
  const Function same = Define(
      g, "same", [](Graph& b, const std::vector<Output>& v) { return b.Op("Identity", {v[0]}); }, {DType::kInt32});
  const Output first = Cond(g, g.Const(true), {g.Const(3)}, same, same)[0];
  const Output less = g.Op("Less", {first, g.Op("Neg", {first})});
  const Output second = Cond(g, less, {}, branch(4), branch(6))[0], twice = g.Op("Mul", {second, g.Const(2)});
  for (const SessionOptions& way : AllWays()) {
    auto session = Session::Create(TheRuntime(), g, way);
    ASSERT_TRUE(session.ok()) << session.status().message();
    auto values = session->Run({}, {twice, second});
    ASSERT_TRUE(values.ok()) << values.status().message();
    EXPECT_EQ(Values<int32_t>((*values)[0])[0], 14);
    EXPECT_EQ(Values<int32_t>((*values)[1])[0], 7);
  }
}

TEST(Cond, RefusesToFetchFromABranchThatWasNotTaken) {
  Graph g(TheRuntime());
  const Operation gate = g.AddNode("Switch", {g.Const(1.0f), g.Const(true)});
  auto session = Session::Create(TheRuntime(), g);
  ASSERT_TRUE(session.ok()) << session.status().message();
  auto values = session->Run({}, {gate.output(0)});
  ASSERT_FALSE(values.ok());
  EXPECT_NE(values.status().message().find("branch that was not taken"), std::string::npos)
      << values.status().message();
}

TEST(Loop, EndsAtItsDeadlineWhenItWouldNeverEnd) {
  for (const uint32_t executor : {TENON_EXECUTOR_AUTO, TENON_EXECUTOR_DYNAMIC}) {
    Graph g(TheRuntime());
    const std::vector<Output> out =
        While(g, {g.Const(0)}, {}, [&](const auto& v) { return g.Op("GreaterEqual", {v[0], g.Const(0)}); },
              [&](const auto& v) { return std::vector<Output>{g.Op("Mul", {v[0], g.Const(1)})}; });
    SessionOptions options;
    options.executor = executor;
    auto session = Session::Create(TheRuntime(), g, options);
    ASSERT_TRUE(session.ok());
    RunOptions run;
    run.timeout = std::chrono::milliseconds(50);
    auto values = session->Run({}, {out[0]}, {}, run);
    ASSERT_FALSE(values.ok());
    EXPECT_EQ(values.status().code(), Code::kDeadlineExceeded) << values.status().message();
  }
}

// ---- Gradients ----

// d out / d x by central differences, in double.
void CheckGradient(Graph& g, const Output& x, const Output& out, const std::vector<double>& at, const Shape& shape) {
  const std::vector<Gradient> gradients = g.Gradients({out}, {x});
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  ASSERT_EQ(gradients[0].kind, Gradient::Kind::kDense);
  for (const SessionOptions& way : AllWays()) {
    auto session = Session::Create(TheRuntime(), g, way);
    ASSERT_TRUE(session.ok()) << session.status().message();
    auto analytic = session->Run({{x, View(at, shape)}}, {gradients[0].dense});
    ASSERT_TRUE(analytic.ok()) << analytic.status().message();
    const std::vector<double> found = Values<double>((*analytic)[0]);
    ASSERT_EQ(found.size(), at.size());
    const auto evaluate = [&](const std::vector<double>& point) {
      auto value = session->Run({{x, View(point, shape)}}, {out});
      EXPECT_TRUE(value.ok()) << value.status().message();
      double sum = 0;
      for (double v : Values<double>((*value)[0])) sum += v;
      return sum;
    };
    for (size_t i = 0; i < at.size(); ++i) {
      std::vector<double> up = at, down = at;
      up[i] += 1e-5;
      down[i] -= 1e-5;
      EXPECT_NEAR(found[i], (evaluate(up) - evaluate(down)) / 2e-5, 1e-5 * std::max(1.0, std::abs(found[i])));
    }
  }
}

TEST(LoopGradient, OfAPowerByRepeatedMultiplication) {
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kDouble, {2});
  const std::vector<Output> out = While(
      g, {g.Const(0), g.Const({1.0, 1.0})}, {x},
      [&](const auto& v) {
        return g.Op("Less", {v[0], g.Const(5)});
      },
      [&](const auto& v) {
        return std::vector<Output>{g.Op("AddV2", {v[0], g.Const(1)}), g.Op("Mul", {v[1], v[2]})};
      });
  CheckGradient(g, x, out[1], {1.3, -0.7}, {2});
}

TEST(LoopGradient, OfAValueThatEntersAndIsSquared) {
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kDouble, {});
  const std::vector<Output> out = While(
      g, {g.Const(0), x}, {},
      [&](const auto& v) {
        return g.Op("Less", {v[0], g.Const(3)});
      },
      [&](const auto& v) {
        return std::vector<Output>{g.Op("AddV2", {v[0], g.Const(1)}), g.Op("Sin", {g.Op("Mul", {v[1], v[1]})})};
      });
  CheckGradient(g, x, out[1], {0.8}, {});
}

TEST(LoopGradient, WhenTheLengthDependsOnTheData) {
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kDouble, {});
  // while (y < 100) y = y * x
  const std::vector<Output> out =
      While(g, {x}, {x, g.Const(100.0)}, [&](const auto& v) { return g.Op("Less", {v[0], v[2]}); },
            [&](const auto& v) { return std::vector<Output>{g.Op("Mul", {v[0], v[1]})}; });
  CheckGradient(g, x, out[0], {1.7}, {});
}

TEST(LoopGradient, OfNestedLoops) {
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kDouble, {});
  const Output zero = g.Const(0), one = g.Const(1), two = g.Const(2);
  LoopOptions outer, inner;
  outer.name = "outer";
  inner.name = "inner";
  const std::vector<Output> out = While(
      g, {zero, x}, {x, zero, one, two},
      [&](const auto& v) {
        return g.Op("Less", {v[0], v[5]});
      },
      [&](const auto& v) {
        const std::vector<Output> in = While(
            g, {v[3], v[1]}, {v[2], v[4], v[5]},
            [&](const auto& w) {
              return g.Op("Less", {w[0], w[4]});
            },
            [&](const auto& w) {
              return std::vector<Output>{g.Op("AddV2", {w[0], w[3]}), g.Op("Mul", {g.Op("Sin", {w[1]}), w[2]})};
            },
            inner);
        return std::vector<Output>{g.Op("AddV2", {v[0], v[4]}), g.Op("AddV2", {in[1], v[2]})};
      },
      outer);
  CheckGradient(g, x, out[1], {0.9}, {});
}

TEST(CondGradient, FollowsTheBranchTaken) {
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kDouble, {});
  const std::vector<Output> out = Cond(
      g, g.Op("Greater", {x, g.Const(1.0)}), {x},
      [&](const auto& v) { return std::vector<Output>{g.Op("Square", {v[0]})}; },
      [&](const auto& v) { return std::vector<Output>{g.Op("Sin", {v[0]})}; });
  CheckGradient(g, x, out[0], {2.5}, {});
  Graph h(TheRuntime());
  const Output y = h.Placeholder("x", DType::kDouble, {});
  const std::vector<Output> other = Cond(
      h, h.Op("Greater", {y, h.Const(1.0)}), {y},
      [&](const auto& v) { return std::vector<Output>{h.Op("Square", {v[0]})}; },
      [&](const auto& v) { return std::vector<Output>{h.Op("Sin", {v[0]})}; });
  CheckGradient(h, y, other[0], {0.5}, {});
}

TEST(CondGradient, IsZeroForAnInputThatOnlyTheOtherBranchUses) {
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kDouble, {});
  const std::vector<Output> out = Cond(
      g, g.Const(false), {x, g.Const(3.0)}, [&](const auto& v) { return std::vector<Output>{g.Op("Square", {v[0]})}; },
      [&](const auto& v) { return std::vector<Output>{g.Op("Square", {v[1]})}; });
  CheckGradient(g, x, out[0], {2.0}, {});
}

TEST(LoopGradient, WithAConditionalInTheLoop) {
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kDouble, {});
  // Even turns multiply, odd turns take the sine.
  const std::vector<Output> out = While(
      g, {g.Const(0), x}, {x}, [&](const auto& v) { return g.Op("Less", {v[0], g.Const(5)}); },
      [&](const auto& v) {
        const Output even = g.Op("Equal", {g.Op("FloorMod", {v[0], g.Const(2)}), g.Const(0)});
        const std::vector<Output> y =
            Cond(g, even, {v[1], v[2]}, [&](const auto& w) { return std::vector<Output>{g.Op("Mul", {w[0], w[1]})}; },
                 [&](const auto& w) { return std::vector<Output>{g.Op("Sin", {w[0]})}; });
        return std::vector<Output>{g.Op("AddV2", {v[0], g.Const(1)}), y[0]};
      });
  CheckGradient(g, x, out[1], {1.2}, {});
}

// Loops that nobody has given a name are loops of their own: one after the other, side by side, and in each other.
TEST(Loop, OfTheSameNameAreSeveral) {
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, {});
  const auto times = [&](const Output& from, int count, float factor, auto&& inner) {
    return While(
        g, {g.Const(0), from}, {},
        [&](const auto& v) {
          return g.Op("Less", {v[0], g.Const(count)});
        },
        [&](const auto& v) {
          return std::vector<Output>{g.Op("AddV2", {v[0], g.Const(1)}), inner(g.Op("Mul", {v[1], g.Const(factor)}))};
        })[1];
  };
  const auto nothing = [](const Output& value) { return value; };
  const Output first = times(x, 3, 2, nothing), behind = times(first, 2, 3, nothing), beside = times(x, 5, 2, nothing);
  const Output nested = times(x, 2, 1, [&](const Output& value) { return times(value, 2, 5, nothing); });
  ASSERT_TRUE(g.status().ok()) << g.status();
  for (const uint32_t executor : {TENON_EXECUTOR_AUTO, TENON_EXECUTOR_DYNAMIC}) {
    SessionOptions options;
    options.executor = executor;
    const auto values = RunOnce(g, {{x, *Tensor::Scalar(1.0f)}}, {behind, beside, nested}, options);
    ASSERT_EQ(values.size(), 3u);
    EXPECT_EQ(values[0].scalar<float>(), 72);
    EXPECT_EQ(values[1].scalar<float>(), 32);
    EXPECT_EQ(values[2].scalar<float>(), 625);
  }
}

}  // namespace
}  // namespace tenon::engine::control_flow_test
