// SPDX-License-Identifier: Apache-2.0
// QueueAssignment: which queue each operation of a program goes to, and what that asks of the values that it reads.
//
// Variables and buffers of pools belong to a device's main queue; what another queue reads of them stays until the
// step's end.
#ifndef TENON_CORE_EXEC_LOWER_QUEUE_ASSIGNMENT_H_
#define TENON_CORE_EXEC_LOWER_QUEUE_ASSIGNMENT_H_

#include <vector>

#include "core/exec/lower/program_writer.h"
#include "core/exec/lower/queue_chooser.h"

namespace tenon::exec {

class QueueAssignment {
 public:
  // All outlive it.
  QueueAssignment(const Plan* plan, const Facts* facts, ProgramCode* code, ProgramWriter* writer)
      : plan_(*plan), graph_(plan->graph()), facts_(*facts), code_(*code), writer_(*writer), chooser_(plan->env()) {}

  // For a kernel, or a region, that reads these values on the device.
  QueueId ForKernel(const graph::Node& node, const NodeRunner& runner, Operation::Kind kind,
                    const std::vector<SlotId>& inputs);
  QueueId ForRegion(const SessionDevice& device, const std::vector<SlotId>& inputs);
  // What takes so long goes to the queue.
  void Submit(QueueId queue, double seconds, const std::vector<SlotId>& reads, const std::vector<SlotId>& makes) {
    chooser_.Submit(queue, seconds, writer_.RootsOf(reads), writer_.RootsOf(makes));
  }
  double SecondsOf(const graph::Node& node, const SessionDevice& device) const;
  // Of nodes that are launched once.
  double SecondsOfAll(const std::vector<graph::NodeId>& nodes, const SessionDevice& device) const;

 private:
  const Plan& plan_;
  const graph::Graph& graph_;
  const Facts& facts_;
  ProgramCode& code_;
  ProgramWriter& writer_;
  QueueChooser chooser_;
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_LOWER_QUEUE_ASSIGNMENT_H_
