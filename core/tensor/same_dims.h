// SPDX-License-Identifier: Apache-2.0
#ifndef TENON_CORE_TENSOR_SAME_DIMS_H_
#define TENON_CORE_TENSOR_SAME_DIMS_H_

#include <cstring>

#include "core/tensor/buffer.h"

namespace tenon {

inline bool SameDims(const Buffer& buffer, tenon_shape shape) {
  return buffer.rank == shape.rank &&
         (shape.rank == 0 ||
          std::memcmp(buffer.dims, shape.dims, sizeof(int64_t) * static_cast<size_t>(shape.rank)) == 0);
}

}  // namespace tenon

#endif  // TENON_CORE_TENSOR_SAME_DIMS_H_
