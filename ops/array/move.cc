// SPDX-License-Identifier: Apache-2.0
// Elements moved, or seen as others: Roll, Bitcast, InplaceUpdate and its like, TensorStridedSliceUpdate,
// ParallelDynamicStitch, ParallelConcat, Snapshot, GuaranteeConst.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static void RollShape(ShapeContext& c) {
  const Shape input = c.WithRankAtLeast(0, 1);
  c.Merge(c.WithRankAtMost(1, 1), c.WithRankAtMost(2, 1), "the shapes of shift and axis");
  if (const auto axes = c.Integers(2); axes.has_value() && input.known_rank())
    for (const int64_t axis : *axes) c.CheckAxis(axis, input.rank());
  c.SetOutput(0, input);
}

static void RollGradient(GradientContext& g) { g.SetDx(0, g.Op("Roll", {g.dy(0), g.Neg(g.input(1)), g.input(2)})); }

TENON_OP(kRoll) = DefineOp({
    .name = "Roll",
    .inputs = "input: T, shift: Tshift, axis: Taxis",
    .outputs = "output: T",
    .attrs = "T: type; Tshift: {int32, int64}; Taxis: {int32, int64}",
    .constraints =
        "rank(input) >= 1; rank(shift) <= 1; rank(axis) <= 1; value(axis) >= -rank(input); value(axis) < rank(input)",
    .doc = "The elements moved by shift along axis, those that leave at one end coming in at the other; several shifts "
           "along one axis add up.",
    .properties = "moves(input)",
    .shape = ShapeFunction<RollShape>,
    .gradient = GradientFunction<RollGradient>,
});

// A type of half the size has one dim more, of 2, one of twice the size one less.
static void BitcastShape(ShapeContext& c) {
  Shape shape = c.Input(0);
  const auto from = static_cast<int64_t>(ElementSize(c.input_type(0))),
             to = static_cast<int64_t>(ElementSize(c.Type("type")));
  if (!shape.known_rank()) return;
  if (from > to) {
    shape.Append(from / to);
  } else if (from < to) {
    if (shape.rank() == 0 || (shape[-1] >= 0 && shape[-1] != to / from))
      return c.Invalid("Cannot bitcast from ", TypeName(c.input_type(0)), " to ", TypeName(c.Type("type")),
                       " due to shape: the last dim of ", shape, " must be ", to / from);
    shape = shape.Slice(0, -1);
  }
  c.SetOutput(0, shape);
}

TENON_OP(kBitcast) = DefineOp({
    .name = "Bitcast",
    .inputs = "input: T",
    .outputs = "output: type",
    .attrs = "T: {bfloat16, half, float, double, int64, int32, uint8, uint16, uint32, uint64, int8, int16, complex64, "
             "complex128, qint8, quint8, qint16, quint16, qint32}; "
             "type: {bfloat16, half, float, double, int64, int32, uint8, uint16, uint32, uint64, int8, int16, "
             "complex64, complex128, qint8, quint8, qint16, quint16, qint32}",
    .doc = "The same bytes as elements of another type.",
    .shape = ShapeFunction<BitcastShape>,
});

static void InplaceShape(ShapeContext& c) {
  c.WithRank(1, 1);
  c.SetOutput(0, c.WithRankAtLeast(0, 1));
}

static consteval tenon_op_definition InplaceOp(OpDefinition op) {
  op.inputs = "x: T, i: int32, v: T";
  op.outputs = "y: T";
  op.attrs = "T: type";
  op.constraints = "rank(x) >= 1; rank(i) == 1; rank(v) == rank(x); dim(v, 0) == dim(i, 0)";
  op.shape = ShapeFunction<InplaceShape>;
  return DefineOp(op);
}

TENON_OP(kInplaceUpdate) =
    InplaceOp({.name = "InplaceUpdate",
               .doc = "x with v's rows instead of rows i, counted around; of a row named twice the last stays."});
TENON_OP(kInplaceAdd) = InplaceOp({.name = "InplaceAdd", .doc = "x with v's rows added to rows i, counted around."});
TENON_OP(kInplaceSub) = InplaceOp({.name = "InplaceSub",
                                   .doc = "x with v's rows subtracted from rows i, counted around."});

// ---- Others in a row ----

static std::vector<Attribute> SliceMasks(NodeContext& c) {
  std::vector<Attribute> attributes;
  for (const char* name : {"begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"})
    attributes.emplace_back(name, c.Int(name));
  return attributes;
}

// The values written into zeros, where a mask written in the same way says that they are.
static void DecomposeSliceUpdate(DecomposeContext& d) {
  const Output input = d.input(0), begin = d.input(1), end = d.input(2), strides = d.input(3);
  const auto masks = SliceMasks(d);
  const Output slice = d.Op("StridedSlice", {input, begin, end, strides}, masks);
  const Output taken = d.ShapeOf(slice), whole = d.ShapeOf(input, d.type(begin));
  const auto written = [&](Output value) {
    return d.Op("StridedSliceGrad", {whole, begin, end, strides, d.Op("BroadcastTo", {value, taken})}, masks);
  };
  d.SetOutput(0, d.Select(written(d.ScalarOf(1, TENON_DT_BOOL)), written(d.input(4)), input));
}
static void SliceUpdateGradient(GradientContext& g) {
  const auto masks = SliceMasks(g);
  const Output begin = g.input(1), end = g.input(2), strides = g.input(3);
  const Output dslice = g.Op("StridedSlice", {g.dy(0), begin, end, strides}, masks);
  g.SetDx(0, g.Op("TensorStridedSliceUpdate", {g.dy(0), begin, end, strides, g.ZerosLike(dslice)}, masks));
  g.SetDx(4, g.Unbroadcast(dslice, g.input(4), dslice));
}

TENON_OP(kTensorStridedSliceUpdate) = DefineOp({
    .name = "TensorStridedSliceUpdate",
    .inputs = "input: T, begin: Index, end: Index, strides: Index, value: T",
    .outputs = "output: T",
    .attrs = "T: type; Index: {int32, int64}; begin_mask: int = 0; end_mask: int = 0; ellipsis_mask: int = 0; "
             "new_axis_mask: int = 0; shrink_axis_mask: int = 0",
    .constraints = "rank(begin) == 1; rank(end) == 1; rank(strides) == 1; dim(begin, 0) == dim(end, 0); dim(begin, 0) "
                   "== dim(strides, 0); value(strides) != 0",
    .doc = "input with value, broadcast, where StridedSlice would read.",
    .properties = "moves(input, value)",
    .shape = ShapeFunction<SameShape>,
    .gradient = GradientFunction<SliceUpdateGradient>,
    .decompose = DecomposeFunction<DecomposeSliceUpdate>,
});

static void ParallelStitchShape(ShapeContext& c) {
  const int count = c.input_count() / 2;
  Shape tail;
  for (int i = 0; i < count; ++i) {
    const Shape indices = c.Input(i), data = c.Input(count + i);
    if (!indices.known_rank() || !data.known_rank()) continue;
    if (indices.rank() > data.rank())
      return c.Invalid("indices of shape ", indices, " do not fit data of shape ", data);
    c.Merge(data.Slice(0, indices.rank()), indices, "the leading dims of data and indices");
    tail = c.Merge(tail, data.Slice(indices.rank()), "the shapes of the rows");
  }
  c.SetOutput(0, Join(Shape{kUnknown}, tail));
}
static void DecomposeParallelStitch(DecomposeContext& d) {
  const Range indices = d.InputRange("indices"), data = d.InputRange("data");
  std::vector<Output> inputs;
  for (int i = 0; i < indices.count; ++i) inputs.push_back(d.input(indices.begin + i));
  for (int i = 0; i < data.count; ++i) inputs.push_back(d.input(data.begin + i));
  d.SetOutput(0, d.Op("DynamicStitch", inputs, {{"N", d.Int("N")}}));
}
static void ParallelStitchGradient(GradientContext& g) {
  const int count = g.input_count() / 2;
  for (int i = 0; i < count; ++i) g.SetDx(count + i, g.Op("GatherV2", {g.dy(0), g.input(i), g.Number(0)}));
}

TENON_OP(kParallelDynamicStitch) = DefineOp({
    .name = "ParallelDynamicStitch",
    .inputs = "indices: N * int32, data: N * T",
    .outputs = "merged: T",
    .attrs = "N: int >= 1; T: type",
    .constraints = "element(indices) >= 0",
    .doc = "As DynamicStitch; of rows that have one index any may win.",
    .properties = "moves(data)",
    .shape = ShapeFunction<ParallelStitchShape>,
    .gradient = GradientFunction<ParallelStitchGradient>,
    .decompose = DecomposeFunction<DecomposeParallelStitch>,
});

static void ParallelConcatShape(ShapeContext& c) {
  const Shape shape = c.ShapeAttr("shape");
  if (!shape.fully_known()) return c.Invalid("shape attr must be fully defined; it is ", shape);
  if (shape.rank() < 1) return c.Invalid("the values of ParallelConcat are rows; its shape must have one dim at least");
  if (shape[0] != c.input_count())
    return c.Invalid("the shape ", shape, " has ", shape[0], " rows; there are ", c.input_count(), " values");
  Shape row = shape;
  row.Set(0, 1);
  for (int i = 0; i < c.input_count(); ++i) c.Merge(c.Input(i), row, "the shapes of a value and of a row");
  c.SetOutput(0, shape);
}
static void DecomposeParallelConcat(DecomposeContext& d) {
  std::vector<Output> rows;
  for (int i = 0; i < d.input_count(); ++i) rows.push_back(d.input(i));
  d.SetOutput(0, rows.size() == 1 ? d.Op("Identity", rows) : d.Concat(rows, 0));
}

TENON_OP(kParallelConcat) = DefineOp({
    .name = "ParallelConcat",
    .inputs = "values: N * T",
    .outputs = "output: T",
    .attrs = "N: int >= 1; T: type; shape: shape",
    .doc = "Tensors of one row each, one below the other. TensorFlow writes each as soon as it is there; here all are "
           "waited for.",
    .properties = "moves(values)",
    .shape = ShapeFunction<ParallelConcatShape>,
    .decompose = DecomposeFunction<DecomposeParallelConcat>,
});

static void DecomposeToIdentity(DecomposeContext& d) { d.SetOutput(0, d.Op("Identity", {d.input(0)})); }

TENON_OP(kSnapshot) = DefineOp({
    .name = "Snapshot",
    .inputs = "input: T",
    .outputs = "output: T",
    .attrs = "T: type",
    .doc = "The input, unchanged.",
    .properties = "view(input)",
    .shape = ShapeFunction<SameShape>,
    .gradient = GradientFunction<PassOnGradient>,
    .decompose = DecomposeFunction<DecomposeToIdentity>,
});

static void GuaranteeConstShape(ShapeContext& c) { c.PassOn(0, 0); }

TENON_OP(kGuaranteeConst) = DefineOp({
    .name = "GuaranteeConst",
    .inputs = "input: T",
    .outputs = "output: T",
    .attrs = "T: type",
    .doc = "The input, unchanged, which the author of the graph promises never to change.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<GuaranteeConstShape>,
    .decompose = DecomposeFunction<DecomposeToIdentity>,
});

}  // namespace tenon::ops
