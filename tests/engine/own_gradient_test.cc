// SPDX-License-Identifier: Apache-2.0
// Gradients that a graph brings itself: of an op, of nodes that ask for one, in scopes, loops and files; and where the
// nodes of gradients stand. Covers K5, K9.
#include <set>
#include <string>

#include "tests/engine/engine.h"

namespace tenon::engine::own_gradient_test {
namespace {

// A graph with two functions that may be the gradient of an op of one input: a hundred times what arrives, and, of the
// input too, a thousand times x.
struct Own {
  Own() : g(TheRuntime()) {
    const Attrs floats = {};
    hundred = Define(g, "hundred",
                     [](Graph& body, const std::vector<Output>& in) {
                       return std::vector<Output>{body.Op("Mul", {in[0], body.Const(100.0f)})};
                     },
                     {DType::kFloat});
    by_input =
        Define(g, "by_input",
               [](Graph& body, const std::vector<Output>& in) {
                 return std::vector<Output>{body.Op("Mul", {in[1], body.Op("Mul", {in[0], body.Const(1000.0f)})})};
               },
               {DType::kFloat, DType::kFloat});
    x = g.Placeholder("x", DType::kFloat, Shape{});
  }
  // d(y)/dx at 2.
  Result<float> Slope(const Output& y) {
    const std::vector<Gradient> gradients = g.Gradients({y}, {x});
    if (!g.status().ok()) return g.status();
    auto session = Session::Create(g_runtime(), g);
    if (!session.ok()) return session.status();
    auto values = session->Run({{x, *Tensor::Scalar(2.0f)}}, {gradients[0].dense});
    if (!values.ok()) return values.status();
    return (*values)[0].scalar<float>();
  }
  static Runtime& g_runtime() { return TheRuntime(); }
  Graph g;
  Function hundred, by_input;
  Output x;
};

TEST(OwnGradient, OfAnOpGoesBeforeTheOps) {
  Own o;
  o.g.RegisterGradient("Tanh", o.hundred);
  o.g.RegisterGradient("Tanh", o.hundred);
  EXPECT_FLOAT_EQ(*o.Slope(o.g.Op("Tanh", {o.x})), 100);
  o.g.RegisterGradient("Exp", o.by_input);
  EXPECT_FLOAT_EQ(*o.Slope(o.g.Op("Exp", {o.g.Op("Mul", {o.x, o.g.Const(3.0f)})})), 3 * 1000 * 6);
  o.g.RegisterGradient("Tanh", o.by_input);
  EXPECT_EQ(o.g.status().code(), Code::kAlreadyExists);
  EXPECT_EQ(o.g.status().message(),
            "the gradient of 'Tanh' is the function 'hundred' in this graph, and cannot be 'by_input' too");
}

TEST(OwnGradient, OfNodesUnderAGuardAlone) {
  Own o;
  o.g.RegisterGradient("MyTanh", o.hundred);
  Output inside;
  {
    const auto other = o.g.OverrideGradient("Tanh", "MyTanh");
    inside = o.g.Op("Tanh", {o.x});
    const auto plain = o.g.OverrideGradient("Tanh", "");
    EXPECT_NEAR(*o.Slope(o.g.Op("Tanh", {o.x})), 0.0706508, 1e-6);
  }
  EXPECT_FLOAT_EQ(*o.Slope(inside), 100);
  EXPECT_NEAR(*o.Slope(o.g.Op("Tanh", {o.x})), 0.0706508, 1e-6);
}

TEST(OwnGradient, ThatIsNotThereIsNamedAndNotGuessed) {
  Own o;
  const Output y = o.g.Op("IdentityN", {o.x}, {{"_gradient_op_type", std::string("CustomGradient-12")}});
  const auto slope = o.Slope(y);
  ASSERT_FALSE(slope.ok());
  EXPECT_EQ(slope.status().code(), Code::kUnimplemented);
  EXPECT_NE(slope.status().message().find("gradient of node 'IdentityN' (IdentityN): it asks for the gradient "
                                          "'CustomGradient-12', which the graph does not bring"),
            std::string::npos)
      << slope.status().message();
}

TEST(OwnGradient, OfAFunctionThatIsMissingOrDoesNotFitIsAnError) {
  Own o;
  o.g.RegisterGradient("Tanh", Function{"nobody"});
  EXPECT_EQ(o.g.TakeStatus().code(), Code::kNotFound);
  const Function two = Define(o.g, "two",
                              [](Graph& body, const std::vector<Output>& in) {
                                return std::vector<Output>{in[0], body.Op("Neg", {in[0]})};
                              },
                              {DType::kFloat});
  o.g.RegisterGradient("Tanh", two);
  const auto slope = o.Slope(o.g.Op("Tanh", {o.x}));
  ASSERT_FALSE(slope.ok());
  EXPECT_NE(slope.status().message().find("'two', which is its gradient, gives 2 values for 1 inputs"),
            std::string::npos)
      << slope.status().message();
}

TEST(OwnGradient, OfWhatAsksForItInACallIsThatOfItsFunctionOtherwise) {
  Own o;
  const Function square =
      Define(o.g, "square",
             [](Graph& body, const std::vector<Output>& in) { return std::vector<Output>{body.Op("Square", {in[0]})}; },
             {DType::kFloat});
  const auto call = [&](const char* type) {
    return o.g.Op("PartitionedCall", {o.x},
                  {{"f", square},
                   {"Tin", std::vector<DType>{DType::kFloat}},
                   {"Tout", std::vector<DType>{DType::kFloat}},
                   {"_gradient_op_type", std::string(type)}});
  };
  EXPECT_FLOAT_EQ(*o.Slope(call("PartitionedCall-7")), 4) << "as SavedModels write it of every call";
  o.g.RegisterGradient("PartitionedCall-8", o.hundred);
  EXPECT_FLOAT_EQ(*o.Slope(call("PartitionedCall-8")), 100);
}

TEST(OwnGradient, StandsInLoopsAndInFiles) {
  Own o;
  o.g.RegisterGradient("MyTanh", o.by_input);
  const Function condition = Define(o.g, "condition",
                                    [](Graph& body, const std::vector<Output>& in) {
                                      return std::vector<Output>{body.Op("Less", {in[0], body.Const(3)})};
                                    },
                                    {DType::kInt32, DType::kFloat});
  const Function body_of =
      Define(o.g, "body",
             [](Graph& body, const std::vector<Output>& in) {
               return std::vector<Output>{body.Op("AddV2", {in[0], body.Const(1)}),
                                          body.Op("Relu", {in[1]}, {{"_gradient_op_type", std::string("MyTanh")}})};
             },
             {DType::kInt32, DType::kFloat});
  const Operation loop =
      o.g.AddNode("While", {o.g.Const(0), o.x},
                  {{"T", std::vector<DType>{DType::kInt32, DType::kFloat}}, {"cond", condition}, {"body", body_of}});
  // Three turns of x = relu(x), each of the slope 1000 x.
  EXPECT_FLOAT_EQ(*o.Slope(loop.output(1)), 2000.0f * 2000.0f * 2000.0f);

  Own plain;
  plain.g.RegisterGradient("MyTanh", plain.by_input);
  plain.g.Op("Tanh", {plain.x}, {{"_gradient_op_type", std::string("MyTanh")}}, "y");
  const std::string file = *plain.g.Export();
  auto again = Graph::Import(TheRuntime(), file);
  ASSERT_TRUE(again.ok()) << again.status().message();
  const std::vector<Gradient> gradients = again->Gradients({*again->Find("y")}, {*again->Find("x")});
  ASSERT_TRUE(again->status().ok()) << again->status().message();
  auto session = Session::Create(TheRuntime(), *again);
  ASSERT_TRUE(session.ok());
  auto values = session->Run({{"x", *Tensor::Scalar(2.0f)}}, {gradients[0].dense});
  ASSERT_TRUE(values.ok()) << values.status().message();
  EXPECT_FLOAT_EQ((*values)[0].scalar<float>(), 2000);
}

// ---- Where the nodes of gradients stand ----

std::string DeviceOf(const Graph& g, int64_t node) { return std::string(Text(tenon_graph_node_device(g.get(), node))); }

TEST(GradientDevices, AreThoseOfTheNodesWhoseGradientsTheyAre) {
  Graph g(TheRuntime());
  Output x = g.Placeholder("x", DType::kFloat, {4, 4}), w, hidden, y;
  {
    const auto on = g.Device("/job:ps/task:1");
    w = g.Const(*Tensor::From(std::vector<float>(16, 0.5f), Shape{4, 4}), "w");
  }
  {
    const auto on = g.Device("/device:CPU:0");
    hidden = g.Op("Tanh", {g.Op("MatMul", {x, w})});
  }
  {
    const auto on = g.Device("/device:CPU:1");
    y = g.Op("Sum", {g.Op("Mul", {hidden, hidden}), g.Const({0, 1})});
  }
  const int64_t before = tenon_graph_node_count(g.get());
  const std::vector<Gradient> gradients = g.Gradients({y}, {w});
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  std::set<std::string> devices;
  for (int64_t node = before; node < tenon_graph_node_count(g.get()); ++node) {
    const std::string device = DeviceOf(g, node);
    EXPECT_NE(device, "") << Text(tenon_graph_node_name(g.get(), node));
    devices.insert(device);
  }
  EXPECT_EQ(devices, (std::set<std::string>{"/device:CPU:0", "/device:CPU:1"}));
  EXPECT_EQ(DeviceOf(g, gradients[0].dense.node()), "/device:CPU:0") << "the product's, not the variable's";
}

TEST(GradientDevices, AreTheGuardsAroundWhereTheNodesAskForNone) {
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, {4});
  Output pinned;
  {
    const auto on = g.Device("/device:CPU:1");
    pinned = g.Op("Tanh", {x}, {}, "pinned");
  }
  const Output y = g.Op("Sum", {g.Op("Exp", {pinned}), g.Const({0})});
  const int64_t before = tenon_graph_node_count(g.get());
  {
    const auto on = g.Device("/device:CPU:0");
    (void)g.Gradients({y}, {x});
    EXPECT_EQ(DeviceOf(g, g.Const(1.0f).node()), "/device:CPU:0") << "constants ask for it too";
    const auto nowhere = g.Device("");
    EXPECT_EQ(DeviceOf(g, g.Op("Neg", {x}).node()), "");
  }
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  int at_pinned = 0, around = 0;
  for (int64_t node = before; node < tenon_graph_node_count(g.get()); ++node) {
    at_pinned += DeviceOf(g, node) == "/device:CPU:1" ? 1 : 0;
    around += DeviceOf(g, node) == "/device:CPU:0" ? 1 : 0;
  }
  EXPECT_GT(at_pinned, 0);
  EXPECT_GT(around, at_pinned);
}

TEST(GradientDevices, StandInLoopsToo) {
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{});
  const Function condition = Define(g, "condition",
                                    [](Graph& body, const std::vector<Output>& in) {
                                      return std::vector<Output>{body.Op("Less", {in[0], body.Const(3)})};
                                    },
                                    {DType::kInt32, DType::kFloat});
  const Function turn = Define(
      g, "turn",
      [](Graph& body, const std::vector<Output>& in) {
        const auto on = body.Device("/device:CPU:0");
        return std::vector<Output>{body.Op("AddV2", {in[0], body.Const(1)}), body.Op("Square", {in[1]})};
      },
      {DType::kInt32, DType::kFloat});
  const Operation loop =
      g.AddNode("While", {g.Const(0), x},
                {{"T", std::vector<DType>{DType::kInt32, DType::kFloat}}, {"cond", condition}, {"body", turn}});
  const std::vector<Gradient> gradients = g.Gradients({loop.output(1)}, {x});
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  int placed = 0;
  for (int64_t node = 0; node < tenon_graph_node_count(g.get()); ++node) {
    const std::string name(Text(tenon_graph_node_name(g.get(), node)));
    if (name.starts_with("gradients/") && Text(tenon_graph_node_op(g.get(), node)) == "Mul")
      placed += DeviceOf(g, node) == "/device:CPU:0" ? 1 : 0;
  }
  EXPECT_GT(placed, 0);
  auto session = Session::Create(TheRuntime(), g);
  ASSERT_TRUE(session.ok());
  auto values = session->Run({{x, *Tensor::Scalar(1.5f)}}, {gradients[0].dense});
  ASSERT_TRUE(values.ok()) << values.status().message();
  EXPECT_NEAR((*values)[0].scalar<float>(), 8 * std::pow(1.5f, 7), 1e-3);
}

}  // namespace
}  // namespace tenon::engine::own_gradient_test
