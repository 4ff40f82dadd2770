// SPDX-License-Identifier: Apache-2.0
// Elements that device code loads and stores at once.
#ifndef TENON_DEVICES_GPU_CODE_PACK_H_
#define TENON_DEVICES_GPU_CODE_PACK_H_

#include "code/grid.h"

namespace tenon::gpu {

template <class T>
struct alignas(16) Pack {
  static constexpr int kCount = 16 / sizeof(T);
  T at[kCount];
};
// Whether packs may begin at both addresses.
TENON_GPU_FUNCTION bool IsEven(const void* a, const void* b) {
  return ((reinterpret_cast<uintptr_t>(a) | reinterpret_cast<uintptr_t>(b)) & 15) == 0;
}

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_PACK_H_
