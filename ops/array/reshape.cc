// SPDX-License-Identifier: Apache-2.0
// Reshape, ExpandDims, Squeeze: the same elements under another shape.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

// Replaces the one unknown dim of `target` by what is left of the input's elements. Where the target
// has a 0, the dims other than 0 are compared, so that [0, 6] reshaped to [0, -1] keeps its 6.
static Shape InferOneDim(ShapeContext& c, Shape target, const Shape& input) {
  int unknown = -1;
  int64_t known = 1;
  bool has_zero = false;
  for (int i = 0; i < target.rank(); ++i) {
    if (target[i] < 0) {
      if (unknown >= 0) return target;  // two unknown dims cannot be told apart
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
  if (unknown >= 0) target.Set(unknown, elements / known);
  return target;
}

static void ReshapeShape(ShapeContext& c) {
  const Shape sizes = c.WithRank(1, 1);
  const Shape input = c.Input(0);
  if (const auto values = c.Integers(1)) {
    int unknown = 0;
    for (int64_t value : *values) {
      if (value < -1) return c.Invalid("a dim of the new shape is ", value, "; only -1 may be negative");
      unknown += value == -1 ? 1 : 0;
    }
    if (unknown > 1) return c.Invalid("the new shape ", *values, " has -1 more than once");
    return c.SetOutput(0, InferOneDim(c, Shape(*values), input));
  }
  Shape target = c.InputAsShape(1);
  if (!target.known_rank() && sizes[0] >= 0 && sizes[0] <= TENON_MAX_RANK) {
    target = Shape::OfRank(static_cast<int>(sizes[0]));
  }
  if (target.known_rank()) target = InferOneDim(c, target, input);
  c.SetOutput(0, target);
}

TENON_OP(kReshape) = DefineOp({
    .name = "Reshape",
    .inputs = "tensor: T, shape: Tshape",
    .outputs = "output: T",
    .attrs = "T: type; Tshape: {int32, int64} = int32",
    .constraints = "rank(shape) == 1; value(shape) >= -1",
    .doc = "The same elements in the same order under another shape; one dim may be -1: what is left.",
    .shape = ShapeFunction<ReshapeShape>,
    .gradient = GradientFunction<ReshapedGradient>,
});

static void ExpandDimsShape(ShapeContext& c) {
  const Shape input = c.Input(0);
  if (!input.known_rank()) return;
  const auto axis = c.Axis(1, input.rank() + 1);
  if (!axis.has_value()) return c.SetOutput(0, Shape::OfRank(input.rank() + 1));
  c.SetOutput(0, Join(Join(input.Slice(0, *axis), Shape{1}), input.Slice(*axis)));
}

TENON_OP(kExpandDims) = DefineOp({
    .name = "ExpandDims",
    .inputs = "input: T, dim: Tdim",
    .outputs = "output: T",
    .attrs = "T: type; Tdim: {int32, int64} = int32",
    .constraints = "numel(dim) == 1; value(dim) >= -1 - rank(input); value(dim) <= rank(input)",
    .doc = "The input with a dim of size 1 put in at dim.",
    .shape = ShapeFunction<ExpandDimsShape>,
    .gradient = GradientFunction<ReshapedGradient>,
});

static void SqueezeShape(ShapeContext& c) {
  const Shape input = c.Input(0);
  if (!input.known_rank()) return;
  const std::vector<int64_t> axes = c.Ints("squeeze_dims");
  std::vector<bool> removed(static_cast<size_t>(input.rank()), false);
  for (int64_t value : axes) {
    const auto axis = c.CheckAxis(value, input.rank());
    if (!axis.has_value()) return;
    if (input[*axis] >= 0 && input[*axis] != 1) {
      return c.Invalid("dim ", *axis, " of ", input, " is not 1 and cannot be squeezed");
    }
    removed[static_cast<size_t>(*axis)] = true;
  }
  Shape out = Shape::Scalar();
  for (int i = 0; i < input.rank(); ++i) {
    if (axes.empty() && input[i] < 0) return;  // it may be 1
    if (axes.empty() ? input[i] != 1 : !removed[static_cast<size_t>(i)]) out.Append(input[i]);
  }
  c.SetOutput(0, out);
}

TENON_OP(kSqueeze) = DefineOp({
    .name = "Squeeze",
    .inputs = "input: T",
    .outputs = "output: T",
    .attrs = "T: type; squeeze_dims: list(int) = []",
    .doc = "The input without the named dims of size 1, or without all of them.",
    .shape = ShapeFunction<SqueezeShape>,
    .gradient = GradientFunction<ReshapedGradient>,
});

}  // namespace tenon::ops
