// SPDX-License-Identifier: Apache-2.0
// Strided walks on a GPU, the widest unit that moves bytes, and dtypes of indices.
#ifndef TENON_DEVICES_GPU_KERNELS_MOVE_H_
#define TENON_DEVICES_GPU_KERNELS_MOVE_H_

#include <algorithm>
#include <array>
#include <bit>

#include "code/move.h"
#include "kernels/kernel.h"
#include "tenon/extras/walk/strided_walk.h"

namespace tenon::gpu {

// A kernel's code for units of 1, 2, 4, 8 and 16 bytes. What is moved is first all in bytes; the addresses of a run
// decide.
class UnitCode {
 public:
  UnitCode() = default;
  // Adds nothing that is not a multiple of the largest unit.
  UnitCode(std::string_view name, int64_t most, Shapes& s) : most_(most) {
    for (int64_t unit = 1, i = 0; unit <= most; unit *= 2, ++i)
      code_[static_cast<size_t>(i)] = s.Code(sdk::Concat(name, "_", unit));
  }
  // The largest unit, up to 16, that divides every one of these.
  template <class... Numbers>
  static int64_t Dividing(Numbers... bytes) {
    const uint64_t together = (UINT64_C(16) | ... | static_cast<uint64_t>(bytes));
    return static_cast<int64_t>(together & (0 - together));
  }
  int64_t most() const { return most_; }
  template <class... Addresses>
  int64_t For(Addresses... addresses) const {
    return Dividing(most_, reinterpret_cast<uintptr_t>(addresses)...);
  }
  Function operator[](int64_t unit) const {
    return code_[static_cast<size_t>(std::countr_zero(static_cast<uint64_t>(unit)))];
  }

 private:
  int64_t most_ = 1;
  std::array<Function, 5> code_ = {};
};

// As Flat(count, items), for grids that get another dim.
inline Grid GridOver(const Launcher& on, int64_t count, int64_t items) {
  const int64_t per_block = kFlatThreads * items, most = static_cast<int64_t>(on.card().facts().processors) * 16;
  return {{static_cast<uint32_t>(std::clamp<int64_t>((count + per_block - 1) / per_block, 1, most)), 1, 1},
          kFlatThreads};
}

// Of indices in device memory.
inline IndexKind KindOf(uint32_t dtype) {
  switch (dtype) {
    case TENON_DT_INT32: return IndexKind::kInt32;
    case TENON_DT_INT64: return IndexKind::kInt64;
    case TENON_DT_INT16: return IndexKind::kInt16;
    case TENON_DT_UINT16: return IndexKind::kUint16;
    case TENON_DT_INT8: return IndexKind::kInt8;
    case TENON_DT_UINT8: return IndexKind::kUint8;
    default: sdk::Fail(TENON_UNIMPLEMENTED, "indices of dtype ", sdk::TypeName(dtype));
  }
}

class Walk : public sdk::StridedWalk {
  friend class Moving;
};

// One walk, planned: a copy, a walk by units, or a transpose through tiles.
class Moving {
 public:
  Moving() = default;
  Moving(const Walk& walk, int64_t element_bytes, Shapes& s);
  void Launch(Launcher& on, const char* source, char* target) const;
  int64_t total() const { return total_; }  // elements

 private:
  bool PlanSwap(const Walk& walk, int64_t element_bytes, Shapes& s);
  void LaunchWalk(Launcher& on, const char* source, char* target) const;

  int64_t total_ = 0, source_offset_ = 0, target_offset_ = 0;
  // In bytes: rows of `width` by the dims before.
  int64_t width_ = 0, rows_ = 0;
  int rank_ = 0;
  std::array<int64_t, kMostMoveDims> dims_ = {}, source_strides_ = {}, target_strides_ = {};
  UnitCode code_;
  Function swap_code_ = nullptr;
  SwapParams swap_ = {};
};
static_assert(kMostMoveDims >= sdk::kMaxDims);

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_KERNELS_MOVE_H_
