// SPDX-License-Identifier: Apache-2.0
// What element-wise ops do with strings.
#include <string>
#include <vector>

#include "kernels/common/types.h"
#include "tenon/sdk/kernel/string_tensor.h"
#include "tenon/extras/walk/broadcast.h"

namespace tenon::cpu {
namespace {

using sdk::Broadcast;

// One after the other.
struct AddStringKernel {
  struct Plan {
    Plan(const AddStringKernel&, sdk::PrepareContext& c)
        : dims(sdk::DimsOf(c.output(0)).begin(), sdk::DimsOf(c.output(0)).end()),
          shape({sdk::DimsOf(c.input(0)), sdk::DimsOf(c.input(1))}, dims) {}
    std::vector<int64_t> dims;
    Broadcast<2> shape;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    std::vector<std::string> out(static_cast<size_t>(plan.shape.total));
    plan.shape.ForEachRow(0, plan.shape.total, [&](const std::array<int64_t, 2>& at, int64_t to, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        std::string& text = out[static_cast<size_t>(to + i)];
        text = sdk::StringAt(c.input_view(0), at[0] + i * plan.shape.inner_stride[0]);
        text += sdk::StringAt(c.input_view(1), at[1] + i * plan.shape.inner_stride[1]);
      }
    });
    sdk::SetStrings(c, 0, plan.dims, out);
  }
};

}  // namespace

TENON_CPU_KERNEL(AddString) = CpuKernel<AddStringKernel>(
    "Add",
    {.constraints = sdk::Constraints<sdk::Allowed<"T", TENON_DT_STRING>>::list, .dynamic_outputs = TENON_DYNAMIC_ALL});

}  // namespace tenon::cpu
