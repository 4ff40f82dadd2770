// SPDX-License-Identifier: Apache-2.0
// SparseReorder, SparseConcat, SparseSplit, SparseSlice and its gradient: the elements of sparse tensors in order, side
// by side, parted. RaggedTensorToSparse.
#include <algorithm>
#include <array>

#include "chosen.h"
#include "held.h"
#include "inputs.h"
#include "splits.h"
#include "tenon/sdk/kernel/element.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

using sparse::Chosen;
using sparse::Parts;
using sparse::SparseInput;

// Outputs `output` and the next: the indices, moved by -begin, and the values of those elements.
void GiveElements(const RunContext& c, int32_t output, int32_t values_output, const Parts& parts, const Chosen& chosen,
                  Dims begin) {
  c.AllocOutput(output, std::array{chosen.count(), parts.rank()});
  int64_t* to = c.output<int64_t>(output);
  for (const int64_t i : chosen.numbers)
    for (size_t d = 0; d < parts.shape.size(); ++d) *to++ = parts.At(i)[d] - (begin.empty() ? 0 : begin[d]);
  sparse::GiveChosen(c, values_output, parts.values, chosen);
}
void GiveShape(const RunContext& c, int32_t output, Dims shape) {
  c.AllocOutput(output, std::array{static_cast<int64_t>(shape.size())});
  std::copy(shape.begin(), shape.end(), c.output<int64_t>(output));
}

struct Reorder {
  void Run(RunContext c) const {
    const Parts parts(c, 0);
    Chosen all(c, parts.count);
    all.Sort(
        [&parts](int64_t a, int64_t b) { return sparse::Compare(parts.At(a), parts.At(b), parts.shape.size()) < 0; });
    GiveElements(c, 0, 1, parts, all, {});
  }
};

struct Concat {
  explicit Concat(CreateContext& c) : axis(c.Int("concat_dim")), dtype(c.Type("T")) {}
  void Run(RunContext c) const {
    const int32_t count = c.input_count() / 3;
    std::vector<Parts> all;
    int64_t total = 0;
    for (int32_t i = 0; i < count; ++i) {
      all.emplace_back(c, c.input_view(i), c.input_view(count + i), c.input_view(2 * count + i), sparse::Order::kAny);
      total = Add(total, all.back().count);
    }
    const int64_t rank = all[0].rank();
    if (axis < -rank || axis >= rank)
      Fail(TENON_INVALID_ARGUMENT, "Concat dimension must be in range [", -rank, ", ", rank, "), got ", axis);
    const auto at = static_cast<size_t>(axis < 0 ? axis + rank : axis);
    std::vector<int64_t> shape(all[0].shape.begin(), all[0].shape.end());
    std::vector<int64_t> begins = {0};
    for (int32_t i = 1; i < count; ++i) {
      const Parts& one = all[static_cast<size_t>(i)];
      if (one.rank() != rank)
        Fail(TENON_INVALID_ARGUMENT, "Ranks of all input tensors must match: expected ", rank, " but got ", one.rank(),
             " at position ", i);
      for (size_t d = 0; d < shape.size(); ++d)
        if (d != at && one.shape[d] != shape[d])
          Fail(TENON_INVALID_ARGUMENT, "Input shapes must match: expected ", shape[d], " for dimension ", d,
               " but got ", one.shape[d], " at position ", i);
      begins.push_back(shape[at]);
      shape[at] = Add(shape[at], one.shape[at]);
    }
    // All one after the other, and then in order.
    const KeptTensor indices = NewTensor(c, TENON_DT_INT64, std::array{total, rank});
    auto* to = Data<int64_t>(indices.view());
    std::vector<tenon_tensor_view> values;
    for (size_t i = 0; i < all.size(); ++i) {
      for (int64_t k = 0; k < all[i].count; ++k, to += rank) {
        std::copy_n(all[i].At(k), rank, to);
        to[at] += begins[i];
      }
      values.push_back(all[i].values);
    }
    Chosen order(c, total);
    const auto* from = Data<const int64_t>(indices.view());
    const auto place = [&](int64_t i) { return from + i * rank; };
    order.Sort([&](int64_t a, int64_t b) { return sparse::Compare(place(a), place(b), shape.size()) < 0; });
    c.AllocOutput(0, std::array{total, rank});
    to = c.output<int64_t>(0);
    for (const int64_t i : order.numbers) to = std::copy_n(place(i), rank, to);
    const KeptTensor joined = Joined(c, total, values);
    sparse::GiveChosen(c, 1, joined.view(), order);
    GiveShape(c, 2, shape);
  }

 private:
  KeptTensor Joined(const RunContext& c, int64_t total, const std::vector<tenon_tensor_view>& tensors) const {
    if (dtype == TENON_DT_STRING) {
      const KeptTensor cells = NewTensor(
          c, TENON_DT_UINT8,
          std::array{Multiply(total, static_cast<int64_t>(sizeof(std::string_view)))});  // what the list below takes
      std::vector<std::string_view> texts;
      for (const tenon_tensor_view& tensor : tensors)
        for (int64_t i = 0; i < Count(tensor); ++i) texts.push_back(StringAt(tensor, i));
      return NewStrings(c, std::array{total}, texts);
    }
    const uint64_t size = ElementSize(dtype);
    if (size == 0) Fail(TENON_UNIMPLEMENTED, "sparse tensors of ", TypeName(dtype), " cannot be put together");
    KeptTensor joined = NewTensor(c, dtype, std::array{total});
    char* to = Data<char>(joined.view());
    for (const tenon_tensor_view& tensor : tensors) {
      const uint64_t bytes = static_cast<uint64_t>(Count(tensor)) * size;
      if (bytes != 0) std::memcpy(to, Data<const char>(tensor), bytes);
      to += bytes;
    }
    return joined;
  }
  int64_t axis;
  uint32_t dtype;
};

struct Split {
  explicit Split(CreateContext& c) : pieces(c.Int("num_split")) {}
  void Run(RunContext c) const {
    const Parts parts(c, 1);
    const int64_t rank = parts.rank(), given = *c.input<int64_t>(0);
    if (given < -rank || given >= rank)
      Fail(TENON_INVALID_ARGUMENT, "Input axis should be in range [", -rank, ", ", rank, "), got ", given);
    const auto axis = static_cast<size_t>(given < 0 ? given + rank : given);
    const int64_t size = parts.shape[axis];
    if (pieces > size)
      Fail(TENON_INVALID_ARGUMENT, "Input num_split should be between 1 and the splitting dimension size (", size,
           "), got ", pieces);
    // The first ones are longer by one where they cannot be equal.
    const int64_t width = size / pieces, longer = size % pieces;
    int64_t begin = 0;
    for (int64_t k = 0; k < pieces; ++k) {
      const int64_t end = begin + width + (k < longer ? 1 : 0);
      Chosen chosen(c);
      for (int64_t i = 0; i < parts.count; ++i)
        if (const int64_t at = parts.At(i)[axis]; at >= begin && at < end) chosen.numbers.push_back(i);
      std::vector<int64_t> moved(parts.shape.size(), 0), shape(parts.shape.begin(), parts.shape.end());
      moved[axis] = begin;
      shape[axis] = end - begin;
      GiveElements(c, static_cast<int32_t>(k), static_cast<int32_t>(pieces + k), parts, chosen, moved);
      GiveShape(c, static_cast<int32_t>(2 * pieces + k), shape);
      begin = end;
      c.CheckCancelled();
    }
  }
  int64_t pieces;
};

struct Slice {
  void Run(RunContext c) const {
    const Parts parts(c, 0);
    const size_t rank = parts.shape.size();
    const Dims start(c.input<int64_t>(3), static_cast<size_t>(Count(c.input_view(3)))),
        size(c.input<int64_t>(4), static_cast<size_t>(Count(c.input_view(4))));
    if (start.size() != rank || size.size() != rank)
      Fail(TENON_INVALID_ARGUMENT, "Expected start and size to be vectors of length ", rank, " but got lengths ",
           start.size(), " and ", size.size());
    std::vector<int64_t> shape(rank);
    for (size_t d = 0; d < rank; ++d) {
      if (start[d] < 0 || size[d] < 0)
        Fail(TENON_INVALID_ARGUMENT, "start and size must not be negative; for dimension ", d, " they are ", start[d],
             " and ", size[d]);
      shape[d] = std::max<int64_t>(0, std::min(size[d], parts.shape[d] - start[d]));
    }
    Chosen chosen(c);
    CancelPoll poll(c);
    for (int64_t i = 0; i < parts.count; ++i, poll(static_cast<int64_t>(rank) + 2)) {
      bool inside = true;
      for (size_t d = 0; d < rank && inside; ++d)
        inside = parts.At(i)[d] >= start[d] && parts.At(i)[d] - start[d] < size[d];
      if (inside) chosen.numbers.push_back(i);
    }
    GiveElements(c, 0, 1, parts, chosen, start);
    GiveShape(c, 2, shape);
  }
};

struct SliceGrad {
  void Run(RunContext c) const {
    const tenon_tensor_view &dy = c.input_view(0), &indices = c.input_view(1), &sliced = c.input_view(3);
    const int64_t count = DimsOf(indices)[0], rank = DimsOf(indices)[1], given = DimsOf(sliced)[0];
    if (DimsOf(sliced)[1] != rank || Count(c.input_view(2)) != rank)
      Fail(TENON_INVALID_ARGUMENT, "The input, the start and the output must have as many dims: ", rank, ", ",
           Count(c.input_view(2)), ", ", DimsOf(sliced)[1]);
    if (Count(dy) != given)
      Fail(TENON_INVALID_ARGUMENT,
           "Number of rows in output_indices should be equal to number of elements in backprop_val_grad: ", given,
           " and ", Count(dy));
    DispatchSize(dy.dtype, [&]<class T>(Tag<T>) {
      T* out = c.output<T>(0);
      const T* from = c.input<T>(0);
      const int64_t *whole = Data<const int64_t>(indices), *part = Data<const int64_t>(sliced),
                    *start = c.input<int64_t>(2);
      int64_t next = 0;
      CancelPoll poll(c);
      for (int64_t i = 0; i < count; ++i, whole += rank, poll(rank + 1)) {
        bool same = next < given;
        for (int64_t d = 0; d < rank && same; ++d) {
          int64_t at = 0;
          same = !__builtin_add_overflow(part[d], start[d], &at) && at == whole[d];
        }
        out[i] = same ? from[next++] : T{};
        if (same) part += rank;
      }
      if (next != given)
        Fail(TENON_INVALID_ARGUMENT, "Elements of backprop_val_grad aren't all propagated. Num elements:", given,
             ", used: ", next);
    });
  }
};

struct RaggedToSparse {
  void Run(RunContext c) const {
    const auto levels = static_cast<size_t>(c.input_count() - 1);
    const tenon_tensor_view& values = c.input_view(static_cast<int32_t>(levels));
    if (values.dl.ndim < 1)
      Fail(TENON_INVALID_ARGUMENT, "rt_dense_values is a scalar; its rows are the innermost values");
    std::vector<sparse::Splits> splits;
    for (size_t i = 0; i < levels; ++i) splits.emplace_back(c.input_view(static_cast<int32_t>(i)), "rt_nested_splits");
    for (size_t i = 0; i < levels; ++i)
      splits[i].CheckWithin(c, i + 1 < levels ? splits[i + 1].rows() : DimsOf(values)[0]);
    const Dims inner = DimsOf(values).subspan(1);
    const int64_t count = Count(values), row = Count(inner), rank = static_cast<int64_t>(levels + 1 + inner.size());
    std::vector<int64_t> shape = {splits[0].rows()};
    for (const sparse::Splits& one : splits) {
      int64_t widest = 0;
      for (int64_t i = 0; i < one.rows(); ++i) widest = std::max(widest, one[i + 1] - one[i]);
      shape.push_back(widest);
    }
    shape.insert(shape.end(), inner.begin(), inner.end());
    c.AllocOutput(0, std::array{count, rank});
    int64_t* to = c.output<int64_t>(0);
    std::vector<int64_t> at(levels + 1, 0);  // the row of each level that the value is in
    CancelPoll poll(c);
    // The usual case: rows of single values.
    if (levels == 1 && inner.empty()) {
      for (int64_t r = 0; r < splits[0].rows(); ++r) {
        const int64_t first = splits[0][r], many = splits[0][r + 1] - first;
        for (int64_t k = 0; k < many; ++k, to += 2) to[0] = r, to[1] = k;
        poll(many + 1);
      }
    }
    for (int64_t i = 0; i < (row == 0 || (levels == 1 && inner.empty()) ? 0 : DimsOf(values)[0]); ++i) {
      at[levels] = i;
      for (size_t level = levels; level-- > 0;)
        while (splits[level][at[level] + 1] <= at[level + 1]) ++at[level];
      for (int64_t k = 0; k < row; ++k) {
        *to++ = at[0];
        for (size_t level = 0; level < levels; ++level) *to++ = at[level + 1] - splits[level][at[level]];
        int64_t rest = k;
        for (size_t d = inner.size(); d-- > 0; rest /= inner[d]) to[d] = rest % inner[d];
        to += inner.size();
      }
      poll(row * rank + 1);
    }
    const std::vector<tenon_tensor_view> all = {values};
    sparse::GiveJoined(c, 1, std::array{count}, values.dtype, all);
    GiveShape(c, 2, shape);
  }
};

constexpr Traits kGivesParts = {.dynamic_outputs = TENON_DYNAMIC_ALL};

void ReorderShape(ShapeContext& c) {
  SparseInput(c, 0);
  c.SetOutput(0, c.Input(0));
  c.SetOutput(1, c.Input(1));
}
void ConcatShape(ShapeContext& c) {
  const int count = c.input_count() / 3;
  int64_t rows = 0, columns = kUnknown;
  for (int i = 0; i < count; ++i) {
    const Shape indices = c.WithRank(i, 2), values = c.WithRank(count + i, 1), shape = c.WithRank(2 * count + i, 1);
    rows = c.Add(rows, c.Merge(indices[0], values[0], "the numbers of indices and of values"));
    columns =
        c.Merge(columns, c.Merge(indices[1], shape[0], "the columns of the indices and the numbers of the dense shape"),
                "the ranks of the sparse tensors");
  }
  c.SetOutput(0, {rows, columns});
  c.SetOutput(1, {rows});
  c.SetOutput(2, {columns});
}
void SplitShape(ShapeContext& c) {
  c.WithRank(0, 0);
  SparseInput(c, 1);
  const int count = c.output_count() / 3;
  for (int i = 0; i < count; ++i) {
    c.SetOutput(i, {kUnknown, c.Input(3)[0]});
    c.SetOutput(count + i, {kUnknown});
    c.SetOutput(2 * count + i, {c.Input(3)[0]});
  }
}
void SliceShape(ShapeContext& c) {
  SparseInput(c, 0);
  const int64_t rank =
      c.Merge(c.WithRank(2, 1)[0], c.Merge(c.WithRank(3, 1)[0], c.WithRank(4, 1)[0], "the numbers of start and size"),
              "the numbers of the dense shape, start and size");
  c.SetOutput(0, {kUnknown, rank});
  c.SetOutput(1, {kUnknown});
  c.SetOutput(2, {rank});
}
void SliceGradShape(ShapeContext& c) { c.SetOutput(0, {c.WithRank(1, 2)[0]}); }
void RaggedToSparseShape(ShapeContext& c) {
  const int levels = c.input_count() - 1;
  for (int i = 0; i < levels; ++i) c.WithRank(i, 1);
  const Shape values = c.WithRankAtLeast(levels, 1);
  const int64_t count = values.elements(), rank = values.known_rank() ? values.rank() + levels : kUnknown;
  c.SetOutput(0, {count, rank});
  c.SetOutput(1, {count});
  c.SetOutput(2, {rank});
}

void ReorderGradient(GradientContext& g) {
  const Output count = g.Op("StridedSlice", {g.ShapeOf(g.input(1)), g.Vector({0}), g.Vector({1}), g.Vector({1})},
                            {{"shrink_axis_mask", 1}});
  const Output numbers = g.Op("Range", {g.Number(0), count, g.Number(1)});
  const Output order = {g.Node("SparseReorder", {g.input(0), numbers, g.input(2)}), 1, 0};
  g.SetDx(1, g.Op("GatherV2", {g.dy(1), g.Op("InvertPermutation", {order}), g.Number(0)}));
}
void SliceGradient(GradientContext& g) {
  g.SetDx(1, g.Op("SparseSliceGrad", {g.dy(1), g.input(0), g.input(3), g.output(0)}));
}
void RaggedToSparseGradient(GradientContext& g) {
  const int values = g.input_count() - 1;
  g.SetDx(values, g.ReshapeLike(g.dy(1), g.input(values)));
}

}  // namespace

TENON_KERNEL(kSparseReorderKernel) = Registration<Reorder>("SparseReorder", kGivesParts);
TENON_KERNEL(kSparseConcatKernel) = Registration<Concat>("SparseConcat", kGivesParts);
TENON_KERNEL(kSparseSplitKernel) = Registration<Split>("SparseSplit", kGivesParts);
TENON_KERNEL(kSparseSliceKernel) = Registration<Slice>("SparseSlice", kGivesParts);
TENON_KERNEL(kSparseSliceGradKernel) = Registration<SliceGrad>("SparseSliceGrad", {});
TENON_KERNEL(kRaggedTensorToSparseKernel) = Registration<RaggedToSparse>("RaggedTensorToSparse", kGivesParts);

TENON_OP(kSparseReorder) = DefineOp({
    .name = "SparseReorder",
    .inputs = "input_indices: int64, input_values: T, input_shape: int64",
    .outputs = "output_indices: int64, output_values: T",
    .attrs = "T: type",
    .constraints = "rank(input_indices) == 2; rank(input_values) == 1; rank(input_shape) == 1",
    .doc = "The elements in the order of their places.",
    .shape = ShapeFunction<ReorderShape>,
    .gradient = GradientFunction<ReorderGradient>,
});

TENON_OP(kSparseConcat) = DefineOp({
    .name = "SparseConcat",
    .inputs = "indices: N * int64, values: N * T, shapes: N * int64",
    .outputs = "output_indices: int64, output_values: T, output_shape: int64",
    .attrs = "concat_dim: int; N: int >= 2; T: type",
    .doc = "Sparse tensors side by side along a dim, in the order of their places.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ConcatShape>,
});

TENON_OP(kSparseSplit) = DefineOp({
    .name = "SparseSplit",
    .inputs = "split_dim: int64, indices: int64, values: T, shape: int64",
    .outputs = "output_indices: num_split * int64, output_values: num_split * T, output_shape: num_split * int64",
    .attrs = "num_split: int >= 1; T: type",
    .constraints = "rank(split_dim) == 0; rank(indices) == 2; rank(values) == 1; rank(shape) == 1",
    .doc = "The parts of a sparse tensor along a dim, of which the first are longer by one where they cannot be equal.",
    .shape = ShapeFunction<SplitShape>,
});

TENON_OP(kSparseSlice) = DefineOp({
    .name = "SparseSlice",
    .inputs = "indices: int64, values: T, shape: int64, start: int64, size: int64",
    .outputs = "output_indices: int64, output_values: T, output_shape: int64",
    .attrs = "T: type",
    .constraints = "rank(indices) == 2; rank(values) == 1; rank(shape) == 1; rank(start) == 1; rank(size) == 1",
    .doc = "The box of a sparse tensor that begins at start and is size large, as far as there is something.",
    .shape = ShapeFunction<SliceShape>,
    .gradient = GradientFunction<SliceGradient>,
});

TENON_OP(kSparseSliceGrad) = DefineOp({
    .name = "SparseSliceGrad",
    .inputs = "backprop_val_grad: T, input_indices: int64, input_start: int64, output_indices: int64",
    .outputs = "val_grad: T",
    .attrs = "T: numbertype",
    .constraints =
        "rank(backprop_val_grad) == 1; rank(input_indices) == 2; rank(input_start) == 1; rank(output_indices) == 2",
    .doc = "The gradient of SparseSlice with respect to its values: zero where the slice does not reach.",
    .shape = ShapeFunction<SliceGradShape>,
});

TENON_OP(kRaggedTensorToSparse) = DefineOp({
    .name = "RaggedTensorToSparse",
    .inputs = "rt_nested_splits: RAGGED_RANK * Tsplits, rt_dense_values: T",
    .outputs = "sparse_indices: int64, sparse_values: T, sparse_dense_shape: int64",
    .attrs = "RAGGED_RANK: int >= 1; T: type; Tsplits: {int32, int64} = int64",
    .doc = "A ragged tensor as a sparse one of the same rank.",
    .shape = ShapeFunction<RaggedToSparseShape>,
    .gradient = GradientFunction<RaggedToSparseGradient>,
});

}  // namespace tenon::ops
