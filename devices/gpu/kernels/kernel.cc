// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel.h"

namespace tenon::gpu {

std::string_view Suffix(uint32_t dtype) {
  switch (dtype) {
    case TENON_DT_FLOAT: return "f32";
    case TENON_DT_DOUBLE: return "f64";
    case TENON_DT_HALF: return "f16";
    case TENON_DT_BFLOAT16: return "bf16";
    case TENON_DT_INT8: return "i8";
    case TENON_DT_INT16: return "i16";
    case TENON_DT_INT32: return "i32";
    case TENON_DT_INT64: return "i64";
    case TENON_DT_UINT8: return "u8";
    case TENON_DT_UINT16: return "u16";
    case TENON_DT_UINT32: return "u32";
    case TENON_DT_UINT64: return "u64";
    case TENON_DT_BOOL: return "b8";
    default: sdk::Fail(TENON_UNIMPLEMENTED, "GPUs have no kernel for dtype ", sdk::TypeName(dtype));
  }
}

uint32_t UnsignedType(uint32_t dtype) {
  switch (dtype) {
    case TENON_DT_BOOL: case TENON_DT_INT8: return TENON_DT_UINT8;
    case TENON_DT_INT16: return TENON_DT_UINT16;
    case TENON_DT_INT32: return TENON_DT_UINT32;
    case TENON_DT_INT64: return TENON_DT_UINT64;
    default: return dtype;
  }
}

Function Shapes::Code(std::string_view name) const {
  Function function = nullptr;
  const Outcome outcome = device_.FindFunction(name, &function);
  if (!outcome.ok()) sdk::Fail(outcome.code, outcome.message);
  return function;
}
Function Shapes::Code(std::string_view name, uint32_t dtype) const {
  return Code(sdk::Concat(name, "_", Suffix(dtype)));
}

int64_t Shapes::Workspace(int64_t bytes) {
  const int64_t offset = workspace_bytes_;
  if (bytes < 0 || bytes > (INT64_C(1) << 60) - offset)
    sdk::Fail(TENON_RESOURCE_EXHAUSTED, "a workspace of ", bytes, " bytes");
  workspace_bytes_ = (offset + bytes + kDeviceAlignment - 1) / kDeviceAlignment * kDeviceAlignment;
  return offset;
}

void Launcher::Refuse(Outcome outcome) const {
  outcome = queue_.device().Note(std::move(outcome));
  sdk::Fail(outcome.code, outcome.message);
}

Device& RequireOwn(const tenon_device* device) {
  Device* const own = OwnDevice(device);
  if (own == nullptr) sdk::Fail(TENON_UNIMPLEMENTED, "a GPU that another plugin than ", kVendor.plugin, " has opened");
  return *own;
}

void SubmitTo(const tenon_frame& frame, char* workspace, void (*launch)(void* argument, Launcher& on), void* argument) {
  if (frame.queue == nullptr) sdk::Fail(TENON_FAILED_PRECONDITION, "a kernel of a GPU in a frame without a queue");
  Queue& queue = *Queue::Of(frame.queue);
  const Queue::Turn turn(queue, Timeline::Of(frame.timeline));
  if (!turn.outcome().ok()) sdk::Fail(turn.outcome().code, turn.outcome().message);
  if (turn.pointless()) return;
  const Profile::Piece piece(queue.profile(), queue.number(), queue.stream(), frame.label, "kernel");
  Launcher on(queue, workspace);
  launch(argument, on);
}

char* AlignedWorkspace(const tenon_frame& frame) {
  return reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(frame.workspace) + kDeviceAlignment - 1) &
                                 ~uintptr_t{kDeviceAlignment - 1});
}

void Submit(const sdk::RunContext& c, const PreparedWork& work, bool own_workspace) {
  const int32_t inputs = c.input_count(), outputs = c.output_count();
  sdk::Operands operands(inputs + outputs);
  char** at = operands.at();
  for (int32_t i = 0; i < inputs; ++i) {
    at[i] = sdk::IsHostInput(work.host_inputs, i) ? nullptr : static_cast<char*>(sdk::Data<void>(c.input_view(i)));
  }
  for (int32_t i = 0; i < outputs; ++i) at[inputs + i] = static_cast<char*>(sdk::Data<void>(c.output_view(i)));
  const tenon_frame& frame = *c.frame();
  const std::shared_ptr<Kept> kept = own_workspace ? nullptr : work.Keep(frame);
  const auto launch = [&](Launcher& on) {
    on.set_kept(kept.get());
    work.Launch(on, at);
  };
  if (!own_workspace || work.workspace_bytes == 0) return SubmitTo(frame, AlignedWorkspace(frame), launch);
  const RunMemory workspace(frame, work.workspace_bytes);
  SubmitTo(frame, workspace.data(), launch);
}

RunMemory::RunMemory(const tenon_frame& frame, int64_t bytes)
    : device_(RequireOwn(frame.device)), queue_(Queue::Of(frame.queue)) {
  void* data = nullptr;
  const Outcome outcome = device_.Allocate(kDeviceKind, static_cast<uint64_t>(std::max<int64_t>(bytes, 1)),
                                           kDeviceAlignment, queue_, &data);
  if (!outcome.ok()) sdk::Fail(outcome.code, outcome.message);
  data_ = static_cast<char*>(data);
}
RunMemory::~RunMemory() { device_.Free(kDeviceKind, data_, queue_); }

void ReadBack(const sdk::RunContext& c, const int64_t* words, std::span<int64_t> out) {
  const tenon_frame& frame = *c.frame();
  const Outcome outcome =
      Queue::Of(frame.queue)->Read(Timeline::Of(frame.timeline), words, out, [&] { return c.cancelled(); });
  if (!outcome.ok()) sdk::Fail(outcome.code, outcome.message);
}

}  // namespace tenon::gpu
