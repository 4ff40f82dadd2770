// SPDX-License-Identifier: Apache-2.0
// ReduceJoin: texts joined along axes.
#include "tenon/extras/kernel/texts.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

// Dims that are walked, the first one fastest.
struct Walk {
  struct Dim {
    int64_t size, stride;
  };
  void Add(int64_t size, int64_t stride) {
    dims.push_back({size, stride});
    count = Multiply(count, size);
  }
  int64_t OffsetOf(int64_t place) const {
    int64_t offset = 0;
    for (const Dim& dim : dims) {
      offset += place % dim.size * dim.stride;
      place /= dim.size;
    }
    return offset;
  }
  std::vector<Dim> dims;
  int64_t count = 1;
};

struct ReduceJoin {
  explicit ReduceJoin(CreateContext& c) : separator(c.String("separator")), keep_dims(c.Bool("keep_dims")) {}
  void Run(RunContext c) const {
    const tenon_tensor_view& input = c.input_view(0);
    const Dims dims = DimsOf(input);
    const auto rank = static_cast<int64_t>(dims.size());
    std::vector<int64_t> strides(dims.size(), 1);
    for (int64_t i = rank - 1; i > 0; --i)
      strides[static_cast<size_t>(i - 1)] = Multiply(strides[static_cast<size_t>(i)], dims[static_cast<size_t>(i)]);
    std::vector<bool> reduced(dims.size(), false);
    Walk joined, kept;
    for (int64_t i = 0; i < Count(c.input_view(1)); ++i) {
      const int64_t axis = c.input<int32_t>(1)[i];
      if (axis < -rank || axis >= rank)
        Fail(TENON_OUT_OF_RANGE, "Invalid reduction dimension ", axis, " for input with ", rank, " dimension(s)");
      const auto at = static_cast<size_t>(axis < 0 ? axis + rank : axis);
      if (reduced[at]) Fail(TENON_INVALID_ARGUMENT, "Duplicate reduction dimension ", axis);
      reduced[at] = true;
      joined.Add(dims[at], strides[at]);
    }
    std::vector<int64_t> out;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (!reduced[i]) out.push_back(dims[i]);
      else if (keep_dims) out.push_back(1);
    }
    for (size_t i = dims.size(); i-- > 0;)
      if (!reduced[i]) kept.Add(dims[i], strides[i]);
    Texts texts(c);
    for (int64_t i = 0; i < kept.count; ++i) {
      const int64_t first = kept.OffsetOf(i);
      for (int64_t k = 0; k < joined.count; ++k) {
        if (k != 0) texts.Append(separator);
        texts.Append(StringAt(input, first + joined.OffsetOf(k)));
      }
      texts.End();
      texts.Poll(0);
    }
    texts.Give(0, out);
  }
  std::string separator;
  bool keep_dims;
};

void ReduceJoinShape(ShapeContext& c) {
  const Shape input = c.Input(0);
  const bool keep_dims = c.Bool("keep_dims");
  const auto axes = c.Integers(1);
  if (!input.known_rank()) return;
  if (!axes.has_value()) return keep_dims ? c.SetOutput(0, Shape::OfRank(input.rank())) : void();
  std::vector<bool> reduced(static_cast<size_t>(input.rank()), false);
  for (const int64_t value : *axes) {
    const auto axis = c.CheckAxis(value, input.rank());
    if (!axis.has_value()) return;
    reduced[static_cast<size_t>(*axis)] = true;
  }
  Shape out = Shape::Scalar();
  for (int i = 0; i < input.rank(); ++i) {
    if (!reduced[static_cast<size_t>(i)]) out.Append(input[i]);
    else if (keep_dims) out.Append(1);
  }
  c.SetOutput(0, out);
}

}  // namespace

TENON_KERNEL(kReduceJoinKernel) = Registration<ReduceJoin>("ReduceJoin", {.dynamic_outputs = 1});

TENON_OP(kReduceJoin) = DefineOp({
    .name = "ReduceJoin",
    .inputs = "inputs: string, reduction_indices: int32",
    .outputs = "output: string",
    .attrs = "keep_dims: bool = false; separator: string = ''",
    .constraints = "rank(reduction_indices) <= 1; value(reduction_indices) >= -rank(inputs); value(reduction_indices) "
                   "< rank(inputs)",
    .doc = "The texts joined along axes, along the first one first, with the separator between them.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ReduceJoinShape>,
});

}  // namespace tenon::ops
