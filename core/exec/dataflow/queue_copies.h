// SPDX-License-Identifier: Apache-2.0
// QueueCopies: values of a step that go to other memories. All work goes to the devices' main queues, in the order of
// the host's calls.
#ifndef TENON_CORE_EXEC_DATAFLOW_QUEUE_COPIES_H_
#define TENON_CORE_EXEC_DATAFLOW_QUEUE_COPIES_H_

#include "core/exec/dataflow/iteration.h"
#include "core/exec/device/queue_work.h"

namespace tenon::exec::dataflow {

class QueueCopies {
 public:
  QueueCopies(const DynamicPlan* plan, QueueWork* work) : plan_(*plan), work_(*work) {}

  Status Begin(Step* step);
  // What the transfer node makes of its input, in a buffer that is the target's.
  Status Copy(const NodeInfo& info, const Slot& source, Slot* target);

 private:
  // A host value that stays as it is while its copy waits in a queue.
  Result<const void*> KeepForCopy(const tenon_tensor_view& view, bool fed);
  Status Submit(const NodeInfo& info, const tenon_tensor_view& view, tenon_copy_args args);

  const DynamicPlan& plan_;
  QueueWork& work_;
};

}  // namespace tenon::exec::dataflow

#endif  // TENON_CORE_EXEC_DATAFLOW_QUEUE_COPIES_H_
