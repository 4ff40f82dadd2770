// SPDX-License-Identifier: Apache-2.0
// The services behind a kernel's frame. Each checks what the kernel asks for: a wrong index is a status, never a crash.
#include <cstring>
#include <exception>
#include <thread>

#include "core/base/clock.h"
#include "core/exec/device/environment.h"
#include "core/exec/device/late_updates.h"
#include "core/exec/device/queue_work.h"
#include "core/exec/device/resources.h"
#include "core/exec/device/step.h"
#include "core/exec/kernel/frame.h"
#include "core/exec/kernel/work_services.h"
#include "core/exec/threads/host_threads.h"
#include "core/graph/op_def.h"
#include "core/tensor/variant.h"
#include "core/tensor/view_check.h"
#include "core/trace/trace.h"
#include "tenon/ext/draft/lasting_view.h"

namespace tenon::exec {
namespace {

// Who runs the kernel puts the node's name before what its kernel answers.
tenon_status* Fail(Status status) { return status.release(); }

// What the kernel must not do is said to be its plugin's doing.
tenon_status* Wrong(const tenon_frame* frame, std::string_view what) {
  const tenon_frame_context& context = *frame->context;
  return Internal(StrCat(context.plugin == nullptr ? "the engine" : DescribePlugin(*context.plugin), ": its ",
                         context.function, "() ", what))
      .release();
}

tenon_status* CheckOutput(const tenon_frame* frame, int32_t index) {
  if (index >= 0 && index < frame->output_count) return nullptr;
  return Wrong(frame, StrCat("set output ", index, " of ", frame->output_count));
}

tenon_status* CheckShape(const tenon_frame* frame, const char* service, tenon_shape shape) {
  if (shape.rank <= 0 || (shape.dims != nullptr && shape.rank <= TENON_MAX_RANK)) return nullptr;
  return Wrong(frame,
               StrCat("called ", service, " with ", shape.dims == nullptr ? "dims NULL and rank " : "rank ", shape.rank,
                      shape.dims == nullptr ? "" : StrCat("; at most ", TENON_MAX_RANK, " is allowed")));
}

tenon_status* AllocOutput(tenon_frame* frame, int32_t index, tenon_shape shape, uint64_t extra_bytes) {
  if (tenon_status* bad = CheckOutput(frame, index)) return bad;
  if (tenon_status* bad = CheckShape(frame, "alloc_output", shape)) return bad;
  const auto at = static_cast<size_t>(index);
  const Place& place = frame->context->place;
  auto made =
      NewTensor(PoolOf(*frame->context->step, place, at), frame->context->node->output_types[at], shape, extra_bytes);
  if (!made.ok()) return Fail(made.status());
  tenon_tensor_view* view = frame->outputs[index];
  ReleaseOutput(view);
  *view = *made;
  MarkOutput(place, at, view);
  return nullptr;
}

// Whether the kernel has read it from a variable in this call.
bool IsOfAVariable(const tenon_frame_context& context, const Buffer* buffer) {
  const auto pins = context.pins.begin();
  return buffer != nullptr &&
         (std::find(pins, pins + static_cast<std::ptrdiff_t>(context.pin_count), buffer) !=
              pins + static_cast<std::ptrdiff_t>(context.pin_count) ||
          std::find(context.more_pins.begin(), context.more_pins.end(), buffer) != context.more_pins.end());
}

// What a kernel gives as its output: readers believe the type and the size, and that the data lies in the buffer.
tenon_status* CheckGiven(const tenon_frame* frame, int32_t index, const tenon_tensor_view& view) {
  const auto wrong = [&](const std::string& what) {
    return Wrong(frame, StrCat("gave set_output ", what, " for output ", index));
  };
  const DType planned = frame->context->node->output_types[index];
  // What a variable is, its writers have said; the graph reads it as something else.
  if (view.dtype != planned && IsOfAVariable(*frame->context, view.buffer))
    return Fail(
        InvalidArgument(StrCat("the variable is ", TypeName(view.dtype), "; it is read as ", TypeName(planned))));
  if (view.dtype != planned) return wrong(StrCat("a ", TypeName(view.dtype), " where the op says ", TypeName(planned)));
  if (const std::string fault = FaultOf(view); !fault.empty()) return wrong(fault);
  const bool in_host_memory = frame->context->place.host_output(static_cast<size_t>(index));
  if (frame->context->place.device != nullptr && OnHost(view) != in_host_memory)
    return wrong(StrCat(OnHost(view) ? "memory of the host" : "memory of a device", " where ",
                        in_host_memory ? "the host's" : "the device's", " is wanted"));
  return nullptr;
}

tenon_status* SetOutput(tenon_frame* frame, int32_t index, const tenon_tensor_view* view) {
  if (tenon_status* bad = CheckOutput(frame, index)) return bad;
  if (tenon_status* bad = CheckGiven(frame, index, *view)) return bad;
  Buffer* buffer = ShareBuffer(frame->context->step->env->pool, *view);
  tenon_tensor_view shared = *view;
  shared.buffer = buffer;
  shared.dl.shape = buffer->dims;
  ReleaseOutput(frame->outputs[index]);
  *frame->outputs[index] = shared;
  return nullptr;
}

Status CopyWithin(const Place& place, const void* source, void* target, uint64_t bytes) {
  tenon_device* device = place.device->device->handle;
  const tenon_copy_args args{TENON_HEAD(tenon_copy_args), source, target, bytes, device, device};
  return place.work->Copy(place.queue, args, {}, "keep", nullptr);
}

// A handle that ends with the step may be kept in what ends with it too: input 0, as of the stacks of nested loops.
// That input itself is never excused.
Status CheckMayBeKept(const tenon_frame& frame, int32_t index) {
  Status status = CheckMayOutliveStep(*frame.inputs[index]);
  const bool in_step = !status.ok() && index != 0 && !CheckMayOutliveStep(*frame.inputs[0]).ok();
  return in_step ? Status::Ok() : status;
}

tenon_status* RetainInput(tenon_frame* frame, int32_t index, tenon_tensor_view* out_view) {
  if (index < 0 || index >= frame->input_count)
    return Wrong(frame, StrCat("kept input ", index, " of ", frame->input_count));
  const tenon_tensor_view& view = *frame->inputs[index];
  if (Status status = CheckMayBeKept(*frame, index); !status.ok())
    return Fail(std::move(status).Annotate(StrCat("input ", index)));
  const Place& place = frame->context->place;
  if (view.buffer != nullptr || place.device == nullptr || OnHost(view)) {
    auto kept = KeepView(frame->context->step->env->pool, view);
    if (!kept.ok()) return Fail(std::move(kept).status().Annotate(StrCat("input ", index)));
    *out_view = *kept;
    return nullptr;
  }
  auto buffer = place.device->pool->Allocate(view.byte_size, {view.dl.shape, view.dl.ndim, 0});
  if (!buffer.ok()) return Fail(buffer.status());
  if (Status status = CopyWithin(place, DataOf(view), (*buffer)->data, view.byte_size); !status.ok())
    return Fail(std::move(status));
  *out_view = MakeView(view.dtype, {(*buffer)->dims, (*buffer)->rank, 0}, (*buffer)->data, view.byte_size, *buffer);
  MarkDevice(out_view, *place.device->device);
  return nullptr;
}

// A share of a parallel_for: it leaves the trail of its kernel on the thread that it runs on, and keeps what is thrown
// there.
struct Shares {
  const tenon_frame* frame;
  tenon_range_function function;
  void* argument;
  std::mutex mutex;
  std::exception_ptr thrown;
  const std::thread::id caller = std::this_thread::get_id();

  // A share on a helper's thread, in the trace; those of the caller lie in its kernel's span.
  struct HelperSpan {
    explicit HelperSpan(const Shares& of)
        : shares(of),
          begin(of.frame->context->step->trace != nullptr && std::this_thread::get_id() != of.caller
                    ? trace::Trace::Now()
                    : 0) {}
    ~HelperSpan() {
      if (begin == 0) return;
      const tenon_frame_context& context = *shares.frame->context;
      (void)Guarded([&] {
        context.step->trace->Add(context.node->name, "share", begin, trace::Trace::Now(), context.node->op->name);
      });
    }
    const Shares& shares;
    const uint64_t begin;
  };

  static void Run(void* argument, int64_t begin, int64_t end) {
    auto* self = static_cast<Shares*>(argument);
    const KernelCall mark(self->frame);
    const HelperSpan span(*self);
    try {
      self->function(self->argument, begin, end);
    } catch (...) {
      std::lock_guard lock(self->mutex);
      if (self->thrown == nullptr) self->thrown = std::current_exception();
    }
  }
};

void ParallelFor(tenon_frame* frame, int64_t total, double cost, tenon_range_function function, void* argument) {
  if (function == nullptr || total <= 0) return;
  Shares shares{frame, function, argument, {}, nullptr};
  trace::Trace* const trace = frame->context->step->trace;
  uint64_t waits_ns = 0;
  frame->context->step->env->threads->Run(total, cost, &Shares::Run, &shares, trace == nullptr ? nullptr : &waits_ns);
  if (waits_ns != 0) trace->Add("wait for helpers", "wait", waits_ns, trace::Trace::Now(), frame->context->node->name);
  // To who called run(), as if the kernel had no help.
  if (shares.thrown != nullptr) std::rethrow_exception(shares.thrown);
}

uint32_t IsCancelled(tenon_frame* frame) { return frame->context->step->cancellation->cancelled() ? 1 : 0; }

uint64_t CancelSubscribe(tenon_frame* frame, tenon_done_function callback, void* argument) {
  return frame->context->step->cancellation->Subscribe(
      [callback, argument](const Status& reason) { callback(argument, Status(reason).release()); });
}

uint32_t CancelUnsubscribe(tenon_frame* frame, uint64_t token) {
  return frame->context->step->cancellation->Unsubscribe(token) ? 1 : 0;
}

tenon_status* InputResource(tenon_frame* frame, int32_t index, tenon_resource** out_handle) {
  if (index < 0 || index >= frame->input_count)
    return Wrong(frame, StrCat("asked for input ", index, " of ", frame->input_count));
  const tenon_tensor_view& view = *frame->inputs[index];
  if ((view.dtype != TENON_DT_RESOURCE && !IsRef(view.dtype)) || view.dl.data == nullptr || NumElements(view) != 1)
    return Fail(InvalidArgument(StrCat("input ", index, " must be one resource or reference, found ",
                                              TypeName(view.dtype), ShapeOf(view).ToString())));
  tenon_resource* handle = *static_cast<tenon_resource**>(DataOf(view));
  if (handle == nullptr) return Fail(InvalidArgument(StrCat("input ", index, " is an empty resource handle")));
  *out_handle = handle;
  return nullptr;
}

tenon_status* ResourceObject(tenon_frame* frame, tenon_resource* handle, tenon_span type,
                             tenon_status* (*create)(void*, void**), void* argument, void (*destroy)(void*),
                             void** out_object) {
  if (type.data == nullptr || type.size == 0) return Wrong(frame, "called resource_object without a type");
  return Guarded([&]() -> Status {
    std::lock_guard lock(handle->mutex);
    if (handle->object == nullptr) {
      if (create == nullptr)
        return NotFound(StrCat("the ", handle->type, " '", handle->name,
                               "' does not exist yet, or is nothing that this op works on; run its initialiser"));
      const std::string* const plugin = frame->context->plugin;
      auto made = std::make_shared<PluginObject>(View(type),
                                                 plugin == nullptr ? std::string_view() : std::string_view(*plugin));
      void* object = nullptr;
      if (tenon_status* status = create(argument, &object)) return Status(status);
      if (object == nullptr) return Status(Wrong(frame, "made no object for resource_object, and says that it did"));
      made->Hold(object, destroy);
      handle->object = std::move(made);
    }
    if (handle->object->type() != View(type))
      return InvalidArgument(StrCat("the ", handle->type, " '", handle->name,
                                    "' is not what this op works on: it is a ", handle->object->type(), ", not a ",
                                    View(type)));
    if (!handle->of_step) frame->context->step->Keep(handle->object);
    *out_object = handle->object->data();
    return Status::Ok();
  }).release();
}

tenon_status* ResourceDestroy(tenon_frame*, tenon_resource* handle) {
  if (Drop(handle)) return nullptr;
  return NotFound(StrCat("resource '", handle->name, "' has no value that could be destroyed")).release();
}

tenon_status* StepResource(tenon_frame* frame, tenon_span type, tenon_resource** out_handle) {
  return Guarded([&]() -> Status {
    auto resource = std::make_unique<Resource>();
    resource->type = View(type);
    resource->name = frame->context->node->name;
    resource->of_step = true;
    Resource* const handle = resource.get();
    Step* step = frame->context->step;
    // With the place of its object; what that takes it charges itself.
    constexpr uint64_t kMalloc = 128;  // its own of the pieces
    TENON_RETURN_IF_ERROR(resource->charge.Take(
        step->env->pool,
        sizeof(Resource) + sizeof(PluginObject) + resource->type.size() + resource->name.size() + kMalloc));
    std::lock_guard lock(step->mutex);
    step->local_resources.push_back(std::move(resource));
    *out_handle = handle;
    return Status::Ok();
  }).release();
}

// Whether the node got this handle through a reference input: then the update is in place.
bool ThroughReference(const tenon_frame* frame, const tenon_resource* handle) {
  for (int32_t i = 0; i < frame->input_count; ++i) {
    const tenon_tensor_view& view = *frame->inputs[i];
    if (IsRef(view.dtype) && view.dl.data != nullptr && *static_cast<tenon_resource**>(DataOf(view)) == handle)
      return true;
  }
  return false;
}

tenon_status* VariableRead(tenon_frame* frame, tenon_resource* handle, tenon_tensor_view* out_view) {
  tenon_frame_context* context = frame->context;
  const Place& place = context->place;
  if (place.work != nullptr)
    if (Status status = place.work->AwaitWrite(place.queue, handle); !status.ok()) return Fail(std::move(status));
  if (Status status =
          ReadVariable(handle, MemoryOf(place), out_view, frame, context->step->cancellation, context->step->trace);
      !status.ok())
    return Fail(std::move(status));
  // Who writes to a variable without references takes another buffer while this one is held: it may be shared as it is.
  if (!ThroughReference(frame, handle)) out_view->flags |= TENON_VIEW_READ_ONLY | TENON_VIEW_LASTING;
  if (context->pin_count < context->pins.size()) context->pins[context->pin_count++] = out_view->buffer;
  else context->more_pins.push_back(out_view->buffer);
  return nullptr;
}

uint32_t VariableIsInitialized(tenon_frame*, tenon_resource* handle) { return IsInitialized(handle) ? 1 : 0; }

tenon_status* VariableBeginUpdate(tenon_frame* frame, tenon_resource* handle, uint32_t flags, uint32_t dtype,
                                  tenon_shape shape, uint64_t extra_bytes, tenon_tensor_view* out_old,
                                  tenon_tensor_view* out_new) {
  if (tenon_status* bad = CheckShape(frame, "variable_begin_update", shape)) return bad;
  const Step& step = *frame->context->step;
  const Place& place = frame->context->place;
  Updater updater{frame, step.cancellation, step.env->pool, ThroughReference(frame, handle), nullptr, {}, {},
                  true,  step.trace};
  LateUpdates* const late = frame->context->late;
  if (late != nullptr) {
    if ((flags & TENON_UPDATE_PRESERVE) != 0)
      return Fail(Unimplemented("a kernel with TENON_KERNEL_CAPTURE_UPDATES wants TENON_UPDATE_PRESERVE"));
    if (late->Has(handle)) return Fail(Unimplemented(StrCat("variable '", handle->name, "' is updated twice")));
    updater.dropped = late->dropped;
    updater.may_wait = late->updates.empty();
  }
  std::vector<const tenon_buffer*> read;
  if (late == nullptr && (flags & TENON_UPDATE_OVER_INPUTS) != 0) {
    for (const tenon_tensor_view* view : frame->context->last_reads) read.push_back(view->buffer);
    updater.dropped = read;
  }
  if (place.device != nullptr) {
    updater.pool = place.device->pool;
    updater.device = place.device->device;
    updater.copy = [&place](const void* source, void* target, uint64_t bytes) {
      return CopyWithin(place, source, target, bytes);
    };
    if (Status waited = place.work->AwaitWrite(place.queue, handle); !waited.ok()) return Fail(std::move(waited));
  }
  Status status = BeginUpdate(handle, updater, flags, dtype, shape, extra_bytes, out_old, out_new);
  if (late != nullptr && status.ok()) {
    late->updates.push_back({handle, frame, TENON_UPDATE_FAILED});
    late->addresses.insert(late->addresses.end(), {DataOf(*out_old), DataOf(*out_new)});
  }
  return status.ok() ? nullptr : Fail(std::move(status));
}

void VariableEndUpdate(tenon_frame* frame, tenon_resource* handle, uint32_t outcome) {
  if (LateUpdates* const late = frame->context->late) {
    for (LateUpdates::Update& update : late->updates)
      if (update.resource == handle && update.frame == frame) update.outcome = outcome;
    return;
  }
  EndUpdate(handle, frame, outcome);
  const Place& place = frame->context->place;
  if (place.work == nullptr || outcome != TENON_UPDATE_COMMIT) return;
  // Without a point the write's end is not known: the step fails when it is waited for.
  if (Status status = place.work->NoteWrites(place.queue, {&handle, 1}); !status.ok())
    place.work->FailLater(std::move(status));
}

void TraceSpan(tenon_frame* frame, tenon_span name, uint64_t begin_ns, uint64_t end_ns) {
  if (trace::Trace* trace = frame->context->step->trace)
    trace->Add(View(name), frame->context->node->name, begin_ns, end_ns);
}

uint64_t Now(tenon_frame*) { return NowNs(); }

uint64_t StepId(tenon_frame* frame) { return frame->context->step->id; }

tenon_status* AllocTensor(tenon_frame* frame, uint32_t dtype, tenon_shape shape, uint64_t extra_bytes,
                          tenon_tensor_view* out_view) {
  if (tenon_status* bad = CheckShape(frame, "alloc_tensor", shape)) return bad;
  auto made = NewTensor(frame->context->step->env->pool, dtype, shape, extra_bytes);
  if (!made.ok()) return Fail(made.status());
  *out_view = *made;
  return nullptr;
}

tenon_status* GiveVariant(Result<tenon_variant*> made, tenon_variant** out_variant) {
  *out_variant = nullptr;
  if (!made.ok()) return Fail(made.status());
  *out_variant = *made;
  return nullptr;
}

// What a kernel puts into a variant: readers believe it. One without a type is an empty place; one without a buffer is
// refused where it is kept.
tenon_status* CheckElement(const tenon_frame* frame, const char* service, const tenon_tensor_view& element) {
  if (element.dtype == TENON_DT_INVALID || element.buffer == nullptr || element.dl.strides != nullptr) return nullptr;
  std::string fault = FaultOf(element);
  if (fault.empty()) fault = FaultOfCells(element);
  return fault.empty() ? nullptr : Wrong(frame, StrCat("gave ", service, " ", fault));
}

tenon_status* VariantNew(tenon_frame* frame, tenon_span type, tenon_span metadata, const tenon_tensor_view* elements,
                         uint64_t element_count, tenon_variant** out_variant) {
  for (uint64_t i = 0; elements != nullptr && i < element_count; ++i)
    if (tenon_status* bad = CheckElement(frame, "variant_new", elements[i])) return bad;
  return GiveVariant(variant::New(frame->context->step->env->pool, View(type), View(metadata), elements, element_count),
                     out_variant);
}

tenon_status* VariantDerive(tenon_frame* frame, const tenon_variant* base, tenon_span metadata, uint64_t element_count,
                            uint64_t index, const tenon_tensor_view* element, tenon_variant** out_variant) {
  if (element != nullptr)
    if (tenon_status* bad = CheckElement(frame, "variant_derive", *element)) return bad;
  const std::string_view bytes = metadata.data == nullptr ? std::string_view(base->metadata) : View(metadata);
  return GiveVariant(variant::Derive(frame->context->step->env->pool, *base, bytes, element_count, index, element),
                     out_variant);
}

void VariantInfo(const tenon_variant* variant, tenon_variant_info* out_info) { *out_info = variant::Info(*variant); }

void VariantElement(const tenon_variant* variant, uint64_t index, tenon_tensor_view* out_element) {
  *out_element = variant::Element(*variant, index);
}

// The session that the device is of keeps its plugin from being unloaded.
const void* DeviceExtension(tenon_frame* frame, tenon_span id) {
  const SessionDevice* const device = frame->context->place.device;
  return device == nullptr ? nullptr : RawExtensionOf(*device->device, View(id));
}

}  // namespace

const tenon_frame_services* FrameServices() {
  static const tenon_frame_services services = {
      TENON_HEAD(tenon_frame_services), &AllocOutput,  &SetOutput,       &RetainInput,    &ParallelFor,
      &IsCancelled,  &CancelSubscribe,  &CancelUnsubscribe, &InputResource, &ResourceObject,
      &ResourceDestroy, &VariableRead,  &VariableIsInitialized, &VariableBeginUpdate, &VariableEndUpdate,
      &TraceSpan,        &Now,            &StepResource,  &StepId,
      &AllocTensor,  &VariantNew,   &VariantDerive,    &VariantInfo,    &VariantElement, &variant::Retain,
      &variant::Release, &DeviceExtension, WorkServices(), &WorkOf};
  return &services;
}

}  // namespace tenon::exec
