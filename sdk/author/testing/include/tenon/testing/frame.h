// SPDX-License-Identifier: Apache-2.0
// The services behind a kernel's frame, as the engine's are: outputs, memory, parallel work, cancellation, resources,
// variables, and what comes later.
//
// parallel_for runs uneven shares one after the other, not in their order, so that a kernel that depends on where a
// range begins is found. What the engine refuses (a wrong index, set_output of memory that lives in no buffer) is
// refused here with a status. Variants, calls of functions and traces are not offered. What comes later is in the hands
// of the test: works.h.
#ifndef TENON_TESTING_FRAME_H_
#define TENON_TESTING_FRAME_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tenon/testing/node.h"
#include "tenon/testing/step.h"

namespace tenon::testing {

// Where a kernel runs and its memory lies: on the host, unless said otherwise.
struct Place {
  tenon_device* device = nullptr;
  tenon_queue* queue = nullptr;
  tenon_semaphore* timeline = nullptr;
  std::function<tenon_buffer*(uint64_t bytes, const Dimensions& dims)> allocate = NewBuffer;
  // Of memory of the place, done when it returns.
  std::function<void(const void* source, void* target, uint64_t bytes)> copy = [](const void* source, void* target,
                                                                                  uint64_t bytes) {
    if (bytes > 0) std::memcpy(target, source, bytes);
  };
};

}  // namespace tenon::testing

// The C ABI's opaque context of a frame; see kernel_case.h for who fills it.
struct tenon_frame_context {
  const tenon_node* node = nullptr;
  tenon::testing::Step* step = nullptr;
  tenon::testing::Place place = {};
  std::vector<uint32_t> on_host = {};  // of each output: 1 when it lies in the host's memory, whatever the place
  std::map<tenon_resource*, tenon::testing::Tensor> updates = {};  // begun, and not where the value stands
  std::vector<tenon_buffer*> kept = {};  // references that end with the run
  bool broken_guard = false;
  std::atomic<bool> cancelled{false};
  std::atomic<tenon_done_function> on_cancel{nullptr};
  void* on_cancel_argument = nullptr;
  bool may_work = false;  // the kernel is asynchronous, or has state
  std::mutex work_mutex = {};
  tenon_work* work = nullptr;

  // Gives how much of it was still to come.
  size_t EndWork() {
    const std::lock_guard lock(work_mutex);
    may_work = false;
    tenon_work* const ended = std::exchange(work, nullptr);
    return ended == nullptr ? 0 : step->works->EndStep(ended);
  }
  ~tenon_frame_context() {
    (void)EndWork();
    for (tenon_buffer* buffer : kept) tenon::testing::Release(buffer);
  }
};

namespace tenon::testing {

inline tenon_status* CheckIndex(int32_t index, int32_t count, const char* what) {
  if (index >= 0 && index < count) return nullptr;
  return NewStatus(TENON_INTERNAL, std::string(what) + " " + std::to_string(index) + " of " + std::to_string(count));
}

// The output shows the buffer, whose reference the run takes over.
inline void GiveOutput(tenon_frame* frame, int32_t index, uint32_t dtype, tenon_buffer* buffer) {
  frame->context->kept.push_back(buffer);
  *frame->outputs[index] = ViewOf(dtype, buffer);
}

inline tenon_status* AllocOutput(tenon_frame* frame, int32_t index, tenon_shape shape, uint64_t extra_bytes) {
  if (tenon_status* bad = CheckIndex(index, frame->output_count, "the kernel allocates output")) return bad;
  const uint32_t dtype = TypeAt(frame->context->node->output_types, index);
  const Dimensions dims(shape.dims, shape.dims + shape.rank);
  const bool on_host = TypeAt(frame->context->on_host, index) == 1;
  const uint64_t bytes = BytesOf(dtype, dims) + extra_bytes;
  GiveOutput(frame, index, dtype, on_host ? NewBuffer(bytes, dims) : frame->context->place.allocate(bytes, dims));
  return nullptr;
}
inline tenon_status* SetOutput(tenon_frame* frame, int32_t index, const tenon_tensor_view* view) {
  if (tenon_status* bad = CheckIndex(index, frame->output_count, "the kernel sets output")) return bad;
  if (view->buffer == nullptr)
    return NewStatus(TENON_INTERNAL, "set_output of memory that lives in no buffer, and that the kernel must copy");
  if (view->byte_size != BytesOf(view->dtype, Dimensions(view->dl.shape, view->dl.shape + view->dl.ndim))) {
    return NewStatus(TENON_INTERNAL, "set_output of a view whose byte_size is not its shape's");
  }
  const tenon_tensor_view given = *view;
  GiveOutput(frame, index, given.dtype, Share(given));
  frame->outputs[index]->dl.data = given.dl.data;
  frame->outputs[index]->dl.byte_offset = given.dl.byte_offset;
  return nullptr;
}
inline tenon_status* AllocTensor(tenon_frame*, uint32_t dtype, tenon_shape shape, uint64_t extra_bytes,
                                 tenon_tensor_view* out_view) {
  const Dimensions dims(shape.dims, shape.dims + shape.rank);
  *out_view = ViewOf(dtype, NewBuffer(BytesOf(dtype, dims) + extra_bytes, dims));
  return nullptr;
}
inline tenon_status* RetainInput(tenon_frame* frame, int32_t index, tenon_tensor_view* out_view) {
  if (tenon_status* bad = CheckIndex(index, frame->input_count, "the kernel keeps input")) return bad;
  *out_view = *frame->inputs[index];
  out_view->buffer = Share(*out_view);
  out_view->dl.shape = out_view->buffer->dims.data();
  return nullptr;
}

inline void ParallelFor(tenon_frame*, int64_t total, double, tenon_range_function function, void* argument) {
  const int64_t first = std::min(total, total / 3 + 1), second = std::min(total, first + total / 2 + 1);
  for (const auto& [begin, end] : {std::pair{second, total}, {int64_t{0}, first}, {first, second}}) {
    if (begin < end) function(argument, begin, end);
  }
}

// ---- Cancellation ----

inline uint32_t IsCancelled(tenon_frame* frame) {
  const tenon_frame_context& context = *frame->context;
  return context.cancelled || (context.step->is_cancelled && context.step->is_cancelled()) ? 1 : 0;
}
inline uint64_t CancelSubscribe(tenon_frame* frame, tenon_done_function callback, void* argument) {
  if (IsCancelled(frame) != 0) return 0;
  frame->context->on_cancel_argument = argument;
  frame->context->on_cancel = callback;
  return 1;
}

// ---- Resources ----

inline tenon_status* InputResource(tenon_frame* frame, int32_t index, tenon_resource** out_handle) {
  if (tenon_status* bad = CheckIndex(index, frame->input_count, "the kernel asks for the resource of input"))
    return bad;
  std::memcpy(out_handle, sdk::Data<char>(*frame->inputs[index]), sizeof *out_handle);
  return *out_handle != nullptr
             ? nullptr
             : NewStatus(TENON_INVALID_ARGUMENT, "input " + std::to_string(index) + " is an empty resource handle");
}
inline tenon_status* ResourceObject(tenon_frame*, tenon_resource* handle, tenon_span type,
                                    tenon_status* (*create)(void*, void**), void* argument, void (*destroy)(void*),
                                    void** out_object) {
  if (handle->object == nullptr) {
    if (create == nullptr) return NewStatus(TENON_NOT_FOUND, "the resource does not exist yet");
    if (tenon_status* status = create(argument, &handle->object)) return status;
    handle->destroy = destroy;
    handle->object_type = View(type);
  }
  if (handle->object_type != View(type))
    return NewStatus(TENON_INVALID_ARGUMENT, "the resource is not what this op works on");
  *out_object = handle->object;
  return nullptr;
}
inline tenon_status* ResourceDestroy(tenon_frame*, tenon_resource* handle) {
  return handle->Drop() ? nullptr : NewStatus(TENON_NOT_FOUND, "the resource has no value that could be destroyed");
}
inline tenon_status* StepResource(tenon_frame* frame, tenon_span, tenon_resource** out_handle) {
  *out_handle = frame->context->step->local.emplace_back(std::make_unique<tenon_resource>()).get();
  return nullptr;
}

// ---- Variables ----

inline tenon_status* WithoutAValue() { return NewStatus(TENON_FAILED_PRECONDITION, "the variable has no value"); }

inline tenon_status* VariableRead(tenon_frame* frame, tenon_resource* variable, tenon_tensor_view* out_view) {
  if (!variable->initialized) return WithoutAValue();
  *out_view = variable->value.view();
  frame->context->kept.push_back(Retain(out_view->buffer));
  return nullptr;
}
inline tenon_status* VariableBeginUpdate(tenon_frame* frame, tenon_resource* variable, uint32_t flags, uint32_t dtype,
                                         tenon_shape shape, uint64_t extra_bytes, tenon_tensor_view* out_old,
                                         tenon_tensor_view* out_new) {
  variable->last_flags = flags;
  const bool initialize = (flags & TENON_UPDATE_INITIALIZE) != 0;
  if (!initialize && !variable->initialized) return WithoutAValue();
  const Dimensions dims = shape.rank < 0 ? variable->value.dims : Dimensions(shape.dims, shape.dims + shape.rank);
  if (!initialize && (variable->value.dtype != dtype || variable->value.dims != dims)) {
    return NewStatus(TENON_INVALID_ARGUMENT, "the variable has another shape or dtype");
  }
  ++variable->updates;
  *out_old = variable->initialized ? variable->value.view() : tenon_tensor_view{};
  if (variable->in_place && variable->initialized && variable->value.dims == dims) {
    *out_new = *out_old;
    return nullptr;
  }
  const Place& place = frame->context->place;
  Tensor& update =
      frame->context->updates
          .insert_or_assign(variable,
                            Tensor(dtype, dims, Bytes(place.allocate(BytesOf(dtype, dims) + extra_bytes, dims))))
          .first->second;
  *out_new = update.view();
  if ((flags & TENON_UPDATE_PRESERVE) != 0 && variable->initialized) {
    place.copy(variable->value.bytes.data(), update.bytes.data(),
               std::min(variable->value.bytes.size(), update.bytes.size()));
  }
  return nullptr;
}
inline void VariableEndUpdate(tenon_frame* frame, tenon_resource* variable, uint32_t outcome) {
  if (outcome == TENON_UPDATE_COMMIT) ++variable->commits;
  const auto found = frame->context->updates.find(variable);
  if (found == frame->context->updates.end()) return;  // in place
  frame->context->broken_guard |= !found->second.bytes.intact();
  if (outcome == TENON_UPDATE_COMMIT) {
    // Work on a queue may still read the old value, and views of it its dims.
    frame->context->kept.push_back(Retain(variable->value.bytes.buffer()));
    variable->value = std::move(found->second);
    variable->initialized = true;
  }
  frame->context->updates.erase(found);
}

// ---- What comes later ----

inline tenon_status* Schedule(tenon_work* work, uint64_t after_ns, uint32_t flags, tenon_done_function function,
                              void* argument, uint64_t* out_token) {
  if ((flags & ~TENON_WORK_MAY_WAIT) != 0) {
    return NewStatus(TENON_UNIMPLEMENTED,
                     "the flags " + std::to_string(flags) + " of schedule(); TENON_WORK_MAY_WAIT is known");
  }
  return work->works->Take(work, after_ns, flags != 0, -1, 0, function, argument, out_token);
}
inline tenon_status* AwaitDescriptor(tenon_work* work, int32_t descriptor, uint32_t events, uint64_t timeout_ns,
                                     tenon_done_function function, void* argument, uint64_t* out_token) {
  constexpr uint32_t kEvents = TENON_WORK_READABLE | TENON_WORK_WRITABLE;
  if (events == 0 || (events & ~kEvents) != 0) {
    return NewStatus(TENON_INVALID_ARGUMENT,
                     "the events " + std::to_string(events) +
                         " of await_descriptor(); TENON_WORK_READABLE, TENON_WORK_WRITABLE or both");
  }
  const auto polled = static_cast<short>(((events & TENON_WORK_READABLE) != 0 ? POLLIN : 0) |
                                         ((events & TENON_WORK_WRITABLE) != 0 ? POLLOUT : 0));
  pollfd one = {descriptor, polled, 0};
  if (descriptor < 0 || poll(&one, 1, 0) < 0 || (one.revents & POLLNVAL) != 0) {
    return NewStatus(TENON_INVALID_ARGUMENT, std::to_string(descriptor) + " is no open descriptor");
  }
  return work->works->Take(work, timeout_ns == 0 ? Works::kNever : timeout_ns, false, descriptor, polled, function,
                           argument, out_token);
}
inline tenon_status* BackgroundBegin(tenon_frame* frame, tenon_span name, tenon_work** out_work) {
  const tenon_frame_context& context = *frame->context;
  *out_work = context.step->works->BeginBackground(name.size == 0 ? context.node->name : String(name));
  return nullptr;
}
inline const tenon_work_services* WorkServices() {
  static const tenon_work_services services = [] {
    tenon_work_services s = {};
    s.struct_size = sizeof s;
    s.schedule = Schedule;
    s.await_descriptor = AwaitDescriptor;
    s.forget = [](tenon_work* work, uint64_t token) -> uint32_t { return work->works->Forget(work, token) ? 1 : 0; };
    s.is_cancelled = [](tenon_work* work) -> uint32_t { return work->cancelled() ? 1 : 0; };
    s.alloc_tensor = [](tenon_work*, uint32_t dtype, tenon_shape shape, uint64_t extra_bytes,
                        tenon_tensor_view* out_view) {
      return AllocTensor(nullptr, dtype, shape, extra_bytes, out_view);
    };
    s.call = [](tenon_work*, tenon_function*, const tenon_tensor_view* const*, uint64_t, tenon_tensor_view*, uint64_t) {
      return NewStatus(TENON_UNIMPLEMENTED, "the host for tests calls no functions; try the kernel in a runtime");
    };
    s.call_into = [](tenon_work* work, tenon_function* function, const tenon_tensor_view* const* arguments,
                     uint64_t argument_count, const tenon_tensor_view* const*, tenon_tensor_view* out_results,
                     uint64_t result_count) {
      return WorkServices()->call(work, function, arguments, argument_count, out_results, result_count);
    };
    s.function_signature = [](const tenon_function*, tenon_function_signature* out_info) { *out_info = {}; };
    s.function_retain = [](tenon_function*) {};
    s.function_release = [](tenon_function*) {};
    s.background_begin = BackgroundBegin;
    s.background_end = [](tenon_work* work) {
      if (work != nullptr) std::shared_ptr<Works>(work->works)->EndBackground(work);
    };
    return s;
  }();
  return &services;
}
// nullptr as in the engine: the kernel neither comes later nor has state.
inline tenon_work* WorkOf(tenon_frame* frame) {
  tenon_frame_context& context = *frame->context;
  const std::lock_guard lock(context.work_mutex);
  if (context.work != nullptr || !context.may_work) return context.work;
  context.work = context.step->works->BeginStep(context.node->name, &context.step->is_cancelled);
  if (context.cancelled) context.work->Cancel();
  return context.work;
}

inline const tenon_frame_services* FrameServices() {
  static const tenon_frame_services services = [] {
    tenon_frame_services s = {};
    s.struct_size = sizeof s;
    s.alloc_output = AllocOutput;
    s.set_output = SetOutput;
    s.alloc_tensor = AllocTensor;
    s.retain_input = RetainInput;
    s.parallel_for = ParallelFor;
    s.is_cancelled = IsCancelled;
    s.cancel_subscribe = CancelSubscribe;
    s.cancel_unsubscribe = [](tenon_frame* frame, uint64_t) -> uint32_t {
      return frame->context->on_cancel.exchange(nullptr) != nullptr ? 1 : 0;
    };
    s.input_resource = InputResource;
    s.resource_object = ResourceObject;
    s.resource_destroy = ResourceDestroy;
    s.step_resource = StepResource;
    s.variable_read = VariableRead;
    s.variable_is_initialized = [](tenon_frame*, tenon_resource* handle) -> uint32_t {
      return handle->initialized || handle->object != nullptr ? 1 : 0;
    };
    s.variable_begin_update = VariableBeginUpdate;
    s.variable_end_update = VariableEndUpdate;
    s.now_ns = [](tenon_frame*) { return After(std::chrono::nanoseconds(0)); };
    s.step_id = [](tenon_frame*) -> uint64_t { return 1; };
    s.device_extension = [](tenon_frame* frame, tenon_span id) -> const void* {
      return frame->context->step->extension ? frame->context->step->extension(View(id)) : nullptr;
    };
    s.work_services = WorkServices();
    s.work = WorkOf;
    return s;
  }();
  return &services;
}

}  // namespace tenon::testing

#endif  // TENON_TESTING_FRAME_H_
