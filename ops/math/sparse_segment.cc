// SPDX-License-Identifier: Apache-2.0
// Sums and means of named rows by segment, and their gradients: what embeddings of sparse features are made with. A
// gradient has all rows of data, or (V2) those alone that were named, once each.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

void SparseSegmentShape(ShapeContext& c) {
  const Shape data = c.WithRankAtLeast(0, 1), indices = c.WithRank(1, 1), ids = c.WithRank(2, 1);
  c.Merge(indices[0], ids[0], "the numbers of indices and of segment_ids");
  c.SetOutput(0, Join({kUnknown}, data.Slice(1)));
}

void NumberedSegmentShape(ShapeContext& c) {
  const Shape data = c.WithRankAtLeast(0, 1), indices = c.WithRank(1, 1), ids = c.WithRank(2, 1);
  c.WithRank(3, 0);
  c.Merge(indices[0], ids[0], "the numbers of indices and of segment_ids");
  const auto segments = c.Integer(3);
  if (segments.has_value() && *segments < 0)
    return c.Invalid("num_segments is ", *segments, "; it must not be negative");
  c.SetOutput(0, Join({segments.value_or(kUnknown)}, data.Slice(1)));
}

void SegmentGradShape(ShapeContext& c) {
  const Shape grad = c.WithRankAtLeast(0, 1), indices = c.WithRank(1, 1), ids = c.WithRank(2, 1);
  c.WithRank(3, 0);
  c.Merge(indices[0], ids[0], "the numbers of indices and of segment_ids");
  const auto rows = c.Integer(3);
  if (rows.has_value() && *rows < 0) return c.Invalid("output_dim0 is ", *rows, "; it must not be negative");
  c.SetOutput(0, Join({rows.value_or(kUnknown)}, grad.Slice(1)));
}

void SegmentGradV2Shape(ShapeContext& c) {
  const Shape grad = c.WithRankAtLeast(0, 1), indices = c.WithRank(1, 1), ids = c.WithRank(2, 1);
  c.WithRank(3, 0);
  c.Merge(indices[0], ids[0], "the numbers of indices and of segment_ids");
  c.SetOutput(0, Join({kUnknown}, grad.Slice(1)));
  c.SetOutput(1, {kUnknown});
}

constexpr char kOfSum[] = "SparseSegmentSumGrad", kOfMean[] = "SparseSegmentMeanGrad",
               kOfSqrtN[] = "SparseSegmentSqrtNGrad";

template <const char* kOp>
void SegmentGradient(GradientContext& g) {
  const int64_t rows = g.shape(g.input(0))[0];
  const Output count =
      rows >= 0 && rows <= INT32_MAX
          ? g.Number(rows)
          : g.Reshape(g.VectorSlice(g.Op("Shape", {g.input(0)}, {Attribute::Type("out_type", TENON_DT_INT32)}), 0, 1),
                      g.Vector({}));
  if (!g.Bool("sparse_gradient")) return g.SetDx(0, g.Op(kOp, {g.dy(0), g.input(1), g.input(2), count}));
  const int64_t node = g.Node(std::string(kOp) + "V2", {g.dy(0), g.input(1), g.input(2), count});
  g.SetDxSlices(0, {node, 0, 0}, {node, 1, 0}, g.ShapeOf(g.input(0), TENON_DT_INT64));
}

consteval tenon_op_definition SparseSegment(OpDefinition op) {
  op.inputs = "data: T, indices: Tidx, segment_ids: Tsegmentids";
  op.outputs = "output: T";
  op.constraints =
      "rank(data) >= 1; rank(indices) == 1; rank(segment_ids) == 1; dim(indices, 0) == dim(segment_ids, 0); "
      "element(indices) >= 0; element(indices) < dim(data, 0); element(segment_ids) >= 0";
  op.shape = ShapeFunction<SparseSegmentShape>;
  return DefineOp(op);
}
consteval tenon_op_definition NumberedSegment(OpDefinition op) {
  op.inputs = "data: T, indices: Tidx, segment_ids: Tsegmentids, num_segments: Tnumsegments";
  op.outputs = "output: T";
  op.constraints =
      "rank(data) >= 1; rank(indices) == 1; rank(segment_ids) == 1; dim(indices, 0) == dim(segment_ids, 0); "
      "rank(num_segments) == 0; "
      "value(num_segments) >= 0; element(indices) >= 0; element(indices) < dim(data, 0); element(segment_ids) >= 0; "
      "element(segment_ids) < value(num_segments)";
  op.shape = ShapeFunction<NumberedSegmentShape>;
  return DefineOp(op);
}
consteval tenon_op_definition SegmentGrad(OpDefinition op) {
  op.inputs = "grad: T, indices: Tidx, segment_ids: Tsegmentids, output_dim0: int32";
  op.outputs = "output: T";
  op.attrs = "T: {bfloat16, half, float, double}; Tidx: {int32, int64} = int32; Tsegmentids: {int32, int64} = int32";
  op.constraints =
      "rank(grad) >= 1; rank(indices) == 1; rank(segment_ids) == 1; rank(output_dim0) == 0; value(output_dim0) >= 0; "
      "element(segment_ids) < dim(grad, 0); element(indices) >= 0";
  op.shape = ShapeFunction<SegmentGradShape>;
  return DefineOp(op);
}
consteval tenon_op_definition SegmentGradV2(OpDefinition op) {
  op.inputs = "grad: T, indices: Tidx, segment_ids: Tsegmentids, dense_output_dim0: int32";
  op.outputs = "output: T, sorted_unique_indices: Tidx";
  op.attrs = "T: {bfloat16, half, float, double}; Tidx: {int32, int64} = int32; Tsegmentids: {int32, int64} = int32";
  op.constraints = "rank(grad) >= 1; rank(indices) == 1; rank(segment_ids) == 1; rank(dense_output_dim0) == 0; "
                   "element(segment_ids) < dim(grad, 0); element(indices) >= 0";
  op.shape = ShapeFunction<SegmentGradV2Shape>;
  return DefineOp(op);
}

}  // namespace

TENON_OP(kSparseSegmentSum) = SparseSegment({
    .name = "SparseSegmentSum",
    .attrs = "T: realnumbertype; Tidx: {int32, int64} = int32; Tsegmentids: {int32, int64} = int32; sparse_gradient: "
             "bool = false",
    .doc = "For each segment the sum of the rows of data that indices name; segment_ids are sorted, and what is left "
           "out is 0.",
    .gradient = GradientFunction<SegmentGradient<kOfSum>>,
});
TENON_OP(kSparseSegmentMean) = SparseSegment({
    .name = "SparseSegmentMean",
    .attrs = "T: {bfloat16, half, float, double}; Tidx: {int32, int64} = int32; Tsegmentids: {int32, int64} = int32; "
             "sparse_gradient: bool = false",
    .doc = "For each segment the mean of the rows of data that indices name; segment_ids are sorted, and what is left "
           "out is 0.",
    .gradient = GradientFunction<SegmentGradient<kOfMean>>,
});
TENON_OP(kSparseSegmentSqrtN) = SparseSegment({
    .name = "SparseSegmentSqrtN",
    .attrs = "T: {bfloat16, half, float, double}; Tidx: {int32, int64} = int32; Tsegmentids: {int32, int64} = int32; "
             "sparse_gradient: bool = false",
    .doc = "For each segment the sum of the rows of data that indices name, over the square root of their number.",
    .gradient = GradientFunction<SegmentGradient<kOfSqrtN>>,
});
TENON_OP(kSparseSegmentSumWithNumSegments) = NumberedSegment({
    .name = "SparseSegmentSumWithNumSegments",
    .attrs = "T: realnumbertype; Tidx: {int32, int64} = int32; Tnumsegments: {int32, int64} = int32; "
             "Tsegmentids: {int32, int64} = int32; sparse_gradient: bool = false",
    .doc = "SparseSegmentSum of num_segments segments, also where the last of them have no rows.",
    .gradient = GradientFunction<SegmentGradient<kOfSum>>,
});
TENON_OP(kSparseSegmentMeanWithNumSegments) = NumberedSegment({
    .name = "SparseSegmentMeanWithNumSegments",
    .attrs = "T: {bfloat16, half, float, double}; Tidx: {int32, int64} = int32; Tnumsegments: {int32, int64} = int32; "
             "Tsegmentids: {int32, int64} = int32; sparse_gradient: bool = false",
    .doc = "SparseSegmentMean of num_segments segments, also where the last of them have no rows.",
    .gradient = GradientFunction<SegmentGradient<kOfMean>>,
});
TENON_OP(kSparseSegmentSqrtNWithNumSegments) = NumberedSegment({
    .name = "SparseSegmentSqrtNWithNumSegments",
    .attrs = "T: {bfloat16, half, float, double}; Tidx: {int32, int64} = int32; Tnumsegments: {int32, int64} = int32; "
             "Tsegmentids: {int32, int64} = int32; sparse_gradient: bool = false",
    .doc = "SparseSegmentSqrtN of num_segments segments, also where the last of them have no rows.",
    .gradient = GradientFunction<SegmentGradient<kOfSqrtN>>,
});
TENON_OP(kSparseSegmentSumGrad) =
    SegmentGrad({.name = "SparseSegmentSumGrad",
                 .doc = "The gradient of SparseSegmentSum with respect to data, of output_dim0 rows."});
TENON_OP(kSparseSegmentMeanGrad) =
    SegmentGrad({.name = "SparseSegmentMeanGrad",
                 .doc = "The gradient of SparseSegmentMean with respect to data, of output_dim0 rows."});
TENON_OP(kSparseSegmentSqrtNGrad) =
    SegmentGrad({.name = "SparseSegmentSqrtNGrad",
                 .doc = "The gradient of SparseSegmentSqrtN with respect to data, of output_dim0 rows."});
TENON_OP(kSparseSegmentSumGradV2) =
    SegmentGradV2({.name = "SparseSegmentSumGradV2",
                   .doc = "The rows of SparseSegmentSumGrad that indices name, and which they are."});
TENON_OP(kSparseSegmentMeanGradV2) =
    SegmentGradV2({.name = "SparseSegmentMeanGradV2",
                   .doc = "The rows of SparseSegmentMeanGrad that indices name, and which they are."});
TENON_OP(kSparseSegmentSqrtNGradV2) =
    SegmentGradV2({.name = "SparseSegmentSqrtNGradV2",
                   .doc = "The rows of SparseSegmentSqrtNGrad that indices name, and which they are."});

}  // namespace tenon::ops
