// SPDX-License-Identifier: Apache-2.0
// What each kind of operation does in a step, as functions that instructions call with their frames. A receive blocks
// the part's (partition's) thread: parts run in one order of the whole graph, in which what is waited for comes
// earlier.
#ifndef TENON_CORE_EXEC_PROGRAM_OPERATIONS_H_
#define TENON_CORE_EXEC_PROGRAM_OPERATIONS_H_

#include "core/exec/program/machine.h"

namespace tenon::exec::program {

Instruction::Run RunOf(const Operation& operation, const graph::Node& node);
// Whether its errors have the node's name, where a plain kernel's have not.
bool NamesItself(const Instruction& instruction);

}  // namespace tenon::exec::program

#endif  // TENON_CORE_EXEC_PROGRAM_OPERATIONS_H_
