// SPDX-License-Identifier: Apache-2.0
// ApproxTopK, which here is exact: TopKV2 along any dim, of the largest or the smallest.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static void ApproxTopKShape(ShapeContext& c) {
  Shape input = c.WithRankAtLeast(0, 1);
  if (const float recall = c.Float("recall_target"); !(recall > 0 && recall <= 1))
    return c.Invalid("recall_target is ", recall, "; it must be in (0, 1]");
  if (!input.known_rank()) return;
  const auto axis = c.CheckAxis(c.Int("reduction_dimension"), input.rank());
  if (!axis.has_value()) return;
  const int64_t k = c.Int("k");
  if (input[*axis] >= 0 && k > input[*axis])
    return c.Invalid("input must have at least k columns. Had ", input[*axis], ", needed ", k);
  input.Set(*axis, k);
  c.SetOutput(0, input);
  c.SetOutput(1, input);
}

// The dims of x with the one that is reduced and the last one exchanged, which undoes itself; the rank need not be
// known.
class Exchange {
 public:
  Exchange(NodeBuilder& g, Output x) : g_(g) {
    const int64_t axis = g.Int("reduction_dimension");
    if (axis == -1) return;
    const Output rank = g.Op("Rank", {x}), last = g.Sub(rank, g.Number(1)),
                 dims = g.Op("Range", {g.Number(0), rank, g.Number(1)});
    const Output from = axis < 0 ? g.Add(rank, g.Number(axis)) : g.Number(axis);
    const auto is = [&](Output dim) { return g.Op("Equal", {dims, dim}); };
    order_ = g.Select(is(from), last, g.Select(is(last), from, dims));
    needed_ = true;
  }
  Output operator()(Output x) const { return needed_ ? g_.Op("Transpose", {x, order_}) : x; }

 private:
  NodeBuilder& g_;
  Output order_ = {-1, 0, 0};
  bool needed_ = false;
};

// Each gradient goes to the place that its value came from: places of all rows, counted through.
static void ApproxTopKGradient(GradientContext& g) {
  const Exchange exchange(g, g.input(0));
  const Output x = exchange(g.input(0)), places = exchange(g.output(1)), dy = exchange(g.dy(0));
  const Output shape = g.ShapeOf(x, TENON_DT_INT64), chosen = g.ShapeOf(places, TENON_DT_INT64);
  const Output columns = g.VectorSlice(shape, -1);
  const Output rows = g.Op("Prod", {g.VectorSlice(shape, 0, -1), g.Vector({0})}, {{"keep_dims", true}});
  const Output first =
      g.Mul(g.Op("Range", {g.Number(0, TENON_DT_INT64), g.Reshape(rows, g.Vector({})), g.Number(1, TENON_DT_INT64)}),
            columns);
  const Output in_row = g.Reshape(g.Cast(places, TENON_DT_INT64), g.Concat({rows, g.VectorSlice(chosen, -1)}));
  const Output flat_places = g.Reshape(g.Add(in_row, g.ExpandDims(first, -1)), g.Vector({-1, 1}));
  const Output flat = g.Op("ScatterNd", {flat_places, g.Reshape(dy, g.Vector({-1})), g.Mul(rows, columns)});
  g.SetDx(0, exchange(g.Reshape(flat, shape)));
}

static void DecomposeApproxTopK(DecomposeContext& d) {
  const Exchange exchange(d, d.input(0));
  const bool largest = d.Bool("is_max_k");
  const Output x = exchange(d.input(0));
  const int64_t top = d.Node("TopKV2", {largest ? x : d.Neg(x), d.Number(d.Int("k"))});
  const Output values = exchange({top, 0, 0});
  d.SetOutput(0, largest ? values : d.Neg(values));
  d.SetOutput(1, exchange({top, 1, 0}));
}

TENON_OP(kApproxTopK) = DefineOp({
    .name = "ApproxTopK",
    .inputs = "input: T",
    .outputs = "values: T, indices: int32",
    .attrs = "k: int >= 0; reduction_dimension: int = -1; recall_target: float = 0.95; is_max_k: bool = true; "
             "reduction_input_size_override: int = -1; "
             "aggregate_to_topk: bool = true; T: {half, bfloat16, float}",
    .constraints = "rank(input) >= 1",
    .doc = "The k largest elements along reduction_dimension, or the smallest, and where they stand: all of them, "
           "whatever recall_target asks for, so that "
           "there are k also with aggregate_to_topk false.",
    .shape = ShapeFunction<ApproxTopKShape>,
    .gradient = GradientFunction<ApproxTopKGradient>,
    .decompose = DecomposeFunction<DecomposeApproxTopK>,
});

}  // namespace tenon::ops
