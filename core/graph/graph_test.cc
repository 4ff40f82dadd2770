// SPDX-License-Identifier: Apache-2.0
#include "core/graph/graph.h"
// Covers A2, A3, A6 to A8, A14, L12.
#include "core/graph/function/function_def.h"
#include "core/graph/node_name.h"

#include "tests/fakes/tiny_ops.h"

namespace tenon::graph::graph_test {
namespace {

using fakes::GraphMaker;
using fakes::TensorOf;

TEST(GraphAdd, TellsAttributesFromTheInputsAndTakesDefaults) {
  GraphMaker g;
  const Edge a = g.Value(1, "a"), total = g.Add("Total", {a, a, a}), into = g.Into(a, "loop");
  EXPECT_EQ(g.graph.node(total.node).FindAttr("N")->i(), 3);
  EXPECT_EQ(g.graph.node(total.node).FindAttr("T")->type(), DType{TENON_DT_FLOAT});
  EXPECT_EQ(g.graph.node(total.node).input_types, std::vector<DType>(3, TENON_DT_FLOAT));
  EXPECT_EQ(g.graph.node(into.node).FindAttr("parallel_iterations")->i(), 10);
  EXPECT_FALSE(g.graph.node(into.node).FindAttr("is_constant")->b());
  const Edge all = g.Add("CopyAll", {a, g.Feed(TENON_DT_INT64)});
  EXPECT_EQ(g.graph.node(all.node).output_types, (std::vector<DType>{TENON_DT_FLOAT, TENON_DT_INT64}));
  EXPECT_EQ(g.graph.node(all.node).output_ranges[0].count, 2);
}

TEST(GraphAdd, TakesTheDefaultOfAListThatTheInputsDoNotTell) {
  GraphMaker g;
  const Edge x = g.Value(1, "x"), i = g.Feed(TENON_DT_INT32, {}, "i");
  const Edge made = g.Add("TwoLists", {x, i, i});
  EXPECT_EQ(g.graph.node(made.node).FindAttr("A")->size(), 0u);
  EXPECT_EQ(g.graph.node(made.node).FindAttr("N")->i(), 1);
  EXPECT_EQ(g.graph.node(made.node).input_types, (std::vector<DType>{TENON_DT_FLOAT, TENON_DT_INT32, TENON_DT_INT32}));
  EXPECT_EQ(g.TryAdd("TwoLists", {}, {}, "n").status().ToString(),
            "INVALID_ARGUMENT: node 'n' (TwoLists): attribute 'N' says 1 inputs, there are 0");
}

TEST(GraphAdd, SaysWhatIsWrongAndLeavesTheGraphUnchanged) {
  GraphMaker g;
  const Edge x = g.Value(1, "x"), i = g.Feed(TENON_DT_INT32, {}, "i"), b = g.Feed(TENON_DT_BOOL, {}, "b");
  const int32_t size = g.graph.size();
  const auto fails = [&](std::string_view op, std::vector<Edge> inputs, AttrMap attrs, const char* text) {
    EXPECT_EQ(g.TryAdd(op, std::move(inputs), std::move(attrs), "n").status().ToString(),
              StrCat("INVALID_ARGUMENT: ", text));
    EXPECT_EQ(g.graph.size(), size);
    EXPECT_FALSE(g.graph.Find("n"));
  };
  fails("Plus", {x}, {}, "node 'n' (Plus): argument 'b' has no input: 1 inputs were given");
  fails("Plus", {x, x, x}, {}, "node 'n' (Plus): the op takes 2 inputs here, 3 were given");
  fails("Plus", {x, i}, {}, "node 'n' (Plus): argument 'b' makes attribute 'T' int32, but it is float");
  fails("Plus", {x, x}, {{"T", AttrValue::Type(TENON_DT_INT32)}},
        "node 'n' (Plus): argument 'a' makes attribute 'T' float, but it is int32");
  fails("Plus", {b, b}, {}, "node 'n' (Plus): attribute 'T' is bool; allowed: float, double, int32, int64");
  fails("Plus", {x, x}, {{"axis", AttrValue::Int(1)}}, "node 'n' (Plus): the op has no attribute 'axis'");
  fails("Round", {i}, {}, "node 'n' (Round): argument 'x' must be float, found int32");
  fails("Total", {}, {}, "node 'n' (Total): attribute 'N' must be at least 1, found 0");
  fails("Total", {x, x}, {{"N", AttrValue::Int(3)}}, "node 'n' (Total): attribute 'N' says 3 inputs, there are 2");
  fails("Total", {x, x}, {{"N", AttrValue::Float(2)}},
        "node 'n' (Total): attribute 'N' says 2.000000 inputs, there are 2");
  fails("Into", {x}, {}, "node 'n' (Into): attribute 'frame_name' (string) is missing and has no default");
  fails("Into", {x}, {{"frame_name", AttrValue::Int(1)}},
        "node 'n' (Into): attribute 'frame_name' must be string, found int");
  fails("Into", {x}, {{"frame_name", AttrValue::Placeholder("name")}},
        "node 'n' (Into): attribute 'frame_name' is the placeholder 'name', which only a function's body may have");
  fails("Write", {x, x}, {}, "node 'n' (Write): argument 'ref' takes a reference, found a float value");
  fails("Plus", {{NodeId(9), 0}, x}, {}, "node 'n' (Plus): input 0 names an output that does not exist");
  fails("Plus", {x, {x.node, 1}}, {}, "node 'n' (Plus): input 1 names an output that does not exist");
  fails("Plus", {x, {x.node, -1}}, {}, "node 'n' (Plus): input 1 names an output that does not exist");
  fails("Value", {},
        {{"dtype", AttrValue::Type(TENON_DT_INT32)},
         {"value", AttrValue::OfTensor(TensorOf<float>(TENON_DT_FLOAT, {}, {1}))}},
        "node 'n' (Value): attribute 'value' is of type float, but the output is int32");
  EXPECT_EQ(g.TryAdd("Nothing", {}, {}, "n", {NodeId(7)}).status().ToString(),
            "INVALID_ARGUMENT: node 'n' (Nothing): a control input names a node that does not exist");
  EXPECT_EQ(g.TryAdd("Nothing", {}, {}, "x").status().ToString(), "ALREADY_EXISTS: the graph already has a node 'x'");
  EXPECT_EQ(g.TryAdd("Nothing", {}, {}, "^x").status().ToString(), "INVALID_ARGUMENT: '^x' cannot be a node's name");
}

TEST(GraphAdd, ChecksConstraintsOnAttributesAtOnce) {
  tenon_op_definition op = fakes::DefineOp("Window", "", "", "size: int; stride: int = 1");
  op.constraints = TENON_SPAN("stride <= size");
  OpRegistry registry;
  ASSERT_TRUE(fakes::RegisterOps(&registry, {&op}).ok());
  Graph graph(&registry);
  const auto add = [&](int64_t size, int64_t stride) {
    return graph
        .Add({*registry.Find("Window"),
              "",
              {},
              {},
              {{"size", AttrValue::Int(size)}, {"stride", AttrValue::Int(stride)}},
              {}})
        .status()
        .ToString();
  };
  EXPECT_EQ(add(3, 3), "OK");
  EXPECT_EQ(add(3, 4), "INVALID_ARGUMENT: node 'Window_1' (Window): must hold: stride <= size; found 4 <= 3");
}

TEST(GraphAdd, TakesAttributesOfItsOwnThatBeginWithAnUnderscore) {
  GraphMaker g;
  const Edge x = g.Add("Nothing", {}, {{"_kernel", AttrValue::String("fast")}});
  EXPECT_EQ(g.graph.node(x.node).FindAttr("_kernel")->s(), "fast");
}

TEST(GraphAdd, PassesReferencesOnAndReadsThemWhereAValueIsWanted) {
  GraphMaker g;
  const Edge cell = g.Add("Cell"), x = g.Value(2);
  const Edge write = g.Add("Write", {cell, x}), plus = g.Add("Plus", {write, x});
  EXPECT_EQ(g.graph.TypeOf(write), DType{TENON_DT_FLOAT + TENON_DT_REF});
  EXPECT_EQ(g.graph.TypeOf(plus), DType{TENON_DT_FLOAT});
}

TEST(Graph, MakesNamesThatDoNotExistYet) {
  GraphMaker g;
  EXPECT_EQ(g.graph.node(g.Add("Nothing").node).name, "Nothing");
  EXPECT_EQ(g.graph.node(g.Add("Nothing").node).name, "Nothing_1");
  g.Add("Nothing", {}, {}, "Nothing_2");
  EXPECT_EQ(g.graph.UniqueName("Nothing"), "Nothing_3");
  EXPECT_EQ(g.graph.UniqueName("Other"), "Other");
}

TEST(Graph, ValidatesNodeNames) {
  for (const char* good : {"a", ".a", "A/b-c_d\\e>f", "_arg", "9"}) EXPECT_TRUE(IsValidNodeName(good)) << good;
  for (const char* bad : {"", "-a", "/a", "a b", "a:0", "^a", "\xc3\xa4"}) EXPECT_FALSE(IsValidNodeName(bad)) << bad;
}

TEST(Graph, ReadsNamesOfEdges) {
  GraphMaker g;
  const Edge x = g.Value(1, "x"), p = g.Feed(TENON_DT_BOOL), s = g.Add("Branch", {x, p}, {}, "switch");
  EXPECT_EQ(*g.graph.ParseEdge("x"), x);
  EXPECT_EQ(*g.graph.ParseEdge("switch:1"), (Edge{s.node, 1}));
  EXPECT_EQ(g.graph.EdgeName({s.node, 1}), "switch:1");
  EXPECT_EQ(g.graph.ParseEdge("switch:2").status().ToString(),
            "INVALID_ARGUMENT: 'switch:2': node 'switch' (Branch) has 2 outputs");
  EXPECT_EQ(g.graph.ParseEdge("switsh:1").status().ToString(),
            "NOT_FOUND: the graph has no node 'switsh'; did you mean 'switch'?");
  for (const char* bad : {"x:", "x:a", "x:-1", "x:1 ", ":0", "^x", "", "x:99999999999"})
    EXPECT_EQ(g.graph.ParseEdge(bad).status().ToString(),
              StrCat("INVALID_ARGUMENT: '", bad, "' is no tensor's name; write node or node:k"))
        << bad;
}

TEST(Graph, OrdersNodesAfterTheirInputsLowerIdsFirst) {
  GraphMaker g;
  const Edge a = g.Value(1, "a"), b = g.Value(2, "b"), c = g.Add("Plus", {b, a}), d = g.Add("Nothing");
  g.graph.AddControl(d.node, a.node);
  g.graph.AddControl(d.node, a.node);
  EXPECT_EQ(g.graph.node(a.node).controls, std::vector<NodeId>{d.node});
  EXPECT_EQ(g.Order(), (std::vector<NodeId>{b.node, d.node, a.node, c.node}));
  const auto kept = g.graph.TopologicalOrder([&](NodeId id) { return id != d.node; });
  EXPECT_EQ(*kept, (std::vector<NodeId>{a.node, b.node, c.node}));
}

TEST(Graph, OrdersLoopsAlongTheirBackEdges) {
  GraphMaker g;
  const Edge limit = g.Value(3);
  const auto loop = g.While(
      "loop", {g.Value(0)},
      [&](const auto& v) {
        return g.Add("Below", {v[0], g.Into(limit, "loop", true)});
      },
      [&](const auto& v) {
        return std::vector{g.Add("Plus", {v[0], v[0]})};
      });
  const std::vector<NodeId> order = g.Order();
  ASSERT_EQ(order.size(), static_cast<size_t>(g.graph.size()));
  const auto position = [&](Edge edge) { return std::find(order.begin(), order.end(), edge.node) - order.begin(); };
  EXPECT_LT(position(loop.merges[0]), position(loop.nexts[0]));
}

TEST(Graph, NamesTheNodesOfACycleThatIsNoLoop) {
  GraphMaker g;
  const Edge x = g.Value(1, "x"), a = g.Add("Plus", {x, {}}, {}, "a"), b = g.Add("Copy", {a}, {}, "b");
  ASSERT_TRUE(g.graph.SetInput(a.node, 1, b).ok());
  EXPECT_EQ(g.graph.TopologicalOrder().status().ToString(),
            "INVALID_ARGUMENT: the graph has a cycle that is no loop; nodes on or after it: 'a', 'b'");
}

TEST(Graph, ConnectsOpenInputsWhereTypesFit) {
  GraphMaker g;
  const Edge x = g.Value(1, "x"), i = g.Feed(TENON_DT_INT32, {}, "i"), join = g.Add("Join", {x, {}}, {}, "join");
  EXPECT_EQ(g.graph.SetInput(join.node, 1, i).ToString(),
            "INVALID_ARGUMENT: node 'join' (Join): input 1 must be float, i:0 is int32");
  EXPECT_FALSE(g.graph.node(join.node).inputs[1].node);
  EXPECT_TRUE(g.graph.SetInput(join.node, 1, x).ok());
}

TEST(Graph, PutsAnotherNodeInPlaceAndTheFirstBack) {
  GraphMaker g;
  const Edge x = g.Value(1, "x"), y = g.Add("Plus", {x, x}, {}, "y"), z = g.Add("Copy", {y}, {}, "z");
  const OpDef* copy = *fakes::TinyOps().Find("Copy");
  auto old = g.graph.Replace(y.node, {copy, "ignored", {x}, {}, {}, {}});
  ASSERT_TRUE(old.ok()) << old.status().ToString();
  EXPECT_EQ(g.graph.node(y.node).Describe(), "node 'y' (Copy)");
  EXPECT_EQ(g.graph.node(z.node).inputs[0], y);
  const OpDef* below = *fakes::TinyOps().Find("Below");
  EXPECT_EQ(g.graph.Replace(y.node, {below, "", {x, x}, {}, {}, {}}).status().ToString(),
            "INVALID_ARGUMENT: node 'y' (Copy) gives (float), what would stand for it gives (bool)");
  EXPECT_EQ(g.OpOf(y), "Copy");
  g.graph.Restore(*std::move(old));
  EXPECT_EQ(g.OpOf(y), "Plus");
}

TEST(Graph, DropsItsNewestNodesWithTheirNames) {
  GraphMaker g;
  g.Value(1, "x");
  const int32_t size = g.graph.size();
  g.Value(2, "y");
  g.graph.Truncate(size);
  EXPECT_EQ(g.graph.size(), size);
  EXPECT_FALSE(g.graph.Find("y"));
  g.Value(3, "y");
  EXPECT_EQ(g.graph.size(), size + 1);
}

TEST(Graph, ClonesWithoutSharingWhatChanges) {
  GraphMaker g;
  const Edge x = g.Value(1, "x"), j = g.Add("Join", {x, {}}, {}, "j");
  Graph copy = g.graph.Clone();
  ASSERT_TRUE(g.graph.SetInput(j.node, 1, x).ok());
  g.Value(2, "later");
  EXPECT_FALSE(copy.node(j.node).inputs[1].node);
  EXPECT_FALSE(copy.Find("later"));
  EXPECT_EQ(copy.Find("x"), x.node);
}

TEST(Graph, MakesAnOpOfALibraryFunction) {
  GraphMaker g;
  FunctionDef f;
  f.name = "Twice";
  f.inputs = {{"x", TENON_DT_INVALID, "T", "", ""}};
  f.outputs = {{"y", TENON_DT_INVALID, "T", "", ""}};
  f.is_stateful = true;
  g.graph.library()["Twice"] = std::make_shared<FunctionDef>(f);
  EXPECT_EQ(g.graph.FunctionOp("Twice").status().ToString(),
            "INVALID_ARGUMENT: function 'Twice': argument 'x' names the missing attribute 'T'");
  f.attrs.push_back({"T", TENON_ATTR_TYPE, {}, {}, {}, {}});
  g.graph.library()["Twice"] = std::make_shared<FunctionDef>(f);
  const auto op = g.graph.FunctionOp("Twice");
  ASSERT_TRUE(op.ok()) << op.status().ToString();
  EXPECT_TRUE((*op)->has(TENON_OP_CALL));
  EXPECT_TRUE((*op)->has(TENON_OP_STATEFUL));
  EXPECT_EQ(g.graph.FunctionOp("Thrice").status().ToString(),
            "NOT_FOUND: the graph's library has no function 'Thrice'");
}

}  // namespace
}  // namespace tenon::graph::graph_test
