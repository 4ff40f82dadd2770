// SPDX-License-Identifier: Apache-2.0
// Deliveries: values, and the news that there is none, on their way to those who consume them. Who has all its inputs
// is ready.
#ifndef TENON_CORE_EXEC_DATAFLOW_DELIVERIES_H_
#define TENON_CORE_EXEC_DATAFLOW_DELIVERIES_H_

#include "core/exec/dataflow/fetched_values.h"
#include "core/exec/dataflow/ready_nodes.h"

namespace tenon::exec::dataflow {

class Deliveries {
 public:
  // All outlive it.
  Deliveries(const DynamicPlan* plan, ReadyNodes* ready, FetchedValues* fetched)
      : plan_(*plan), ready_(*ready), fetched_(*fetched) {}

  void Deliver(const Target& target, Iteration* iteration, bool dead, bool from_enter = false);
  // To the targets of the node's ranges [first, last): output k's is range k, and the last one its controls.
  void Wake(const NodeInfo& info, int32_t first, int32_t last, Iteration* iteration, bool dead,
            bool from_enter = false);
  void WakeAll(const NodeInfo& info, Iteration* iteration, bool dead, bool from_enter = false) {
    Wake(info, 0, info.output_count + 1, iteration, dead, from_enter);
  }
  // The node's values are there: keeps what is fetched, lets go what nobody consumes.
  void Publish(const NodeInfo& info, Iteration* outputs);
  // Outputs that were put into their slots, with buffers that are the slots' own; or none.
  void Emit(const NodeInfo& info, Iteration* iteration, bool dead);

 private:
  void DeliverToMerge(const Target& target, Iteration* iteration, bool dead, bool from_enter);

  const DynamicPlan& plan_;
  ReadyNodes& ready_;
  FetchedValues& fetched_;
};

inline void Deliveries::Deliver(const Target& target, Iteration* iteration, bool dead, bool from_enter) {
  if (target.input != Target::kPlain) return DeliverToMerge(target, iteration, dead, from_enter);
  NodeState& state = iteration->states[target.node];
  state.dead |= static_cast<int32_t>(dead);
  if (--state.pending == 0) ready_.Push(target.node, iteration, state.dead != 0);
}

inline void Deliveries::Wake(const NodeInfo& info, int32_t first, int32_t last, Iteration* iteration, bool dead,
                             bool from_enter) {
  const int32_t begin = plan_.ranges()[info.first_range + first];
  const int32_t end = plan_.ranges()[info.first_range + last];
  for (int32_t at = begin; at != end; ++at) Deliver(plan_.targets()[at], iteration, dead, from_enter);
}

}  // namespace tenon::exec::dataflow

#endif  // TENON_CORE_EXEC_DATAFLOW_DELIVERIES_H_
