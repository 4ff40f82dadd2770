// SPDX-License-Identifier: Apache-2.0
#include "core/exec/kernel/frame.h"

#include <algorithm>
#include <utility>

#include "core/base/plugin_call.h"
#include "core/exec/device/resources.h"
#include "core/exec/work/work.h"
#include "core/graph/op_def.h"
#include "core/tensor/same_dims.h"
#include "core/tensor/view_check.h"

namespace tenon::exec {
namespace {

// What a trail says of a kernel's frame.
bool NameFrame(const void* frame, PluginPlace* out_place) {
  const tenon_frame_context* context = static_cast<const tenon_frame*>(frame)->context;
  if (context == nullptr || context->plugin == nullptr) return false;
  *out_place = {*context->plugin, context->function, context->node->name, context->node->op->name};
  return true;
}
[[maybe_unused]] const bool kFramesAreNamed = (SetFrameNamer(&NameFrame), true);

}  // namespace

void EndLostUpdates(const tenon_frame& frame) {
  for (int32_t i = 0; i < frame.input_count; ++i) {
    const tenon_tensor_view& view = *frame.inputs[i];
    if ((view.dtype != TENON_DT_RESOURCE && !IsRef(view.dtype)) || view.dl.data == nullptr || NumElements(view) != 1)
      continue;
    if (Resource* resource = *static_cast<Resource**>(DataOf(view))) EndUpdate(resource, &frame, TENON_UPDATE_FAILED);
  }
}

namespace {

std::string ItsFunction(const tenon_frame_context& context) {
  return StrCat(context.node->Describe(), ": ",
                context.plugin == nullptr ? "the engine" : DescribePlugin(*context.plugin), ": its ", context.function,
                "()");
}

}  // namespace

Status NotSet(const tenon_frame_context& context, size_t output) {
  return Internal(StrCat(ItsFunction(context), " did not set output ", output));
}

Status CheckCellsOfStrings(const tenon_frame_context& context, size_t output, const tenon_tensor_view& view) {
  const std::string fault = FaultOfCells(view);
  return fault.empty() ? Status::Ok() : Internal(StrCat(ItsFunction(context), " gave output ", output, " ", fault));
}

Result<tenon_tensor_view> NewTensor(BufferPool* pool, DType dtype, tenon_shape shape, uint64_t extra_bytes) {
  TENON_ASSIGN_OR_RETURN(const Tensor tensor, Tensor::Allocate(pool, dtype, Shape(shape), extra_bytes));
  Buffer* buffer = tensor.buffer();
  Retain(buffer);
  return MakeView(dtype, {buffer->dims, buffer->rank, 0}, buffer->data, tensor.byte_size(), buffer);
}

Buffer* ShareBuffer(BufferPool* pool, const tenon_tensor_view& view) {
  const tenon_shape shape{view.dl.shape, view.dl.ndim, 0};
  if (SameDims(*view.buffer, shape)) {
    Retain(view.buffer);
    return view.buffer;
  }
  return pool->Alias(view.buffer, shape);
}

Result<tenon_tensor_view> KeepView(BufferPool* pool, const tenon_tensor_view& view) {
  if (view.buffer != nullptr) {
    tenon_tensor_view kept = view;
    // Records that are kept with it count against the pool's limit: a buffer of another pool, as of a feed, is one of
    // this by another view.
    const bool charged = view.buffer->pool == pool || !pool->is_limited();
    kept.buffer = charged ? ShareBuffer(pool, view) : pool->Alias(view.buffer, {view.dl.shape, view.dl.ndim, 0});
    kept.dl.shape = kept.buffer->dims;
    return kept;
  }
  if (view.dtype == TENON_DT_VARIANT) return Internal("a variant that lives in no buffer");
  const uint64_t extra = view.dtype == TENON_DT_STRING ? StringBytes(view) : 0;
  TENON_ASSIGN_OR_RETURN(Buffer* const buffer,
                         pool->Allocate(view.byte_size + extra, {view.dl.shape, view.dl.ndim, 0}));
  CopyElements(view, buffer->data);
  return MakeView(view.dtype, {buffer->dims, buffer->rank, 0}, buffer->data, view.byte_size, buffer);
}

void ReleasePins(tenon_frame_context* context) {
  for (uint32_t i = 0; i < context->pin_count; ++i) Release(context->pins[i]);
  context->pin_count = 0;
  for (Buffer* buffer : context->more_pins) Release(buffer);
  context->more_pins.clear();
  if (context->work != nullptr) std::exchange(context->work, nullptr)->EndStep();
}

bool TouchesState(const graph::Node& node) {
  const auto is_handle = [](DType type) { return IsRef(type) || !IsPlain(type); };
  return node.has(TENON_OP_STATEFUL) || std::any_of(node.input_types.begin(), node.input_types.end(), is_handle) ||
         std::any_of(node.output_types.begin(), node.output_types.end(), is_handle);
}

bool HasFunctions(const graph::Node& node) {
  return std::any_of(node.attrs.begin(), node.attrs.end(),
                     [](const auto& attr) { return (attr.second.kind() & ~TENON_ATTR_LIST) == TENON_ATTR_FUNCTION; });
}

}  // namespace tenon::exec
