// SPDX-License-Identifier: Apache-2.0
// Which elements there are: UniqueV2, UniqueWithCountsV2, ListDiff, NthElement. And lists of dims: BroadcastArgs,
// DataFormatDimMap, DataFormatVecPermute.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static void UniqueListShape(ShapeContext& c) {
  Shape x = c.Input(0);
  const auto axes = c.Integers(1);
  c.WithRankAtMost(1, 1);
  if (axes.has_value() && axes->size() > 1)
    return c.Invalid("axis has ", axes->size(), " elements; it must have one at most");
  if (c.output_count() > 2) c.SetOutput(2, {kUnknown});
  c.SetOutput(1, {kUnknown});
  if (!x.known_rank()) return;
  if (!axes.has_value()) return c.SetOutput(0, Shape::OfRank(x.rank()));
  if (axes->empty() && x.rank() != 1) return c.Invalid("without an axis there must be a vector; the shape is ", x);
  const auto axis = axes->empty() ? 0 : c.CheckAxis(axes->front(), x.rank());
  if (!axis.has_value()) return;
  c.SetOutput(1, {x[*axis]});
  x.Set(*axis, kUnknown);
  c.SetOutput(0, x);
}

TENON_OP(kUniqueV2) = DefineOp({
    .name = "UniqueV2",
    .inputs = "x: T, axis: Taxis",
    .outputs = "y: T, idx: out_idx",
    .attrs = "T: type; Taxis: {int32, int64} = int64; out_idx: {int32, int64} = int32",
    .constraints = "rank(axis) <= 1",
    .doc = "The distinct slices along axis in the order in which each occurs first, and for every slice where it is in "
           "y. axis has one element, or none for vectors.",
    .shape = ShapeFunction<UniqueListShape>,
});

TENON_OP(kUniqueWithCountsV2) = DefineOp({
    .name = "UniqueWithCountsV2",
    .inputs = "x: T, axis: Taxis",
    .outputs = "y: T, idx: out_idx, count: out_idx",
    .attrs = "T: type; Taxis: {int32, int64} = int64; out_idx: {int32, int64} = int32",
    .constraints = "rank(axis) <= 1",
    .doc = "What UniqueV2 gives, and how often each slice of y occurs.",
    .shape = ShapeFunction<UniqueListShape>,
});

static void ListDiffShape(ShapeContext& c) {
  c.WithRank(0, 1);
  c.WithRank(1, 1);
  c.SetOutput(0, {kUnknown});
  c.SetOutput(1, {kUnknown});
}

TENON_OP(kListDiff) = DefineOp({
    .name = "ListDiff",
    .inputs = "x: T, y: T",
    .outputs = "out: T, idx: out_idx",
    .attrs = "T: type; out_idx: {int32, int64} = int32",
    .constraints = "rank(x) == 1; rank(y) == 1",
    .doc = "The elements of x that are not in y, in x's order, and where in x they are.",
    .shape = ShapeFunction<ListDiffShape>,
});

static void NthElementShape(ShapeContext& c) {
  const Shape input = c.WithRankAtLeast(0, 1);
  c.WithRank(1, 0);
  const auto n = c.Integer(1);
  if (n.has_value() && *n < 0) return c.Invalid("n must be non-negative, got ", *n);
  if (n.has_value() && input[-1] >= 0 && *n >= input[-1])
    return c.Invalid("Input must have last dimension > n = ", *n, " but is ", input[-1]);
  if (input.known_rank()) c.SetOutput(0, input.Slice(0, -1));
}

// Elements that are equally the n-th share the gradient.
static void NthElementGradient(GradientContext& g) {
  const Output chosen = g.Cast(g.Op("Equal", {g.ExpandDims(g.output(0), -1), g.input(0)}), g.type(g.input(0)));
  g.SetDx(0, g.Mul(g.Div(chosen, g.Sum(chosen, g.Number(-1), true)), g.ExpandDims(g.dy(0), -1)));
}

TENON_OP(kNthElement) = DefineOp({
    .name = "NthElement",
    .inputs = "input: T, n: int32",
    .outputs = "values: T",
    .attrs = "reverse: bool = false; T: realnumbertype",
    .constraints = "rank(input) >= 1; rank(n) == 0; value(n) >= 0; value(n) < dim(input, -1)",
    .doc = "The n-th smallest (reverse: largest) element of each row, counted from 0.",
    .shape = ShapeFunction<NthElementShape>,
    .gradient = GradientFunction<NthElementGradient>,
});

static void BroadcastArgsShape(ShapeContext& c) {
  const Shape a = c.WithRank(0, 1), b = c.WithRank(1, 1);
  const auto first = c.Integers(0), second = c.Integers(1);
  if (a[0] < 0 || b[0] < 0) return c.SetOutput(0, {kUnknown});
  c.SetOutput(0, {std::max(a[0], b[0])});
  if (!first.has_value() || !second.has_value()) return;
  for (const auto* dims : {&*first, &*second})
    for (const int64_t dim : *dims)
      if (dim < 0) return;  // not asked here: the kernel says so, or takes it
  const Shape both = c.Broadcast(Shape(*first), Shape(*second));
  if (c.ok()) c.SetOutputValue(0, {both.rank()}, both.dims());
}

TENON_OP(kBroadcastArgs) = DefineOp({
    .name = "BroadcastArgs",
    .inputs = "s0: T, s1: T",
    .outputs = "r0: T",
    .attrs = "T: {int32, int64} = int32",
    .constraints = "rank(s0) == 1; rank(s1) == 1",
    .doc = "The shape to which two shapes broadcast.",
    .shape = ShapeFunction<BroadcastArgsShape>,
});

TENON_OP(kDataFormatDimMap) = DefineOp({
    .name = "DataFormatDimMap",
    .inputs = "x: T",
    .outputs = "y: T",
    .attrs = "T: {int32, int64} = int32; src_format: string = 'NHWC'; dst_format: string = 'NCHW'",
    .doc = "Numbers of dims in one format of images, such as NHWC, as their numbers in another.",
    .shape = ShapeFunction<SameShape>,
});

static void VecPermuteShape(ShapeContext& c) { c.SetOutput(0, c.WithRankAtMost(0, 2)); }

TENON_OP(kDataFormatVecPermute) = DefineOp({
    .name = "DataFormatVecPermute",
    .inputs = "x: T",
    .outputs = "y: T",
    .attrs = "T: {int32, int64} = int32; src_format: string = 'NHWC'; dst_format: string = 'NCHW'",
    .constraints = "rank(x) >= 1; rank(x) <= 2",
    .doc = "A number (or pair of numbers) for each dim, or each but batch and channels, of one format of images, such "
           "as NHWC, in the order of another.",
    .shape = ShapeFunction<VecPermuteShape>,
});

}  // namespace tenon::ops
