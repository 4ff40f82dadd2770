// SPDX-License-Identifier: Apache-2.0
// Concat, ConcatV2, Pack, Split, SplitV, Unpack: tensors as [outer, inner] blocks side by side.
#include <algorithm>
#include <cstring>

#include "kernels/common/string_copy.h"
#include "kernels/moves/strided_copy.h"

namespace tenon::cpu {
namespace {

int64_t BytesOf(uint32_t dtype) {
  return dtype == TENON_DT_STRING ? static_cast<int64_t>(sizeof(tenon_string_cell))
                                  : static_cast<int64_t>(sdk::ElementSize(dtype));
}

int64_t AxisOf(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank) {
    sdk::Fail(TENON_INVALID_ARGUMENT, "axis ", axis, " is outside [", -rank, ", ", rank, ")");
  }
  return axis < 0 ? axis + rank : axis;
}

int64_t Outer(sdk::Dims dims, int64_t axis) { return sdk::Count(dims.first(static_cast<size_t>(axis))); }

// Copies [outer, width] out of or into rows of `stride` bytes.
void CopyBlock(sdk::RunContext c, int64_t outer, int64_t width, const char* from, int64_t from_stride, char* to,
               int64_t to_stride) {
  if (outer == 0 || width == 0) return;
  if (outer == 1) {
    c.ParallelFor(width, 0.05, [&](int64_t begin, int64_t end) {
      std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
    });
    return;
  }
  c.ParallelFor(outer, static_cast<double>(width) * 0.05 + 1, [&](int64_t begin, int64_t end) {
    if (width == 4) {
      for (int64_t i = begin; i < end; ++i) std::memcpy(to + i * to_stride, from + i * from_stride, 4);
      return;
    }
    for (int64_t i = begin; i < end; ++i) {
      std::memcpy(to + i * to_stride, from + i * from_stride, static_cast<size_t>(width));
    }
  });
}

template <bool kAxisFirst>
struct ConcatKernel {
  void Run(sdk::RunContext c) const {
    const int32_t n = c.input_count() - 1, first = kAxisFirst ? 1 : 0;
    const View& axis_view = c.input_view(kAxisFirst ? 0 : n);
    const View& output = c.output_view(0);
    const sdk::Dims out = sdk::DimsOf(output);
    const int64_t size = BytesOf(output.dtype);
    const int64_t rank = static_cast<int64_t>(out.size());
    const int64_t axis = AxisOf(IndexAt(sdk::Data<void>(axis_view), axis_view.dtype, 0), rank);
    const int64_t outer = Outer(out, axis);
    const int64_t row = sdk::Count(out.subspan(static_cast<size_t>(axis))) * size;
    int64_t at = 0;
    for (int32_t i = 0; i < n; ++i) {
      const View& input = c.input_view(first + i);
      const int64_t bytes = sdk::Count(input) * size;
      const int64_t width = outer == 0 ? 0 : bytes / outer;
      // Old graphs have scalars in a list with axis 0.
      const sdk::Dims in = sdk::DimsOf(input);
      bool fits = in.size() == out.size() || (in.empty() && axis == 0);
      for (size_t d = 0; fits && d < in.size(); ++d) fits = d == static_cast<size_t>(axis) || in[d] == out[d];
      if (!fits || width > row - at) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "input ", i, " of shape ", in, " does not fit output ", out, " along axis ",
                  axis);
      }
      CopyBlock(c, outer, width, c.input<char>(first + i), width, c.output<char>(0) + at, row);
      at += width;
    }
    if (at != row && outer != 0) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "the inputs do not fill the output's shape ", out, " along axis ", axis);
    }
  }
};

struct PackKernel {
  explicit PackKernel(sdk::CreateContext& c) : axis(c.Int("axis")) {}
  struct Plan {
    Plan(const PackKernel& kernel, sdk::PrepareContext& c) {
      const sdk::Dims out = sdk::DimsOf(c.output(0));
      const int64_t axis = AxisOf(kernel.axis, static_cast<int64_t>(out.size()));
      outer = Outer(out, axis);
      width = sdk::Count(out.subspan(static_cast<size_t>(axis) + 1)) * BytesOf(c.output(0).dtype);
      if (out[static_cast<size_t>(axis)] != c.input_count()) {
        sdk::Fail(TENON_INTERNAL, c.input_count(), " inputs do not pack to shape ", out);
      }
      for (int32_t i = 0; i < c.input_count(); ++i) {
        if (sdk::Count(c.input(i)) * BytesOf(c.output(0).dtype) != outer * width) {
          sdk::Fail(TENON_INVALID_ARGUMENT, "input ", i, " of shape ", sdk::DimsOf(c.input(i)),
                    " does not fit the others");
        }
      }
    }
    int64_t outer, width;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    const int32_t n = c.input_count();
    for (int32_t i = 0; i < n; ++i) {
      CopyBlock(c, plan.outer, plan.width, c.input<char>(i), plan.width, c.output<char>(0) + i * plan.width,
                n * plan.width);
    }
  }
  int64_t axis;
};

// Parts of input `value` go to the outputs in order; their widths are the outputs' shapes.
void SplitAlong(sdk::RunContext c, int32_t value_index, int64_t axis_value) {
  const View& value = c.input_view(value_index);
  const sdk::Dims in = sdk::DimsOf(value);
  const int64_t axis = AxisOf(axis_value, static_cast<int64_t>(in.size()));
  const int64_t size = BytesOf(value.dtype);
  const int64_t outer = Outer(in, axis);
  const int64_t row = sdk::Count(in.subspan(static_cast<size_t>(axis))) * size;
  int64_t at = 0;
  for (int32_t i = 0; i < c.output_count(); ++i) {
    const int64_t bytes = sdk::Count(c.output_view(i)) * size;
    const int64_t width = outer == 0 ? 0 : bytes / outer;
    if (width > row - at || width * outer != bytes) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "output ", i, " of shape ", sdk::DimsOf(c.output_view(i)),
                " is no part of shape ", in, " along axis ", axis);
    }
    CopyBlock(c, outer, width, c.input<char>(value_index) + at, row, c.output<char>(i), width);
    at += width;
  }
}

template <int32_t kValue, int32_t kAxis>
struct SplitKernel {
  void Run(sdk::RunContext c) const {
    const View& axis = c.input_view(kAxis);
    SplitAlong(c, kValue, IndexAt(sdk::Data<void>(axis), axis.dtype, 0));
  }
};

struct UnpackKernel {
  explicit UnpackKernel(sdk::CreateContext& c) : axis(c.Int("axis")) {}
  void Run(sdk::RunContext c) const { SplitAlong(c, 0, axis); }
  int64_t axis;
};

}  // namespace

TENON_CPU_KERNEL(Concat) = CpuKernel<ConcatKernel<true>>("Concat", kPlain);
TENON_CPU_KERNEL(ConcatV2) = CpuKernel<ConcatKernel<false>>("ConcatV2", kPlain);
TENON_CPU_KERNEL(Pack) = CpuKernel<PackKernel>("Pack", kPlain);
TENON_CPU_KERNEL(Split) = CpuKernel<SplitKernel<1, 0>>("Split", kPlain);
TENON_CPU_KERNEL(SplitV) = CpuKernel<SplitKernel<0, 2>>("SplitV", kPlain);
TENON_CPU_KERNEL(Unpack) = CpuKernel<UnpackKernel>("Unpack", kPlain);

// Strings.
TENON_CPU_KERNEL(ConcatString) = CpuStringKernel<ConcatKernel<true>>("Concat");
TENON_CPU_KERNEL(ConcatV2String) = CpuStringKernel<ConcatKernel<false>>("ConcatV2");
TENON_CPU_KERNEL(PackString) = CpuStringKernel<PackKernel>("Pack");
TENON_CPU_KERNEL(SplitString) = CpuStringKernel<SplitKernel<1, 0>>("Split");
TENON_CPU_KERNEL(SplitVString) = CpuStringKernel<SplitKernel<0, 2>>("SplitV");
TENON_CPU_KERNEL(UnpackString) = CpuStringKernel<UnpackKernel>("Unpack");

}  // namespace tenon::cpu
