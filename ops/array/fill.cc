// SPDX-License-Identifier: Apache-2.0
// Fill, ZerosLike, OnesLike, OneHot, Range: tensors of values that are known by rule.
#include <cmath>

#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static void FillShape(ShapeContext& c) {
  c.WithRank(1, 0);
  c.SetOutput(0, c.WantedShape(0));
}

static void FillGradient(GradientContext& g) {
  const Output dy = g.dy(0);
  const int rank = g.shape(dy).rank();
  std::vector<int64_t> axes;
  for (int i = 0; i < rank; ++i) axes.push_back(i);
  g.SetDx(1, g.Sum(dy, rank >= 0 ? g.Vector(axes) : g.Op("Range", {g.Number(0), g.Op("Rank", {dy}), g.Number(1)})));
}

TENON_OP(kFill) = DefineOp({
    .name = "Fill",
    .inputs = "dims: index_type, value: T",
    .outputs = "output: T",
    .attrs = "T: type; index_type: {int32, int64} = int32",
    .constraints = "rank(dims) == 1; value(dims) >= 0; rank(value) == 0",
    .doc = "A tensor of shape dims, every element of which is value.",
    .properties = "moves(value)",
    .shape = ShapeFunction<FillShape>,
    .gradient = GradientFunction<FillGradient>,
});

TENON_OP(kZerosLike) = DefineOp({
    .name = "ZerosLike",
    .inputs = "x: T",
    .outputs = "y: T",
    .attrs = "T: type",
    .roles = "zeros_like",
    .doc = "Zeros in the shape and type of the input.",
    .properties = "elementwise, exact",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<SameShape>,
});

TENON_OP(kOnesLike) = DefineOp({
    .name = "OnesLike",
    .inputs = "x: T",
    .outputs = "y: T",
    .attrs = "T: {bfloat16, half, float, double, int8, uint8, int16, uint16, int32, uint32, int64, "
             "uint64, complex64, complex128, bool}",
    .roles = "ones_like",
    .doc = "Ones in the shape and type of the input.",
    .properties = "elementwise, exact",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<SameShape>,
});

static void OneHotShape(ShapeContext& c) {
  const Shape indices = c.Input(0);
  const int64_t depth = c.Integer(1).value_or(kUnknown);
  if (c.Integer(1).has_value() && depth < 0) return c.Invalid("depth is ", depth, "; it must not be negative");
  c.WithRank(2, 0);
  c.WithRank(3, 0);
  if (!indices.known_rank()) return;
  const int64_t axis = c.Int("axis");
  if (axis < -1 || axis > indices.rank()) {
    return c.Invalid("axis ", axis, " is outside of [-1, ", indices.rank(), "] for indices of shape ", indices);
  }
  const int at = axis < 0 ? indices.rank() : static_cast<int>(axis);
  c.SetOutput(0, Join(Join(indices.Slice(0, at), Shape{depth}), indices.Slice(at)));
}

TENON_OP(kOneHot) = DefineOp({
    .name = "OneHot",
    .inputs = "indices: TI, depth: int32, on_value: T, off_value: T",
    .outputs = "output: T",
    .attrs = "axis: int = -1; T: type; TI: {uint8, int8, int32, int64} = int64",
    .constraints = "rank(depth) == 0; value(depth) >= 0; rank(on_value) == 0; rank(off_value) == 0; "
                   "axis >= -1; axis <= rank(indices)",
    .doc = "off_value everywhere but at each index along a new axis of size depth, where it is on_value; "
           "an index outside of [0, depth) gives a row of off_value.",
    .properties = "moves(on_value, off_value)",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<OneHotShape>,
});

// As doubles, when all three are known numbers of the type.
static bool RangeArguments(ShapeContext& c, double (&values)[3]) {
  for (int i = 0; i < 3; ++i) {
    const auto number = c.Number(i);
    if (!number.has_value()) return false;
    values[i] = *number;
  }
  return true;
}

static void RangeShape(ShapeContext& c) {
  for (int i = 0; i < 3; ++i) c.WithRank(i, 0);
  const auto start = c.Integer(0), limit = c.Integer(1), delta = c.Integer(2);
  if (start.has_value() && limit.has_value() && delta.has_value()) {
    if (*delta == 0) return c.Invalid("delta is 0; it must step towards limit");
    const bool up = *delta > 0;
    if (up ? *start > *limit : *start < *limit) {
      return c.Invalid("delta ", *delta, " steps away from ", *limit, " at ", *start);
    }
    // In 128 bits, where no difference of two int64 overflows.
    const __int128 span = up ? static_cast<__int128>(*limit) - *start : static_cast<__int128>(*start) - *limit;
    const __int128 step = up ? static_cast<__int128>(*delta) : -static_cast<__int128>(*delta);
    const __int128 size = (span + step - 1) / step;
    if (size > INT64_MAX) return c.Invalid("the range has more elements than int64 counts");
    return c.SetOutput(0, {static_cast<int64_t>(size)});
  }
  double values[3];
  if (!RangeArguments(c, values)) return c.SetOutput(0, {kUnknown});
  if (values[2] == 0 || (values[2] > 0 ? values[0] > values[1] : values[0] < values[1])) {
    return c.Invalid("delta ", values[2], " does not lead from ", values[0], " to ", values[1]);
  }
  const double size = std::ceil(std::fabs((values[1] - values[0]) / values[2]));
  if (!(size < 9.2e18)) return c.Invalid("the range has more elements than int64 counts");
  c.SetOutput(0, {static_cast<int64_t>(size)});
}

TENON_OP(kRange) = DefineOp({
    .name = "Range",
    .inputs = "start: Tidx, limit: Tidx, delta: Tidx",
    .outputs = "output: Tidx",
    .attrs = "Tidx: {bfloat16, half, float, double, int8, int16, int32, int64, uint16, uint32, uint64} = int32",
    .constraints = "rank(start) == 0; rank(limit) == 0; rank(delta) == 0",
    .doc = "start, start + delta, ... as long as it is before limit.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<RangeShape>,
});

static void BroadcastToShape(ShapeContext& c) {
  const Shape input = c.Input(0);
  Shape target = c.WantedShape(1);
  if (!target.known_rank()) return;
  if (input.rank() > target.rank()) return c.Invalid("a tensor of shape ", input, " does not broadcast to ", target);
  for (int i = 1; i <= input.rank(); ++i) {
    if (input[-i] > 1 && target[-i] < 0) target.Set(-i, input[-i]);
    if (input[-i] >= 0 && input[-i] != 1 && target[-i] >= 0 && input[-i] != target[-i]) {
      return c.Invalid("a tensor of shape ", input, " does not broadcast to ", target);
    }
  }
  c.SetOutput(0, target);
}

static void BroadcastToGradient(GradientContext& g) { g.SetDx(0, g.Unbroadcast(g.dy(0), g.input(0), g.output(0))); }

TENON_OP(kBroadcastTo) = DefineOp({
    .name = "BroadcastTo",
    .inputs = "input: T, shape: Tidx",
    .outputs = "output: T",
    .attrs = "T: type; Tidx: {int32, int64} = int32",
    .constraints = "rank(shape) == 1; value(shape) >= 0; rank(input) <= dim(shape, 0)",
    .doc = "The input repeated along its dims of size 1 to the given shape.",
    .properties = "moves(input)",
    .shape = ShapeFunction<BroadcastToShape>,
    .gradient = GradientFunction<BroadcastToGradient>,
});

}  // namespace tenon::ops
