// SPDX-License-Identifier: Apache-2.0
// Bincount, DenseBincount and SparseBincount.
#include <algorithm>
#include <memory_resource>
#include <vector>

#include "kernels/common/types.h"
#include "tenon/extras/kernel/step_memory.h"
#include "tenon/extras/walk/slices.h"

namespace tenon::cpu {
namespace {

using BinTypes = Types<int32_t, int64_t, float, double>;

// Sums of integers wrap.
template <class T>
auto Wrapping(T value) {
  if constexpr (std::is_integral_v<T>) return static_cast<std::make_unsigned_t<T>>(value);
  else return value;
}

// kDense: of each row, and perhaps whether there is any.
template <bool kDense>
struct BincountKernel {
  explicit BincountKernel(sdk::CreateContext& c) {
    if constexpr (kDense) binary = c.Bool("binary_output");
  }
  void Run(sdk::RunContext c) const {
    const tenon_tensor_view &values = c.input_view(0), &weights = c.input_view(2);
    const sdk::Dims shape = sdk::DimsOf(values);
    const int64_t count = sdk::Count(values), rows = kDense && shape.size() == 2 ? shape[0] : 1;
    const int64_t bins = sdk::ValueAt(c.input_view(1), 0);
    const bool weighted = sdk::Count(weights) != 0 && !binary;
    const bool fit = kDense ? std::ranges::equal(sdk::DimsOf(weights), shape) : sdk::Count(weights) == count;
    if (sdk::Count(weights) != 0 && !fit)
      sdk::Fail(TENON_INVALID_ARGUMENT,
                "`weights` must be the same shape as `arr` or a length-0 `Tensor`; their shapes are ",
                sdk::DimsOf(weights), " and ", shape);
    BinTypes::Dispatch(weights.dtype, [&]<class T>(Tag<T>) {
      T* out = c.output<T>(0);
      std::fill_n(out, rows * bins, T(0));
      const int64_t columns = rows == 0 ? 0 : count / rows;
      if (values.dtype == TENON_DT_INT32) {
        Add(c, sdk::Data<const int32_t>(values), weighted ? c.input<T>(2) : nullptr, rows, columns, bins, out);
      } else {
        Add(c, sdk::Data<const int64_t>(values), weighted ? c.input<T>(2) : nullptr, rows, columns, bins, out);
      }
    });
  }

  // Values are counted as whole numbers, in several tables in turn, so that one does not wait for the same value before
  // it.
  template <class Index, class T>
  static void Count(const sdk::RunContext& c, const Index* values, int64_t rows, int64_t columns, int64_t bins, T* out,
                    sdk::CancelPoll& poll) {
    constexpr int64_t kPiece = 1 << 14, kTables = 4;
    sdk::StepMemory memory(c);
    std::pmr::vector<uint32_t> counts(static_cast<size_t>(kTables * (bins + 1)),
                                      &memory);  // and one for what is beyond
    for (int64_t row = 0; row < rows; ++row, out += bins, values += columns) {
      std::fill(counts.begin(), counts.end(), 0u);
      for (int64_t first = 0; first < columns; first += kPiece, poll(kPiece)) {
        const int64_t last = std::min(columns, first + kPiece);
        Index least = 0;
        for (int64_t i = first; i < last; ++i) least = std::min(least, values[i]);
        if (least < 0) {
          const auto bad = std::find_if(values + first, values + last, [](Index value) { return value < 0; });
          sdk::Fail(TENON_INVALID_ARGUMENT, "Input arr must be non-negative! arr[", row * columns + (bad - values),
                    "] is ", *bad);
        }
        uint32_t* const tables = counts.data();
        for (int64_t i = first; i < last; ++i)
          ++tables[std::min<int64_t>(values[i], bins) * kTables + (i & (kTables - 1))];
      }
      for (int64_t bin = 0; bin < bins; ++bin) {
        const uint32_t* table = counts.data() + kTables * bin;
        const uint32_t count = table[0] + table[1] + table[2] + table[3];
        // A float goes up by 1 as far as that changes it.
        out[bin] = static_cast<T>(std::is_same_v<T, float> ? std::min(count, uint32_t{1} << 24) : count);
      }
    }
  }

  template <class Index, class T>
  void Add(const sdk::RunContext& c, const Index* values, const T* weights, int64_t rows, int64_t columns, int64_t bins,
           T* out) const {
    constexpr int64_t kPiece = 1 << 14;
    sdk::CancelPoll poll(c);
    if (weights == nullptr && !binary && bins >= 0 && columns >= 4 * bins && columns <= UINT32_MAX)
      return Count(c, values, rows, columns, bins, out, poll);
    for (int64_t row = 0; row < rows; ++row, out += bins) {
      for (int64_t first = 0; first < columns; first += kPiece, poll(kPiece)) {
        for (int64_t i = row * columns + first; i < row * columns + std::min(columns, first + kPiece); ++i) {
          const int64_t value = values[i];
          if (value < 0) sdk::Fail(TENON_INVALID_ARGUMENT, "Input arr must be non-negative! arr[", i, "] is ", value);
          if (value >= bins) continue;
          T& bin = out[value];
          bin = binary ? T(1) : static_cast<T>(Wrapping(bin) + Wrapping(weights != nullptr ? weights[i] : T(1)));
        }
      }
    }
  }

  bool binary = false;
};

// The values of a sparse vector, or of a matrix by its rows. As in TensorFlow, what is below 0 is not counted.
struct SparseBincountKernel {
  explicit SparseBincountKernel(sdk::CreateContext& c) : binary(c.Bool("binary_output")) {}
  void Run(sdk::RunContext c) const {
    const tenon_tensor_view &values = c.input_view(1), &weights = c.input_view(4);
    const int64_t count = sdk::Count(values), rank = sdk::Count(c.input_view(2)),
                  bins = sdk::ValueAt(c.input_view(3), 0);
    const int64_t *indices = c.input<int64_t>(0), *dims = c.input<int64_t>(2);
    const sdk::Dims shape = sdk::DimsOf(c.input_view(0));
    if (rank < 1 || rank > 2 || shape.size() != 2 || shape[0] != count || shape[1] != rank)
      sdk::Fail(TENON_INVALID_ARGUMENT, "indices of shape ", shape, " for ", count, " values of a tensor of rank ",
                rank, "; rows are counted of ranks 1 and 2");
    const bool weighted = sdk::Count(weights) != 0;
    if (weighted && sdk::Count(weights) != count)
      sdk::Fail(TENON_INVALID_ARGUMENT, sdk::Count(weights), " weights for ", count,
                " values; there is one for each, or none at all");
    BinTypes::Dispatch(weights.dtype, [&]<class T>(Tag<T>) {
      T* out = c.output<T>(0);
      std::fill_n(out, sdk::Count(c.output_view(0)), T(0));
      sdk::CancelPoll poll(c);
      for (int64_t i = 0; i < count; poll(3), ++i) {
        for (int64_t d = 0; d < rank; ++d)
          if (const int64_t at = indices[i * rank + d]; at < 0 || at >= dims[d])
            sdk::Fail(TENON_INVALID_ARGUMENT, "indices[", i, ", ", d, "] = ", at, " is not in [0, ", dims[d], ")");
        const int64_t value = sdk::ValueAt(values, i);
        if (value < 0 || value >= bins) continue;
        T& bin = out[(rank == 2 ? indices[i * rank] : 0) * bins + value];
        bin = binary ? T(1) : static_cast<T>(Wrapping(bin) + Wrapping(weighted ? c.input<T>(4)[i] : T(1)));
      }
    });
  }
  bool binary;
};

using BinConstraint = sdk::Constraints<BinTypes::Constraint<"T">>;

}  // namespace

TENON_CPU_KERNEL(Bincount) = CpuKernel<BincountKernel<false>>("Bincount", {.constraints = BinConstraint::list});
TENON_CPU_KERNEL(SparseBincount) = CpuKernel<SparseBincountKernel>("SparseBincount",
                                                                   {.constraints = BinConstraint::list});
TENON_CPU_KERNEL(DenseBincount) = CpuKernel<BincountKernel<true>>("DenseBincount",
                                                                  {.constraints = BinConstraint::list});

}  // namespace tenon::cpu
