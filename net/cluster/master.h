// SPDX-License-Identifier: Apache-2.0
// Master: runs a session's steps on the workers of a cluster.
//
// It stands in the client's process, and needs the address of one task: that one knows the others. A placed graph
// becomes one part a task, registered once; then a step is one message to each worker that has a part, with the feeds
// that it reads, and one reply, with its fetches. Workers exchange values themselves. The first failure gives the step
// up everywhere, and is named with its task and address.
//
// A task that is lost fails the steps that run at it, and all later ones that would: its state may be gone, so what to
// do is the caller's to decide, in a new session. Steps of other tasks go on.
#ifndef TENON_NET_CLUSTER_MASTER_H_
#define TENON_NET_CLUSTER_MASTER_H_

#include <memory>
#include <string_view>
#include <vector>

#include "core/exec/plan/plan_options.h"
#include "core/session/remote.h"
#include "net/cluster/cluster_session.h"

namespace tenon::cluster {

// Any thread.
class Master : public session::Remote {
 public:
  // Greets all tasks that the session's device filters leave, and opens a session at each. UNAVAILABLE or
  // DEADLINE_EXCEEDED name the task that cannot be reached.
  static Result<std::shared_ptr<Master>> Connect(Network::Finder finder, MasterOptions options);
  size_t task_count() const { return session_.tasks().size(); }
  TaskReport Report(size_t task) const { return session_.tasks().Report(task); }

  const std::vector<exec::Device>& devices() const override { return session_.devices(); }
  Result<std::shared_ptr<exec::Runnable>> MakePlan(graph::Graph graph, std::vector<graph::Edge> feeds,
                                                   std::vector<graph::Edge> fetches, std::vector<graph::NodeId> targets,
                                                   const exec::Environment& env,
                                                   const exec::PlanOptions& options) override;
  Result<int64_t> ResetContainers(const std::vector<std::string_view>& containers) override {
    return session_.ResetContainers(containers);
  }

 private:
  Master(Network::Finder finder, MasterOptions options) : session_(std::move(finder), std::move(options)) {}

  ClusterSession session_;
};

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_MASTER_H_
