// SPDX-License-Identifier: Apache-2.0
// Concat, ConcatV2, ConcatOffset, Split, SplitV, Pack, Unpack: tensors put side by side and taken apart.
#include "tenon/extras/op/moved_shapes.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

// The sizes that an input holds, behind those of others; false: it is not known how many.
static bool AppendElements(ShapeContext& c, int input, std::vector<int64_t>* all) {
  const int64_t count = c.Count(c.Input(input));
  if (count < 0 || static_cast<int64_t>(all->size()) + count > kMostElements) return false;
  const auto elements = c.Elements(input);
  if (elements.has_value()) all->insert(all->end(), elements->begin(), elements->end());
  else all->insert(all->end(), static_cast<size_t>(count), kUnknown);
  return true;
}

// The axis is the first input of Concat, the last of ConcatV2; the values are the others.
template <bool kAxisFirst>
static void ConcatShape(ShapeContext& c) {
  const int count = c.input_count() - 1, first = kAxisFirst ? 1 : 0;
  const Shape joined = ConcatenatedShape(c, kAxisFirst ? 0 : count, first, count);
  c.SetOutput(0, joined);
  if (joined.rank() != 1) return;
  std::vector<int64_t> elements;
  for (int i = 0; i < count; ++i) {
    if (!AppendElements(c, first + i, &elements)) return;
  }
  c.SetElements(0, elements);
}

// The parts of a dense gradient that belong to the inputs.
template <bool kAxisFirst>
static void ConcatGradient(GradientContext& g) {
  const int count = g.input_count() - 1, first = kAxisFirst ? 1 : 0;
  const Output axis = g.input(kAxisFirst ? 0 : count), dy = g.dy(0);
  const auto known_axis = g.Integers(axis);
  const int rank = g.shape(dy).rank();
  if (known_axis.has_value() && known_axis->size() == 1 && rank > 0) {
    // The sizes along the axis are often all known: then one node does it.
    const int at = static_cast<int>((*known_axis)[0]);
    std::vector<int64_t> sizes;
    for (int i = 0; i < count; ++i) sizes.push_back(g.shape(g.input(first + i))[at]);
    if (std::none_of(sizes.begin(), sizes.end(), [](int64_t size) { return size < 0; })) {
      const int64_t parts =
          g.Node("SplitV", {dy, g.Vector(sizes, TENON_DT_INT64), g.Cast(axis, TENON_DT_INT32)}, {{"num_split", count}});
      for (int i = 0; i < count; ++i) g.SetDx(first + i, {parts, i, 0});
      return;
    }
  }
  std::vector<Output> inputs, shapes;
  for (int i = 0; i < count; ++i) inputs.push_back(g.input(first + i));
  const int64_t shape_node = g.Node("ShapeN", inputs);
  // ConcatOffset takes axes from the front only.
  const Output front = g.Op("FloorMod", {g.Cast(axis, TENON_DT_INT32), g.Op("Rank", {inputs[0]})});
  std::vector<Output> offset_inputs = {front};
  for (int i = 0; i < count; ++i) {
    shapes.push_back({shape_node, i, 0});
    offset_inputs.push_back(shapes.back());
  }
  const int64_t offsets = g.Node("ConcatOffset", offset_inputs);
  for (int i = 0; i < count; ++i) {
    g.SetDx(first + i, g.Op("Slice", {dy, {offsets, i, 0}, shapes[static_cast<size_t>(i)]}));
  }
}

TENON_OP(kConcat) = DefineOp({
    .name = "Concat",
    .inputs = "concat_dim: int32, values: N * T",
    .outputs = "output: T",
    .attrs = "N: int >= 2; T: type",
    .constraints = "rank(concat_dim) == 0; value(concat_dim) >= -rank(values); value(concat_dim) < rank(values)",
    .doc = "The inputs one after the other along concat_dim.",
    .properties = "moves(values), fits_half",
    .shape = ShapeFunction<ConcatShape<true>>,
    .gradient = GradientFunction<ConcatGradient<true>>,
});

TENON_OP(kConcatV2) = DefineOp({
    .name = "ConcatV2",
    .inputs = "values: N * T, axis: Tidx",
    .outputs = "output: T",
    .attrs = "N: int >= 2; T: type; Tidx: {int32, int64} = int32",
    .constraints = "rank(axis) == 0; value(axis) >= -rank(values); value(axis) < rank(values)",
    .roles = "concat",
    .doc = "The inputs one after the other along axis.",
    .properties = "moves(values), fits_half",
    .shape = ShapeFunction<ConcatShape<false>>,
    .gradient = GradientFunction<ConcatGradient<false>>,
});

static void ConcatOffsetShape(ShapeContext& c) {
  c.WithRank(0, 0);
  for (int i = 1; i < c.input_count(); ++i) c.SetOutput(i - 1, c.WithRank(i, 1));
}

TENON_OP(kConcatOffset) = DefineOp({
    .name = "ConcatOffset",
    .inputs = "concat_dim: int32, shape: N * shape_type",
    .outputs = "offset: N * shape_type",
    .attrs = "N: int >= 2; shape_type: {int32, int64} = int32",
    .constraints = "rank(concat_dim) == 0; rank(shape) == 1",
    .doc = "Where each input of the given shapes begins in their concatenation.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ConcatOffsetShape>,
});

static void SplitShape(ShapeContext& c) {
  Shape value = c.WithRankAtLeast(1, 1);
  c.WithRank(0, 0);
  if (value.known_rank()) {
    const auto axis = c.Axis(0, value.rank());
    const int64_t parts = c.Int("num_split");
    if (!axis.has_value()) {
      value = Shape::OfRank(value.rank());
    } else if (parts > 0) {
      if (value[*axis] >= 0 && value[*axis] % parts != 0) {
        return c.Invalid("dim ", *axis, " of ", value, " does not split into ", parts, " equal parts");
      }
      value.Set(*axis, c.Divide(value[*axis], parts));
    }
  }
  for (int i = 0; i < c.output_count(); ++i) c.SetOutput(i, value);
}

// Puts the gradients of all outputs together again.
static Output ConcatAllDy(GradientContext& g, Output axis) {
  if (g.output_count() == 1) return g.dy(0);
  std::vector<Output> inputs;
  for (int i = 0; i < g.output_count(); ++i) inputs.push_back(g.dy(i));
  inputs.push_back(axis);
  return g.Op("ConcatV2", inputs);
}

static void SplitGradient(GradientContext& g) { g.SetDx(1, ConcatAllDy(g, g.input(0))); }

TENON_OP(kSplit) = DefineOp({
    .name = "Split",
    .inputs = "split_dim: int32, value: T",
    .outputs = "output: num_split * T",
    .attrs = "num_split: int >= 1; T: type",
    .constraints = "rank(split_dim) == 0; rank(value) >= 1; value(split_dim) >= -rank(value); "
                   "value(split_dim) < rank(value)",
    .doc = "value in num_split equal parts along split_dim.",
    .properties = "moves(value), fits_half",
    .shape = ShapeFunction<SplitShape>,
    .gradient = GradientFunction<SplitGradient>,
});

static void SplitVShape(ShapeContext& c) {
  const Shape value = c.WithRankAtLeast(0, 1);
  c.Merge(c.WithRank(1, 1)[0], c.output_count(), "the length of size_splits and num_split");
  c.WithRank(2, 0);
  if (!value.known_rank()) return;
  const auto axis = c.Axis(2, value.rank());
  const auto sizes = c.Integers(1);
  Shape part = axis.has_value() ? value : Shape::OfRank(value.rank());
  if (!axis.has_value() || !sizes.has_value() || sizes->size() != static_cast<size_t>(c.output_count())) {
    if (axis.has_value()) part.Set(*axis, kUnknown);
    for (int i = 0; i < c.output_count(); ++i) c.SetOutput(i, part);
    return;
  }
  int64_t sum = 0;
  int unknown = 0;
  for (int64_t size : *sizes) {
    if (size < -1) return c.Invalid("size_splits ", *sizes, " has a negative size other than -1");
    unknown += size < 0 ? 1 : 0;
    if (size >= 0) sum = c.Add(sum, size);
  }
  const int64_t whole = value[*axis];
  if (unknown > 1) return c.Invalid("size_splits ", *sizes, " has -1 more than once");
  if (whole >= 0 && (unknown == 0 ? sum != whole : sum > whole)) {
    return c.Invalid("size_splits ", *sizes, " do not add up to dim ", *axis, " of ", value);
  }
  for (int i = 0; i < c.output_count(); ++i) {
    const int64_t size = (*sizes)[static_cast<size_t>(i)];
    part.Set(*axis, size >= 0 ? size : whole < 0 ? kUnknown : whole - sum);
    c.SetOutput(i, part);
  }
}

static void SplitVGradient(GradientContext& g) { g.SetDx(0, ConcatAllDy(g, g.input(2))); }

TENON_OP(kSplitV) = DefineOp({
    .name = "SplitV",
    .inputs = "value: T, size_splits: Tlen, split_dim: int32",
    .outputs = "output: num_split * T",
    .attrs = "num_split: int >= 1; T: type; Tlen: {int8, int32, int64} = int64",
    .constraints = "rank(size_splits) == 1; rank(split_dim) == 0; rank(value) >= 1; value(size_splits) >= -1; "
                   "value(split_dim) >= -rank(value); value(split_dim) < rank(value)",
    .doc = "value in parts of the given sizes along split_dim; one size may be -1: what is left.",
    .properties = "moves(value), fits_half",
    .shape = ShapeFunction<SplitVShape>,
    .gradient = GradientFunction<SplitVGradient>,
});

static void PackShape(ShapeContext& c) {
  Shape element = c.Input(0);
  for (int i = 1; i < c.input_count(); ++i) {
    element = c.Merge(element, c.Input(i), "the shapes of the packed tensors");
  }
  if (!element.known_rank()) return;
  const auto axis = c.CheckAxis(c.Int("axis"), element.rank() + 1);
  if (!axis.has_value()) return;
  c.SetOutput(0, Join(Join(element.Slice(0, *axis), Shape{c.input_count()}), element.Slice(*axis)));
  if (element.rank() != 0) return;
  std::vector<int64_t> elements;
  for (int i = 0; i < c.input_count(); ++i) {
    if (!AppendElements(c, i, &elements)) return;
  }
  c.SetElements(0, elements);
}

static void PackGradient(GradientContext& g) {
  const int64_t parts = g.Node("Unpack", {g.dy(0)}, {{"num", g.input_count()}, {"axis", g.Int("axis")}});
  for (int i = 0; i < g.input_count(); ++i) g.SetDx(i, {parts, i, 0});
}

TENON_OP(kPack) = DefineOp({
    .name = "Pack",
    .inputs = "values: N * T",
    .outputs = "output: T",
    .attrs = "N: int >= 1; T: type; axis: int = 0",
    .doc = "Tensors of one shape stacked along a new axis.",
    .properties = "moves(values), fits_half",
    .shape = ShapeFunction<PackShape>,
    .gradient = GradientFunction<PackGradient>,
});

static void UnpackShape(ShapeContext& c) {
  const Shape value = c.WithRankAtLeast(0, 1);
  if (!value.known_rank()) return;
  const auto axis = c.CheckAxis(c.Int("axis"), value.rank());
  if (!axis.has_value()) return;
  c.Merge(value[*axis], c.output_count(), "the dim at axis and num");
  const Shape element = Join(value.Slice(0, *axis), value.Slice(*axis + 1));
  const auto elements = value.rank() == 1 ? c.Elements(0) : std::nullopt;
  for (int i = 0; i < c.output_count(); ++i) {
    c.SetOutput(i, element);
    if (elements.has_value()) c.SetElements(i, {(*elements)[static_cast<size_t>(i)]});
  }
}

static void UnpackGradient(GradientContext& g) {
  std::vector<Output> parts;
  for (int i = 0; i < g.output_count(); ++i) parts.push_back(g.dy(i));
  if (!parts.empty()) g.SetDx(0, g.Op("Pack", parts, {{"axis", g.Int("axis")}}));
}

TENON_OP(kUnpack) = DefineOp({
    .name = "Unpack",
    .inputs = "value: T",
    .outputs = "output: num * T",
    .attrs = "num: int >= 0; T: type; axis: int = 0",
    .constraints = "rank(value) >= 1; axis >= -rank(value); axis < rank(value)",
    .doc = "value taken apart along axis, which disappears.",
    .properties = "moves(value), fits_half",
    .shape = ShapeFunction<UnpackShape>,
    .gradient = GradientFunction<UnpackGradient>,
});

}  // namespace tenon::ops
