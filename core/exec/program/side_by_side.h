// SPDX-License-Identifier: Apache-2.0
// Side by side: what straight code loses, which runs one kernel after the other, where independent kernels that use one
// thread each could run at once.
//
// The first steps of a program that could gain are timed, operation by operation; where the dynamic executor would save
// much it runs the steps of these shapes instead, and goes back if it turns out not to (Bindings).
#ifndef TENON_CORE_EXEC_PROGRAM_SIDE_BY_SIDE_H_
#define TENON_CORE_EXEC_PROGRAM_SIDE_BY_SIDE_H_

#include <cstdint>
#include <vector>

namespace tenon::exec {

class Plan;
struct ProgramCode;

struct OperationTime {
  uint64_t ns = 0;
  bool shares = false;  // it used several threads by itself
};

// Whether there is anything to be gained: several kernels that may run beside others, and nothing that the dynamic
// executor would do worse (loops, what compilers made, devices' queues, parts).
bool MayGainSideBySide(const Plan& plan, const ProgramCode& code);

// What a step would save, in nanoseconds, with as many threads as the environment has: the sum of the operations'
// times, less the end of a schedule in which each node begins in the plan's order when its inputs are there, long ones
// that may run beside others on the thread that is free first, the others on the step's own. 0: too little to be worth
// it. times: one for each of code.operations.
uint64_t SavedSideBySide(const Plan& plan, const ProgramCode& code, const std::vector<OperationTime>& times);

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_PROGRAM_SIDE_BY_SIDE_H_
