// SPDX-License-Identifier: Apache-2.0
// What a kernel does later, or elsewhere, without a thread of its own; and functions of the graph that it calls.
//
//   struct Fetch {                                             // an asynchronous kernel that waits for a socket
//     void RunAsync(RunContext c, Done done) const {
//       Work work(c);
//       work.Await(socket, TENON_WORK_READABLE, timeout_ns, [=](Outcome outcome) { ...; done(nullptr); });
//     }
//   };
//   struct Map {                                               // a kernel with an attribute "f: func"
//     explicit Map(CreateContext& c) : f(c, "f") {}
//     void Run(RunContext c) const { std::vector<KeptTensor> y = f.Call(Work(c), {&x}); ... }
//     Function f;
//   };
//
// What is to come back comes exactly once, on a thread of the host's, unless Forget() says that it will not. It must
// not throw. tenon/kernel.h has the rules and bounds. Any thread, unless it says otherwise. tenon/testing/works.h calls
// it in a test, and says when.
#ifndef TENON_SDK_KERNEL_WORK_H_
#define TENON_SDK_KERNEL_WORK_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/sdk/kernel/kept_tensor.h"
#include "tenon/sdk/kernel/kernel.h"
#include "tenon/sdk/outcome.h"

namespace tenon::sdk {

// A step's work, or one in the background; borrowed, cheap to copy. Failures are thrown, as in kernel.h: outside of a
// kernel's functions they are the caller's to catch.
class Work {
 public:
  // Of a frame's step: until the kernel has run, or has called done. UNIMPLEMENTED in a host that has none.
  explicit Work(const RunContext& c) : services_(ServicesOf(c.services())), work_(c.services().work(c.frame())) {
    if (work_ == nullptr)
      Fail(TENON_UNIMPLEMENTED,
           "the host has no work for this kernel: it must be asynchronous, or its node have state or functions");
  }
  Work(const tenon_work_services* services, tenon_work* work) noexcept : services_(services), work_(work) {}

  // Calls function(Outcome) when `after_ns` nanoseconds are over: ok, or CANCELLED when the step, the session or the
  // work ended. flags: TENON_WORK_MAY_WAIT or 0. The number for Forget().
  template <class Function>
  uint64_t Schedule(uint64_t after_ns, Function function, uint32_t flags = 0) const {
    return Take(std::move(function), [&](tenon_done_function call, void* argument, uint64_t* token) {
      return services_->schedule(work_, after_ns, flags, call, argument, token);
    });
  }
  // The same when the descriptor is ready; DEADLINE_EXCEEDED after timeout_ns (0: never).
  template <class Function>
  uint64_t Await(int32_t descriptor, uint32_t events, uint64_t timeout_ns, Function function) const {
    return Take(std::move(function), [&](tenon_done_function call, void* argument, uint64_t* token) {
      return services_->await_descriptor(work_, descriptor, events, timeout_ns, call, argument, token);
    });
  }
  bool cancelled() const noexcept { return services_->is_cancelled(work_) != 0; }
  // Charged to the session; uninitialised.
  KeptTensor NewTensor(uint32_t dtype, Dims dims, uint64_t extra_bytes = 0) const {
    tenon_tensor_view view{};
    Check(services_->alloc_tensor(work_, dtype, ToShape(dims), extra_bytes, &view));
    return KeptTensor(view);
  }

  const tenon_work_services& services() const noexcept { return *services_; }
  tenon_work* get() const noexcept { return work_; }

  static const tenon_work_services* ServicesOf(const tenon_frame_services& services) {
    if (!TENON_HAS(&services, work) || services.work_services == nullptr)
      Fail(TENON_UNIMPLEMENTED, "this host has no work for kernels");
    return services.work_services;
  }

 private:
  template <class Function, class Ask>
  uint64_t Take(Function function, Ask ask) const {
    auto held = std::make_unique<Function>(std::move(function));
    uint64_t token = 0;
    Check(ask(
        [](void* argument, tenon_status* status) noexcept {
          const std::unique_ptr<Function> function(static_cast<Function*>(argument));
          (*function)(TakeStatus(status));
        },
        held.get(), &token));
    (void)held.release();
    return token;
  }

  const tenon_work_services* services_;
  tenon_work* work_;
};

// Work that lives between steps, in a resource's object; ends with it or with the session. When it goes it waits for
// what it has under way, except for what calls on the very thread.
class Background {
 public:
  Background(const RunContext& c, std::string_view name) : services_(Work::ServicesOf(c.services())) {
    Check(services_->background_begin(c.frame(), ToSpan(name), &work_));
  }
  ~Background() { services_->background_end(work_); }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;
  Work work() const noexcept { return {services_, work_}; }

 private:
  const tenon_work_services* services_;
  tenon_work* work_ = nullptr;
};

// A function that an attribute of the node names. Copies share it.
class Function {
 public:
  Function() = default;
  // In create(): a failure sticks in the context. index: of a list of functions.
  Function(CreateContext& c, std::string_view attr, uint64_t index = 0) {
    const tenon_create_services& services = *c.args().services;
    if (!TENON_HAS(&services, work_services) || !TENON_CALLABLE(&services, function))
      c.Fail(TENON_UNIMPLEMENTED, "this host calls no functions for kernels");
    if (!c.ok()) return;
    services_ = services.work_services;
    c.Check(services.function(c.args().context, ToSpan(attr), index, &function_));
  }
  Function(const Function& other) noexcept : services_(other.services_), function_(other.function_) {
    if (function_ != nullptr) services_->function_retain(function_);
  }
  Function(Function&& other) noexcept
      : services_(other.services_), function_(std::exchange(other.function_, nullptr)) {}
  Function& operator=(Function other) noexcept {
    std::swap(services_, other.services_);
    std::swap(function_, other.function_);
    return *this;
  }
  ~Function() {
    if (function_ != nullptr) services_->function_release(function_);
  }

  // The types that it takes and gives; the spans live as long as this.
  std::span<const uint32_t> argument_dtypes() const { return {Info().argument_dtypes, Info().argument_count}; }
  std::span<const uint32_t> result_dtypes() const { return {Info().result_dtypes, Info().result_count}; }

  // Runs it on this thread, as a step of its session. Arguments lie in host memory and are borrowed.
  std::vector<KeptTensor> Call(const Work& work, std::span<const tenon_tensor_view* const> arguments) const {
    std::vector<tenon_tensor_view> views(Info().result_count);
    Check(services_->call(work.get(), function_, arguments.data(), arguments.size(), views.data(), views.size()));
    return KeepAll(views);
  }
  // places: for each result nullptr, or 64-byte aligned memory for it, which is used if it is of that dtype and shape:
  // then the tensor is a view of that, in no buffer. The memory stays as long as the tensor.
  std::vector<KeptTensor> CallInto(const Work& work, std::span<const tenon_tensor_view* const> arguments,
                                   std::span<const tenon_tensor_view* const> places) const {
    if (!TENON_CALLABLE(services_, call_into) || places.size() != Info().result_count) return Call(work, arguments);
    std::vector<tenon_tensor_view> views(places.size());
    Check(services_->call_into(work.get(), function_, arguments.data(), arguments.size(), places.data(), views.data(),
                               views.size()));
    return KeepAll(views);
  }
  std::vector<KeptTensor> Call(const Work& work, std::initializer_list<const tenon_tensor_view*> arguments) const {
    return Call(work, std::span(arguments.begin(), arguments.size()));
  }

 private:
  tenon_function_signature Info() const {
    tenon_function_signature info{};
    services_->function_signature(function_, &info);
    return info;
  }
  const tenon_work_services* services_ = nullptr;
  tenon_function* function_ = nullptr;
};

}  // namespace tenon::sdk

#endif  // TENON_SDK_KERNEL_WORK_H_
