// SPDX-License-Identifier: Apache-2.0
// Moving elements along a StridedWalk, shared among threads; and kernels that do nothing else.
#ifndef TENON_DEVICES_CPU_KERNELS_MOVES_STRIDED_COPY_H_
#define TENON_DEVICES_CPU_KERNELS_MOVES_STRIDED_COPY_H_

#include <array>
#include <cstdint>

#include "kernels/common/types.h"
#include "tenon/extras/walk/strided_walk.h"

namespace tenon::cpu {

using sdk::CheckRank;
using sdk::FillStrides;
using sdk::kMaxDims;
using sdk::kMaxRank;

class StridedCopy : public sdk::StridedWalk {
 public:
  // Elements of dtype; all of the target that the walk names is written.
  void Run(sdk::RunContext context, uint32_t dtype, const void* source, void* target) const;
  // The target is a variable: a step that is given up meanwhile does not leave it half written.
  void WriteWhole() { whole_ = true; }

 private:
  template <class Function>
  void For(const sdk::RunContext& context, int64_t total, double cost, const Function& function) const {
    if (whole_) context.UninterruptedFor(total, cost, function);
    else context.ParallelFor(total, cost, function);
  }
  template <class T>
  void RunTyped(sdk::RunContext context, const T* source, T* target) const;
  bool whole_ = false;
};

// A kernel whose work is one StridedCopy of input kSource to output 0 that shapes and the values of small inputs
// decide. Derived has `void Build(const View* inputs, const View& output, StridedCopy*) const` and may hold attributes.
using View = tenon_tensor_view;

template <class Builder, int kSource = 0>
struct StridedKernel {
  StridedKernel() requires std::is_default_constructible_v<Builder> = default;
  explicit StridedKernel(sdk::CreateContext& c) requires std::is_constructible_v<Builder, sdk::CreateContext&>
      : builder(c) {}
  struct Plan {
    Plan(const StridedKernel& kernel, sdk::PrepareContext& c) {
      for (int32_t i = 0; i < c.input_count(); ++i) constant &= i == kSource || c.input(i).dl.data != nullptr;
      if (constant) Build(kernel, c.args().inputs, c.output(0), &copy);
    }
    static void Build(const StridedKernel& kernel, const View* const* inputs, const View& output, StridedCopy* copy) {
      kernel.builder.Build(inputs, output, copy);
      if constexpr (requires { Builder::kPartial; }) return;
      const int64_t count = sdk::Count(output);
      if (copy->total() != count) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "the op's arguments give ", copy->total(), " elements; the output has ",
                  count);
      }
    }
    bool constant = true;
    StridedCopy copy;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    if constexpr (requires { builder.Fill(c); }) builder.Fill(c);
    if (plan.constant) {
      Copy(c, plan.copy);
    } else {
      StridedCopy copy;
      Plan::Build(*this, c.frame()->inputs, c.output_view(0), &copy);
      Copy(c, copy);
    }
  }

 private:
  static void Copy(sdk::RunContext c, const StridedCopy& copy) {
    copy.Run(c, c.output_view(0).dtype, c.input<void>(kSource), c.output<void>(0));
  }
  [[no_unique_address]] Builder builder;
};

}  // namespace tenon::cpu

#endif  // TENON_DEVICES_CPU_KERNELS_MOVES_STRIDED_COPY_H_
