// SPDX-License-Identifier: Apache-2.0
// The words of the host API that every header of the model library uses.
#ifndef TENON_MODEL_BASE_H_
#define TENON_MODEL_BASE_H_

#include "tenon/tenon.h"

namespace tenon::model {

using host::Code, host::DType, host::Result, host::Runtime, host::Session, host::Shape, host::Status, host::Tensor,
    host::View;

}  // namespace tenon::model

#endif  // TENON_MODEL_BASE_H_
