// SPDX-License-Identifier: Apache-2.0
// Sums of many: AddN of tensors, SegmentSum and UnsortedSegmentSum of rows.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static void AddNShape(ShapeContext& c) {
  Shape shape = c.Input(0);
  for (int i = 1; i < c.input_count(); ++i) shape = c.Merge(shape, c.Input(i), "the shapes of the summands");
  c.SetOutput(0, shape);
}

static void AddNGradient(GradientContext& g) {
  for (int i = 0; i < g.input_count(); ++i) g.PassOn(i, 0);
}

TENON_OP(kAddN) = DefineOp({
    .name = "AddN",
    .inputs = "inputs: N * T",
    .outputs = "sum: T",
    .attrs = "N: int >= 1; T: {float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, "
             "bfloat16, qint16, quint16, uint16, complex128, half, uint32, uint64, variant}",
    .roles = "sum",
    .doc = "The sum of tensors of one shape.",
    .traits = TENON_OP_COMMUTATIVE | TENON_OP_AGGREGATE,
    .shape = ShapeFunction<AddNShape>,
    .gradient = GradientFunction<AddNGradient>,
});

static void SegmentSumShape(ShapeContext& c) {
  const Shape data = c.WithRankAtLeast(0, 1);
  const Shape ids = c.WithRank(1, 1);
  if (data.known_rank()) c.Merge(data[0], ids[0], "the rows of data and the number of segment_ids");
  c.SetOutput(0, Join(Shape{kUnknown}, data.Slice(1)));
}

static void SegmentSumGradient(GradientContext& g) { g.SetDx(0, g.Op("GatherV2", {g.dy(0), g.input(1), g.Number(0)})); }

TENON_OP(kSegmentSum) = DefineOp({
    .name = "SegmentSum",
    .inputs = "data: T, segment_ids: Tindices",
    .outputs = "output: T",
    .attrs = "T: numbertype; Tindices: {int32, int64}",
    .constraints = "rank(data) >= 1; rank(segment_ids) == 1; dim(data, 0) == dim(segment_ids, 0); "
                   "element(segment_ids) >= 0",
    .doc = "The sums of the rows of each segment; segment_ids are sorted and say which segment a row belongs to.",
    .shape = ShapeFunction<SegmentSumShape>,
    .gradient = GradientFunction<SegmentSumGradient>,
});

static void UnsortedSegmentSumShape(ShapeContext& c) {
  const Shape data = c.Input(0), ids = c.Input(1);
  c.WithRank(2, 0);
  const auto segments = c.Integer(2);
  if (segments.has_value() && *segments < 0)
    return c.Invalid("num_segments is ", *segments, "; it must not be negative");
  if (!data.known_rank() || !ids.known_rank()) return;
  if (ids.rank() > data.rank()) return c.Invalid("segment_ids of shape ", ids, " do not fit data of shape ", data);
  c.Merge(data.Slice(0, ids.rank()), ids, "the leading dims of data and segment_ids");
  c.SetOutput(0, Join(Shape{segments.value_or(kUnknown)}, data.Slice(ids.rank())));
}

// Rows gathered by id; the rows whose id is negative were dropped and get 0.
static void UnsortedSegmentSumGradient(GradientContext& g) {
  const Output ids = g.input(1), zero = g.ScalarOf(0, g.type(ids));
  const Output rows = g.Op("GatherV2", {g.dy(0), g.Op("Maximum", {ids, zero}), g.Number(0)});
  Output kept = g.Op("GreaterEqual", {ids, zero});
  const int data_rank = g.shape(g.input(0)).rank(), ids_rank = g.shape(ids).rank();
  if (data_rank >= 0 && ids_rank >= 0) {
    for (int i = ids_rank; i < data_rank; ++i) kept = g.ExpandDims(kept, -1);
  } else {
    const Output extra = g.Sub(g.Op("Rank", {rows}), g.Op("Rank", {ids}));
    const Output ones = g.Op("Fill", {g.Reshape(extra, g.Vector({1})), g.Number(1)});
    kept = g.Reshape(kept, g.Concat({g.ShapeOf(ids), ones}));
  }
  g.SetDx(0, g.Select(kept, rows, g.Scalar(0, rows)));
}

TENON_OP(kUnsortedSegmentSum) = DefineOp({
    .name = "UnsortedSegmentSum",
    .inputs = "data: T, segment_ids: Tindices, num_segments: Tnumsegments",
    .outputs = "output: T",
    .attrs = "T: numbertype; Tindices: {int16, int32, int64}; Tnumsegments: {int32, int64} = int32",
    .constraints = "rank(data) >= rank(segment_ids); rank(num_segments) == 0; value(num_segments) >= 0; "
                   "element(segment_ids) < value(num_segments)",
    .roles = "unsorted_segment_sum",
    .doc = "The sums of the rows of each of num_segments segments; rows with a negative id are dropped.",
    .shape = ShapeFunction<UnsortedSegmentSumShape>,
    .gradient = GradientFunction<UnsortedSegmentSumGradient>,
});

}  // namespace tenon::ops
