// SPDX-License-Identifier: Apache-2.0
// PartStep: a step of a part, as those have it who make it go on: where its values meet, and what cancels it.
#ifndef TENON_NET_CLUSTER_PART_STEP_H_
#define TENON_NET_CLUSTER_PART_STEP_H_

#include <memory>
#include <string>
#include <utility>

#include "core/base/cancellation.h"
#include "core/exec/exchange/rendezvous.h"
#include "core/tensor/variant_types.h"
#include "net/cluster/background.h"
#include "net/cluster/metrics.h"
#include "net/cluster/network.h"
#include "net/cluster/worker_part.h"
#include "net/cluster/worker_session.h"

namespace tenon::cluster {

// What a worker lends its steps, which it outlives.
struct StepServices {
  std::string task;  // the worker's
  Network* network = nullptr;
  WorkerMetrics* metrics = nullptr;
  Background* background = nullptr;
  variant::Types* variant_types = nullptr;
};

class PartStep : public exec::Rendezvous, public std::enable_shared_from_this<PartStep> {
 public:
  PartStep(std::shared_ptr<WorkerSession> owner, std::shared_ptr<const WorkerPart> of, uint64_t id)
      : Rendezvous(GlobalPool(), &of->names), session(std::move(owner)), part(std::move(of)), number(id) {}

  const std::shared_ptr<WorkerSession> session;
  const std::shared_ptr<const WorkerPart> part;
  const uint64_t number;
  Cancellation cancellation;
};

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_PART_STEP_H_
