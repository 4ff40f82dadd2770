// SPDX-License-Identifier: Apache-2.0
// What may be wrong with a view that somebody else made: readers believe its shape, its size, where it lies, and its
// strings' cells.
#ifndef TENON_CORE_TENSOR_VIEW_CHECK_H_
#define TENON_CORE_TENSOR_VIEW_CHECK_H_

#include <string>

#include "core/tensor/view.h"

namespace tenon {

// Of a value in a buffer. "byte_size 3 and a shape of 8 bytes"; empty: nothing is wrong. Strings' cells are not looked
// at.
std::string FaultOf(const tenon_tensor_view& view);
// Of strings in host memory, which lie in the view's buffer, or, without one, are their cells alone. Empty also of
// other types.
std::string FaultOfCells(const tenon_tensor_view& view);
// Of memory that a result may be put into.
std::string FaultOfPlace(const tenon_tensor_view& place);

}  // namespace tenon

#endif  // TENON_CORE_TENSOR_VIEW_CHECK_H_
