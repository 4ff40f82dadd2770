// SPDX-License-Identifier: Apache-2.0
#include "net/cluster/master.h"

#include "net/cluster/cluster_greeting.h"
#include "net/cluster/cluster_plan.h"

namespace tenon::cluster {

Result<std::shared_ptr<Master>> Master::Connect(Network::Finder finder, MasterOptions options) {
  std::shared_ptr<Master> master(new Master(std::move(finder), std::move(options)));
  TENON_RETURN_IF_ERROR(ClusterGreeting(&master->session_).Join());
  master->session_.tasks().Watch();
  return master;
}

Result<std::shared_ptr<exec::Runnable>> Master::MakePlan(graph::Graph graph, std::vector<graph::Edge> feeds,
                                                         std::vector<graph::Edge> fetches,
                                                         std::vector<graph::NodeId> targets,
                                                         const exec::Environment& env,
                                                         const exec::PlanOptions& options) {
  auto plan = std::make_shared<ClusterPlan>(&session_, std::move(graph), env);
  TENON_RETURN_IF_ERROR(plan->Make(std::move(feeds), std::move(fetches), std::move(targets), options));
  return std::shared_ptr<exec::Runnable>(std::move(plan));
}

}  // namespace tenon::cluster
