// SPDX-License-Identifier: Apache-2.0
// Slice, StridedSlice, StridedSliceGrad, XlaDynamicSlice, XlaDynamicUpdateSlice, ReverseV2, Transpose, Tile,
// BroadcastTo: all one StridedCopy. Pad and PadV2.
#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/common/string_copy.h"
#include "kernels/moves/strided_copy.h"
#include "tenon/extras/walk/slices.h"

namespace tenon::cpu {
namespace {

using sdk::BroadcastToBuilder;
using sdk::DynamicSliceBuilder;
using sdk::DynamicUpdateSliceBuilder;
using sdk::PadBuilder;
using sdk::ReverseBuilder;
using sdk::SliceBuilder;
using sdk::StridedSliceBuilder;
using sdk::StridedSliceGradBuilder;
using sdk::TileBuilder;
using sdk::TransposeBuilder;

struct ZeroFill {
  static void Fill(sdk::RunContext c) {
    std::memset(c.output<void>(0), 0, static_cast<size_t>(c.output_view(0).byte_size));
  }
};
struct ZeroFilledGradient : StridedSliceGradBuilder, ZeroFill {
  using StridedSliceGradBuilder::StridedSliceGradBuilder;
};

// The output may be the input's memory.
struct Updated : DynamicUpdateSliceBuilder {
  static void Fill(sdk::RunContext c) {
    const char* from = c.input<char>(0);
    char* to = c.output<char>(0);
    if (from == to) return;
    c.ParallelFor(static_cast<int64_t>(c.output_view(0).byte_size), 0.03, [&](int64_t begin, int64_t end) {
      std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
    });
  }
};

// Rows of the output: what the padding leaves of the last padded dim, with all dims behind it, is one piece of the
// input. Each element is written once. Padding is zero, or the value of input 2.
template <bool kZero>
struct PadKernel {
  void Run(sdk::RunContext c) const {
    const View& output = c.output_view(0);
    const Layout layout(c.input_view(0), c.input_view(1), output);
    if (layout.rows * layout.row == 0) return;
    DispatchSize(output.dtype, [&]<class T>(Tag<T>) {
      T value = {};
      if constexpr (!kZero) value = *c.input<T>(2);
      const T* from = c.input<T>(0);
      T* to = c.output<T>(0);
      c.ParallelFor(layout.rows, static_cast<double>(layout.row * static_cast<int64_t>(sizeof(T))) * 0.05 + 4,
                    [&](int64_t begin, int64_t end) {
                      for (int64_t row = begin; row < end; ++row) Row(layout, value, from, row, to + row * layout.row);
                    });
    });
  }

 private:
  struct Layout {
    Layout(const View& input, const View& paddings, const View& output)
        : in(sdk::DimsOf(input)), out(sdk::DimsOf(output)) {
      sdk::StridedWalk walk;  // checks the paddings
      const View* inputs[] = {&input, &paddings};
      PadBuilder().Build(inputs, output, &walk);
      for (size_t d = 0; d < in.size(); ++d) before[d] = sdk::ValueAt(paddings, static_cast<int64_t>(2 * d));
      for (outer = in.size(); outer > 0;) {
        --outer;
        left = before[outer] * row, piece = in[outer] * row, row *= out[outer];
        if (in[outer] != out[outer]) break;
      }
      rows = sdk::Count(out.first(outer));
    }
    sdk::Dims in, out;
    std::array<int64_t, kMaxRank> before = {};
    size_t outer = 0;  // dims before the rows
    int64_t rows = 1, row = 1, left = 0, piece = 1;
  };

  template <class T>
  static void Row(const Layout& v, T value, const T* from, int64_t row, T* to) {
    int64_t at = 0, step = 1, rest = row;
    bool inside = true;
    for (size_t d = v.outer; d-- > 0; rest /= v.out[d]) {
      const int64_t index = rest % v.out[d] - v.before[d];
      inside &= index >= 0 && index < v.in[d];
      at += index * step;
      step *= v.in[d];
    }
    const int64_t left = inside ? v.left : v.row, piece = inside ? v.piece : 0;
    std::fill_n(to, left, value);
    if (piece > 0)
      std::memcpy(static_cast<void*>(to + left), from + at * piece, static_cast<size_t>(piece) * sizeof(T));
    std::fill_n(to + left + piece, v.row - left - piece, value);
  }
};

template <sdk::FixedString kAttr>
constexpr sdk::Traits Plain() {
  return {.constraints = sdk::Constraints<PlainConstraint<kAttr>>::list};
}

}  // namespace

TENON_CPU_KERNEL(Slice) = CpuKernel<StridedKernel<SliceBuilder>>("Slice", Plain<"T">());
TENON_CPU_KERNEL(StridedSlice) = CpuKernel<StridedKernel<StridedSliceBuilder>>("StridedSlice", Plain<"T">());
TENON_CPU_KERNEL(StridedSliceGrad) =
    CpuKernel<StridedKernel<ZeroFilledGradient, 4>>("StridedSliceGrad", Plain<"T">());
TENON_CPU_KERNEL(XlaDynamicSlice) = CpuKernel<StridedKernel<DynamicSliceBuilder>>("XlaDynamicSlice", Plain<"T">());
TENON_CPU_KERNEL(XlaDynamicUpdateSlice) = CpuKernel<StridedKernel<Updated, 1>>(
    "XlaDynamicUpdateSlice", {.constraints = sdk::Constraints<PlainConstraint<"T">>::list, .in_place = kInPlaceFirst});
TENON_CPU_KERNEL(ReverseV2) = CpuKernel<StridedKernel<ReverseBuilder>>("ReverseV2", Plain<"T">());
TENON_CPU_KERNEL(Transpose) = CpuKernel<StridedKernel<TransposeBuilder>>("Transpose", Plain<"T">());
TENON_CPU_KERNEL(Tile) = CpuKernel<StridedKernel<TileBuilder>>("Tile", Plain<"T">());
TENON_CPU_KERNEL(BroadcastTo) = CpuKernel<StridedKernel<BroadcastToBuilder>>("BroadcastTo", Plain<"T">());
TENON_CPU_KERNEL(Pad) = CpuKernel<PadKernel<true>>("Pad", Plain<"T">());
TENON_CPU_KERNEL(PadV2) = CpuKernel<PadKernel<false>>("PadV2", Plain<"T">());

// Strings.
TENON_CPU_KERNEL(SliceString) = CpuStringKernel<StridedKernel<SliceBuilder>>("Slice");
TENON_CPU_KERNEL(StridedSliceString) = CpuStringKernel<StridedKernel<StridedSliceBuilder>>("StridedSlice");
TENON_CPU_KERNEL(TransposeString) = CpuStringKernel<StridedKernel<TransposeBuilder>>("Transpose");
TENON_CPU_KERNEL(TileString) = CpuStringKernel<StridedKernel<TileBuilder>>("Tile");
TENON_CPU_KERNEL(ReverseV2String) = CpuStringKernel<StridedKernel<ReverseBuilder>>("ReverseV2");
TENON_CPU_KERNEL(BroadcastToString) = CpuStringKernel<StridedKernel<BroadcastToBuilder>>("BroadcastTo");
TENON_CPU_KERNEL(PadString) = CpuStringKernel<PadKernel<true>>("Pad");
TENON_CPU_KERNEL(PadV2String) = CpuStringKernel<PadKernel<false>>("PadV2");
TENON_CPU_KERNEL(StridedSliceGradString) =
    CpuStringKernel<StridedKernel<ZeroFilledGradient, 4>>("StridedSliceGrad");

}  // namespace tenon::cpu
