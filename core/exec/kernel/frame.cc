// SPDX-License-Identifier: Apache-2.0
#include "core/exec/kernel/frame.h"

#include "core/base/plugin_call.h"

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
    if ((view.dtype != TENON_DT_RESOURCE && !IsRef(view.dtype)) || view.dl.data == nullptr || NumElements(view) != 1) continue;
    if (Resource* resource = *static_cast<Resource**>(DataOf(view))) EndUpdate(resource, &frame, TENON_UPDATE_FAILED);
  }
}

namespace {

std::string ItsFunction(const tenon_frame_context& context) {
  return StrCat(context.node->Describe(), ": ", context.plugin == nullptr ? "the engine" : DescribePlugin(*context.plugin), ": its ",
                context.function, "()");
}

}  // namespace

Status NotSet(const tenon_frame_context& context, size_t output) {
  return Internal(StrCat(ItsFunction(context), " did not set output ", output));
}

Status CheckCellsOfStrings(const tenon_frame_context& context, size_t output, const tenon_tensor_view& view) {
  if (view.dl.data == nullptr || !OnHost(view)) return Status::Ok();
  const auto* cells = static_cast<const tenon_string_cell*>(DataOf(view));
  const Buffer* memory = HomeOf(view.buffer);
  const auto offset = static_cast<uint64_t>(reinterpret_cast<const char*>(cells) -
                                            (memory == nullptr ? reinterpret_cast<const char*>(cells) : static_cast<const char*>(memory->data)));
  const uint64_t bytes = memory == nullptr ? view.byte_size : memory->capacity - offset;
  const int64_t count = NumElements(view);
  for (int64_t i = 0; i < count; ++i)
    if (cells[i].size != 0 && (cells[i].offset > bytes || cells[i].size > bytes - cells[i].offset))
      return Internal(StrCat(ItsFunction(context), " gave output ", output, " the string ", i, " at byte ", cells[i].offset, " of ", cells[i].size,
                             " bytes; its memory has ", bytes));
  return Status::Ok();
}

void ReleasePins(tenon_frame_context* context) {
  for (uint32_t i = 0; i < context->pin_count; ++i) Release(context->pins[i]);
  context->pin_count = 0;
  for (Buffer* buffer : context->more_pins) Release(buffer);
  context->more_pins.clear();
}

}  // namespace tenon::exec
