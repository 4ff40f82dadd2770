// SPDX-License-Identifier: Apache-2.0
#include "core/exec/plan/make_plan.h"

#include <optional>

#include "core/exec/device/environment.h"
#include "core/exec/plan/claims.h"
#include "core/exec/plan/paying_claims.h"
#include "core/exec/plan/transfer_order.h"
#include "core/graph/graph.h"

namespace tenon::exec {

Result<std::shared_ptr<const Plan>> MakePlan(graph::Graph graph, std::vector<graph::Edge> feeds,
                                             std::vector<graph::Edge> fetches, std::vector<graph::NodeId> targets,
                                             const Environment& env, KernelStore* store, Plan::Options options) {
  const graph::NodeId own = graph.next_id();  // the others are added for transfers
  TENON_ASSIGN_OR_RETURN(const std::shared_ptr<Plan> plan,
                         Plan::Create(std::move(graph), std::move(feeds), std::move(fetches), std::move(targets), env,
                                      store, std::move(options)));
  const bool is_part = plan->options().part != nullptr;
  if (plan->uses_queues() || is_part) {
    TENON_ASSIGN_OR_RETURN(TransferOrder transfers, OrderTransfers(*plan, own));
    plan->SetOrder(std::move(transfers.order), std::move(transfers.waits));
  }
  // A part keeps the order of all parts, which sets of nodes as wholes would not.
  if (plan->options().compile && !is_part) {
    TENON_ASSIGN_OR_RETURN(std::unique_ptr<Claims> claims, Claims::Find(*plan));
    if (const auto paying = claims->claims().empty() ? std::nullopt : FindPayingClaims(*plan, *claims))
      claims->Divide(paying->pieces, {paying->by_nodes, paying->whole, paying->seconds});
    claims->TakeTiles();
    plan->SetClaims(std::move(claims));
  }
  return std::shared_ptr<const Plan>(plan);
}

}  // namespace tenon::exec
