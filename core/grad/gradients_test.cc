// SPDX-License-Identifier: Apache-2.0
// What gradients look like as graphs; what they compute is checked against differences in tests/engine. Covers K1 to
// K3.
#include "core/grad/gradients.h"

#include "core/graph/graph.h"

#include "tests/fakes/tiny_ops.h"

namespace tenon::grad::gradients_test {
namespace {

using fakes::GraphMaker;
using graph::Builder;
using graph::Edge;
using graph::FromC;

struct Differentiated : GraphMaker {
  Edge x = Feed(TENON_DT_FLOAT, {2}, "x");
  std::vector<tenon_gradient> Of(std::vector<Edge> ys, std::vector<Edge> xs, std::vector<Edge> initial = {}) {
    Builder builder(&graph);
    auto gradients = AddGradients(&builder, ys, xs, initial);
    EXPECT_TRUE(gradients.ok()) << gradients.status().ToString();
    return gradients.ok() ? *gradients : std::vector<tenon_gradient>(xs.size());
  }
  std::string WhyNot(std::vector<Edge> ys, std::vector<Edge> xs, std::vector<Edge> initial = {}) {
    const int32_t size = graph.size();
    Builder builder(&graph);
    const std::string text = AddGradients(&builder, ys, xs, initial).status().ToString();
    EXPECT_EQ(graph.size(), size) << "the graph is unchanged on failure";
    return text;
  }
};

TEST(Gradients, BeginWithOnesLikeTheYs) {
  Differentiated g;
  const auto d = g.Of({g.x}, {g.x});
  ASSERT_EQ(d[0].kind, TENON_GRADIENT_DENSE);
  const graph::Node& ones = g.graph.node(FromC(d[0].dense).node);
  EXPECT_EQ(ones.op->name, "Ones");
  EXPECT_EQ(ones.inputs[0], g.x);
  EXPECT_TRUE(ones.name.starts_with("gradients/")) << ones.name;
}

TEST(Gradients, BeginWithWhatIsGiven) {
  Differentiated g;
  const Edge y = g.Add("Copy", {g.x}), seed = g.Feed(TENON_DT_FLOAT, {2});
  EXPECT_EQ(FromC(g.Of({y}, {g.x}, {seed})[0].dense), seed);
}

TEST(Gradients, AddAllPathsInOneSum) {
  Differentiated g;
  // Four paths from y to x.
  const Edge a = g.Add("Plus", {g.x, g.x}), y = g.Add("Plus", {a, g.Add("Plus", {g.x, g.x})});
  const int32_t size = g.graph.size();
  const auto d = g.Of({y}, {g.x});
  ASSERT_EQ(d[0].kind, TENON_GRADIENT_DENSE);
  const graph::Node& sum = g.graph.node(FromC(d[0].dense).node);
  EXPECT_EQ(sum.op->name, "Total");
  EXPECT_EQ(sum.inputs.size(), 4u);
  EXPECT_EQ(g.graph.size(), size + 2) << "ones and one sum";
}

// A chain and side branches of it, 100,000 nodes: each is visited once, so that what would be square in them would not
// end.
TEST(Gradients, OfAHundredThousandNodesTakeEachOnce) {
  Differentiated g;
  Edge y = g.x;
  for (int i = 0; i < 50000; ++i) y = g.Add("Plus", {y, i % 2 == 0 ? y : g.x});
  for (int i = 0; i < 50000; ++i) y = g.Add("Copy", {y});
  const int32_t size = g.graph.size();
  const auto d = g.Of({y}, {g.x});
  ASSERT_EQ(d[0].kind, TENON_GRADIENT_DENSE);
  EXPECT_LE(g.graph.size() - size, 200000);
}

TEST(Gradients, SumSeveralYs) {
  Differentiated g;
  const auto d = g.Of({g.Add("Copy", {g.x}), g.Add("Copy", {g.x})}, {g.x});
  EXPECT_EQ(g.OpOf(FromC(d[0].dense)), "Total");
}

TEST(Gradients, AreNoneWhereNothingFlows) {
  Differentiated g;
  const Edge other = g.Feed(TENON_DT_FLOAT, {2}), stopped = g.Add("Stop", {g.x}), y = g.Add("Plus", {stopped, other});
  const auto d = g.Of({y}, {g.x, other, stopped});
  EXPECT_EQ(d[0].kind, TENON_GRADIENT_NONE) << "behind an op that carries no gradient";
  EXPECT_EQ(d[1].kind, TENON_GRADIENT_DENSE);
  EXPECT_EQ(d[2].kind, TENON_GRADIENT_DENSE);
  EXPECT_EQ(g.Of({g.Add("Copy", {other})}, {g.x})[0].kind, TENON_GRADIENT_NONE) << "no path at all";
}

TEST(Gradients, AreTakenOfWhatIsInBetweenToo) {
  Differentiated g;
  const Edge middle = g.Add("Copy", {g.x}), y = g.Add("Plus", {middle, middle});
  const auto d = g.Of({y}, {middle, g.x});
  EXPECT_EQ(FromC(d[0].dense), FromC(d[1].dense)) << "a copy passes its gradient on";
}

TEST(Gradients, GoThroughAConditionalByTheDualOne) {
  Differentiated g;
  const Edge p = g.Feed(TENON_DT_BOOL), s = g.Add("Branch", {g.x, p});
  const Edge merged = g.Add("Join", {g.Add("Copy", {s}), g.Add("Plus", {{s.node, 1}, {s.node, 1}})});
  const auto d = g.Of({merged}, {g.x});
  ASSERT_EQ(d[0].kind, TENON_GRADIENT_DENSE);
  EXPECT_EQ(g.OpOf(FromC(d[0].dense)), "Join") << "the gradient of a switch merges those of its sides";
}

TEST(Gradients, SayWhatHasNone) {
  Differentiated g;
  const Edge i = g.Feed(TENON_DT_INT32), round = g.Add("Round", {g.x}, {}, "round"),
             mystery = g.Add("Mystery", {g.x}, {}, "mystery");
  EXPECT_EQ(g.WhyNot({}, {g.x}), "INVALID_ARGUMENT: gradients need at least one y and one x");
  EXPECT_EQ(g.WhyNot({g.x}, {g.x}, {g.x, g.x}), "INVALID_ARGUMENT: there are 1 ys and 2 initial gradients");
  EXPECT_EQ(g.WhyNot({i}, {g.x}), "INVALID_ARGUMENT: 'Feed:0' is int32, which has no gradient");
  EXPECT_EQ(
      g.WhyNot({round}, {g.x}),
      "INVALID_ARGUMENT: gradient of node 'round' (Round): the op is not differentiable with respect to its input 0");
  EXPECT_NE(g.WhyNot({mystery}, {g.x}).find("gradient of node 'mystery' (Mystery): "), std::string::npos);
}

TEST(Gradients, RefuseEndsInsideALoop) {
  Differentiated g;
  const auto loop = g.While(
      "loop", {g.Value(0, "start")},
      [&](const auto& v) {
        return g.Add("Below", {v[0], v[0]});
      },
      [](const auto& v) { return v; });
  EXPECT_EQ(g.WhyNot({loop.merges[0]}, {g.x}),
            "INVALID_ARGUMENT: 'loop/merge0:0' is inside a loop; differentiate what leaves it");
  EXPECT_EQ(g.WhyNot({loop.exits[0]}, {loop.merges[0]}),
            "INVALID_ARGUMENT: 'loop/merge0:0' is inside a loop; differentiate with respect to what enters it");
}

}  // namespace
}  // namespace tenon::grad::gradients_test
