// SPDX-License-Identifier: Apache-2.0
// SparseToDense, SparseReshape, SparseFillEmptyRows and its gradient, SparseTensorDenseMatMul.
#include <algorithm>
#include <complex>
#include <numeric>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/common/types.h"
#include "tenon/sdk/kernel/kept_tensor.h"
#include "tenon/sdk/kernel/string_tensor.h"
#include "tenon/extras/kernel/update.h"
#include "tenon/extras/walk/slices.h"
#include "tenon/extras/walk/sparse_shape.h"

namespace tenon::cpu {
namespace {

struct SparseToDenseKernel {
  explicit SparseToDenseKernel(sdk::CreateContext& c) : validate(c.Bool("validate_indices")) {}
  void Run(sdk::RunContext c) const {
    const View& indices = c.input_view(0);
    const sdk::Dims shape = sdk::DimsOf(indices), out = sdk::DimsOf(c.output_view(0));
    const int64_t count = shape.empty() ? 1 : shape[0], rank = shape.size() > 1 ? shape[1] : 1;
    if (rank != static_cast<int64_t>(out.size())) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "output_shape has ", static_cast<int64_t>(out.size()),
                " numbers, the indices of shape ", shape, " have ", rank);
    }
    const View& values = c.input_view(2);
    const bool one_for_all = values.dl.ndim == 0;
    if (!one_for_all && sdk::Count(values) != count)
      sdk::Fail(TENON_INVALID_ARGUMENT, "sparse_values of shape ", sdk::DimsOf(values), " for ", count, " indices");
    Indices::Dispatch(indices.dtype, [&]<class Index>(Tag<Index>) {
      const Index* index = sdk::Data<const Index>(indices);
      int64_t before = -1;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t at = Place(index, i, rank, out);
        if (validate && at <= before)
          sdk::Fail(TENON_INVALID_ARGUMENT, "indices[", i, "] is ", at == before ? "repeated" : "out of order",
                    ". Many sparse ops require sorted indices.");
        before = at;
      }
      DispatchSize(values.dtype, [&]<class T>(Tag<T>) {
        T* to = c.output<T>(0);
        const T* from = c.input<T>(2);
        const int64_t step = one_for_all ? 0 : 1;
        std::fill_n(to, sdk::Count(out), *c.input<T>(3));
        sdk::CancelPoll poll(c);
        for (int64_t i = 0; i < count; poll(rank), ++i) to[Place(index, i, rank, out)] = from[step * i];
      });
    });
  }

 private:
  template <class Index>
  static int64_t Place(const Index* indices, int64_t i, int64_t rank, sdk::Dims out) {
    if (rank == 2) {  // the usual one without a loop
      const int64_t row = indices[2 * i], column = indices[2 * i + 1];
      if (row >= 0 && row < out[0] && column >= 0 && column < out[1]) [[likely]] return row * out[1] + column;
    }
    int64_t at = 0;
    for (int64_t d = 0; d < rank; ++d) {
      const int64_t index = indices[i * rank + d], dim = out[static_cast<size_t>(d)];
      if (index < 0 || index >= dim)
        sdk::Fail(TENON_INVALID_ARGUMENT, "indices[", i, "] is out of bounds: ", index, " is not in [0, ", dim, ")");
      at = at * dim + index;
    }
    return at;
  }
  bool validate;
};

struct SparseReshapeKernel {
  void Run(sdk::RunContext c) const {
    const View& indices = c.input_view(0);
    const int64_t rank = sdk::Count(c.input_view(1)), new_rank = sdk::Count(c.input_view(2)),
                  count = sdk::DimsOf(indices)[0];
    const int64_t* shape = c.input<int64_t>(1);
    int64_t* out = c.output<int64_t>(1);
    sdk::FillSparseShape(shape, rank, c.input<int64_t>(2), new_rank, out);
    sdk::CancelPoll poll(c);
    const int64_t* from = c.input<int64_t>(0);
    int64_t* to = c.output<int64_t>(0);
    for (int64_t i = 0; i < count; poll(5 * (rank + new_rank)), ++i) {
      int64_t at = 0;
      for (int64_t d = 0; d < rank; ++d) {
        const int64_t index = from[i * rank + d];
        if (index < 0 || index >= shape[d])
          sdk::Fail(TENON_INVALID_ARGUMENT, "input_indices[", i, "] has ", index, ", which is not in [0, ", shape[d],
                    ")");
        at = at * shape[d] + index;
      }
      for (int64_t d = new_rank; d-- > 0;) {
        // Divisions of 32 bits take a fraction of the time.
        if (at <= UINT32_MAX && out[d] <= UINT32_MAX) {
          const auto low = static_cast<uint32_t>(at), dim = static_cast<uint32_t>(out[d]);
          to[i * new_rank + d] = low % dim;
          at = low / dim;
        } else {
          to[i * new_rank + d] = at % out[d];
          at /= out[d];
        }
      }
    }
  }
};

// Values keep their order within a row; rows come in order.
struct FillEmptyRowsKernel {
  void Run(sdk::RunContext c) const {
    const View& indices = c.input_view(0);
    const int64_t count = sdk::DimsOf(indices)[0], rank = sdk::DimsOf(indices)[1];
    if (rank < 1) sdk::Fail(TENON_INVALID_ARGUMENT, "Dense shape cannot be empty.");
    const int64_t rows = c.input<int64_t>(2)[0];
    if (rows < 0) sdk::Fail(TENON_INVALID_ARGUMENT, "dense_shape[0] is ", rows);
    if (rows == 0 && count != 0)
      sdk::Fail(TENON_INVALID_ARGUMENT, "Received SparseTensor with dense_shape[0] = 0 but indices.shape[0] = ", count);
    const int64_t row_dims[] = {rows};
    c.AllocOutput(2, row_dims);
    const int64_t start_dims[] = {rows + 1};
    const sdk::KeptTensor memory = sdk::NewTensor(c, TENON_DT_INT64, start_dims);
    const std::span<int64_t> starts(sdk::Data<int64_t>(memory.view()), static_cast<size_t>(rows) + 1);
    std::fill(starts.begin(), starts.end(), 0);
    const int64_t* indices_in = c.input<int64_t>(0);
    bool in_order = true;
    for (int64_t i = 0, before = 0; i < count; ++i) {
      const int64_t row = indices_in[i * rank];
      in_order &= row >= before;
      before = row;
      if (row < 0 || row >= rows)
        sdk::Fail(TENON_INVALID_ARGUMENT, "indices(", i, ", 0) is invalid: ", row, " is not in [0, ", rows, ")");
      ++starts[static_cast<size_t>(row) + 1];
    }
    for (size_t r = 0; r < static_cast<size_t>(rows); ++r) {
      const bool empty = starts[r + 1] == 0;
      c.output<bool>(2)[r] = empty;
      starts[r + 1] = starts[r] + (empty ? 1 : starts[r + 1]);
    }
    const int64_t total = starts.back();
    const int64_t index_dims[] = {total, rank}, value_dims[] = {total}, map_dims[] = {count};
    c.AllocOutput(0, index_dims);
    c.AllocOutput(3, map_dims);
    int64_t *out = c.output<int64_t>(0), *map = c.output<int64_t>(3);
    const bool* empty_rows = c.output<bool>(2);
    // put(place, i): value i, or the default (kDefault), is the output's value there.
    const auto place = [&](const auto& put) {
      for (int64_t r = 0; r < rows; ++r) {
        if (!empty_rows[r]) continue;
        const int64_t at = starts[static_cast<size_t>(r)];
        std::fill_n(out + at * rank, rank, int64_t{0});
        out[at * rank] = r;
        put(at, kDefault);
      }
      for (int64_t i = 0; i < count; ++i) {
        const int64_t* index = indices_in + i * rank;
        const int64_t at = starts[static_cast<size_t>(index[0])]++;
        for (int64_t d = 0; d < rank; ++d) out[at * rank + d] = index[d];
        put(at, i);
        map[i] = at;
      }
    };
    if (c.input_view(1).dtype == TENON_DT_STRING) {
      std::vector<std::string_view> texts(static_cast<size_t>(total));
      place([&](int64_t at, int64_t i) {
        texts[static_cast<size_t>(at)] =
            i == kDefault ? sdk::StringAt(c.input_view(3), 0) : sdk::StringAt(c.input_view(1), i);
      });
      return sdk::SetStrings(c, 1, value_dims, texts);
    }
    c.AllocOutput(1, value_dims);
    DispatchSize(c.input_view(1).dtype, [&]<class T>(Tag<T>) {
      T* to = c.output<T>(1);
      const T *from = c.input<T>(1), other = *c.input<T>(3);
      if (in_order && total == count) {  // all stays as it is
        std::copy_n(indices_in, count * rank, out);
        std::copy_n(from, count, to);
        std::iota(map, map + count, int64_t{0});
        return;
      }
      place([=](int64_t at, int64_t i) { to[at] = i == kDefault ? other : from[i]; });
    });
  }

 private:
  static constexpr int64_t kDefault = -1;
};

using AddedTypes = Types<float, double, int32_t, int64_t, Half, Bfloat16, uint8_t, int8_t, int16_t, uint16_t, uint32_t,
                         uint64_t>::AndComplex;

struct FillEmptyRowsGradKernel {
  struct Plan {
    Plan(const FillEmptyRowsGradKernel&, sdk::PrepareContext& c) { c.Workspace(sdk::Count(c.input(1))); }
  };
  void Run(const Plan&, sdk::RunContext c) const {
    const int64_t count = sdk::Count(c.input_view(0)), total = sdk::Count(c.input_view(1));
    bool* taken = c.workspace<bool>();
    std::fill_n(taken, total, false);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = c.input<int64_t>(0)[i];
      if (at < 0 || at >= total)
        sdk::Fail(TENON_INVALID_ARGUMENT, "reverse_index_map[", i, "] = ", at, " is not in [0, ", total, ")");
      taken[at] = true;
    }
    AddedTypes::Dispatch(c.input_view(1).dtype, [&]<class T>(Tag<T>) {
      const T* grad = c.input<T>(1);
      for (int64_t i = 0; i < count; ++i) c.output<T>(0)[i] = grad[c.input<int64_t>(0)[i]];
      T sum = T(0);
      for (int64_t i = 0; i < total; ++i) {
        if (!taken[i]) sum = sdk::AddOrSubtract<false>(sum, grad[i]);
      }
      *c.output<T>(1) = sum;
    });
  }
};

using Multiplied = Types<float, double, int32_t, Half, Bfloat16>::AndComplex;

struct SparseMatMulKernel {
  explicit SparseMatMulKernel(sdk::CreateContext& c) : adjoint_a(c.Bool("adjoint_a")), adjoint_b(c.Bool("adjoint_b")) {}
  struct Plan {
    Plan(const SparseMatMulKernel&, sdk::PrepareContext& c) { c.Workspace(sdk::Multiply(sdk::Count(c.output(0)), 16)); }
  };
  void Run(const Plan&, sdk::RunContext c) const {
    const int64_t count = sdk::Count(c.input_view(1)), rows = sdk::ValueAt(c.input_view(2), adjoint_a ? 1 : 0),
                  inner = sdk::ValueAt(c.input_view(2), adjoint_a ? 0 : 1);
    const sdk::Dims b = sdk::DimsOf(c.input_view(3)), out = sdk::DimsOf(c.output_view(0));
    if (b[adjoint_b ? 1 : 0] != inner)
      sdk::Fail(TENON_INVALID_ARGUMENT, "Cannot multiply A and B because inner dimension does not match: ", inner,
                " vs. ", b[adjoint_b ? 1 : 0]);
    if (sdk::Count(c.input_view(0)) != 2 * count || out[0] != rows)
      sdk::Fail(TENON_INVALID_ARGUMENT, "a_indices of shape ", sdk::DimsOf(c.input_view(0)), " for ", count, " values");
    const int64_t columns = out[1];
    if (rows == 0 || columns == 0) return;
    Multiplied::Dispatch(c.output_view(0).dtype, [&]<class T>(Tag<T>) {
      Indices::Dispatch(c.input_view(0).dtype,
                        [&]<class Index>(Tag<Index>) { Typed<T, Index>(c, count, rows, inner, columns); });
    });
  }

 private:
  template <class T, class Index>
  void Typed(const sdk::RunContext& c, int64_t count, int64_t rows, int64_t inner, int64_t columns) const {
      using A = std::conditional_t<std::is_integral_v<T>, uint32_t, Wide<T>>;
      A* sums = c.workspace<A>();
      const Index* index = c.input<Index>(0);
      const T *values = c.input<T>(1), *b = c.input<T>(3);
      T* out = c.output<T>(0);
      std::fill_n(sums, rows * columns, A(0));
      sdk::CancelPoll poll(c);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t m = index[2 * i + (adjoint_a ? 1 : 0)], k = index[2 * i + (adjoint_a ? 0 : 1)];
        if (k < 0 || k >= inner)
          sdk::Fail(TENON_INVALID_ARGUMENT, "k (", k, ") from index[", i, ",", adjoint_a ? 0 : 1,
                    "] out of bounds (>=", inner, ")");
        if (m < 0 || m >= rows)
          sdk::Fail(TENON_INVALID_ARGUMENT, "m (", m, ") from index[", i, ",", adjoint_a ? 1 : 0,
                    "] out of bounds (>=", rows, ")");
        const A value = Turned(static_cast<A>(values[i]), adjoint_a);
        poll(1 + columns);
        A* to = sums + m * columns;
        if (columns == 1) {
          to[0] += value * Turned(static_cast<A>(b[k]), adjoint_b);
        } else if (adjoint_b) {
          for (int64_t n = 0; n < columns; ++n) to[n] += value * Turned(static_cast<A>(b[n * inner + k]), true);
        } else {
          const T* from = b + k * columns;
          for (int64_t n = 0; n < columns; ++n) to[n] += value * static_cast<A>(from[n]);
        }
      }
      for (int64_t i = 0; i < rows * columns; ++i) out[i] = static_cast<T>(sums[i]);
  }

  template <class A>
  static A Turned(A x, bool conjugate) {
    if constexpr (sdk::kIsComplex<A>) return conjugate ? std::conj(x) : x;
    return x;
  }
  bool adjoint_a, adjoint_b;
};

}  // namespace

TENON_CPU_KERNEL(SparseToDense) = CpuKernel<SparseToDenseKernel>(
    "SparseToDense", {.constraints = sdk::Constraints<PlainConstraint<"T">, Indices::Constraint<"Tindices">>::list});
TENON_CPU_KERNEL(SparseReshape) = CpuKernel<SparseReshapeKernel>("SparseReshape", {});
TENON_CPU_KERNEL(SparseFillEmptyRows) = CpuKernel<FillEmptyRowsKernel>(
    "SparseFillEmptyRows",
    {.constraints = sdk::Constraints<PlainConstraint<"T">>::list, .dynamic_outputs = TENON_DYNAMIC_ALL});
TENON_CPU_KERNEL(SparseFillEmptyRowsString) = CpuKernel<FillEmptyRowsKernel>(
    "SparseFillEmptyRows",
    {.constraints = sdk::Constraints<sdk::Allowed<"T", TENON_DT_STRING>>::list, .dynamic_outputs = TENON_DYNAMIC_ALL});
TENON_CPU_KERNEL(SparseFillEmptyRowsGrad) = CpuKernel<FillEmptyRowsGradKernel>(
    "SparseFillEmptyRowsGrad", {.constraints = sdk::Constraints<AddedTypes::Constraint<"T">>::list});
TENON_CPU_KERNEL(SparseTensorDenseMatMul) = CpuKernel<SparseMatMulKernel>(
    "SparseTensorDenseMatMul",
    {.constraints = sdk::Constraints<Multiplied::Constraint<"T">, Indices::Constraint<"Tindices">>::list});

}  // namespace tenon::cpu
