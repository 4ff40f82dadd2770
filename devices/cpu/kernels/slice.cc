// SPDX-License-Identifier: Apache-2.0
// Slice, StridedSlice, StridedSliceGrad, ReverseV2, Transpose, Tile, BroadcastTo, Pad, PadV2: all one StridedCopy.
#include <algorithm>
#include <cstring>

#include "kernels/strided_copy.h"
#include "kernels/string_copy.h"
#include "tenon/sdk/slices.h"

namespace tenon::cpu {
namespace {

using sdk::BroadcastToBuilder;
using sdk::PadBuilder;
using sdk::ReverseBuilder;
using sdk::SliceBuilder;
using sdk::StridedSliceBuilder;
using sdk::StridedSliceGradBuilder;
using sdk::TileBuilder;
using sdk::TransposeBuilder;

// What a partial walk leaves is zero, or the value of input 2.
struct ZeroFill {
  static void Fill(sdk::RunContext c) {
    std::memset(c.output<void>(0), 0, static_cast<size_t>(c.output_view(0).byte_size));
  }
};
struct ValueFill {
  static void Fill(sdk::RunContext c) {
    const View& output = c.output_view(0);
    DispatchSize(output.dtype, [&]<class T>(Tag<T>) {
      std::fill_n(c.output<T>(0), static_cast<int64_t>(output.byte_size / sizeof(T)), *c.input<T>(2));
    });
  }
};
template <class Builder, class Filling>
struct Filled : Builder, Filling {
  using Builder::Builder;
};

template <sdk::FixedString kAttr>
constexpr sdk::Traits Plain() {
  return {.constraints = sdk::Constraints<PlainConstraint<kAttr>>::list};
}

}  // namespace

TENON_CPU_KERNEL(Slice) = CpuKernel<StridedKernel<SliceBuilder>>("Slice", Plain<"T">());
TENON_CPU_KERNEL(StridedSlice) = CpuKernel<StridedKernel<StridedSliceBuilder>>("StridedSlice", Plain<"T">());
TENON_CPU_KERNEL(StridedSliceGrad) =
    CpuKernel<StridedKernel<Filled<StridedSliceGradBuilder, ZeroFill>, 4>>("StridedSliceGrad", Plain<"T">());
TENON_CPU_KERNEL(ReverseV2) = CpuKernel<StridedKernel<ReverseBuilder>>("ReverseV2", Plain<"T">());
TENON_CPU_KERNEL(Transpose) = CpuKernel<StridedKernel<TransposeBuilder>>("Transpose", Plain<"T">());
TENON_CPU_KERNEL(Tile) = CpuKernel<StridedKernel<TileBuilder>>("Tile", Plain<"T">());
TENON_CPU_KERNEL(BroadcastTo) = CpuKernel<StridedKernel<BroadcastToBuilder>>("BroadcastTo", Plain<"T">());
TENON_CPU_KERNEL(Pad) = CpuKernel<StridedKernel<Filled<PadBuilder, ZeroFill>>>("Pad", Plain<"T">());
TENON_CPU_KERNEL(PadV2) = CpuKernel<StridedKernel<Filled<PadBuilder, ValueFill>>>("PadV2", Plain<"T">());

// Strings.
TENON_CPU_KERNEL(SliceString) = CpuStringKernel<StridedKernel<SliceBuilder>>("Slice");
TENON_CPU_KERNEL(StridedSliceString) = CpuStringKernel<StridedKernel<StridedSliceBuilder>>("StridedSlice");
TENON_CPU_KERNEL(TransposeString) = CpuStringKernel<StridedKernel<TransposeBuilder>>("Transpose");
TENON_CPU_KERNEL(TileString) = CpuStringKernel<StridedKernel<TileBuilder>>("Tile");
TENON_CPU_KERNEL(ReverseV2String) = CpuStringKernel<StridedKernel<ReverseBuilder>>("ReverseV2");
TENON_CPU_KERNEL(BroadcastToString) = CpuStringKernel<StridedKernel<BroadcastToBuilder>>("BroadcastTo");
TENON_CPU_KERNEL(PadString) = CpuStringKernel<StridedKernel<Filled<PadBuilder, ZeroFill>>>("Pad");
TENON_CPU_KERNEL(PadV2String) = CpuStringKernel<StridedKernel<Filled<PadBuilder, ValueFill>>>("PadV2");
TENON_CPU_KERNEL(StridedSliceGradString) =
    CpuStringKernel<StridedKernel<Filled<StridedSliceGradBuilder, ZeroFill>, 4>>("StridedSliceGrad");

}  // namespace tenon::cpu
