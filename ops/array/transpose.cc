// SPDX-License-Identifier: Apache-2.0
// Transpose, InvertPermutation, Tile.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static void TransposeShape(ShapeContext& c) {
  Shape input = c.Input(0);
  const Shape perm_shape = c.WithRank(1, 1);
  if (!input.known_rank()) {
    if (perm_shape[0] < 0 || perm_shape[0] > TENON_MAX_RANK) return;
    input = Shape::OfRank(static_cast<int>(perm_shape[0]));
  }
  c.Merge(perm_shape[0], input.rank(), "the length of perm and the rank of the input");
  const auto perm = c.Integers(1);
  if (!perm.has_value() || !c.ok()) return c.SetOutput(0, Shape::OfRank(input.rank()));
  Shape out = Shape::Scalar();
  std::vector<bool> seen(static_cast<size_t>(input.rank()), false);
  for (int64_t value : *perm) {
    const auto axis = c.CheckAxis(value, input.rank());
    if (!axis.has_value()) return;
    if (seen[static_cast<size_t>(*axis)]) return c.Invalid("perm ", *perm, " is not a permutation");
    seen[static_cast<size_t>(*axis)] = true;
    out.Append(input[*axis]);
  }
  c.SetOutput(0, out);
}

// dy in the order that the input had, by `op`.
static void PutBack(GradientContext& g, std::string_view op) {
  const Output perm = g.input(1);
  if (const auto known = g.Integers(perm)) {
    const int64_t rank = static_cast<int64_t>(known->size());
    std::vector<int64_t> inverse(known->size(), 0);
    for (int64_t i = 0; i < rank; ++i) {
      const int64_t axis = (*known)[static_cast<size_t>(i)];
      const int64_t front = axis < 0 ? axis + rank : axis;
      if (front < 0 || front >= rank) return g.Invalid("perm ", *known, " is not a permutation");
      inverse[static_cast<size_t>(front)] = i;
    }
    return g.SetDx(0, g.Op(op, {g.dy(0), g.Vector(inverse, g.type(perm))}));
  }
  g.SetDx(0, g.Op(op, {g.dy(0), g.Op("InvertPermutation", {perm})}));
}

static void TransposeGradient(GradientContext& g) { PutBack(g, "Transpose"); }

TENON_OP(kTranspose) = DefineOp({
    .name = "Transpose",
    .inputs = "x: T, perm: Tperm",
    .outputs = "y: T",
    .attrs = "T: type; Tperm: {int32, int64} = int32",
    .constraints = "rank(perm) == 1; dim(perm, 0) == rank(x); value(perm) >= -rank(x); value(perm) < rank(x)",
    .doc = "The input with its dims in another order: dim i of the output is dim perm[i] of the input.",
    .properties = "moves(x), fits_half",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<TransposeShape>,
    .gradient = GradientFunction<TransposeGradient>,
});

static void ConjugateTransposeGradient(GradientContext& g) { PutBack(g, "ConjugateTranspose"); }
static void DecomposeConjugateTranspose(DecomposeContext& d) {
  d.SetOutput(0, d.Conj(d.Op("Transpose", {d.input(0), d.input(1)})));
}
TENON_OP(kConjugateTranspose) = DefineOp({
    .name = "ConjugateTranspose",
    .inputs = "x: T, perm: Tperm",
    .outputs = "y: T",
    .attrs = "T: type; Tperm: {int32, int64} = int32",
    .constraints = "rank(perm) == 1; dim(perm, 0) == rank(x); value(perm) >= -rank(x); value(perm) < rank(x)",
    .doc = "Transpose, and of complex numbers the conjugates.",
    .shape = ShapeFunction<TransposeShape>,
    .gradient = GradientFunction<ConjugateTransposeGradient>,
    .decompose = DecomposeFunction<DecomposeConjugateTranspose>,
});

static void InvertPermutationShape(ShapeContext& c) { c.SetOutput(0, c.WithRank(0, 1)); }

TENON_OP(kInvertPermutation) = DefineOp({
    .name = "InvertPermutation",
    .inputs = "x: T",
    .outputs = "y: T",
    .attrs = "T: {int32, int64} = int32",
    .constraints = "rank(x) == 1; element(x) >= 0; element(x) < dim(x, 0)",
    .doc = "The permutation that undoes x: y[x[i]] = i.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<InvertPermutationShape>,
});

static void TileShape(ShapeContext& c) {
  Shape input = c.Input(0);
  const Shape multiples = c.WithRank(1, 1);
  if (!input.known_rank()) {
    if (multiples[0] < 0 || multiples[0] > TENON_MAX_RANK) return;
    input = Shape::OfRank(static_cast<int>(multiples[0]));
  }
  c.Merge(multiples[0], input.rank(), "the length of multiples and the rank of the input");
  const auto values = c.Integers(1);
  if (!c.ok()) return;
  if (!values.has_value()) return c.SetOutput(0, Shape::OfRank(input.rank()));
  for (int i = 0; i < input.rank(); ++i) {
    const int64_t times = (*values)[static_cast<size_t>(i)];
    if (times < 0) return c.Invalid("multiples ", *values, " must not be negative");
    input.Set(i, c.Multiply(input[i], times));
  }
  c.SetOutput(0, input);
}

// Sum(Reshape(g, [multiples[0], shape[0], multiples[1], shape[1], ...]), even axes).
static void TileGradient(GradientContext& g) {
  const Output x = g.input(0), multiples = g.input(1), dy = g.dy(0);
  const uint32_t index = g.type(multiples);
  const Shape shape = g.shape(x);
  const auto times = g.Integers(multiples);
  int rank = shape.rank();
  if (rank < 0 && g.shape(multiples)[0] >= 0) rank = static_cast<int>(g.shape(multiples)[0]);
  if (rank == 0) return g.SetDx(0, dy);
  Output split;
  if (times.has_value() && shape.fully_known()) {
    std::vector<int64_t> dims;
    for (int i = 0; i < rank; ++i) {
      dims.push_back((*times)[static_cast<size_t>(i)]);
      dims.push_back(shape[i]);
    }
    split = g.Vector(dims, index);
  } else {
    split = g.Reshape(g.Op("Pack", {multiples, g.ShapeOf(x, index)}, {{"axis", 1}}), g.Vector({-1}));
  }
  Output axes;
  if (rank > 0) {
    std::vector<int64_t> even;
    for (int i = 0; i < rank; ++i) even.push_back(2 * i);
    axes = g.Vector(even);
  } else {
    axes = g.Op("Range", {g.Number(0), g.Op("Size", {split}), g.Number(2)});
  }
  g.SetDx(0, g.Sum(g.Reshape(dy, split), axes));
}

TENON_OP(kTile) = DefineOp({
    .name = "Tile",
    .inputs = "input: T, multiples: Tmultiples",
    .outputs = "output: T",
    .attrs = "T: type; Tmultiples: {int32, int64} = int32",
    .constraints = "rank(multiples) == 1; dim(multiples, 0) == rank(input); value(multiples) >= 0",
    .doc = "The input repeated multiples[d] times along each dim d.",
    .properties = "moves(input), fits_half",
    .shape = ShapeFunction<TileShape>,
    .gradient = GradientFunction<TileGradient>,
});

}  // namespace tenon::ops
