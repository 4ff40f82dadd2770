// SPDX-License-Identifier: Apache-2.0
// The shape of a sparse tensor that is reshaped.
#ifndef TENON_SDK_WALK_SPARSE_SHAPE_H_
#define TENON_SDK_WALK_SPARSE_SHAPE_H_

#include <cstdint>

#include "tenon/sdk/kernel/kernel.h"

namespace tenon::sdk {

// SparseReshape: position, value and limit of an index that is none.
inline constexpr char kSparseIndexText[] = "input_indices[{0}] has {1}, which is not in [0, {2})";

// `wanted`, of which one may be -1, as the shape of as many elements as `shape` has; out: [rank]. INVALID_ARGUMENT, in
// TensorFlow's words, when there is none.
inline void FillSparseShape(const int64_t* shape, int64_t shape_rank, const int64_t* wanted, int64_t rank,
                            int64_t* out) {
  int64_t total = 1;
  for (int64_t i = 0; i < shape_rank; ++i) {
    if (shape[i] < 0) Fail(TENON_INVALID_ARGUMENT, "input_shape[", i, "] = ", shape[i], " is negative");
    total = Multiply(total, shape[i]);
  }
  int64_t unknown = -1, product = 1;
  for (int64_t i = 0; i < rank; ++i) {
    if (wanted[i] == -1) {
      if (unknown >= 0)
        Fail(TENON_INVALID_ARGUMENT, "only one output dimension may be -1, not both ", unknown, " and ", i);
      unknown = i;
      continue;
    }
    if (wanted[i] < 0) Fail(TENON_INVALID_ARGUMENT, "size ", i, " must be non-negative, not ", wanted[i]);
    product = Multiply(product, wanted[i]);
    out[i] = wanted[i];
  }
  if (unknown >= 0) {
    if (product == 0)
      Fail(TENON_INVALID_ARGUMENT,
           "reshape cannot infer the missing input size for an empty tensor unless all specified input sizes are "
           "non-zero");
    out[unknown] = total / product;
    product *= out[unknown];
  }
  if (product != total)
    Fail(TENON_INVALID_ARGUMENT, "Input to reshape is a tensor with ", total,
         " dense values, but the requested shape has ", product);
}

}  // namespace tenon::sdk

#endif  // TENON_SDK_WALK_SPARSE_SHAPE_H_
