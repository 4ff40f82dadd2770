// SPDX-License-Identifier: Apache-2.0
// Memory that counts against the limit of the session whose step asks for it, as std::pmr takes it.
//
// For few and large pieces: put a std::pmr::unsynchronized_pool_resource before it. A piece counts until it is given
// back, which may be after the step. One thread at a time. RESOURCE_EXHAUSTED leaves as a KernelError.
#ifndef TENON_SDK_KERNEL_STEP_MEMORY_H_
#define TENON_SDK_KERNEL_STEP_MEMORY_H_

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory_resource>

#include "tenon/sdk/kernel/kept_tensor.h"
#include "tenon/sdk/kernel/kernel.h"

namespace tenon::sdk {

class StepMemory final : public std::pmr::memory_resource {
 public:
  explicit StepMemory(const RunContext& c) : context_(c) {}
  // What is asked for from now on is asked of this step.
  void AskOf(const RunContext& c) { context_ = c; }

 private:
  void* do_allocate(size_t bytes, size_t) override {
    const auto size = static_cast<int64_t>(std::max<size_t>(bytes, 1));
    KeptTensor tensor = NewTensor(context_, TENON_DT_UINT8, {&size, 1});
    void* const memory = Data<char>(tensor.view());
    pieces_.emplace(memory, std::move(tensor));
    return memory;
  }
  void do_deallocate(void* memory, size_t, size_t) override { pieces_.erase(memory); }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  RunContext context_;
  std::map<void*, KeptTensor> pieces_;
};

}  // namespace tenon::sdk
#endif  // TENON_SDK_KERNEL_STEP_MEMORY_H_
