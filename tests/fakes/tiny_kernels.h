// SPDX-License-Identifier: Apache-2.0
// Kernels of tiny ops (tiny_ops.h) for devices of type "HOST", and what plans of them run in: three names for the host.
#ifndef TENON_TESTS_FAKES_TINY_KERNELS_H_
#define TENON_TESTS_FAKES_TINY_KERNELS_H_

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <functional>
#include <vector>

#include "core/exec/device/environment.h"
#include "core/exec/device/resources.h"
#include "core/exec/kernel/kernel_instance.h"
#include "core/exec/kernel/kernel_registry.h"
#include "core/exec/threads/host_threads.h"
#include "tests/fakes/tiny_ops.h"

namespace tenon::fakes {

inline constexpr const char* kNames[] = {"/job:localhost/replica:0/task:0/device:HOST:0",
                                         "/job:localhost/replica:0/task:0/device:HOST:1",
                                         "/job:localhost/replica:0/task:0/device:HOST:2"};

inline float* FloatsOf(const tenon_tensor_view* view) { return static_cast<float*>(DataOf(*view)); }

template <typename Function>
void Each(tenon_frame* frame, Function&& function) {
  for (int64_t i = 0; i < NumElements(*frame->outputs[0]); ++i) FloatsOf(frame->outputs[0])[i] = function(i);
}

// ---- What kernels do in the test that runs ----

// "Mystery", with its input's first element; its output is its input.
inline std::function<Status(float)> g_mystery;
// "Round" when it is prepared; its output is its input.
inline std::function<Status(const tenon_prepare_args&)> g_prepare_round;
// "Stop", which is asynchronous, once its output is its input: it calls done.
inline std::function<void(tenon_done_function done, void* argument)> g_stop;

namespace internal {

inline tenon_status* Pass(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  Each(frame, [&](int64_t i) { return FloatsOf(frame->inputs[0])[i]; });
  return nullptr;
}

inline std::deque<tenon_kernel_registration> MakeKernels() {
  using Run = tenon_status* (*)(tenon_kernel*, const tenon_prepared*, tenon_frame*);
  const std::pair<std::string_view, Run> runs[] = {
      {"Plus",
       [](tenon_kernel*, const tenon_prepared*, tenon_frame* frame) -> tenon_status* {
         Each(frame, [&](int64_t i) { return FloatsOf(frame->inputs[0])[i] + FloatsOf(frame->inputs[1])[i]; });
         return nullptr;
       }},
      {"Minus",
       [](tenon_kernel*, const tenon_prepared*, tenon_frame* frame) -> tenon_status* {
         Each(frame, [&](int64_t i) { return FloatsOf(frame->inputs[0])[i] - FloatsOf(frame->inputs[1])[i]; });
         return nullptr;
       }},
      {"Below",
       [](tenon_kernel*, const tenon_prepared*, tenon_frame* frame) -> tenon_status* {
         *static_cast<uint8_t*>(DataOf(*frame->outputs[0])) =
             FloatsOf(frame->inputs[0])[0] < FloatsOf(frame->inputs[1])[0];
         return nullptr;
       }},
      {"Mystery",
       [](tenon_kernel* kernel, const tenon_prepared* prepared, tenon_frame* frame) -> tenon_status* {
         Pass(kernel, prepared, frame);
         return g_mystery(FloatsOf(frame->inputs[0])[0]).release();
       }},
      {"Round", &Pass},
      {"Stop", nullptr}};
  std::deque<tenon_kernel_registration> kernels;
  for (const auto& [op, run] : runs) {
    tenon_kernel_registration& kernel = kernels.emplace_back();
    kernel.struct_size = sizeof(kernel);
    kernel.op = Span(op);
    kernel.device_type = TENON_SPAN("HOST");
    kernel.run = run;
    if (op == "Round")
      kernel.prepare = [](tenon_kernel*, tenon_prepare_args* args) { return g_prepare_round(*args).release(); };
    if (run != nullptr) continue;
    kernel.traits = TENON_KERNEL_ASYNC;
    kernel.run_async = [](tenon_kernel* state, const tenon_prepared* prepared, tenon_frame* frame,
                          tenon_done_function done, void* argument) -> tenon_status* {
      Pass(state, prepared, frame);
      g_stop(done, argument);
      return nullptr;
    };
  }
  return kernels;
}

}  // namespace internal

inline const std::vector<const tenon_kernel_registration*>& TinyKernelList() {
  static const std::deque<tenon_kernel_registration> kernels = internal::MakeKernels();
  static const auto list = [] {
    std::vector<const tenon_kernel_registration*> made;
    for (const auto& kernel : kernels) made.push_back(&kernel);
    return made;
  }();
  return list;
}

inline const exec::KernelRegistry& TinyKernels() {
  static const exec::KernelRegistry* const registry = [] {
    auto* made = new exec::KernelRegistry;
    const Status status = made->Register(
        {sizeof(tenon_kernel_package), 0, TinyKernelList().data(), TinyKernelList().size()}, InstanceNamed("tiny"));
    EXPECT_TRUE(status.ok()) << status.ToString();
    return made;
  }();
  return *registry;
}

// ---- Where they run ----

// Feeds: views of numbers.
class Scalars {
 public:
  explicit Scalars(std::vector<float> values) : values_(std::move(values)) {
    for (float& value : values_)
      views_.push_back(MakeView(TENON_DT_FLOAT, {nullptr, 0, 0}, &value, sizeof value, nullptr));
    for (const auto& view : views_) pointers_.push_back(&view);
  }
  Scalars(const Scalars&) = delete;
  Scalars& operator=(const Scalars&) = delete;
  const tenon_tensor_view* const* pointers() const { return pointers_.data(); }

 private:
  std::vector<float> values_;
  std::vector<tenon_tensor_view> views_;
  std::vector<const tenon_tensor_view*> pointers_;
};

// An environment; what is made in it goes first. In the end all memory must have come back.
class TinyHost {
 protected:
  TinyHost() {
    env_.ops = &TinyOps();
    env_.kernels = &TinyKernels();
    env_.pool = pool_;
    env_.resources = env_.shared = &resources_;
    env_.threads = &threads_;
    for (int32_t i = 0; i < 3; ++i) {
      devices_[i].name = kNames[i];
      devices_[i].type = "HOST";
      env_.devices.push_back({&devices_[i], pool_, i, 0, {}});
    }
  }
  ~TinyHost() {
    EXPECT_EQ(pool_->bytes_in_use(), 0u) << "memory leaked";
    pool_->Close();
  }

  BufferPool* pool_ = BufferPool::Create(HostAllocator(), 0);
  exec::ResourceManager resources_;
  exec::HostThreads threads_{1};
  exec::Device devices_[3];
  exec::Environment env_;
  exec::KernelStore store_;
};

}  // namespace tenon::fakes

#endif  // TENON_TESTS_FAKES_TINY_KERNELS_H_
