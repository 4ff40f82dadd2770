// SPDX-License-Identifier: Apache-2.0
// Ops about shapes: Shape, ShapeN, Size, Rank, BroadcastGradientArgs, ConcatOffset, InvertPermutation, and the views
// Reshape, ExpandDims, Squeeze.
#include <algorithm>
#include <cstring>

#include "kernels/types.h"
#include "tenon/sdk/kernel/shape_kernels.h"

namespace tenon::cpu {
namespace {

// The engine gives the output the input's memory and never runs this; it is right all the same.
struct ViewKernel {
  void Run(sdk::RunContext c) const {
    const void* from = c.input<void>(0);
    void* to = c.output<void>(0);
    const uint64_t bytes = c.input_view(0).byte_size;
    if (from != to && bytes != 0) std::memmove(to, from, static_cast<size_t>(std::min(bytes, c.output_view(0).byte_size)));
  }
};
constexpr sdk::Traits kView = {.in_place = kInPlaceFirst, .flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_VIEW};

}  // namespace

TENON_CPU_KERNEL(Shape) = CpuKernel<sdk::ShapeKernel>("Shape", {});
TENON_CPU_KERNEL(ShapeN) = CpuKernel<sdk::ShapeKernel>("ShapeN", {});
TENON_CPU_KERNEL(Size) = CpuKernel<sdk::SizeKernel>("Size", {});
TENON_CPU_KERNEL(Rank) = CpuKernel<sdk::RankKernel>("Rank", {});
TENON_CPU_KERNEL(BroadcastGradientArgs) =
    CpuKernel<sdk::BroadcastGradientArgsKernel>("BroadcastGradientArgs", {.dynamic_outputs = 3});
TENON_CPU_KERNEL(ConcatOffset) = CpuKernel<sdk::ConcatOffsetKernel>("ConcatOffset", {});
TENON_CPU_KERNEL(InvertPermutation) = CpuKernel<sdk::InvertPermutationKernel>("InvertPermutation", {});
TENON_CPU_KERNEL(Reshape) = CpuKernel<ViewKernel>("Reshape", kView);
TENON_CPU_KERNEL(ExpandDims) = CpuKernel<ViewKernel>("ExpandDims", kView);
TENON_CPU_KERNEL(Squeeze) = CpuKernel<ViewKernel>("Squeeze", kView);
TENON_CPU_KERNEL(EnsureShape) = CpuKernel<ViewKernel>("EnsureShape", kView);

}  // namespace tenon::cpu
