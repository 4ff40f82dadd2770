// SPDX-License-Identifier: Apache-2.0
#include "core/graph/loop_analysis.h"
// Covers A14, L12.
#include "core/graph/graph.h"

#include "tests/fakes/tiny_ops.h"

namespace tenon::graph::loop_analysis_test {
namespace {

using fakes::GraphMaker;
using Edges = std::vector<Edge>;

struct CountingLoop : GraphMaker {
  Edge limit = Value(3, "limit");
  // The condition v0 < limit.
  auto Condition(const std::string& frame) {
    return [this, frame](const Edges& v) { return Add("Below", {v[0], Into(limit, frame, true, frame + "/limit")}); };
  }
  Result<LoopAnalysis> Analyse() { return LoopAnalysis::Run(graph, Order()); }
};

TEST(LoopAnalysis, FindsNoFrameButTheStepsOwn) {
  GraphMaker g;
  const Edge x = g.Value(1);
  const auto loops = LoopAnalysis::Run(g.graph, g.Order());
  ASSERT_TRUE(loops.ok());
  EXPECT_FALSE(loops->has_loops());
  EXPECT_EQ(loops->frame_of(x.node), kStep);
}

TEST(LoopAnalysis, TakesAWhileLoopApart) {
  CountingLoop g;
  Edge sum;
  const auto loop = g.While("loop", {g.Value(0), g.Value(1)}, g.Condition("loop"), [&](const Edges& v) {
    sum = g.Add("Plus", {v[0], v[1]});
    return Edges{sum, v[1]};
  });
  const auto loops = g.Analyse();
  ASSERT_TRUE(loops.ok()) << loops.status().ToString();
  ASSERT_EQ(loops->frames().size(), 2u);
  const Frame& frame = loops->frame(FrameId(1));
  EXPECT_TRUE(frame.structured) << frame.why_not;
  EXPECT_EQ(frame.name, "loop");
  EXPECT_EQ(frame.parent, kStep);
  EXPECT_EQ(frame.condition, loop.condition.node);
  ASSERT_EQ(frame.variables.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(frame.variables[i].enter, loop.enters[i].node);
    EXPECT_EQ(frame.variables[i].merge, loop.merges[i].node);
    EXPECT_EQ(frame.variables[i].switch_node, loop.switches[i].node);
    EXPECT_EQ(frame.variables[i].next, loop.nexts[i].node);
    EXPECT_EQ(frame.variables[i].exit, loop.exits[i].node);
  }
  EXPECT_EQ(frame.invariants, std::vector<NodeId>{g.graph.Find("loop/limit")});
  EXPECT_TRUE(frame.body.contains(sum.node));
  EXPECT_FALSE(frame.body.contains(loop.condition.node));
  EXPECT_EQ(loops->frame_of(sum.node), FrameId(1));
  EXPECT_EQ(loops->frame_of(g.limit.node), kStep);
}

TEST(LoopAnalysis, NestsFramesAndListsALoopAsAWhole) {
  CountingLoop g;
  const auto outer = g.While("outer", {g.Value(0)}, g.Condition("outer"), [&](const Edges& v) {
    return g.While("inner", {v[0]}, [&](const Edges& w) { return g.Add("Below", {w[0], w[0]}); },
                   [&](const Edges& w) { return Edges{g.Add("Plus", {w[0], w[0]})}; }).exits;
  });
  const auto loops = g.Analyse();
  ASSERT_TRUE(loops.ok()) << loops.status().ToString();
  ASSERT_EQ(loops->frames().size(), 3u);
  EXPECT_TRUE(loops->frame(FrameId(1)).structured && loops->frame(FrameId(2)).structured);
  EXPECT_EQ(loops->frame(FrameId(2)).parent, FrameId(1));
  EXPECT_TRUE(loops->IsWithin(FrameId(2), FrameId(1)) && loops->IsWithin(FrameId(2), kStep) &&
              !loops->IsWithin(FrameId(1), FrameId(2)));
  const auto items = loops->Items(g.graph, g.Order(), FrameId(1));
  ASSERT_TRUE(items.ok());
  const auto child =
      std::find_if(items->begin(), items->end(), [](const auto& item) { return item.child == FrameId(2); });
  ASSERT_NE(child, items->end());
  EXPECT_EQ(std::count_if(items->begin(), items->end(), [](const auto& item) { return !item.node; }), 1);
  // After what enters it, before what uses what leaves it.
  const auto at = [&](Edge edge) {
    return std::find_if(items->begin(), items->end(), [&](const auto& i) { return i.node == edge.node; });
  };
  EXPECT_LT(at(outer.switches[0]), child);
  EXPECT_LT(child, at(outer.nexts[0]));
}

TEST(LoopAnalysis, TakesASwitchOfAnotherValueOnTheConditionForAGate) {
  CountingLoop g;
  Edge gate;
  g.While("loop", {g.Value(0)}, [&](const Edges& v) {
    gate = g.Add("Plus", {v[0], v[0]});
    return g.Condition("loop")(v);
  }, [&](const Edges& v) {
    gate = g.Add("Branch", {gate, {g.graph.Find("loop/condition"), 0}});
    return Edges{g.Add("Plus", {v[0], {gate.node, 1}})};
  });
  const auto loops = g.Analyse();
  ASSERT_TRUE(loops.ok());
  EXPECT_TRUE(loops->frame(FrameId(1)).structured) << loops->frame(FrameId(1)).why_not;
  EXPECT_EQ(loops->frame(FrameId(1)).gates, std::vector<NodeId>{gate.node});
}

TEST(LoopAnalysis, SaysWhyALoopIsNotStructured) {
  const auto why = [](const std::function<void(CountingLoop&)>& build) {
    CountingLoop g;
    build(g);
    const auto loops = g.Analyse();
    if (!loops.ok()) return loops.status().ToString();
    EXPECT_FALSE(loops->frame(FrameId(1)).structured);
    return loops->frame(FrameId(1)).why_not;
  };
  const auto identity = [](const Edges& v) { return v; };
  EXPECT_EQ(why([&](CountingLoop& g) { g.Into(g.limit, "loop"); }), "it has no loop condition");
  EXPECT_EQ(why([&](CountingLoop& g) {
              const auto loop = g.While("loop", {g.Value(0)}, g.Condition("loop"), identity);
              g.Add("Goes", {g.graph.node(loop.condition.node).inputs[0]});
            }),
            "it has two loop conditions");
  EXPECT_EQ(why([&](CountingLoop& g) {
              const auto loop = g.While("loop", {g.Value(0)}, g.Condition("loop"), identity);
              g.Add("Leave", {loop.switches[0]});
            }),
            "a loop variable leaves twice");
  EXPECT_EQ(why([&](CountingLoop& g) {
              const auto loop = g.While("loop", {g.Value(0)}, g.Condition("loop"), identity);
              g.Add("Copy", {loop.switches[0]});
            }),
            "a value is used after the condition failed");
  EXPECT_EQ(why([&](CountingLoop& g) {
              const auto loop = g.While("loop", {g.Value(0)}, g.Condition("loop"), identity);
              g.Add("Copy", {{loop.merges[0].node, 1}});
            }),
            "a loop variable's merge index is used");
  EXPECT_EQ(why([&](CountingLoop& g) {
              const auto loop = g.While("loop", {g.Value(0)}, g.Condition("loop"), identity);
              g.Add("Leave", {loop.merges[0]});
            }),
            "an exit does not leave from a loop variable's switch");
  EXPECT_EQ(why([&](CountingLoop& g) {
              const auto loop = g.While("loop", {g.Value(0)}, g.Condition("loop"), identity);
              g.Add("Join", {loop.enters[0], loop.enters[0], loop.nexts[0]});
            }),
            "it has a merge that is no loop variable");
  EXPECT_EQ(why([&](CountingLoop& g) {
              g.While("loop", {g.Value(0)}, g.Condition("loop"), [&](const Edges& v) {
                g.Into(v[0], "inner");
                return v;
              });
            }),
            "a loop in it is not structured");
}

TEST(LoopAnalysis, RefusesFramesThatDoNotNest) {
  {
    CountingLoop g;
    const auto loop = g.While("loop", {g.Value(0)}, g.Condition("loop"), [](const Edges& v) { return v; });
    g.Add("Plus", {loop.merges[0], g.limit}, {}, "mix");
    EXPECT_EQ(g.Analyse().status().ToString(),
              "INVALID_ARGUMENT: node 'mix' (Plus): its inputs come from different loops ('' and 'loop', '' being "
              "none); a value "
              "enters a loop through an Enter and leaves it through an Exit");
  }
  {
    GraphMaker g;
    g.Add("Leave", {g.Value(1)}, {}, "exit");
    EXPECT_EQ(LoopAnalysis::Run(g.graph, g.Order()).status().ToString(),
              "INVALID_ARGUMENT: node 'exit' (Leave) is not in a loop");
  }
  {
    GraphMaker g;
    const Edge a = g.Into(g.Value(1), "a"), b = g.Into(g.Value(2), "b");
    const Edge merge = g.Add("Join", {a, {}}, {}, "merge"), next = g.Add("Again", {b}, {}, "next");
    ASSERT_TRUE(g.graph.SetInput(merge.node, 1, next).ok());
    EXPECT_EQ(LoopAnalysis::Run(g.graph, g.Order()).status().ToString(),
              "INVALID_ARGUMENT: node 'merge' (Join): its next value comes from another loop (node 'next' (Again))");
  }
}

}  // namespace
}  // namespace tenon::graph::loop_analysis_test
