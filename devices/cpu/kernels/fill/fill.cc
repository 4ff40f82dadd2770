// SPDX-License-Identifier: Apache-2.0
// Fill, ZerosLike, OnesLike, Range.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/common/string_copy.h"
#include "kernels/common/types.h"

namespace tenon::cpu {
namespace {

template <class T>
void FillOutput(sdk::RunContext c, T value) {
  T* out = c.output<T>(0);
  const int64_t n = static_cast<int64_t>(c.output_view(0).byte_size / sizeof(T));
  c.ParallelFor(n, 0.05 * sizeof(T), [&](int64_t begin, int64_t end) { std::fill(out + begin, out + end, value); });
}

struct FillKernel {
  void Run(sdk::RunContext c) const {
    DispatchSize(c.output_view(0).dtype, [&]<class T>(Tag<T>) { FillOutput<T>(c, *c.input<T>(1)); });
  }
};
struct ZerosLikeKernel {
  void Run(sdk::RunContext c) const {
    if (c.output_view(0).byte_size == 0) return;
    if (c.output_view(0).byte_size <= 4096) {
      std::memset(c.output<void>(0), 0, static_cast<size_t>(c.output_view(0).byte_size));
      return;
    }
    FillOutput<uint8_t>(c, 0);
  }
};
using Ones = Numbers::And<bool>::AndComplex;
struct OnesLikeKernel {
  void Run(sdk::RunContext c) const {
    Ones::Dispatch(c.output_view(0).dtype, [&]<class T>(Tag<T>) { FillOutput<T>(c, T(1)); });
  }
};

using RangeTypes = Types<int32_t, int64_t, float, double, Half, Bfloat16>;
// By repeated addition, as TensorFlow does it.
struct RangeKernel {
  void Run(sdk::RunContext c) const {
    RangeTypes::Dispatch(c.output_view(0).dtype, [&]<class T>(Tag<T>) {
      using A = Wide<T>;
      const A start = *c.input<T>(0), limit = *c.input<T>(1), delta = *c.input<T>(2);
      if (delta == 0) sdk::Fail(TENON_INVALID_ARGUMENT, "Requires delta != 0");
      if (delta > 0 ? start > limit : start < limit) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "Requires ",
                  delta > 0 ? "start <= limit when delta > 0" : "start >= limit when delta < 0", ": ", start, "/",
                  limit);
      }
      const int64_t n = sdk::Count(c.output_view(0));
      if (Length(start, limit, delta) != n) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "a range of ", Length(start, limit, delta), " elements; the output has ", n);
      }
      T* out = c.output<T>(0);
      A value = start;
      for (int64_t i = 0; i < n; ++i) {
        out[i] = static_cast<T>(value);
        if (i + 1 < n) value = static_cast<A>(static_cast<T>(value + delta));
      }
    });
  }

 private:
  template <class A>
  static int64_t Length(A start, A limit, A delta) {
    if constexpr (std::is_integral_v<A>) {
      using U = uint64_t;
      const U span =
          delta > 0 ? static_cast<U>(limit) - static_cast<U>(start) : static_cast<U>(start) - static_cast<U>(limit);
      const U step = delta > 0 ? static_cast<U>(delta) : U{0} - static_cast<U>(static_cast<int64_t>(delta));
      return span == 0 ? 0 : static_cast<int64_t>((span - 1) / step + 1);
    } else {
      const double length = std::ceil(std::fabs(static_cast<double>((limit - start) / delta)));
      return length < 9e18 ? static_cast<int64_t>(length) : -1;
    }
  }
};

}  // namespace

TENON_CPU_KERNEL(Fill) = CpuKernel<FillKernel>("Fill", {.constraints = sdk::Constraints<PlainConstraint<"T">>::list});
TENON_CPU_KERNEL(ZerosLike) =
    CpuKernel<ZerosLikeKernel>("ZerosLike", {.constraints = sdk::Constraints<PlainConstraint<"T">>::list});
TENON_CPU_KERNEL(OnesLike) =
    CpuKernel<OnesLikeKernel>("OnesLike", {.constraints = sdk::Constraints<Ones::Constraint<"T">>::list});
TENON_CPU_KERNEL(Range) =
    CpuKernel<RangeKernel>("Range", {.constraints = sdk::Constraints<RangeTypes::Constraint<"Tidx">>::list});

// Strings.
TENON_CPU_KERNEL(FillString) = CpuStringKernel<FillKernel>("Fill");
TENON_CPU_KERNEL(ZerosLikeString) = CpuStringKernel<ZerosLikeKernel>("ZerosLike");

}  // namespace tenon::cpu
