// SPDX-License-Identifier: Apache-2.0
// How Gather and its kind walk: rows of params by index.
#ifndef TENON_SDK_WALK_GATHER_SHAPE_H_
#define TENON_SDK_WALK_GATHER_SHAPE_H_

#include <cstdint>

#include "tenon/sdk/kernel/kernel.h"

namespace tenon::sdk {

// params as [batch, outer, rows, inner]; out as [batch, outer, indices, inner]; inner in bytes.
struct GatherShape {
  int64_t batch = 1, outer = 1, rows = 0, indices = 0, inner = 0;
};

// axis and batch_dims count from the end when negative; inner of strings is in cells of 16 bytes. INVALID_ARGUMENT when
// they do not fit the shapes, of which the first batch_dims dims are alike. The indices themselves are not read.
inline GatherShape GatherShapeOf(const tenon_tensor_view& params, const tenon_tensor_view& indices, int64_t axis,
                                 int64_t batch_dims) {
  const Dims p = DimsOf(params);
  const Dims i = DimsOf(indices);
  const int64_t rank = static_cast<int64_t>(p.size());
  const int64_t index_rank = static_cast<int64_t>(i.size());
  const int64_t batch = batch_dims < 0 ? batch_dims + index_rank : batch_dims;
  const int64_t at = axis < 0 ? axis + rank : axis;
  if (at < 0 || at >= rank) Fail(TENON_INVALID_ARGUMENT, "axis ", axis, " is outside params of shape ", p);
  if (batch < 0 || batch > index_rank || batch > at) {
    Fail(TENON_INVALID_ARGUMENT, "batch_dims ", batch_dims, " does not fit indices of shape ", i, " and axis ",
              axis);
  }
  GatherShape g;
  for (int64_t d = 0; d < batch; ++d) {
    if (p[static_cast<size_t>(d)] != i[static_cast<size_t>(d)]) {
      Fail(TENON_INVALID_ARGUMENT, "params ", p, " and indices ", i, " differ in batch dim ", d);
    }
    g.batch *= p[static_cast<size_t>(d)];
  }
  g.outer = Count(p.subspan(static_cast<size_t>(batch), static_cast<size_t>(at - batch)));
  g.rows = p[static_cast<size_t>(at)];
  g.inner = Count(p.subspan(static_cast<size_t>(at) + 1)) *
            (params.dtype == TENON_DT_STRING ? 16 : static_cast<int64_t>(ElementSize(params.dtype)));
  g.indices = Count(i.subspan(static_cast<size_t>(batch)));
  return g;
}

}  // namespace tenon::sdk

#endif  // TENON_SDK_WALK_GATHER_SHAPE_H_
