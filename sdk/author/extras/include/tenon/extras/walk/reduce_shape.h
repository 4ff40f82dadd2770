// SPDX-License-Identifier: Apache-2.0
// Reductions as a short list of dims, each kept or reduced: adjacent dims of one kind are merged, dims of 1 dropped.
#ifndef TENON_SDK_WALK_REDUCE_SHAPE_H_
#define TENON_SDK_WALK_REDUCE_SHAPE_H_

#include <array>
#include <cstdint>

#include "tenon/sdk/kernel/element.h"
#include "tenon/extras/walk/broadcast.h"

namespace tenon::sdk {

// Dims slowest first; they alternate between kept and reduced.
struct ReduceShape {
  int rank = 0;
  std::array<int64_t, kMaxDims> dims = {};
  std::array<bool, kMaxDims> reduced = {};
  int64_t outputs = 1;  // elements of the result
  int64_t inputs = 1;   // elements that each sums

  ReduceShape() = default;
  // axes: axis_count indices in host memory, of one of IndexAt's types, negative ones counted from the end.
  // INVALID_ARGUMENT for one that is outside or stands twice, UNIMPLEMENTED beyond kMaxDims alternations.
  ReduceShape(Dims input, const void* axes, uint32_t axes_dtype, int64_t axis_count);
};

inline ReduceShape::ReduceShape(Dims input, const void* axes, uint32_t axes_dtype, int64_t axis_count) {
  std::array<bool, TENON_MAX_RANK + 1> chosen = {};
  const int64_t input_rank = static_cast<int64_t>(input.size());
  for (int64_t i = 0; i < axis_count; ++i) {
    const int64_t axis = IndexAt(axes, axes_dtype, i);
    if (axis < -input_rank || axis >= input_rank) {
      Fail(TENON_INVALID_ARGUMENT, "axis ", axis, " of a reduction of shape ", input, " is outside [", -input_rank,
                ", ", input_rank, ")");
    }
    const auto place = static_cast<size_t>(axis < 0 ? axis + input_rank : axis);
    if (chosen[place]) Fail(TENON_INVALID_ARGUMENT, "axis ", axis, " stands twice among the axes of ", input);
    chosen[place] = true;
  }
  for (size_t i = 0; i < input.size(); ++i) {
    const int64_t dim = input[i];
    (chosen[i] ? inputs : outputs) *= dim;
    if (dim == 1) continue;
    if (rank > 0 && reduced[static_cast<size_t>(rank - 1)] == chosen[i]) {
      dims[static_cast<size_t>(rank - 1)] *= dim;
      continue;
    }
    if (rank == kMaxDims) {
      Fail(TENON_UNIMPLEMENTED, "a reduction of ", input, " alternates more than ", kMaxDims, " times");
    }
    dims[static_cast<size_t>(rank)] = dim;
    reduced[static_cast<size_t>(rank)] = chosen[i];
    ++rank;
  }
}

}  // namespace tenon::sdk

#endif  // TENON_SDK_WALK_REDUCE_SHAPE_H_
