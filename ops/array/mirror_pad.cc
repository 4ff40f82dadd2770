// SPDX-License-Identifier: Apache-2.0
// MirrorPad and MirrorPadGrad: borders that mirror what is inside.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

// sign: 1 when the output is larger by the paddings, -1 when it is smaller.
template <int kSign>
void MirrorShape(ShapeContext& c) {
  const Shape paddings = c.WithRank(1, 2);
  c.Merge(paddings[1], 2, "dim 1 of paddings and 2");
  Shape shape = paddings[0] >= 0 ? c.WithRank(0, static_cast<int>(paddings[0])) : c.Input(0);
  if (!shape.known_rank() || !c.ok()) return;
  c.Merge(paddings[0], shape.rank(), "the rows of paddings and the rank of input");
  const auto values = c.Integers(1);
  const int64_t overlap = c.String("mode") == "REFLECT" ? 1 : 0;
  for (int i = 0; i < shape.rank() && c.ok(); ++i) {
    const int64_t dim = shape[i];
    shape.Set(i, kUnknown);
    if (!values.has_value()) continue;
    const int64_t before = (*values)[static_cast<size_t>(2 * i)], after = (*values)[static_cast<size_t>(2 * i + 1)];
    if (before < 0 || after < 0)
      return c.Invalid("the paddings ", before, " and ", after, " of dim ", i, " are negative");
    if (dim < 0) continue;
    const int64_t inner = kSign > 0 ? dim : dim - before - after;
    if (std::max(before, after) > inner - overlap || (kSign < 0 && inner == 0)) {
      return c.Invalid("the paddings ", before, " and ", after, " of dim ", i, " mirror more than its ", inner,
                       " elements allow");
    }
    shape.Set(i, kSign > 0 ? c.Add(c.Add(dim, before), after) : inner);
  }
  c.SetOutput(0, shape);
}

void MirroredGradient(GradientContext& g, std::string_view op) {
  g.SetDx(0, g.Op(op, {g.dy(0), g.input(1)}, {{"mode", g.String("mode")}}));
}
void MirrorPadGradient(GradientContext& g) { MirroredGradient(g, "MirrorPadGrad"); }
void MirrorPadGradGradient(GradientContext& g) { MirroredGradient(g, "MirrorPad"); }

consteval tenon_op_definition Mirror(OpDefinition op) {
  op.inputs = "input: T, paddings: Tpaddings";
  op.outputs = "output: T";
  op.attrs = "T: type; Tpaddings: {int32, int64} = int32; mode: {'REFLECT', 'SYMMETRIC'}";
  op.constraints = "rank(paddings) == 2; dim(paddings, 1) == 2; dim(paddings, 0) == rank(input); value(paddings) >= 0";
  return DefineOp(op);
}

}  // namespace

TENON_OP(kMirrorPad) = Mirror({
    .name = "MirrorPad",
    .doc = "The input between mirror images of itself: SYMMETRIC ones begin with the border, REFLECT ones behind it.",
    .properties = "moves(input)",
    .shape = ShapeFunction<MirrorShape<1>>,
    .gradient = GradientFunction<MirrorPadGradient>,
});

TENON_OP(kMirrorPadGrad) = Mirror({
    .name = "MirrorPadGrad",
    .doc = "The gradient of MirrorPad: what it repeated is added up.",
    .shape = ShapeFunction<MirrorShape<-1>>,
    .gradient = GradientFunction<MirrorPadGradGradient>,
});

}  // namespace tenon::ops
