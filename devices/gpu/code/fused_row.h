// SPDX-License-Identifier: Apache-2.0
// Rows of kernels that the compiler of chains makes (fuse/row_source.h).
#ifndef TENON_DEVICES_GPU_CODE_FUSED_ROW_H_
#define TENON_DEVICES_GPU_CODE_FUSED_ROW_H_

#include "code/fused_pack.h"
#include "code/group.h"

namespace tenon::gpu {

// even: packs may begin where the row does.
template <class T, int kCount>
TENON_GPU_FUNCTION FusedPack<T, kCount> LoadOfRow(const T* row, uint32_t element, bool even) {
  if (even) return LoadPack<T, kCount>(row, element);
  FusedPack<T, kCount> pack;
  TENON_GPU_UNROLL_ALL
  for (int k = 0; k < kCount; ++k) pack.at[k] = row[element + k];
  return pack;
}
template <class T, int kCount>
TENON_GPU_FUNCTION void StoreOfRow(T* row, uint32_t element, const FusedPack<T, kCount>& pack, bool even) {
  if (even) return StorePack<T, kCount>(row, element, pack);
  TENON_GPU_UNROLL_ALL
  for (int k = 0; k < kCount; ++k) row[element + k] = pack.at[k];
}

// Sums are added up as reductions do (code/reduction.h): what is in a pack in the type that it is computed in, packs in
// double.
template <int kLanes>
TENON_GPU_FUNCTION double SumOfGroup(double part) {
  return GroupReduce(part, 0.0, kLanes, [](double a, double b) { return a + b; });
}
// The largest of what is no NaN.
template <class A>
TENON_GPU_FUNCTION A Lowest() {
  if constexpr (sizeof(A) == 8) {
    return __builtin_bit_cast(A, uint64_t{0xfff0000000000000});
  } else {
    return __builtin_bit_cast(A, uint32_t{0xff800000});
  }
}
template <class A>
TENON_GPU_FUNCTION A Larger(A most, A x) { return x > most ? x : most; }
template <int kLanes, class A>
TENON_GPU_FUNCTION A MostOfGroup(A part) {
  return GroupReduce(part, Lowest<A>(), kLanes, [](A a, A b) { return Larger(a, b); });
}
template <class T>
TENON_GPU_FUNCTION T RoundedSum(double total) { return static_cast<T>(static_cast<Wide<T>>(total)); }

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_FUSED_ROW_H_
