// SPDX-License-Identifier: Apache-2.0
#include "core/exec/kernel/outputs.h"

namespace tenon::exec {

Result<tenon_tensor_view> AllocateOutput(const Step& step, const Place& place, const graph::Node& node,
                                         const PreparedNode& prepared, size_t k) {
  const DType dtype = node.output_types[k];
  const bool reference = IsRef(dtype);
  if (!reference && !prepared.outputs[k].shape.fully_known()) return NoShape(node, k);
  const uint64_t bytes = reference ? sizeof(tenon_resource*) : prepared.output_bytes[k];
  auto buffer =
      PoolOf(step, place, k)->Allocate(bytes, reference ? tenon_shape{nullptr, 0, 0} : prepared.outputs[k].shape.c());
  if (!buffer.ok()) return Status(buffer.status()).Annotate(StrCat(node.Describe(), ", output ", k));
  tenon_tensor_view view = MakeView(dtype, {(*buffer)->dims, (*buffer)->rank, 0}, (*buffer)->data, bytes, *buffer);
  MarkOutput(place, k, &view);
  return view;
}

Status NoShape(const graph::Node& node, size_t k) {
  return Internal(
      StrCat(node.Describe(), ": the shape of output ", k, " is not known, and its kernel does not allocate it"));
}

}  // namespace tenon::exec
