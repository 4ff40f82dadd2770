// SPDX-License-Identifier: Apache-2.0
#include "core/exec/device/transfer.h"

#include "core/exec/device/environment.h"
#include "core/tensor/entry.h"

namespace tenon::exec {

Result<tenon_tensor_view> NewCopyTarget(const Environment& env, const tenon_tensor_view& value, int32_t memory) {
  const SessionDevice& device = env.devices[memory];
  BufferPool* const pool = memory == 0 ? env.pool : device.pool;
  TENON_ASSIGN_OR_RETURN(Buffer * buffer, pool->Allocate(value.byte_size, {value.dl.shape, value.dl.ndim, 0}));
  tenon_tensor_view view =
      MakeView(value.dtype, {buffer->dims, buffer->rank, 0}, buffer->data, value.byte_size, buffer);
  if (memory != 0) MarkDevice(&view, *device.device);
  return view;
}

tenon_copy_args CopyArgs(const Environment& env, const void* source, int32_t from, void* target, int32_t to,
                         uint64_t bytes) {
  const auto handle = [&env](int32_t memory) { return memory == 0 ? nullptr : env.devices[memory].device->handle; };
  return {TENON_HEAD(tenon_copy_args), source, target, bytes, handle(from), handle(to)};
}

Status Dereference(Resource* resource, DType dtype, const Device* device, QueueWork* work, QueueId queue,
                   const Cancellation* cancellation, tenon_tensor_view* out_view) {
  if (device != nullptr) TENON_RETURN_IF_ERROR(work->AwaitWrite(queue, resource));
  tenon_tensor_view value;
  TENON_RETURN_IF_ERROR(ReadVariable(resource, device, &value, nullptr, cancellation));
  if (Status status = CheckEntry(value, dtype); !status.ok()) {
    Release(value.buffer);
    return std::move(status).Annotate(StrCat("variable '", resource->name, "'"));
  }
  *out_view = value;
  return Status::Ok();
}

}  // namespace tenon::exec
