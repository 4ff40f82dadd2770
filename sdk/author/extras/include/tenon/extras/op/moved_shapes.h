// SPDX-License-Identifier: Apache-2.0
// The shapes of tensors whose elements stay as they are: under another shape, or side by side.
#ifndef TENON_SDK_OP_MOVED_SHAPES_H_
#define TENON_SDK_OP_MOVED_SHAPES_H_

#include "tenon/sdk/op/shape_function.h"

namespace tenon::sdk {

// The same where dims are known by name alone: [rows, 4, 3] reshaped to [-1, 12], to [rows, -1].
inline void InferByNames(ShapeContext& c, Shape* target, const Shape& input) {
  const auto& dims = target->dims();
  if (std::count(dims.begin(), dims.end(), kUnknown) != 1 || std::count(dims.begin(), dims.end(), 0) != 0) return;
  const auto at = static_cast<int>(std::find(dims.begin(), dims.end(), kUnknown) - dims.begin());
  const int64_t known = c.Count(Join(target->Slice(0, at), target->Slice(at + 1)));
  target->Set(at, c.Divide(c.Count(input), known));
}

// Replaces the one unknown dim of `target` by what is left of the input's elements. Where the target
// has a 0, the dims other than 0 are compared, so that [0, 6] reshaped to [0, -1] keeps its 6.
inline Shape InferOneDim(ShapeContext& c, Shape target, const Shape& input) {
  if (!target.fully_known() && !input.fully_known()) InferByNames(c, &target, input);
  int unknown = -1;
  int64_t known = 1;
  bool has_zero = false;
  for (int i = 0; i < target.rank(); ++i) {
    if (target[i] < 0) {
      if (unknown >= 0) return target;  // of two unknown dims nothing is checked
      unknown = i;
    } else if (target[i] == 0) {
      has_zero = true;
    } else {
      known = c.Multiply(known, target[i]);
    }
  }
  if (!c.ok()) return target;
  if (!input.fully_known()) {
    // What is known of the input must divide what is asked for, whatever the rest is.
    int64_t part = 1;
    for (int64_t dim : input.dims()) part = dim > 0 ? c.Multiply(part, dim) : part;
    if (c.ok() && unknown < 0 && !has_zero && known % part != 0) {
      c.Invalid("a tensor of shape ", input, " cannot take the shape ", target);
    }
    return target;
  }
  int64_t elements = 1;
  bool left_out_zero = false;
  for (int64_t dim : input.dims()) {
    if (dim == 0 && has_zero) {
      left_out_zero = true;
    } else {
      elements = c.Multiply(elements, dim);
    }
  }
  if (!c.ok()) return target;
  const bool fits = unknown < 0 ? (has_zero ? left_out_zero : known == elements)
                                : left_out_zero || (!has_zero && elements % known == 0);
  if (!fits) {
    c.Invalid("a tensor of shape ", input, " cannot take the shape ", target);
    return target;
  }
  // What is known of the target's dim by its name alone is this number.
  if (unknown >= 0) target.Set(unknown, elements / known);
  return target;
}

// Of an op like Reshape: input 0 in the shape that input 1 says, where one dim may be -1.
inline Shape ReshapedShape(ShapeContext& c) {
  const Shape sizes = c.WithRank(1, 1);
  const Shape input = c.Input(0);
  if (const auto values = c.Integers(1)) {
    int unknown = 0;
    for (int64_t value : *values) {
      if (value < -1) {
        c.Invalid("a dim of the new shape is ", value, "; only -1 may be negative");
        return Shape();
      }
      unknown += value == -1 ? 1 : 0;
    }
    if (unknown > 1) {
      c.Invalid("the new shape ", *values, " has -1 more than once");
      return Shape();
    }
    return InferOneDim(c, Shape(*values), input);
  }
  Shape target = c.InputAsShape(1);
  if (!target.known_rank() && sizes[0] >= 0 && sizes[0] <= TENON_MAX_RANK) {
    target = Shape::OfRank(static_cast<int>(sizes[0]));
  }
  return target.known_rank() ? InferOneDim(c, target, input) : target;
}

// Of an op like Concat: inputs [first, first + count) side by side along the axis that input axis_input says.
inline Shape ConcatenatedShape(ShapeContext& c, int axis_input, int first, int count) {
  c.WithRank(axis_input, 0);
  // All inputs have one rank; old graphs that concatenate scalars are not supported.
  Shape out;
  for (int i = 0; i < count; ++i) {
    const Shape input = c.WithRankAtLeast(first + i, 1);
    if (!input.known_rank()) continue;
    if (!out.known_rank()) out = Shape::OfRank(input.rank());
    if (out.rank() != input.rank()) {
      c.Invalid("inputs of rank ", out.rank(), " and of rank ", input.rank(), " cannot be concatenated");
      return Shape();
    }
  }
  if (!out.known_rank()) return out;
  const auto axis = c.Axis(axis_input, out.rank());
  if (!axis.has_value()) return out;
  int64_t sum = 0;
  for (int i = 0; i < count; ++i) {
    Shape input = c.Input(first + i);
    if (!input.known_rank()) input = Shape::OfRank(out.rank());
    sum = c.Add(sum, input[*axis]);
    input.Set(*axis, kUnknown);
    out = c.Merge(out, input, "the shapes outside of the axis");
  }
  out.Set(*axis, sum);
  return out;
}

}  // namespace tenon::sdk
#endif  // TENON_SDK_OP_MOVED_SHAPES_H_
