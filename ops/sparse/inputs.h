// SPDX-License-Identifier: Apache-2.0
// What shape functions of this package share.
#ifndef TENON_OPS_SPARSE_INPUTS_H_
#define TENON_OPS_SPARSE_INPUTS_H_

#include "tenon/sdk/op/op.h"

namespace tenon::ops::sparse {

// Inputs first (indices), first + 1 (values) and first + 2 (dense shape) are a sparse tensor.
inline void SparseInput(sdk::ShapeContext& c, int first) {
  const sdk::Shape indices = c.WithRank(first, 2), values = c.WithRank(first + 1, 1), shape = c.WithRank(first + 2, 1);
  c.Merge(indices[0], values[0], "the numbers of indices and of values");
  c.Merge(indices[1], shape[0], "the columns of the indices and the numbers of the dense shape");
}

}  // namespace tenon::ops::sparse

#endif  // TENON_OPS_SPARSE_INPUTS_H_
