// SPDX-License-Identifier: Apache-2.0
// DynamicPartition, DynamicStitch, Unique, BroadcastGradientArgs: where the data decide the shapes.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static void DynamicPartitionShape(ShapeContext& c) {
  const Shape data = c.Input(0), partitions = c.Input(1);
  if (!data.known_rank() || !partitions.known_rank()) return;
  if (partitions.rank() > data.rank()) {
    return c.Invalid("partitions of shape ", partitions, " do not fit data of shape ", data);
  }
  c.Merge(data.Slice(0, partitions.rank()), partitions, "the leading dims of data and partitions");
  const Shape out = Join(Shape{kUnknown}, data.Slice(partitions.rank()));
  for (int i = 0; i < c.output_count(); ++i) c.SetOutput(i, out);
}

// Each row goes back to where it came from.
static void DynamicPartitionGradient(GradientContext& g) {
  const Output data = g.input(0), partitions = g.input(1);
  const Output shape = g.ShapeOf(partitions);
  const Output positions = g.Reshape(g.Op("Range", {g.Number(0), g.Op("Size", {partitions}), g.Number(1)}), shape);
  const int parts = g.output_count();
  const int64_t rows = g.Node("DynamicPartition", {positions, partitions}, {{"num_partitions", parts}});
  std::vector<Output> inputs;
  for (int i = 0; i < parts; ++i) inputs.push_back({rows, i, 0});
  for (int i = 0; i < parts; ++i) inputs.push_back(g.dy(i));
  const Output stitched = g.Op("DynamicStitch", inputs, {{"N", parts}});
  g.SetDx(0, g.Reshape(stitched, g.ShapeOf(data)));
}

TENON_OP(kDynamicPartition) = DefineOp({
    .name = "DynamicPartition",
    .inputs = "data: T, partitions: int32",
    .outputs = "outputs: num_partitions * T",
    .attrs = "num_partitions: int >= 1; T: type",
    .constraints = "rank(data) >= rank(partitions); element(partitions) >= 0; element(partitions) < num_partitions",
    .doc = "The rows of data sorted into num_partitions tensors, as partitions says for each.",
    .properties = "moves(data)",
    .shape = ShapeFunction<DynamicPartitionShape>,
    .gradient = GradientFunction<DynamicPartitionGradient>,
});

static void DynamicStitchShape(ShapeContext& c) {
  const int count = c.input_count() / 2;
  Shape tail;
  int64_t largest = -1;
  bool all_known = true;
  for (int i = 0; i < count; ++i) {
    const Shape indices = c.Input(i), data = c.Input(count + i);
    const auto values = c.Integers(i);
    all_known = all_known && values.has_value();
    if (values.has_value()) {
      for (int64_t value : *values) {
        if (value < 0) return c.Invalid("the indices ", *values, " have a negative one");
        largest = std::max(largest, value);
      }
    }
    if (!indices.known_rank() || !data.known_rank()) continue;
    if (indices.rank() > data.rank())
      return c.Invalid("indices of shape ", indices, " do not fit data of shape ", data);
    c.Merge(data.Slice(0, indices.rank()), indices, "the leading dims of data and indices");
    tail = c.Merge(tail, data.Slice(indices.rank()), "the shapes of the rows");
  }
  c.SetOutput(0, Join(Shape{all_known ? largest + 1 : kUnknown}, tail));
}

static void DynamicStitchGradient(GradientContext& g) {
  const int count = g.input_count() / 2;
  const Output dy = g.dy(0);
  for (int i = 0; i < count; ++i) {
    g.SetDx(count + i, g.Op("GatherV2", {dy, g.input(i), g.Number(0)}));
  }
}

TENON_OP(kDynamicStitch) = DefineOp({
    .name = "DynamicStitch",
    .inputs = "indices: N * int32, data: N * T",
    .outputs = "merged: T",
    .attrs = "N: int >= 1; T: type",
    .constraints = "element(indices) >= 0",
    .doc = "Rows put where the indices say: merged[indices[m][i]] = data[m][i]; later ones win.",
    .properties = "moves(data)",
    .shape = ShapeFunction<DynamicStitchShape>,
    .gradient = GradientFunction<DynamicStitchGradient>,
});

static void UniqueShape(ShapeContext& c) {
  const Shape x = c.WithRank(0, 1);
  c.SetOutput(0, {kUnknown});
  c.SetOutput(1, x);
}

TENON_OP(kUnique) = DefineOp({
    .name = "Unique",
    .inputs = "x: T",
    .outputs = "y: T, idx: out_idx",
    .attrs = "T: type; out_idx: {int32, int64} = int32",
    .constraints = "rank(x) == 1",
    .doc = "The distinct elements in the order in which each occurs first, and for every element where it is in y.",
    .shape = ShapeFunction<UniqueShape>,
});

static void UniqueWithCountsShape(ShapeContext& c) {
  UniqueShape(c);
  c.SetOutput(2, {kUnknown});
}

TENON_OP(kUniqueWithCounts) = DefineOp({
    .name = "UniqueWithCounts",
    .inputs = "x: T",
    .outputs = "y: T, idx: out_idx, count: out_idx",
    .attrs = "T: type; out_idx: {int32, int64} = int32",
    .constraints = "rank(x) == 1",
    .doc = "What Unique gives, and how often each element of y occurs.",
    .shape = ShapeFunction<UniqueWithCountsShape>,
});

static void BroadcastGradientArgsShape(ShapeContext& c) {
  c.WithRank(0, 1);
  c.WithRank(1, 1);
  const auto known0 = c.Integers(0), known1 = c.Integers(1);
  if (!known0.has_value() || !known1.has_value()) {
    c.SetOutput(0, {kUnknown});
    c.SetOutput(1, {kUnknown});
    return;
  }
  const Shape s0(*known0), s1(*known1);
  if (!ShapeContext::BroadcastOf(s0, s1).has_value()) {
    return c.Invalid("shapes ", s0, " and ", s1, " do not broadcast against each other");
  }
  const int rank = std::max(s0.rank(), s1.rank());
  std::vector<int64_t> axes0, axes1;
  for (int i = 0; i < rank; ++i) {
    const int i0 = i - (rank - s0.rank()), i1 = i - (rank - s1.rank());
    const int64_t d0 = i0 < 0 ? 1 : s0[i0], d1 = i1 < 0 ? 1 : s1[i1];
    // Equal dims larger than 1 need no sum; where both are 1 the axis stands in both lists.
    if (d0 == d1 && d0 != 1) continue;
    if (d0 == 1) axes0.push_back(i);
    if (d1 == 1) axes1.push_back(i);
  }
  // Equal shapes need none at all.
  if (s0 == s1) axes0 = axes1 = {};
  const Shape shape0{static_cast<int64_t>(axes0.size())}, shape1{static_cast<int64_t>(axes1.size())};
  c.SetOutput(0, shape0);
  c.SetOutput(1, shape1);
  c.SetOutputValue(0, shape0, axes0);
  c.SetOutputValue(1, shape1, axes1);
}

TENON_OP(kBroadcastGradientArgs) = DefineOp({
    .name = "BroadcastGradientArgs",
    .inputs = "s0: T, s1: T",
    .outputs = "r0: T, r1: T",
    .attrs = "T: {int32, int64} = int32",
    .constraints = "rank(s0) == 1; rank(s1) == 1; value(s0) >= 0; value(s1) >= 0",
    .doc = "For shapes that broadcast against each other, the axes along which each is repeated.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<BroadcastGradientArgsShape>,
});

}  // namespace tenon::ops
