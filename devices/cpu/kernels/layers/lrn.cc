// SPDX-License-Identifier: Apache-2.0
// LRN and LRNGrad, pixel by pixel, in float: a block of channels at a time, with what its windows reach on both sides.
#include <algorithm>
#include <cmath>

#include "kernels/common/math.h"
#include "kernels/common/types.h"

namespace tenon::cpu {
namespace {

using LrnTypes = Types<float, Half>;

constexpr int64_t kLrnBlock = 64;
constexpr int64_t kWidest = 64;  // windows that reach farther are summed channel by channel

struct Lrn {
  explicit Lrn(sdk::CreateContext& c)
      : radius(c.Int("depth_radius")), bias(c.Float("bias")), alpha(c.Float("alpha")), beta(c.Float("beta")) {
    if (radius < 0 || radius > INT32_MAX) c.Invalid("depth_radius is ", radius);
  }

  // sums[k] = value(i) of every channel i in the window of channel begin + k; values beyond the pixel are 0.
  template <class Value>
  void SumWindows(int64_t begin, int64_t channels, const Value& value, float (&sums)[kLrnBlock]) const {
    std::fill_n(sums, kLrnBlock, 0.0f);
    if (radius > kWidest) {
      for (int64_t k = begin; k < std::min(channels, begin + kLrnBlock); ++k) {
        for (int64_t i = First(k); i < Last(k, channels); ++i) sums[k - begin] += value(i);
      }
      return;
    }
    float values[kLrnBlock + 2 * kWidest] = {};
    const int64_t start = begin - radius, first = First(begin);
    for (int64_t i = first; i < Last(begin + kLrnBlock - 1, channels); ++i) values[i - start] = value(i);
    int64_t d = 0;
    for (; d + 4 <= 2 * radius + 1; d += 4) {
      for (int64_t k = 0; k < kLrnBlock; ++k)
        sums[k] += (values[k + d] + values[k + d + 1]) + (values[k + d + 2] + values[k + d + 3]);
    }
    for (; d <= 2 * radius; ++d) {
      for (int64_t k = 0; k < kLrnBlock; ++k) sums[k] += values[k + d];
    }
  }
  // Rough nanoseconds of a block's windows.
  int64_t BlockCost(int64_t channels) const {
    const int64_t window = std::min(2 * radius + 1, channels);
    return kLrnBlock + (radius > kWidest ? kLrnBlock * window : window);
  }
  int64_t First(int64_t k) const { return std::max<int64_t>(0, k - radius); }
  int64_t Last(int64_t k, int64_t channels) const { return std::min(channels, k + radius + 1); }

  // bias + alpha * the squares around each channel of the block at `begin`, and that to the power -beta.
  template <class T>
  void Norms(const T* x, int64_t begin, int64_t channels, float (&norms)[kLrnBlock], float (&powers)[kLrnBlock]) const {
    SumWindows(begin, channels, [x](int64_t i) { return static_cast<float>(x[i]) * static_cast<float>(x[i]); }, norms);
    for (int64_t k = 0; k < kLrnBlock; ++k) norms[k] = bias + alpha * norms[k];
    if (beta == 0.5f) {
      for (int64_t k = 0; k < kLrnBlock; ++k) powers[k] = 1.0f / std::sqrt(norms[k]);
    } else if (beta == 1.0f) {
      for (int64_t k = 0; k < kLrnBlock; ++k) powers[k] = 1.0f / norms[k];
    } else {
      for (int64_t k = 0; k < kLrnBlock; ++k) powers[k] = math::Exp(-beta * math::Log(norms[k]));
    }
  }

  // function(first element of the pixel, channels, poll).
  template <class Function>
  void ForEachPixel(sdk::RunContext c, const tenon_tensor_view& image, Function&& function) const {
    const sdk::Dims dims = sdk::DimsOf(image);
    if (dims.size() != 4) sdk::Fail(TENON_INVALID_ARGUMENT, "images need 4 dims; the shape is ", dims);
    const int64_t channels = dims[3], total = sdk::Count(dims);
    if (total == 0) return;
    const double window = static_cast<double>(std::min(2 * radius + 1, channels));
    c.ParallelFor(total / channels, static_cast<double>(channels) * (1 + 0.05 * window),
                  [&](int64_t begin, int64_t end) {
                    sdk::CancelPoll poll(c);
                    for (int64_t pixel = begin; pixel < end; ++pixel) function(pixel * channels, channels, poll);
                  });
  }
  int64_t radius;
  float bias, alpha, beta;
};

struct LrnKernel : Lrn {
  using Lrn::Lrn;
  void Run(sdk::RunContext c) const {
    LrnTypes::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      ForEachPixel(c, c.input_view(0), [&](int64_t at, int64_t channels, sdk::CancelPoll& poll) {
        const T* x = c.input<T>(0) + at;
        T* out = c.output<T>(0) + at;
        for (int64_t begin = 0; begin < channels; begin += kLrnBlock) {
          poll(BlockCost(channels));
          float norms[kLrnBlock], powers[kLrnBlock];
          Norms(x, begin, channels, norms, powers);
          const int64_t n = std::min(kLrnBlock, channels - begin);
          for (int64_t k = 0; k < n; ++k) out[begin + k] = static_cast<T>(static_cast<float>(x[begin + k]) * powers[k]);
        }
      });
    });
  }
};

// (input_grads, input_image, output_image). Channel i changes its own output, and the norm of every channel k in whose
// window it is: dx[i] = dy[i] power[i] + x[i] * the sum of slopes[k], where slopes[k] = -2 alpha beta y[k] dy[k] /
// norm[k].
struct LrnGradKernel : Lrn {
  using Lrn::Lrn;
  struct Plan {
    Plan(const LrnGradKernel&, sdk::PrepareContext& c) {
      const sdk::Dims dims = sdk::DimsOf(c.output(0));
      for (int32_t i = 0; i < 3; ++i) {
        if (!std::ranges::equal(sdk::DimsOf(c.input(i)), dims)) {
          sdk::Fail(TENON_INVALID_ARGUMENT, "input ", i, " has the shape ", sdk::DimsOf(c.input(i)), ", the output ",
                    dims);
        }
      }
      if (dims.size() != 4) sdk::Fail(TENON_INVALID_ARGUMENT, "images need 4 dims; the shape is ", dims);
      if ((total = sdk::Count(dims)) == 0) return;
      channels = dims[3];
      tasks = std::max<int64_t>(1, std::min(2 * c.threads(), total / channels));
      slopes = c.Workspace(sdk::Multiply(sdk::Multiply(tasks, Padded(channels)), sizeof(float)));
    }
    int64_t total = 0, channels = 0, tasks = 1, slopes = 0;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    if (plan.total == 0) return;
    LrnTypes::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      const int64_t pixels = plan.total / plan.channels;
      c.ParallelFor(plan.tasks, 3.0 * static_cast<double>(plan.total / plan.tasks), [&](int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end; ++task) {
          float* slopes = c.workspace<float>(plan.slopes) + task * Padded(plan.channels);
          sdk::CancelPoll poll(c);
          for (int64_t i = pixels * task / plan.tasks; i < pixels * (task + 1) / plan.tasks; ++i)
            Pixel<T>(c, poll, i * plan.channels, plan.channels, slopes);
        }
      });
    });
  }

 private:
  static int64_t Padded(int64_t channels) { return sdk::Multiply((channels + kLrnBlock - 1) / kLrnBlock, kLrnBlock); }

  template <class T>
  void Pixel(sdk::RunContext c, sdk::CancelPoll& poll, int64_t at, int64_t channels, float* slopes) const {
    const T* dy = c.input<T>(0) + at;
    const T* x = c.input<T>(1) + at;
    const T* y = c.input<T>(2) + at;
    T* out = c.output<T>(0) + at;
    float norms[kLrnBlock], powers[kLrnBlock], sums[kLrnBlock];
    for (int64_t begin = 0; begin < channels; begin += kLrnBlock) {
      poll(BlockCost(channels));
      const int64_t n = std::min(kLrnBlock, channels - begin);
      Norms(x, begin, channels, norms, powers);
      for (int64_t k = 0; k < n; ++k)
        slopes[begin + k] =
            -2 * alpha * beta * static_cast<float>(y[begin + k]) / norms[k] * static_cast<float>(dy[begin + k]);
    }
    for (int64_t begin = 0; begin < channels; begin += kLrnBlock) {
      poll(2 * BlockCost(channels));
      const int64_t n = std::min(kLrnBlock, channels - begin);
      Norms(x, begin, channels, norms, powers);
      SumWindows(begin, channels, [slopes](int64_t i) { return slopes[i]; }, sums);
      for (int64_t k = 0; k < n; ++k)
        out[begin + k] =
            static_cast<T>(static_cast<float>(dy[begin + k]) * powers[k] + static_cast<float>(x[begin + k]) * sums[k]);
    }
  }
};

constexpr sdk::Traits kLrnTraits = {.constraints = sdk::Constraints<LrnTypes::Constraint<"T">>::list};

}  // namespace

TENON_CPU_KERNEL(LRN) = CpuKernel<LrnKernel>("LRN", kLrnTraits);
TENON_CPU_KERNEL(LRNGrad) = CpuKernel<LrnGradKernel>("LRNGrad", kLrnTraits);

}  // namespace tenon::cpu
