// SPDX-License-Identifier: Apache-2.0
// Shape, ShapeN, Size, Rank: what is known of a tensor without its elements.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static void ShapeNShape(ShapeContext& c) {
  for (int i = 0; i < c.output_count(); ++i) {
    const Shape input = c.Input(i);
    const Shape output{input.known_rank() ? input.rank() : kUnknown};
    c.SetOutput(i, output);
    if (input.fully_known()) c.SetOutputValue(i, output, input.dims());
    else if (input.known_rank()) c.SetElements(i, input.dims());
  }
}

static void SizeShape(ShapeContext& c) {
  c.SetOutput(0, Shape::Scalar());
  const int64_t elements = c.Input(0).elements();
  if (elements >= 0) c.SetOutputValue(0, Shape::Scalar(), {elements});
  else c.SetElements(0, {c.Count(c.Input(0))});
}

static void RankShape(ShapeContext& c) {
  c.SetOutput(0, Shape::Scalar());
  const Shape input = c.Input(0);
  if (input.known_rank()) c.SetOutputValue(0, Shape::Scalar(), {input.rank()});
}

TENON_OP(kShape) = DefineOp({
    .name = "Shape",
    .inputs = "input: T",
    .outputs = "output: out_type",
    .attrs = "T: type; out_type: {int32, int64} = int32",
    .roles = "shape",
    .doc = "The input's shape as a vector.",
    .traits = TENON_OP_NO_GRADIENT | TENON_OP_METADATA,
    .shape = ShapeFunction<ShapeNShape>,
});

TENON_OP(kShapeN) = DefineOp({
    .name = "ShapeN",
    .inputs = "input: N * T",
    .outputs = "output: N * out_type",
    .attrs = "N: int >= 1; T: type; out_type: {int32, int64} = int32",
    .doc = "The shape of each input as a vector.",
    .traits = TENON_OP_NO_GRADIENT | TENON_OP_METADATA,
    .shape = ShapeFunction<ShapeNShape>,
});

TENON_OP(kSize) = DefineOp({
    .name = "Size",
    .inputs = "input: T",
    .outputs = "output: out_type",
    .attrs = "T: type; out_type: {int32, int64} = int32",
    .doc = "How many elements the input has.",
    .traits = TENON_OP_NO_GRADIENT | TENON_OP_METADATA,
    .shape = ShapeFunction<SizeShape>,
});

TENON_OP(kRank) = DefineOp({
    .name = "Rank",
    .inputs = "input: T",
    .outputs = "output: int32",
    .attrs = "T: type",
    .doc = "How many dims the input has.",
    .traits = TENON_OP_NO_GRADIENT | TENON_OP_METADATA,
    .shape = ShapeFunction<RankShape>,
});

}  // namespace tenon::ops
