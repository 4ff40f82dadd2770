// SPDX-License-Identifier: Apache-2.0
// Functions through every front end: the C API, its C++ face and GraphDef; called, differentiated, branched and looped
// over, mapped. Covers A15, L9, Q1.
#include <algorithm>
#include <cmath>
#include <functional>
#include <sstream>

#include "tenon/op.h"
#include "tests/engine/engine.h"
#include "tests/golden/read_file.h"

namespace tenon::engine::function_test {
namespace {

using Outputs = std::vector<Output>;

// None where a failure made fewer.
Output At(const Outputs& outputs, size_t i) { return i < outputs.size() ? outputs[i] : Output(); }

// f(x, w) = sum(tanh(x w)), and x w.
FunctionResults TanhSum(Graph& body, const Outputs& v) {
  const Output product = body.Op("Mul", {v[0], v[1]}, {}, "product");
  return Outputs{body.Op("Sum", {body.Op("Tanh", {product}), body.Const({0}, "axes")}, {}, "sum"), product};
}
const std::vector<Argument> kTwoVectors = {{DType::kDouble, {-1}, "x"}, {DType::kDouble, {-1}, "w"}};
Function DefineTanhSum(Graph& graph, const char* name = "tanh_sum") {
  return Define(graph, name, TanhSum, kTwoVectors, {"of products", {"sum", "product"}, "", {{"_noinline", true}}});
}

// The same through the C API alone.
class CBody {
 public:
  explicit CBody(tenon_app_graph* graph) { EXPECT_EQ(tenon_graph_create_body(graph, &body_), nullptr); }
  ~CBody() { tenon_graph_release(body_); }
  tenon_app_graph* get() const { return body_; }

  tenon_output Add(std::string_view op, std::string_view name, const std::vector<tenon_output>& inputs,
                   const std::vector<tenon_attr>& attrs = {}) {
    tenon_node_spec spec = {};
    spec.struct_size = sizeof(spec);
    spec.op = Span(op);
    spec.name = Span(name);
    spec.inputs = inputs.data();
    spec.input_count = inputs.size();
    spec.attrs = attrs.data();
    spec.attr_count = attrs.size();
    tenon_output output = {-1, 0, 0};
    const Status added = Status::Take(tenon_graph_add_node(body_, &spec, Span(""), &output.node));
    EXPECT_TRUE(added.ok()) << added;
    return output;
  }
  tenon_output Vector(const char* name) {
    const uint32_t type = TENON_DT_DOUBLE;
    const int64_t any = -1;
    const tenon_shape shape = {&any, 1, 0};
    return Add("Placeholder", name, {},
               {{TENON_SPAN("dtype"), {TENON_ATTR_TYPE, 0, 1, &type}},
                {TENON_SPAN("shape"), {TENON_ATTR_SHAPE, 0, 1, &shape}}});
  }
  tenon_output Axes() {
    const Tensor zero = *Tensor::From(std::vector<int32_t>{0}, {1});
    tenon_output output = {-1, 0, 0};
    EXPECT_EQ(tenon_graph_add_constant(body_, Span("axes"), zero.view(), &output), nullptr);
    return output;
  }

 private:
  tenon_app_graph* body_ = nullptr;
};

void DefineTanhSumInC(tenon_app_graph* graph) {
  CBody body(graph);
  const tenon_output x = body.Vector("x"), w = body.Vector("w"), product = body.Add("Mul", "product", {x, w});
  const tenon_output tanh = body.Add("Tanh", "", {product}), sum = body.Add("Sum", "sum", {tanh, body.Axes()});
  const tenon_named_output inputs[] = {{TENON_SPAN("x"), x}, {TENON_SPAN("w"), w}},
                           outputs[] = {{TENON_SPAN("sum"), sum}, {TENON_SPAN("product"), product}};
  const uint8_t yes = 1;
  const tenon_attr attr = {TENON_SPAN("_noinline"), {TENON_ATTR_BOOL, 0, 1, &yes}};
  tenon_function_spec spec = {TENON_HEAD(tenon_function_spec),
                              TENON_SPAN("tanh_sum"),
                              TENON_SPAN("of products"),
                              body.get(),
                              inputs,
                              2,
                              outputs,
                              2,
                              nullptr,
                              0,
                              &attr,
                              1,
                              {}};
  const Status defined = Status::Take(tenon_graph_add_function(graph, &spec));
  EXPECT_TRUE(defined.ok()) << defined;
}

// What TanhSum and its gradient are, by hand.
struct ByHand {
  ByHand(const std::vector<double>& x, const std::vector<double>& w) {
    for (size_t i = 0; i < x.size(); ++i) {
      const double t = std::tanh(x[i] * w[i]);
      sum += t;
      dx.push_back((1 - t * t) * w[i]);
      dw.push_back((1 - t * t) * x[i]);
    }
  }
  double sum = 0;
  std::vector<double> dx, dw;
};

void ExpectNear(const std::vector<double>& found, const std::vector<double>& wanted, const char* what) {
  ASSERT_EQ(found.size(), wanted.size()) << what;
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-12) << what << "[" << i << "]";
}

struct FunctionsOfGraphs : ::testing::Test {
  const std::vector<double> x{0.5, -1, 2}, w{1, 0.25, -0.5};
  Graph g{TheRuntime()};
  Output X() { return g.Const(x, {3}, "x"); }
  Output W() { return g.Const(w, {3}, "w"); }
  std::vector<std::vector<double>> Run(const Outputs& fetches) {
    EXPECT_TRUE(g.status().ok()) << g.status();
    std::vector<std::vector<double>> values;
    for (const Tensor& tensor : RunOnce(g, {}, {fetches.begin(), fetches.end()})) values.push_back(DoublesOf(tensor));
    values.resize(fetches.size(), {std::nan("")});
    return values;
  }
  // y = f(x, w), and its gradients, however f is called.
  void ExpectTanhSum(const Output& y, const Output& of_x, const Output& of_w) {
    const auto d = g.Gradients({y}, {of_x, of_w});
    const auto values = Run({y, d[0].dense, d[1].dense});
    const ByHand hand(x, w);
    ExpectNear(values[0], {hand.sum}, "y");
    ExpectNear(values[1], hand.dx, "dx");
    ExpectNear(values[2], hand.dw, "dw");
  }
  // The failure of something, which leaves the graph as it was.
  Status Refused(const std::function<void(Graph&)>& what) {
    auto graph = Graph::Import(TheRuntime(), *g.Export());
    EXPECT_TRUE(graph.ok()) << graph.status();
    const uint64_t before = tenon_graph_function_count(graph->get());
    what(*graph);
    EXPECT_EQ(tenon_graph_function_count(graph->get()), before);
    return graph->status();
  }
};

void ExpectText(const Status& status, Code code, const std::string& text) {
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_NE(status.message().find(text), std::string::npos) << status;
}

// ---- Three ways to have a function, and as many to call it ----

TEST_F(FunctionsOfGraphs, OfCAndOfCppAreTheSameBytes) {
  Graph c(TheRuntime());
  DefineTanhSumInC(c.get());
  DefineTanhSum(g);
  EXPECT_EQ(*c.Export(), *g.Export());
  DefineTanhSumInC(g.get());  // the same once more is fine
  EXPECT_EQ(*c.Export(), *g.Export());
  const auto again = Graph::Import(TheRuntime(), *g.Export());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again->Export(), *g.Export());
}

TEST_F(FunctionsOfGraphs, AreCalledByNameAndDifferentiated) {
  DefineTanhSumInC(g.get());
  const Output a = X(), b = W();
  ExpectTanhSum(g.Call({"tanh_sum"}, {a, b}, "y"), a, b);
}

TEST_F(FunctionsOfGraphs, AreCalledByPartitionedCall) {
  const Function f = DefineTanhSum(g);
  for (const char* op : {"PartitionedCall", "StatefulPartitionedCall"}) {
    const Output a = X(), b = W();
    ExpectTanhSum(g.Op(op, {a, b}, {{"f", f}, {"Tout", std::vector<DType>{DType::kDouble, DType::kDouble}}}), a, b);
  }
}

TEST_F(FunctionsOfGraphs, AreReadFromGraphDef) {
  Graph other(TheRuntime());
  DefineTanhSum(other);
  ASSERT_TRUE(g.ImportMore(*other.Export()).ok());
  const Output a = X(), b = W();
  ExpectTanhSum(g.Call({"tanh_sum"}, {a, b}), a, b);
}

TEST_F(FunctionsOfGraphs, HaveAGradientOfTheirOwnAsAFunction) {
  const Function f = DefineTanhSum(g);
  const Output zeros = g.Const(std::vector<double>{0, 0, 0}, {3});
  const Operation d = g.AddNode("SymbolicGradient", {X(), W(), g.Const(2.0), zeros},
                                {{"f", f}, {"Tout", std::vector<DType>{DType::kDouble, DType::kDouble}}});
  auto values = Run({d.output(0), d.output(1)});
  ByHand hand(x, w);
  for (auto* list : {&hand.dx, &hand.dw})
    for (double& value : *list) value *= 2;
  ExpectNear(values[0], hand.dx, "dx");
  ExpectNear(values[1], hand.dw, "dw");
}

TEST_F(FunctionsOfGraphs, CallThoseOfTheGraphAround) {
  const Function f = DefineTanhSum(g);
  const Function twice = Define(
      g, "twice",
      [&](Graph& body, const Outputs& v) -> FunctionResults {
        const Function inner = Define(
            body, "inner",
            [&](Graph& inside, const Outputs& u) {
              return inside.Call(f, {u[0], u[1]});
            },
            kTwoVectors);
        const Operation by_name = body.AddNode(
            "PartitionedCall", {v[0], v[1]}, {{"f", f}, {"Tout", std::vector<DType>{DType::kDouble, DType::kDouble}}});
        return body.Op("AddV2", {body.Call(inner, {v[0], v[1]}), by_name.output(0)});
      },
      kTwoVectors);
  const Output a = X(), b = W();
  const auto d = g.Gradients({g.Call(twice, {a, b}, "y")}, {a});
  const ByHand hand(x, w);
  const auto values = Run({*g.Find("y"), d[0].dense});
  ExpectNear(values[0], {2 * hand.sum}, "y");
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(values[1][i], 2 * hand.dx[i], 1e-12);
  EXPECT_TRUE(FindFunction(g, "inner").ok()) << "what a body defines comes along";
}

// Any edge may be an input: what is before it is no part of the function.
TEST_F(FunctionsOfGraphs, BeginAnywhere) {
  Graph body = g.Body();
  const Output p = body.Placeholder("p", DType::kDouble), square = body.Op("Square", {p}, {}, "x"),
               y = body.Op("Mul", {square, body.Op("Neg", {square})});
  const tenon_named_output input = {TENON_SPAN("x"), square.c_output()},
                           outputs[] = {{TENON_SPAN("y"), y.c_output()}, {TENON_SPAN("same"), square.c_output()}};
  tenon_function_spec spec = {TENON_HEAD(tenon_function_spec),
                              TENON_SPAN("f"),
                              {},
                              body.get(),
                              &input,
                              1,
                              outputs,
                              2,
                              nullptr,
                              0,
                              nullptr,
                              0,
                              {}};
  ASSERT_TRUE(Status::Take(tenon_graph_add_function(g.get(), &spec)).ok());
  const Operation call = g.Call({"f"}, {g.Const(3.0)});
  const auto values = Run({call.output(0), call.output(1)});
  EXPECT_EQ(values[0][0], -9) << "x is not squared";
  EXPECT_EQ(values[1][0], 3);
  EXPECT_EQ(FindFunction(g, "f")->node_count, 2u);
}

// A graph may be a body of a function in itself: what is defined is how it stands now.
TEST_F(FunctionsOfGraphs, MayBeAPartOfTheirOwnGraph) {
  const Output p = g.Placeholder("p", DType::kDouble), y = g.Op("Exp", {p}, {}, "p_1");
  const tenon_named_output input = {TENON_SPAN("p"), p.c_output()}, output = {TENON_SPAN("y"), y.c_output()};
  tenon_function_spec spec = {
      TENON_HEAD(tenon_function_spec), TENON_SPAN("f"), {}, g.get(), &input, 1, &output, 1, nullptr, 0, nullptr, 0, {}};
  ASSERT_TRUE(Status::Take(tenon_graph_add_function(g.get(), &spec)).ok());
  EXPECT_EQ(Run({g.Call({"f"}, {g.Const(0.0)})})[0][0], 1);
}

TEST_F(FunctionsOfGraphs, RunTheirControlOutputs) {
  const Output handle = g.Op("VarHandleOp", {}, {{"dtype", DType::kDouble}, {"shape", Shape{}}, {"shared_name", "v"}});
  const Operation first = g.AddNode("AssignVariableOp", {handle, g.Const(1.0)});
  const Function add =
      Define(g, "add",
             [](Graph& body, const Outputs& v) {
               return FunctionResults({body.Op("Neg", {v[1]})}, {body.AddNode("AssignAddVariableOp", {v[0], v[1]})});
             },
             {DType::kResource, DType::kDouble});
  const Operation call = g.Call(add, {handle, g.Const(4.0)}, "call");
  Output read;
  {
    const auto after = g.ControlDependencies({call});
    read = g.Op("ReadVariableOp", {handle}, {{"dtype", DType::kDouble}}, "read");
  }
  ASSERT_TRUE(g.status().ok()) << g.status();
  auto session = Session::Create(TheRuntime(), g);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE(session->Run({}, {}, {first}).ok());
  EXPECT_EQ(DoublesOf((*session->Run({}, {read}))[0])[0], 5);
  // Whatever is read of the call: its value, or what is made of it, here and in a call around.
  const Function around = Define(g, "around",
                                 [&](Graph& body, const Outputs& v) {
                                   return body.Op("Neg", {body.Call(add, {v[0], v[1]}).output(0)});
                                 },
                                 {DType::kResource, DType::kDouble});
  const Output value = call.output(0), made = g.Op("Neg", {value}),
               outer = g.Call(around, {handle, g.Const(100.0)}).output(0);
  ASSERT_TRUE(session->Extend(g).ok());
  const Output now = g.Op("ReadVariableOp", {handle}, {{"dtype", DType::kDouble}}, "now");
  ASSERT_TRUE(session->Extend(g).ok());
  double sum = 5;
  for (const auto& [fetch, more] : {std::pair(value, 4), std::pair(made, 4), std::pair(outer, 100)}) {
    ASSERT_TRUE(session->Run({}, {fetch}).ok());
    sum += more;
    EXPECT_EQ(DoublesOf((*session->Run({}, {now}))[0])[0], sum) << fetch.name();
  }
  // Also what gives something, which nobody reads.
  const Attrs of = {{"component_types", std::vector<DType>{DType::kDouble}}};
  const Output queue =
      g.Op("FIFOQueueV2", {}, {{"component_types", std::vector<DType>{DType::kDouble}}, {"shared_name", "q"}});
  const Operation put = g.AddNode("QueueEnqueueV2", {queue, g.Const(1.0)});
  const Function take =
      Define(g, "take",
             [&](Graph& body, const Outputs& v) {
               return FunctionResults({body.Op("Neg", {v[1]})}, {body.AddNode("QueueDequeueV2", {v[0]}, of)});
             },
             {DType::kResource, DType::kDouble});
  const Output x = g.Placeholder("x", DType::kDouble, {}), taken = g.Call(take, {queue, x}).output(0),
               size = g.Op("QueueSizeV2", {queue});
  ASSERT_TRUE(session->Extend(g).ok()) << g.status();
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(session->Run({}, {}, {put}).ok());
  EXPECT_EQ(DoublesOf((*session->Run({{x, *Tensor::Scalar(4.0)}}, {taken}))[0])[0], -4);
  EXPECT_EQ((*session->Run({}, {size}))[0].scalar<int32_t>(), 1);
  EXPECT_EQ(FindFunction(g, "add")->stateful, 1u);
  EXPECT_EQ(FindFunction(g, "add")->control_output_count, 1u);
}

// ---- Branches and loops ----

TEST_F(FunctionsOfGraphs, AreBranches) {
  const std::vector<Argument> one = {DType::kDouble};
  const Function twice = Define(
      g, "twice",
      [](Graph& b, const Outputs& v) {
        return b.Op("AddV2", {v[0], v[0]});
      },
      one);
  const Function square = Define(
      g, "square", [](Graph& b, const Outputs& v) { return b.Op("Square", {v[0]}); }, one);
  const Function negative = Define(
      g, "negative", [](Graph& b, const Outputs& v) { return b.Op("Neg", {v[0]}); }, one);
  const Output a = g.Const(3.0), index = g.Placeholder("index", DType::kInt32, {}),
               yes = g.Placeholder("yes", DType::kBool, {});
  const Output of_case = At(Case(g, index, {twice, square, negative}, {a}), 0),
               of_cond = At(Cond(g, yes, {a}, twice, square), 0);
  const Output d_case = g.Gradients({of_case}, {a})[0].dense, d_cond = g.Gradients({of_cond}, {a})[0].dense;
  ASSERT_TRUE(g.status().ok()) << g.status();
  const double values[] = {6, 9, -3, -3}, slopes[] = {2, 6, -1, -1};
  for (int32_t i = 0; i < 4; ++i) {
    const auto found = RunOnce(
        g, {{"index", TensorOf(DType::kInt32, {}, {double(i)})}, {"yes", TensorOf(DType::kBool, {}, {double(i == 0)})}},
        {of_case, d_case, of_cond, d_cond});
    ASSERT_EQ(found.size(), 4u);
    EXPECT_EQ(DoublesOf(found[0])[0], values[i]);
    EXPECT_EQ(DoublesOf(found[1])[0], slopes[i]);
    EXPECT_EQ(DoublesOf(found[2])[0], i == 0 ? 6 : 9);
    EXPECT_EQ(DoublesOf(found[3])[0], i == 0 ? 2 : 6);
  }
}

TEST_F(FunctionsOfGraphs, AreLoops) {
  const std::vector<Argument> types = {{DType::kInt32, {}}, DType::kDouble, DType::kDouble};
  const Function more = Define(
      g, "more",
      [](Graph& b, const Outputs& v) {
        return b.Op("Less", {v[0], b.Const(int32_t{3})});
      },
      types);
  const Function turn = Define(
      g, "turn",
      [](Graph& b, const Outputs& v) {
        return Outputs{b.Op("AddV2", {v[0], b.Const(int32_t{1})}), b.Op("Mul", {v[1], v[2]}), v[2]};
      },
      types);
  const Output a = g.Const(2.0), b = g.Const(3.0), y = At(While(g, {g.Const(int32_t{0}), a, b}, more, turn), 1);
  const auto d = g.Gradients({y}, {a, b});
  const auto values = Run({y, d[0].dense, d[1].dense});
  EXPECT_EQ(values[0][0], 54);  // a b^3
  EXPECT_EQ(values[1][0], 27);  // b^3
  EXPECT_EQ(values[2][0], 54);  // 3 a b^2
}

// A body with a loop in frame form, called twice: two loops, not two halves of one.
TEST_F(FunctionsOfGraphs, MayHoldLoopsInFrameForm) {
  const Function cube =
      Define(g, "cube",
             [](Graph& body, const Outputs& v) {
               return While(
                   body, {body.Const(int32_t{0}), v[0]}, {v[0], body.Const(int32_t{2})},
                   [&](const Outputs& u) {
                     return body.Op("Less", {u[0], u[3]});
                   },
                   [&](const Outputs& u) {
                     return Outputs{body.Op("AddV2", {u[0], body.Const(int32_t{1})}), body.Op("Mul", {u[1], u[2]})};
                   })[1];
             },
             {DType::kDouble});
  const Output a = g.Const(2.0), y = g.Op("AddV2", {g.Call(cube, {a}), g.Call(cube, {g.Call(cube, {a})})});
  const Output d = g.Gradients({y}, {a})[0].dense;
  const auto values = Run({y, d});
  EXPECT_EQ(values[0][0], 8 + 512);
  EXPECT_EQ(values[1][0], 3 * 4 + 9 * 256);
}

// ---- Mapping ----

TEST_F(FunctionsOfGraphs, AreMappedOverElements) {
  const Function f = DefineTanhSum(g);
  const std::vector<double> xs{0.5, -1, 2, 1, 0, -3}, ws{1, 2, -1, 0.5, 3, 0.25};
  const Output a = g.Const(xs, {2, 3}), b = g.Const(ws, {2, 3});
  const Outputs mapped = MapFunction(g, f, {a, b});
  ASSERT_TRUE(g.status().ok()) << g.status();
  const auto d = g.Gradients({mapped[0]}, {a, b});
  const auto values = Run({mapped[0], mapped[1], d[0].dense, d[1].dense});
  const ByHand first({0.5, -1, 2}, {1, 2, -1}), second({1, 0, -3}, {0.5, 3, 0.25}), all(xs, ws);
  ExpectNear(values[0], {first.sum, second.sum}, "sums");
  ExpectNear(values[1], {0.5, -2, -2, 0.5, 0, -0.75}, "products");
  ExpectNear(values[2], all.dx, "dx");
  ExpectNear(values[3], all.dw, "dw");
}

TEST_F(FunctionsOfGraphs, AreMappedWithinFunctions) {
  const Function square =
      Define(g, "square", [](Graph& b, const Outputs& v) { return b.Op("Square", {v[0]}); }, {DType::kDouble});
  const Function all =
      Define(g, "all", [&](Graph& b, const Outputs& v) { return MapFunction(b, square, {v[0]}); }, {DType::kDouble});
  const Output a = X(), y = g.Call(all, {g.Call(all, {a})});
  const auto values = Run({y, g.Gradients({y}, {a})[0].dense});
  ExpectNear(values[0], {0.0625, 1, 16}, "fourth powers");
  ExpectNear(values[1], {4 * 0.125, -4, 32}, "their gradients");
}

// What the bodies say is known without an element.
TEST_F(FunctionsOfGraphs, AreMappedOverNoElement) {
  const Function f = DefineTanhSum(g);
  const Function nested = Define(g, "nested",
                                 [&](Graph& b, const Outputs& v) {
                                   return b.Op("Cast", {b.Call(f, {v[0], v[0]}).output(1)}, {{"DstT", DType::kFloat}});
                                 },
                                 {{DType::kDouble, {-1}}});
  const Output x = g.Placeholder("x", DType::kDouble, {-1, 3});
  const Outputs mapped = MapFunction(g, f, {x, x});
  const Output of_nested = At(MapFunction(g, nested, {x}), 0), d = g.Gradients({mapped[0]}, {x})[0].dense;
  ASSERT_TRUE(g.status().ok()) << g.status();
  for (const int64_t count : {0, 2}) {
    const std::vector<double> values(static_cast<size_t>(3 * count), 0.5);
    const auto found = RunOnce(g, {{"x", View(values, {count, 3})}}, {mapped[0], mapped[1], of_nested, d});
    ASSERT_EQ(found.size(), 4u);
    EXPECT_EQ(found[0].shape(), (Shape{count}));
    for (size_t i = 1; i < 4; ++i) EXPECT_EQ(found[i].shape(), (Shape{count, 3})) << i;
    EXPECT_EQ(found[1].dtype(), DType::kDouble);
    EXPECT_EQ(found[2].dtype(), DType::kFloat);
  }
}

TEST_F(FunctionsOfGraphs, AreMappedOverNoElementWhereNothingSaysTheShape) {
  const Function square =
      Define(g, "square", [](Graph& b, const Outputs& v) { return b.Op("Square", {v[0]}); }, {DType::kDouble});
  const Function says = Define(g, "says",
                               [](Graph& b, const Outputs& v) {
                                 return b.Op("EnsureShape", {b.Op("Square", {v[0]})}, {{"shape", Shape{2}}});
                               },
                               {DType::kDouble});
  const Output x = g.Placeholder("x", DType::kDouble, Shape::Unknown());
  const Output open = At(MapFunction(g, square, {x}), 0), said = At(MapFunction(g, says, {x}), 0);
  ASSERT_TRUE(g.status().ok()) << g.status();
  auto session = Session::Create(TheRuntime(), g);
  ASSERT_TRUE(session.ok()) << session.status();
  const std::vector<double> none;
  ExpectText(session->Run({{"x", View(none, {0, 2})}}, {open}).status(), Code::kInvalidArgument,
             "their shape <unknown rank> is not fully known");
  const auto found = session->Run({{"x", View(none, {0, 2})}}, {said});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ((*found)[0].shape(), (Shape{0, 2}));
}

TEST_F(FunctionsOfGraphs, SayTheShapesOfTheirCalls) {
  const Operation y = g.Call(DefineTanhSum(g), {X(), W()}, "y");
  EXPECT_EQ(y.output(0).shape(), Shape());
  EXPECT_EQ(y.output(1).shape(), Shape{3});
}

TEST_F(FunctionsOfGraphs, AreMappedOverAsManyElements) {
  const Function f = DefineTanhSum(g);
  const Output two = g.Const(std::vector<double>(6), {2, 3}), any = g.Placeholder("any", DType::kDouble);
  const Output y = At(MapFunction(g, f, {two, any}), 0);
  ASSERT_TRUE(g.status().ok()) << g.status();
  auto session = Session::Create(TheRuntime(), g);
  const std::vector<double> three(9);
  ExpectText(session->Run({{any, View(three, {3, 3})}}, {y}).status(), Code::kInvalidArgument,
             "differently many elements");
  MapFunction(g, f, {two, g.Const(three, {3, 3})});  // known when the graph is made
  ExpectText(g.status(), Code::kInvalidArgument, "differently many elements");
}

// ---- What TensorFlow wrote ----

struct FunctionsOfTensorFlow : FunctionsOfGraphs {
  FunctionsOfTensorFlow() {
    const Status imported = g.ImportMore(ReadFile("functions.pb"));
    EXPECT_TRUE(imported.ok()) << imported;
  }
  const Function layer{"__inference_layer_20"};  // tanh(x w + b)
  const std::vector<double> xs{0.1, 0.2, -0.3, 0.4, 0.5, -0.6}, ws{1, 0.5, -1, 2, 0.25, 0.75}, bs{0.1, -0.2, 0.3, 0.4};

  // tanh(x w + b) of ops, as wanted values.
  Output OfOps(const Output& in, const Output& weight, const Output& bias) {
    return g.Op("Tanh", {g.Op("AddV2", {g.Op("MatMul", {in, weight}), bias})});
  }
};

TEST_F(FunctionsOfTensorFlow, AreCalledDifferentiatedAndMapped) {
  const Output in = g.Const(xs, {2, 1, 3}), weight = g.Const(ws, {2, 3, 1}), bias = g.Const(bs, {2, 2});
  const Output mapped = At(MapFunction(g, layer,
                                       {g.Op("BroadcastTo", {in, g.Const({2, 2, 3})}),
                                        g.Op("BroadcastTo", {weight, g.Const({2, 3, 2})}), bias}),
                           0);
  ASSERT_TRUE(g.status().ok()) << g.status();
  const Output of_ops =
      g.Op("Tanh", {g.Op("AddV2", {g.Op("BatchMatMulV2", {g.Op("BroadcastTo", {in, g.Const({2, 2, 3})}),
                                                          g.Op("BroadcastTo", {weight, g.Const({2, 3, 2})})}),
                                   g.Op("ExpandDims", {bias, g.Const(int32_t{1})})})});
  Outputs fetches{mapped, of_ops};
  for (const Output& y : {mapped, of_ops})
    for (const Gradient& d : g.Gradients({y}, {in, weight, bias})) fetches.push_back(d.dense);
  const auto values = Run(fetches);
  ExpectNear(values[0], values[1], "layers");
  for (size_t i = 0; i < 3; ++i) ExpectNear(values[2 + i], values[5 + i], "gradients");
  EXPECT_EQ(values[0].size(), 8u);
}

TEST_F(FunctionsOfTensorFlow, AreTheSameAsThoseMadeHere) {
  const Function made = Define(g, "made",
                               [this](Graph& b, const Outputs& v) {
                                 return b.Op("Tanh", {b.Op("AddV2", {b.Op("MatMul", {v[0], v[1]}), v[2]})});
                               },
                               {DType::kDouble, DType::kDouble, DType::kDouble});
  const Output in = g.Const(xs, {2, 3}), weight = g.Const(ws, {3, 2}),
               bias = g.Const(std::vector<double>{0.1, -0.2}, {2});
  Outputs fetches;
  for (const Output& y :
       {Output(g.Call(layer, {in, weight, bias})), Output(g.Call(made, {in, weight, bias})), OfOps(in, weight, bias)}) {
    fetches.push_back(y);
    for (const Gradient& d : g.Gradients({y}, {in, weight, bias})) fetches.push_back(d.dense);
  }
  const auto values = Run(fetches);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(values[i], values[4 + i]);
    EXPECT_EQ(values[i], values[8 + i]);
  }
}

// The bytes of a function in a GraphDef: a signature begins with the name; before it stand its length, in one byte
// here, and its tag, and before these the function's length, in two bytes.
std::string FunctionIn(const std::string& bytes, std::string_view name) {
  const std::string head = "\x0a" + std::string(1, static_cast<char>(name.size())) + std::string(name);
  size_t at = bytes.find(head);
  while (at != std::string::npos && (at < 5 || bytes[at - 2] != '\x0a' || bytes[at - 5] != '\x0a'))
    at = bytes.find(head, at + 1);
  if (at == std::string::npos) return {};
  return bytes.substr(at - 5, 3 + static_cast<size_t>((bytes[at - 4] & 0x7f) | (bytes[at - 3] << 7)));
}

TEST_F(FunctionsOfTensorFlow, AreWrittenAsTheyStoodInTheFile) {
  const std::string file = ReadFile("functions.pb"), written = *g.Export();
  for (const char* name : {"__inference_layer_20", "__inference_two_layers_28", "__inference_loss_37"}) {
    EXPECT_GT(FunctionIn(file, name).size(), 500u) << name;
    EXPECT_TRUE(FunctionIn(file, name) == FunctionIn(written, name)) << name;
  }
  EXPECT_EQ(tenon_graph_function_count(g.get()), 3u);
}

// ---- Gradients that are given ----

struct GivenGradients : FunctionsOfGraphs {
  const std::vector<Argument> one = {DType::kDouble}, two = {DType::kDouble, DType::kDouble};
  // Not what it would be: 100 dy + x.
  const Function wrong = Define(
      g, "wrong",
      [](Graph& b, const Outputs& v) {
        return b.Op("AddV2", {b.Op("Mul", {v[1], b.Const(100.0)}), v[0]});
      },
      two);
  const Function f =
      Define(g, "f", [](Graph& b, const Outputs& v) { return b.Op("Square", {v[0]}); }, one, {"", {}, "wrong"});
  const Output a = g.Const(3.0, "a");
};

TEST_F(GivenGradients, AreAskedByCalls) {
  const Output by_name = g.Call(f, {a}),
               by_attr = g.Op("PartitionedCall", {a}, {{"f", f}, {"Tout", std::vector<DType>{DType::kDouble}}});
  const Output alone =
      g.Op("SymbolicGradient", {a, g.Const(1.0)}, {{"f", f}, {"Tout", std::vector<DType>{DType::kDouble}}});
  const Output scaled = g.Op("Mul", {by_name, g.Const(2.0)});
  const auto values = Run({g.Gradients({by_name}, {a})[0].dense, g.Gradients({by_attr}, {a})[0].dense, alone,
                           g.Gradients({scaled}, {a})[0].dense, by_name});
  EXPECT_EQ(values[0][0], 103);
  EXPECT_EQ(values[1][0], 103);
  EXPECT_EQ(values[2][0], 103);
  EXPECT_EQ(values[3][0], 203);
  EXPECT_EQ(values[4][0], 9);
}

// Where the function runs, runs its gradient.
TEST_F(GivenGradients, AreAskedByCallsThatSayWhere) {
  const Output where = g.StringConst("/device:CPU:0", "where");
  const Output y = g.Op("RemoteCall", {where, a}, {{"f", f}, {"Tout", std::vector<DType>{DType::kDouble}}});
  const auto d = g.Gradients({y}, {a, where});
  EXPECT_EQ(Run({d[0].dense})[0][0], 103);
  EXPECT_FALSE(d[1].dense.valid()) << "a name has no gradient";
  EXPECT_NE(d[0].dense.name().find("RemoteCall"), std::string::npos) << d[0].dense.name();
}

TEST_F(GivenGradients, AreAskedInLoopsBranchesAndMaps) {
  const Function outer = Define(
      g, "outer", [this](Graph& b, const Outputs& v) { return b.Call(f, {v[0]}); }, one);
  const Output in_branch = At(Cond(g, g.Const(true), {a}, outer, outer), 0);
  const Output xs = g.Const(std::vector<double>{1, 2}, {2}), mapped = At(MapFunction(g, f, {xs}), 0);
  const auto values = Run({g.Gradients({in_branch}, {a})[0].dense, g.Gradients({mapped}, {xs})[0].dense, mapped});
  EXPECT_EQ(values[0][0], 103);
  ExpectNear(values[1], {101, 102}, "in a loop");
  ExpectNear(values[2], {1, 4}, "squares");
}

TEST_F(GivenGradients, StandInGraphDef) {
  auto again = Graph::Import(TheRuntime(), *g.Export());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(Text(FindFunction(*again, "f")->gradient), "wrong");
  EXPECT_EQ(*again->Export(), *g.Export());
  Graph copy(TheRuntime());
  CopyFunction(copy, *again, "f");
  EXPECT_TRUE(FindFunction(copy, "wrong").ok()) << "a function's gradient goes with it";
}

TEST_F(GivenGradients, AreOfTheFunction) {
  const auto set = [&](const char* function, const char* gradient) {
    return Status::Take(tenon_graph_set_function_gradient(g.get(), Span(function), Span(gradient)));
  };
  Define(
      g, "plain", [](Graph& b, const Outputs& v) { return b.Op("Exp", {v[0]}); }, one);
  ExpectText(set("plain", "f"), Code::kInvalidArgument,
             "'f' takes (double) and gives (double); the gradient of 'plain' takes its inputs, then a gradient of each "
             "output, (double, double)");
  ExpectText(set("plain", "wrng"), Code::kNotFound, "no function 'wrng'; did you mean 'wrong'?");
  ExpectText(set("none", "wrong"), Code::kNotFound, "no function 'none'");
  EXPECT_TRUE(set("plain", "wrong").ok());
  EXPECT_TRUE(set("plain", "wrong").ok()) << "once more is fine";
  Define(
      g, "other",
      [](Graph& b, const Outputs& v) {
        return b.Op("AddV2", {v[0], v[1]});
      },
      two);
  ExpectText(set("plain", "other"), Code::kAlreadyExists, "the gradient of function 'plain' is 'wrong'");
  EXPECT_EQ(Run({g.Gradients({g.Call({"plain"}, {a})}, {a})[0].dense})[0][0], 103);
}

// ---- Questions ----

TEST_F(FunctionsOfGraphs, SayWhatTheyAre) {
  const Function f = DefineTanhSum(g);
  DefineTanhSum(g, "another");
  const auto all = Functions(g);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(Text(all[0].name), "another") << "by name";
  EXPECT_EQ(Text(all[1].description), "of products");
  EXPECT_EQ(all[1].input_count, 2u);
  EXPECT_EQ(all[1].node_count, 4u);
  EXPECT_EQ(all[1].stateful, 0u);
  const auto outputs = FunctionArguments(g, f, TENON_FUNCTION_OUTPUT);
  ASSERT_TRUE(outputs.ok());
  EXPECT_EQ(Text((*outputs)[1].name), "product");
  EXPECT_EQ((*outputs)[1].dtype, TENON_DT_DOUBLE);
  tenon_attr_value value = {};
  ASSERT_TRUE(Status::Take(tenon_graph_function_attr(g.get(), Span("another"), Span("_noinline"), &value)).ok());
  EXPECT_EQ(value.kind, TENON_ATTR_BOOL);
  ExpectText(Status::Take(tenon_graph_function_attr(g.get(), Span("another"), Span("_x"), &value)), Code::kNotFound,
             "has no attribute '_x'");
  tenon_function_info info = {};
  ExpectText(Status::Take(tenon_graph_function(g.get(), 2, &info)), Code::kOutOfRange,
             "there is no function 2; the graph has 2");
  ExpectText(FindFunction(g, "tanh_sun").status(), Code::kNotFound, "did you mean 'tanh_sum'?");
  tenon_function_argument argument = {};
  ExpectText(Status::Take(tenon_graph_function_argument(g.get(), Span("another"), TENON_FUNCTION_INPUT, 2, &argument)),
             Code::kOutOfRange, "has 2 inputs, and no 2");
  ExpectText(Status::Take(tenon_graph_function_argument(g.get(), Span("another"), 3, 0, &argument)),
             Code::kInvalidArgument, "3 is none of");
}

TEST_F(FunctionsOfGraphs, AreListedAfterTheLibraryChanged) {
  DefineTanhSum(g, "b");
  EXPECT_EQ(Functions(g).size(), 1u);
  DefineTanhSum(g, "a");
  ASSERT_EQ(Functions(g).size(), 2u);
  EXPECT_EQ(Text(Functions(g)[0].name), "a");
  Graph other(TheRuntime());
  DefineTanhSum(other, "a0");
  ASSERT_TRUE(g.ImportMore(*other.Export()).ok());
  EXPECT_EQ(Text(Functions(g)[1].name), "a0");
}

TEST_F(FunctionsOfGraphs, AreListedInTimeInProportion) {
  // Quadratic would be 10^10 steps: it would not end.
  Graph body = g.Body();
  const Output p = body.Placeholder("p", DType::kDouble), y = body.Op("Exp", {p});
  const tenon_named_output input = {TENON_SPAN("p"), p.c_output()}, output = {TENON_SPAN("y"), y.c_output()};
  constexpr size_t kCount = 100000;
  for (size_t i = 0; i < kCount; ++i) {
    const std::string name = "f" + std::to_string(i);
    tenon_function_spec spec = {
        TENON_HEAD(tenon_function_spec), Span(name), {}, body.get(), &input, 1, &output, 1, nullptr, 0, nullptr, 0, {}};
    ASSERT_EQ(tenon_graph_add_function(g.get(), &spec), nullptr);
  }
  const auto all = Functions(g);
  ASSERT_EQ(all.size(), kCount);
  EXPECT_TRUE(
      std::is_sorted(all.begin(), all.end(), [](const auto& a, const auto& b) { return Text(a.name) < Text(b.name); }));
}

// ---- Attributes of an attribute ----

// A function for any type, as only a GraphDef can have it: double_it(x: T) = x + x.
std::string AnyTypeGraphDef() {
  const auto field = [](int number, const std::string& bytes) {
    return std::string(1, static_cast<char>(number << 3 | 2)) + std::string(1, static_cast<char>(bytes.size())) + bytes;
  };
  const auto arg = [&](const char* name) { return field(1, name) + field(4, "T"); };
  const std::string signature =
      field(1, "double_it") + field(2, arg("x")) + field(3, arg("y")) + field(4, field(1, "T") + field(2, "type"));
  const std::string node = field(1, "sum") + field(2, "AddV2") + field(3, "x") + field(3, "x") +
                           field(5, field(1, "T") + field(2, field(9, "T")));
  const std::string function = field(1, signature) + field(3, node) + field(4, field(1, "y") + field(2, "sum:z:0"));
  return field(2, field(1, function));
}

TEST_F(FunctionsOfGraphs, AreBoundToTypes) {
  ASSERT_TRUE(g.ImportMore(AnyTypeGraphDef()).ok());
  const Operation call =
      g.AddNode("PartitionedCall", {g.Const(2.0)},
                {{"f", Function{"double_it"}}, {"Tout", std::vector<DType>{DType::kDouble}}}, "call");
  BindFunction(g, call, "f", {{"T", DType::kDouble}});
  auto again = Graph::Import(TheRuntime(), *g.Export());
  ASSERT_TRUE(again.ok()) << again.status();
  const auto sum = RunOnce(*again, {}, {"call"});
  ASSERT_EQ(sum.size(), 1u);
  EXPECT_EQ(DoublesOf(sum[0])[0], 4);
  tenon_attr_value value = {};
  ASSERT_TRUE(
      Status::Take(tenon_graph_bound_attr(again->get(), again->Find("call")->node(), Span("f"), 0, Span("T"), &value))
          .ok());
  EXPECT_EQ(*static_cast<const uint32_t*>(value.data), TENON_DT_DOUBLE);
  EXPECT_EQ(*again->Export(), *g.Export());
  const auto bound = [&](int64_t node, const char* attr, uint64_t index, const char* name) {
    return Status::Take(tenon_graph_bound_attr(g.get(), node, Span(attr), index, Span(name), &value));
  };
  ExpectText(bound(99, "f", 0, "T"), Code::kOutOfRange, "there is no node 99");
  ExpectText(bound(call.node(), "g", 0, "T"), Code::kNotFound, "has no attribute 'g'");
  ExpectText(bound(call.node(), "Tout", 0, "T"), Code::kInvalidArgument, "names no function");
  ExpectText(bound(call.node(), "f", 1, "T"), Code::kOutOfRange, "names 1 functions, and no 1");
  ExpectText(bound(call.node(), "f", 0, "U"), Code::kNotFound, "binds no attribute 'U'");
  BindFunction(g, call, "f", {});
  ExpectText(bound(call.node(), "f", 0, "T"), Code::kNotFound, "binds no attribute 'T'");
  // By its op's name the types of the inputs bind it.
  EXPECT_EQ(Run({g.Call({"double_it"}, {g.Const(5.0)})})[0][0], 10);
}

// ---- What is refused ----

TEST_F(FunctionsOfGraphs, DoNotCallThemselves) {
  const std::vector<Argument> one = {DType::kDouble};
  const auto calls = [](const char* name) {
    return [name](Graph& b, const Outputs& v) {
      return b.Op("PartitionedCall", {v[0]}, {{"f", Function{name}}, {"Tout", std::vector<DType>{DType::kDouble}}});
    };
  };
  ExpectText(Refused([&](Graph& h) { Define(h, "self", calls("self"), one); }), Code::kNotFound,
             "calls 'self', which is no function here; a function is defined after those that it calls");
  ExpectText(Refused([&](Graph& h) { Define(h, "a", calls("b"), one); }), Code::kNotFound,
             "node 'PartitionedCall' (PartitionedCall) calls 'b'");
  // By its op's name: a body that has another function of that name.
  ExpectText(Refused([&](Graph& h) {
               Define(
                   h, "self",
                   [&](Graph& b, const Outputs& v) {
                     const Function other = Define(
                         b, "self", [](Graph& inner, const Outputs& u) { return inner.Op("Exp", {u[0]}); }, one);
                     return b.Call(other, {v[0]});
                   },
                   one);
             }),
             Code::kAlreadyExists, "there are two functions 'self'");
}

// A GraphDef may hold functions that call each other: they are read, and a step that calls one ends.
TEST_F(FunctionsOfGraphs, ThatCallEachOtherHaveNoEnd) {
  const std::vector<Argument> one = {DType::kDouble};
  const Function b = Define(
      g, "bb", [](Graph& body, const Outputs& v) { return body.Op("Tanh", {v[0]}); }, one);
  const Function a =
      Define(g, "aaaa", [&](Graph& body, const Outputs& v) { return body.Call(b, {v[0]}); }, one, {"", {"y"}});
  g.Call(a, {g.Const(1.0)}, "call");
  std::string bytes = *g.Export();
  const size_t at = bytes.find("\x12\x04Tanh");
  ASSERT_NE(at, std::string::npos);
  bytes.replace(at + 2, 4, "aaaa");
  // The op's attribute T is none of the function's.
  const size_t attr = bytes.find("T", at);
  ASSERT_NE(attr, std::string::npos);
  bytes[attr] = '_';
  auto both = Graph::Import(TheRuntime(), bytes);
  ASSERT_TRUE(both.ok()) << both.status();
  auto session = Session::Create(TheRuntime(), *both);
  ASSERT_TRUE(session.ok()) << session.status();
  ExpectText(session->Run({}, {"call"}).status(), Code::kResourceExhausted, "is nested deeper than 64 calls");
  const Output x = *both->Find("Const"), y = *both->Find("call");
  both->Gradients({y}, {x});
  ExpectText(both->status(), Code::kResourceExhausted, "nested deeper than 64");
}

TEST_F(FunctionsOfGraphs, HaveNamesOfTheirOwn) {
  DefineTanhSum(g, "f");
  const std::vector<Argument> one = {DType::kDouble};
  const FunctionBody exp = [](Graph& b, const Outputs& v) { return b.Op("Exp", {v[0]}, {}, "n"); };
  ExpectText(Refused([&](Graph& h) { Define(h, "MatMul", exp, one); }), Code::kAlreadyExists,
             "'MatMul' is an op of package 'tenon.ops.math'");
  ExpectText(Refused([&](Graph& h) { Define(h, "f", exp, one); }), Code::kAlreadyExists,
             "there are two functions 'f', and they are not the same");
  ExpectText(Refused([&](Graph& h) { DefineTanhSum(h, "f"); }), Code::kOk, "");
  ExpectText(Refused([&](Graph& h) { Define(h, "", exp, one); }), Code::kInvalidArgument,
             "'' cannot be a function's name");
  ExpectText(Refused([&](Graph& h) { Define(h, "a b", exp, one); }), Code::kInvalidArgument,
             "'a b' cannot be a function's name");
  ExpectText(Refused([&](Graph& h) {
               Define(h, "h", exp, {{DType::kDouble, {}, "0x"}});
             }),
             Code::kInvalidArgument, "input '0x': a name is of letters");
  ExpectText(Refused([&](Graph& h) {
               Define(h, "h", exp, {{DType::kDouble, {}, "x"}, {DType::kDouble, {}, "x"}});
             }),
             Code::kInvalidArgument, "input 'x' stands twice");
  ExpectText(Refused([&](Graph& h) {
               Define(h, "h", exp, one, {"", {"y:0"}});
             }),
             Code::kInvalidArgument, "output 'y:0': a name is of letters");
  ExpectText(Refused([&](Graph& h) {
               Define(h, "h", exp, one, {"", {"a", "b"}});
             }),
             Code::kInvalidArgument, "2 names for 1 outputs");
  // An argument's name goes before a node's.
  Define(g, "h", [](Graph& b, const Outputs& v) { return b.Op("Neg", {b.Op("Exp", {v[0]}, {}, "scale")}, {}, "n"); },
         {{DType::kDouble, {}, "n"}});
  EXPECT_EQ(Run({g.Call({"h"}, {g.Const(0.0)})})[0][0], -1);
}

TEST_F(FunctionsOfGraphs, AreNotConfusedInASession) {
  const std::vector<Argument> one = {DType::kDouble};
  Define(
      g, "f", [](Graph& b, const Outputs& v) { return b.Op("Exp", {v[0]}); }, one);
  Graph other(TheRuntime());
  const Function f = Define(
      other, "f", [](Graph& b, const Outputs& v) { return b.Op("Neg", {v[0]}); }, one);
  other.Call(f, {other.Const(0.0)}, "call");
  auto session = Session::Create(TheRuntime(), g);
  ASSERT_TRUE(session.ok()) << session.status();
  ExpectText(session->Extend(other), Code::kAlreadyExists, "there are two functions 'f', and they are not the same");
  EXPECT_EQ(session->Run({}, {"call"}).status().code(), Code::kNotFound) << "nothing of it was added";
}

TEST_F(FunctionsOfGraphs, UseTheirArgumentsAlone) {
  const Output outside = g.Const(1.0, "outside");
  const std::vector<Argument> one = {DType::kDouble};
  Graph h(TheRuntime());
  Define(
      h, "f",
      [&](Graph& b, const Outputs& v) {
        return b.Op("AddV2", {v[0], outside});
      },
      one);
  ExpectText(h.status(), Code::kInvalidArgument,
             "function 'f': node 'AddV2' (AddV2): input 1 is 'outside', which belongs to another graph; a function's "
             "body gets such a value as an argument");
  Graph k(TheRuntime());
  Define(
      k, "f", [&](Graph&, const Outputs&) { return outside; }, one);
  ExpectText(k.status(), Code::kInvalidArgument, "output 'y0' is 'outside' of another graph than the body");
  ExpectText(
      Refused([&](Graph& m) {
        Define(
            m, "f", [](Graph& b, const Outputs&) { return b.Op("Exp", {b.Placeholder("free", DType::kDouble)}); }, one);
      }),
      Code::kInvalidArgument,
      "node 'free' (Placeholder) is a value that somebody has to feed, and nobody feeds a function; make it an input");
  ExpectText(Refused([&](Graph& m) {
               Define(
                   m, "f",
                   [](Graph& b, const Outputs&) {
                     return b.Op("VariableV2", {}, {{"dtype", DType::kDouble}, {"shape", Shape{}}}, "v");
                   },
                   one);
             }),
             Code::kInvalidArgument, "output 'y0' is a reference, from node 'v' (VariableV2)");
}

TEST_F(FunctionsOfGraphs, RefuseWhatIsNotThere) {
  Graph body = g.Body();
  const Output p = body.Placeholder("p", DType::kDouble);
  const tenon_named_output input = {TENON_SPAN("p"), p.c_output()};
  const auto define = [&](const tenon_app_graph* of, const std::vector<tenon_named_output>& inputs,
                          const std::vector<tenon_named_output>& outputs,
                          const std::vector<tenon_named_node>& nodes = {}) {
    tenon_function_spec spec = {TENON_HEAD(tenon_function_spec),
                                TENON_SPAN("f"),
                                {},
                                of,
                                inputs.data(),
                                inputs.size(),
                                outputs.data(),
                                outputs.size(),
                                nodes.data(),
                                nodes.size(),
                                nullptr,
                                0,
                                {}};
    return Status::Take(tenon_graph_add_function(g.get(), &spec));
  };
  ExpectText(define(nullptr, {}, {}), Code::kInvalidArgument, "'spec.body' is NULL");
  for (const int64_t node : {int64_t{-1}, int64_t{1}, int64_t{1} << 32, INT64_MIN})
    ExpectText(define(body.get(), {input}, {{TENON_SPAN("y"), {node, 0, 0}}}), Code::kInvalidArgument,
               "output 'y' is of node ");
  for (const int32_t index : {-1, 1, INT32_MAX})
    ExpectText(define(body.get(), {input}, {{TENON_SPAN("y"), {0, index, 0}}}), Code::kInvalidArgument,
               "output 'y' is output ");
  ExpectText(define(body.get(), {{TENON_SPAN("x"), {7, 0, 0}}}, {}), Code::kInvalidArgument,
             "input 'x' is of node 7; its graph has 1");
  ExpectText(define(body.get(), {input, {TENON_SPAN("q"), p.c_output()}}, {}), Code::kInvalidArgument,
             "the inputs 'p' and 'q' are one value, p:0");
  ExpectText(define(body.get(), {input}, {}, {{TENON_SPAN("n"), 5}}), Code::kInvalidArgument,
             "control output 'n' is node 5; its graph has 1");
  tenon_function_spec spec = {TENON_HEAD(tenon_function_spec),
                              TENON_SPAN("f"),
                              {},
                              body.get(),
                              nullptr,
                              1,
                              nullptr,
                              0,
                              nullptr,
                              0,
                              nullptr,
                              0,
                              {}};
  ExpectText(Status::Take(tenon_graph_add_function(g.get(), &spec)), Code::kInvalidArgument,
             "'spec.inputs' is NULL, with a count of 1");
  spec.must_understand = 1;
  ExpectText(Status::Take(tenon_graph_add_function(g.get(), &spec)), Code::kUnimplemented,
             "'spec' needs a feature that this library does not have");
  EXPECT_EQ(tenon_graph_function_count(g.get()), 0u);
}

TEST_F(FunctionsOfGraphs, StayInTheirRuntime) {
  auto other = Runtime::Create({});
  ASSERT_TRUE(other.ok()) << other.status();
  Graph foreign(*other);
  DefineTanhSum(foreign, "f");
  const Output p = foreign.Placeholder("p", DType::kDouble);
  const tenon_named_output edge = {TENON_SPAN("p"), p.c_output()};
  tenon_function_spec spec = {TENON_HEAD(tenon_function_spec),
                              TENON_SPAN("g"),
                              {},
                              foreign.get(),
                              &edge,
                              1,
                              &edge,
                              1,
                              nullptr,
                              0,
                              nullptr,
                              0,
                              {}};
  ExpectText(Status::Take(tenon_graph_add_function(g.get(), &spec)), Code::kInvalidArgument,
             "its body is a graph of another runtime");
  ExpectText(Status::Take(tenon_graph_copy_function(g.get(), foreign.get(), Span("f"))), Code::kInvalidArgument,
             "the graphs are of two runtimes");
}

TEST_F(FunctionsOfGraphs, AreCopiedWhole) {
  Graph from(TheRuntime());
  const Function f = DefineTanhSum(from);
  Define(
      from, "outer",
      [&](Graph& b, const Outputs& v) {
        return b.Call(f, {v[0], v[1]});
      },
      kTwoVectors);
  ExpectText(Refused([&](Graph& h) { CopyFunction(h, from, "oter"); }), Code::kNotFound, "did you mean 'outer'?");
  // All or none: what it calls is another one here.
  Graph h(TheRuntime());
  Define(h, "tanh_sum", [](Graph& b, const Outputs& v) { return b.Op("Exp", {v[0]}); }, {DType::kDouble});
  CopyFunction(h, from, "outer");
  ExpectText(h.status(), Code::kAlreadyExists, "copying function 'outer': there are two functions 'tanh_sum'");
  EXPECT_FALSE(FindFunction(h, "outer").ok());
  CopyFunction(g, from, "outer");
  CopyFunction(g, from, "outer");
  const Output a = X(), b = W();
  ExpectTanhSum(g.Call({"outer"}, {a, b}), a, b);
}

TEST_F(FunctionsOfGraphs, RefuseWrongArguments) {
  const Function f = DefineTanhSum(g);
  const Output a = X();
  g.Const({1, 2, 3}, "ints");
  ExpectText(Refused([&](Graph& h) {
               h.Call(f, {*h.Find("x"), *h.Find("ints")});
             }),
             Code::kInvalidArgument, "argument 'w' must be double, found int32");
  ExpectText(Refused([&](Graph& h) { h.Call(f, {*h.Find("x")}); }), Code::kInvalidArgument,
             "argument 'w' has no input");
  ExpectText(Refused([&](Graph& h) { h.Call({"tanh_sun"}, {*h.Find("x")}); }), Code::kNotFound, "tanh_sun");
  // By attribute the node may say anything: the step says what is wrong.
  const Output y = g.Op("PartitionedCall", {a}, {{"f", f}, {"Tout", std::vector<DType>{DType::kDouble}}});
  const Output z =
      g.Op("PartitionedCall", {a, a}, {{"f", f}, {"Tout", std::vector<DType>{DType::kInt32, DType::kDouble}}});
  auto session = Session::Create(TheRuntime(), g);
  ASSERT_TRUE(session.ok()) << session.status();
  ExpectText(session->Run({}, {y}).status(), Code::kInvalidArgument, "function 'tanh_sum'");
  ExpectText(session->Run({}, {z}).status(), Code::kInvalidArgument,
             "result 0 is of double, the call's output of int32");
}

}  // namespace
}  // namespace tenon::engine::function_test
