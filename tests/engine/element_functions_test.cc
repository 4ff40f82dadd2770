// SPDX-License-Identifier: Apache-2.0
// Fold, Scan and MapWithState against the loops that they stand for and TensorFlow's, and their gradients against
// differences. Covers B14, L9.
#include <cmath>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "tests/engine/engine.h"

namespace tenon::engine::element_functions_test {
namespace {

using Outputs = std::vector<Output>;

Output At(const Outputs& outputs, size_t i) { return i < outputs.size() ? outputs[i] : Output(); }

void ExpectNear(const std::vector<double>& found, const std::vector<double>& wanted, const char* what,
                double tolerance = 1e-12) {
  ASSERT_EQ(found.size(), wanted.size()) << what;
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], wanted[i], tolerance) << what << "[" << i << "]";
}
void ExpectText(const Status& status, const std::string& part) {
  EXPECT_EQ(status.code(), Code::kInvalidArgument) << status;
  EXPECT_NE(status.message().find(part), std::string::npos) << status;
}

struct ElementFunctions : ::testing::Test {
  Graph g{TheRuntime()};
  // s tanh(w x) + x, of scalars: the order of the elements matters.
  Function Step() {
    return Define(g, "step",
                  [](Graph& b, const Outputs& v) {
                    return b.Op("AddV2", {b.Op("Mul", {v[0], b.Op("Tanh", {b.Op("Mul", {v[2], v[1]})})}), v[1]});
                  },
                  {DType::kDouble, DType::kDouble, DType::kDouble});
  }
  static double StepByHand(double s, double x, double w) { return s * std::tanh(w * x) + x; }

  std::vector<std::vector<double>> Run(const Outputs& fetches, const std::vector<Feed>& feeds = {}) {
    EXPECT_TRUE(g.status().ok()) << g.status();
    std::vector<std::vector<double>> values;
    if (g.status().ok())
      for (const Tensor& tensor : RunOnce(g, feeds, {fetches.begin(), fetches.end()}))
        values.push_back(DoublesOf(tensor));
    values.resize(fetches.size(), {std::nan("")});
    return values;
  }
  Status Failed(const Output& y, const std::vector<Feed>& feeds = {}) {
    auto session = Session::Create(TheRuntime(), g);
    return session.ok() ? session->Run(feeds, {y}).status() : session.status();
  }
};

TEST_F(ElementFunctions, AreTheLoops) {
  const std::vector<double> xs{0.5, -1, 2, 0.25};
  const Output x = g.Const(xs, {4}), first = g.Const(0.75), w = g.Const(1.5);
  for (const bool reverse : {false, true}) {
    ElementOptions options;
    options.reverse = reverse;
    options.invariants = {w};
    const auto values =
        Run({At(Fold(g, Step(), {first}, {x}, options), 0), At(Scan(g, Step(), {first}, {x}, options), 0)});
    std::vector<double> states(4);
    double s = 0.75;
    for (size_t turn = 0; turn < 4; ++turn) {
      const size_t i = reverse ? 3 - turn : turn;
      states[i] = s = StepByHand(s, xs[i], 1.5);
    }
    ExpectNear(values[0], {s}, "fold");
    ExpectNear(values[1], states, "scan");
  }
}

TEST_F(ElementFunctions, BeginWithTheFirstElement) {
  const Function minus = Define(g, "minus",
                                [](Graph& b, const Outputs& v) {
                                  return b.Op("Sub", {v[0], v[1]});
                                },
                                {DType::kDouble, DType::kDouble});
  const Output x = g.Const(std::vector<double>{1, 2, 4, 8}, {4});
  ElementOptions reverse;
  reverse.reverse = true;
  const auto values = Run({At(Fold(g, minus, {}, {x}), 0), At(Fold(g, minus, {}, {x}, reverse), 0),
                           At(Scan(g, minus, {}, {x}), 0), At(Scan(g, minus, {}, {x}, reverse), 0)});
  ExpectNear(values[0], {-13}, "fold");
  ExpectNear(values[1], {1}, "fold, reversed");
  ExpectNear(values[2], {1, -1, -5, -13}, "scan");
  ExpectNear(values[3], {1, 2, 4, 8}, "scan, reversed");
}

// Fibonacci's numbers beside a running sum of rows, and of two xs.
TEST_F(ElementFunctions, HaveSeveralStatesAndSequences) {
  const Function f =
      Define(g, "f",
             [](Graph& b, const Outputs& v) {
               return Outputs{v[1], b.Op("AddV2", {v[0], v[1]}), b.Op("AddV2", {v[2], b.Op("Mul", {v[3], v[4]})})};
             },
             {DType::kInt64, DType::kInt64, DType::kFloat, DType::kFloat, DType::kFloat});
  const Outputs initial{g.Const(int64_t{0}), g.Const(int64_t{1}), g.Const({0.0f, 0.0f})};
  const Outputs xs{g.Const(std::vector<float>{1, 2, 3, 4, 5, 6}, {3, 2}), g.Const({1.0f, 10.0f, 100.0f})};
  const Outputs folded = Fold(g, f, initial, xs), scanned = Scan(g, f, initial, xs);
  const auto values =
      Run({At(folded, 0), At(folded, 1), At(folded, 2), At(scanned, 0), At(scanned, 1), At(scanned, 2)});
  ExpectNear(values[0], {2}, "");
  ExpectNear(values[1], {3}, "");
  ExpectNear(values[2], {531, 642}, "");
  ExpectNear(values[3], {1, 1, 2}, "");
  ExpectNear(values[4], {1, 2, 3}, "");
  ExpectNear(values[5], {1, 2, 31, 42, 531, 642}, "");
}

TEST_F(ElementFunctions, MapWithStatesAndStopEarly) {
  const Function f = Define(g, "f",
                            [](Graph& b, const Outputs& v) {
                              return Outputs{b.Op("AddV2", {v[0], v[1]}), b.Op("Mul", {v[0], v[1]})};
                            },
                            {{DType::kDouble, Shape()}, {DType::kDouble, Shape()}});
  const Output x = g.Const(std::vector<double>{1, 2, 3, 4}, {4}),
               turns = g.Placeholder("turns", DType::kInt32, Shape());
  const MappedWithState all = MapWithState(g, f, {g.Const(10.0)}, {x});
  ElementOptions some;
  some.turns = turns;
  const MappedWithState few = MapWithState(g, f, {g.Const(10.0)}, {x}, some);
  const Output d = g.Gradients({At(few.results, 0)}, {x})[0].dense;
  const auto values = Run({At(all.states, 0), At(all.results, 0), At(few.states, 0), At(few.results, 0), d},
                          {{turns, View(*Tensor::Scalar(int32_t{2}))}});
  ExpectNear(values[0], {20}, "");
  ExpectNear(values[1], {10, 22, 39, 64}, "");
  ExpectNear(values[2], {13}, "");
  ExpectNear(values[3], {10, 22, 0, 0}, "");
  ExpectNear(values[4], {12, 11, 0, 0}, "gradients");
  ExpectText(Failed(At(few.states, 0), {{turns, View(*Tensor::Scalar(int32_t{5}))}}), "fewer elements than turns");
}

// d(sum of all)/d(x, first state, weight) by central differences.
TEST_F(ElementFunctions, AreDifferentiated) {
  const Output x = g.Placeholder("x", DType::kDouble, {-1}), first = g.Placeholder("s", DType::kDouble, Shape()),
               w = g.Placeholder("w", DType::kDouble, Shape());
  const std::vector<double> at{0.5, -1, 2, 0.25, 0.75, 1.5};  // xs, s, w
  const auto feeds = [&](const std::vector<double>& p) {
    return std::vector<Feed>{{x, View(*Tensor::From(std::vector<double>(p.begin(), p.begin() + 4), {4}))},
                             {first, View(*Tensor::Scalar(p[4]))},
                             {w, View(*Tensor::Scalar(p[5]))}};
  };
  for (const int form : {0, 1, 2, 3}) {
    ElementOptions options;
    options.reverse = form % 2 == 1;
    options.invariants = {w};
    const Output all =
        At(form < 2 ? Fold(g, Step(), {first}, {x}, options) : Scan(g, Step(), {first}, {x}, options), 0);
    const Output y = form < 2 ? all : Output(g.Op("Sum", {g.Op("Square", {all}), g.Const({0})}));
    const auto d = g.Gradients({y}, {x, first, w});
    const auto found = Run({d[0].dense, d[1].dense, d[2].dense}, feeds(at));
    std::vector<double> wanted;
    for (size_t i = 0; i < at.size(); ++i) {
      std::vector<double> up = at, down = at;
      up[i] += 1e-5;
      down[i] -= 1e-5;
      wanted.push_back((Run({y}, feeds(up))[0][0] - Run({y}, feeds(down))[0][0]) / 2e-5);
    }
    ExpectNear(found[0], {wanted.begin(), wanted.begin() + 4}, "dx", 1e-7);
    ExpectNear(found[1], {wanted[4]}, "ds", 1e-7);
    ExpectNear(found[2], {wanted[5]}, "dw", 1e-7);
  }
}

// States a and b, sequences x and y, a weight; or one of each, without first states.
TEST_F(ElementFunctions, AreTensorFlows) {
  const nlohmann::json golden =
      nlohmann::json::parse(std::ifstream(std::string(TENON_GOLDEN_FOLDER) + "/training.json")).at("elements");
  const auto values_of = [](const nlohmann::json& tensor) { return tensor.at("values").get<std::vector<float>>(); };
  const auto constant = [&](const nlohmann::json& tensor) {
    return g.Const(values_of(tensor), Shape(tensor.at("shape").get<std::vector<int64_t>>()));
  };
  const Function two = Define(g, "two",
                              [](Graph& b, const Outputs& v) {  // a, b, x, y, w
                                const Output kept = b.Op("Mul", {v[0], b.Op("Tanh", {b.Op("Mul", {v[4], v[2]})})});
                                return Outputs{b.Op("AddV2", {kept, v[1]}),
                                               b.Op("AddV2", {v[1], b.Op("Mul", {v[2], v[3]})})};
                              },
                              std::vector<Argument>(5, DType::kFloat));
  const Function one = Define(g, "one",
                              [](Graph& b, const Outputs& v) {
                                return b.Op("AddV2", {b.Op("Mul", {v[0], b.Op("Tanh", {v[1]})}), v[1]});
                              },
                              {DType::kFloat, DType::kFloat});
  const Output x = constant(golden["x"]), w = constant(golden["weight"]);
  const Outputs both{x, constant(golden["y"])}, first{constant(golden["first"][0]), constant(golden["first"][1])};
  const auto expect = [](const std::vector<double>& found, const std::vector<float>& wanted) {
    ExpectNear(found, {wanted.begin(), wanted.end()}, "", 2e-5);
  };
  for (const auto& run : golden["cases"]) {
    const bool given = run["given"].get<bool>();
    ElementOptions options;
    options.reverse = run["reverse"].get<bool>();
    if (given) options.invariants = {w};
    const auto go = run["stacked"].get<bool>() ? Scan : Fold;
    const Outputs states = given ? go(g, two, first, both, options) : go(g, one, {}, {x}, options);
    ASSERT_TRUE(g.status().ok()) << g.status();
    Outputs losses, fetches = states;
    for (const Output& state : states)
      losses.push_back(g.Op("Sum", {g.Op("Reshape", {g.Op("Square", {state}), g.Const({-1})}), g.Const({0})}));
    for (const Gradient& d : g.Gradients(losses, given ? Outputs{x, both[1], first[0], first[1], w} : Outputs{x}))
      fetches.push_back(d.dense);
    const auto values = Run(fetches);
    ASSERT_EQ(values.size(), run["states"].size() + run["gradients"].size());
    for (size_t i = 0; i < states.size(); ++i) expect(values[i], values_of(run["states"][i]));
    for (size_t i = states.size(); i < values.size(); ++i)
      expect(values[i], values_of(run["gradients"][i - states.size()]));
  }
}

TEST_F(ElementFunctions, StandInFunctionsAndInOneAnother) {
  const Function add = Define(g, "add",
                              [](Graph& b, const Outputs& v) {
                                return b.Op("AddV2", {v[0], v[1]});
                              },
                              {DType::kDouble, DType::kDouble});
  // sum of the products of the running sums of each row
  const Function row = Define(
      g, "row",
      [&](Graph& b, const Outputs& v) {
        return b.Op("AddV2", {v[0], b.Op("Prod", {At(Scan(b, add, {b.Const(0.0)}, {v[1]}), 0), b.Const({0})})});
      },
      {DType::kDouble, {DType::kDouble, {3}}});
  const Output x = g.Const(std::vector<double>{1, 2, 3, 1, 1, 2}, {2, 3}), y = At(Fold(g, row, {g.Const(0.0)}, {x}), 0);
  const auto values = Run({y, g.Gradients({y}, {x})[0].dense});
  ExpectNear(values[0], {26}, "1 3 6 + 1 2 4");
  ExpectNear(values[1], {18 + 6 + 3, 6 + 3, 3, 8 + 4 + 2, 4 + 2, 2}, "gradients");
}

TEST_F(ElementFunctions, GoOverNoElement) {
  const Output x = g.Placeholder("x", DType::kDouble, {-1}), w = g.Const(1.0);
  ElementOptions options;
  options.invariants = {w};
  const Function says = Define(g, "says",
                               [](Graph& b, const Outputs& v) {
                                 return b.Op("AddV2", {v[0], v[1]});
                               },
                               {{DType::kDouble, Shape()}, {DType::kDouble, Shape()}});
  const Output folded = At(Fold(g, Step(), {g.Const(3.0)}, {x}, options), 0),
               scanned = At(Scan(g, says, {g.Const(3.0)}, {x}), 0);
  const Output headless = At(Fold(g, says, {}, {x}), 0);
  const std::vector<double> none;
  const auto values = Run({folded, scanned, g.Gradients({scanned}, {x})[0].dense}, {{x, View(none, {0})}});
  ExpectNear(values[0], {3}, "");
  EXPECT_TRUE(values[1].empty());
  EXPECT_TRUE(values[2].empty());
  ExpectText(Failed(headless, {{x, View(none, {0})}}), "there is no first element to begin with");
  ElementOptions no_turn;
  no_turn.turns = g.Const(int32_t{0});
  no_turn.reverse = true;
  const Output unbegun = At(Fold(g, says, {}, {x}, no_turn), 0);
  ExpectText(Failed(unbegun, {{x, View(std::vector<double>{1}, {1})}}), "there is no first element to begin with");
}

TEST_F(ElementFunctions, TakeAnyNumberOfTurnsAtOnce) {
  const std::vector<double> xs(100, 1.0);
  const Function add = Define(g, "add",
                              [](Graph& b, const Outputs& v) {
                                return b.Op("AddV2", {v[0], v[1]});
                              },
                              {DType::kDouble, DType::kDouble});
  for (const int64_t parallel : {1, 3, 1000}) {
    ElementOptions options;
    options.parallel_iterations = parallel;
    SessionOptions dynamic;
    dynamic.executor = TENON_EXECUTOR_DYNAMIC;
    const Output sum = At(Fold(g, add, {g.Const(0.0)}, {g.Const(xs, {100})}, options), 0);
    ASSERT_TRUE(g.status().ok()) << g.status();
    for (const SessionOptions& session : {SessionOptions(), dynamic})
      EXPECT_EQ(DoublesOf(RunOnce(g, {}, {sum}, session)[0])[0], 100);
  }
}

// ---- What is wrong ----

struct WrongElements : ElementFunctions {
  // The failure of what is built, in a graph of its own.
  static Status Of(const std::function<void(Graph&, const Function& add)>& build) {
    Graph graph(TheRuntime());
    const Function add = Define(graph, "add",
                                [](Graph& b, const Outputs& v) {
                                  return b.Op("AddV2", {v[0], v[1]});
                                },
                                {DType::kFloat, DType::kFloat});
    build(graph, add);
    return graph.status();
  }
};

TEST_F(WrongElements, AreRefusedWhenTheGraphIsMade) {
  ExpectText(Of([](Graph& b, const Function& add) { Fold(b, add, {b.Const(0.0f)}, {}); }),
             "Fold of 'add': there is nothing to go over");
  ExpectText(Of([](Graph& b, const Function& add) { Fold(b, add, {b.Const(0.0f)}, {b.Const(1.0f)}); }),
             "Fold of 'add': x 0 is a scalar");
  ExpectText(Of([](Graph& b, const Function& add) {
               Scan(b, add, {b.Const(0.0f)}, {b.Const({1.0f}), b.Const({1.0f, 2.0f})});
             }),
             "Scan of 'add': x 1 has 2 elements and another has 1");
  ExpectText(Of([](Graph& b, const Function& add) {
               Scan(b, add, {b.Const(0.0f)}, {b.Const({1.0f}), b.Const({1.0f})});
             }),
             "it takes 2 values, and gets 1 states, 2 elements and 0 invariants");
  ExpectText(Of([](Graph& b, const Function& add) { Fold(b, add, {b.Const(int32_t{0})}, {b.Const({1.0f})}); }),
             "state 0 begins as int32 and would go on as float");
  ExpectText(Of([](Graph& b, const Function& add) {
               MapWithState(b, add, {b.Const(0.0f), b.Const(0.0f)}, {b.Const({1.0f})});
             }),
             "it takes 2 values");
  ExpectText(Of([](Graph& b, const Function& add) {
               Fold(b, add, {b.Const(0.0f)}, {b.Const(std::vector<float>{1, 2}, {1, 2})});
             }),
             "state 0 begins with the shape [] and would go on with [2]");
  ExpectText(Of([](Graph& b, const Function& add) { Fold(b, add, {b.Const(0.0f)}, {b.Const({int32_t{1}})}); }),
             "its argument 'x1' is float and gets int32");
  EXPECT_EQ(Of([](Graph& b, const Function&) { Fold(b, Function{"none"}, {b.Const(0.0f)}, {b.Const({1.0f})}); }).code(),
            Code::kNotFound);
  ExpectText(Of([](Graph& b, const Function&) {
               const Function two = Define(b, "two",
                                           [](Graph&, const Outputs& v) {
                                             return Outputs{v[0], v[1]};
                                           },
                                           {DType::kFloat, DType::kFloat});
               Scan(b, two, {b.Const(0.0f)}, {b.Const({1.0f})});
             }),
             "it gives 2 values for 1 states");
  EXPECT_TRUE(Fold(g, Function{"none"}, {}, {}).empty());
}

TEST_F(WrongElements, FailTheStepWhereItAloneKnows) {
  const Function sum = Define(
      g, "sum", [](Graph& b, const Outputs& v) { return b.Op("AddV2", {v[0], b.Op("AddV2", {v[1], v[2]})}); },
      {DType::kDouble, DType::kDouble, DType::kDouble});
  const Output a = g.Placeholder("a", DType::kDouble), b = g.Placeholder("b", DType::kDouble),
               y = At(Fold(g, sum, {g.Const(0.0)}, {a, b}), 0);
  ASSERT_TRUE(g.status().ok()) << g.status();
  const std::vector<double> two{1, 2}, three{1, 2, 3};
  ExpectText(Failed(y, {{a, View(two, {2})}, {b, View(three, {3})}}),
             "Fold: x 0 and another have differently many elements");
  EXPECT_EQ(Failed(y, {{a, View(*Tensor::Scalar(1.0))}, {b, View(three, {3})}}).code(), Code::kInvalidArgument);
  EXPECT_TRUE(Failed(y, {{a, View(two, {2})}, {b, View(two, {2})}}).ok());
}

// A graph that was refused goes on, once its failure is taken.
TEST_F(WrongElements, LeaveTheGraphUsable) {
  const Function add = Define(g, "add",
                              [](Graph& b, const Outputs& v) {
                                return b.Op("AddV2", {v[0], v[1]});
                              },
                              {DType::kFloat, DType::kFloat});
  EXPECT_TRUE(Fold(g, add, {g.Const(0.0f)}, {g.Const(std::vector<float>{1, 2}, {1, 2})}).empty());
  EXPECT_FALSE(g.TakeStatus().ok());
  const auto values = Run({At(Fold(g, add, {g.Const(0.0f)}, {g.Const({1.0f, 2.0f})}), 0)});
  ExpectNear(values[0], {3}, "");
}

}  // namespace
}  // namespace tenon::engine::element_functions_test
