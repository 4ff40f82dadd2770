// SPDX-License-Identifier: Apache-2.0
// The services of works and functions, as kernels get them. Each checks what it is given: a wrong argument is a status,
// never a crash.
#include "core/exec/kernel/work_services.h"

#include <exception>
#include <mutex>
#include <string>
#include <utility>

#include "core/exec/device/environment.h"
#include "core/exec/device/step.h"
#include "core/exec/kernel/frame.h"
#include "core/tensor/variant.h"
#include "core/tensor/view_check.h"

namespace tenon::exec {
namespace {

template <typename Function>
tenon_status* Answer(Function&& function) noexcept {
  return Guarded(std::forward<Function>(function)).release();
}

tenon_status* Schedule(tenon_work* work, uint64_t after_ns, uint32_t flags, tenon_done_function function,
                       void* argument, uint64_t* out_token) {
  return Answer([&] { return work->Schedule(after_ns, flags, function, argument, out_token); });
}

tenon_status* AwaitDescriptor(tenon_work* work, int32_t descriptor, uint32_t events, uint64_t timeout_ns,
                              tenon_done_function function, void* argument, uint64_t* out_token) {
  return Answer([&] { return work->Await(descriptor, events, timeout_ns, function, argument, out_token); });
}

uint32_t Forget(tenon_work* work, uint64_t token) { return work->Forget(token) ? 1 : 0; }
uint32_t IsWorkCancelled(tenon_work* work) { return work->cancelled() ? 1 : 0; }

tenon_status* AllocWorkTensor(tenon_work* work, uint32_t dtype, tenon_shape shape, uint64_t extra_bytes,
                              tenon_tensor_view* out_view) {
  return Answer([&]() -> Status {
    if (shape.rank < 0 || shape.rank > TENON_MAX_RANK || (shape.rank > 0 && shape.dims == nullptr))
      return Internal(StrCat(DescribePlugin(work->plugin()), " called alloc_tensor with rank ", shape.rank,
                             shape.dims == nullptr ? " and dims NULL" : ""));
    const SessionWorks::Entered entered(&work->session());
    if (!entered) return entered.why();
    TENON_ASSIGN_OR_RETURN(*out_view, NewTensor(work->session().pool(), dtype, shape, extra_bytes));
    return Status::Ok();
  });
}

tenon_status* Call(tenon_work* work, tenon_function* function, const tenon_tensor_view* const* arguments,
                   uint64_t argument_count, tenon_tensor_view* out_results, uint64_t result_count) {
  return Answer([&] { return work->Call(function, {arguments, argument_count}, {}, {out_results, result_count}); });
}

tenon_status* CallInto(tenon_work* work, tenon_function* function, const tenon_tensor_view* const* arguments,
                       uint64_t argument_count, const tenon_tensor_view* const* places, tenon_tensor_view* out_results,
                       uint64_t result_count) {
  return Answer([&]() -> Status {
    for (uint64_t i = 0; places != nullptr && i < result_count; ++i) {
      if (const std::string fault = places[i] == nullptr ? "" : FaultOfPlace(*places[i]); !fault.empty())
        return Internal(
            StrCat(DescribePlugin(work->plugin()), " called call_into with a place for result ", i, " ", fault));
    }
    return work->Call(function, {arguments, argument_count}, {places, places == nullptr ? 0 : result_count},
                      {out_results, result_count});
  });
}

void FunctionSignatureOf(const tenon_function* function, tenon_function_signature* out_info) {
  *out_info = {{function->name.data(), function->name.size()},
               function->argument_types.data(),
               function->result_types.data(),
               function->argument_types.size(),
               function->result_types.size()};
}

void FunctionRetain(tenon_function* function) { function->references.fetch_add(1, std::memory_order_relaxed); }

// A function has kernels, and those have functions: what goes with one goes after it, however long the row is.
thread_local tenon_function* functions_to_go = nullptr;
thread_local bool a_function_goes = false;

void FunctionRelease(tenon_function* function) {
  if (function == nullptr || function->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  function->next = std::exchange(functions_to_go, function);
  if (std::exchange(a_function_goes, true)) return;
  while (functions_to_go != nullptr) {
    tenon_function* const next = functions_to_go;
    functions_to_go = next->next;
    delete next;
  }
  a_function_goes = false;
}

tenon_status* BackgroundBegin(tenon_frame* frame, tenon_span name, tenon_work** out_work) {
  return Answer([&]() -> Status {
    const tenon_frame_context& context = *frame->context;
    const Environment& env = *context.step->env;
    if (env.works == nullptr) return Unimplemented("no work in the background here");
    static const std::string kEngine;
    const std::shared_ptr<tenon_work> work =
        tenon_work::Make(env.works, context.plugin == nullptr ? kEngine : *context.plugin,
                         name.size == 0 ? context.node->name : std::string(View(name)), nullptr);
    work->Keep();
    *out_work = work.get();
    return Status::Ok();
  });
}

void BackgroundEnd(tenon_work* work) {
  if (work != nullptr) work->EndBackground();
}

tenon_status* VariantHold(tenon_span type, tenon_span metadata, void* object, void (*destroy)(void* object),
                          tenon_variant** out_variant) {
  return Answer([&]() -> Status {
    TENON_ASSIGN_OR_RETURN(*out_variant, variant::Hold(View(type), View(metadata), object, destroy));
    return Status::Ok();
  });
}

void* VariantHeld(const tenon_variant* variant, tenon_span type) {
  return variant == nullptr ? nullptr : variant::Held(*variant, View(type));
}

}  // namespace

const tenon_work_services* WorkServices() {
  static const tenon_work_services services = {TENON_HEAD(tenon_work_services),
                                               &Schedule,
                                               &AwaitDescriptor,
                                               &Forget,
                                               &IsWorkCancelled,
                                               &AllocWorkTensor,
                                               &Call,
                                               &FunctionSignatureOf,
                                               &FunctionRetain,
                                               &FunctionRelease,
                                               &BackgroundBegin,
                                               &BackgroundEnd,
                                               &VariantHold,
                                               &VariantHeld,
                                               &variant::Retain,
                                               &CallInto};
  return &services;
}

tenon_work* WorkOf(tenon_frame* frame) {
  tenon_frame_context* const context = frame->context;
  const Environment& env = *context->step->env;
  std::lock_guard lock(context->step->mutex);  // any thread of the kernel's may be the first
  if (context->work != nullptr || env.works == nullptr) return context->work;
  // Who has no state, no functions and does not come back later is not looked after when it has run.
  const bool may = std::string_view(context->function) == "run_async" || TouchesState(*context->node) ||
                   HasFunctions(*context->node);
  if (may) {
    static const std::string kEngine;
    const Status made = Guarded([&] {
      const auto made = tenon_work::Make(env.works, context->plugin == nullptr ? kEngine : *context->plugin,
                                         context->node->name, context->step->cancellation);
      made->Keep();
      context->work = made.get();
    });
    if (!made.ok()) LogFailure(made);
  }
  return context->work;
}

}  // namespace tenon::exec
