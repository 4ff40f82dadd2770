// SPDX-License-Identifier: Apache-2.0
// What most kernels that move are: out[place(i)] = value(i).
#ifndef TENON_DEVICES_GPU_CODE_EACH_H_
#define TENON_DEVICES_GPU_CODE_EACH_H_

#include "code/grid.h"
#include "code/index.h"

namespace tenon::gpu {

// target[to] = take(i, &to) for every i below total. Several are under way at once, so that narrow elements keep the
// memory busy too. By 32-bit indices where they suffice.
template <class T, class Take>
TENON_GPU_FUNCTION void ForEach(T* target, int64_t total, const Take& take) {
  const int64_t step = Threads();
  if (total > INT32_MAX) {
    TENON_GPU_ROLLED for (int64_t i = Thread(); i < total; i += step) {
      int64_t to;
      const T value = take(static_cast<uint64_t>(i), &to);
      target[to] = value;
    }
    return;
  }
  for (int64_t i = Thread(); i < total; i += kMoveItems * step) {
    T values[kMoveItems];
    int64_t to[kMoveItems];
    for (int k = 0; k < kMoveItems; ++k) {
      const int64_t at = i + k * step;
      if (at < total) values[k] = take(static_cast<uint32_t>(at), &to[k]);
    }
    for (int k = 0; k < kMoveItems; ++k) {
      if (i + k * step < total) target[to[k]] = values[k];
    }
  }
}

// visit(i) for every i below total.
template <class Visit>
TENON_GPU_FUNCTION void ForEachIndex(int64_t total, const Visit& visit) {
  if (total > INT32_MAX) {
    TENON_GPU_ROLLED for (int64_t i = Thread(); i < total; i += Threads()) visit(static_cast<uint64_t>(i));
  } else {
    TENON_GPU_ROLLED for (int64_t i = Thread(); i < total; i += Threads()) visit(static_cast<uint32_t>(i));
  }
}

// Element i of indices of any integer type.
TENON_GPU_FUNCTION int64_t IndexOf(const IndexTensor& indices, int64_t i) {
  switch (indices.kind) {
    case IndexKind::kInt64: return static_cast<const int64_t*>(indices.at)[i];
    case IndexKind::kInt16: return static_cast<const int16_t*>(indices.at)[i];
    case IndexKind::kUint16: return static_cast<const uint16_t*>(indices.at)[i];
    case IndexKind::kInt8: return static_cast<const int8_t*>(indices.at)[i];
    case IndexKind::kUint8: return static_cast<const uint8_t*>(indices.at)[i];
    default: return static_cast<const int32_t*>(indices.at)[i];
  }
}

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_EACH_H_
