// SPDX-License-Identifier: Apache-2.0
// The matrix unit's arithmetic: products of float matrices, summed as the array sums.
//
// Within a fold a column adds its products from the first row to the last, and the accumulator adds the folds in order,
// all in float32. In bfloat16 both factors are rounded first, and their products are exact in float32.
#ifndef TENON_DEVICES_TPU_SIM_KERNELS_PRODUCT_H_
#define TENON_DEVICES_TPU_SIM_KERNELS_PRODUCT_H_

#include <cstdint>

#include "tenon/sdk/kernel/element.h"

namespace tenon::tpu_sim {

using MatrixTypes = sdk::Types<float, sdk::Bfloat16>;

// An element on its way into the array.
template <class T>
float Factor(T value, bool round) {
  const auto plain = static_cast<float>(value);
  return round ? static_cast<float>(sdk::Bfloat16(plain)) : plain;
}

// A left matrix: element (i, p) is data[i * row + p * column].
struct Left {
  const float* data;
  int64_t row, column;
};
// sums[m,n] = left[m,k] right[k,n], or is added to; right and sums are contiguous. fold: rows of the array.
void MultiplyFolds(Left left, const float* right, int64_t m, int64_t n, int64_t k, int64_t fold, bool add, float* sums);

// rows x columns of a matrix whose element (i, j) is data[i * row + j * column].
template <class T>
void Fetch(const T* data, int64_t rows, int64_t columns, int64_t row, int64_t column, bool round, float* out) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) out[i * columns + j] = Factor(data[i * row + j * column], round);
  }
}

}  // namespace tenon::tpu_sim

#endif  // TENON_DEVICES_TPU_SIM_KERNELS_PRODUCT_H_
