// SPDX-License-Identifier: Apache-2.0
#include "core/graph/function/inline_call.h"

#include "core/graph/function/function_def.h"
#include "core/graph/graph.h"

#include "tests/fakes/tiny_ops.h"

namespace tenon::graph::inline_call_test {
namespace {

using fakes::GraphMaker;

FunctionDef::Arg FloatArg(std::string name) { return {std::move(name), TENON_DT_FLOAT, "", "", ""}; }

// y = (x + x) + x
FunctionDef Thrice() {
  FunctionDef f;
  f.name = "Thrice";
  f.inputs = {FloatArg("x")};
  f.outputs = {FloatArg("y")};
  // The later node first: bodies stand in any order.
  f.nodes = {{"more", "Plus", "", {"twice:c:0", "x"}, {}}, {"twice", "Plus", "", {"x", "x"}, {}}};
  f.returns = {{"y", "more:c:0"}};
  return f;
}

struct Library : GraphMaker {
  Edge x = Feed(TENON_DT_FLOAT, {}, "x");
  void Define(FunctionDef f) { graph.library()[f.name] = std::make_shared<const FunctionDef>(f); }
  NodeId Call(std::string_view function, std::vector<Edge> inputs, AttrMap attrs = {},
              std::vector<NodeId> controls = {}) {
    auto op = graph.FunctionOp(function);
    EXPECT_TRUE(op.ok()) << op.status().ToString();
    auto id = graph.Add({*op, "call", std::move(inputs), std::move(controls), std::move(attrs), {}});
    EXPECT_TRUE(id.ok()) << id.status().ToString();
    return id.ok() ? *id : NodeId();
  }
  std::string WhyNot(FunctionDef f) {
    const int32_t size = graph.size();
    const std::string name = f.name;
    const size_t inputs = f.inputs.size();
    Define(std::move(f));
    const NodeId call = Call(name, std::vector<Edge>(inputs, x));
    std::string text = InlineCall(&graph, call).status().ToString();
    EXPECT_TRUE(graph.node(call).has(TENON_OP_CALL)) << "the call is as it was";
    graph.Truncate(size);
    return text;
  }
};

TEST(InlineCall, PutsTheBodyBelowTheCallsName) {
  Library g;
  g.Define(Thrice());
  const NodeId call = g.Call("Thrice", {g.x});
  const Edge user = g.Add("Copy", {{call, 0}});
  auto old = InlineCall(&g.graph, call);
  ASSERT_TRUE(old.ok()) << old.status().ToString();
  EXPECT_EQ((*old)->op->name, "Thrice");
  const NodeId twice = g.graph.Find("call/twice"), more = g.graph.Find("call/more");
  ASSERT_TRUE(twice);
  ASSERT_TRUE(more);
  EXPECT_EQ(g.graph.node(more).inputs, (std::vector<Edge>{{twice, 0}, g.x}));
  EXPECT_EQ(g.OpOf({call, 0}), "CopyAll");
  EXPECT_EQ(g.graph.node(call).inputs, (std::vector<Edge>{{more, 0}}));
  EXPECT_EQ(g.graph.node(user.node).inputs[0], (Edge{call, 0})) << "users need no change";
  g.graph.Restore(*std::move(old));
  EXPECT_EQ(g.OpOf({call, 0}), "Thrice");
}

TEST(InlineCall, FindsTheFunctionOfAnAttribute) {
  Library g;
  g.Define(Thrice());
  const Edge call =
      g.Add("Apply", {g.x},
            {{"Tout", AttrValue::Types({TENON_DT_FLOAT})}, {"f", AttrValue::Function({"Thrice", nullptr})}}, "apply");
  ASSERT_TRUE(InlineCall(&g.graph, call.node).ok());
  EXPECT_TRUE(g.graph.Find("apply/more"));
  const Edge lost =
      g.Add("Apply", {g.x},
            {{"Tout", AttrValue::Types({TENON_DT_FLOAT})}, {"f", AttrValue::Function({"Lost", nullptr})}}, "lost");
  EXPECT_EQ(InlineCall(&g.graph, lost.node).status().ToString(),
            "NOT_FOUND: node 'lost' (Apply) calls the function 'Lost', which the graph's library does not have");
}

TEST(InlineCall, BindsAttributesFromTheCallAndFromDefaults) {
  Library g;
  FunctionDef f;
  f.name = "Sum";
  f.inputs = {{"xs", TENON_DT_INVALID, "T", "N", ""}};
  f.outputs = {{"y", TENON_DT_INVALID, "T", "", ""}};
  f.attrs = {{"T", TENON_ATTR_TYPE, {}, {}, {}, {}},
             {"N", TENON_ATTR_INT, {}, {}, {}, {}},
             {"label", TENON_ATTR_STRING, AttrValue::String("fast"), {}, {}, {}}};
  f.nodes = {
      {"sum", "Total", "", {"xs"}, {{"T", AttrValue::Placeholder("T")}, {"_kernel", AttrValue::Placeholder("label")}}},
      {"last", "Plus", "", {"sum:sum", "xs:1"}, {}}};
  f.returns = {{"y", "last"}};
  g.Define(f);
  const Edge y = g.Feed(TENON_DT_FLOAT, {}, "y");
  const NodeId call = g.Call("Sum", {g.x, y});
  ASSERT_TRUE(InlineCall(&g.graph, call).ok());
  const Node& sum = g.graph.node(g.graph.Find("call/sum"));
  EXPECT_EQ(sum.inputs, (std::vector<Edge>{g.x, y}));
  EXPECT_EQ(sum.FindAttr("_kernel")->s(), "fast");
  EXPECT_EQ(g.graph.node(g.graph.Find("call/last")).inputs[1], y);
}

TEST(InlineCall, WaitsForTheBodysEffectsAndLetsTheBodyWaitForWhatTheCallWaitedFor) {
  Library g;
  FunctionDef f;
  f.name = "Effect";
  f.inputs = {FloatArg("x")};
  f.nodes = {{"draw", "Draw", "", {}, {}}, {"after", "Nothing", "", {"^draw"}, {}}};
  f.control_returns = {{"after", "after"}};
  g.Define(f);
  const Edge before = g.Add("Nothing", {}, {}, "before");
  const NodeId call = g.Call("Effect", {g.x}, {}, {before.node});
  ASSERT_TRUE(InlineCall(&g.graph, call).ok());
  const NodeId draw = g.graph.Find("call/draw"), after = g.graph.Find("call/after");
  EXPECT_EQ(g.OpOf({call, 0}), "Nothing");
  EXPECT_EQ(g.graph.node(call).controls, (std::vector<NodeId>{draw, after, before.node}));
  EXPECT_EQ(g.graph.node(draw).controls, std::vector<NodeId>{before.node});
  EXPECT_EQ(g.graph.node(after).controls, (std::vector<NodeId>{draw, before.node}));
}

TEST(InlineCall, BuildsABodyThatHasALoop) {
  Library g;
  FunctionDef f;
  f.name = "Loop";
  f.inputs = {FloatArg("x")};
  f.outputs = {FloatArg("y")};
  f.nodes = {{"enter", "Into", "", {"x"}, {{"frame_name", AttrValue::String("f")}}},
             {"merge", "Join", "", {"enter:output", "next:output"}, {}},
             {"below", "Below", "", {"merge:output", "merge:output"}, {}},
             {"cond", "Goes", "", {"below:z"}, {}},
             {"switch", "Branch", "", {"merge:output", "cond:output"}, {}},
             {"exit", "Leave", "", {"switch:no"}, {}},
             {"next", "Again", "", {"switch:yes"}, {}}};
  f.returns = {{"y", "exit:output"}};
  g.Define(f);
  const NodeId call = g.Call("Loop", {g.x});
  auto inlined = InlineCall(&g.graph, call);
  ASSERT_TRUE(inlined.ok()) << inlined.status().ToString();
  EXPECT_EQ(g.graph.node(g.graph.Find("call/merge")).inputs[1], (Edge{g.graph.Find("call/next"), 0}));
  EXPECT_TRUE(g.graph.TopologicalOrder().ok());
}

TEST(InlineCall, SaysWhatIsWrongWithABody) {
  Library g;
  const std::string prefix = "INVALID_ARGUMENT: node 'call' (Thrice): function 'Thrice': ";
  FunctionDef f = Thrice();
  f.returns = {};
  EXPECT_EQ(g.WhyNot(f), prefix + "result 'y' has no value");
  f = Thrice();
  f.returns = {{"y", "more:d:0"}};
  EXPECT_EQ(g.WhyNot(f), prefix + "'more:d:0': node 'call/more' (Plus) has no output 'd'");
  f.returns = {{"y", "more:c:1"}};
  EXPECT_EQ(g.WhyNot(f), prefix + "'more:c:1' does not exist");
  f.returns = {{"y", "most"}};
  EXPECT_EQ(g.WhyNot(f), prefix + "'most' names no node or argument");
  f = Thrice();
  f.nodes[1].inputs = {"more:c:0", "x"};
  EXPECT_EQ(g.WhyNot(f), prefix + "its body has a cycle at node 'more'");
  f = Thrice();
  f.nodes[1].attrs = {{"T", AttrValue::Placeholder("T")}};
  EXPECT_EQ(g.WhyNot(f), prefix + "node 'twice' needs the attribute 'T'");
  f = Thrice();
  f.nodes[1].op = "Pluss";
  EXPECT_TRUE(g.WhyNot(f).starts_with(
      "NOT_FOUND: function 'Thrice', node 'twice': no loaded plugin has the op 'Pluss'; did you mean 'Plus'?"));
}

TEST(InlineCall, DoesWithoutUnknownOpsThatNoResultNeeds) {
  Library g;
  FunctionDef f = Thrice();
  f.nodes.push_back({"odd", "Frobnicate", "", {"x"}, {}});
  f.nodes.push_back({"reader", "Copy", "", {"odd:y:0"}, {}});
  f.nodes.push_back({"second", "Copy", "", {"x", "^reader"}, {}});
  g.Define(f);
  const NodeId call = g.Call("Thrice", {g.x});
  ASSERT_TRUE(InlineCall(&g.graph, call).ok());
  EXPECT_TRUE(g.graph.Find("call/more"));
  for (const char* name : {"call/odd", "call/reader", "call/second"}) EXPECT_FALSE(g.graph.Find(name)) << name;
  f.name = "Effect";
  f.control_returns = {{"second", "second"}};
  Library other;
  EXPECT_TRUE(other.WhyNot(f).starts_with(
      "NOT_FOUND: function 'Effect', node 'odd': no loaded plugin has the op 'Frobnicate'"));
}

AttrValue Named(std::string name) { return AttrValue::Function({std::move(name), nullptr}); }

// w comes back through an identity, x does not.
void DefineLoop(Library* g) {
  FunctionDef cond, body;
  cond.name = "Cond";
  body.name = "Body";
  cond.inputs = body.inputs = body.outputs = {FloatArg("x"), FloatArg("w")};
  cond.outputs = {{"z", TENON_DT_BOOL, "", "", ""}};
  cond.nodes = {{"below", "Below", "", {"x", "w"}, {}}};
  cond.returns = {{"z", "below:z:0"}};
  body.nodes = {{"sum", "Plus", "", {"x", "w"}, {}}, {"same", "Copy", "", {"w"}, {}}, {"draw", "Draw", "", {}, {}}};
  body.returns = {{"x", "sum:c:0"}, {"w", "same"}};
  g->Define(cond);
  g->Define(body);
}

TEST(InlineCall, MakesAFrameOfALoopAndKeepsWhatDoesNotChangeOutOfIt) {
  Library g;
  DefineLoop(&g);
  const Edge w = g.Feed(TENON_DT_FLOAT, {}, "w");
  const Edge loop = g.Add("Repeat", {g.x, w}, {{"cond", Named("Cond")}, {"body", Named("Body")}}, "loop");
  ASSERT_TRUE(InlineCall(&g.graph, loop.node).ok());
  const std::vector<Edge> results = g.graph.node(loop.node).inputs;
  EXPECT_EQ(g.OpOf(results[0]), "Leave");
  EXPECT_EQ(results[1], w) << "it is what it was";
  const Node& merge = g.graph.node(g.graph.Find("loop/merge"));
  EXPECT_EQ(g.OpOf(merge.inputs[1]), "Again");
  const Node& draw = g.graph.node(g.graph.Find("loop/body/draw"));
  ASSERT_EQ(draw.controls.size(), 1u) << "what has no input runs once a turn";
  EXPECT_EQ(g.graph.node(draw.controls[0]).name, "loop/turn");
  const Node& next = g.graph.node(g.graph.Find("loop/next"));
  EXPECT_EQ(next.controls, std::vector<NodeId>{draw.id}) << "a turn begins when the one before has had its effects";
}

TEST(InlineCall, SaysWhatIsWrongWithAConditionalOrALoop) {
  Library g;
  g.Define(Thrice());
  DefineLoop(&g);
  const auto why = [&g](std::string_view op, std::vector<Edge> inputs, AttrMap attrs) {
    const int32_t size = g.graph.size();
    const std::string text =
        InlineCall(&g.graph, g.Add(op, std::move(inputs), std::move(attrs), "n").node).status().ToString();
    g.graph.Truncate(size);
    return text;
  };
  const Edge p = g.Feed(TENON_DT_BOOL, {}, "p"), k = g.Feed(TENON_DT_INT32, {}, "k");
  const auto choose = [&](Edge condition, std::string then, std::string otherwise, DType type = TENON_DT_FLOAT) {
    return why("Choose", {condition, g.x},
               {{"Tout", AttrValue::Types({type})}, {"then_branch", Named(then)}, {"else_branch", Named(otherwise)}});
  };
  EXPECT_EQ(choose(p, "Thrice", "Thrice"), "OK");
  EXPECT_EQ(choose(k, "Thrice", "Thrice"), "OK") << "a number is taken for a truth";
  EXPECT_EQ(choose(p, "Thrice", "Lost"),
            "NOT_FOUND: node 'n' (Choose) calls the function 'Lost', which the graph's library does not have");
  EXPECT_EQ(choose(p, "Body", "Thrice"),
            "INVALID_ARGUMENT: node 'n' (Choose): function 'Body': the call gives 1 arguments");
  EXPECT_EQ(
      choose(p, "Thrice", "Thrice", TENON_DT_DOUBLE),
      "INVALID_ARGUMENT: node 'n' (Choose): function 'Thrice': result 0 is of float, the call's output of double");
  EXPECT_EQ(why("Repeat", {}, {{"T", AttrValue::Types({})}, {"cond", Named("Cond")}, {"body", Named("Body")}}),
            "INVALID_ARGUMENT: node 'n' (Repeat): it has no loop variables");
  EXPECT_EQ(why("Repeat", {g.x, g.x}, {{"cond", Named("Thrice")}, {"body", Named("Body")}}),
            "INVALID_ARGUMENT: node 'n' (Repeat): function 'Thrice': it takes 1 arguments, the call gives 2");
}

TEST(InlineCall, PutsABodyOnTheDeviceThatAConstantNames) {
  Library g;
  g.Define(Thrice());
  const std::string_view device = "/device:CPU:1";
  const Edge target = g.Add("Copy", {g.ValueOf(*Tensor::Strings(GlobalPool(), {}, std::span(&device, 1)))});
  const AttrMap attrs{{"Tout", AttrValue::Types({TENON_DT_FLOAT})}, {"f", AttrValue::Function({"Thrice", nullptr})}};
  ASSERT_TRUE(InlineCall(&g.graph, g.Add("Far", {target, g.x}, attrs, "far").node).ok());
  EXPECT_EQ(g.graph.node(g.graph.Find("far/more")).device, device);
  const Edge fed = g.Feed(TENON_DT_STRING, {}, "where");
  EXPECT_EQ(InlineCall(&g.graph, g.Add("Far", {fed, g.x}, attrs, "lost").node).status().ToString(),
            "UNIMPLEMENTED: node 'lost' (Far): the device on which its function runs is computed by node 'where' "
            "(Feed); placement happens before the step: "
            "make it a constant");
}

TEST(InlineCall, MakesANodeOfTheOpsThatItIsMadeOf) {
  Library g;
  const Edge node = g.Add("Double", {g.x}, {}, "node", {g.x.node});
  ASSERT_TRUE(Decomposes(g.graph.node(node.node)));
  ASSERT_TRUE(InlineCall(&g.graph, node.node).ok());
  const Node& plus = g.graph.node(g.graph.node(node.node).inputs[0].node);
  EXPECT_EQ(plus.Describe(), "node 'node/Plus' (Plus)");
  EXPECT_EQ(plus.inputs, (std::vector<Edge>{g.x, g.x}));
  EXPECT_EQ(plus.controls, std::vector<NodeId>{g.x.node}) << "it waits for what the node waited for";
}

}  // namespace
}  // namespace tenon::graph::inline_call_test
