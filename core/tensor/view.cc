// SPDX-License-Identifier: Apache-2.0
#include "core/tensor/view.h"

namespace tenon {

tenon_tensor_view MakeView(DType dtype, tenon_shape shape, void* data, uint64_t byte_size, Buffer* buffer) {
  tenon_tensor_view view{};
  view.dl.data = data;
  view.dl.device_type = 1;
  view.dl.ndim = shape.rank;
  view.dl.dtype = ToDlType(dtype);
  view.dl.shape = const_cast<int64_t*>(shape.dims);
  view.dtype = dtype;
  view.byte_size = byte_size;
  view.flags = TENON_VIEW_HOST_VISIBLE | ((reinterpret_cast<uintptr_t>(data) & 63u) == 0 ? TENON_VIEW_ALIGNED64 : 0u);
  view.buffer = buffer;
  return view;
}

}  // namespace tenon
