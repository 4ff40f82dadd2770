// SPDX-License-Identifier: Apache-2.0
// Strings through kernels that only move elements.
//
// A string tensor's cells are offsets from its own first cell, so cells cannot be copied as they are.
// StringKernel<Mover> makes cells of absolute addresses in the workspace, lets Mover move those as elements of 16
// bytes, and then allocates the outputs with room for the bytes and copies these. Outputs are dynamic; their shapes are
// those of the op's shape function.
#ifndef TENON_DEVICES_CPU_KERNELS_COMMON_STRING_COPY_H_
#define TENON_DEVICES_CPU_KERNELS_COMMON_STRING_COPY_H_

#include <cstring>
#include <vector>

#include "kernels/common/types.h"

namespace tenon::cpu {

template <class Mover>
struct StringKernel : Mover {
  using Mover::Mover;
  struct NoPlan {
    NoPlan(const Mover&, sdk::PrepareContext&) {}
  };
  template <class Kernel>
  struct PlanOf {
    using type = NoPlan;
  };
  template <class Kernel>
    requires requires { typename Kernel::Plan; }
  struct PlanOf<Kernel> {
    using type = typename Kernel::Plan;
  };

  struct Plan {
    Plan(const StringKernel& kernel, sdk::PrepareContext& c) : mover(kernel, c) {
      const int64_t tensors = c.input_count() + c.output_count();
      views = c.Workspace(tensors * static_cast<int64_t>(sizeof(tenon_tensor_view)));
      pointers = c.Workspace(tensors * static_cast<int64_t>(sizeof(void*)));
      for (int32_t i = 0; i < c.input_count(); ++i) {
        cells.push_back(c.input(i).dtype == TENON_DT_STRING ? Cells(c, c.input(i)) : -1);
      }
      for (int32_t i = 0; i < c.output_count(); ++i) {
        cells.push_back(Cells(c, c.output(i)));
        const sdk::Dims dims = sdk::DimsOf(c.output(i));
        shapes.emplace_back(dims.begin(), dims.end());
      }
    }
    static int64_t Cells(sdk::PrepareContext& c, const tenon_tensor_view& view) {
      return c.Workspace(sdk::Multiply(sdk::Count(view), sizeof(tenon_string_cell)));
    }
    typename PlanOf<Mover>::type mover;
    int64_t views, pointers;             // in the workspace
    std::vector<int64_t> cells;          // of inputs, then of outputs; -1: no strings
    std::vector<std::vector<int64_t>> shapes;
  };

  void Run(const Plan& plan, sdk::RunContext c) const {
    const int32_t inputs = c.input_count(), outputs = c.output_count();
    auto* views = c.workspace<tenon_tensor_view>(plan.views);
    auto** pointers = c.workspace<tenon_tensor_view*>(plan.pointers);
    for (int32_t i = 0; i < inputs + outputs; ++i) pointers[i] = &views[i];
    for (int32_t i = 0; i < inputs; ++i) {
      views[i] = c.input_view(i);
      if (plan.cells[static_cast<size_t>(i)] >= 0) {
        MakeAbsolute(&views[i], c.workspace<tenon_string_cell>(plan.cells[static_cast<size_t>(i)]));
      }
    }
    for (int32_t i = 0; i < outputs; ++i) {
      const std::vector<int64_t>& dims = plan.shapes[static_cast<size_t>(i)];
      tenon_tensor_view& view = views[inputs + i];
      view = {};
      view.dl.data = c.workspace<char>(plan.cells[static_cast<size_t>(inputs + i)]);
      view.dl.ndim = static_cast<int32_t>(dims.size());
      view.dl.shape = const_cast<int64_t*>(dims.data());
      view.dtype = TENON_DT_STRING;
      view.byte_size = static_cast<uint64_t>(sdk::Count(dims)) * sizeof(tenon_string_cell);
    }
    tenon_frame moved = *c.frame();
    moved.inputs = pointers;
    moved.outputs = pointers + inputs;
    if constexpr (requires { typename Mover::Plan; }) {
      Mover::Run(plan.mover, sdk::RunContext(&moved));
    } else {
      Mover::Run(sdk::RunContext(&moved));
    }
    for (int32_t i = 0; i < outputs; ++i) Write(c, i, views[inputs + i], plan.shapes[static_cast<size_t>(i)]);
  }

 private:
  // The address stands where the offset was.
  static void MakeAbsolute(tenon_tensor_view* view, tenon_string_cell* cells) {
    const auto* from = sdk::Data<tenon_string_cell>(*view);
    const uint64_t count = view->byte_size / sizeof(tenon_string_cell);
    for (uint64_t i = 0; i < count; ++i) {
      cells[i] = {reinterpret_cast<uint64_t>(reinterpret_cast<const char*>(from) + from[i].offset), from[i].size};
    }
    view->dl.data = cells;
    view->dl.byte_offset = 0;
  }
  static void Write(sdk::RunContext c, int32_t index, const tenon_tensor_view& moved, sdk::Dims dims) {
    const auto* from = sdk::Data<tenon_string_cell>(moved);
    const uint64_t count = moved.byte_size / sizeof(tenon_string_cell);
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < count; ++i) {
      if (__builtin_add_overflow(bytes, from[i].size, &bytes))
        sdk::Fail(TENON_RESOURCE_EXHAUSTED, "too many bytes of strings");
    }
    c.AllocOutput(index, dims, bytes);
    auto* to = c.output<tenon_string_cell>(index);
    uint64_t at = count * sizeof(tenon_string_cell);
    for (uint64_t i = 0; i < count; ++i) {
      to[i] = {at, from[i].size};
      if (from[i].size != 0) {
        std::memcpy(reinterpret_cast<char*>(to) + at, reinterpret_cast<const char*>(from[i].offset), from[i].size);
      }
      at += from[i].size;
    }
  }
};

template <class Mover, sdk::FixedString kAttr = "T">
constexpr tenon_kernel_registration CpuStringKernel(std::string_view op) {
  return CpuKernel<StringKernel<Mover>>(op,
                                        {.constraints = sdk::Constraints<sdk::Allowed<kAttr, TENON_DT_STRING>>::list,
                                         .dynamic_outputs = TENON_DYNAMIC_ALL});
}

}  // namespace tenon::cpu

#endif  // TENON_DEVICES_CPU_KERNELS_COMMON_STRING_COPY_H_
