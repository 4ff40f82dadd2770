// SPDX-License-Identifier: Apache-2.0
#include "core/optimize/optimize.h"

#include "core/graph/function/function_def.h"
#include "core/graph/graph.h"
#include "tests/fakes/tiny_ops.h"

namespace tenon::optimize::inline_calls_test {
namespace {

using fakes::GraphMaker;
using graph::Edge;
using graph::FunctionDef;

// y = op(x, x), or op(x) for another function.
FunctionDef Function(std::string name, std::string op, std::vector<std::string> inputs = {"x"}) {
  FunctionDef f;
  f.name = std::move(name);
  f.inputs = {{"x", TENON_DT_FLOAT, "", "", ""}};
  f.outputs = {{"y", TENON_DT_FLOAT, "", "", ""}};
  f.nodes = {{"n", std::move(op), "", std::move(inputs), {}}};
  f.returns = {{"y", "n:0"}};
  return f;
}

struct Calls : GraphMaker {
  Edge x = Feed(TENON_DT_FLOAT, {}, "x");
  void Define(FunctionDef f) { graph.library()[f.name] = std::make_shared<const FunctionDef>(f); }
  Edge Call(std::string_view function, const char* name) {
    auto op = graph.FunctionOp(function);
    EXPECT_TRUE(op.ok());
    auto id = graph.Add({*op, name, {x}, {}, {}, {}});
    EXPECT_TRUE(id.ok());
    return {*id, 0};
  }
};

TEST(InlineCalls, ReplacesNestedCallsAndLeavesNoTraceOfThem) {
  Calls g;
  g.Define(Function("Inner", "Plus", {"x", "x"}));
  g.Define(Function("Outer", "Inner"));
  Request request{{g.x}, {g.Call("Outer", "call")}, {}};
  const auto inlined = InlineCalls(g.graph.Clone(), &request);
  ASSERT_TRUE(inlined.ok()) << inlined.status().ToString();
  EXPECT_EQ(inlined->size(), 2) << "x and its sum";
  const graph::Node& sum = inlined->node(request.fetches[0].node);
  EXPECT_EQ(sum.Describe(), "node 'call/n/n' (Plus)");
  EXPECT_EQ(inlined->node(sum.inputs[0].node).name, "x");
}

// Nodes that could have had state below them, and have none, are told apart by nothing.
TEST(InlineCalls, LeavesEqualNodesOfTwoCallsEqual) {
  Calls g;
  g.Define(Function("Doubles", "Double"));
  const Edge one = g.Call("Doubles", "one"), other = g.Call("Doubles", "other");
  Request request{{g.x}, {one, other}, {}};
  auto inlined = InlineCalls(g.graph.Clone(), &request, [](const graph::Node&) { return true; });
  ASSERT_TRUE(inlined.ok()) << inlined.status().ToString();
  EXPECT_EQ(inlined->node(request.fetches[0].node).op->name, "Double");
  EXPECT_EQ(MergeCommonSubexpressions(&*inlined, &request), 1);
}

TEST(InlineCalls, ComputesTheRestOfACallThatIsFed) {
  Calls g;
  FunctionDef f = Function("Two", "Copy");
  f.outputs.push_back({"z", TENON_DT_FLOAT, "", "", ""});
  f.nodes.push_back({"m", "Plus", "", {"x", "x"}, {}});
  f.returns.emplace("z", "m:0");
  g.Define(f);
  const Edge call = g.Call("Two", "call"), other{call.node, 1};
  Request request{{call}, {g.Add("Plus", {call, other}, {}, "after")}, {}};
  const auto inlined = InlineCalls(g.graph.Clone(), &request);
  ASSERT_TRUE(inlined.ok()) << inlined.status().ToString();
  const graph::Node& after = inlined->node(request.fetches[0].node);
  EXPECT_EQ(after.inputs[0], request.feeds[0]);
  EXPECT_EQ(inlined->node(after.inputs[1].node).name, "call/m");
  EXPECT_FALSE(inlined->Find("call/n"));
}

TEST(InlineCalls, LeavesACallThatIsFed) {
  Calls g;
  g.Define(Function("F", "Copy"));
  const Edge call = g.Call("F", "call"), after = g.Add("Copy", {call}, {}, "after");
  Request request{{call}, {after}, {}};
  const auto inlined = InlineCalls(g.graph.Clone(), &request);
  ASSERT_TRUE(inlined.ok());
  EXPECT_FALSE(inlined->Find("call/n"));
}

TEST(InlineCalls, RefusesRecursionWithoutEnd) {
  Calls g;
  g.Define(Function("Again", "Again"));
  Request request{{g.x}, {g.Call("Again", "call")}, {}};
  const std::string text = InlineCalls(g.graph.Clone(), &request).status().ToString();
  EXPECT_TRUE(text.starts_with("RESOURCE_EXHAUSTED: node 'call/n/n/")) << text;
  EXPECT_TRUE(
      text.ends_with("(Again) is nested deeper than 64 calls; a call becomes its function's nodes before a step, so a "
                     "function that calls itself, in a branch too, has no end: write a loop"))
      << text;
}

TEST(InlineCalls, RefusesFunctionsThatDoubleWithEachLevel) {
  Calls g;
  g.Define(Function("F0", "Copy"));
  for (int level = 1; level <= 20; ++level) {
    FunctionDef f = Function("F" + std::to_string(level), "F" + std::to_string(level - 1));
    f.nodes.push_back({"twin", f.nodes[0].op, "", {"n:0"}, {}});
    f.returns = {{"y", "twin:0"}};
    g.Define(f);
  }
  Request request{{g.x}, {g.Call("F20", "call")}, {}};
  const Status status = InlineCalls(g.graph.Clone(), &request).status();
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_TRUE(status.message().starts_with("inlining calls made more than 262144 nodes; the last was node 'call/"))
      << status.ToString();
}

TEST(InlineCalls, NamesAFunctionThatIsMissing) {
  Calls g;
  g.Define(Function("F", "Copy"));
  Request request{{g.x}, {g.Call("F", "call")}, {}};
  g.graph.library().clear();
  EXPECT_EQ(InlineCalls(g.graph.Clone(), &request).status().code(), Code::kNotFound);
}

TEST(InlineCalls, MakesOthersOfWhatHasNoKernel) {
  Calls g;
  const Edge node = g.Add("Double", {g.x}, {}, "node");
  for (const bool has_kernel : {false, true}) {
    Request request{{g.x}, {node}, {}};
    const auto inlined = InlineCalls(g.graph.Clone(), &request, [&](const graph::Node&) { return has_kernel; });
    ASSERT_TRUE(inlined.ok()) << inlined.status().ToString();
    EXPECT_EQ(inlined->node(request.fetches[0].node).op->name, has_kernel ? "Double" : "Plus");
  }
}

}  // namespace
}  // namespace tenon::optimize::inline_calls_test
