// SPDX-License-Identifier: Apache-2.0
// FetchedValues: what a step's fetches are, with references of their own until the caller has looked at them.
#ifndef TENON_CORE_EXEC_DATAFLOW_FETCHED_VALUES_H_
#define TENON_CORE_EXEC_DATAFLOW_FETCHED_VALUES_H_

#include <vector>

#include "core/exec/dataflow/iteration.h"
#include "core/exec/device/queue_work.h"

namespace tenon::exec::dataflow {

class FetchedValues {
 public:
  explicit FetchedValues(const DynamicPlan* plan) : plan_(*plan), fetched_(plan->fetches().size()) {}

  const tenon_tensor_view& view(size_t fetch) const { return fetched_[fetch].view; }
  // Those that are there from the start.
  void Begin(const Iteration& root);
  // The node's values are there.
  void Note(const NodeInfo& info, const Iteration& outputs);
  // Of a Switch that gives its value in this slot: its other side may not be fetched.
  Status CheckTaken(const NodeInfo& info, int32_t slot) const;
  // When the step has run: that each has a value. A reference is fetched as the step leaves its variable, as straight
  // code does.
  Status Complete(Step* step, QueueWork* work);
  // keeps: what did not end may use them, whenever it ends.
  void Release(bool keeps);

 private:
  struct Fetched {
    tenon_tensor_view view{};
    bool present = false, owned = false;
    tenon_resource* variable = nullptr;  // that is fetched by a reference
  };
  Status Read(size_t fetch, Step* step, QueueWork* work);
  Status NoValue(size_t fetch) const;

  const DynamicPlan& plan_;
  std::vector<Fetched> fetched_;
};

}  // namespace tenon::exec::dataflow

#endif  // TENON_CORE_EXEC_DATAFLOW_FETCHED_VALUES_H_
