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
#include "core/exec/plan/plan_options.h"
#include "core/exec/runnable.h"
#include "core/partition/parts.h"
#include "net/cluster/cluster_parts.h"
#include "net/cluster/cluster_session.h"

namespace tenon::cluster {

class ClusterPlan : public exec::Runnable, public std::enable_shared_from_this<ClusterPlan> {
 public:
  // The session outlives it.
  ClusterPlan(ClusterSession* session, graph::Graph graph, const exec::Environment& env)
      : session_(session), graph_(std::move(graph)), env_(env) {
    parts_.session = session;
  }
  // Nothing of it runs any more: who runs it holds it.
  ~ClusterPlan() override {
    (void)Guarded([this] {
      std::map<size_t, DropParts> of_tasks;
      for (const ClusterParts::Part& part : parts_.all) of_tasks[part.task].add_parts(part.number);
      session_->Drop(of_tasks);
    });
  }

  Status Make(std::vector<graph::Edge> feeds, std::vector<graph::Edge> fetches, std::vector<graph::NodeId> targets,
              const exec::PlanOptions& options);
  std::unique_ptr<exec::Run> NewRun() override;
  std::string Explain() const override;
  bool gives_own_buffers() const override { return true; }
  exec::TracedGraph traced() const override { return {&graph_, &order_, &feeds_, &crossings_}; }

 private:
  bool HasOwnArithmetic(const graph::Node& node) const {
    const std::vector<exec::Device>& devices = session_->devices();
    return std::any_of(devices.begin(), devices.end(),
                       [&](const exec::Device& device) { return device.name == node.device && !device.synchronous; });
  }
  // The nodes that meet callers get their channels in their parts.
  void MeetCallers(const exec::PartInfo& info, partition::Partitioned* parted);
  void FindAsked(const partition::Partitioned& parted, const std::vector<graph::NodeId>& order);
  Status Register(partition::Part* part, const partition::Partitioned& all, const std::vector<uint32_t>& numbers,
                  const exec::PlanOptions& options);

  ClusterSession* const session_;
  graph::Graph graph_;
  const exec::Environment env_;
  ClusterParts parts_;
  std::map<int32_t, uint64_t> asked_;  // channels whose receivers ask for them (asked_values.h), and their bytes
  // Of a channel on which a step in goes meets its callers.
  struct Caller {
    int32_t part = -1;  // none: the step has nothing to do with it
    std::string name;
  };
  bool in_goes_ = false;
  std::vector<Caller> callers_;
  // What traces are read by.
  std::vector<graph::NodeId> order_;
  std::vector<graph::Edge> feeds_;
  std::vector<exec::TaskCrossing> crossings_;
};

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_CLUSTER_PLAN_H_
