// SPDX-License-Identifier: Apache-2.0
// Gradients of ops over stacks of matrices whose batch dims, all but the last two, broadcast.
#ifndef TENON_SDK_OP_BATCH_GRADIENT_H_
#define TENON_SDK_OP_BATCH_GRADIENT_H_

#include "tenon/sdk/op/op.h"

namespace tenon::sdk {

// Sums a gradient over the batch dims along which `x` was repeated against `y`.
inline Output UnbroadcastBatch(GradientContext& g, Output gradient, Output x, Output y) {
  const Shape sx = g.shape(x), sy = g.shape(y);
  const auto axes = GradientContext::RepeatedAxes(sx.Slice(0, -2), sy.Slice(0, -2));
  if (axes.has_value()) {
    if (axes->empty()) return gradient;
    if (sx.rank() >= sy.rank()) return g.Sum(gradient, g.Vector(*axes), true);
    return g.Reshape(g.Sum(gradient, g.Vector(*axes)), g.ShapeOf(x));
  }
  const Output shape = g.ShapeOf(x);
  const int64_t both =
      g.Node("BroadcastGradientArgs", {g.VectorSlice(shape, 0, -2), g.VectorSlice(g.ShapeOf(y), 0, -2)});
  return g.Reshape(g.Sum(gradient, {both, 0, 0}), shape);
}

}  // namespace tenon::sdk
#endif  // TENON_SDK_OP_BATCH_GRADIENT_H_
