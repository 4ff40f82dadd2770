// SPDX-License-Identifier: Apache-2.0
// Machine: what the instructions of an instance share, and the loop that runs them.
#ifndef TENON_CORE_EXEC_PROGRAM_MACHINE_H_
#define TENON_CORE_EXEC_PROGRAM_MACHINE_H_

#include <memory>
#include <vector>

#include "core/exec/program/instruction.h"
#include "core/exec/program/program.h"
#include "core/exec/program/side_by_side.h"
#include "core/exec/program/step_queues.h"

namespace tenon::exec::program {

// Serves one step at a time.
struct Machine {
  explicit Machine(const Program* of) : program(*of), code(of->code()), queues(of) {}

  // A block's instructions, one after the other, until one fails.
  tenon_status* Execute(const Block& block);

  const Program& program;
  const ProgramCode& code;
  StepQueues queues;
  IdVector<SlotId, tenon_tensor_view> views;
  std::vector<std::unique_ptr<Context>> contexts;
  IdVector<LoopId, std::unique_ptr<LoopState>> loops;
  IdVector<BranchId, std::unique_ptr<BranchState>> branches;
  Step* step = nullptr;
};

tenon_status* ExecuteTimed(const Block& block, std::vector<OperationTime>* times);
// The status with the name of its node. Only a plain kernel's own status lacks it; the host's functions put it there
// themselves.
tenon_status* NameNode(tenon_status* bad, const Context& context);

}  // namespace tenon::exec::program

#endif  // TENON_CORE_EXEC_PROGRAM_MACHINE_H_
