// SPDX-License-Identifier: Apache-2.0
#include "core/exec/kernel/outputs.h"

namespace tenon::exec {

Result<tenon_tensor_view> AllocateOutput(const Step& step, const Place& place, const graph::Node& node, const PreparedNode& prepared, size_t k) {
  const DType dtype = node.output_types[k];
  const bool reference = IsRef(dtype);
  if (!reference && !prepared.outputs[k].shape.fully_known()) return NoShape(node, k);
  const uint64_t bytes = reference ? sizeof(tenon_resource*) : prepared.output_bytes[k];
  auto buffer = PoolOf(step, place, k)->Allocate(bytes, reference ? tenon_shape{nullptr, 0, 0} : prepared.outputs[k].shape.c());
  if (!buffer.ok()) return Status(buffer.status()).Annotate(StrCat(node.Describe(), ", output ", k));
  tenon_tensor_view view = MakeView(dtype, {(*buffer)->dims, (*buffer)->rank, 0}, (*buffer)->data, bytes, *buffer);
  MarkOutput(place, k, &view);
  return view;
}

Status NoShape(const graph::Node& node, size_t k) {
  return Internal(StrCat(node.Describe(), ": the shape of output ", k, " is not known, and its kernel does not allocate it"));
}

Status CheckOutput(const tenon_frame_context& context, const PreparedNode& prepared, size_t k, const tenon_tensor_view& view) {
  if (view.buffer == nullptr && view.dl.data == nullptr && prepared.kernel->dynamic_output(k)) return NotSet(context, k);
  return CheckCells(context, k, view);
}

}  // namespace tenon::exec
