// SPDX-License-Identifier: Apache-2.0
// Moving elements between two strided walks of the same dims: slices, transposes, tiles, pads, reversals.
//
// Add() gives the dims, slowest first, with a stride in elements for source and target (0 and negative are fine). Dims of
// 1 vanish and neighbours that walk on evenly merge. Nothing is allocated, so that it may be built inside run().
#ifndef TENON_DEVICES_CPU_KERNELS_STRIDED_COPY_H_
#define TENON_DEVICES_CPU_KERNELS_STRIDED_COPY_H_

#include <array>
#include <cstdint>

#include "kernels/broadcast.h"
#include "kernels/types.h"

namespace tenon::cpu {

class StridedCopy {
 public:
  void Add(int64_t dim, int64_t source_stride, int64_t target_stride);
  void Offset(int64_t source, int64_t target) {
    source_offset_ += source;
    target_offset_ += target;
  }
  int64_t total() const { return total_; }
  // Elements of dtype; all of the target that the walk names is written.
  void Run(sdk::RunContext context, uint32_t dtype, const void* source, void* target) const;

 private:
  template <class T>
  void RunTyped(sdk::RunContext context, const T* source, T* target) const;

  int rank_ = 0;
  int64_t total_ = 1;
  int64_t source_offset_ = 0;
  int64_t target_offset_ = 0;
  std::array<int64_t, kMaxDims> dims_ = {};
  std::array<int64_t, kMaxDims> source_strides_ = {};
  std::array<int64_t, kMaxDims> target_strides_ = {};
};

// Row-major strides of dims, written to out[rank].
template <size_t kSize>
void FillStrides(sdk::Dims dims, std::array<int64_t, kSize>& out) {
  int64_t step = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    out[i] = step;
    step *= dims[i];
  }
}

// Ranks that kernels with arrays on the stack take.
inline constexpr size_t kMaxRank = 32;
inline void CheckRank(sdk::Dims dims) {
  if (dims.size() > kMaxRank) {
    sdk::Fail(TENON_UNIMPLEMENTED, "a tensor of rank ", dims.size(), "; this CPU kernel takes up to ", kMaxRank);
  }
}

// A kernel whose work is one StridedCopy of input kSource to output 0 that shapes and the values of small inputs decide.
// Derived has `void Build(const View* inputs, const View& output, StridedCopy*) const` and may hold attributes.
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
        sdk::Fail(TENON_INVALID_ARGUMENT, "the op's arguments give ", copy->total(), " elements; the output has ", count);
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

#endif  // TENON_DEVICES_CPU_KERNELS_STRIDED_COPY_H_
