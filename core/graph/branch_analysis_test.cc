// SPDX-License-Identifier: Apache-2.0
#include "core/graph/branch_analysis.h"

#include "core/graph/graph.h"
#include "core/graph/loop_analysis.h"

#include "tests/fakes/tiny_ops.h"

namespace tenon::graph::branch_analysis_test {
namespace {

using fakes::GraphMaker;
using Edges = std::vector<Edge>;

struct Analysed {
  std::unique_ptr<LoopAnalysis> loops;
  std::unique_ptr<BranchAnalysis> branches;
  const BranchAnalysis* operator->() const { return branches.get(); }
};

// What it gives points into itself and at the graph. The question is a temporary, which the analysis keeps.
std::unique_ptr<Analysed> Analyse(const GraphMaker& g, std::vector<Edge> fed = {}) {
  auto out = std::make_unique<Analysed>();
  auto loops = LoopAnalysis::Run(g.graph, g.Order());
  EXPECT_TRUE(loops.ok()) << loops.status().ToString();
  out->loops = std::make_unique<LoopAnalysis>(*std::move(loops));
  out->branches = std::make_unique<BranchAnalysis>(
      BranchAnalysis::Run(g.graph, g.Order(), *out->loops, [fed](Edge edge) {
        return std::find(fed.begin(), fed.end(), edge) != fed.end();
      }));
  return out;
}

Edge Side(Edge branch, int side) { return {branch.node, side}; }

TEST(BranchAnalysis, PutsEachSideIntoARegion) {
  GraphMaker g;
  const Edge x = g.Value(1), p = g.Feed(TENON_DT_BOOL), s = g.Add("Branch", {x, p});
  const Edge no = g.Add("Copy", {Side(s, 0)}), yes = g.Add("Copy", {Side(s, 1)}), merged = g.Add("Join", {no, yes}),
             after = g.Add("Copy", {merged});
  const auto found = Analyse(g);
  const BranchAnalysis& branches = *found->branches;
  EXPECT_EQ(branches.why_not(), "");
  EXPECT_EQ(branches.region_of(x.node), kEverywhere);
  const Region& region = branches.regions()[branches.region_of(yes.node)];
  EXPECT_EQ(region.predicate, p);
  EXPECT_EQ(region.side, 1);
  EXPECT_EQ(region.parent, kEverywhere);
  EXPECT_EQ(branches.regions()[branches.region_of(no.node)].side, 0);
  EXPECT_EQ(branches.region_of(merged.node), kEverywhere);
  EXPECT_EQ(branches.region_of(after.node), kEverywhere);
  const BranchMerge* merge = branches.FindMerge(merged.node);
  ASSERT_NE(merge, nullptr);
  EXPECT_EQ(merge->predicate, p);
  EXPECT_EQ(merge->input_of_side[0], 0);
  EXPECT_EQ(merge->input_of_side[1], 1);
  EXPECT_EQ(branches.FindMerge(after.node), nullptr);
}

TEST(BranchAnalysis, KnowsAPredicateBehindIdentities) {
  GraphMaker g;
  const Edge x = g.Value(1), p = g.Feed(TENON_DT_BOOL), again = g.Add("Copy", {g.Add("Copy", {p})});
  const Edge a = g.Add("Branch", {x, p}), b = g.Add("Branch", {x, again});
  g.Add("Join", {Side(a, 1), Side(b, 0)});
  EXPECT_EQ(Analyse(g)->branches->why_not(), "");
  EXPECT_NE(Analyse(g, {again})->branches->why_not(), "") << "one that is fed is a predicate of its own";
}

TEST(BranchAnalysis, AnswersLaterToo) {
  GraphMaker g;
  const Edge p = g.Feed(TENON_DT_BOOL), again = g.Add("Copy", {p}), last = g.Add("Copy", {again});
  EXPECT_EQ(Analyse(g)->branches->Resolve(last), p);
  EXPECT_EQ(Analyse(g, {again})->branches->Resolve(last), again);
}

TEST(BranchAnalysis, NestsConditionals) {
  GraphMaker g;
  const Edge x = g.Value(1), p = g.Feed(TENON_DT_BOOL), q = g.Feed(TENON_DT_BOOL);
  const Edge outer = g.Add("Branch", {x, p}), inner = g.Add("Branch", {Side(outer, 1), q});
  const Edge deep = g.Add("Copy", {Side(inner, 0)}), joined = g.Add("Join", {deep, Side(inner, 1)}),
             all = g.Add("Join", {Side(outer, 0), joined});
  const auto found = Analyse(g);
  const BranchAnalysis& branches = *found->branches;
  EXPECT_EQ(branches.why_not(), "");
  const Region& region = branches.regions()[branches.region_of(deep.node)];
  EXPECT_EQ(region.predicate, q);
  EXPECT_EQ(region.parent, branches.region_of(joined.node));
  EXPECT_EQ(branches.regions()[region.parent].predicate, p);
  EXPECT_EQ(branches.region_of(all.node), kEverywhere);
}

TEST(BranchAnalysis, PutsALoopIntoTheRegionInWhichItIsEntered) {
  GraphMaker g;
  const Edge p = g.Feed(TENON_DT_BOOL), s = g.Add("Branch", {g.Value(0), p});
  const auto loop = g.While(
      "loop", {Side(s, 1)},
      [&](const Edges& v) {
        return g.Add("Below", {v[0], v[0]});
      },
      [](const Edges& v) { return v; });
  const Edge merged = g.Add("Join", {Side(s, 0), loop.exits[0]});
  const auto found = Analyse(g);
  const BranchAnalysis& branches = *found->branches;
  EXPECT_EQ(branches.why_not(), "");
  const RegionId region = branches.region_of_loop(FrameId(1));
  EXPECT_EQ(branches.regions()[region].predicate, p);
  EXPECT_EQ(branches.RegionOf(loop.exits[0]), region);
  EXPECT_EQ(branches.region_of(loop.condition.node), kEverywhere) << "a turn's regions begin anew";
  EXPECT_EQ(branches.region_of(merged.node), kEverywhere);
}

TEST(BranchAnalysis, RefusesWhatDoesNotNest) {
  const auto why = [](const std::function<void(GraphMaker&, Edge, Edge, Edge)>& build) {
    GraphMaker g;
    const Edge x = g.Value(1), p = g.Feed(TENON_DT_BOOL), q = g.Feed(TENON_DT_BOOL);
    build(g, x, g.Add("Branch", {x, p}), g.Add("Branch", {x, q}));
    return Analyse(g)->branches->why_not();
  };
  EXPECT_EQ(why([](GraphMaker& g, Edge, Edge s, Edge t) { g.Add("Plus", {Side(s, 1), Side(t, 1)}, {}, "n"); }),
            "node 'n' (Plus) runs under two conditionals that do not nest");
  EXPECT_EQ(why([](GraphMaker& g, Edge, Edge s, Edge) { g.Add("Plus", {Side(s, 0), Side(s, 1)}, {}, "n"); }),
            "node 'n' (Plus) runs under two conditionals that do not nest");
  EXPECT_EQ(why([](GraphMaker& g, Edge, Edge s, Edge t) { g.Add("Join", {Side(s, 0), Side(t, 1)}, {}, "n"); }),
            "node 'n' (Join) does not merge the two sides of one conditional");
  EXPECT_EQ(why([](GraphMaker& g, Edge, Edge s, Edge) { g.Add("Join", {Side(s, 1), Side(s, 1)}, {}, "n"); }),
            "node 'n' (Join) does not merge the two sides of one conditional");
  EXPECT_EQ(why([](GraphMaker& g, Edge x, Edge s, Edge) { g.Add("Join", {x, Side(s, 1)}, {}, "n"); }),
            "node 'n' (Join) does not merge the two sides of one conditional");
  EXPECT_EQ(why([](GraphMaker& g, Edge x, Edge s, Edge) { g.Add("Join", {x, Side(s, 1), Side(s, 0)}, {}, "n"); }),
            "node 'n' (Join) merges more than two values");
  EXPECT_EQ(why([](GraphMaker& g, Edge, Edge s, Edge t) {
              const Edge a = g.Add("Copy", {Side(s, 1)}), b = g.Add("Copy", {Side(t, 1)});
              g.Add("Wake", {}, {}, "wake", {a.node, b.node});
            }),
            "")
      << "a control trigger is never dead";
}

}  // namespace
}  // namespace tenon::graph::branch_analysis_test
