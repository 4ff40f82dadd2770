// SPDX-License-Identifier: Apache-2.0
// Outputs of kernels: given before the run, looked at after it.
#ifndef TENON_CORE_EXEC_KERNEL_OUTPUTS_H_
#define TENON_CORE_EXEC_KERNEL_OUTPUTS_H_

#include "core/exec/kernel/frame.h"
#include "core/exec/kernel/kernel_instance.h"
#include "core/exec/kernel/node_runner.h"

namespace tenon::exec {

// Memory of a pool for output k, which its kernel does not allocate; the view holds the reference. Of a reference: one cell, whatever the
// variable's shape is.
Result<tenon_tensor_view> AllocateOutput(const Step& step, const Place& place, const graph::Node& node, const PreparedNode& prepared, size_t k);
// That the shape of output k is not known, and its kernel does not allocate it.
Status NoShape(const graph::Node& node, size_t k);
// After a run that went well: that the kernel set the output if that was its affair, and that its strings lie in their memory.
inline Status CheckOutput(const tenon_frame_context& context, const PreparedNode& prepared, size_t k, const tenon_tensor_view& view) {
  if (view.buffer == nullptr && view.dl.data == nullptr && prepared.kernel->dynamic_output(k)) return NotSet(context, k);
  return CheckCells(context, k, view);
}
// The same memory under other dims, which the view borrows.
inline void ShowAs(const Shape& shape, tenon_tensor_view* view) {
  view->dl.ndim = shape.rank();
  view->dl.shape = const_cast<int64_t*>(shape.dims().data());
}

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_KERNEL_OUTPUTS_H_
