// SPDX-License-Identifier: Apache-2.0
// Reshape, ExpandDims, Squeeze: the same elements under another shape.
#include "tenon/extras/op/moved_shapes.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static void ReshapeShape(ShapeContext& c) { c.SetOutput(0, ReshapedShape(c)); }

TENON_OP(kReshape) = DefineOp({
    .name = "Reshape",
    .inputs = "tensor: T, shape: Tshape",
    .outputs = "output: T",
    .attrs = "T: type; Tshape: {int32, int64} = int32",
    .constraints = "rank(shape) == 1; value(shape) >= -1",
    .doc = "The same elements in the same order under another shape; one dim may be -1: what is left.",
    .properties = "view(tensor), fits_half",
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
    .properties = "view(input), fits_half",
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
    .properties = "view(input), fits_half",
    .shape = ShapeFunction<SqueezeShape>,
    .gradient = GradientFunction<ReshapedGradient>,
});

}  // namespace tenon::ops
