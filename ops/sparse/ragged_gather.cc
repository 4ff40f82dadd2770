// SPDX-License-Identifier: Apache-2.0
// RaggedGather: rows of a ragged tensor by their numbers.
#include <algorithm>

#include "held.h"
#include "splits.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

using sparse::Splits;

struct RaggedGather {
  explicit RaggedGather(CreateContext& c) : splits_dtype(c.Type("Tsplits")), dtype(c.Type("Tvalues")) {}
  void Run(RunContext c) const {
    const auto levels = static_cast<size_t>(c.input_count() - 2);
    const tenon_tensor_view &values = c.input_view(c.input_count() - 2), &indices = c.input_view(c.input_count() - 1);
    const Dims dims = DimsOf(indices);
    if (values.dl.ndim < 1)
      Fail(TENON_INVALID_ARGUMENT, "params.rank must be nonzero: params_dense_values is a scalar");
    if (static_cast<int64_t>(levels + dims.size()) - 1 != c.output_count() - 1)
      Fail(TENON_INVALID_ARGUMENT, "indices of shape ", dims, " give ", levels + dims.size() - 1,
           " splits; OUTPUT_RAGGED_RANK is ", c.output_count() - 1);
    std::vector<Splits> splits;
    for (size_t i = 0; i < levels; ++i)
      splits.emplace_back(c.input_view(static_cast<int32_t>(i)), "params_nested_splits");
    for (size_t i = 0; i < levels; ++i)
      splits[i].CheckWithin(c, i + 1 < levels ? splits[i + 1].rows() : DimsOf(values)[0], false);
    const int64_t count = Count(dims);
    CancelPoll poll(c);
    for (int64_t i = 0; i < count; ++i, poll())
      if (const int64_t at = IndexAt(indices, i); at < 0 || at >= splits[0].rows())
        Fail(TENON_INVALID_ARGUMENT, "indices[", i, "] = ", at, " is not in [0, ", splits[0].rows(), ")");

    int32_t output = 0;
    int64_t rows = 1;
    for (size_t d = 0; d + 1 < dims.size(); ++d) {
      rows = Multiply(rows, dims[d]);
      sparse::SplitsWriter writer(c, output++, splits_dtype, rows);
      for (int64_t i = 0; i < rows; ++i) writer.Add(dims[d + 1]);
    }
    // Calls function(first, end) for the rows of that level that each index stands for.
    const auto for_each = [&](size_t level, const auto& function) {
      for (int64_t i = 0; i < count; ++i) {
        int64_t first = IndexAt(indices, i), end = first + 1;
        for (size_t k = 0; k < level; ++k) {
          first = splits[k][first];
          end = splits[k][end];
        }
        function(first, end);
        poll(end - first + 10);
      }
    };
    for (size_t level = 0; level < levels; ++level) {
      if (level == 0 && dims.empty()) continue;  // one row: its own rows are the outermost
      int64_t total = 0;
      for_each(level, [&](int64_t first, int64_t end) { total = Add(total, end - first); });
      sparse::SplitsWriter writer(c, output++, splits_dtype, total);
      for_each(level, [&](int64_t first, int64_t end) {
        for (int64_t row = first; row < end; ++row) writer.Add(splits[level][row + 1] - splits[level][row]);
      });
    }
    GiveValues(c, output, values, levels, for_each);
  }

 private:
  static int64_t IndexAt(const tenon_tensor_view& view, int64_t i) {
    return view.dtype == TENON_DT_INT32 ? Data<const int32_t>(view)[i] : Data<const int64_t>(view)[i];
  }

  template <class ForEach>
  void GiveValues(const RunContext& c, int32_t output, const tenon_tensor_view& values, size_t levels,
                  const ForEach& for_each) const {
    std::vector<int64_t> out(DimsOf(values).begin(), DimsOf(values).end());
    const int64_t row = Count(Dims(out).subspan(1));
    int64_t total = 0;
    for_each(levels, [&](int64_t first, int64_t end) { total = Add(total, end - first); });
    out[0] = total;
    const uint64_t size = ElementSize(dtype);
    if (dtype != TENON_DT_STRING) {
      if (size == 0) Fail(TENON_UNIMPLEMENTED, "rows of ", TypeName(dtype), " cannot be gathered");
      c.AllocOutput(output, out);
      char* to = c.output<char>(output);
      for_each(levels, [&](int64_t first, int64_t end) {
        const uint64_t bytes = static_cast<uint64_t>((end - first) * row) * size;
        if (bytes != 0) std::memcpy(to, Data<const char>(values) + static_cast<uint64_t>(first * row) * size, bytes);
        to += bytes;
      });
      return;
    }
    uint64_t extra = 0;
    for_each(levels, [&](int64_t first, int64_t end) {
      for (int64_t i = first * row; i < end * row; ++i)
        if (__builtin_add_overflow(extra, StringAt(values, i).size(), &extra))
          Fail(TENON_RESOURCE_EXHAUSTED, "the texts that are gathered are longer than 64 bits count");
    });
    c.AllocOutput(output, out, extra);
    char* const base = c.output<char>(output);
    auto* cell = reinterpret_cast<tenon_string_cell*>(base);
    uint64_t at = static_cast<uint64_t>(Count(Dims(out))) * sizeof(tenon_string_cell);
    for_each(levels, [&](int64_t first, int64_t end) {
      for (int64_t i = first * row; i < end * row; ++i) {
        const std::string_view text = StringAt(values, i);
        if (!text.empty()) std::memcpy(base + at, text.data(), text.size());
        *cell++ = {at, text.size()};
        at += text.size();
      }
    });
  }
  uint32_t splits_dtype, dtype;
};

void RaggedGatherShape(ShapeContext& c) {
  const int levels = c.input_count() - 2, outputs = c.output_count() - 1;
  for (int i = 0; i < levels; ++i) c.WithRank(i, 1);
  if (outputs - levels + 1 < 0)
    return c.Invalid("OUTPUT_RAGGED_RANK is ", outputs, "; the params' ", levels, " splits give one less at least");
  c.WithRank(c.input_count() - 1, outputs - levels + 1);
  const Shape values = c.WithRankAtLeast(levels, 1);
  for (int i = 0; i < outputs; ++i) c.SetOutput(i, Shape::OfRank(1));
  if (!values.known_rank()) return;
  Shape out = values;
  out.Set(0, kUnknown);
  c.SetOutput(outputs, out);
}

// The rows of values that each index stands for, which get the gradient's rows.
void RaggedGatherGradient(GradientContext& g) {
  const int levels = g.input_count() - 2;
  Output bounds = g.input(0);
  const auto gather = [&g](Output params, Output at) { return g.Op("GatherV2", {params, at, g.Number(0)}); };
  for (int i = 1; i < levels; ++i) bounds = gather(g.input(i), bounds);
  const Output indices = g.Reshape(g.input(g.input_count() - 1), g.Vector({-1}));
  const Output begins = gather(bounds, indices), ends = gather(g.VectorSlice(bounds, 1), indices);
  const int64_t ranges =
      g.Node("RaggedRange", {begins, ends, g.Number(1, g.type(begins))}, {{"Tsplits", g.Raw("Tsplits")}});
  g.SetDxSlices(levels, g.dy(g.output_count() - 1), {ranges, 1, 0}, g.ShapeOf(g.input(levels)));
}

}  // namespace

TENON_KERNEL(kRaggedGatherKernel) = Registration<RaggedGather>("RaggedGather", {.dynamic_outputs = TENON_DYNAMIC_ALL});

TENON_OP(kRaggedGather) = DefineOp({
    .name = "RaggedGather",
    .inputs = "params_nested_splits: PARAMS_RAGGED_RANK * Tsplits, params_dense_values: Tvalues, indices: Tindices",
    .outputs = "output_nested_splits: OUTPUT_RAGGED_RANK * Tsplits, output_dense_values: Tvalues",
    .attrs = "Tvalues: type; Tindices: {int32, int64}; Tsplits: {int32, int64} = int64; PARAMS_RAGGED_RANK: int >= 1; "
             "OUTPUT_RAGGED_RANK: int >= 0",
    .doc = "The rows of a ragged tensor that indices name, in the shape of indices.",
    .shape = ShapeFunction<RaggedGatherShape>,
    .gradient = GradientFunction<RaggedGatherGradient>,
});

}  // namespace tenon::ops
