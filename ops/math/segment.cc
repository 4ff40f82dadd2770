// SPDX-License-Identifier: Apache-2.0
// Many into one: AddN and AccumulateNV2 of tensors; sums, means, products and the largest and smallest of rows, by
// segment.
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
    .properties = "elementwise, fits_half, computes(add_n(inputs))",
    .traits = TENON_OP_COMMUTATIVE | TENON_OP_AGGREGATE,
    .shape = ShapeFunction<AddNShape>,
    .gradient = GradientFunction<AddNGradient>,
});

static void DecomposeAccumulate(DecomposeContext& d) {
  std::vector<Output> inputs;
  for (int i = 0; i < d.input_count(); ++i) inputs.push_back(d.input(i));
  d.SetOutput(0, d.Op("AddN", inputs));
}
static void AccumulateShape(ShapeContext& c) {
  Shape shape = c.ShapeAttr("shape");
  for (int i = 0; i < c.input_count(); ++i) shape = c.Merge(shape, c.Input(i), "the shapes of the summands");
  c.SetOutput(0, shape);
}

TENON_OP(kAccumulateNV2) = DefineOp({
    .name = "AccumulateNV2",
    .inputs = "inputs: N * T",
    .outputs = "sum: T",
    .attrs = "N: int >= 1; T: numbertype; shape: shape",
    .doc = "AddN, of tensors whose shape is told.",
    .properties = "elementwise",
    .traits = TENON_OP_COMMUTATIVE | TENON_OP_AGGREGATE,
    .shape = ShapeFunction<AccumulateShape>,
    .gradient = GradientFunction<AddNGradient>,
    .decompose = DecomposeFunction<DecomposeAccumulate>,
});

// ---- Rows of sorted segments ----

static void SegmentShape(ShapeContext& c) {
  const Shape data = c.WithRankAtLeast(0, 1);
  const Shape ids = c.WithRank(1, 1);
  if (data.known_rank()) c.Merge(data[0], ids[0], "the rows of data and the number of segment_ids");
  c.SetOutput(0, Join(Shape{kUnknown}, data.Slice(1)));
}

namespace {

constexpr std::string_view kSegmentNumbers = "T: numbertype; Tindices: {int32, int64}";
constexpr std::string_view kSegmentReals = "T: realnumbertype; Tindices: {int32, int64}";

consteval tenon_op_definition Segment(OpDefinition op) {
  op.inputs = "data: T, segment_ids: Tindices";
  op.outputs = "output: T";
  op.constraints =
      "rank(data) >= 1; rank(segment_ids) == 1; dim(data, 0) == dim(segment_ids, 0); element(segment_ids) >= 0";
  op.shape = ShapeFunction<SegmentShape>;
  return DefineOp(op);
}

// The rows of x that segment_ids name.
Output Rows(GradientContext& g, Output x) { return g.Op("GatherV2", {x, g.input(1), g.Number(0)}); }

// ids >= 0, of the rank of `rows`, which the ids named.
Output NotDropped(GradientContext& g, Output rows) {
  const Output ids = g.input(1), zero = g.ScalarOf(0, g.type(ids));
  Output kept = g.Op("GreaterEqual", {ids, zero});
  const int data_rank = g.shape(g.input(0)).rank(), ids_rank = g.shape(ids).rank();
  if (data_rank >= 0 && ids_rank >= 0) {
    for (int i = ids_rank; i < data_rank; ++i) kept = g.ExpandDims(kept, -1);
  } else {
    const Output extra = g.Sub(g.Op("Rank", {rows}), g.Op("Rank", {ids}));
    const Output ones = g.Op("Fill", {g.Reshape(extra, g.Vector({1})), g.Number(1)});
    kept = g.Reshape(kept, g.Concat({g.ShapeOf(ids), ones}));
  }
  return kept;
}

// Row 0 stands for those that were dropped: of no segments all were, and there is none. So there is a row more where
// nobody knows that there are segments.
Output RowsOrFirst(GradientContext& g, Output x) {
  const Output ids = g.input(1);
  if (g.shape(x).rank() < 1 || g.shape(x)[0] < 1) {
    const Output row = g.Concat({g.Vector({1}), g.VectorSlice(g.ShapeOf(x), 1)});
    x = g.Concat({x, g.Op("Fill", {row, g.Scalar(0, x)})});
  }
  return g.Op("GatherV2", {x, g.Op("Maximum", {ids, g.ScalarOf(0, g.type(ids))}), g.Number(0)});
}

// The rows of x that segment_ids name, and 0 for those that were dropped.
Output RowsOrZero(GradientContext& g, Output x) {
  const Output rows = RowsOrFirst(g, x);
  return g.Select(NotDropped(g, rows), rows, g.Scalar(0, rows));
}

// The same sum of x that the op makes of its data.
Output SumAlike(GradientContext& g, Output x) {
  return g.input_count() == 2 ? g.Op("SegmentSum", {x, g.input(1)})
                              : g.Op("UnsortedSegmentSum", {x, g.input(1), g.input(2)});
}

// Rows that are the largest (smallest) of their segment share its gradient equally.
void SegmentExtremeGradient(GradientContext& g) {
  const bool sorted = g.input_count() == 2;
  const Output data = g.input(0), zero = g.Scalar(0, data);
  const Output rows = sorted ? Rows(g, g.output(0)) : RowsOrFirst(g, g.output(0));
  Output chosen = g.Op("Equal", {data, rows});
  if (!sorted) chosen = g.Op("LogicalAnd", {chosen, NotDropped(g, rows)});
  const Output shares = g.Div(g.dy(0), SumAlike(g, g.Cast(chosen, g.type(data))));
  g.SetDx(0, g.Select(chosen, sorted ? Rows(g, shares) : RowsOrFirst(g, shares), zero));
}

// The product of the segment's other rows: the segment's by the row's own, unless there are zeros. One zero leaves a
// gradient at its own place alone, two leave none. Complex numbers are not conjugated, as in TensorFlow.
void SegmentProdGradient(GradientContext& g) {
  const bool sorted = g.input_count() == 2;
  const Output data = g.input(0), dy = g.dy(0);
  const auto named = [&](Output x) { return sorted ? Rows(g, x) : RowsOrFirst(g, x); };
  const Output is_zero = g.Op("Equal", {data, g.Scalar(0, data)});
  const Output zeros = SumAlike(g, g.Cast(is_zero, TENON_DT_INT32));
  const Output passed = g.Select(g.Op("Greater", {zeros, g.Number(1)}), g.Scalar(0, dy), dy);
  const Output safe = g.Select(is_zero, g.Scalar(1, data), data);
  const Output rest =
      sorted ? g.Op("SegmentProd", {safe, g.input(1)}) : g.Op("UnsortedSegmentProd", {safe, g.input(1), g.input(2)});
  const Output slope = g.Select(is_zero, named(rest), g.Div(named(g.output(0)), safe));
  g.SetDx(0, g.Mul(sorted ? Rows(g, passed) : RowsOrZero(g, passed), slope));
}

}  // namespace

static void SegmentSumGradient(GradientContext& g) { g.SetDx(0, Rows(g, g.dy(0))); }
TENON_OP(kSegmentSum) = Segment({
    .name = "SegmentSum",
    .attrs = kSegmentNumbers,
    .doc = "The sums of the rows of each segment; segment_ids are sorted and say which segment a row belongs to.",
    .gradient = GradientFunction<SegmentSumGradient>,
});

static void SegmentMeanGradient(GradientContext& g) {
  const Output ids = g.input(1), dy = g.dy(0);
  Output counts = g.Op("SegmentSum", {g.Op("Fill", {g.ShapeOf(ids), g.Scalar(1, dy)}), ids});
  if (const int rank = g.shape(dy).rank(); rank >= 0) {
    for (int i = 1; i < rank; ++i) counts = g.ExpandDims(counts, -1);
  } else {
    const Output extra = g.Sub(g.Op("Rank", {dy}), g.Number(1));
    counts =
        g.Reshape(counts, g.Concat({g.ShapeOf(counts), g.Op("Fill", {g.Reshape(extra, g.Vector({1})), g.Number(1)})}));
  }
  g.SetDx(0, Rows(g, g.Div(dy, counts)));
}
TENON_OP(kSegmentMean) = Segment({
    .name = "SegmentMean",
    .attrs = kSegmentNumbers,
    .doc = "The means of the rows of each segment, 0 where it has none; segment_ids are sorted.",
    .gradient = GradientFunction<SegmentMeanGradient>,
});
TENON_OP(kSegmentProd) = Segment({
    .name = "SegmentProd",
    .attrs = kSegmentNumbers,
    .doc = "The products of the rows of each segment, 1 where it has none; segment_ids are sorted.",
    .gradient = GradientFunction<SegmentProdGradient>,
});
TENON_OP(kSegmentMax) = Segment({
    .name = "SegmentMax",
    .attrs = kSegmentReals,
    .doc = "The largest elements of the rows of each segment, 0 where it has none; segment_ids are sorted.",
    .gradient = GradientFunction<SegmentExtremeGradient>,
});
TENON_OP(kSegmentMin) = Segment({
    .name = "SegmentMin",
    .attrs = kSegmentReals,
    .doc = "The smallest elements of the rows of each segment, 0 where it has none; segment_ids are sorted.",
    .gradient = GradientFunction<SegmentExtremeGradient>,
});

// ---- Rows of segments in any order ----

static void UnsortedSegmentShape(ShapeContext& c) {
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

namespace {

consteval tenon_op_definition Unsorted(OpDefinition op) {
  op.inputs = "data: T, segment_ids: Tindices, num_segments: Tnumsegments";
  op.outputs = "output: T";
  op.constraints = "rank(data) >= rank(segment_ids); rank(num_segments) == 0; value(num_segments) >= 0; "
                   "element(segment_ids) < value(num_segments)";
  op.shape = ShapeFunction<UnsortedSegmentShape>;
  return DefineOp(op);
}

constexpr std::string_view kAnyNumbers =
    "T: numbertype; Tindices: {int32, int64}; Tnumsegments: {int32, int64} = int32";
constexpr std::string_view kAnyReals =
    "T: realnumbertype; Tindices: {int32, int64}; Tnumsegments: {int32, int64} = int32";

}  // namespace

static void UnsortedSegmentSumGradient(GradientContext& g) { g.SetDx(0, RowsOrZero(g, g.dy(0))); }
TENON_OP(kUnsortedSegmentSum) = Unsorted({
    .name = "UnsortedSegmentSum",
    .attrs = "T: numbertype; Tindices: {int16, int32, int64}; Tnumsegments: {int32, int64} = int32",
    .roles = "unsorted_segment_sum",
    .doc = "The sums of the rows of each of num_segments segments; rows with a negative id are dropped.",
    .gradient = GradientFunction<UnsortedSegmentSumGradient>,
});
TENON_OP(kUnsortedSegmentProd) = Unsorted({
    .name = "UnsortedSegmentProd",
    .attrs = kAnyNumbers,
    .doc = "The products of the rows of each of num_segments segments, 1 where it has none; rows with a negative id "
           "are dropped.",
    .gradient = GradientFunction<SegmentProdGradient>,
});
TENON_OP(kUnsortedSegmentMax) = Unsorted({
    .name = "UnsortedSegmentMax",
    .attrs = kAnyReals,
    .doc = "The largest elements of the rows of each of num_segments segments, the type's lowest number where it has "
           "none; rows with a "
           "negative id are dropped.",
    .gradient = GradientFunction<SegmentExtremeGradient>,
});
TENON_OP(kUnsortedSegmentMin) = Unsorted({
    .name = "UnsortedSegmentMin",
    .attrs = kAnyReals,
    .doc = "The smallest elements of the rows of each of num_segments segments, the type's highest number where it has "
           "none; rows with a "
           "negative id are dropped.",
    .gradient = GradientFunction<SegmentExtremeGradient>,
});

// Sorted segments whose number is told. Only TensorFlow's compiler has kernels for them, which look at no order.
namespace {

template <const char* kOp>
void DecomposeV2(DecomposeContext& d) { d.SetOutput(0, d.Op(kOp, {d.input(0), d.input(1), d.input(2)})); }
constexpr char kUnsortedSum[] = "UnsortedSegmentSum", kUnsortedProd[] = "UnsortedSegmentProd",
               kUnsortedMax[] = "UnsortedSegmentMax", kUnsortedMin[] = "UnsortedSegmentMin";

}  // namespace

TENON_OP(kSegmentSumV2) = Unsorted({
    .name = "SegmentSumV2",
    .attrs = kAnyNumbers,
    .doc = "UnsortedSegmentSum, of segment_ids that are sorted.",
    .decompose = DecomposeFunction<DecomposeV2<kUnsortedSum>>,
});
TENON_OP(kSegmentProdV2) = Unsorted({
    .name = "SegmentProdV2",
    .attrs = kAnyNumbers,
    .doc = "UnsortedSegmentProd, of segment_ids that are sorted.",
    .decompose = DecomposeFunction<DecomposeV2<kUnsortedProd>>,
});
TENON_OP(kSegmentMaxV2) = Unsorted({
    .name = "SegmentMaxV2",
    .attrs = kAnyReals,
    .doc = "UnsortedSegmentMax, of segment_ids that are sorted.",
    .decompose = DecomposeFunction<DecomposeV2<kUnsortedMax>>,
});
TENON_OP(kSegmentMinV2) = Unsorted({
    .name = "SegmentMinV2",
    .attrs = kAnyReals,
    .doc = "UnsortedSegmentMin, of segment_ids that are sorted.",
    .decompose = DecomposeFunction<DecomposeV2<kUnsortedMin>>,
});

}  // namespace tenon::ops
