// SPDX-License-Identifier: Apache-2.0
// Ragged tensors: rows of different lengths, as values and how they are parted.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static void ToTensorShape(ShapeContext& c) {
  const std::vector<std::string_view> types = c.Strings("row_partition_types");
  const int partitions = c.InputRange("row_partition_tensors").count;
  if (c.ok() && static_cast<int>(types.size()) != partitions)
    return c.Invalid("Number of partition types (", types.size(), ") differs from the number of partition tensors (",
                     partitions, ")");
  for (const std::string_view type : types)
    if (type != "FIRST_DIM_SIZE" && type != "VALUE_ROWIDS" && type != "ROW_SPLITS")
      return c.Invalid("row_partition_types has '", type, "'; known are FIRST_DIM_SIZE, VALUE_ROWIDS and ROW_SPLITS");
  if (!c.ok() || types.empty()) return;
  if (types[0] == "VALUE_ROWIDS")
    return c.Invalid("row_partition_types begin with VALUE_ROWIDS, which does not say how many rows there are");
  for (size_t i = 1; i < types.size(); ++i)
    if (types[i] == "FIRST_DIM_SIZE")
      return c.Invalid("row_partition_types have FIRST_DIM_SIZE at ", i, "; it may only stand first");
  const Shape values = c.Input(1), wanted = c.Input(0).rank() == 1 ? c.InputAsShape(0) : Shape();
  if (!values.known_rank()) return;
  if (values.rank() == 0) return c.Invalid("values is a scalar; its rows are the ragged tensor's innermost values");
  const int ragged = static_cast<int>(types.size()) - (types[0] == "FIRST_DIM_SIZE" ? 1 : 0),
            rank = ragged + values.rank();
  if (wanted.known_rank() && wanted.rank() != rank)
    return c.Invalid("shape has ", wanted.rank(), " dims, the ragged tensor ", rank, ": ", ragged,
                     " of its row partitions and ", values.rank(), " of values");
  Shape out = wanted.known_rank() ? wanted : Shape::OfRank(rank);
  for (int d = ragged + 1; d < rank; ++d)
    out.Set(d, c.Merge(out[d], values[d - ragged], "the inner dims of shape and values"));
  c.SetOutput(0, out);
}

// Which innermost row each place of the result was made of, -1 where it was none, is a ragged tensor's result itself.
static void ToTensorGradient(GradientContext& g) {
  const Output values = g.input(1), dy = g.dy(0);
  const std::vector<std::string_view> types = g.Strings("row_partition_types");
  if (!g.ok() || types.empty()) return;
  const int64_t outer = static_cast<int64_t>(types.size()) - (types[0] == "FIRST_DIM_SIZE" ? 1 : 0) + 1;
  const Output count =
      g.Op("StridedSlice", {g.ShapeOf(values), g.Vector({0}), g.Vector({1}), g.Vector({1})}, {{"shrink_axis_mask", 1}});
  std::vector<Output> inputs = {g.VectorSlice(g.ShapeOf(dy), 0, outer),
                                g.Op("Range", {g.Number(0), count, g.Number(1)}), g.Number(-1)};
  for (int i = 3; i < g.input_count(); ++i) inputs.push_back(g.input(i));
  const Output rows = g.Op("RaggedTensorToTensor", inputs, {{"row_partition_types", g.Raw("row_partition_types")}});
  g.SetDx(1, g.Op("UnsortedSegmentSum", {dy, rows, count}));
  // The places of no row are the default value's.
  const Output filled =
      g.Op("UnsortedSegmentSum", {dy, g.Cast(g.Op("Less", {rows, g.Number(0)}), TENON_DT_INT32), g.Number(2)});
  const Output sum =
      g.Op("StridedSlice", {filled, g.Vector({1}), g.Vector({2}), g.Vector({1})}, {{"shrink_axis_mask", 1}});
  g.SetDx(2, g.Unbroadcast(sum, g.input(2), sum));
}

TENON_OP(kRaggedTensorToTensor) = DefineOp({
    .name = "RaggedTensorToTensor",
    .inputs = "shape: Tshape, values: T, default_value: T, row_partition_tensors: num_row_partition_tensors * Tindex",
    .outputs = "result: T",
    .attrs = "T: type; Tindex: {int64, int32}; Tshape: {int64, int32}; num_row_partition_tensors: int >= 1; "
             "row_partition_types: list(string)",
    .constraints = "rank(shape) <= 1; value(shape) >= -1",
    .doc = "The ragged tensor with default_value where its rows are short; shape says how large each dim is, -1 for as "
           "large as need be; what is "
           "beyond is left out.",
    .shape = ShapeFunction<ToTensorShape>,
    .gradient = GradientFunction<ToTensorGradient>,
});

}  // namespace tenon::ops
