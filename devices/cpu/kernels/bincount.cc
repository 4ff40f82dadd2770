// SPDX-License-Identifier: Apache-2.0
// Bincount and DenseBincount.
#include <algorithm>

#include "kernels/types.h"
#include "tenon/sdk/walk/slices.h"

namespace tenon::cpu {
namespace {

using BinTypes = Types<int32_t, int64_t, float, double>;

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
      sdk::Fail(TENON_INVALID_ARGUMENT, "`weights` must be the same shape as `arr` or a length-0 `Tensor`; their shapes are ", sdk::DimsOf(weights), " and ", shape);
    BinTypes::Dispatch(weights.dtype, [&]<class T>(Tag<T>) {
      T* out = c.output<T>(0);
      std::fill_n(out, rows * bins, T(0));
      const int64_t columns = rows == 0 ? 0 : count / rows;
      sdk::CancelPoll poll(c);
      for (int64_t i = 0; i < count; poll(), ++i) {
        const int64_t value = sdk::ValueAt(values, i);
        if (value < 0) sdk::Fail(TENON_INVALID_ARGUMENT, "Input arr must be non-negative! arr[", i, "] is ", value);
        if (value >= bins) continue;
        T& bin = out[i / columns * bins + value];
        bin = binary ? T(1) : static_cast<T>(Wrapping(bin) + Wrapping(weighted ? c.input<T>(2)[i] : T(1)));
      }
    });
  }

 private:
  // Sums of integers wrap.
  template <class T>
  static auto Wrapping(T value) {
    if constexpr (std::is_integral_v<T>) return static_cast<std::make_unsigned_t<T>>(value);
    else return value;
  }
  bool binary = false;
};

using BinConstraint = sdk::Constraints<BinTypes::Constraint<"T">>;

}  // namespace

TENON_CPU_KERNEL(Bincount) = CpuKernel<BincountKernel<false>>("Bincount", {.constraints = BinConstraint::list});
TENON_CPU_KERNEL(DenseBincount) = CpuKernel<BincountKernel<true>>("DenseBincount", {.constraints = BinConstraint::list});

}  // namespace tenon::cpu
