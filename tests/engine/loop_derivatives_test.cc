// SPDX-License-Identifier: Apache-2.0
// Derivatives through loops and branches to the third order, and by variables that are read inside them: each by
// differences of the one before, in every executor. Covers K1, K6, K7, K10.
#include <cmath>
#include <functional>

#include "tests/engine/engine.h"

namespace tenon::engine::loop_derivatives_test {
namespace {

using Outputs = std::vector<Output>;
using Part = std::function<Outputs(const Outputs&)>;

std::vector<SessionOptions> Ways() {
  std::vector<SessionOptions> ways(4);
  ways[1].executor = TENON_EXECUTOR_DYNAMIC;
  ways[2].optimize = false;
  ways[3].executor = TENON_EXECUTOR_DYNAMIC;
  ways[3].debug.schedule_seed = 3;
  return ways;
}

// What is derived by: fed each time, or a variable that is assigned before the step.
struct Derived {
  Graph& g;
  Output x;
  Shape shape;
  Operation assign{};  // of a variable
  Output given{};      // what it assigns

  static Derived Fed(Graph& g, const Shape& shape) { return {g, g.Placeholder("x", DType::kDouble, shape), shape}; }
  static Derived Variable(Graph& g, const Shape& shape) {
    Derived d{g, g.Op("VarHandleOp", {}, {{"dtype", DType::kDouble}, {"shape", shape}, {"shared_name", "v"}}, "v"),
              shape};
    d.given = g.Placeholder("given", DType::kDouble, shape);
    d.assign = g.AddNode("AssignVariableOp", {d.x, d.given}, {{"dtype", DType::kDouble}});
    return d;
  }
  Output Read(const Output& handle) const { return g.Op("ReadVariableOp", {handle}, {{"dtype", DType::kDouble}}); }
  Output Read() const { return Read(x); }
  Output Rows(const Output& handle, const Output& indices) const {
    return g.Op("ResourceGather", {handle, indices}, {{"dtype", DType::kDouble}});
  }
};

Output Sum(Graph& g, const Output& value) { return g.Op("Sum", {g.Op("Reshape", {value, g.Const({-1})}), g.Const(0)}); }

Output DenseOf(Graph& g, const Gradient& gradient) {
  if (gradient.kind != Gradient::Kind::kSlices) return gradient.dense;
  const Output rows =
      g.Op("StridedSlice", {gradient.dense_shape, g.Const({0}), g.Const({1}), g.Const({1})}, {{"shrink_axis_mask", 1}});
  return g.Op("UnsortedSegmentSum", {gradient.dense, gradient.indices, rows});
}

// The gradients of y, of y's gradient (in a direction), and so on to `order`: the last is of the x, and by it the one
// before is compared.
void CheckDerivatives(const Derived& d, const Output& y, const std::vector<double>& at, int order = 3) {
  Graph& g = d.g;
  Outputs functions = {Sum(g, y)}, gradients;
  for (int k = 0; k < order; ++k) {
    const std::vector<Gradient> found = g.Gradients({functions.back()}, {d.x});
    ASSERT_TRUE(g.status().ok()) << "order " << k + 1 << ": " << g.status().message();
    if (found[0].kind == Gradient::Kind::kNone)
      break;  // no further dependence: what is left must be 0 by differences too
    gradients.push_back(DenseOf(g, found[0]));
    std::vector<double> direction;
    for (size_t i = 0; i < at.size(); ++i) direction.push_back(1 + 0.37 * static_cast<double>(i));
    functions.push_back(Sum(
        g, g.Op("Mul",
                {gradients.back(),
                 g.Op("Reshape", {g.Const(View(TensorOf(DType::kDouble, {static_cast<int64_t>(at.size())}, direction))),
                                  g.Op("Shape", {gradients.back()})})})));
  }
  ASSERT_FALSE(gradients.empty()) << "nothing depends on it";
  for (const SessionOptions& way : Ways()) {
    auto session = Session::Create(TheRuntime(), g, way);
    ASSERT_TRUE(session.ok()) << session.status().message();
    const auto run = [&](const std::vector<double>& point, const Output& what) -> std::vector<double> {
      const Tensor value = TensorOf(DType::kDouble, d.shape, point);
      if (d.given.valid()) {
        EXPECT_TRUE(session->Run({{d.given, value}}, {}, {d.assign}).ok());
      }
      auto out = d.given.valid() ? session->Run({}, {what}) : session->Run({{d.x, value}}, {what});
      EXPECT_TRUE(out.ok()) << out.status().message();
      return out.ok() ? Values<double>((*out)[0]) : std::vector<double>{NAN};
    };
    for (int k = 0; k < order; ++k) {
      if (k == static_cast<int>(functions.size())) break;
      const bool none = k == static_cast<int>(gradients.size());
      const std::vector<double> derived = none ? std::vector<double>(at.size(), 0.0) : run(at, gradients[k]);
      ASSERT_EQ(derived.size(), at.size());
      for (size_t i = 0; i < at.size(); ++i) {
        std::vector<double> up = at, down = at;
        up[i] += 1e-5;
        down[i] -= 1e-5;
        const double difference = (run(up, functions[k])[0] - run(down, functions[k])[0]) / 2e-5;
        EXPECT_NEAR(derived[i], difference, 2e-5 * std::max(1.0, std::abs(difference)))
            << "order " << k + 1 << ", element " << i;
      }
    }
  }
}

Output Less(Graph& g, const Output& i, int32_t end) { return g.Op("Less", {i, g.Const(end)}); }
Output Next(Graph& g, const Output& i) { return g.Op("AddV2", {i, g.Const(1)}); }

// ---- Loops ----

TEST(LoopDerivatives, OfAPower) {
  Graph g(TheRuntime());
  const Derived d = Derived::Fed(g, {2});
  const Outputs out = While(
      g, {g.Const(0), d.x}, {d.x}, [&](const Outputs& v) { return Less(g, v[0], 3); },
      [&](const Outputs& v) { return Outputs{Next(g, v[0]), g.Op("Mul", {v[1], v[2]})}; });
  CheckDerivatives(d, out[1], {1.5, -0.7});
}

TEST(LoopDerivatives, OfWhatTheConditionComputes) {
  Graph g(TheRuntime());
  const Derived d = Derived::Fed(g, {});
  // The square is computed before the loop is known to go on, and used in the turn.
  Output square;
  const Outputs out = While(
      g, {g.Const(0), d.x}, {g.Const(30.0)},
      [&](const Outputs& v) {
        square = g.Op("Mul", {v[1], v[1]});
        return g.Op("LogicalAnd", {Less(g, v[0], 4), g.Op("Less", {square, v[2]})});
      },
      [&](const Outputs& v) {
        return Outputs{Next(g, v[0]), g.Op("AddV2", {g.Op("Sin", {v[1]}), g.Op("Mul", {v[1], v[1]})})};
      });
  CheckDerivatives(d, out[1], {1.1});
}

TEST(LoopDerivatives, WhenTheLengthDependsOnTheData) {
  Graph g(TheRuntime());
  const Derived d = Derived::Fed(g, {});
  const Outputs out = While(
      g, {d.x}, {d.x, g.Const(100.0)}, [&](const Outputs& v) { return g.Op("Less", {v[0], v[2]}); },
      [&](const Outputs& v) { return Outputs{g.Op("Mul", {v[0], v[1]})}; });
  CheckDerivatives(d, out[0], {1.7});
}

TEST(LoopDerivatives, OfNoTurnAtAll) {
  Graph g(TheRuntime());
  const Derived d = Derived::Fed(g, {2});
  const Outputs out = While(
      g, {g.Const(0), d.x}, {d.x}, [&](const Outputs& v) { return Less(g, v[0], 0); },
      [&](const Outputs& v) { return Outputs{Next(g, v[0]), g.Op("Mul", {v[1], v[2]})}; });
  CheckDerivatives(d, g.Op("Mul", {out[1], g.Op("Mul", {d.x, d.x})}), {1.5, -0.7});
}

TEST(LoopDerivatives, OfNestedLoops) {
  Graph g(TheRuntime());
  const Derived d = Derived::Fed(g, {});
  const Outputs out = While(
      g, {g.Const(0), d.x}, {d.x}, [&](const Outputs& v) { return Less(g, v[0], 2); },
      [&](const Outputs& v) {
        const Outputs in = While(
            g, {g.Op("Identity", {g.Const(0)}), v[1]}, {v[2]}, [&](const Outputs& w) { return Less(g, w[0], 2); },
            [&](const Outputs& w) {
              return Outputs{Next(g, w[0]), g.Op("Mul", {g.Op("Sin", {w[1]}), w[2]})};
            },
            {"inner"});
        return Outputs{Next(g, v[0]), g.Op("Mul", {g.Op("AddV2", {in[1], v[2]}), v[1]})};
      },
      {"outer"});
  CheckDerivatives(d, out[1], {0.9});
}

TEST(LoopDerivatives, OfNestedLoopsThreeDeep) {
  Graph g(TheRuntime());
  const Derived d = Derived::Fed(g, {});
  const std::function<Output(int, const Output&, const Output&)> nest = [&](int depth, const Output& y,
                                                                            const Output& x) -> Output {
    if (depth == 0) return g.Op("Mul", {g.Op("Sin", {y}), x});
    return While(
        g, {g.Op("Identity", {g.Const(0)}), y}, {x}, [&](const Outputs& v) { return Less(g, v[0], 2); },
        [&](const Outputs& v) { return Outputs{Next(g, v[0]), g.Op("AddV2", {nest(depth - 1, v[1], v[2]), v[1]})}; },
        {"depth_" + std::to_string(depth)})[1];
  };
  CheckDerivatives(d, nest(3, d.x, d.x), {0.4}, 2);
}

TEST(LoopDerivatives, WithAConditionalInTheLoop) {
  Graph g(TheRuntime());
  const Derived d = Derived::Fed(g, {});
  const Outputs out = While(
      g, {g.Const(0), d.x}, {d.x}, [&](const Outputs& v) { return Less(g, v[0], 5); },
      [&](const Outputs& v) {
        const Output even = g.Op("Equal", {g.Op("FloorMod", {v[0], g.Const(2)}), g.Const(0)});
        const Outputs y = Cond(
            g, even, {v[1], v[2]},
            [&](const Outputs& w) {
              return Outputs{g.Op("Mul", {g.Op("Mul", {w[0], w[1]}), w[0]})};
            },
            [&](const Outputs& w) { return Outputs{g.Op("Sin", {w[0]})}; });
        return Outputs{Next(g, v[0]), y[0]};
      });
  CheckDerivatives(d, out[1], {1.2});
}

TEST(LoopDerivatives, WithALoopInABranch) {
  for (const bool taken : {true, false}) {
    Graph g(TheRuntime());
    const Derived d = Derived::Fed(g, {});
    const Outputs y = Cond(
        g, g.Op("Greater", {d.x, g.Const(taken ? 0.0 : 10.0)}), {d.x},
        [&](const Outputs& v) {
          return Outputs{While(
              g, {g.Op("Identity", {g.Const(0)}), v[0]}, {v[0]}, [&](const Outputs& w) { return Less(g, w[0], 3); },
              [&](const Outputs& w) { return Outputs{Next(g, w[0]), g.Op("Mul", {w[1], w[2]})}; })[1]};
        },
        [&](const Outputs& v) { return Outputs{g.Op("Mul", {v[0], v[0]})}; });
    CheckDerivatives(d, y[0], {1.3});
  }
}

TEST(LoopDerivatives, OfALoopAfterALoop) {
  Graph g(TheRuntime());
  const Derived d = Derived::Fed(g, {2});
  const auto loop = [&](const Output& begin, const char* name) {
    return While(
        g, {g.Const(0), begin}, {d.x}, [&](const Outputs& v) { return Less(g, v[0], 2); },
        [&](const Outputs& v) { return Outputs{Next(g, v[0]), g.Op("Mul", {g.Op("Sin", {v[1]}), v[2]})}; }, {name})[1];
  };
  CheckDerivatives(d, loop(loop(d.x, "first"), "second"), {0.8, -1.1});
}

TEST(LoopDerivatives, OfFunctionalLoopsAndBranches) {
  Graph g(TheRuntime());
  const Derived d = Derived::Fed(g, {});
  const Function more = Define(g, "more", [](Graph& b, const Outputs& v) { return Less(b, v[0], 3); },
                               {DType::kInt32, DType::kDouble, DType::kDouble});
  const Function square = Define(g, "square_it",
                                 [](Graph& b, const Outputs& v) {
                                   return b.Op("Mul", {v[0], v[0]});
                                 },
                                 {DType::kDouble});
  const Function sine =
      Define(g, "sine", [](Graph& b, const Outputs& v) { return b.Op("Sin", {v[0]}); }, {DType::kDouble});
  const Function body = Define(g, "turn",
                               [&](Graph& b, const Outputs& v) {
                                 const Output even = b.Op("Equal", {b.Op("FloorMod", {v[0], b.Const(2)}), b.Const(0)});
                                 const Output picked = Cond(b, even, {v[1]}, square, sine)[0];
                                 return Outputs{Next(b, v[0]), b.Op("Mul", {picked, v[2]}), v[2]};
                               },
                               {DType::kInt32, DType::kDouble, DType::kDouble});
  CheckDerivatives(d, While(g, {g.Const(0), d.x, d.x}, more, body)[1], {0.9});
}

// A variable that each turn makes anew, of another shape or, a list, of another length than it had: nothing comes back
// through it, in the shape that it had.
TEST(LoopDerivatives, ThroughAVariableThatATurnReplaces) {
  for (const auto& [list, frames] : {std::pair(false, false), {true, false}, {false, true}, {true, true}}) {
    SCOPED_TRACE(std::string(list ? "a list" : "a tensor") + (frames ? ", in frames" : ""));
    Graph g(TheRuntime());
    const Derived d = Derived::Fed(g, {2});
    const auto list_of = [](Graph& b, const Output& rows) {
      return b.Op("TensorListFromTensor", {rows, b.Const(-1)}, {{"element_dtype", DType::kDouble}});
    };
    const Output twice = g.Op("ConcatV2", {d.x, g.Op("Sin", {d.x}), g.Const(0)});
    const std::vector<Argument> types = {
        DType::kInt32, {list ? DType::kVariant : DType::kDouble, list ? Shape() : Shape({-1})}, {DType::kDouble, {2}}};
    const auto more = [](Graph& b, const Outputs& v) { return Less(b, v[0], 3); };
    const auto turn = [&, list = list](Graph& b, const Outputs& v) {
      const Output fresh = b.Const({0.5, 0.25, 0.125});
      return Outputs{Next(b, v[0]), list ? list_of(b, fresh) : fresh, b.Op("Mul", {v[2], v[2]})};
    };
    const Outputs first = {g.Const(0), list ? list_of(g, twice) : twice, d.x};
    const Outputs out = frames ? While(g, first, {}, std::bind_front(more, std::ref(g)),
                                       std::bind_front(turn, std::ref(g)))
                               : While(g, first, Define(g, "more", more, types), Define(g, "turn", turn, types));
    CheckDerivatives(d, out[2], {0.9, -0.7}, 2);
  }
}

TEST(LoopDerivatives, OfElementFunctions) {
  Graph g(TheRuntime());
  const Derived d = Derived::Fed(g, {3});
  const Function cube = Define(g, "cube",
                               [](Graph& b, const Outputs& v) {
                                 return b.Op("Mul", {b.Op("Mul", {v[0], v[0]}), v[0]});
                               },
                               {DType::kDouble});
  const Function step = Define(g, "step",
                               [](Graph& b, const Outputs& v) {
                                 return b.Op("Mul", {b.Op("Sin", {v[0]}), v[1]});
                               },
                               {DType::kDouble, DType::kDouble});
  const Output mapped = MapFunction(g, cube, {d.x})[0];
  const Output scanned = Scan(g, step, {g.Op("Sum", {d.x, g.Const(0)})}, {mapped})[0];
  CheckDerivatives(d, scanned, {0.7, 1.1, -0.6});
}

// A TensorArray that a loop writes and another one reads, or a turn writes and reads: its gradients are in arrays of
// their own.
TEST(LoopDerivatives, OfTensorArrays) {
  for (const bool in_turn : {false, true}) {
    Graph g(TheRuntime());
    const Derived d = Derived::Fed(g, {});
    const auto array = [&](const Output& size) {
      return g.AddNode("TensorArrayV3", {size}, {{"dtype", DType::kDouble}});
    };
    const auto write = [&](const Operation& to, const Output& at, const Output& value, const Output& flow) {
      return g.Op("TensorArrayWriteV3", {to.output(0), at, value, flow});
    };
    const auto read = [&](const Output& handle, const Output& at, const Output& flow) {
      return g.Op("TensorArrayReadV3", {handle, at, flow}, {{"dtype", DType::kDouble}});
    };
    if (in_turn) {
      const Outputs out = While(
          g, {g.Const(0), d.x}, {d.x}, [&](const Outputs& v) { return Less(g, v[0], 3); },
          [&](const Outputs& v) {
            const Operation made = array(g.Const(1));
            const Output flow = write(made, g.Const(0), g.Op("Mul", {v[1], v[2]}), made.output(1));
            return Outputs{Next(g, v[0]), g.Op("Mul", {g.Op("Sin", {read(made.output(0), g.Const(0), flow)}), v[2]})};
          });
      CheckDerivatives(d, out[1], {1.2});
      continue;
    }
    const Operation made = array(g.Const(3));
    const Outputs written = While(
        g, {g.Const(0), d.x, made.output(1)}, {d.x, made.output(0)}, [&](const Outputs& v) { return Less(g, v[0], 3); },
        [&](const Outputs& v) {
          const Output y = g.Op("Mul", {v[1], v[3]});
          return Outputs{Next(g, v[0]), y, g.Op("TensorArrayWriteV3", {v[4], v[0], g.Op("Sin", {y}), v[2]})};
        },
        {"writing"});
    const Outputs out = While(
        g, {g.Const(0), d.x}, {made.output(0), written[2]}, [&](const Outputs& v) { return Less(g, v[0], 3); },
        [&](const Outputs& v) {
          return Outputs{
              Next(g, v[0]),
              g.Op("Mul", {v[1], g.Op("TensorArrayReadV3", {v[2], v[0], v[3]}, {{"dtype", DType::kDouble}})})};
        },
        {"reading"});
    CheckDerivatives(d, out[1], {1.2});
  }
}

// ---- Variables that are read inside ----

TEST(LoopDerivatives, ByAVariableThatALoopReads) {
  Graph g(TheRuntime());
  const Derived d = Derived::Variable(g, {2});
  const Outputs out = While(
      g, {g.Const(0), g.Const({1.0, 2.0})}, {d.x}, [&](const Outputs& v) { return Less(g, v[0], 3); },
      [&](const Outputs& v) { return Outputs{Next(g, v[0]), g.Op("Mul", {g.Op("Sin", {v[1]}), d.Read(v[2])})}; });
  CheckDerivatives(d, g.Op("AddV2", {out[1], d.Read()}), {0.8, -1.1});
}

TEST(LoopDerivatives, ByAVariableWhoseHandleGoesRound) {
  Graph g(TheRuntime());
  const Derived d = Derived::Variable(g, {2});
  const Outputs out = While(
      g, {g.Const(0), g.Const({1.0, 2.0}), d.x}, {}, [&](const Outputs& v) { return Less(g, v[0], 3); },
      [&](const Outputs& v) { return Outputs{Next(g, v[0]), g.Op("Mul", {g.Op("Sin", {v[1]}), d.Read(v[2])}), v[2]}; });
  CheckDerivatives(d, g.Op("Mul", {out[1], d.Read(out[2])}), {0.8, -1.1});
}

TEST(LoopDerivatives, ByAVariableThatNestedLoopsAndBranchesRead) {
  Graph g(TheRuntime());
  const Derived d = Derived::Variable(g, {});
  const Outputs out = While(
      g, {g.Const(0), g.Const(0.6)}, {d.x}, [&](const Outputs& v) { return Less(g, v[0], 3); },
      [&](const Outputs& v) {
        const Output even = g.Op("Equal", {g.Op("FloorMod", {v[0], g.Const(2)}), g.Const(0)});
        const Outputs y = Cond(
            g, even, {v[1], v[2]},
            [&](const Outputs& w) {
              return Outputs{g.Op("Mul", {w[0], g.Op("Square", {d.Read(w[1])})})};
            },
            [&](const Outputs& w) { return Outputs{g.Op("Sin", {w[0]})}; });
        const Outputs in = While(
            g, {g.Op("Identity", {g.Const(0)}), y[0]}, {v[2]}, [&](const Outputs& w) { return Less(g, w[0], 2); },
            [&](const Outputs& w) { return Outputs{Next(g, w[0]), g.Op("Mul", {w[1], d.Read(w[2])})}; }, {"inner"});
        return Outputs{Next(g, v[0]), in[1]};
      },
      {"outer"});
  CheckDerivatives(d, out[1], {1.2}, 2);
}

TEST(LoopDerivatives, ByAVariableThatOneBranchReads) {
  for (const bool taken : {true, false}) {
    Graph g(TheRuntime());
    const Derived d = Derived::Variable(g, {2});
    const Outputs y = Cond(
        g, g.Const(taken), {d.x}, [&](const Outputs& v) { return Outputs{g.Op("Sin", {d.Read(v[0])})}; },
        [&](const Outputs&) { return Outputs{g.Const({1.0, 2.0})}; });
    CheckDerivatives(d, g.Op("Mul", {y[0], d.Read()}), {0.8, -1.1});
  }
}

TEST(LoopDerivatives, ByAVariableInFunctionalLoopsAndBranches) {
  Graph g(TheRuntime());
  const Derived d = Derived::Variable(g, {});
  const auto read = [](Graph& b, const Output& handle) {
    return b.Op("ReadVariableOp", {handle}, {{"dtype", DType::kDouble}});
  };
  const Function more = Define(g, "more", [](Graph& b, const Outputs& v) { return Less(b, v[0], 3); },
                               {DType::kInt32, DType::kDouble, DType::kResource});
  const Function twice = Define(g, "with_it",
                                [&](Graph& b, const Outputs& v) {
                                  return b.Op("Mul", {v[0], read(b, v[1])});
                                },
                                {DType::kDouble, DType::kResource});
  const Function without = Define(g, "without_it", [](Graph& b, const Outputs& v) { return b.Op("Sin", {v[0]}); },
                                  {DType::kDouble, DType::kResource});
  const Function body = Define(g, "turn",
                               [&](Graph& b, const Outputs& v) {
                                 const Output even = b.Op("Equal", {b.Op("FloorMod", {v[0], b.Const(2)}), b.Const(0)});
                                 const Output picked = Cond(b, even, {v[1], v[2]}, twice, without)[0];
                                 return Outputs{Next(b, v[0]), b.Op("Mul", {b.Call(twice, {picked, v[2]}), v[1]}),
                                                v[2]};
                               },
                               {DType::kInt32, DType::kDouble, DType::kResource});
  CheckDerivatives(d, While(g, {g.Const(0), g.Const(0.9), d.x}, more, body)[1], {1.2});
}

// Rows of a variable, small or so large that no turn sums a whole one.
void CheckRows(const Shape& shape, const std::vector<double>& at, bool in_branches) {
  Graph g(TheRuntime());
  const Derived d = Derived::Variable(g, shape);
  const Outputs out = While(
      g, {g.Const(0), g.Const({1.0, 2.0})}, {d.x}, [&](const Outputs& v) { return Less(g, v[0], 3); },
      [&](const Outputs& v) {
        // Rows 0, 1; 1, 2; 2, 3.
        const Output indices = g.Op("Pack", {v[0], Next(g, v[0])});
        Output rows = d.Rows(v[2], indices);
        if (in_branches)
          rows = Cond(
              g, g.Op("Equal", {v[0], g.Const(1)}), {v[2], indices},
              [&](const Outputs& w) { return Outputs{g.Op("Square", {d.Rows(w[0], w[1])})}; },
              [&](const Outputs& w) {
                return Outputs{
                    g.Op("Identity", {g.Op("ZerosLike", {g.Op("Cast", {w[1]}, {{"DstT", DType::kDouble}})})})};
              })[0];
        const Output sum = in_branches && rows.shape().dims().size() < 2 ? rows : g.Op("Sum", {rows, g.Const(0)});
        return Outputs{Next(g, v[0]), g.Op("Mul", {v[1], g.Op("AddV2", {sum, g.Const({1.0, 1.0})})})};
      });
  CheckDerivatives(d, out[1], at, 2);
}

TEST(LoopDerivatives, ByRowsThatALoopGathers) { CheckRows({4, 2}, {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8}, false); }

TEST(LoopDerivatives, ByRowsOfALargeTableStayRows) {
  Graph g(TheRuntime());
  const int64_t rows = 1 << 20;
  const Output table = g.Op("VarHandleOp", {}, {{"dtype", DType::kDouble}, {"shape", Shape{rows, 2}}}, "table");
  const Operation fill =
      g.AddNode("AssignVariableOp", {table, g.Op("Fill", {g.Const({static_cast<int32_t>(rows), 2}), g.Const(0.5)})},
                {{"dtype", DType::kDouble}});
  const auto gather = [&](const Output& handle, const Output& indices) {
    return g.Op("ResourceGather", {handle, indices}, {{"dtype", DType::kDouble}});
  };
  const Outputs out = While(
      g, {g.Const(0), g.Const(0.0)}, {table}, [&](const Outputs& v) { return Less(g, v[0], 3); },
      [&](const Outputs& v) {
        const Output picked = Cond(
            g, g.Op("Equal", {v[0], g.Const(1)}), {v[2], v[0]}, [&](const Outputs&) { return Outputs{g.Const(1.0)}; },
            [&](const Outputs& w) {
              return Outputs{Sum(g, g.Op("Square", {gather(w[0], g.Op("Pack", {w[1], g.Const(7)}))}))};
            })[0];
        return Outputs{Next(g, v[0]), g.Op("AddV2", {v[1], picked})};
      });
  const std::vector<Gradient> found = g.Gradients({out[1]}, {table});
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  ASSERT_EQ(found[0].kind, Gradient::Kind::kSlices) << "a whole table a turn would be 16 MB each";
  for (const SessionOptions& way : Ways()) {
    auto session = Session::Create(TheRuntime(), g, way);
    ASSERT_TRUE(session.ok() && session->Run({}, {}, {fill}).ok());
    auto values = session->Run({}, {found[0].indices, found[0].dense, found[0].dense_shape});
    ASSERT_TRUE(values.ok()) << values.status().message();
    // The turns 2 and 0; the last comes first.
    EXPECT_EQ(DoublesOf((*values)[0]), (std::vector<double>{2, 7, 0, 7}));
    EXPECT_EQ(DoublesOf((*values)[1]), std::vector<double>(8, 1.0));
    EXPECT_EQ(DoublesOf((*values)[2]), (std::vector<double>{static_cast<double>(rows), 2}));
  }
}

TEST(LoopDerivatives, ByAHandleThatIsAnotherOneEachTurnIsRefused) {
  Graph g(TheRuntime());
  const Derived d = Derived::Variable(g, {});
  const Output other =
      g.Op("VarHandleOp", {}, {{"dtype", DType::kDouble}, {"shape", Shape{}}, {"shared_name", "other"}}, "other");
  const Outputs out = While(
      g, {g.Const(0), g.Const(1.0), d.x, other}, {}, [&](const Outputs& v) { return Less(g, v[0], 3); },
      [&](const Outputs& v) { return Outputs{Next(g, v[0]), g.Op("Mul", {v[1], d.Read(v[2])}), v[3], v[2]}; });
  g.Gradients({out[1]}, {d.x});
  EXPECT_EQ(g.status().code(), Code::kUnimplemented) << g.status();
  EXPECT_NE(g.status().message().find("another variable's handle from turn to turn"), std::string::npos) << g.status();
}

// As TensorFlow's gradients of nested loops have it: all inner turns of all outer turns push on one stack of the step.
TEST(LoopDerivatives, ThroughAStackOfTheStepThatNestedLoopsUse) {
  Graph g(TheRuntime());
  const Derived d = Derived::Fed(g, {});
  const Output stack = g.Op("StackV2", {g.Const(-1)}, {{"elem_type", DType::kDouble}});
  const auto nest = [&](const std::string& name, const Output& begin, const Output& handle,
                        const std::function<Output(const Output& y, const Output& handle)>& turn) {
    return While(
        g, {g.Const(0), begin}, {handle}, [&](const Outputs& v) { return Less(g, v[0], 2); },
        [&](const Outputs& v) {
          const Outputs in = While(
              g, {g.Op("Identity", {g.Const(0)}), v[1]}, {v[2]}, [&](const Outputs& w) { return Less(g, w[0], 3); },
              [&](const Outputs& w) {
                // The next turn begins when this one has pushed or popped.
                const Output y = turn(w[1], w[2]);
                const auto after = g.ControlDependencies({Operation(y)});
                return Outputs{Next(g, w[0]), y};
              },
              {name + "_inner"});
          const auto after = g.ControlDependencies({Operation(in[1])});
          return Outputs{Next(g, v[0]), in[1]};
        },
        {name});
  };
  const Outputs first = nest("pushing", d.x, stack, [&](const Output& y, const Output& handle) {
    return g.Op("Sin", {g.Op("StackPushV2", {handle, g.Op("Mul", {y, y})})});
  });
  const auto after = g.ControlDependencies({Operation(first[1])});
  const Outputs last =
      nest("popping", g.Op("Identity", {d.x}), g.Op("Identity", {stack}), [&](const Output& y, const Output& handle) {
        return g.Op("AddV2", {g.Op("Cos", {y}),
                              g.Op("Mul", {y, g.Op("StackPopV2", {handle}, {{"elem_type", DType::kDouble}})})});
      });
  CheckDerivatives(d, last[1], {1.2});
}

// A stack of the user's own, on which two nodes push, hides which value comes back.
TEST(LoopDerivatives, ThroughAStackOfTwoPushesAreRefused) {
  Graph g(TheRuntime());
  const Derived d = Derived::Fed(g, {});
  const Output stack = g.Op("StackV2", {g.Const(-1)}, {{"elem_type", DType::kDouble}});
  const Outputs first = While(
      g, {g.Const(0), d.x}, {stack}, [&](const Outputs& v) { return Less(g, v[0], 2); },
      [&](const Outputs& v) {
        const Output once = g.Op("StackPushV2", {v[2], v[1]}),
                     twice = g.Op("StackPushV2", {v[2], g.Op("Square", {once})});
        return Outputs{Next(g, v[0]), g.Op("Sin", {twice})};
      },
      {"pushing"});
  const auto after = g.ControlDependencies({Operation(first[0])});
  const Outputs last = While(
      g, {g.Const(0), g.Const(0.0)}, {g.Op("Identity", {stack})}, [&](const Outputs& v) { return Less(g, v[0], 2); },
      [&](const Outputs& v) {
        return Outputs{Next(g, v[0]),
                       g.Op("AddV2", {v[1], g.Op("StackPopV2", {v[2]}, {{"elem_type", DType::kDouble}})})};
      },
      {"popping"});
  g.Gradients({last[1]}, {d.x});
  EXPECT_EQ(g.status().code(), Code::kUnimplemented) << g.status();
  EXPECT_NE(g.status().message().find("give each value a stack of its own"), std::string::npos) << g.status();
}

}  // namespace
}  // namespace tenon::engine::loop_derivatives_test
