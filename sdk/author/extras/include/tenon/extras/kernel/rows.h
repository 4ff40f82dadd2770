// SPDX-License-Identifier: Apache-2.0
// Rows and other parts of tensors, for kernels that keep them: queues, lists, datasets.
#ifndef TENON_SDK_KERNEL_ROWS_H_
#define TENON_SDK_KERNEL_ROWS_H_

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "tenon/sdk/kernel/kept_tensor.h"
#include "tenon/sdk/kernel/string_tensor.h"
#include "tenon/sdk/shape.h"

namespace tenon::sdk {

inline Shape ShapeOf(Dims dims) { return Shape(std::vector<int64_t>(dims.begin(), dims.end())); }
inline Shape ShapeOf(const tenon_tensor_view& view) { return ShapeOf(DimsOf(view)); }

// Whether a known shape is of those that `wanted` leaves open.
inline bool Fits(const Shape& shape, const Shape& wanted) {
  if (!wanted.known_rank()) return true;
  bool fits = shape.rank() == wanted.rank();
  for (int i = 0; fits && i < shape.rank(); ++i) fits = wanted[i] < 0 || wanted[i] == shape[i];
  return fits;
}

// Calls function(source, target, count) for each run of elements that lies together in both, where a box of shape
// `inner` stands in the corner of one of shape `outer`; positions are elements from the first.
template <class Function>
void ForEachRun(Dims inner, Dims outer, int64_t source, int64_t target, const Function& function) {
  if (std::equal(inner.begin(), inner.end(), outer.begin())) return function(source, target, Count(inner));
  const int64_t source_step = Count(inner.subspan(1)), target_step = Count(outer.subspan(1));
  for (int64_t i = 0; i < inner[0]; ++i)
    ForEachRun(inner.subspan(1), outer.subspan(1), source + i * source_step, target + i * target_step, function);
}

// A copy of the elements of `from` from `first` on, as a tensor of these dims that make(dtype, dims, extra_bytes)
// gives: plain types and strings. UNIMPLEMENTED, thrown, for others.
template <class Make>
KeptTensor CopyPart(const Make& make, const tenon_tensor_view& from, int64_t first, Dims dims) {
  const int64_t count = Count(dims);
  if (from.dtype == TENON_DT_STRING) {
    std::vector<std::string_view> texts;
    texts.reserve(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) texts.push_back(StringAt(from, first + i));
    KeptTensor copy = make(TENON_DT_STRING, dims, BytesOf(texts));
    WriteStrings(Data<char>(copy.view()), texts);
    return copy;
  }
  const uint64_t size = ElementSize(from.dtype);
  if (size == 0) Fail(TENON_UNIMPLEMENTED, "a part of a tensor of ", TypeName(from.dtype), " cannot be kept");
  KeptTensor copy = make(from.dtype, dims, uint64_t{0});
  if (count != 0)
    std::memcpy(Data<char>(copy.view()), Data<const char>(from) + static_cast<uint64_t>(first) * size,
                static_cast<uint64_t>(count) * size);
  return copy;
}

}  // namespace tenon::sdk
#endif  // TENON_SDK_KERNEL_ROWS_H_
