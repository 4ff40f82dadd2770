// SPDX-License-Identifier: Apache-2.0
#include "core/exec/lower/straight_line.h"

#include "core/exec/kernel/node_runner.h"
#include "core/graph/graph.h"

namespace tenon::exec {
namespace {

constexpr int kDeepestOnQueues = 8;

std::string WhyNotItsLoops(const Plan& plan, const Facts& facts) {
  const graph::LoopAnalysis& loops = facts.loops();
  IdVector<graph::FrameId, bool> used(loops.frames().size(), false);
  for (graph::NodeId id : facts.order()) used[loops.frame_of(id)] = true;
  for (const graph::FrameId i : used.ids())
    if (i != graph::kStep && used[i] && !loops.frame(i).structured)
      return StrCat("loop '", loops.frame(i).name, "': ", loops.frame(i).why_not);
  // Waits of queues are found by walking each loop twice, and so those in it twice as often.
  for (const graph::Frame& frame : loops.frames())
    if (plan.uses_queues() && frame.depth > kDeepestOnQueues)
      return StrCat("loop '", frame.name, "' lies in ", frame.depth - 1, " others; where devices have queues, at most ",
                    kDeepestOnQueues - 1, " are run as one program");
  return "";
}

std::string WhyNotItsNodes(const Plan& plan, const Facts& facts) {
  for (graph::NodeId id : facts.order()) {
    const auto& runner = plan.runner(id);
    if (runner != nullptr && runner->has(TENON_KERNEL_ASYNC))
      return StrCat(plan.graph().node(id).Describe(), " is asynchronous");
    // The other part waits for what is sent, and sends what is waited for, whether or not a branch is taken. Here it
    // may not show: what is sent may be a known value of the branch.
    if (plan.ChannelOf(id) && plan.MayBeDead(plan.ChannelOf(id)))
      return StrCat(plan.graph().node(id).Describe(), " may have a dead value");
  }
  return "";
}

}  // namespace

std::string WhyNotStraight(const Plan& plan, const Facts& facts, const graph::BranchAnalysis& branches) {
  if (std::string why = WhyNotItsLoops(plan, facts); !why.empty()) return why;
  if (!branches.why_not().empty()) return branches.why_not();
  for (const graph::Edge& fetch : plan.fetches())
    if (plan.FeedOf(fetch) < 0 && branches.RegionOf(fetch) != graph::kEverywhere)
      return StrCat("fetch '", plan.graph().EdgeName(fetch), "' lies in a branch");
  return WhyNotItsNodes(plan, facts);
}

}  // namespace tenon::exec
