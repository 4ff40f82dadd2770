// SPDX-License-Identifier: Apache-2.0
// RaggedTensorToVariant, RaggedTensorFromVariant, RaggedTensorToVariantGradient: ragged tensors as variants, one a row
// or one for all; that is how they go through datasets, lists and maps.
#include <algorithm>
#include <array>

#include "held.h"
#include "splits.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

using sparse::Splits;
using Views = std::vector<tenon_tensor_view>;

// ---- To variants ----

struct ToVariant {
  explicit ToVariant(CreateContext& c) : by_row(c.Bool("batched_input")) {}
  void Run(RunContext c) const {
    const int32_t partitions = c.input_count() - 1;
    const tenon_tensor_view& values = c.input_view(partitions);
    if (values.dl.ndim < 1 && (by_row || partitions > 0))
      Fail(TENON_INVALID_ARGUMENT, "rt_dense_values is a scalar; its rows are the innermost values");
    std::vector<Splits> splits;
    for (int32_t i = 0; i < partitions; ++i) splits.emplace_back(c.input_view(i), "rt_nested_splits");
    for (int32_t i = 0; i < partitions; ++i) {
      const int64_t rows = i + 1 < partitions ? splits[static_cast<size_t>(i) + 1].rows() : DimsOf(values)[0];
      splits[static_cast<size_t>(i)].CheckWithin(c, rows);
    }
    if (!by_row) {
      std::vector<KeptTensor> parts;
      for (int32_t i = 0; i < c.input_count(); ++i) parts.push_back(KeptTensor::OfInput(c, i));
      return SetVariant(c, 0, sparse::Hold(c, sparse::kRaggedType, parts));
    }
    const int64_t rows[] = {partitions == 0 ? DimsOf(values)[0] : splits[0].rows()};
    c.AllocOutput(0, rows);
    CancelPoll poll(c);
    for (int64_t row = 0; row < rows[0]; ++row, poll(1000)) {
      std::vector<KeptTensor> parts;
      int64_t first = row, end = row + 1;
      for (size_t i = 0; i < splits.size(); ++i) {
        if (i > 0) parts.push_back(splits[i].Part(c, first, end));
        first = splits[i][first];
        end = splits[i][end];
      }
      parts.push_back(splits.empty() ? RowAlone(c, values, row) : sparse::Rows(c, values, first, end - first));
      c.output<tenon_variant*>(0)[row] = sparse::Hold(c, sparse::kRaggedType, parts);
    }
  }

 private:
  // Without the outermost dim.
  static KeptTensor RowAlone(const RunContext& c, const tenon_tensor_view& values, int64_t row) {
    const Dims inner = DimsOf(values).subspan(1);
    const auto make = [&c](uint32_t dtype, Dims dims, uint64_t extra) { return NewTensor(c, dtype, dims, extra); };
    return CopyPart(make, values, row * Count(inner), inner);
  }
  bool by_row;
};

// ---- From variants ----

// What the variant in a cell holds: splits and, last, values.
Views Unpack(const RunContext& c, int64_t cell, int64_t partitions, uint32_t splits_dtype, uint32_t dtype) {
  Views held = sparse::Held(c, c.input_view(0), cell, sparse::kRaggedType);
  if (held.empty())
    Fail(TENON_INVALID_ARGUMENT, "Input Variant element at index ", cell,
         " doesn't hold a RaggedTensorVariant: it is empty");
  if (static_cast<int64_t>(held.size()) - 1 != partitions)
    Fail(TENON_INVALID_ARGUMENT, "Encoded input RaggedTensorVariant has ragged_rank=", held.size() - 1,
         ".  Expected ragged_rank=", partitions, ".");
  if (held.back().dtype != dtype)
    Fail(TENON_INVALID_ARGUMENT, "Expected values Tensor dtype: ", TypeName(dtype),
         ", found: ", TypeName(held.back().dtype));
  if (partitions > 0 && held.back().dl.ndim < 1)
    Fail(TENON_INVALID_ARGUMENT, "Ragged values must have rank >= 1; encoded scalar element at index ", cell,
         " has a scalar");
  for (int64_t i = 0; i < partitions; ++i)
    if (held[static_cast<size_t>(i)].dtype != splits_dtype)
      Fail(TENON_INVALID_ARGUMENT, "Expected row_splits Tensor dtype: ", TypeName(splits_dtype),
           ", found: ", TypeName(held[static_cast<size_t>(i)].dtype));
  return held;
}

struct FromVariant {
  explicit FromVariant(CreateContext& c)
      : partitions_in(c.Int("input_ragged_rank")),
        partitions_out(c.Int("output_ragged_rank")),
        dtype(c.Type("Tvalues")),
        splits_dtype(c.Type("Tsplits")) {}

  void Run(RunContext c) const {
    const Dims dims = DimsOf(c.input_view(0));
    const auto rank = static_cast<int64_t>(dims.size());
    const int64_t inner = partitions_in == -1 ? std::max<int64_t>(partitions_out - rank, 0) : partitions_in;
    if (partitions_in == -1 && partitions_out - rank < -1)
      Fail(TENON_INVALID_ARGUMENT,
           "Inferred input_ragged_rank (output_ragged_rank - encoded_variant.dims()) must be >= 0, found "
           "output_ragged_rank: ",
           partitions_out, ", encoded_variant.dims(): ", rank);
    const bool stacked = partitions_out == 0 && rank == 1;
    if (!stacked && partitions_out != inner + rank)
      Fail(TENON_INVALID_ARGUMENT,
           "output_ragged_rank must be equal to input_ragged_rank + encoded_ragged.dims(); output_ragged_rank: ",
           partitions_out, ", input_ragged_rank: ", inner, ", encoded_variant.dims(): ", rank, ".");
    if (stacked && inner > 0)
      Fail(TENON_INVALID_ARGUMENT,
           "Expected input_ragged_rank=0 if output_ragged_rank==0.  Got input_ragged_rank=", inner);
    std::vector<Views> rows;
    CancelPoll poll(c);
    for (int64_t i = 0; i < Count(dims); ++i, poll(500)) rows.push_back(Unpack(c, i, inner, splits_dtype, dtype));
    if (rank == 0) return GiveAsItIs(c, rows[0]);
    if (stacked) return GiveStack(c, rows);
    GiveNested(c, dims, rows, inner);
  }

 private:
  static void GiveAsItIs(const RunContext& c, const Views& row) {
    for (int32_t i = 0; i < c.output_count(); ++i)
      Check(c.services().set_output(c.frame(), i, &row[static_cast<size_t>(i)]));
  }
  void GiveStack(const RunContext& c, const std::vector<Views>& rows) const {
    std::vector<int64_t> dims = {static_cast<int64_t>(rows.size())};
    Views values;
    for (const Views& row : rows) {
      const Dims one = DimsOf(row.back()), first = DimsOf(rows[0].back());
      if (!std::equal(one.begin(), one.end(), first.begin(), first.end()))
        Fail(TENON_INVALID_ARGUMENT, "All flat_values must have compatible shapes.  Shape at index 0: ", first,
             ".  Shape at index ", values.size(), ": ", one);
      values.push_back(row.back());
    }
    if (!rows.empty()) dims.insert(dims.end(), DimsOf(rows[0].back()).begin(), DimsOf(rows[0].back()).end());
    sparse::GiveJoined(c, 0, dims, dtype, values);
  }
  // The splits of the variants' own dims, those of how many rows each has, their own moved on, and the values one after
  // the other.
  void GiveNested(const RunContext& c, Dims dims, const std::vector<Views>& rows, int64_t inner) const {
    int32_t output = 0;
    int64_t outer = 1;
    for (size_t d = 0; d + 1 < dims.size(); ++d) {
      outer = Multiply(outer, dims[d]);
      sparse::SplitsWriter writer(c, output++, splits_dtype, outer);
      for (int64_t i = 0; i < outer; ++i) writer.Add(dims[d + 1]);
    }
    sparse::SplitsWriter lengths(c, output++, splits_dtype, static_cast<int64_t>(rows.size()));
    for (const Views& row : rows)
      lengths.Add(inner > 0             ? Splits(row[0], "a variant's splits").rows()
                  : row[0].dl.ndim == 0 ? Scalar()
                                        : DimsOf(row[0])[0]);
    for (size_t level = 0; level < static_cast<size_t>(inner); ++level) {
      int64_t total = 0;
      for (const Views& row : rows) total = Add(total, Splits(row[level], "a variant's splits").rows());
      sparse::SplitsWriter writer(c, output++, splits_dtype, total);
      for (const Views& row : rows) {
        const Splits splits(row[level], "a variant's splits");
        splits.CheckWithin(c, level + 1 < static_cast<size_t>(inner)
                                  ? Splits(row[level + 1], "a variant's splits").rows()
                                  : DimsOf(row.back())[0]);
        for (int64_t i = 0; i < splits.rows(); ++i) writer.Add(splits[i + 1] - splits[i]);
      }
    }
    std::vector<int64_t> shape = {0};
    Views values;
    for (const Views& row : rows) {
      const Dims one = DimsOf(row.back());
      if (values.empty()) shape.assign(one.begin(), one.end());
      else shape[0] = Add(shape[0], one[0]);
      if (one.size() != shape.size())
        Fail(TENON_INVALID_ARGUMENT,
             "Rank of values must match for all components; values shape at index 0: ", DimsOf(rows[0].back()),
             ", values shape at index ", values.size(), ": ", one);
      if (!std::equal(one.begin() + 1, one.end(), shape.begin() + 1))
        Fail(TENON_INVALID_ARGUMENT,
             "All flat_values must have compatible shapes; values shape at index 0: ", DimsOf(rows[0].back()),
             ", at index ", values.size(), ": ", one);
      values.push_back(row.back());
    }
    sparse::GiveJoined(c, output, shape, dtype, values);
  }
  [[noreturn]] static int64_t Scalar() {
    Fail(TENON_INVALID_ARGUMENT, "a variant holds a scalar; it is to be rows of a ragged tensor");
  }

  int64_t partitions_in, partitions_out;
  uint32_t dtype, splits_dtype;
};

// ---- Back from the gradients of variants: values, and zeros for rows that nothing came of ----

struct ToVariantGradient {
  explicit ToVariantGradient(CreateContext& c) : dtype(c.Type("Tvalues")) {}
  void Run(RunContext c) const {
    const int64_t count = Count(c.input_view(0));
    std::vector<int64_t> dims;
    for (int64_t i = 0; i < Count(c.input_view(2)); ++i) {
      dims.push_back(c.input<int32_t>(2)[i]);
      if (dims.back() < 0) Fail(TENON_INVALID_ARGUMENT, "dense_values_shape has the dim ", dims.back());
    }
    Views values;
    std::vector<KeptTensor> zeros;
    int64_t total = 0;
    for (int64_t i = 0; i < count; ++i) {
      const Views held = sparse::Held(c, c.input_view(0), i, sparse::kRaggedType);
      if (held.empty()) {
        zeros.push_back(Zeros(c, dims, i));
        values.push_back(zeros.back().view());
      } else {
        values.push_back(held.back());
      }
      if (values.back().dtype != dtype)
        Fail(TENON_INVALID_ARGUMENT, "the gradient of row ", i, " is of ", TypeName(values.back().dtype), "; ",
             TypeName(dtype), " is asked for");
      total = Add(total, Count(values.back()));
    }
    if (total != Count(Dims(dims)))
      Fail(TENON_INVALID_ARGUMENT, "the gradients have ", total, " elements; the values have shape ", Dims(dims));
    sparse::GiveJoined(c, 0, dims, dtype, values);
  }

 private:
  KeptTensor Zeros(const RunContext& c, std::vector<int64_t> dims, int64_t row) const {
    const tenon_tensor_view& splits = c.input_view(1);
    if (dims.empty()) Fail(TENON_INVALID_ARGUMENT, "dense_values_shape is a scalar's");
    if (splits.dl.ndim == 1 && row + 1 < Count(splits)) {
      const Splits all(splits, "row_splits");
      dims[0] = all[row + 1] - all[row];
      if (dims[0] < 0) Fail(TENON_INVALID_ARGUMENT, "row_splits falls at ", row + 1);
    }
    KeptTensor tensor = NewTensor(c, dtype, dims);
    std::memset(Data<char>(tensor.view()), 0, static_cast<size_t>(Count(Dims(dims))) * ElementSize(dtype));
    return tensor;
  }
  uint32_t dtype;
};

// ---- Shapes and gradients ----

void ToVariantShape(ShapeContext& c) {
  const int partitions = c.input_count() - 1;
  for (int i = 0; i < partitions; ++i) c.WithRank(i, 1);
  if (!c.Bool("batched_input")) return c.SetOutput(0, Shape::Scalar());
  const Shape values = c.WithRankAtLeast(partitions, 1);
  const int64_t splits = partitions == 0 ? kUnknown : c.Input(0)[0];
  c.SetOutput(0, {partitions == 0 ? values[0] : splits < 1 ? kUnknown : splits - 1});
}
void FromVariantShape(ShapeContext& c) {
  const int64_t in = c.Int("input_ragged_rank"), out = c.Int("output_ragged_rank");
  const Shape encoded = c.Input(0);
  if (in == -1 && encoded.known_rank() && out - encoded.rank() < -1)
    return c.Invalid("Inferred input_ragged_rank must be >= 0; output_ragged_rank is ", out, " and the variants' rank ",
                     encoded.rank());
  const bool stacked = out == 0 && encoded.rank() == 1;
  if (in >= 0 && encoded.known_rank() && !stacked && encoded.rank() != out - in)
    return c.Invalid(
        "output_ragged_rank must be equal to input_ragged_rank + encoded_ragged.dims(); output_ragged_rank: ", out,
        ", input_ragged_rank: ", in, ", encoded_ragged.dims(): ", encoded.rank());
  for (int i = 0; i < c.output_count() - 1; ++i) c.SetOutput(i, Shape::OfRank(1));
}
void ToVariantGradientShape(ShapeContext& c) {
  c.WithRank(2, 1);
  c.SetOutput(0, c.InputAsShape(2));
}

void ToVariantGradientFunction(GradientContext& g) {
  const int values = g.input_count() - 1;
  const Output splits = values == 0 ? g.Number(0, g.Type("Tsplits")) : g.input(0);
  g.SetDx(values, g.Op("RaggedTensorToVariantGradient", {g.dy(0), splits, g.ShapeOf(g.input(values))},
                       {{"Tvalues", g.Raw("Tvalues")}}));
}
void FromVariantGradientFunction(GradientContext& g) {
  const int values = g.output_count() - 1;
  const Shape encoded = g.shape(g.input(0));
  if (encoded.rank() > 1)
    return g.Fail(TENON_UNIMPLEMENTED, "the gradient of variants of rank ", encoded.rank(),
                  ": ragged tensors become variants of rank 0 or 1");
  const bool by_row = encoded.known_rank() ? encoded.rank() == 1 : values > 0;
  std::vector<Output> inputs;
  for (int i = 0; i < values; ++i) inputs.push_back(g.output(i));
  inputs.push_back(g.dy(values));
  g.SetDx(0, g.Op("RaggedTensorToVariant", inputs,
                  {{"batched_input", by_row}, {"RAGGED_RANK", values}, {"Tsplits", g.Raw("Tsplits")}}));
}

constexpr Traits kGivesRagged = {.dynamic_outputs = TENON_DYNAMIC_ALL},
                 kKeepsRagged = {.dynamic_outputs = TENON_DYNAMIC_ALL, .retained_inputs = TENON_DYNAMIC_ALL};

}  // namespace

TENON_KERNEL(kRaggedTensorToVariantKernel) = Registration<ToVariant>("RaggedTensorToVariant", kKeepsRagged);
TENON_KERNEL(kRaggedTensorFromVariantKernel) = Registration<FromVariant>("RaggedTensorFromVariant", kGivesRagged);
TENON_KERNEL(kRaggedTensorToVariantGradientKernel) = Registration<ToVariantGradient>("RaggedTensorToVariantGradient",
                                                                                     kGivesRagged);

TENON_OP(kRaggedTensorToVariant) = DefineOp({
    .name = "RaggedTensorToVariant",
    .inputs = "rt_nested_splits: RAGGED_RANK * Tsplits, rt_dense_values: Tvalues",
    .outputs = "encoded_ragged: variant",
    .attrs = "RAGGED_RANK: int >= 0; Tvalues: type; Tsplits: {int32, int64} = int64; batched_input: bool",
    .doc = "A ragged tensor as a variant, or each of its rows as one.",
    .shape = ShapeFunction<ToVariantShape>,
    .gradient = GradientFunction<ToVariantGradientFunction>,
});

TENON_OP(kRaggedTensorFromVariant) = DefineOp({
    .name = "RaggedTensorFromVariant",
    .inputs = "encoded_ragged: variant",
    .outputs = "output_nested_splits: output_ragged_rank * Tsplits, output_dense_values: Tvalues",
    .attrs =
        "input_ragged_rank: int >= -1; output_ragged_rank: int >= 0; Tvalues: type; Tsplits: {int32, int64} = int64",
    .doc = "The ragged tensor whose outermost dims are those of the variants, each of which holds one of rank "
           "input_ragged_rank.",
    .shape = ShapeFunction<FromVariantShape>,
    .gradient = GradientFunction<FromVariantGradientFunction>,
});

TENON_OP(kRaggedTensorToVariantGradient) = DefineOp({
    .name = "RaggedTensorToVariantGradient",
    .inputs = "encoded_ragged_grad: variant, row_splits: Tsplits, dense_values_shape: int32",
    .outputs = "dense_values_grad: Tvalues",
    .attrs = "Tvalues: type; Tsplits: {int32, int64} = int64",
    .constraints = "rank(dense_values_shape) == 1",
    .doc = "The gradient of rt_dense_values, out of those of a RaggedTensorToVariant's variants; an empty one is of "
           "zeros.",
    .shape = ShapeFunction<ToVariantGradientShape>,
});

}  // namespace tenon::ops
