// SPDX-License-Identifier: Apache-2.0
// The host's half of slices that indices name, and of changing them (code/gather.h).
#ifndef TENON_DEVICES_GPU_KERNELS_SLICES_H_
#define TENON_DEVICES_GPU_KERNELS_SLICES_H_

#include <bit>

#include "code/gather.h"
#include "kernels/move.h"

namespace tenon::gpu {

struct SliceShape {
  SliceShape() = default;
  SliceShape(const View& indices, sdk::Dims dims, BadIndices bad) {
    const sdk::Dims shape = sdk::DimsOf(indices);
    if (shape.empty()) sdk::Fail(TENON_INVALID_ARGUMENT, "indices must be at least a vector");
    const int64_t depth = shape.back();
    if (depth > static_cast<int64_t>(dims.size())) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "indices of shape ", shape, " name ", depth, " dims of a tensor of shape ",
                dims);
    }
    if (depth > kMostIndexDepth)
      sdk::Fail(TENON_UNIMPLEMENTED, "GPUs index into at most ", kMostIndexDepth, " dims; these are ", depth);
    count = sdk::Count(shape.first(shape.size() - 1));
    width = sdk::Count(dims.subspan(static_cast<size_t>(depth)));
    slices.indices.kind = KindOf(indices.dtype);
    slices.depth = static_cast<int32_t>(depth);
    slices.bad = bad;
    std::copy_n(dims.begin(), depth, slices.dims);
  }
  // Rows, one for each index.
  SliceShape(const View& indices, int64_t rows, int64_t row, BadIndices bad) : count(sdk::Count(indices)), width(row) {
    slices.indices.kind = KindOf(indices.dtype);
    slices.depth = 1;
    slices.bad = bad;
    slices.dims[0] = rows;
  }
  Slices At(const char* indices, FaultSite site) const {
    Slices s = slices;
    s.indices.at = indices;
    s.site = site;
    return s;
  }
  Slices slices = {};
  int64_t count = 0, width = 0;  // slices that are named, and the elements of one
};

enum class Change { kAdd, kSubtract, kLeast, kLargest, kPut, kMultiply, kDivide, kDivideByAny, kMinimum, kMaximum };
constexpr std::string_view NameOf(Change change) {
  constexpr std::string_view kNames[] = {"ScatterAdd",     "ScatterSub",    "ScatterMin", "ScatterMax",
                                         "ScatterPut",     "ScatterMul",    "ScatterDiv", "ScatterAnyDiv",
                                         "ScatterMinimum", "ScatterMaximum"};
  return kNames[static_cast<size_t>(change)];
}

// The code of one change of elements of one dtype, and the memory that it needs for so many updates.
template <Change kChange>
class Changing {
 public:
  Changing() = default;
  Changing(uint32_t dtype, int64_t updates, const char* text, Shapes& s)
      : element_(static_cast<int64_t>(sdk::ElementSize(dtype))), site_(s.Site(TENON_INVALID_ARGUMENT, text)) {
    if constexpr (kChange == Change::kPut) {
      put_ = UnitCode(NameOf(kChange), 16, s);
      code_ = s.Code("ScatterClaim");
      table_ = std::bit_ceil(static_cast<uint64_t>(sdk::Multiply(updates, 2)) + 1);
      const auto table = sdk::Multiply(static_cast<int64_t>(table_), 8);
      keys_ = s.Workspace(table);
      last_ = s.Workspace(table);
      slots_ = s.Workspace(sdk::Multiply(updates, 8));
    } else {
      code_ = s.Code(NameOf(kChange), dtype);
    }
    if constexpr (kChange == Change::kDivide || kChange == Change::kDivideByAny) {
      const bool whole = dtype == TENON_DT_INT32 || dtype == TENON_DT_INT64;
      bad_value_ = s.Site(TENON_INVALID_ARGUMENT, whole ? "Integer division by zero" : "updates must not contain 0");
    }
  }
  void Launch(Launcher& on, const SliceShape& shape, bool one_for_all, const char* indices, const char* updates,
              char* out) const {
    if (shape.count == 0 || shape.width == 0) return;
    const Slices slices = shape.At(indices, on.Site(site_));
    if constexpr (kChange == Change::kPut) {
      const auto bytes = static_cast<int64_t>(table_) * 8;
      auto *const keys = on.Workspace<uint64_t>(keys_), *const last = on.Workspace<uint64_t>(last_);
      auto* const slots = on.Workspace<int64_t>(slots_);
      on.Fill(keys, 0xff, bytes);
      on.Fill(last, 0, bytes);
      on(code_, Flat(shape.count), ClaimParams{slices, shape.count, table_ - 1, keys, last, slots});
      const int64_t width = shape.width * element_,
                    unit = UnitCode::Dividing(put_.For(updates, out), one_for_all ? element_ : width);
      const Dim inner = DimOf(width / unit);
      on(put_[unit], Flat(shape.count * inner.size),
         PutParams{keys, last, slots, updates, out, shape.count * inner.size, one_for_all ? element_ / unit : 0,
                   inner});
    } else {
      const int64_t total = shape.count * shape.width;
      on(code_, Flat(total),
         ScatterParams{slices, updates, out, total, DimOf(shape.width), one_for_all ? 1 : 0, on.Site(bad_value_)});
    }
  }

 private:
  int64_t element_ = 0;
  uint64_t site_ = 0, bad_value_ = 0, table_ = 0;
  int64_t keys_ = 0, last_ = 0, slots_ = 0;
  Function code_ = nullptr;
  UnitCode put_;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_KERNELS_SLICES_H_
