// SPDX-License-Identifier: Apache-2.0
// Elements that kernels of the compiler of chains (fuse/) load and store at once.
#ifndef TENON_DEVICES_GPU_CODE_FUSED_PACK_H_
#define TENON_DEVICES_GPU_CODE_FUSED_PACK_H_

#include "code/grid.h"

namespace tenon::gpu {

template <class T, int kCount>
struct alignas(sizeof(T) * kCount) FusedPack {
  T at[kCount];
};
template <class T, int kCount, class Index>
TENON_GPU_FUNCTION FusedPack<T, kCount> LoadPack(const void* from, Index element) {
  return *reinterpret_cast<const FusedPack<T, kCount>*>(static_cast<const T*>(from) + element);
}
template <class T, int kCount, class Index>
TENON_GPU_FUNCTION void StorePack(void* to, Index element, const FusedPack<T, kCount>& pack) {
  *reinterpret_cast<FusedPack<T, kCount>*>(static_cast<T*>(to) + element) = pack;
}

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_FUSED_PACK_H_
