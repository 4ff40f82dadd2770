// SPDX-License-Identifier: Apache-2.0
// Plan: what a step of (feeds, fetches, targets) runs, whatever the shapes of its feeds: a pruned, optimized graph, a
// runner for each node that needs a kernel, an order, the memory of each value. Made once (make_plan.h) and immutable
// then; any thread.
#ifndef TENON_CORE_EXEC_PLAN_PLAN_H_
#define TENON_CORE_EXEC_PLAN_PLAN_H_

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/status.h"
#include "core/exec/plan/plan_options.h"
#include "core/graph/graph.h"

namespace tenon::exec {

class Claims;
class KernelStore;
class NodeRunner;
struct Environment;

// Whether a node runs a kernel; others the executors do themselves.
bool NeedsKernel(const graph::Node& node);

class Plan {
 public:
  using Options = PlanOptions;

  // As MakePlan says; without the order of transfers, and what compilers take.
  static Result<std::shared_ptr<Plan>> Create(graph::Graph graph, std::vector<graph::Edge> feeds,
                                              std::vector<graph::Edge> fetches, std::vector<graph::NodeId> targets,
                                              const Environment& env, KernelStore* store, Options options);
  void SetOrder(std::vector<graph::NodeId> order, std::unordered_map<graph::NodeId, graph::NodeId> waits);
  void SetClaims(std::shared_ptr<const Claims> claims) { claims_ = std::move(claims); }

  const graph::Graph& graph() const { return graph_; }
  const std::vector<graph::Edge>& feeds() const { return feeds_; }
  const std::vector<graph::Edge>& fetches() const { return fetches_; }
  const std::vector<graph::NodeId>& targets() const { return targets_; }
  // Topological; the nodes that a step may run.
  const std::vector<graph::NodeId>& order() const { return order_; }
  const Environment& env() const { return *env_; }
  const Options& options() const { return options_; }
  // The device that a node is placed on, by its `device`; the first when it names none.
  int32_t DeviceOf(graph::NodeId node) const { return device_of_[node]; }
  // Where a value lies: 0 the host's memory, else the number of a device with queues. Of a reference: its variable's.
  int32_t MemoryOf(graph::Edge edge) const;
  // The memory that a transfer takes its value from; -1: the node is none.
  int32_t TransferFrom(graph::NodeId node) const { return transfer_from_[node]; }
  // The value that a transfer brings, maybe through others.
  graph::Edge ValueOf(graph::NodeId transfer) const;
  // Whether there is a loop or a conditional.
  bool HasControlFlow() const;
  // Whether a node's output is a fetch that stays in a device's memory, which the caller keeps.
  bool IsKept(graph::NodeId node) const { return kept_.Get(node, false); }
  // The channel of a send or receive; none for other nodes.
  ChannelId ChannelOf(graph::NodeId node) const {
    return options_.part == nullptr ? ChannelId() : options_.part->channels.Get(node, ChannelId());
  }
  // Of what is sent to other parts.
  TransferPrecision precision() const { return options_.part->precision; }
  bool MayBeDead(ChannelId channel) const { return options_.part->may_be_dead[channel]; }
  // The node that a transfer or receive waits for where nothing else says when it runs; may be none.
  graph::NodeId WaitOf(graph::NodeId node) const {
    const auto at = waits_.find(node);
    return at == waits_.end() ? graph::NodeId() : at->second;
  }
  // The receives among the nodes that may run.
  const std::vector<graph::NodeId>& receives() const { return receives_; }
  // Whether any node runs on a device with queues.
  bool uses_queues() const { return uses_queues_; }
  // Whether a step, once all that it receives is there, computes to its end and waits for nobody: no loop, no device
  // with queues, no kernel that may wait.
  bool RunsThrough() const;
  // nullptr: no compiler was asked.
  const Claims* claims() const { return claims_.get(); }
  // nullptr for nodes that need no kernel.
  const std::shared_ptr<NodeRunner>& runner(graph::NodeId node) const { return runners_[node]; }
  DType FeedType(size_t i) const { return BaseType(graph_.TypeOf(feeds_[i])); }
  // -1 when the edge is not fed.
  int FeedOf(graph::Edge edge) const;

 private:
  Plan(graph::Graph graph, const Environment& env);
  Status MakeRunners(KernelStore* store);
  // After the runners are made.
  void FindLateReads();
  Status AddTransfers();
  graph::NodeMap<bool> FindNamesOfFeeds() const;
  Status FindOrder();
  void FindReceives();
  int32_t MemoryWanted(const graph::Node& node, int32_t input) const;
  // Of a value that the engine itself makes or passes on.
  int32_t MemoryOfDevice(graph::NodeId node) const;

  graph::Graph graph_;
  std::vector<graph::Edge> feeds_, fetches_;
  std::map<graph::Edge, int> feed_of_;
  std::vector<graph::NodeId> targets_, order_, receives_;
  std::unordered_map<graph::NodeId, graph::NodeId> waits_;
  std::shared_ptr<const Environment> env_;
  Options options_;
  graph::NodeMap<std::shared_ptr<NodeRunner>> runners_;
  graph::NodeMap<int32_t> device_of_, transfer_from_;
  graph::NodeMap<bool> kept_;
  bool uses_queues_ = false;
  std::shared_ptr<const Claims> claims_;
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_PLAN_PLAN_H_
