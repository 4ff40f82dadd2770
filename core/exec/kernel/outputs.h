// SPDX-License-Identifier: Apache-2.0
// Outputs of kernels: given before the run, looked at after it.
#ifndef TENON_CORE_EXEC_KERNEL_OUTPUTS_H_
#define TENON_CORE_EXEC_KERNEL_OUTPUTS_H_

#include "core/exec/kernel/frame.h"
#include "core/exec/kernel/kernel_instance.h"
#include "core/exec/kernel/node_runner.h"

namespace tenon::exec {

// Memory of a pool for output k, which its kernel does not allocate; the view holds the reference. Of a reference: one
// cell, whatever the variable's shape is.
Result<tenon_tensor_view> AllocateOutput(const Step& step, const Place& place, const graph::Node& node,
                                         const PreparedNode& prepared, size_t k);
// That the shape of output k is not known, and its kernel does not allocate it.
Status NoShape(const graph::Node& node, size_t k);
// After a run that went well: that the kernel set the output if that was its affair, and that its strings lie in their
// memory.
inline Status CheckOutput(const tenon_frame_context& context, const PreparedNode& prepared, size_t k,
                          const tenon_tensor_view& view) {
  if (view.buffer == nullptr && view.dl.data == nullptr && prepared.kernel->dynamic_output(k))
    return NotSet(context, k);
  return CheckCells(context, k, view);
}
// The same memory as what the node gives: under other dims, which the view borrows, and perhaps of another type.
// INVALID_ARGUMENT: it has another size.
inline Status ShowAs(const graph::Node& node, const Shape& shape, tenon_tensor_view* view) {
  const DType dtype = node.output_types[0];
  if (!IsRef(dtype) && !IsRef(view->dtype)) {
    const Result<int64_t> bytes = ByteSize(dtype, shape);
    if (!bytes.ok() || static_cast<uint64_t>(*bytes) != view->byte_size)
      return InvalidArgument(StrCat(node.Describe(), ": a view of ", TypeName(view->dtype), ShapeOf(*view).ToString(),
                                    " cannot be ", TypeName(dtype), shape.ToString()));
    view->dtype = dtype;
    view->dl.dtype = ToDlType(dtype);
  }
  view->dl.ndim = shape.rank();
  view->dl.shape = const_cast<int64_t*>(shape.dims().data());
  return Status::Ok();
}

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_KERNEL_OUTPUTS_H_
