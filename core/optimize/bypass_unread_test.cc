// SPDX-License-Identifier: Apache-2.0
#include "core/optimize/optimize.h"
// Covers L11, N1.
#include "core/graph/graph.h"
#include "tests/fakes/tiny_ops.h"

namespace tenon::optimize::bypass_unread_test {
namespace {

using fakes::GraphMaker;
using graph::Edge;
using graph::NodeId;

struct Maker : GraphMaker {
  Edge Heavy(Edge x, std::string_view name = {}, std::vector<NodeId> controls = {}) {
    const Edge y = Add("Round", {x}, {}, name, std::move(controls));
    graph.mutable_node(y.node).traits |= TENON_OP_EXPENSIVE;
    return y;
  }
};

// As gradients stand in files: what reads one waits for all.
struct Step : Maker {
  Edge x = Feed(TENON_DT_FLOAT, {}, "x"), weight = Value(2), drawn = Add("Draw");
  NodeId waits = Add("Nothing", {}, {}, "", {drawn.node}).node;
  Edge unread = Heavy(x, "unread", {waits}), wanted = Heavy(weight, "wanted");
  NodeId group = Add("Nothing", {}, {}, "group", {unread.node, wanted.node}).node;
  Edge update = Add("Copy", {wanted}, {}, "update", {group});
};

TEST(BypassUnread, LeavesOutWhatIsOnlyWaitedForAndKeepsWhatThatWaitedFor) {
  Step s;
  Request request{{s.x}, {}, {s.update.node}};
  EXPECT_EQ(BypassUnread(&s.graph, request), 1);
  EXPECT_EQ(s.graph.node(s.group).controls, (std::vector<NodeId>{s.x.node, s.waits, s.wanted.node}));
  const auto pruned = Prune(s.graph, &request);
  ASSERT_TRUE(pruned.ok()) << pruned.status().ToString();
  EXPECT_FALSE(pruned->Find("unread"));
  EXPECT_TRUE(pruned->Find("wanted"));
  EXPECT_EQ(pruned->size(), 7) << "what has effects is still waited for";
}

TEST(BypassUnread, GoesOnWithWhatOnlyThatRead) {
  Step s;
  const Edge last = s.Heavy(s.Heavy(s.x));
  const NodeId end = s.Add("Nothing", {}, {}, "", {last.node}).node;
  Request request{{}, {}, {end}};
  EXPECT_EQ(BypassUnread(&s.graph, request), 3);
  EXPECT_EQ(s.graph.node(end).controls, std::vector<NodeId>{s.x.node});
}

TEST(BypassUnread, KeepsWhatIsReadAskedForOrFed) {
  Step s;
  for (Request request : {Request{{}, {s.unread}, {}}, Request{{s.unread}, {}, {}}, Request{{}, {}, {s.unread.node}}})
    EXPECT_EQ(BypassUnread(&s.graph, request), 0);
  s.Add("Copy", {s.unread});
  EXPECT_EQ(BypassUnread(&s.graph, {}), 0);
}

TEST(BypassUnread, KeepsWhatIsCheapHasEffectsOrStandsBehindASwitch) {
  Maker g;
  const Edge x = g.Value(1), p = g.Feed(TENON_DT_BOOL), side = g.Add("Branch", {x, p});
  g.Add("Nothing", {}, {}, "", {g.Add("Plus", {x, x}).node, g.Add("Draw").node, g.Heavy(side).node});
  EXPECT_EQ(BypassUnread(&g.graph, {}), 0);
}

// What hands values on is waited for in place of what made them: without it that is only waited for, too.
TEST(BypassUnread, GoesThroughWhatHandsValuesOn) {
  Step s;
  const Edge heavy = s.Heavy(s.x), copy = s.Add("Copy", {heavy}, {}, "copy", {s.waits});
  ASSERT_TRUE(s.graph.node(copy.node).has(TENON_OP_IDENTITY));
  const NodeId end = s.Add("Nothing", {}, {}, "end", {copy.node}).node;
  EXPECT_EQ(BypassUnread(&s.graph, {{}, {}, {end}}), 3);
  EXPECT_EQ(s.graph.node(end).controls, (std::vector<NodeId>{s.x.node, s.waits}));
}

// Of many that one node waits for, each is looked at once.
TEST(BypassUnread, TakesNoLongerForAGroupOfManyThanForEachAlone) {
  constexpr int kMany = 10000;
  Maker g;
  const Edge x = g.Feed(TENON_DT_FLOAT, {}, "x");
  std::vector<NodeId> all;
  for (int i = 0; i < kMany; ++i) all.push_back(g.Heavy(x).node);
  const NodeId group = g.Add("Nothing", {}, {}, "group", all).node;
  EXPECT_EQ(BypassUnread(&g.graph, {{}, {}, {group}}), kMany);
  EXPECT_EQ(g.graph.node(group).controls, std::vector<NodeId>{x.node});
}

}  // namespace
}  // namespace tenon::optimize::bypass_unread_test
