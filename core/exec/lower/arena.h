// SPDX-License-Identifier: Apache-2.0
// Arena: where the values of a program lie in its memory, by the positions at which they begin and end to live.
//
// In-place kernels' outputs take over inputs that die with them and that no other queue reads; what different queues
// write shares no memory, nor do values that go from queue to queue where that is little of the device's: lest one
// waits for another that it does not need.
#ifndef TENON_CORE_EXEC_LOWER_ARENA_H_
#define TENON_CORE_EXEC_LOWER_ARENA_H_

#include "core/exec/program/program_code.h"

namespace tenon::exec {

struct Environment;

// Gives slots their last positions, makes aliases of what can be written in place, and gives offsets to slots, to the
// workspaces of queues (whose sizes stand in workspace_offset before), and sizes to the arenas.
void ShareMemory(const Environment& env, ProgramCode* code);

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_LOWER_ARENA_H_
