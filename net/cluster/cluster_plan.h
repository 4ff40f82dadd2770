// SPDX-License-Identifier: Apache-2.0
// ClusterPlan: a session's step as its tasks have it: one part a task, registered once.
#ifndef TENON_NET_CLUSTER_CLUSTER_PLAN_H_
#define TENON_NET_CLUSTER_CLUSTER_PLAN_H_

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/exec/device/device.h"
#include "core/exec/device/environment.h"
#include "core/exec/parts/channel_shapes.h"
#include "core/exec/plan/plan_options.h"
#include "core/exec/runnable.h"
#include "core/partition/parts.h"
#include "net/cluster/master.h"
#include "net/cluster/step_state.h"

namespace tenon::cluster {

class ClusterPlan : public exec::Runnable, public std::enable_shared_from_this<ClusterPlan> {
 public:
  struct Part {
    size_t task = 0;
    uint32_t number = 0;
    std::vector<int32_t> feed_numbers, fetch_numbers, channels;  // channels: that it receives
    std::vector<int32_t> fed,
        given;  // of a step in goes, by the caller's numbers: channels that its callers feed, and fetch
    std::shared_ptr<const StepState> state;
  };
  ClusterPlan(Master* master, graph::Graph graph, const exec::Environment& env)
      : master_(master), graph_(std::move(graph)), env_(env) {}
  // Nothing of it runs any more: who runs it holds it.
  ~ClusterPlan() override {
    (void)Guarded([this] {
      std::map<size_t, DropParts> of_tasks;
      for (const Part& part : parts_) of_tasks[part.task].add_parts(part.number);
      master_->Drop(of_tasks);
    });
  }

  Status Make(std::vector<graph::Edge> feeds, std::vector<graph::Edge> fetches, std::vector<graph::NodeId> targets,
              const exec::PlanOptions& options);
  std::unique_ptr<exec::Run> NewRun() override;
  std::string Explain() const override;
  bool gives_own_buffers() const override { return true; }
  exec::TracedGraph traced() const override { return {&graph_, &order_, &feeds_, &crossings_}; }

  Master* master() const { return master_; }
  const std::vector<Part>& parts() const { return parts_; }
  const StepState& state() const { return state_; }
  size_t fetch_count() const { return fetch_count_; }
  exec::ChannelShapes* shapes() {
    return shapes_.get();
  }  // nullptr: steps go in several goes, and what will come is not known
  // Of steps in goes: callers' channels come after those between tasks.
  int32_t first_of_callers() const { return first_of_callers_; }

 private:
  bool HasOwnArithmetic(const graph::Node& node) const {
    return std::any_of(master_->devices_.begin(), master_->devices_.end(),
                       [&](const exec::Device& device) { return device.name == node.device && !device.synchronous; });
  }
  // The nodes that meet callers get their channels in their parts.
  void MeetCallers(const exec::PartInfo& info, partition::Partitioned* parted);
  void FindAsked(const partition::Partitioned& parted, const std::vector<graph::NodeId>& order);
  Status Register(partition::Part* part, const partition::Partitioned& all, const std::vector<uint32_t>& numbers,
                  const exec::PlanOptions& options);
  size_t TaskOf(const std::string& name) const {
    const auto at = std::find_if(master_->tasks_.begin(), master_->tasks_.end(),
                                 [&](const auto& each) { return each.task.name() == name; });
    return static_cast<size_t>(at - master_->tasks_.begin());
  }

  Master* const master_;
  graph::Graph graph_;
  const exec::Environment env_;
  std::unique_ptr<exec::ChannelShapes> shapes_;
  std::vector<Part> parts_;
  StepState state_;                    // of all parts
  std::map<int32_t, uint64_t> asked_;  // channels whose receivers ask for them (asked_values.h), and their bytes
  size_t fetch_count_ = 0;
  // Of a channel on which a step in goes meets its callers.
  struct Caller {
    int32_t part = -1;  // none: the step has nothing to do with it
    std::string name;
  };
  bool in_goes_ = false;
  int32_t first_of_callers_ = 0;
  std::vector<Caller> callers_;
  // What traces are read by.
  std::vector<graph::NodeId> order_;
  std::vector<graph::Edge> feeds_;
  std::vector<exec::TaskCrossing> crossings_;
};

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_CLUSTER_PLAN_H_
