// SPDX-License-Identifier: Apache-2.0
// A thread for an element. Channel i changes its own output, and the norm of every channel k in whose window it is:
// dx[i] is dy[i] power[i] + x[i] * the sum of slopes[k], where slopes[k] = -2 alpha beta y[k] dy[k] / norm[k].
#include "code/lrn.h"

#include <cmath>

#include "code/grid.h"

namespace tenon::gpu {

// The sum of value(at) over the window of an element.
template <class Value>
TENON_GPU_FUNCTION float SumWindow(const LrnParams& p, int64_t i, const Value& value) {
  const int64_t channel =
      p.total <= INT32_MAX ? static_cast<uint32_t>(i) % static_cast<uint32_t>(p.channels) : i % p.channels;
  const int64_t first = channel > p.radius ? channel - p.radius : 0;
  const int64_t end = channel + p.radius + 1 < p.channels ? channel + p.radius + 1 : p.channels;
  float sum = 0;
  for (int64_t at = i - channel + first; at < i - channel + end; ++at) sum += value(at);
  return sum;
}
template <class T>
TENON_GPU_FUNCTION float NormOf(const LrnParams& p, int64_t i) {
  return p.bias + p.alpha * SumWindow(p, i, [&](int64_t at) {
    const auto x = static_cast<float>(static_cast<const T*>(p.x)[at]);
    return x * x;
  });
}
TENON_GPU_FUNCTION float PowerOf(const LrnParams& p, float norm) {
  return p.beta == 0.5f ? 1.0f / std::sqrt(norm) : p.beta == 1.0f ? 1.0f / norm : std::exp(-p.beta * std::log(norm));
}

template <class T>
TENON_GPU_FUNCTION void Lrn(const LrnParams& p) {
  for (int64_t i = Thread(); i < p.total; i += Threads()) {
    static_cast<T*>(p.to)[i] =
        static_cast<T>(static_cast<float>(static_cast<const T*>(p.x)[i]) * PowerOf(p, NormOf<T>(p, i)));
  }
}
template <class T>
TENON_GPU_FUNCTION void LrnSlopes(const LrnParams& p) {
  for (int64_t i = Thread(); i < p.total; i += Threads()) {
    const auto y = static_cast<float>(static_cast<const T*>(p.y)[i]),
               dy = static_cast<float>(static_cast<const T*>(p.dy)[i]);
    p.slopes[i] = -2 * p.alpha * p.beta * y / NormOf<T>(p, i) * dy;
  }
}
template <class T>
TENON_GPU_FUNCTION void LrnGrad(const LrnParams& p) {
  for (int64_t i = Thread(); i < p.total; i += Threads()) {
    const float slopes = SumWindow(p, i, [&](int64_t at) { return p.slopes[at]; });
    const auto x = static_cast<float>(static_cast<const T*>(p.x)[i]),
               dy = static_cast<float>(static_cast<const T*>(p.dy)[i]);
    static_cast<T*>(p.to)[i] = static_cast<T>(dy * PowerOf(p, NormOf<T>(p, i)) + x * slopes);
  }
}

#define TENON_GPU_LRN(suffix, T)                               \
  TENON_GPU_KERNEL(LRN_##suffix, LrnParams, Lrn<T>)            \
  TENON_GPU_KERNEL(LRNSlopes_##suffix, LrnParams, LrnSlopes<T>) \
  TENON_GPU_KERNEL(LRNGrad_##suffix, LrnParams, LrnGrad<T>)
TENON_GPU_LRN(f32, float)
TENON_GPU_LRN(f16, Half)

}  // namespace tenon::gpu
