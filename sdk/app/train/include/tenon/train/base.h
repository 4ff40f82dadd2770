// SPDX-License-Identifier: Apache-2.0
// The words of the host API that every header of the training library uses.
#ifndef TENON_TRAIN_BASE_H_
#define TENON_TRAIN_BASE_H_

#include "tenon/tenon.h"

namespace tenon::train {

using host::Attr;
using host::Attrs;
using host::Code;
using host::DType;
using host::Graph;
using host::Name;
using host::Operation;
using host::Output;
using host::Result;
using host::Runtime;
using host::Session;
using host::Shape;
using host::Status;
using host::Tensor;
using host::View;

}  // namespace tenon::train

#endif  // TENON_TRAIN_BASE_H_
