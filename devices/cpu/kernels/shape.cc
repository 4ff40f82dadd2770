// SPDX-License-Identifier: Apache-2.0
// Ops about shapes: Shape, ShapeN, Size, Rank, BroadcastGradientArgs, ConcatOffset, InvertPermutation, and the views
// Reshape, ExpandDims, Squeeze.
#include <algorithm>
#include <cstring>

#include "kernels/strided_copy.h"
#include "tenon/sdk/shape_kernels.h"

namespace tenon::cpu {
namespace {

using sdk::Put;

// For each input the axes over which its gradient is summed. Both outputs' sizes depend on the values.
struct BroadcastGradientArgsKernel {
  void Run(sdk::RunContext c) const {
    const View* inputs[2] = {&c.input_view(0), &c.input_view(1)};
    const int64_t ranks[2] = {sdk::Count(*inputs[0]), sdk::Count(*inputs[1])};
    const int64_t rank = std::max(ranks[0], ranks[1]);
    if (rank > TENON_MAX_RANK) sdk::Fail(TENON_INVALID_ARGUMENT, "a shape of rank ", rank);
    int64_t axes[2][TENON_MAX_RANK];
    int64_t counts[2] = {0, 0};
    bool equal = ranks[0] == ranks[1];
    for (int64_t i = 0; i < rank; ++i) {
      int64_t dims[2];
      for (int k = 0; k < 2; ++k) {
        const int64_t at = i - (rank - ranks[k]);
        dims[k] = at < 0 ? 1 : IndexAt(sdk::Data<void>(*inputs[k]), inputs[k]->dtype, at);
      }
      if (dims[0] != dims[1] && dims[0] != 1 && dims[1] != 1) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "Incompatible shapes: dims ", dims[0], " and ", dims[1], " do not broadcast");
      }
      equal = equal && dims[0] == dims[1];
      for (int k = 0; k < 2; ++k) {
        if (dims[k] == 1) axes[k][counts[k]++] = i;
      }
    }
    if (equal) counts[0] = counts[1] = 0;  // not even along dims of 1
    for (int32_t k = 0; k < 2; ++k) {
      c.AllocOutput(k, sdk::Dims(&counts[k], 1));
      for (int64_t i = 0; i < counts[k]; ++i) Put(c.output_view(k), i, axes[k][i]);
    }
  }
};

struct ConcatOffsetKernel {
  void Run(sdk::RunContext c) const {
    const View& axis_view = c.input_view(0);
    const int64_t rank = sdk::Count(c.input_view(1));
    const int64_t given = IndexAt(sdk::Data<void>(axis_view), axis_view.dtype, 0);
    const int64_t axis = given < 0 ? given + rank : given;
    if (axis < 0 || axis >= rank) sdk::Fail(TENON_INVALID_ARGUMENT, "axis ", given, " is outside rank ", rank);
    int64_t offset = 0;
    for (int32_t k = 1; k < c.input_count(); ++k) {
      const View& shape = c.input_view(k);
      if (sdk::Count(shape) != rank) sdk::Fail(TENON_INVALID_ARGUMENT, "input ", k, " has another rank");
      for (int64_t i = 0; i < rank; ++i) {
        const int64_t dim = IndexAt(sdk::Data<void>(shape), shape.dtype, i);
        const View& first = c.input_view(1);
        if (i != axis && dim != IndexAt(sdk::Data<void>(first), first.dtype, i)) {
          sdk::Fail(TENON_INVALID_ARGUMENT, "input ", k, " differs from the first in dim ", i);
        }
        Put(c.output_view(k - 1), i, i == axis ? offset : 0);
      }
      offset += IndexAt(sdk::Data<void>(shape), shape.dtype, axis);
    }
  }
};

struct InvertPermutationKernel {
  void Run(sdk::RunContext c) const {
    const View& x = c.input_view(0);
    const int64_t n = sdk::Count(x);
    for (int64_t i = 0; i < n; ++i) Put(c.output_view(0), i, -1);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = IndexAt(sdk::Data<void>(x), x.dtype, i);
      if (at < 0 || at >= n) sdk::Fail(TENON_INVALID_ARGUMENT, at, " is not between 0 and ", n);
      if (IndexAt(sdk::Data<void>(c.output_view(0)), x.dtype, at) != -1) {
        sdk::Fail(TENON_INVALID_ARGUMENT, at, " is duplicated in the input.");
      }
      Put(c.output_view(0), at, i);
    }
  }
};

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
    CpuKernel<BroadcastGradientArgsKernel>("BroadcastGradientArgs", {.dynamic_outputs = 3});
TENON_CPU_KERNEL(ConcatOffset) = CpuKernel<ConcatOffsetKernel>("ConcatOffset", {});
TENON_CPU_KERNEL(InvertPermutation) = CpuKernel<InvertPermutationKernel>("InvertPermutation", {});
TENON_CPU_KERNEL(Reshape) = CpuKernel<ViewKernel>("Reshape", kView);
TENON_CPU_KERNEL(ExpandDims) = CpuKernel<ViewKernel>("ExpandDims", kView);
TENON_CPU_KERNEL(Squeeze) = CpuKernel<ViewKernel>("Squeeze", kView);
TENON_CPU_KERNEL(EnsureShape) = CpuKernel<ViewKernel>("EnsureShape", kView);

}  // namespace tenon::cpu
