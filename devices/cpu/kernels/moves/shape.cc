// SPDX-License-Identifier: Apache-2.0
// Ops about shapes: Shape, ShapeN, Size, Rank, BroadcastGradientArgs, ConcatOffset, InvertPermutation, and the views
// Reshape, ExpandDims, Squeeze.
#include <algorithm>
#include <cstring>

#include "kernels/common/types.h"
#include "tenon/extras/kernel/shape_kernels.h"

namespace tenon::cpu {
namespace {

struct InvertPermutationKernel {
  void Run(sdk::RunContext c) const {
    Indices::Dispatch(c.output_view(0).dtype, [&]<class T>(Tag<T>) {
      const T* x = c.input<T>(0);
      T* out = c.output<T>(0);
      const int64_t n = sdk::Count(c.input_view(0));
      constexpr int64_t kPiece = 1 << 14;
      std::fill_n(out, n, T(-1));
      sdk::CancelPoll poll(c);
      for (int64_t first = 0; first < n; first += kPiece, poll(kPiece)) {
        for (int64_t i = first, last = std::min(n, first + kPiece); i < last; ++i) {
          const T at = x[i];
          if (at < 0 || at >= n) sdk::Fail(TENON_INVALID_ARGUMENT, at, " is not between 0 and ", n);
          if (out[at] != -1) sdk::Fail(TENON_INVALID_ARGUMENT, at, " is duplicated in the input.");
          out[at] = static_cast<T>(i);
        }
      }
    });
  }
};

// The engine gives the output the input's memory and never runs this; it is right all the same.
struct ViewKernel {
  void Run(sdk::RunContext c) const {
    const void* from = c.input<void>(0);
    void* to = c.output<void>(0);
    const uint64_t bytes = c.input_view(0).byte_size;
    if (from != to && bytes != 0)
      std::memmove(to, from, static_cast<size_t>(std::min(bytes, c.output_view(0).byte_size)));
  }
};
constexpr sdk::Traits kReshapes = {.in_place = kInPlaceFirst, .flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_VIEW};

}  // namespace

TENON_CPU_KERNEL(Shape) = CpuKernel<sdk::ShapeKernel>("Shape", {});
TENON_CPU_KERNEL(ShapeN) = CpuKernel<sdk::ShapeKernel>("ShapeN", {});
TENON_CPU_KERNEL(Size) = CpuKernel<sdk::SizeKernel>("Size", {});
TENON_CPU_KERNEL(Rank) = CpuKernel<sdk::RankKernel>("Rank", {});
TENON_CPU_KERNEL(BroadcastGradientArgs) =
    CpuKernel<sdk::BroadcastGradientArgsKernel>("BroadcastGradientArgs", {.dynamic_outputs = 3});
TENON_CPU_KERNEL(ConcatOffset) = CpuKernel<sdk::ConcatOffsetKernel>("ConcatOffset", {});
TENON_CPU_KERNEL(InvertPermutation) = CpuKernel<InvertPermutationKernel>("InvertPermutation", {});
TENON_CPU_KERNEL(Reshape) = CpuKernel<ViewKernel>("Reshape", kReshapes);
TENON_CPU_KERNEL(ExpandDims) = CpuKernel<ViewKernel>("ExpandDims", kReshapes);
TENON_CPU_KERNEL(Squeeze) = CpuKernel<ViewKernel>("Squeeze", kReshapes);
TENON_CPU_KERNEL(EnsureShape) = CpuKernel<ViewKernel>("EnsureShape", kReshapes);

}  // namespace tenon::cpu
