// SPDX-License-Identifier: Apache-2.0
// Views of tensors, without a tensor of their own.
#ifndef TENON_CORE_TENSOR_VIEW_H_
#define TENON_CORE_TENSOR_VIEW_H_

#include <algorithm>

#include "core/tensor/buffer.h"
#include "core/tensor/shape.h"

namespace tenon {

inline void* DataOf(const tenon_tensor_view& view) { return static_cast<char*>(view.dl.data) + view.dl.byte_offset; }
inline Shape ShapeOf(const tenon_tensor_view& view) { return Shape(tenon_shape{view.dl.shape, view.dl.ndim, 0}); }
inline bool SameTypeAndShape(const tenon_tensor_view& a, const tenon_tensor_view& b) {
  return a.dtype == b.dtype && a.dl.ndim == b.dl.ndim && std::equal(a.dl.shape, a.dl.shape + a.dl.ndim, b.dl.shape);
}
// A view's fields for contiguous host data. Dims and buffer are borrowed.
tenon_tensor_view MakeView(DType dtype, tenon_shape shape, void* data, uint64_t byte_size, Buffer* buffer);

}  // namespace tenon

#endif  // TENON_CORE_TENSOR_VIEW_H_
