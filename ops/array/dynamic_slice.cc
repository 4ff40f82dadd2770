// SPDX-License-Identifier: Apache-2.0
// XlaDynamicSlice, XlaDynamicUpdateSlice: a box of a tensor whose place is only known in the step. A box that would
// reach outside is moved inside, as XLA does it; that is how Keras writes into a cache of keys and values.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

// Whether a box of `size` is within `whole`, as far as both are known.
static bool Fits(ShapeContext& c, const Shape& whole, int i, int64_t size) {
  if (whole[i] < 0 || size <= whole[i]) return true;
  c.Invalid("a box of size ", size, " in dim ", i, " does not fit the shape ", whole);
  return false;
}

static void DynamicSliceShape(ShapeContext& c) {
  const Shape input = c.Input(0), start_shape = c.WithRank(1, 1), size_shape = c.WithRank(2, 1);
  int64_t rank = c.Merge(start_shape[0], size_shape[0], "the lengths of start_indices and size_indices");
  if (input.known_rank()) rank = c.Merge(rank, input.rank(), "the length of start_indices and the rank of the input");
  if (!c.ok() || rank < 0 || rank > TENON_MAX_RANK) return;
  Shape out = Shape::OfRank(static_cast<int>(rank));
  const auto size = c.Integers(2);
  for (int i = 0; size.has_value() && i < rank; ++i) {
    const int64_t wanted = (*size)[static_cast<size_t>(i)];
    if (wanted < 0) return c.Invalid("size_indices ", *size, " must not be negative");
    if (input.known_rank() && !Fits(c, input, i, wanted)) return;
    out.Set(i, wanted);
  }
  c.SetOutput(0, out);
}

TENON_OP(kXlaDynamicSlice) = DefineOp({
    .name = "XlaDynamicSlice",
    .inputs = "input: T, start_indices: Tindices, size_indices: Tindices",
    .outputs = "output: T",
    .attrs = "T: type; Tindices: {int32, int64}",
    .constraints = "rank(start_indices) == 1; rank(size_indices) == 1; dim(start_indices, 0) == rank(input); "
                   "dim(size_indices, 0) == rank(input); "
                   "value(size_indices) >= 0",
    .doc = "The box of size size_indices at start_indices, which are moved so far that the box is within the input.",
    .properties = "moves(input)",
    .shape = ShapeFunction<DynamicSliceShape>,
});

static void DynamicUpdateSliceShape(ShapeContext& c) {
  const Shape input = c.Input(0), update = c.Input(1), indices = c.WithRank(2, 1);
  if (input.known_rank()) c.Merge(indices[0], input.rank(), "the length of indices and the rank of the input");
  if (input.known_rank() && update.known_rank()) {
    c.Merge(update.rank(), input.rank(), "the ranks of update and input");
    for (int i = 0; c.ok() && i < input.rank(); ++i) {
      if (!Fits(c, input, i, update[i])) return;
    }
  }
  c.SetOutput(0, input);
}

TENON_OP(kXlaDynamicUpdateSlice) = DefineOp({
    .name = "XlaDynamicUpdateSlice",
    .inputs = "input: T, update: T, indices: Tindices",
    .outputs = "output: T",
    .attrs = "T: type; Tindices: {int32, int64}",
    .constraints = "rank(indices) == 1; dim(indices, 0) == rank(input); rank(update) == rank(input)",
    .doc = "The input with update in the box at indices, which are moved so far that the box is within the input.",
    .properties = "moves(input, update)",
    .shape = ShapeFunction<DynamicUpdateSliceShape>,
});

}  // namespace tenon::ops
