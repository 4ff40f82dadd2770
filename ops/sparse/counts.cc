// SPDX-License-Identifier: Apache-2.0
// DenseCountSparseOutput, SparseCountSparseOutput, RaggedCountSparseOutput: how often each value stands in each row, as
// a sparse tensor.
#include <algorithm>
#include <array>

#include "chosen.h"
#include "splits.h"
#include "tenon/sdk/kernel/element.h"
#include "tenon/extras/kernel/step_memory.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

using Counted = Types<int32_t, int64_t, float, double>;

int64_t CountAt(const tenon_tensor_view& view, int64_t i) {
  return view.dtype == TENON_DT_INT32 ? Data<const int32_t>(view)[i] : Data<const int64_t>(view)[i];
}

struct Counter {
  explicit Counter(CreateContext& c)
      : least(c.Int("minlength")), most(c.Int("maxlength")), binary(c.Bool("binary_output")) {}

  // rows: how many there are; row_of(i): the row of value i, checked. by_row: whether the result has a dim for them.
  template <class RowOf>
  void Give(const RunContext& c, const tenon_tensor_view& values, const tenon_tensor_view& weights, int64_t rows,
            bool by_row, const RowOf& row_of) const {
    const int64_t count = Count(values);
    const bool weighted = Count(weights) != 0;
    if (weighted && Count(weights) != count)
      Fail(TENON_INVALID_ARGUMENT, "Weights and values must have the same shape. Weight shape: ", DimsOf(weights),
           "; values shape: ", DimsOf(values));
    // The values that count, by row and value.
    sparse::Chosen chosen(c);
    int64_t largest = 0;
    CancelPoll poll(c);
    for (int64_t i = 0; i < count; ++i, poll(5)) {
      const int64_t value = CountAt(values, i);
      if (value < 0) Fail(TENON_INVALID_ARGUMENT, "Input values must all be non-negative; value ", i, " is ", value);
      if (most >= 0 && value >= most) continue;
      chosen.numbers.push_back(i);
      largest = std::max(largest, value);
    }
    // Of values that are not many more than there are numbers: a bin for each.
    if (largest < 4 * count && rows <= (4 * count + 64) / (largest + 1))
      return GiveBins(c, values, weights, chosen, rows, largest + 1, by_row, row_of);
    chosen.Sort([&](int64_t a, int64_t b) {
      const int64_t x = row_of(a), y = row_of(b);
      return x != y ? x < y : CountAt(values, a) < CountAt(values, b);
    });
    const auto same = [&](size_t i, size_t k) {
      return row_of(chosen.numbers[i]) == row_of(chosen.numbers[k]) &&
             CountAt(values, chosen.numbers[i]) == CountAt(values, chosen.numbers[k]);
    };
    int64_t found = 0;
    for (size_t i = 0; i < chosen.numbers.size(); ++i) found += i == 0 || !same(i - 1, i) ? 1 : 0;
    GiveCountsShape(c, found, rows, largest, by_row);
    int64_t* place = c.output<int64_t>(0);
    Counted::Dispatch(weights.dtype, [&]<class T>(Tag<T>) {
      T* out = c.output<T>(1) - 1;
      for (size_t i = 0; i < chosen.numbers.size(); ++i) {
        const int64_t at = chosen.numbers[i];
        if (i == 0 || !same(i - 1, i)) {
          if (by_row) *place++ = row_of(at);
          *place++ = CountAt(values, at);
          *++out = T{};
        }
        Put(weighted ? Data<const T>(weights)[at] : T{1}, out);
      }
    });
  }
  void GiveCountsShape(const RunContext& c, int64_t found, int64_t rows, int64_t largest, bool by_row) const {
    const int64_t columns = by_row ? 2 : 1;
    c.AllocOutput(0, std::array{found, columns});
    c.AllocOutput(1, std::array{found});
    c.AllocOutput(2, std::array{columns});
    int64_t* shape = c.output<int64_t>(2);
    if (by_row) *shape++ = rows;
    *shape = most >= 0 ? most : std::max(Add(largest, 1), least);
  }
  template <class T>
  void Put(T weight, T* sum) const {
    if (binary) *sum = T{1};
    else if constexpr (std::is_integral_v<T>)
      *sum = static_cast<T>(static_cast<std::make_unsigned_t<T>>(*sum) + static_cast<std::make_unsigned_t<T>>(weight));
    else *sum += weight;
  }
  template <class RowOf>
  void GiveBins(const RunContext& c, const tenon_tensor_view& values, const tenon_tensor_view& weights,
                const sparse::Chosen& chosen, int64_t rows, int64_t width, bool by_row, const RowOf& row_of) const {
    StepMemory memory(c);
    const auto bins = static_cast<size_t>(std::max<int64_t>(by_row ? rows : 1, 1) * width);
    std::pmr::vector<char> used(bins, 0, &memory);
    Counted::Dispatch(weights.dtype, [&]<class T>(Tag<T>) {
      std::pmr::vector<T> sums(bins, T{}, &memory);
      const T* weight = Count(weights) != 0 ? Data<const T>(weights) : nullptr;
      int64_t found = 0;
      CancelPoll poll(c);
      for (const int64_t at : chosen.numbers) {
        const auto bin = static_cast<size_t>((by_row ? row_of(at) : 0) * width + CountAt(values, at));
        found += used[bin] == 0 ? 1 : 0;
        used[bin] = 1;
        Put(weight != nullptr ? weight[at] : T{1}, &sums[bin]);
        poll(5);
      }
      GiveCountsShape(c, found, rows, width - 1, by_row);
      int64_t* place = c.output<int64_t>(0);
      T* out = c.output<T>(1);
      for (size_t bin = 0; bin < bins; ++bin) {
        if (used[bin] == 0) continue;
        if (by_row) *place++ = static_cast<int64_t>(bin) / width;
        *place++ = static_cast<int64_t>(bin) % width;
        *out++ = sums[bin];
      }
    });
  }
  int64_t least, most;
  bool binary;
};

struct CountDense : Counter {
  explicit CountDense(CreateContext& c) : Counter(c) {}
  void Run(RunContext c) const {
    const Dims dims = DimsOf(c.input_view(0));
    if (dims.empty() || dims.size() > 2)
      Fail(TENON_INVALID_ARGUMENT, "Input must be a 1 or 2-dimensional tensor. Got: ", dims);
    const tenon_tensor_view& weights = c.input_view(1);
    if (Count(weights) != 0 && !std::equal(dims.begin(), dims.end(), DimsOf(weights).begin(), DimsOf(weights).end()))
      Fail(TENON_INVALID_ARGUMENT, "Weights and values must have the same shape. Weight shape: ", DimsOf(weights),
           "; values shape: ", dims);
    const int64_t width = dims.back();
    Give(c, c.input_view(0), weights, dims[0], dims.size() == 2,
         [&](int64_t i) { return dims.size() == 2 ? i / width : 0; });
  }
};

struct CountSparse : Counter {
  explicit CountSparse(CreateContext& c) : Counter(c) {}
  void Run(RunContext c) const {
    const sparse::Parts parts(c, c.input_view(0), c.input_view(1), c.input_view(2), sparse::Order::kAny);
    if (parts.rank() < 1 || parts.rank() > 2)
      Fail(TENON_INVALID_ARGUMENT, "Input must be a 1 or 2-dimensional sparse tensor; its dense shape is ",
           parts.shape);
    const bool by_row = parts.rank() == 2;
    Give(c, c.input_view(1), c.input_view(3), parts.shape[0], by_row,
         [&](int64_t i) { return by_row ? parts.At(i)[0] : 0; });
  }
};

struct CountRagged : Counter {
  explicit CountRagged(CreateContext& c) : Counter(c) {}
  void Run(RunContext c) const {
    const sparse::Splits splits(c.input_view(0), "splits");
    splits.CheckWithin(c, Count(c.input_view(1)));
    // The last row that begins at or before the value.
    const auto row_of = [&](int64_t i) {
      int64_t low = 0, high = splits.rows();
      while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        (splits[middle] <= i ? low : high) = middle;
      }
      return low;
    };
    Give(c, c.input_view(1), c.input_view(2), splits.rows(), true, row_of);
  }
};

constexpr Traits kGivesCounts = {.dynamic_outputs = TENON_DYNAMIC_ALL};

void GiveCountsShape(ShapeContext& c, int64_t rank) {
  c.SetOutput(0, {kUnknown, rank});
  c.SetOutput(1, {kUnknown});
  c.SetOutput(2, {rank});
}
void DenseShape(ShapeContext& c) { GiveCountsShape(c, c.WithRankAtLeast(0, 1).rank()); }
void SparseShape(ShapeContext& c) { GiveCountsShape(c, c.WithRank(0, 2)[1]); }
void RaggedShape(ShapeContext& c) { GiveCountsShape(c, 2); }

}  // namespace

TENON_KERNEL(kDenseCountSparseOutputKernel) = Registration<CountDense>("DenseCountSparseOutput", kGivesCounts);
TENON_KERNEL(kSparseCountSparseOutputKernel) = Registration<CountSparse>("SparseCountSparseOutput", kGivesCounts);
TENON_KERNEL(kRaggedCountSparseOutputKernel) = Registration<CountRagged>("RaggedCountSparseOutput", kGivesCounts);

TENON_OP(kDenseCountSparseOutput) = DefineOp({
    .name = "DenseCountSparseOutput",
    .inputs = "values: T, weights: output_type",
    .outputs = "output_indices: int64, output_values: output_type, output_dense_shape: int64",
    .attrs = "T: {int32, int64}; minlength: int >= -1 = -1; maxlength: int >= -1 = -1; binary_output: bool; "
             "output_type: {int32, int64, float, double}",
    .doc = "How often each value stands in each row, or the sum of its weights; binary_output: whether it does. Values "
           "from maxlength on are left out.",
    .shape = ShapeFunction<DenseShape>,
});

TENON_OP(kSparseCountSparseOutput) = DefineOp({
    .name = "SparseCountSparseOutput",
    .inputs = "indices: int64, values: T, dense_shape: int64, weights: output_type",
    .outputs = "output_indices: int64, output_values: output_type, output_dense_shape: int64",
    .attrs = "T: {int32, int64}; minlength: int >= -1 = -1; maxlength: int >= -1 = -1; binary_output: bool; "
             "output_type: {int32, int64, float, double}",
    .doc = "How often each value stands in each row of a sparse tensor, or the sum of its weights; binary_output: "
           "whether it does.",
    .shape = ShapeFunction<SparseShape>,
});

TENON_OP(kRaggedCountSparseOutput) = DefineOp({
    .name = "RaggedCountSparseOutput",
    .inputs = "splits: int64, values: T, weights: output_type",
    .outputs = "output_indices: int64, output_values: output_type, output_dense_shape: int64",
    .attrs = "T: {int32, int64}; minlength: int >= -1 = -1; maxlength: int >= -1 = -1; binary_output: bool; "
             "output_type: {int32, int64, float, double}",
    .doc = "How often each value stands in each row of a ragged tensor, or the sum of its weights; binary_output: "
           "whether it does.",
    .shape = ShapeFunction<RaggedShape>,
});

}  // namespace tenon::ops
