// SPDX-License-Identifier: Apache-2.0
// The words of the host API that every header of the data library uses.
#ifndef TENON_DATA_BASE_H_
#define TENON_DATA_BASE_H_

#include "tenon/tenon.h"

namespace tenon::data {

using host::Code, host::DType, host::Name, host::Result, host::Session, host::Shape, host::Status, host::Tensor;

}  // namespace tenon::data

#endif  // TENON_DATA_BASE_H_
