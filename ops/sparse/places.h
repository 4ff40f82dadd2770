// SPDX-License-Identifier: Apache-2.0
// The indices of a sparse tensor: [N, rank], each a place within its dense shape. Failures are INVALID_ARGUMENT,
// thrown, in TensorFlow's words.
#ifndef TENON_OPS_SPARSE_PLACES_H_
#define TENON_OPS_SPARSE_PLACES_H_

#include <algorithm>

#include "tenon/sdk/kernel/kernel.h"

namespace tenon::ops::sparse {

enum class Order { kAny, kSorted };  // kSorted: rising, and none stands twice

// Less than 0, 0, more than 0, as index i comes before index k, is the same, comes behind it.
inline int Compare(const int64_t* a, const int64_t* b, size_t rank) {
  for (size_t d = 0; d < rank; ++d)
    if (a[d] != b[d]) return a[d] < b[d] ? -1 : 1;
  return 0;
}

// indices: int64 [N, rank of shape].
inline void CheckPlaces(const sdk::RunContext& c, const tenon_tensor_view& indices, sdk::Dims shape, Order order) {
  const int64_t count = sdk::DimsOf(indices)[0];
  const auto* at = sdk::Data<const int64_t>(indices);
  sdk::CancelPoll poll(c);
  for (int64_t i = 0; i < count; ++i, at += shape.size(), poll(static_cast<int64_t>(shape.size()) + 1)) {
    const sdk::Dims place(at, shape.size());
    for (size_t d = 0; d < shape.size(); ++d)
      if (place[d] < 0 || place[d] >= shape[d])
        sdk::Fail(TENON_INVALID_ARGUMENT, "indices[", i, "] = ", place, " is out of bounds: need 0 <= index < ", shape);
    if (order == Order::kAny || i == 0) continue;
    const int difference = Compare(at - shape.size(), at, shape.size());
    if (difference == 0) sdk::Fail(TENON_INVALID_ARGUMENT, "indices[", i, "] = ", place, " is repeated");
    if (difference > 0)
      sdk::Fail(TENON_INVALID_ARGUMENT, "indices[", i, "] = ", place,
                " is out of order. Many sparse ops require sorted indices. SparseReorder sorts them.");
  }
}

}  // namespace tenon::ops::sparse
#endif  // TENON_OPS_SPARSE_PLACES_H_
