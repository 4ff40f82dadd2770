// SPDX-License-Identifier: Apache-2.0
// Counting how often each number, or one of a range, stands in a tensor.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static int64_t BinsOf(ShapeContext& c, int input = 1) {
  c.WithRank(input, 0);
  const auto size = c.Integer(input);
  if (size.has_value() && *size < 0) c.Invalid("size (", *size, ") must be non-negative");
  return size.value_or(kUnknown);
}

static void BincountShape(ShapeContext& c) { c.SetOutput(0, {BinsOf(c)}); }

TENON_OP(kBincount) = DefineOp({
    .name = "Bincount",
    .inputs = "arr: int32, size: int32, weights: T",
    .outputs = "bins: T",
    .attrs = "T: {int32, int64, float, double}",
    .constraints = "rank(size) == 0; element(arr) >= 0",
    .doc = "bins[i] is the number of elements of arr that are i, or the sum of their weights when there are any; "
           "numbers of size and more are not counted.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<BincountShape>,
});

static void DenseBincountShape(ShapeContext& c) {
  const int64_t bins = BinsOf(c);
  const Shape input = c.Input(0);
  if (!input.known_rank()) return;
  c.SetOutput(0, input.rank() == 2 ? Shape{input[0], bins} : Shape{bins});
}

TENON_OP(kDenseBincount) = DefineOp({
    .name = "DenseBincount",
    .inputs = "input: Tidx, size: Tidx, weights: T",
    .outputs = "output: T",
    .attrs = "Tidx: {int32, int64}; T: {int32, int64, float, double}; binary_output: bool = false",
    .constraints = "rank(input) <= 2; rank(size) == 0; element(input) >= 0",
    .doc = "Bincount of a vector, or of each row of a matrix; binary_output: 1 where there is any.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<DenseBincountShape>,
});

static void SparseBincountShape(ShapeContext& c) {
  const int64_t bins = BinsOf(c, 3);
  const Shape indices = c.WithRank(0, 2), values = c.WithRank(1, 1), size = c.WithRank(2, 1);
  c.Merge(indices[0], values[0], "the rows of indices and the values");
  const int64_t rank = c.Merge(indices[1], size[0], "the columns of indices and the numbers of dense_shape");
  if (rank > 2) return c.Invalid("a tensor of rank ", rank, "; rows are counted of ranks 1 and 2");
  const auto dims = c.Integers(2);
  if (rank == 1) c.SetOutput(0, {bins});
  else if (rank == 2) c.SetOutput(0, {dims.has_value() ? (*dims)[0] : kUnknown, bins});
}

TENON_OP(kSparseBincount) = DefineOp({
    .name = "SparseBincount",
    .inputs = "indices: int64, values: Tidx, dense_shape: int64, size: Tidx, weights: T",
    .outputs = "output: T",
    .attrs = "Tidx: {int32, int64}; T: {int32, int64, float, double}; binary_output: bool = false",
    .constraints = "rank(indices) == 2; rank(values) == 1; dim(indices, 0) == dim(values, 0); rank(dense_shape) == 1; "
                   "dim(dense_shape, 0) == dim(indices, 1); rank(size) == 0",
    .doc = "DenseBincount of what a sparse vector, or each row of a sparse matrix, has.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<SparseBincountShape>,
});

TENON_OP(kBucketize) = DefineOp({
    .name = "Bucketize",
    .inputs = "input: T",
    .outputs = "output: int32",
    .attrs = "T: {int32, int64, float, double}; boundaries: list(float)",
    .doc = "How many of the boundaries, which are sorted, are not above each element.",
    .properties = "elementwise, exact",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<SameShape>,
});

static void HistogramShape(ShapeContext& c) {
  const Shape range = c.WithRank(1, 1);
  c.Merge(range[0], 2, "the elements of value_range and the ends of a range");
  c.WithRank(2, 0);
  const auto bins = c.Integer(2);
  if (bins.has_value() && *bins <= 0) return c.Invalid("nbins is ", *bins, "; there must be one at least");
  c.SetOutput(0, {bins.value_or(kUnknown)});
}

TENON_OP(kHistogramFixedWidth) = DefineOp({
    .name = "HistogramFixedWidth",
    .inputs = "values: T, value_range: T, nbins: int32",
    .outputs = "out: dtype",
    .attrs = "T: {int32, int64, float, double}; dtype: {int32, int64} = int32",
    .constraints = "rank(value_range) == 1; dim(value_range, 0) == 2; rank(nbins) == 0; value(nbins) >= 1",
    .doc = "How many values fall into each of nbins bins of one width, which make up the range; what is outside goes "
           "to the bin at that end.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<HistogramShape>,
});

}  // namespace tenon::ops
