// SPDX-License-Identifier: Apache-2.0
#include "core/optimize/optimize.h"
// Covers L11, N1.
#include "core/graph/graph.h"
#include "tests/fakes/tiny_ops.h"

namespace tenon::optimize::common_subexpressions_test {
namespace {

using fakes::GraphMaker;
using graph::AttrValue;
using graph::Edge;

TEST(MergeCommonSubexpressions, MakesOneOfEqualNodes) {
  GraphMaker g;
  const Edge a = g.Value(1), b = g.Value(1), x = g.Add("Plus", {a, b}), y = g.Add("Plus", {b, a}),
             z = g.Add("Plus", {x, y});
  Request request{{}, {z, y}, {y.node}};
  EXPECT_EQ(MergeCommonSubexpressions(&g.graph, &request), 2) << "b is a, and so y is x";
  EXPECT_EQ(g.graph.node(z.node).inputs, (std::vector<Edge>{x, x}));
  EXPECT_EQ(request.fetches, (std::vector<Edge>{z, x}));
  EXPECT_EQ(request.targets, std::vector<graph::NodeId>{x.node});
}

TEST(MergeCommonSubexpressions, TellsApartWhatDiffers) {
  GraphMaker g;
  const Edge a = g.Value(1), b = g.Value(2), wait = g.Add("Nothing");
  g.Add("Plus", {a, b});
  g.Add("Plus", {b, a});
  g.Add("Minus", {a, b});
  g.Add("Plus", {a, b}, {}, "", {wait.node});
  g.Add("Plus", {a, b}, {{"_kernel", AttrValue::String("fast")}});
  Request request;
  EXPECT_EQ(MergeCommonSubexpressions(&g.graph, &request), 0);
}

TEST(MergeCommonSubexpressions, NeverMergesWhatHasEffectsOrIsFed) {
  GraphMaker g;
  const Edge a = g.Value(1), b = g.Value(1), p = g.Feed(TENON_DT_BOOL);
  std::vector<Edge> kept;
  for (int i = 0; i < 2; ++i) {
    kept.push_back(g.Add("Draw"));
    kept.push_back(g.Add("Cell"));
    kept.push_back(g.Add("Branch", {a, p}));
    kept.push_back(g.Feed(TENON_DT_FLOAT));
    kept.push_back(g.Add("Nothing"));
    kept.push_back(g.Into(a, "loop"));
  }
  Request request{{b}, kept, {}};
  EXPECT_EQ(MergeCommonSubexpressions(&g.graph, &request), 0);
  EXPECT_EQ(request.fetches, kept);
}

TEST(MergeCommonSubexpressions, ReadsPastWhatOnlyStopsGradients) {
  GraphMaker g;
  const Edge a = g.Value(1), wait = g.Add("Nothing");
  const Edge once = g.Add("StopOnly", {a}), twice = g.Add("StopOnly", {once}), fed = g.Add("StopOnly", {a}),
             waits = g.Add("StopOnly", {a}, {}, "", {wait.node}), copy = g.Add("Copy", {a});
  const Edge x = g.Add("Plus", {twice, fed}), y = g.Add("Plus", {waits, copy});
  Request request{{fed}, {x, y, twice}, {}};
  EXPECT_EQ(MergeCommonSubexpressions(&g.graph, &request), 3)
      << "both that x read through, and the second is the first";
  EXPECT_EQ(g.graph.node(x.node).inputs, (std::vector<Edge>{a, fed}));
  EXPECT_EQ(g.graph.node(y.node).inputs, (std::vector<Edge>{waits, copy}));
  EXPECT_EQ(request.fetches[2], once) << "who asks for it gets it";
}

TEST(MergeCommonSubexpressions, RewritesControlsAndBackEdges) {
  GraphMaker g;
  const Edge a = g.Value(1), b = g.Value(1), wait = g.Add("Nothing", {}, {}, "", {a.node, b.node});
  const auto loop = g.While(
      "loop", {a},
      [&](const auto& v) {
        return g.Add("Below", {v[0], v[0]});
      },
      [&](const auto& v) {
        return std::vector{g.Add("Plus", {g.Add("Copy", {v[0]}), g.Add("Copy", {v[0]})})};
      });
  Request request{{}, {loop.exits[0]}, {wait.node}};
  EXPECT_EQ(MergeCommonSubexpressions(&g.graph, &request), 2);
  EXPECT_EQ(g.graph.node(wait.node).controls, std::vector<graph::NodeId>{a.node});
  EXPECT_EQ(g.graph.node(loop.merges[0].node).inputs[1], loop.nexts[0]);
  EXPECT_TRUE(g.graph.TopologicalOrder().ok());
}

}  // namespace
}  // namespace tenon::optimize::common_subexpressions_test
