// SPDX-License-Identifier: Apache-2.0
// The table of works and functions that frames lead kernels to.
#ifndef TENON_CORE_EXEC_KERNEL_WORK_SERVICES_H_
#define TENON_CORE_EXEC_KERNEL_WORK_SERVICES_H_

#include "core/exec/work/work.h"

namespace tenon::exec {

const tenon_work_services* WorkServices();
// Of the frame's step, made when it is first asked for; ReleasePins ends it. nullptr: there is no session or no memory,
// or the kernel is neither asynchronous nor of a node with state or functions.
tenon_work* WorkOf(tenon_frame* frame);

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_KERNEL_WORK_SERVICES_H_
