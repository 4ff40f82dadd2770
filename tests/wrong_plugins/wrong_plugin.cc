// SPDX-License-Identifier: Apache-2.0
// A plugin that breaks one rule of the ABI: the environment's WRONG says which. Its op Wrong gives x again, WrongText a
// string; without WRONG, or with WRONG=nothing, it is a good one. The runner (wrong_plugins_test.py) has a case for
// each.
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "tenon/ext/draft/device_copy.h"
#include "tenon/ext/draft/filesystem.h"
#include "tenon/ext/draft/place.h"
#include "tenon/ext/draft/transport.h"
#include "tenon/plugin.h"

const tenon_host* tenon_plugin_host = nullptr;

namespace {

bool Is(std::string_view rule) {
  const char* wrong = getenv("WRONG");
  return wrong != nullptr && rule == wrong;
}
// Of rules of one kind: "throw.run" is "run" of "throw.".
bool Throws(std::string_view function) { return Is(std::string("throw.").append(function)); }
bool Crashes(std::string_view function) { return Is(std::string("crash.").append(function)); }

template <size_t N>
constexpr tenon_span Text(const char (&literal)[N]) {
  return {literal, N - 1};
}

// Not a finding of a sanitizer's, nor what a compiler knows to be undefined and leaves out, but a crash.
int* volatile g_nowhere = nullptr;
__attribute__((no_sanitize("undefined", "thread"))) void StoreToNowhere() { *g_nowhere = 1; }

// What may go wrong anywhere.
void Misbehave(std::string_view function) {
  if (Throws(function)) throw std::runtime_error("thrown on purpose");
  if (Crashes(function)) StoreToNowhere();
}

// ---- The op ----

tenon_status* SameShape(tenon_plugin_self*, const tenon_shape_services* services, tenon_shape_context* context) {
  Misbehave("shape");
  tenon_shape shape = services->input_shape(context, 0);
  if (Is("shape.null_dims")) shape = {nullptr, 2, 0};
  if (Is("shape.output_9")) return services->set_output_shape(context, 9, shape);
  if (Is("shape.value_type")) {
    const int64_t value = 1;
    tenon_tensor_view view{};
    view.dl.data = const_cast<int64_t*>(&value);
    view.dtype = TENON_DT_INT64;
    view.byte_size = sizeof value;
    return services->set_output_value(context, 0, &view);
  }
  return services->set_output_shape(context, 0, shape);
}

tenon_status* Gradient(const tenon_gradient_args* args) {
  Misbehave("gradient");
  args->dx[0] = args->dy[0];
  if (Is("gradient.node")) args->dx[0].dense = {99999, 0, 0};
  if (Is("gradient.negative_node")) args->dx[0].dense = {-7, 0, 0};
  if (Is("gradient.output")) args->dx[0].dense = {args->outputs[0].node, 5, 0};
  if (Is("gradient.kind")) args->dx[0].kind = 77;
  if (Is("gradient.slices")) args->dx[0] = {TENON_GRADIENT_SLICES, 0, args->dy[0].dense, {-1, 0, 0}, {-1, 0, 0}};
  return nullptr;
}

tenon_status* Cost(tenon_plugin_self*, const tenon_node_services*, const tenon_node*, const tenon_shape*,
                   const tenon_shape*, tenon_cost* out_cost) {
  Misbehave("cost");
  out_cost->flops = Is("cost.nan") ? std::numeric_limits<double>::quiet_NaN() : 1;
  return nullptr;
}

tenon_status* Decompose(tenon_plugin_self*, const tenon_graph_builder*, const tenon_node_services*, const tenon_node*,
                        const tenon_output* inputs, tenon_output* out_outputs) {
  Misbehave("decompose");
  if (Is("decompose.fails")) return tenon_plugin_error(TENON_FAILED_PRECONDITION, "no others");
  if (Is("decompose.node")) out_outputs[0] = {99999, 0, 0};
  if (Is("decompose.negative_node")) out_outputs[0] = {-7, 0, 0};
  if (Is("decompose.output")) out_outputs[0] = {inputs[0].node, 5, 0};
  return nullptr;
}

// Whether the op has a decomposition, and no kernel.
bool IsDecomposed() {
  const std::string_view rule = getenv("WRONG") == nullptr ? "" : getenv("WRONG");
  return rule.starts_with("decompose.") || Throws("decompose") || Crashes("decompose");
}

// ---- The kernel ----

tenon_status* Supports(const tenon_kernel_query*) {
  Misbehave("supports");
  return Is("supports.nothing") ? tenon_plugin_error(TENON_UNIMPLEMENTED, "nothing at all") : nullptr;
}
tenon_status* Create(const tenon_create_args* args, tenon_kernel** out_kernel) {
  Misbehave("create");
  *out_kernel = nullptr;
  tenon_function* function = nullptr;
  return Is("function.absent") ? args->services->function(args->context, Text("f"), 0, &function) : nullptr;
}
void Destroy(tenon_kernel*) { Misbehave("destroy"); }
tenon_status* Prepare(tenon_kernel*, tenon_prepare_args* args) {
  Misbehave("prepare");
  if (Is("prepare.workspace")) args->out_workspace_bytes = uint64_t{1} << 60;
  void* memory = nullptr;
  if (Is("prepare.scratch")) return args->services->scratch(args->context, uint64_t{1} << 60, &memory);
  static char bytes[1 << 20];
  if (Is("prepare.key")) return args->services->cache_put(args->context, {bytes, 5000}, Text("value"));
  if (Is("prepare.value")) return args->services->cache_put(args->context, Text("key"), {bytes, sizeof bytes});
  return nullptr;
}

// Work in the background, and what must not be asked of it. What it leaves behind ends with the session.
tenon_status* Background(tenon_frame* frame) {
  const tenon_work_services& services = *frame->services->work_services;
  tenon_work* work = nullptr;
  if (tenon_status* bad = services.background_begin(frame, Text("wrong work"), &work)) return bad;
  const auto drop = [](void*, tenon_status* status) {
    if (status != nullptr) tenon_plugin_host->status_release(status);
  };
  constexpr uint64_t kHour = 3600000000000u;
  if (Is("background.nothing")) return services.schedule(work, 0, 0, nullptr, nullptr, nullptr);
  if (Is("background.flags")) return services.schedule(work, 0, 64, drop, nullptr, nullptr);
  if (Is("background.events")) return services.await_descriptor(work, 0, 8, 0, drop, nullptr, nullptr);
  if (Is("background.descriptor"))
    return services.await_descriptor(work, 12345, TENON_WORK_READABLE, 0, drop, nullptr, nullptr);
  if (Is("background.left")) return services.schedule(work, kHour, TENON_WORK_MAY_WAIT, drop, nullptr, nullptr);
  tenon_tensor_view view{};
  if (Is("background.null_dims")) return services.alloc_tensor(work, TENON_DT_FLOAT, {nullptr, 2, 0}, 0, &view);
  static std::atomic<bool> came{false};
  if (Is("background.throws")) {
    const auto thrower = [](void*, tenon_status*) {
      came = true;
      throw std::runtime_error("thrown on purpose");
    };
    if (tenon_status* bad = services.schedule(work, 0, 0, thrower, nullptr, nullptr)) return bad;
    while (!came) std::this_thread::yield();
  }
  services.background_end(work);
  return nullptr;
}

int g_depth = 1;
int Overflow(const volatile char* above) {
  volatile char room[4096];
  room[0] = *above;
  return g_depth == 0 ? 0 : Overflow(room) + room[0];  // never 0, which nobody knows
}

tenon_status* Give(tenon_frame* frame, tenon_tensor_view view) { return frame->services->set_output(frame, 0, &view); }

// What set_output must not be given: a copy of the output, but for one thing.
tenon_status* SetOutput(tenon_frame* frame) {
  const int64_t four = 4;
  tenon_tensor_view own{};
  if (tenon_status* bad = frame->services->alloc_tensor(frame, Is("set_output.dtype") ? TENON_DT_INT8 : TENON_DT_FLOAT,
                                                        {&four, 1, 0}, 0, &own))
    return bad;
  int64_t negative = -4, strides = 2;
  if (Is("set_output.byte_size")) own.byte_size = 4096;
  if (Is("set_output.outside")) own.dl.byte_offset = 4096;
  if (Is("set_output.below")) own.dl.data = static_cast<char*>(own.dl.data) - 64;
  if (Is("set_output.null_dims")) own.dl.shape = nullptr;
  if (Is("set_output.negative_dim")) own.dl.shape = &negative;
  if (Is("set_output.rank")) own.dl.ndim = 300;
  if (Is("set_output.strides")) own.dl.strides = &strides;
  if (Is("set_output.no_buffer")) own.buffer = nullptr;
  return Give(frame, own);
}

tenon_status* RunText(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  const int64_t two = 2;
  if (tenon_status* bad = frame->services->alloc_output(frame, 0, {&two, 1, 0}, 8)) return bad;
  auto* cells = static_cast<tenon_string_cell*>(frame->outputs[0]->dl.data);
  memcpy(static_cast<void*>(cells + 2), "onetwo..", 8);
  cells[0] = {sizeof(tenon_string_cell) * 2, 3};
  cells[1] = {sizeof(tenon_string_cell) * 2 + 3, 3};
  if (Is("text.offset")) cells[1].offset = uint64_t{1} << 40;
  if (Is("text.size")) cells[1].size = uint64_t{1} << 40;
  if (Is("text.overflow")) cells[1] = {UINT64_MAX - 1, 3};
  return nullptr;
}

tenon_status* Run(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  const std::string_view rule = getenv("WRONG") == nullptr ? "" : getenv("WRONG");
  Misbehave("run");
  if (Is("throw.int")) throw 7;
  if (Is("throw.parallel_for"))
    frame->services->parallel_for(
        frame, 1000, 10000, [](void*, int64_t, int64_t) { throw std::runtime_error("thrown in a share"); }, nullptr);
  if (Is("crash.parallel_for"))
    frame->services->parallel_for(frame, 1000, 10000, [](void*, int64_t, int64_t) { StoreToNowhere(); }, nullptr);
  if (Is("crash.abort")) abort();
  if (Is("crash.fpe")) raise(SIGFPE);
  if (Is("crash.bus")) raise(SIGBUS);
  if (Is("crash.ill")) __builtin_trap();
  if (Is("crash.stack")) Overflow("");
  if (Is("exit.0")) exit(0);
  if (Is("exit.5")) exit(5);
  if (Is("run.late")) std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  if (Is("alloc_output.9")) return frame->services->alloc_output(frame, 9, {nullptr, 0, 0}, 0);
  if (Is("alloc_output.null_dims")) return frame->services->alloc_output(frame, 0, {nullptr, 3, 0}, 0);
  if (Is("alloc_output.extra_bytes")) return frame->services->alloc_output(frame, 0, {nullptr, 0, 0}, UINT64_MAX - 60);
  if (Is("alloc_tensor.null_dims")) {
    tenon_tensor_view view{};
    return frame->services->alloc_tensor(frame, TENON_DT_FLOAT, {nullptr, 2, 0}, 0, &view);
  }
  if (Is("retain_input.9")) {
    tenon_tensor_view view{};
    return frame->services->retain_input(frame, 9, &view);
  }
  if (Is("run.sets_nothing")) return nullptr;
  if (Is("resource_object.no_type")) {
    void* object = nullptr;
    return frame->services->resource_object(frame, nullptr, {nullptr, 0}, nullptr, nullptr, nullptr, &object);
  }
  if (rule.starts_with("background."))
    if (tenon_status* bad = Background(frame)) return bad;
  if (rule.starts_with("set_output.")) return SetOutput(frame);
  const tenon_tensor_view& x = *frame->inputs[0];
  if (tenon_status* bad = frame->services->alloc_output(frame, 0, {x.dl.shape, x.dl.ndim, 0}, 0)) return bad;
  memcpy(frame->outputs[0]->dl.data, static_cast<const char*>(x.dl.data) + x.dl.byte_offset, x.byte_size);
  return nullptr;
}

tenon_status* RunAsync(tenon_kernel*, const tenon_prepared*, tenon_frame* frame, tenon_done_function done,
                       void* argument) {
  Misbehave("run_async");
  if (Is("done.never")) return nullptr;
  if (Is("done.late")) {
    std::thread([frame, done, argument] {
      std::this_thread::sleep_for(std::chrono::milliseconds(6500));
      frame->services->is_cancelled(frame);
      static_cast<volatile const char*>(frame->inputs[0]->dl.data)[0];
      done(argument, Run(nullptr, nullptr, frame));
    }).detach();
    return nullptr;
  }
  done(argument, Run(nullptr, nullptr, frame));
  if (Is("done.twice")) done(argument, nullptr);
  return nullptr;
}

uint32_t kFloat[] = {TENON_DT_FLOAT};
tenon_type_constraint g_constraint = {Text("Nope"), kFloat, 1};
tenon_span g_host_arg = Text("nope");
tenon_in_place g_in_place = {55, 3};

tenon_kernel_registration KernelOf(tenon_span op, decltype(tenon_kernel_registration::run) run) {
  tenon_kernel_registration kernel{};
  kernel.struct_size = sizeof kernel;
  kernel.op = op;
  kernel.device_type = Text("CPU");
  kernel.dynamic_outputs = 1;
  kernel.create = &Create;
  kernel.destroy = &Destroy;
  kernel.prepare = &Prepare;
  kernel.run = run;
  return kernel;
}

const tenon_kernel_registration* Kernel() {
  static tenon_kernel_registration kernel = KernelOf(Text("Wrong"), &Run);
  const std::string_view rule = getenv("WRONG") == nullptr ? "" : getenv("WRONG");
  if (rule.starts_with("done.") || Throws("run_async") || Crashes("run_async")) {
    kernel.traits = TENON_KERNEL_ASYNC;
    kernel.run_async = &RunAsync;
  }
  if (Is("supports.nothing") || Throws("supports") || Crashes("supports")) kernel.supports = &Supports;
  if (Is("kernel.async_without_trait")) kernel.run = nullptr, kernel.run_async = &RunAsync;
  if (Is("kernel.trait_without_async")) kernel.traits = TENON_KERNEL_ASYNC;
  if (Is("kernel.no_run")) kernel.run = nullptr;
  if (Is("kernel.trait")) kernel.traits = 1u << 20;
  if (Is("kernel.must_understand")) kernel.must_understand = 4;
  if (Is("kernel.size_0")) kernel.struct_size = 0;
  if (Is("kernel.size_24")) kernel.struct_size = 24;
  if (Is("kernel.op_name")) kernel.op = Text("Wrong\nop");
  if (Is("kernel.null_op")) kernel.op = {nullptr, 5};
  if (Is("kernel.constraint")) kernel.constraints = &g_constraint, kernel.constraint_count = 1;
  if (Is("kernel.null_constraints")) kernel.constraint_count = 3;
  if (Is("kernel.host_memory_args")) kernel.host_memory_args = &g_host_arg, kernel.host_memory_count = 1;
  if (Is("kernel.in_place")) kernel.in_place = &g_in_place, kernel.in_place_count = 1;
  if (Is("kernel.in_place_negative")) g_in_place = {-3, 0}, kernel.in_place = &g_in_place, kernel.in_place_count = 1;
  if (Is("kernel.dynamic_outputs")) kernel.dynamic_outputs = 1u << 20;
  if (Is("kernel.retained_inputs")) kernel.retained_inputs = 1u << 20;
  return &kernel;
}

const tenon_kernel_package* Kernels() {
  static tenon_kernel_registration text = KernelOf(Text("WrongText"), &RunText);
  static const tenon_kernel_registration* kernels[] = {Kernel(), &text};
  static tenon_kernel_package package = {TENON_HEAD(tenon_kernel_package), kernels, 2};
  if (IsDecomposed()) kernels[0] = &text, package.count = 1;
  if (Is("kernels.null")) kernels[1] = nullptr;
  if (Is("kernels.must_understand")) package.must_understand = 1u << 20;
  if (Is("kernels.size_8")) package.struct_size = 8;
  if (Is("kernels.count")) package.count = uint64_t{1} << 50;
  return &package;
}

tenon_op_definition OpOf(tenon_span name, tenon_span outputs) {
  tenon_op_definition op{};
  op.struct_size = sizeof op;
  op.name = name;
  op.inputs = Text("x: T");
  op.outputs = outputs;
  op.attrs = Text("T: {float} = float; k: int = 1");
  return op;
}

const tenon_op_package* Ops() {
  static tenon_op_definition wrong = OpOf(Text("Wrong"), Text("y: T")),
                             text = OpOf(Text("WrongText"), Text("y: string"));
  static const tenon_op_definition* ops[] = {&wrong, &text};
  static tenon_op_package package = {TENON_HEAD(tenon_op_package), ops, 2, 0};
  wrong.shape = &SameShape;
  wrong.gradient = &Gradient;
  wrong.cost = &Cost;
  if (IsDecomposed()) wrong.decompose = &Decompose;
  if (Is("op.trait")) wrong.traits = uint64_t{1} << 55;
  if (Is("op.role")) wrong.roles = Text("conjurer");
  if (Is("op.property")) wrong.properties = Text("elementwise, magic");
  if (Is("op.property_input")) wrong.properties = Text("moves(nope)");
  if (Is("op.property_kinds")) wrong.properties = Text("view(x), reduces(x)");
  if (Is("op.property_axes")) wrong.properties = Text("reduces(x, T)");
  if (Is("op.null_properties")) wrong.properties = {nullptr, 9};
  if (Is("op.version")) wrong.version = -3;
  if (Is("op.must_understand")) wrong.must_understand = 1;
  if (Is("op.size_0")) wrong.struct_size = 0;
  if (Is("op.size_24")) wrong.struct_size = 24;
  if (Is("op.size_huge")) wrong.struct_size = 0xFFFFFFFF;
  if (Is("op.name")) wrong.name = Text("Wrong\nop");
  if (Is("op.null_name")) wrong.name = {nullptr, 9};
  if (Is("op.null_attrs")) wrong.attrs = {nullptr, 9};
  if (Is("op.huge_doc")) wrong.doc = {"doc", UINT64_MAX};
  if (Is("op.constraint_input")) wrong.constraints = Text("rank(nope) >= 1");
  if (Is("op.constraint_attr")) wrong.constraints = Text("rank(x) >= nope");
  if (Is("op.twice")) text.name = Text("Wrong");
  if (Is("op.builtin")) text.name = Text("Relu");
  if (Is("ops.null")) ops[1] = nullptr;
  if (Is("ops.must_understand")) package.must_understand = 1u << 20;
  if (Is("ops.size_8")) package.struct_size = 8;
  if (Is("ops.null_definitions")) package.definitions = nullptr;
  return &package;
}

// ---- A device ----

struct Device {
} g_device;
struct Queue {
} g_queue;
struct Semaphore {
  std::atomic<uint64_t> value{0};
  std::atomic<bool> failed{false};
};

constexpr uint64_t kFar = uint64_t{9} << 44;  // beyond what a process may have

tenon_status* Count(tenon_plugin_self*, uint32_t* out_count) {
  Misbehave("count");
  *out_count = Is("device.count") ? 4000000000u : 1;
  return nullptr;
}
tenon_status* OpenDevice(tenon_plugin_self*, uint32_t, tenon_device** out_device) {
  Misbehave("open");
  *out_device = Is("device.null") ? nullptr : reinterpret_cast<tenon_device*>(&g_device);
  return nullptr;
}
bool IsSynchronous() { return Is("device.far_memory") || Is("device.not_host_visible"); }
tenon_status* Properties(tenon_device*, tenon_device_properties* out) {
  Misbehave("properties");
  out->name = Text("wrong");
  out->synchronous = IsSynchronous() || Is("device.no_queues") ? 1 : 0;
  if (Is("device.no_queues")) out->synchronous = 0;
  out->memory_kind_count = Is("device.memory_kinds") ? 1000000000u : 1;
  out->flops = Is("device.nan") ? std::numeric_limits<double>::quiet_NaN() : 1e15;
  out->bytes_per_second = Is("device.infinite") ? std::numeric_limits<double>::infinity() : 1e12;
  out->copy_seconds = Is("device.negative") ? -1 : 0;
  if (Is("device.null_name")) out->name = {nullptr, 100};
  return nullptr;
}
tenon_status* MemoryKind(tenon_device*, uint32_t, tenon_memory_kind* out) {
  Misbehave("memory_kind");
  out->name = Text("memory");
  out->alignment = 64;
  out->flags = Is("device.not_host_visible") ? 0 : TENON_MEMORY_HOST_VISIBLE;
  return nullptr;
}
tenon_status* Allocate(tenon_device*, uint32_t, uint64_t bytes, uint64_t, tenon_queue*, void** out_data) {
  Misbehave("allocate");
  void* data = nullptr;
  if (!Is("device.null_memory")) data = aligned_alloc(64, (bytes + 128) / 64 * 64);
  if (Is("device.far_memory")) free(data), data = reinterpret_cast<void*>(kFar);
  if (Is("device.misaligned")) data = static_cast<char*>(data) + 4;
  *out_data = data;
  return nullptr;
}
void Free(tenon_device*, uint32_t, void* data, uint64_t, tenon_queue*) {
  if (!Is("device.far_memory") && !Is("device.misaligned")) free(data);
}
tenon_status* QueueCreate(tenon_device*, int32_t, tenon_queue** out_queue) {
  Misbehave("queue_create");
  *out_queue = Is("device.null_queue") ? nullptr : reinterpret_cast<tenon_queue*>(&g_queue);
  return nullptr;
}
void QueueDestroy(tenon_queue*) {
  Misbehave("queue_destroy");
  while (Is("device.hung_destroy")) sleep(1);
}
bool IsHung() { return Is("device.hung"); }
tenon_status* Submit(tenon_queue*, const tenon_submission* submission) {
  if (submission->signal != 0 && !IsHung())
    reinterpret_cast<Semaphore*>(submission->timeline)->value = submission->signal;
  return nullptr;
}
tenon_status* QueueCopy(tenon_queue* queue, const tenon_copy_args* args, const tenon_submission* submission) {
  Misbehave("queue_copy");
  if (!IsHung()) memcpy(args->target, args->source, args->bytes);
  return Submit(queue, submission);
}
tenon_status* QueueBarrier(tenon_queue* queue, const tenon_submission* submission) {
  Misbehave("queue_barrier");
  return Submit(queue, submission);
}
tenon_status* QueueHostCall(tenon_queue* queue, tenon_notify_function function, void* argument,
                            const tenon_submission* submission) {
  if (!IsHung()) function(argument, nullptr);
  return Submit(queue, submission);
}
tenon_status* SemaphoreCreate(tenon_device*, uint64_t, tenon_semaphore** out_semaphore) {
  Misbehave("semaphore_create");
  *out_semaphore = Is("device.null_semaphore") ? nullptr : reinterpret_cast<tenon_semaphore*>(new Semaphore);
  return nullptr;
}
void SemaphoreDestroy(tenon_semaphore* semaphore) { delete reinterpret_cast<Semaphore*>(semaphore); }
tenon_status* SemaphoreQuery(tenon_semaphore* semaphore, uint64_t* out_value) {
  *out_value = reinterpret_cast<Semaphore*>(semaphore)->value;
  return nullptr;
}
void SemaphoreFail(tenon_semaphore* semaphore, tenon_status* status) {
  if (!IsHung()) reinterpret_cast<Semaphore*>(semaphore)->failed = true;
  tenon_plugin_host->status_release(status);
}
tenon_status* SemaphoreWait(tenon_semaphore* semaphore, uint64_t value, uint64_t deadline_ns) {
  Misbehave("semaphore_wait");
  const auto* at = reinterpret_cast<Semaphore*>(semaphore);
  timespec now{};
  for (;;) {
    if (at->value >= value) return nullptr;
    if (at->failed) return tenon_plugin_error(TENON_CANCELLED, "the timeline failed");
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec) >= deadline_ns)
      return tenon_plugin_error(TENON_DEADLINE_EXCEEDED, "the point is not reached");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

const tenon_device_driver* Driver() {
  static tenon_device_driver driver{};
  driver.struct_size = sizeof driver;
  driver.device_type = Text("WRONG");
  driver.priority = 1;
  driver.count = &Count;
  driver.open = &OpenDevice;
  driver.properties = &Properties;
  driver.memory_kind = &MemoryKind;
  driver.allocate = &Allocate;
  driver.free = &Free;
  driver.queue_create = &QueueCreate;
  driver.queue_destroy = &QueueDestroy;
  driver.queue_copy = &QueueCopy;
  driver.queue_barrier = &QueueBarrier;
  driver.queue_host_call = &QueueHostCall;
  driver.semaphore_create = &SemaphoreCreate;
  driver.semaphore_destroy = &SemaphoreDestroy;
  driver.semaphore_query = &SemaphoreQuery;
  driver.semaphore_fail = &SemaphoreFail;
  driver.semaphore_wait = &SemaphoreWait;
  if (Is("driver.size_0")) driver.struct_size = 0;
  if (Is("driver.short")) driver.struct_size = offsetof(tenon_device_driver, queue_destroy);
  if (Is("driver.no_count")) driver.count = nullptr;
  if (Is("driver.no_wait")) driver.semaphore_wait = nullptr;
  if (Is("driver.no_type")) driver.device_type = {nullptr, 0};
  if (Is("driver.reserved")) driver.reserved = 1;
  if (Is("driver.must_understand")) driver.must_understand = 2;
  if (Is("device.no_queues")) {
    driver.queue_create = nullptr;
    driver.semaphore_create = nullptr;
  }
  return &driver;
}

// The kernel on the device: it does nothing but say so.
tenon_status* RunQueued(tenon_kernel*, const tenon_prepared*, tenon_frame*) {
  Misbehave("run");
  return nullptr;
}

// ---- Copies between devices ----

tenon_status* Reaches(tenon_plugin_self*, const tenon_device_pair*, uint32_t* out_reaches) {
  *out_reaches = 0;
  return nullptr;
}
tenon_status* CopyBetween(tenon_plugin_self*, tenon_queue*, const tenon_copy_args*, const tenon_submission*) {
  return nullptr;
}

const tenon_device_copy* Copies() {
  static tenon_device_copy copies = {
      TENON_HEAD(tenon_device_copy), Text("WRONG"), Text("OTHER"), 1e-6, 1e10, &Reaches, &CopyBetween};
  if (Is("copies.nan")) copies.seconds = std::numeric_limits<double>::quiet_NaN();
  if (Is("copies.negative")) copies.seconds = -1;
  if (Is("copies.infinite")) copies.bytes_per_second = std::numeric_limits<double>::infinity();
  if (Is("copies.no_copy")) copies.copy = nullptr;
  return &copies;
}

// ---- The plugin ----

tenon_option_declaration g_option = {Text("size"), Text("3"), Text("How large."), TENON_OPTION_INT, 0};

tenon_status* Load(const tenon_load_args* args, tenon_plugin_self** out_self) {
  tenon_plugin_host = args->host;
  *out_self = nullptr;
  Misbehave("load");
  if (Is("exit.load")) exit(0);
  if (Is("load.fails")) return tenon_plugin_error(TENON_FAILED_PRECONDITION, "no licence");
  for (uint64_t i = 0; i < args->option_count; ++i)
    if (std::string_view(args->options[i].value.data, args->options[i].value.size) == "0")
      return tenon_plugin_error(TENON_INVALID_ARGUMENT, "option 'size' is 0; it must be at least 1");
  return nullptr;
}
void Unload(tenon_plugin_self*) { Misbehave("unload"); }

bool BringsDevice() {
  const std::string_view rule = getenv("WRONG") == nullptr ? "" : getenv("WRONG");
  for (std::string_view of_devices : {"device.", "driver.", "cost."})
    if (rule.starts_with(of_devices)) return true;
  for (std::string_view function :
       {"cost", "count", "open", "properties", "memory_kind", "allocate", "queue_create", "queue_destroy", "queue_copy",
        "queue_barrier", "semaphore_create", "semaphore_wait"})
    if (Throws(function) || Crashes(function)) return true;
  return false;
}

const tenon_plugin* Describe() {
  static tenon_plugin plugin{};
  static tenon_capability capabilities[6] = {};
  uint64_t count = 0;
  capabilities[count++] = TENON_PROVIDES(OPS, Ops());
  capabilities[count++] = TENON_PROVIDES(KERNELS, Kernels());
  if (BringsDevice()) {
    static tenon_kernel_registration on_device = KernelOf(Text("Wrong"), &RunQueued);
    static const tenon_kernel_registration* kernels[] = {&on_device};
    static tenon_kernel_package package = {TENON_HEAD(tenon_kernel_package), kernels, 1};
    on_device.device_type = Text("WRONG");
    on_device.dynamic_outputs = 0;
    capabilities[count++] = TENON_PROVIDES(KERNELS, &package);
    capabilities[count++] = TENON_PROVIDES(DEVICE, Driver());
  }
  if (getenv("WRONG") != nullptr && std::string_view(getenv("WRONG")).starts_with("copies."))
    capabilities[count++] = TENON_PROVIDES(DEVICE_COPY, Copies());
  if (Is("transport.short")) {
    static tenon_transport transport{};
    transport.struct_size = 40;
    transport.scheme = Text("wrong");
    capabilities[count++] = TENON_PROVIDES(TRANSPORT, &transport);
  }
  if (Is("filesystem.empty")) {
    static tenon_filesystem filesystem{};
    filesystem.struct_size = sizeof filesystem;
    filesystem.scheme = Text("wrong");
    capabilities[count++] = TENON_PROVIDES(FILESYSTEM, &filesystem);
  }
  if (Is("placer.empty")) {
    static tenon_placer placer{};
    placer.struct_size = sizeof placer;
    capabilities[count++] = TENON_PROVIDES(PLACER, &placer);
  }
  plugin.struct_size = sizeof plugin;
  plugin.abi_major = TENON_ABI_MAJOR;
  plugin.abi_minor = TENON_ABI_MINOR;
  plugin.layout_hash = TENON_LAYOUT_HASH;
  plugin.id = Text("test.wrong");
  plugin.version = Text("1.2.3");
  plugin.options = &g_option;
  plugin.option_count = 1;
  plugin.load = &Load;
  plugin.unload = &Unload;
  plugin.capabilities = capabilities;
  plugin.capability_count = count;
  if (Is("plugin.id")) plugin.id = Text("test wrong\n");
  if (Is("plugin.null_id")) plugin.id = {nullptr, 7};
  if (Is("option.type")) g_option.type = 77;
  if (Is("option.reserved")) g_option.reserved = 1;
  if (Is("option.key")) g_option.key = Text("si ze");
  if (Is("option.default")) g_option.default_value = Text("three");
  return &plugin;
}

struct Constructor {
  Constructor() { Misbehave("constructor"); }
} g_constructor;

}  // namespace

extern "C" TENON_EXPORT const tenon_plugin* tenon_plugin_query(tenon_query_args*) {
  Misbehave("query");
  if (Is("exit.query")) exit(0);
  return Describe();
}
