// SPDX-License-Identifier: Apache-2.0
// LRN and LRNGrad, pixel by pixel, in float.
#include <algorithm>
#include <cmath>

#include "kernels/types.h"

namespace tenon::cpu {
namespace {

using LrnTypes = Types<float, Half>;

struct Lrn {
  explicit Lrn(sdk::CreateContext& c)
      : radius(c.Int("depth_radius")), bias(c.Float("bias")), alpha(c.Float("alpha")), beta(c.Float("beta")) {
    if (radius < 0 || radius > INT32_MAX) c.Invalid("depth_radius is ", radius);
  }

  // bias + alpha * the squares around channel k.
  template <class T>
  float Norm(const T* x, int64_t k, int64_t channels) const {
    float sum = 0;
    for (int64_t i = First(k); i < Last(k, channels); ++i) sum += static_cast<float>(x[i]) * static_cast<float>(x[i]);
    return bias + alpha * sum;
  }
  int64_t First(int64_t k) const { return std::max<int64_t>(0, k - radius); }
  int64_t Last(int64_t k, int64_t channels) const { return std::min(channels, k + radius + 1); }

  // function(first element of the pixel, channels).
  template <class Function>
  void ForEachPixel(sdk::RunContext c, const tenon_tensor_view& image, Function&& function) const {
    const sdk::Dims dims = sdk::DimsOf(image);
    if (dims.size() != 4) sdk::Fail(TENON_INVALID_ARGUMENT, "images need 4 dims; the shape is ", dims);
    const int64_t channels = dims[3], total = sdk::Count(dims);
    if (total == 0) return;
    const double window = static_cast<double>(std::min(2 * radius + 1, channels));
    c.ParallelFor(total / channels, static_cast<double>(channels) * (window + 20), [&](int64_t begin, int64_t end) {
      for (int64_t pixel = begin; pixel < end; ++pixel) function(pixel * channels, channels);
    });
  }
  int64_t radius;
  float bias, alpha, beta;
};

struct LrnKernel : Lrn {
  using Lrn::Lrn;
  void Run(sdk::RunContext c) const {
    LrnTypes::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      ForEachPixel(c, c.input_view(0), [&](int64_t at, int64_t channels) {
        const T* x = c.input<T>(0) + at;
        T* out = c.output<T>(0) + at;
        for (int64_t k = 0; k < channels; ++k) out[k] = static_cast<T>(static_cast<float>(x[k]) * std::pow(Norm(x, k, channels), -beta));
      });
    });
  }
};

// (input_grads, input_image, output_image). Channel k's output depends on x of every channel in its window.
struct LrnGradKernel : Lrn {
  using Lrn::Lrn;
  void Run(sdk::RunContext c) const {
    for (int32_t i = 0; i < 3; ++i) {
      if (!std::ranges::equal(sdk::DimsOf(c.input_view(i)), sdk::DimsOf(c.output_view(0)))) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "input ", i, " has the shape ", sdk::DimsOf(c.input_view(i)), ", the output ", sdk::DimsOf(c.output_view(0)));
      }
    }
    LrnTypes::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      ForEachPixel(c, c.input_view(1), [&](int64_t at, int64_t channels) {
        const T* dy = c.input<T>(0) + at;
        const T* x = c.input<T>(1) + at;
        const T* y = c.input<T>(2) + at;
        T* out = c.output<T>(0) + at;
        std::fill_n(out, channels, T(0.0f));
        for (int64_t k = 0; k < channels; ++k) {
          const float norm = Norm(x, k, channels);
          const float slope = -2 * alpha * beta * static_cast<float>(y[k]) / norm;
          for (int64_t i = First(k); i < Last(k, channels); ++i) {
            const float d = slope * static_cast<float>(x[i]) + (i == k ? std::pow(norm, -beta) : 0.0f);
            out[i] = static_cast<T>(static_cast<float>(out[i]) + d * static_cast<float>(dy[k]));
          }
        }
      });
    });
  }
};

constexpr sdk::Traits kTraits = {.constraints = sdk::Constraints<LrnTypes::Constraint<"T">>::list};

}  // namespace

TENON_CPU_KERNEL(LRN) = CpuKernel<LrnKernel>("LRN", kTraits);
TENON_CPU_KERNEL(LRNGrad) = CpuKernel<LrnGradKernel>("LRNGrad", kTraits);

}  // namespace tenon::cpu
