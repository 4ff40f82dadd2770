// SPDX-License-Identifier: Apache-2.0
// RandomUniform, RandomStandardNormal, TruncatedNormal, RandomUniformInt: TensorFlow's streams
// (tenon/extras/kernel/random.h).
#include "kernels/common/types.h"
#include "tenon/extras/kernel/random.h"

namespace tenon::cpu {
namespace {

using Floats = Types<float, double, Half, Bfloat16>;

template <class T, class Distribution>
void Generate(sdk::RunContext c, const sdk::Stream& stream, const Distribution& distribution) {
  T* out = c.output<T>(0);
  const int64_t n = sdk::Count(c.output_view(0));
  const sdk::Philox base = stream.Reserve(n);
  c.ParallelFor(sdk::GroupsOf<T>(n), std::is_same_v<Distribution, sdk::Uniform> ? 2 : 40,
                [&](int64_t begin, int64_t end) { sdk::GenerateGroups(base, distribution, n, begin, end, out); });
}

template <class Distribution>
struct RandomKernel {
  explicit RandomKernel(sdk::CreateContext& c) : stream(c) {}
  void Run(sdk::RunContext c) const {
    Floats::Dispatch(c.output_view(0).dtype, [&]<class T>(Tag<T>) { Generate<T>(c, stream, Distribution()); });
  }
  sdk::Stream stream;
};

struct RandomIntKernel {
  explicit RandomIntKernel(sdk::CreateContext& c) : stream(c) {}
  void Run(sdk::RunContext c) const {
    Indices::Dispatch(c.output_view(0).dtype, [&]<class T>(Tag<T>) {
      using U = std::make_unsigned_t<T>;
      const T low = *c.input<T>(1), high = *c.input<T>(2);
      if (low >= high) sdk::Fail(TENON_INVALID_ARGUMENT, "Need minval < maxval, got ", low, " >= ", high);
      Generate<T>(c, stream, sdk::UniformInteger<T>{low, static_cast<U>(static_cast<U>(high) - static_cast<U>(low))});
    });
  }
  sdk::Stream stream;
};

constexpr sdk::Traits kRandomTraits = {.constraints = sdk::Constraints<Floats::Constraint<"dtype">>::list,
                                 .flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_STATEFUL};

}  // namespace

TENON_CPU_KERNEL(RandomUniform) = CpuKernel<RandomKernel<sdk::Uniform>>("RandomUniform", kRandomTraits);
TENON_CPU_KERNEL(RandomStandardNormal) = CpuKernel<RandomKernel<sdk::Normal>>("RandomStandardNormal", kRandomTraits);
TENON_CPU_KERNEL(TruncatedNormal) = CpuKernel<RandomKernel<sdk::Truncated>>("TruncatedNormal", kRandomTraits);
TENON_CPU_KERNEL(RandomUniformInt) = CpuKernel<RandomIntKernel>(
    "RandomUniformInt", {.constraints = sdk::Constraints<Indices::Constraint<"Tout">>::list,
                         .flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_STATEFUL});

}  // namespace tenon::cpu
