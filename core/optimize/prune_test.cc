// SPDX-License-Identifier: Apache-2.0
#include "core/optimize/optimize.h"
// Covers C2, C3, N2.
#include "core/graph/graph.h"
#include "tests/fakes/tiny_ops.h"

namespace tenon::optimize::prune_test {
namespace {

using fakes::GraphMaker;
using graph::Edge;

TEST(Prune, KeepsWhatFetchesAndTargetsNeed) {
  GraphMaker g;
  const Edge unused = g.Value(0, "unused"), a = g.Value(1, "a"), b = g.Value(2, "b");
  const Edge sum = g.Add("Plus", {a, a}, {}, "sum"), waits = g.Add("Nothing", {}, {}, "waits", {b.node});
  g.Add("Plus", {unused, sum}, {}, "after");
  Request request{{}, {sum}, {waits.node}};
  const auto pruned = Prune(g.graph, &request);
  ASSERT_TRUE(pruned.ok()) << pruned.status().ToString();
  EXPECT_EQ(pruned->size(), 4);
  EXPECT_FALSE(pruned->Find("unused"));
  EXPECT_FALSE(pruned->Find("after"));
  EXPECT_EQ(pruned->node(request.fetches[0].node).name, "sum");
  EXPECT_EQ(pruned->node(request.targets[0]).name, "waits");
  EXPECT_EQ(pruned->node(request.targets[0]).controls, std::vector<graph::NodeId>{pruned->Find("b")});
  EXPECT_EQ(g.graph.size(), 6) << "the graph itself is as it was";
}

TEST(Prune, CutsAtFeeds) {
  GraphMaker g;
  const Edge a = g.Value(1, "a"), middle = g.Add("Plus", {a, a}, {}, "middle"),
             end = g.Add("Copy", {middle}, {}, "end");
  Request request{{middle}, {end}, {}};
  const auto pruned = Prune(g.graph, &request);
  ASSERT_TRUE(pruned.ok());
  EXPECT_FALSE(pruned->Find("a"));
  EXPECT_EQ(pruned->node(request.feeds[0].node).name, "middle") << "it stays, to name the feed";
  EXPECT_EQ(pruned->node(pruned->Find("end")).inputs[0], request.feeds[0]);
}

TEST(Prune, LeavesWhatOnlyNamesAFeedOpen) {
  GraphMaker g;
  const Edge a = g.Value(1, "a"), middle = g.Add("Plus", {a, a}, {}, "middle"),
             end = g.Add("Plus", {middle, a}, {}, "end");
  Request request{{middle}, {end}, {}};
  const auto pruned = Prune(g.graph, &request);
  ASSERT_TRUE(pruned.ok());
  EXPECT_TRUE(pruned->Find("a")) << "another needs it";
  EXPECT_EQ(pruned->node(pruned->Find("middle")).inputs, (std::vector<Edge>{Edge(), Edge()}));
}

TEST(Prune, KeepsAFedNodeWholeThatOthersWaitFor) {
  GraphMaker g;
  const Edge a = g.Value(1, "a"), middle = g.Add("Plus", {a, a}, {}, "middle"),
             waits = g.Add("Nothing", {}, {}, "waits", {middle.node});
  Request request{{middle}, {}, {waits.node}};
  const auto pruned = Prune(g.graph, &request);
  ASSERT_TRUE(pruned.ok());
  EXPECT_EQ(pruned->node(pruned->Find("middle")).inputs[0].node, pruned->Find("a"));
}

TEST(Frames, RefuseEdgesInsideLoopsByName) {
  GraphMaker g;
  const Edge start = g.Value(0, "start"), limit = g.Value(5, "limit");
  const auto loop = g.While(
      "loop", {start},
      [&](const auto& v) {
        return g.Add("Below", {v[0], v[0]});
      },
      [](const auto& v) { return v; });
  const auto check = [&](Request request) {
    const auto pruned = Prune(g.graph, &request);
    EXPECT_TRUE(pruned.ok());
    return CheckFrames(*pruned, request).ToString();
  };
  EXPECT_EQ(check({{}, {loop.exits[0]}, {}}), "OK");
  EXPECT_EQ(check({{start}, {loop.exits[0]}, {}}), "OK");
  EXPECT_EQ(check({{loop.exits[0]}, {loop.exits[0], limit}, {}}), "OK");
  EXPECT_TRUE(check({{}, {loop.merges[0]}, {}}).find("fetch 'loop/merge0:0': node 'loop/merge0'") != std::string::npos)
      << check({{}, {loop.merges[0]}, {}});
  const std::string fed = check({{loop.merges[0]}, {loop.exits[0]}, {}});
  EXPECT_TRUE(fed.find("feed 'loop/merge0:0': node 'loop/merge0'") != std::string::npos &&
              fed.find("is inside a loop") != std::string::npos)
      << fed;
}

TEST(Prune, FollowsAFedNodesInputsWhenAnotherOfItsOutputsIsWanted) {
  GraphMaker g;
  const Edge a = g.Value(1, "a"), p = g.Feed(TENON_DT_BOOL, {}, "p"), s = g.Add("Branch", {a, p}, {}, "s");
  Request request{{s}, {{s.node, 1}, s}, {}};
  const auto pruned = Prune(g.graph, &request);
  ASSERT_TRUE(pruned.ok());
  EXPECT_TRUE(pruned->Find("a"));
  EXPECT_EQ(pruned->node(pruned->Find("s")).inputs[0].node, pruned->Find("a"));
}

TEST(Prune, KeepsTheBackEdgesOfALoop) {
  GraphMaker g;
  const auto loop = g.While(
      "loop", {g.Value(0)},
      [&](const auto& v) {
        return g.Add("Below", {v[0], v[0]});
      },
      [](const auto& v) { return v; });
  Request request{{}, {loop.exits[0]}, {}};
  const auto pruned = Prune(g.graph, &request);
  ASSERT_TRUE(pruned.ok()) << pruned.status().ToString();
  EXPECT_EQ(pruned->node(pruned->Find("loop/merge0")).inputs[1].node, pruned->Find("loop/next0"));
}

}  // namespace
}  // namespace tenon::optimize::prune_test
