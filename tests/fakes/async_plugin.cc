// SPDX-License-Identifier: Apache-2.0
// Ops whose kernels finish when a test says so (async_control.h), and kernels that meet.
//
// TestHold: y = x + 1, finished by the test, or by the step's cancellation. TestGrow: the same value x times, in memory
// that the kernel allocates at its end. TestNow finishes before its submission returns; TestRefuse is refused there.
// TestMeet and TestMeetBlocking (an expensive and a blocking kernel): 1 when `parties` of them ran at once, 0 when they
// did not within a minute. TestLong: 1 when another ran at the same time, 0 when none came in a tenth of a second; it
// says nothing of itself.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "async_control.h"
#include "tenon/plugin.h"

namespace {

constexpr std::chrono::minutes kLong(1);

float Input(const tenon_frame* frame) {
  const tenon_tensor_view& view = *frame->inputs[0];
  return *reinterpret_cast<const float*>(static_cast<const char*>(view.dl.data) + view.dl.byte_offset);
}
float* Output(const tenon_frame* frame) { return static_cast<float*>(frame->outputs[0]->dl.data); }

// ---- Kernels that the test finishes ----

struct Call {
  tenon_frame* frame;
  tenon_done_function done;
  void* argument;
  tenon_status* (*finish)(tenon_frame* frame);
  uint64_t token = 0;
};

struct Calls {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::unique_ptr<Call>> pending;
  uint64_t submitted = 0;

  // Who takes a call out finishes it.
  std::unique_ptr<Call> Take(const Call* wanted) {
    std::lock_guard lock(mutex);
    const auto it =
        std::find_if(pending.begin(), pending.end(), [wanted](const auto& call) { return call.get() == wanted; });
    if (it == pending.end()) return nullptr;
    std::unique_ptr<Call> call = std::move(*it);
    pending.erase(it);
    return call;
  }
};
Calls& TheCalls() {
  static Calls* const calls = new Calls;
  return *calls;
}

void Cancelled(void* argument, tenon_status* status) {
  const std::unique_ptr<Call> call = TheCalls().Take(static_cast<const Call*>(argument));
  if (call == nullptr) return tenon_plugin_host->status_release(status);  // the test finishes it just now
  call->done(call->argument, status);
}

tenon_status* Hold(tenon_frame* frame, tenon_done_function done, void* argument,
                   tenon_status* (*finish)(tenon_frame*)) {
  Calls& calls = TheCalls();
  std::lock_guard lock(calls.mutex);
  auto call = std::make_unique<Call>(Call{frame, done, argument, finish});
  call->token = frame->services->cancel_subscribe(frame, &Cancelled, call.get());
  if (call->token == 0) return tenon_plugin_error(TENON_CANCELLED, "cancelled before it began");
  calls.pending.push_back(std::move(call));
  ++calls.submitted;
  calls.changed.notify_all();
  return nullptr;
}

tenon_status* RunHold(tenon_kernel*, const tenon_prepared*, tenon_frame* frame, tenon_done_function done,
                      void* argument) {
  return Hold(frame, done, argument, [](tenon_frame* f) -> tenon_status* {
    *Output(f) = Input(f) + 1;
    return nullptr;
  });
}

tenon_status* RunGrow(tenon_kernel*, const tenon_prepared*, tenon_frame* frame, tenon_done_function done,
                      void* argument) {
  return Hold(frame, done, argument, [](tenon_frame* f) -> tenon_status* {
    const float x = Input(f);
    const auto count = static_cast<int64_t>(x);
    if (tenon_status* status = f->services->alloc_output(f, 0, {&count, 1, 0}, 0)) return status;
    std::fill(Output(f), Output(f) + count, x);
    return nullptr;
  });
}

tenon_status* RunNow(tenon_kernel*, const tenon_prepared*, tenon_frame* frame, tenon_done_function done,
                     void* argument) {
  *Output(frame) = Input(frame) + 1;
  done(argument, nullptr);
  return nullptr;
}

tenon_status* RunRefuse(tenon_kernel*, const tenon_prepared*, tenon_frame*, tenon_done_function, void*) {
  return tenon_plugin_error(TENON_UNAVAILABLE, "not today");
}

const tenon_test_async kControl = {
    []() -> uint64_t {
      std::lock_guard lock(TheCalls().mutex);
      return TheCalls().pending.size();
    },
    []() -> uint64_t {
      std::lock_guard lock(TheCalls().mutex);
      return TheCalls().submitted;
    },
    [](uint64_t count) -> uint64_t {
      Calls& calls = TheCalls();
      std::unique_lock lock(calls.mutex);
      calls.changed.wait_for(lock, kLong, [&] { return calls.pending.size() >= count; });
      return calls.pending.size();
    },
    [](uint64_t i) -> float {
      std::lock_guard lock(TheCalls().mutex);
      return i < TheCalls().pending.size() ? Input(TheCalls().pending[i]->frame) : -1.0f;
    },
    [](uint64_t i, uint32_t code, const char* text) -> uint32_t {
      const Call* wanted = nullptr;
      {
        std::lock_guard lock(TheCalls().mutex);
        if (i < TheCalls().pending.size()) wanted = TheCalls().pending[i].get();
      }
      const std::unique_ptr<Call> call = TheCalls().Take(wanted);
      if (call == nullptr) return 0;
      // The callback points at the call: it must not run any more.
      call->frame->services->cancel_unsubscribe(call->frame, call->token);
      call->done(call->argument, code == 0 ? call->finish(call->frame) : tenon_plugin_error(code, text));
      return 1;
    }};

// ---- Kernels that meet ----

struct Meeting {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<uint64_t, uint64_t> arrived;  // by the number of parties
};
Meeting& TheMeeting() {
  static Meeting* const meeting = new Meeting;
  return *meeting;
}

// Rounds of `parties`: whoever comes belongs to the round that is open. A party that did not come leaves its round
// open.
tenon_status* RunMeet(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  Meeting& meeting = TheMeeting();
  const auto parties = static_cast<uint64_t>(Input(frame));
  std::unique_lock lock(meeting.mutex);
  uint64_t& arrived = meeting.arrived[parties];
  const uint64_t all = (arrived / parties + 1) * parties;
  ++arrived;
  meeting.changed.notify_all();
  const bool met = meeting.changed.wait_for(lock, kLong, [&] { return arrived >= all; });
  *Output(frame) = met ? 1.0f : 0.0f;
  return nullptr;
}

tenon_status* RunLong(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  static std::mutex mutex;
  static std::condition_variable changed;
  static int inside = 0;
  static uint64_t meetings = 0;
  std::unique_lock lock(mutex);
  const uint64_t before = meetings;
  if (++inside == 2) ++meetings;
  changed.notify_all();
  *Output(frame) =
      changed.wait_for(lock, std::chrono::milliseconds(100), [&] { return meetings != before; }) ? 1.0f : 0.0f;
  --inside;
  return nullptr;
}

// ---- The package ----

tenon_status* SameShape(tenon_plugin_self*, const tenon_shape_services* services, tenon_shape_context* context) {
  return services->set_output_shape(context, 0, services->input_shape(context, 0));
}

tenon_op_definition Op(tenon_span name, tenon_span inputs, tenon_shape_function shape) {
  tenon_op_definition op = {};
  op.struct_size = sizeof(op);
  op.name = name;
  op.inputs = inputs;
  op.outputs = TENON_SPAN("y: float");
  op.doc = TENON_SPAN("For tests.");
  op.traits = TENON_OP_STATEFUL;  // neither merged nor folded
  op.shape = shape;
  return op;
}
const tenon_op_definition kHold = Op(TENON_SPAN("TestHold"), TENON_SPAN("x: float"), SameShape);
const tenon_op_definition kGrow = Op(TENON_SPAN("TestGrow"), TENON_SPAN("x: float"), nullptr);
const tenon_op_definition kNow = Op(TENON_SPAN("TestNow"), TENON_SPAN("x: float"), SameShape);
const tenon_op_definition kRefuse = Op(TENON_SPAN("TestRefuse"), TENON_SPAN("x: float"), SameShape);
const tenon_op_definition kMeet = Op(TENON_SPAN("TestMeet"), TENON_SPAN("parties: float"), SameShape);
const tenon_op_definition kMeetBlocking = Op(TENON_SPAN("TestMeetBlocking"), TENON_SPAN("parties: float"), SameShape);
const tenon_op_definition kLongOp = [] {
  tenon_op_definition op = Op(TENON_SPAN("TestLong"), TENON_SPAN("x: float"), SameShape);
  op.traits = TENON_OP_NO_FOLD;
  return op;
}();
const tenon_op_definition* const kOps[] = {&kHold, &kGrow, &kNow, &kRefuse, &kMeet, &kMeetBlocking, &kLongOp};
const tenon_op_package kOpPackage = {TENON_HEAD(tenon_op_package), kOps, TENON_PLUGIN_COUNT(kOps), 0};

using RunAsync = tenon_status* (*)(tenon_kernel*, const tenon_prepared*, tenon_frame*, tenon_done_function, void*);
tenon_kernel_registration Async(tenon_span op, RunAsync run, uint64_t dynamic_outputs = 0) {
  tenon_kernel_registration kernel = {};
  kernel.struct_size = sizeof(kernel);
  kernel.op = op;
  kernel.traits = TENON_KERNEL_ASYNC;
  kernel.dynamic_outputs = dynamic_outputs;
  kernel.run_async = run;
  return kernel;
}
tenon_kernel_registration Meet(tenon_span op, uint32_t traits) {
  tenon_kernel_registration kernel = {};
  kernel.struct_size = sizeof(kernel);
  kernel.op = op;
  kernel.traits = traits;
  kernel.run = RunMeet;
  return kernel;
}
const tenon_kernel_registration kHoldKernel = Async(TENON_SPAN("TestHold"), RunHold);
const tenon_kernel_registration kGrowKernel = Async(TENON_SPAN("TestGrow"), RunGrow, TENON_DYNAMIC_ALL);
const tenon_kernel_registration kNowKernel = Async(TENON_SPAN("TestNow"), RunNow);
const tenon_kernel_registration kRefuseKernel = Async(TENON_SPAN("TestRefuse"), RunRefuse);
const tenon_kernel_registration kMeetKernel = Meet(TENON_SPAN("TestMeet"), TENON_KERNEL_EXPENSIVE);
const tenon_kernel_registration kMeetBlockingKernel = Meet(TENON_SPAN("TestMeetBlocking"), TENON_KERNEL_BLOCKING);
const tenon_kernel_registration kLongKernel = [] {
  tenon_kernel_registration kernel = Meet(TENON_SPAN("TestLong"), 0);
  kernel.run = RunLong;
  return kernel;
}();
const tenon_kernel_registration* const kKernels[] = {&kHoldKernel,   &kGrowKernel, &kNowKernel, &kRefuseKernel,
                                                     &kMeetKernel, &kMeetBlockingKernel, &kLongKernel};
const tenon_kernel_package kKernelPackage = {TENON_HEAD(tenon_kernel_package), kKernels, TENON_PLUGIN_COUNT(kKernels)};

const tenon_capability kCapabilities[] = {TENON_PROVIDES(OPS, &kOpPackage),
                                          TENON_PROVIDES(KERNELS, &kKernelPackage),
                                          {TENON_SPAN(TENON_TEST_ASYNC), &kControl, 0}};

}  // namespace

TENON_PLUGIN("tenon.test.async", "0.1.0", "Kernels that finish when a test says so.", kCapabilities)
