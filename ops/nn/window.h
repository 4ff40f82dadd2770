// SPDX-License-Identifier: Apache-2.0
// Windows over images (tenon/extras/op/window.h), and the shape functions that the fused forms share.
#ifndef TENON_OPS_NN_WINDOW_H_
#define TENON_OPS_NN_WINDOW_H_

#include "tenon/extras/op/window.h"

namespace tenon::ops {

void Conv2DShape(sdk::ShapeContext& c);
void BatchNormShape(sdk::ShapeContext& c);

}  // namespace tenon::ops
#endif  // TENON_OPS_NN_WINDOW_H_
