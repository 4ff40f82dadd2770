// SPDX-License-Identifier: Apache-2.0
// What convolution and pooling share on the CPU, beyond the windows' geometry (tenon/sdk/window.h).
#ifndef TENON_DEVICES_CPU_KERNELS_WINDOW_H_
#define TENON_DEVICES_CPU_KERNELS_WINDOW_H_

#include <algorithm>

#include "kernels/types.h"
#include "tenon/sdk/window.h"

namespace tenon::cpu {

using sdk::Image;
using sdk::WindowAttributes;
using sdk::WindowDim;

// [rows, columns] to [columns, rows] for one image of a batch.
template <class T>
void TransposePlane(const T* from, int64_t rows, int64_t columns, T* to) {
  constexpr int64_t kBlock = 16;
  for (int64_t r0 = 0; r0 < rows; r0 += kBlock) {
    const int64_t r1 = std::min(rows, r0 + kBlock);
    for (int64_t k0 = 0; k0 < columns; k0 += kBlock) {
      const int64_t k1 = std::min(columns, k0 + kBlock);
      for (int64_t r = r0; r < r1; ++r) {
        for (int64_t k = k0; k < k1; ++k) to[k * rows + r] = from[r * columns + k];
      }
    }
  }
}

}  // namespace tenon::cpu

#endif  // TENON_DEVICES_CPU_KERNELS_WINDOW_H_
