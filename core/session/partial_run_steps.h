// SPDX-License-Identifier: Apache-2.0
// PartialRunSteps: a partial run over a cluster: each call is a step, which is fed what earlier ones have computed and later ones need.
//
// What cannot be fed to a later step is refused: values that a branch or a turn of a loop decides about, and what ends with the step that made it.
#ifndef TENON_CORE_SESSION_PARTIAL_RUN_STEPS_H_
#define TENON_CORE_SESSION_PARTIAL_RUN_STEPS_H_

#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <vector>

#include "core/graph/loop_analysis.h"
#include "core/partition/deadness.h"
#include "core/session/partial_run.h"
#include "core/session/partial_run_plan.h"

namespace tenon::session {

class PartialRunSteps final : public PartialRun {
 public:
  static Result<std::unique_ptr<PartialRun>> Setup(std::shared_ptr<Session> session, const std::vector<std::string_view>& feeds,
                                                   const std::vector<std::string_view>& fetches,
                                                   const std::vector<std::string_view>& targets);

 private:
  using Values = std::map<graph::Edge, Tensor>;
  PartialRunSteps(std::shared_ptr<Session> session, graph::Graph graph) : session_(std::move(session)), graph_(std::move(graph)) {}
  Status Call(const RunOptions& options, const std::vector<std::string_view>& feed_names, const tenon_tensor_view* const* feeds,
              const std::vector<std::string_view>& fetch_names, std::vector<Tensor>* out_fetches, bool* out_runs) override;
  Status FindFlow();
  Status CheckMayBeKept(graph::Edge edge) const;
  Status TakeFeeds(const std::vector<std::string_view>& names, const tenon_tensor_view* const* feeds, Values* known,
                   std::vector<graph::Edge>* open) const;
  Result<std::vector<graph::Edge>> Edges(const std::vector<std::string_view>& fetch_names) const;
  // Of the nodes that take handles: which make those.
  std::vector<graph::NodeId> StatesOf(const graph::Node& node) const;
  bool IsVariable(graph::NodeId state) const;
  // Reads of variables that can be done now: what a later call changes, or this one, they come before.
  std::vector<graph::NodeId> ReadsThatAreDue(const Values& known, const std::vector<graph::Edge>& open) const;
  // Queues and the like, which a call before used too: in one step what is used when hangs on what is there, not on calls.
  Status CheckStates(const graph::NodeMap<bool>& runs);
  // The nodes that this call runs. FAILED_PRECONDITION: one needs a feed that is still open.
  Result<graph::NodeMap<bool>> FindNodes(const optimize::Request& request, const Values& known, const std::vector<graph::Edge>& open) const;
  // What later calls need of those.
  Result<std::vector<graph::Edge>> FindKept(const graph::NodeMap<bool>& runs, const Values& known) const;
  Status Run(const RunOptions& options, optimize::Request request, const Values& known, std::vector<Tensor>* out);

  const std::shared_ptr<Session> session_;
  const graph::Graph graph_;
  DeclaredEdges declared_;
  std::vector<graph::Edge> declared_feeds_, fetches_;
  std::vector<graph::Edge> feeds_;  // of the declared ones those that are open
  std::vector<graph::NodeId> targets_;
  Values known_;  // fed, or computed by an earlier call
  graph::NodeMap<bool> executed_;
  std::set<graph::NodeId> used_;  // what makes the states, other than variables, that calls used
  graph::LoopAnalysis loops_;
  graph::BranchAnalysis::IsFed is_fed_;
  std::vector<graph::NodeId> running_;  // in order; not those that only name a feed
  std::unique_ptr<partition::Deadness> deadness_;
};

}  // namespace tenon::session

#endif  // TENON_CORE_SESSION_PARTIAL_RUN_STEPS_H_
