// SPDX-License-Identifier: Apache-2.0
// ExtractGlimpse and ExtractGlimpseV2, NHWC.
#include <algorithm>
#include <cmath>
#include <string_view>

#include "kernels/common/types.h"
#include "tenon/extras/kernel/random.h"

namespace tenon::cpu {
namespace {

// What stands outside of an image: numbers as the images have them.
class Noise {
 public:
  enum class Kind { kUniform, kGaussian, kZero };
  Noise(Kind kind, const sdk::Philox& generator, const float* x, int64_t count, int64_t first)
      : kind_(kind), generator_(generator) {
    generator_.Skip(static_cast<uint64_t>(first));
    if (kind == Kind::kZero || count == 0) return;
    const auto [least, most] = std::minmax_element(x, x + count);
    least_ = *least;
    most_ = *most;
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < count; ++i)
      sum += static_cast<double>(x[i]), squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    mean_ = static_cast<float>(sum / static_cast<double>(count));
    deviation_ = static_cast<float>(std::sqrt(
        std::max(0.0, squares / static_cast<double>(count) - static_cast<double>(mean_) * static_cast<double>(mean_))));
  }
  void Fill(float* out, int64_t count) {
    for (int64_t i = 0; i < count; i += 4) {
      float four[4] = {0, 0, 0, 0};
      if (kind_ == Kind::kUniform) sdk::Uniform()(generator_.Next(), four);
      if (kind_ == Kind::kGaussian) sdk::Normal()(generator_.Next(), four);
      for (int64_t k = 0; k < std::min<int64_t>(4, count - i); ++k) out[i + k] = Scaled(four[k]);
    }
  }

 private:
  float Scaled(float x) const {
    if (kind_ == Kind::kZero) return 0;
    return kind_ == Kind::kUniform ? least_ + (most_ - least_) * x
                                   : std::min(std::max(mean_ + deviation_ * x, least_), most_);
  }
  const Kind kind_;
  sdk::Philox generator_;
  float least_ = 0, most_ = 0, mean_ = 0, deviation_ = 0;
};

template <bool kV2>
struct GlimpseKernel {
  explicit GlimpseKernel(sdk::CreateContext& c)
      : stream(c), centered(c.Bool("centered")), normalized(c.Bool("normalized")) {
    const std::string_view noise = c.String("noise");
    const bool uniform = c.Bool("uniform_noise");
    if (uniform && !noise.empty() && noise != "uniform")
      c.Invalid("The uniform_noise and noise could not be specified at the same time");
    if (!uniform && noise != "uniform" && noise != "gaussian" && noise != "zero" && !noise.empty())
      c.Invalid("The noise could only be uniform, gaussian, or zero; it is ", noise);
    kind = uniform || noise == "uniform" ? Noise::Kind::kUniform
           : noise == "gaussian"         ? Noise::Kind::kGaussian
                                         : Noise::Kind::kZero;
  }
  void Run(sdk::RunContext c) const {
    const sdk::Dims in = sdk::DimsOf(c.input_view(0)), out = sdk::DimsOf(c.output_view(0));
    const int64_t image = sdk::Multiply(in[1] * in[2], in[3]), glimpse = out[1] * out[2] * out[3];
    const sdk::Philox generator = stream.Reserve(sdk::Count(out) / sdk::kReservedPerOutput + 1);
    c.ParallelFor(in[0], static_cast<double>(glimpse + (kind == Noise::Kind::kZero ? 0 : 3 * image)),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t n = begin; n < end; ++n) {
                      Noise noise(kind, generator, c.input<float>(0) + n * image, image, n * glimpse);
                      const float* offset = c.input<float>(2) + 2 * n;
                      Copy(in, out, First(offset[0], in[1], out[1]), First(offset[1], in[2], out[2]),
                           c.input<float>(0) + n * image, noise, c.output<float>(0) + n * glimpse);
                    }
                  });
  }

 private:
  // The first pixel along an axis; far outside where the offset is no number.
  int64_t First(float offset, int64_t size, int64_t window) const {
    const auto all = static_cast<float>(size);
    float at = normalized ? offset * all : offset;
    const bool middle = !kV2 || (centered && normalized);  // the offset is that of the window's middle
    if (centered) at = (middle ? at / 2 : at) + all / 2;
    if (middle) at -= static_cast<float>(window) / 2;
    return std::abs(at) < 0x1p40f ? static_cast<int64_t>(at) : int64_t{1} << 40;
  }
  static void Copy(sdk::Dims in, sdk::Dims out, int64_t top, int64_t left, const float* image, Noise& noise,
                   float* to) {
    const int64_t channels = out[3], begin = std::clamp<int64_t>(-left, 0, out[2]),
                  end = std::clamp<int64_t>(in[2] - left, begin, out[2]);
    for (int64_t y = 0; y < out[1]; ++y, to += out[2] * channels) {
      if (top + y < 0 || top + y >= in[1]) {
        noise.Fill(to, out[2] * channels);
        continue;
      }
      noise.Fill(to, begin * channels);
      if (end > begin)
        std::copy_n(image + ((top + y) * in[2] + left + begin) * channels, (end - begin) * channels,
                    to + begin * channels);
      noise.Fill(to + end * channels, (out[2] - end) * channels);
    }
  }

  const sdk::Stream stream;
  const bool centered, normalized;
  Noise::Kind kind = Noise::Kind::kZero;
};

constexpr sdk::Traits kDrawsNoise = {.flags = TENON_KERNEL_STATEFUL};

}  // namespace

TENON_CPU_KERNEL(ExtractGlimpse) = CpuKernel<GlimpseKernel<false>>("ExtractGlimpse", kDrawsNoise);
TENON_CPU_KERNEL(ExtractGlimpseV2) = CpuKernel<GlimpseKernel<true>>("ExtractGlimpseV2", kDrawsNoise);

}  // namespace tenon::cpu
