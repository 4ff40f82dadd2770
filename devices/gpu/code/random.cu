// SPDX-License-Identifier: Apache-2.0
#include "code/random.h"

#include "code/grid.h"

namespace tenon::gpu {

template <class Distribution>
TENON_GPU_FUNCTION Distribution MakeDistribution(const RandomParams& p) {
  if constexpr (std::is_empty_v<Distribution>) {
    return Distribution();
  } else {
    return Distribution{static_cast<decltype(Distribution::low)>(p.low),
                        static_cast<typename Distribution::U>(p.range)};
  }
}

// A thread makes whole groups of elements, which are what one place of the stream gives.
template <class Distribution, class T>
TENON_GPU_FUNCTION void Draw(const RandomParams& p) {
  constexpr uint64_t kBlocks = Distribution::template kBlocks<T>;
  constexpr int64_t kGroup = sdk::kGroup<T>;
  const Distribution distribution = MakeDistribution<Distribution>(p);
  T* out = static_cast<T*>(p.out);
  sdk::Philox base = p.base;
  if (p.blocks_on != nullptr) base.Skip(*p.blocks_on);
  for (int64_t group = Thread(); group * kGroup < p.count; group += Threads()) {
    sdk::Philox generator = base;
    generator.Skip(static_cast<uint64_t>(group) * kBlocks);
    T values[kGroup];
    if constexpr (kBlocks == 1) {
      distribution(generator.Next(), values);
    } else {
      distribution(generator, values);
    }
    const int64_t at = group * kGroup;
    for (int64_t i = 0; i < kGroup; ++i) {
      if (at + i < p.count) out[at + i] = values[i];
    }
  }
}

TENON_GPU_FUNCTION void TakeBlocks(const TakeParams& p) {
  if (Thread() == 0) *p.taken = AtomicAdd(p.position, p.blocks);
}
TENON_GPU_KERNEL(TakeOfStream, TakeParams, TakeBlocks)

#define TENON_GPU_DISTRIBUTION(Name)                                         \
  TENON_GPU_KERNEL(Name##_f32, RandomParams, Draw<sdk::Name, float>)         \
  TENON_GPU_KERNEL(Name##_f64, RandomParams, Draw<sdk::Name, double>)        \
  TENON_GPU_KERNEL(Name##_f16, RandomParams, Draw<sdk::Name, Half>)          \
  TENON_GPU_KERNEL(Name##_bf16, RandomParams, Draw<sdk::Name, Bfloat16>)
TENON_GPU_DISTRIBUTION(Uniform)
TENON_GPU_DISTRIBUTION(Normal)
TENON_GPU_DISTRIBUTION(Truncated)
TENON_GPU_KERNEL(UniformInteger_i32, RandomParams, Draw<sdk::UniformInteger<int32_t>, int32_t>)
TENON_GPU_KERNEL(UniformInteger_i64, RandomParams, Draw<sdk::UniformInteger<int64_t>, int64_t>)

}  // namespace tenon::gpu
