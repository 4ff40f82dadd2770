// SPDX-License-Identifier: Apache-2.0
// Looking at what kernels make: for a NaN or an infinity, and for who watches the step. Its plan runs every node by
// itself (the dynamic executor, without compilers): other plans have values that no kernel's frame shows.
#ifndef TENON_CORE_EXEC_KERNEL_WATCH_H_
#define TENON_CORE_EXEC_KERNEL_WATCH_H_

#include "core/exec/device/environment.h"
#include "core/exec/device/step.h"

namespace tenon::exec {

inline bool IsWatched(const Step& step) {
  return step.watcher != nullptr || (step.env != nullptr && step.env->check_numerics);
}

// The kernel of the frame has run, and well. INVALID_ARGUMENT names a value that is not finite; or what the watcher
// says. Of a queue's kernel the host waits for the outputs.
Status LookAtOutputs(tenon_frame* frame);

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_KERNEL_WATCH_H_
