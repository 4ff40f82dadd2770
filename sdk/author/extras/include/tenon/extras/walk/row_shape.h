// SPDX-License-Identifier: Apache-2.0
// Rows that are named by number: the shapes of stitches, partitions and sums of segments.
#ifndef TENON_SDK_WALK_ROW_SHAPE_H_
#define TENON_SDK_WALK_ROW_SHAPE_H_

#include <algorithm>
#include <array>

#include "tenon/sdk/kernel/kernel.h"
#include "tenon/extras/walk/strided_walk.h"

namespace tenon::sdk {

// The dims of data behind those of `prefix`, with which it must begin (INVALID_ARGUMENT, with `name`). Borrows from
// data.
inline Dims TailOf(const char* name, Dims prefix, Dims data) {
  if (prefix.size() > data.size() || !std::equal(prefix.begin(), prefix.end(), data.begin())) {
    Fail(TENON_INVALID_ARGUMENT, name, " of shape ", prefix, " are no prefix of data's shape ", data);
  }
  return data.subspan(prefix.size());
}

// Output `index` as `rows` rows of the shape `tail`.
inline void AllocRows(const RunContext& c, int32_t index, int64_t rows, Dims tail) {
  CheckRank(tail);
  std::array<int64_t, kMaxRank + 1> shape = {rows};
  std::copy(tail.begin(), tail.end(), shape.begin() + 1);
  c.AllocOutput(index, {shape.data(), tail.size() + 1});
}

// DynamicStitch: `n` tensors of indices, and then as many of data, each of its indices' shape followed by the dims of a
// row. INVALID_ARGUMENT when the elements do not fit.
struct StitchShape {
  StitchShape(const tenon_tensor_view* const* inputs, int32_t input_count) : n(input_count / 2) {
    const Dims first = DimsOf(*inputs[n]);
    tail = first.subspan(std::min(static_cast<size_t>(inputs[0]->dl.ndim), first.size()));
    width = Count(tail);
    for (int32_t k = 0; k < n; ++k) {
      if (Multiply(Count(*inputs[k]), width) == Count(*inputs[n + k])) continue;
      Fail(TENON_INVALID_ARGUMENT, "data[", k, "] of shape ", DimsOf(*inputs[n + k]), " does not fit indices of shape ",
           DimsOf(*inputs[k]));
    }
  }
  int32_t n;
  Dims tail;
  int64_t width;  // elements of a row
};

// SparseSegmentSum and its kind, (data or grad, indices, segment_ids, ...): how many rows are named, and the elements
// of one.
struct SegmentShape {
  explicit SegmentShape(const tenon_tensor_view* const* inputs) : count(Count(*inputs[1])) {
    if (count != Count(*inputs[2]))
      Fail(TENON_INVALID_ARGUMENT, count, " indices and ", Count(*inputs[2]), " segment_ids");
    const Dims dims = DimsOf(*inputs[0]);
    if (dims.empty()) Fail(TENON_INVALID_ARGUMENT, "data must have rows; it is a scalar");
    tail = dims.subspan(1);
    width = Count(tail);
    rows = dims[0];
  }
  int64_t count, width, rows;
  Dims tail;
};

}  // namespace tenon::sdk

#endif  // TENON_SDK_WALK_ROW_SHAPE_H_
