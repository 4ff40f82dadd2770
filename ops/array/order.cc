// SPDX-License-Identifier: Apache-2.0
// ReverseSequence, TopKV2, MatrixBandPart and LinSpace.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static void ReverseSequenceShape(ShapeContext& c) {
  Shape input = c.Input(0);
  const Shape lengths = c.WithRank(1, 1);
  const int64_t batch = c.Int("batch_dim"), sequence = c.Int("seq_dim");
  if (!input.known_rank()) return;
  if (batch < 0 || batch >= input.rank() || sequence < 0 || sequence >= input.rank() || batch == sequence) {
    return c.Invalid("batch_dim ", batch, " and seq_dim ", sequence, " must be two dims of the input of shape ", input);
  }
  input.Set(static_cast<int>(batch),
            c.Merge(input[static_cast<int>(batch)], lengths[0], "the batch and the number of lengths"));
  c.SetOutput(0, input);
}

static void ReverseSequenceGradient(GradientContext& g) {
  g.SetDx(0, g.Op("ReverseSequence", {g.dy(0), g.input(1)},
                  {{"seq_dim", g.Int("seq_dim")}, {"batch_dim", g.Int("batch_dim")}}));
}

TENON_OP(kReverseSequence) = DefineOp({
    .name = "ReverseSequence",
    .inputs = "input: T, seq_lengths: Tlen",
    .outputs = "output: T",
    .attrs = "seq_dim: int; batch_dim: int = 0; T: type; Tlen: {int32, int64} = int64",
    .constraints =
        "rank(seq_lengths) == 1; seq_dim >= 0; batch_dim >= 0; seq_dim < rank(input); batch_dim < rank(input); "
        "element(seq_lengths) >= 0",
    .doc = "The first seq_lengths[b] elements along seq_dim of each batch b in reverse order, the others as they are.",
    .properties = "moves(input)",
    .shape = ShapeFunction<ReverseSequenceShape>,
    .gradient = GradientFunction<ReverseSequenceGradient>,
});

static void TopKShape(ShapeContext& c) {
  Shape input = c.WithRankAtLeast(0, 1);
  c.WithRank(1, 0);
  const auto k = c.Integer(1);
  if (!input.known_rank()) return;
  if (k.has_value() && *k < 0) return c.Invalid("k is ", *k, "; it must not be negative");
  if (k.has_value() && input[-1] >= 0 && *k > input[-1])
    return c.Invalid("input must have at least k columns. Had ", input[-1], ", needed ", *k);
  input.Set(-1, k.value_or(kUnknown));
  c.SetOutput(0, input);
  c.SetOutput(1, input);
}

// Each gradient goes to the place that its value came from: places of all rows, counted through.
static void TopKGradient(GradientContext& g) {
  const Output x = g.input(0);
  const Output shape = g.ShapeOf(x, TENON_DT_INT64), chosen = g.ShapeOf(g.output(1), TENON_DT_INT64);
  const Output columns = g.VectorSlice(shape, -1);
  const Output rows = g.Op("Prod", {g.VectorSlice(shape, 0, -1), g.Vector({0})}, {{"keep_dims", true}});
  const Output first =
      g.Mul(g.Op("Range", {g.Number(0, TENON_DT_INT64), g.Reshape(rows, g.Vector({})), g.Number(1, TENON_DT_INT64)}),
            columns);
  const Output in_row = g.Reshape(g.Cast(g.output(1), TENON_DT_INT64), g.Concat({rows, g.VectorSlice(chosen, -1)}));
  const Output places = g.Reshape(g.Add(in_row, g.ExpandDims(first, -1)), g.Vector({-1, 1}));
  const Output flat = g.Op("ScatterNd", {places, g.Reshape(g.dy(0), g.Vector({-1})), g.Mul(rows, columns)});
  g.SetDx(0, g.Reshape(flat, shape));
}

TENON_OP(kTopKV2) = DefineOp({
    .name = "TopKV2",
    .inputs = "input: T, k: Tk",
    .outputs = "values: T, indices: index_type",
    .attrs = "sorted: bool = true; T: realnumbertype; Tk: {int16, int32, int64} = int32; index_type: {int16, int32, "
             "int64} = int32",
    .constraints = "rank(input) >= 1; rank(k) == 0; value(k) >= 0; value(k) <= dim(input, -1)",
    .doc = "The k largest elements of each row, and where they stand; of equal ones the first comes first.",
    .shape = ShapeFunction<TopKShape>,
    .gradient = GradientFunction<TopKGradient>,
});

static void BandShape(ShapeContext& c) {
  c.WithRank(1, 0);
  c.WithRank(2, 0);
  const Shape input = c.WithRankAtLeast(0, 2);
  const auto lower = c.Integer(1), upper = c.Integer(2);
  if (lower.has_value() && input[-2] >= 0 && *lower > input[-2]) {
    return c.Invalid("num_lower must be negative or less or equal to number of rows (", input[-2], ") got: ", *lower);
  }
  if (upper.has_value() && input[-1] >= 0 && *upper > input[-1]) {
    return c.Invalid("num_upper must be negative or less or equal to number of columns (", input[-1],
                     ") got: ", *upper);
  }
  c.SetOutput(0, input);
}

static void BandGradient(GradientContext& g) { g.SetDx(0, g.Op("MatrixBandPart", {g.dy(0), g.input(1), g.input(2)})); }

TENON_OP(kMatrixBandPart) = DefineOp({
    .name = "MatrixBandPart",
    .inputs = "input: T, num_lower: Tindex, num_upper: Tindex",
    .outputs = "band: T",
    .attrs = "T: type; Tindex: {int32, int64} = int64",
    .constraints = "rank(input) >= 2; rank(num_lower) == 0; rank(num_upper) == 0",
    .doc = "Matrices with zeros outside of a band of num_lower diagonals below the main one and num_upper above; "
           "negative: all.",
    .properties = "moves(input)",
    .shape = ShapeFunction<BandShape>,
    .gradient = GradientFunction<BandGradient>,
});

static void LinSpaceShape(ShapeContext& c) {
  for (int i = 0; i < 3; ++i) c.WithRank(i, 0);
  const auto count = c.Integer(2);
  if (count.has_value() && *count < 1) return c.Invalid("Requires num > 0: ", *count);
  c.SetOutput(0, {count.value_or(kUnknown)});
}

TENON_OP(kLinSpace) = DefineOp({
    .name = "LinSpace",
    .inputs = "start: T, stop: T, num: Tidx",
    .outputs = "output: T",
    .attrs = "T: {bfloat16, half, float, double}; Tidx: {int32, int64} = int32",
    .constraints = "rank(start) == 0; rank(stop) == 0; rank(num) == 0; value(num) >= 1",
    .doc = "num numbers in even steps, the first start and the last stop.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<LinSpaceShape>,
});

}  // namespace tenon::ops
