// SPDX-License-Identifier: Apache-2.0
// What reading and writing of files may take of the step that asked for it: its time, until somebody cancels it, and its memory.
//
// Files come from strangers, so what is kept of them is charged where the step's other memory is, and each loop whose length a file decides
// polls.
#ifndef TENON_OPS_IO_BUDGET_H_
#define TENON_OPS_IO_BUDGET_H_

#include <functional>
#include <map>
#include <memory_resource>
#include <string>
#include <string_view>

#include "tenon/sdk/kept_tensor.h"
#include "tenon/sdk/kernel.h"

namespace tenon::ops::io {

struct Budget {
  std::pmr::memory_resource* memory = std::pmr::get_default_resource();
  std::function<void()> poll = [] {};  // leaves with CANCELLED
};

// Memory that counts against the step's limit. For few and large pieces; RESOURCE_EXHAUSTED leaves as a KernelError.
class StepMemory final : public std::pmr::memory_resource {
 public:
  explicit StepMemory(const sdk::RunContext& c) : context_(c) {}

 private:
  void* do_allocate(size_t bytes, size_t) override {
    const auto size = static_cast<int64_t>(std::max<size_t>(bytes, 1));
    sdk::KeptTensor tensor = sdk::NewTensor(context_, TENON_DT_UINT8, {&size, 1});
    void* const memory = sdk::Data<char>(tensor.view());
    pieces_.emplace(memory, std::move(tensor));
    return memory;
  }
  void do_deallocate(void* memory, size_t, size_t) override { pieces_.erase(memory); }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  const sdk::RunContext context_;
  std::map<void*, sdk::KeptTensor> pieces_;
};

// The budget of a kernel's run. what: "saved", "restored"; `name` lives as long as the run.
inline Budget BudgetOf(const sdk::RunContext& c, std::pmr::memory_resource& memory, std::string_view what, std::string_view name) {
  return {&memory, [c, what, name] {
            if (c.cancelled()) sdk::Fail(TENON_CANCELLED, "the step was cancelled while it ", what, " ", name);
          }};
}

}  // namespace tenon::ops::io
#endif  // TENON_OPS_IO_BUDGET_H_
