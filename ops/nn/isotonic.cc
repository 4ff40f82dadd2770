// SPDX-License-Identifier: Apache-2.0
// Numbers that only fall, as near to given ones as can be.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static void IsotonicShape(ShapeContext& c) {
  c.SetOutput(0, c.Input(0));
  c.SetOutput(1, c.Input(0));
}

// Each element has the mean gradient of its segment.
static void IsotonicGradient(GradientContext& g) {
  const Output dy = g.dy(0), flat = g.Reshape(dy, g.Vector({-1})),
               segments = g.Cast(g.Reshape(g.output(1), g.Vector({-1})), TENON_DT_INT64);
  const Output zero = g.Number(0, TENON_DT_INT64), one = g.Number(1, TENON_DT_INT64);
  const Output count = g.Op("Size", {dy}, {Attribute::Type("out_type", TENON_DT_INT64)});
  // Segments of one row are apart from those of the next; a scalar is a row of one.
  const Output length = g.Reshape(
      g.VectorSlice(g.Concat({g.Vector({1}, TENON_DT_INT64), g.ShapeOf(dy, TENON_DT_INT64)}), -1), g.Vector({}));
  const Output at = g.Op("Range", {zero, count, one});
  const Output row = g.Mul(g.Op("FloorDiv", {at, g.Op("Maximum", {length, one})}), length);
  const Output ids = g.Add(segments, row);
  const Output sums = g.Op("UnsortedSegmentSum", {flat, ids, count});
  const Output sizes = g.Op("UnsortedSegmentSum", {g.Op("OnesLike", {flat}), ids, count});
  const Output means = g.Op("GatherV2", {g.Op("DivNoNan", {sums, sizes}), ids, g.Number(0)});
  g.SetDx(0, g.Cast(g.ReshapeLike(means, dy), g.type(g.input(0))));
}

TENON_OP(kIsotonicRegression) = DefineOp({
    .name = "IsotonicRegression",
    .inputs = "input: T",
    .outputs = "output: output_dtype, segments: int32",
    .attrs = "T: realnumbertype; output_dtype: {half, bfloat16, float, double} = float",
    .doc = "Along the last dim the numbers that never rise and have the least squared distance from the input: the "
           "means of segments of it; and "
           "the segment of each.",
    .shape = ShapeFunction<IsotonicShape>,
    .gradient = GradientFunction<IsotonicGradient>,
});

}  // namespace tenon::ops
