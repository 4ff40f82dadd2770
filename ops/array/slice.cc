// SPDX-License-Identifier: Apache-2.0
// Slice, Pad, PadV2, ReverseV2: parts of a tensor, and a tensor as a part.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static void SliceShape(ShapeContext& c) {
  Shape input = c.Input(0);
  const Shape begin_shape = c.WithRank(1, 1), size_shape = c.WithRank(2, 1);
  int64_t rank = c.Merge(begin_shape[0], size_shape[0], "the lengths of begin and size");
  if (input.known_rank()) rank = c.Merge(rank, input.rank(), "the length of begin and the rank of the input");
  if (!c.ok() || rank < 0 || rank > TENON_MAX_RANK) return;
  if (!input.known_rank()) input = Shape::OfRank(static_cast<int>(rank));
  const auto begin = c.Integers(1), size = c.Integers(2);
  const Shape partly = size.has_value() ? Shape() : c.InputAsShape(2);
  Shape out = Shape::OfRank(static_cast<int>(rank));
  for (int i = 0; i < rank; ++i) {
    const size_t at = static_cast<size_t>(i);
    const int64_t from = begin.has_value() ? (*begin)[at] : kUnknown;
    if (begin.has_value() && (from < 0 || (input[i] >= 0 && from > input[i]))) {
      return c.Invalid("begin ", *begin, " is outside of the shape ", input);
    }
    if (!size.has_value()) {
      // An unknown one may be -1, which is none of the output's.
      if (partly.known_rank() && partly[i] != kUnknown) out.Set(i, partly[i]);
      continue;
    }
    const int64_t count = (*size)[at];
    if (count < -1) return c.Invalid("size ", *size, " has a negative size other than -1");
    if (count == -1) {
      if (input[i] >= 0 && from >= 0) out.Set(i, input[i] - from);
      continue;
    }
    if (input[i] >= 0 && (count > input[i] || (from >= 0 && from > input[i] - count))) {
      return c.Invalid("size ", *size, begin.has_value() ? Concat(" at begin ", *begin) : std::string(),
                       " reaches beyond the shape ", input);
    }
    out.Set(i, count);
  }
  c.SetOutput(0, out);
  const auto elements = rank == 1 && begin.has_value() && out[0] >= 0 ? c.Elements(0) : std::nullopt;
  // A size that the graph computes may be known, and reach too far: the step says so.
  const auto count = elements.has_value() ? static_cast<int64_t>(elements->size()) : 0;
  if (elements.has_value() && (*begin)[0] <= count && out[0] <= count - (*begin)[0]) {
    const auto first = elements->begin() + (*begin)[0];
    c.SetElements(0, {first, first + out[0]});
  }
}

// Pad(g, [begin, shape(x) - begin - shape(y)]).
static void SliceGradient(GradientContext& g) {
  const Output begin = g.input(1);
  const uint32_t index = g.type(begin);
  const Shape input = g.shape(g.input(0)), output = g.shape(g.output(0));
  const auto from = g.Integers(begin);
  if (from.has_value() && input.fully_known() && output.fully_known() &&
      static_cast<int>(from->size()) == input.rank()) {
    std::vector<int64_t> after;
    for (int i = 0; i < input.rank(); ++i) {
      after.push_back(input[i] - output[i] - (*from)[static_cast<size_t>(i)]);
    }
    return g.SetDx(0, g.Op("Pad", {g.dy(0), g.Op("Pack", {begin, g.Vector(after, index)}, {{"axis", 1}})}));
  }
  const Output after = g.Sub(g.Sub(g.ShapeOf(g.input(0), index), g.ShapeOf(g.output(0), index)), begin);
  g.SetDx(0, g.Op("Pad", {g.dy(0), g.Op("Pack", {begin, after}, {{"axis", 1}})}));
}

TENON_OP(kSlice) = DefineOp({
    .name = "Slice",
    .inputs = "input: T, begin: Index, size: Index",
    .outputs = "output: T",
    .attrs = "T: type; Index: {int32, int64}",
    .constraints = "rank(begin) == 1; rank(size) == 1; dim(begin, 0) == rank(input); dim(size, 0) == rank(input); "
                   "value(begin) >= 0; value(size) >= -1",
    .doc = "The box of the given size at begin; a size of -1 reaches to the end.",
    .properties = "moves(input), fits_half",
    .shape = ShapeFunction<SliceShape>,
    .gradient = GradientFunction<SliceGradient>,
});

static void PadShape(ShapeContext& c) {
  const Shape paddings = c.WithRank(1, 2);
  c.Merge(paddings[1], 2, "the second dim of paddings and 2");
  if (c.input_count() > 2) c.WithRank(2, 0);
  Shape input = c.Input(0);
  if (!input.known_rank()) {
    if (paddings[0] < 0 || paddings[0] > TENON_MAX_RANK) return;
    input = Shape::OfRank(static_cast<int>(paddings[0]));
  }
  c.Merge(paddings[0], input.rank(), "the first dim of paddings and the rank of the input");
  const auto values = c.Integers(1);
  if (!values.has_value() || !c.ok()) return c.SetOutput(0, Shape::OfRank(input.rank()));
  if (values->size() != 2 * static_cast<size_t>(input.rank())) return c.Invalid("paddings have a wrong size");
  for (int i = 0; i < input.rank(); ++i) {
    const int64_t before = (*values)[2 * static_cast<size_t>(i)];
    const int64_t after = (*values)[2 * static_cast<size_t>(i) + 1];
    if (before < 0 || after < 0) return c.Invalid("paddings ", *values, " must not be negative");
    input.Set(i, c.Add(c.Add(input[i], before), after));
  }
  c.SetOutput(0, input);
}

// Slice(g, paddings[:, 0], shape(x)).
static void PadGradient(GradientContext& g) {
  const Output paddings = g.input(1), dy = g.dy(0);
  const uint32_t index = g.type(paddings);
  Output before;
  if (const auto values = g.Integers(paddings)) {
    std::vector<int64_t> first;
    for (size_t i = 0; i < values->size(); i += 2) first.push_back((*values)[i]);
    before = g.Vector(first, index);
  } else {
    before = g.Op("StridedSlice", {paddings, g.Vector({0, 0}), g.Vector({0, 1}), g.Vector({1, 1})},
                  {{"begin_mask", 1}, {"end_mask", 1}, {"shrink_axis_mask", 2}});
  }
  g.SetDx(0, g.Op("Slice", {dy, before, g.ShapeOf(g.input(0), index)}));
}

// What is around the input was made of constant_values.
static void PadV2Gradient(GradientContext& g) {
  PadGradient(g);
  const Output dy = g.dy(0), x = g.input(0);
  const Output around = g.Op("PadV2", {g.ZerosLike(x), g.input(1), g.Scalar(1, x)});
  const Output all = g.Op("Range", {g.Number(0), g.Op("Rank", {dy}), g.Number(1)});
  g.SetDx(2, g.Sum(g.Mul(dy, around), all));
}

TENON_OP(kPad) = DefineOp({
    .name = "Pad",
    .inputs = "input: T, paddings: Tpaddings",
    .outputs = "output: T",
    .attrs = "T: type; Tpaddings: {int32, int64} = int32",
    .constraints = "rank(paddings) == 2; dim(paddings, 0) == rank(input); dim(paddings, 1) == 2; value(paddings) >= 0",
    .doc = "The input with zeros around it: paddings[d] says how many before and after along dim d.",
    .properties = "moves(input), fits_half",
    .shape = ShapeFunction<PadShape>,
    .gradient = GradientFunction<PadGradient>,
});

TENON_OP(kPadV2) = DefineOp({
    .name = "PadV2",
    .inputs = "input: T, paddings: Tpaddings, constant_values: T",
    .outputs = "output: T",
    .attrs = "T: type; Tpaddings: {int32, int64} = int32",
    .constraints = "rank(paddings) == 2; dim(paddings, 0) == rank(input); dim(paddings, 1) == 2; "
                   "value(paddings) >= 0; rank(constant_values) == 0",
    .doc = "The input with constant_values around it: paddings[d] says how many before and after along dim d.",
    .properties = "moves(input, constant_values), fits_half",
    .shape = ShapeFunction<PadShape>,
    .gradient = GradientFunction<PadV2Gradient>,
});

static void ReverseShape(ShapeContext& c) {
  c.WithRank(1, 1);
  const Shape input = c.Input(0);
  const auto axes = c.Integers(1);
  if (axes.has_value() && input.known_rank()) {
    std::vector<bool> seen(static_cast<size_t>(input.rank()), false);
    for (int64_t value : *axes) {
      const auto axis = c.CheckAxis(value, input.rank());
      if (!axis.has_value()) return;
      if (seen[static_cast<size_t>(*axis)]) return c.Invalid("axis ", *axis, " stands twice in ", *axes);
      seen[static_cast<size_t>(*axis)] = true;
    }
  }
  c.SetOutput(0, input);
}

static void ReverseGradient(GradientContext& g) { g.SetDx(0, g.Op("ReverseV2", {g.dy(0), g.input(1)})); }

TENON_OP(kReverseV2) = DefineOp({
    .name = "ReverseV2",
    .inputs = "tensor: T, axis: Tidx",
    .outputs = "output: T",
    .attrs = "Tidx: {int32, int64} = int32; T: {uint8, int8, uint16, int16, int32, uint32, int64, uint64, bool, "
             "bfloat16, half, float, double, complex64, complex128, string}",
    .constraints = "rank(axis) == 1; value(axis) >= -rank(tensor); value(axis) < rank(tensor)",
    .doc = "The input read backwards along the given axes.",
    .properties = "moves(tensor)",
    .shape = ShapeFunction<ReverseShape>,
    .gradient = GradientFunction<ReverseGradient>,
});

}  // namespace tenon::ops
