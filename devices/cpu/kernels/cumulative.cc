// SPDX-License-Identifier: Apache-2.0
// Cumsum and Cumprod. Every step is rounded to the element type, as what is written is what goes on.
#include <algorithm>
#include <complex>

#include "kernels/types.h"

namespace tenon::cpu {
namespace {

template <bool kProduct, class T>
T Combine(T x, T y) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::conditional_t<(sizeof(T) < 4), uint32_t, std::make_unsigned_t<T>>;
    return static_cast<T>(kProduct ? static_cast<U>(x) * static_cast<U>(y) : static_cast<U>(x) + static_cast<U>(y));
  } else if constexpr (kIsHalf<T>) {
    const float a = x, b = y;
    return static_cast<T>(kProduct ? a * b : a + b);
  } else {
    return kProduct ? x * y : x + y;
  }
}

// x as [outer, n, inner].
struct Axis {
  int64_t outer = 1, n = 1, inner = 1;
};

template <bool kProduct>
struct CumulativeKernel {
  explicit CumulativeKernel(sdk::CreateContext& c) : exclusive(c.Bool("exclusive")), reverse(c.Bool("reverse")) {}
  void Run(sdk::RunContext c) const {
    const sdk::Dims dims = sdk::DimsOf(c.input_view(0));
    const int64_t rank = static_cast<int64_t>(dims.size());
    const tenon_tensor_view& input = c.input_view(1);
    const int64_t given = IndexAt(sdk::Data<void>(input), input.dtype, 0);
    const int64_t axis = given < 0 ? given + rank : given;
    if (axis < 0 || axis >= rank) sdk::Fail(TENON_INVALID_ARGUMENT, "axis ", given, " is outside x of shape ", dims);
    const auto at = static_cast<size_t>(axis);
    const Axis shape = {sdk::Count(dims.first(at)), dims[at], sdk::Count(dims.subspan(at + 1))};
    if (shape.outer * shape.n * shape.inner == 0) return;
    switch (c.input_view(0).dtype) {
      case TENON_DT_COMPLEX64: return Typed<std::complex<float>>(c, shape);
      case TENON_DT_COMPLEX128: return Typed<std::complex<double>>(c, shape);
      default: Plain::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) { Typed<T>(c, shape); });
    }
  }
  using Plain = Types<float, double, int32_t, int64_t, Half, Bfloat16, uint8_t, int8_t, int16_t, uint16_t, uint32_t, uint64_t>;

 private:
  // Columns of a block go on together, so that the inner loop runs along memory.
  static constexpr int64_t kColumns = 64;

  template <class T>
  void Typed(sdk::RunContext c, const Axis& s) const {
    const int64_t blocks = (s.inner + kColumns - 1) / kColumns;
    c.ParallelFor(s.outer * blocks, static_cast<double>(s.n * std::min(s.inner, kColumns)), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i % blocks * kColumns;
        Block<T>(s, c.input<T>(0), c.output<T>(0), i / blocks * s.n * s.inner + first, std::min(kColumns, s.inner - first));
      }
    });
  }
  template <class T>
  void Block(const Axis& s, const T* x, T* out, int64_t at, int64_t count) const {
    T so_far[kColumns];
    std::fill_n(so_far, count, T(kProduct ? 1.0f : 0.0f));
    for (int64_t step = 0; step < s.n; ++step) {
      const int64_t row = at + (reverse ? s.n - 1 - step : step) * s.inner;
      for (int64_t j = 0; j < count; ++j) {
        const T before = so_far[j];
        // The first element is itself, so that -0 stays.
        so_far[j] = step == 0 && !exclusive ? x[row + j] : Combine<kProduct, T>(before, x[row + j]);
        out[row + j] = exclusive ? before : so_far[j];
      }
    }
  }

  bool exclusive, reverse;
};

constexpr sdk::Traits kTraits = {
    .constraints = sdk::Constraints<
        sdk::Allowed<"T", TENON_DT_FLOAT, TENON_DT_DOUBLE, TENON_DT_INT32, TENON_DT_INT64, TENON_DT_HALF, TENON_DT_BFLOAT16,
                     TENON_DT_UINT8, TENON_DT_INT8, TENON_DT_INT16, TENON_DT_UINT16, TENON_DT_UINT32, TENON_DT_UINT64,
                     TENON_DT_COMPLEX64, TENON_DT_COMPLEX128>,
        Indices::Constraint<"Tidx">>::list};

}  // namespace

TENON_CPU_KERNEL(Cumsum) = CpuKernel<CumulativeKernel<false>>("Cumsum", kTraits);
TENON_CPU_KERNEL(Cumprod) = CpuKernel<CumulativeKernel<true>>("Cumprod", kTraits);

}  // namespace tenon::cpu
