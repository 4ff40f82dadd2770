// SPDX-License-Identifier: Apache-2.0
// What reading and writing of files may take of the step that asked for it: its time, until somebody cancels it, and
// its memory.
//
// Files come from strangers, so what is kept of them is charged where the step's other memory is, and each loop whose
// length a file decides polls.
#ifndef TENON_OPS_IO_BUDGET_H_
#define TENON_OPS_IO_BUDGET_H_

#include <functional>
#include <memory_resource>
#include <string>
#include <string_view>

#include "tenon/sdk/kernel/kernel.h"
#include "tenon/extras/kernel/step_memory.h"

namespace tenon::ops::io {

struct Budget {
  std::pmr::memory_resource* memory = std::pmr::get_default_resource();
  std::function<void()> poll = [] {};  // leaves with CANCELLED
};

// The budget of a kernel's run. what: "saved", "restored"; `name` lives as long as the run.
inline Budget BudgetOf(const sdk::RunContext& c, std::pmr::memory_resource& memory, std::string_view what,
                       std::string_view name) {
  return {&memory, [c, what, name] {
            if (c.cancelled()) sdk::Fail(TENON_CANCELLED, "the step was cancelled while it ", what, " ", name);
          }};
}

}  // namespace tenon::ops::io
#endif  // TENON_OPS_IO_BUDGET_H_
