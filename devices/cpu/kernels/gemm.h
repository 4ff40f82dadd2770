// SPDX-License-Identifier: Apache-2.0
// Matrix multiplication of float and double, and the tile that it, and convolution, are made of.
//
// The tile: up to kTileRows rows of C and kTileColumns columns stay in registers while the sum runs. Rows of A are given
// by pointers and walked in segments, so that a row may be a row or column of a matrix or a patch of a padded image: no
// copy of A is made. Rows of B are contiguous.
//
// Gemm() blocks the sum by kDepth, copies a panel of B where its rows are not contiguous or far apart (on the stack), and
// shares rows or columns among threads. Every element of C is summed in one fixed order, so the answer does not depend
// on the sharing. Nothing is allocated. This replaces Eigen's product, which allocates its blocks and reaches about half of
// the rate on AVX-512.
#ifndef TENON_DEVICES_CPU_KERNELS_GEMM_H_
#define TENON_DEVICES_CPU_KERNELS_GEMM_H_

#include <cstdint>

#include "kernels/simd.h"
#include "tenon/sdk/kernel.h"

namespace tenon::cpu {

inline constexpr int kTileRows = kSimdRegisters == 32 ? 8 : 4;
template <class T>
inline constexpr int kTileColumns = 2 * Simd<T>::kLanes;

// How each row of A is walked: element (s, k) of row r stands at rows[r][offsets[s] + k * step].
struct Segments {
  const int64_t* offsets;  // [count]
  int64_t count;
  int64_t length;
  int64_t step;
};

// c[i][j] (+)= sum over (s, k) of A(i, s, k) * b[(s * length + k) * b_stride + j], for i < row_count <= kTileRows and
// j < columns.
template <class T>
void MultiplyTile(const T* const* rows, int row_count, const Segments& a, const T* b, int64_t b_stride, T* c,
                  int64_t c_stride, int64_t columns, bool accumulate);

// C[m, n] (row-major, c_stride) (+)= A[m, k] B[k, n]; A and B have a stride for each index.
struct GemmShape {
  int64_t m, n, k;
  int64_t a_row, a_column;
  int64_t b_row, b_column;
  int64_t c_stride;
};
template <class T>
void Gemm(const GemmShape& shape, const T* a, const T* b, T* c, bool accumulate);
// The same, shared among threads.
template <class T>
void ParallelGemm(sdk::RunContext context, const GemmShape& shape, const T* a, const T* b, T* c, bool accumulate);

// Rough nanoseconds of that many multiply-adds.
inline double GemmCost(double multiply_adds) { return multiply_adds / (kSimdRegisters == 32 ? 60.0 : 25.0); }

}  // namespace tenon::cpu

#endif  // TENON_DEVICES_CPU_KERNELS_GEMM_H_
