// SPDX-License-Identifier: Apache-2.0
// WorkerSteps: how a worker runs the steps of parts, goes on with them, and settles those that were given up.
#ifndef TENON_NET_CLUSTER_WORKER_STEPS_H_
#define TENON_NET_CLUSTER_WORKER_STEPS_H_

#include <memory>

#include "net/cluster/network.h"
#include "net/cluster/running_steps.h"
#include "net/cluster/session_table.h"
#include "net/cluster/step_order.h"

namespace tenon::cluster {

// Any thread; it has no lock of its own. A request that fails is answered by who hands it over.
class WorkerSteps {
 public:
  // All outlive it, and the steps too.
  WorkerSteps(const StepServices* services, const SessionTable* table, RunningSteps* running)
      : services_(services), table_(table), running_(running) {}

  Status Run(tenon_span request, Reply reply);
  Status Go(tenon_span request, Reply reply);
  Status Settle(tenon_span request, Reply reply);
  void OnCancelled(tenon_reply* call);

 private:
  // A step that runs, and what it is asked.
  struct Work {
    SessionTable::Session session;
    std::shared_ptr<WorkerStep> step;
    std::shared_ptr<StepOrder> order;
  };
  // Of a part in goes.
  void BeginGoes(const Work& work);
  // At once, when its last value has come, or in the background.
  void Schedule(const Work& work);
  void RunStep(const Work& work);
  void Computed(const Work& work, Status status);
  // Its end: it is over here, and the master is answered.
  void Conclude(const Work& work, Status status);

  const StepServices* const services_;
  const SessionTable* const table_;
  RunningSteps* const running_;
};

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_WORKER_STEPS_H_
