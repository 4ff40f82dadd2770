// SPDX-License-Identifier: Apache-2.0
// What ops of quantized tensors have in common: the real numbers that the least and the largest integer stand for go
// beside a tensor.
#ifndef TENON_OPS_QUANTIZED_RANGE_H_
#define TENON_OPS_QUANTIZED_RANGE_H_

#include "tenon/sdk/op/op.h"

namespace tenon::ops {

// Inputs [begin, end) are scalars.
inline void WithScalars(sdk::ShapeContext& c, int begin, int end) {
  for (int i = begin; i < end; ++i) c.WithRank(i, 0);
}

// Output 0 has the shape, and its bounds are outputs 1 and 2.
inline void SetWithRange(sdk::ShapeContext& c, const sdk::Shape& shape) {
  c.SetOutput(0, shape);
  c.SetOutput(1, sdk::Shape::Scalar());
  c.SetOutput(2, sdk::Shape::Scalar());
}

// Of an op whose inputs but the first are scalars: output 0 has input 0's shape.
inline void SameShapeWithRange(sdk::ShapeContext& c) {
  WithScalars(c, 1, c.input_count());
  SetWithRange(c, c.Input(0));
}

// A bound that goes on as it is; of a shape that is not known before the step it must be one number.
inline sdk::Output PassedBound(sdk::DecomposeContext& d, int index) {
  const sdk::Shape shape = d.shape(d.input(index));
  return shape.known_rank() && shape.rank() == 0 ? d.input(index) : d.Reshape(d.input(index), d.Vector({}));
}

}  // namespace tenon::ops

#endif  // TENON_OPS_QUANTIZED_RANGE_H_
