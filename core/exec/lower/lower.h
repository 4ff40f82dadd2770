// SPDX-License-Identifier: Apache-2.0
// Lowering: a plan and the shapes of its feeds become a program.
//
// The passes, one after the other: facts (infer, fold, find what must run), emit, share memory, insert releases,
// synchronize.
#ifndef TENON_CORE_EXEC_LOWER_LOWER_H_
#define TENON_CORE_EXEC_LOWER_LOWER_H_

#include <memory>

#include "core/exec/lower/emitter.h"
#include "core/exec/plan/device_constants.h"
#include "core/exec/program/program.h"

namespace tenon::exec {

struct Lowered {
  std::unique_ptr<const Program> program;  // nullptr: refused
  Refusal refusal;
  uint64_t folded = 0;  // nodes
};

// feeds: as Bindings::Bind takes them. The plan outlives the program.
Result<Lowered> Lower(const Plan& plan, const tenon_tensor_view* const* feeds, DeviceConstants* constants);

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_LOWER_LOWER_H_
