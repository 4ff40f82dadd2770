// SPDX-License-Identifier: Apache-2.0
// What the body of a function says of a call's results, before there is a step.
#ifndef TENON_SDK_HOST_CALL_SHAPE_H_
#define TENON_SDK_HOST_CALL_SHAPE_H_

#include "core/graph/builder.h"
#include "core/tensor/shape.h"

namespace tenon::host {

// The shape of an output: that of the body's value where the node is a call. Unknown where the function is not there,
// or cannot be inlined.
Shape ShapeOf(graph::Builder* builder, graph::Edge output);

}  // namespace tenon::host

#endif  // TENON_SDK_HOST_CALL_SHAPE_H_
