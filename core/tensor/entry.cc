// SPDX-License-Identifier: Apache-2.0
#include "core/tensor/entry.h"

#include "core/tensor/view_check.h"

namespace tenon {

Status CheckEntry(const tenon_tensor_view& value, DType declared) {
  if (value.dtype != declared)
    return InvalidArgument(StrCat("the value is ", TypeName(value.dtype), ShapeOf(value).ToString(),
                                  ", and it is read as ", TypeName(declared)));
  const std::string fault = FaultOf(value);
  return fault.empty() ? Status::Ok() : InvalidArgument(StrCat("the value has ", fault));
}

}  // namespace tenon
