// SPDX-License-Identifier: Apache-2.0
// ScaleAndTranslate and its gradient, NHWC: each axis has its spans of pixels and their weights.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>

#include "kernels/common/types.h"
#include "tenon/sdk/kernel/kept_tensor.h"

namespace tenon::cpu {
namespace {

// A curve over the distance x >= 0 from a pixel, in pixels; 0 beyond its radius.
struct ScaleCurve {
  std::string_view name;
  float radius;
  float (*at)(float x, float radius);
};
float Lanczos(float x, float radius) {
  constexpr auto kPi = static_cast<float>(M_PI);
  if (x > radius) return 0;
  if (x <= 1e-3f) return 1;
  return radius * std::sin(kPi * x) * std::sin(kPi * x / radius) / (kPi * kPi * x * x);
}
constexpr ScaleCurve kCurves[] = {
    {"lanczos1", 1, &Lanczos},
    {"lanczos3", 3, &Lanczos},
    {"lanczos5", 5, &Lanczos},
    {"gaussian", 1.5f,
     [](float x, float radius) { return x >= radius ? 0.0f : std::exp(-x * x / (2 * (radius / 3) * (radius / 3))); }},
    {"box", 1, [](float x, float) { return x < 0.5f    ? 1.0f
                                           : x == 0.5f ? 0.5f
                                                       : 0.0f; }},
    {"triangle", 1, [](float x, float) { return x < 1 ? 1 - x : 0.0f; }},
    {"keyscubic", 2,
     [](float x, float) {
       return x >= 2 ? 0.0f : x >= 1 ? ((-0.5f * x + 2.5f) * x - 4) * x + 2 : ((1.5f * x - 2.5f) * x) * x + 1;
     }},
    {"mitchellcubic", 2,
     [](float x, float) {
       return x >= 2   ? 0.0f
              : x >= 1 ? (((-7.0f / 18) * x + 2) * x - 10.0f / 3) * x + 16.0f / 9
                       : (((7.0f / 6) * x - 2) * x) * x + 8.0f / 9;
     }},
};

// The pixels of an axis that each of the result is made of. Their number may be large: it counts against the session.
class Spans {
 public:
  Spans(const sdk::RunContext& c, const ScaleCurve& curve, bool antialias, int64_t from, int64_t to, float scale,
        float translation)
      : inverse_(1.0f / scale),
        widening_(antialias ? std::max(inverse_, 1.0f) : 1.0f),
        most_(MostOf(curve.radius * widening_, from)),
        starts_(New(c, TENON_DT_INT64, 2 * to)),
        weights_(New(c, TENON_DT_FLOAT, sdk::Multiply(to, most_))),
        start_(sdk::Data<int64_t>(starts_.view())),
        weight_(sdk::Data<float>(weights_.view())) {
    const float moved = -inverse_ * translation;
    sdk::CancelPoll poll(c);
    for (int64_t i = 0; i < to; ++i) {
      poll(20 * most_);
      Fill(curve, from, i, (static_cast<float>(i) + 0.5f) * inverse_ + moved);
    }
  }
  int64_t begin(int64_t i) const { return start_[2 * i]; }
  int64_t size(int64_t i) const { return start_[2 * i + 1]; }
  const float* weights(int64_t i) const { return weight_ + i * most_; }
  int64_t most() const { return most_; }

 private:
  static sdk::KeptTensor New(const sdk::RunContext& c, uint32_t dtype, int64_t count) {
    return sdk::NewTensor(c, dtype, {&count, 1});
  }
  static int64_t MostOf(float reach, int64_t from) {
    const float both = 2 * std::ceil(reach) + 1;
    return both < static_cast<float>(from) ? static_cast<int64_t>(both) : from;
  }
  void Fill(const ScaleCurve& curve, int64_t from, int64_t i, float at) {
    int64_t* start = start_ + 2 * i;
    float* weights = weight_ + i * most_;
    start[0] = start[1] = 0;
    if (!(at >= 0 && at <= static_cast<float>(from))) return;  // outside of the image
    const float reach = curve.radius * widening_, last = static_cast<float>(from - 1);
    const auto first = static_cast<int64_t>(std::clamp(std::ceil(at - reach - 0.5f), 0.0f, last));
    const auto end =
        std::min(static_cast<int64_t>(std::clamp(std::floor(at + reach - 0.5f), 0.0f, last)) + 1, first + most_);
    float sum = 0;
    for (int64_t k = first; k < end; ++k)
      sum += weights[k - first] = curve.at(std::abs((static_cast<float>(k) + 0.5f - at) / widening_), curve.radius);
    start[0] = first;
    start[1] = std::max<int64_t>(end - first, 0);
    if (std::abs(sum) < 1000 * std::numeric_limits<float>::min()) return;
    for (int64_t k = 0; k < start[1]; ++k) weights[k] *= 1.0f / sum;
  }

  const float inverse_, widening_;
  const int64_t most_;
  const sdk::KeptTensor starts_, weights_;
  int64_t* const start_;
  float* const weight_;
};

struct ScaleSizes {
  ScaleSizes(sdk::Dims image, sdk::Dims resized) {
    if (image[3] <= 0)
      sdk::Fail(TENON_INVALID_ARGUMENT, "image must have at least one channel; it has the shape ", image);
    if (image[1] <= 0 || image[2] <= 0)
      sdk::Fail(TENON_INVALID_ARGUMENT, "input image must be of non-zero size; it has the shape ", image);
    if (resized[1] <= 0 || resized[2] <= 0)
      sdk::Fail(TENON_INVALID_ARGUMENT, "output dimensions must be positive; they are ", resized);
    batch = image[0], height = image[1], width = image[2], channels = image[3], to_height = resized[1],
    to_width = resized[2];
  }
  int64_t batch, height, width, channels, to_height, to_width;
};

struct Resampling {
  explicit Resampling(sdk::CreateContext& c) : antialias(c.Bool("antialias")) {
    const std::string_view name = c.String("kernel_type");
    const auto* const found =
        std::find_if(std::begin(kCurves), std::end(kCurves), [&](const ScaleCurve& each) { return each.name == name; });
    if (found == std::end(kCurves)) c.Invalid("Unrecognized kernel type: ", name,
        "; known are lanczos1, lanczos3, lanczos5, gaussian, box, triangle, keyscubic and mitchellcubic");
    if (found != std::end(kCurves)) curve = found;
  }
  static void CheckScale(const sdk::RunContext& c) {
    const float* scale = c.input<float>(2);
    if (!(scale[0] > 0 && scale[1] > 0))
      sdk::Fail(TENON_INVALID_ARGUMENT, "Scale must be greater than zero; it is ", std::to_string(scale[0]), " and ",
                std::to_string(scale[1]));
  }
  // axis 0: rows.
  Spans Along(const sdk::RunContext& c, int32_t scale, int axis, int64_t from, int64_t to) const {
    return Spans(c, *curve, antialias, from, to, c.input<float>(scale)[axis], c.input<float>(scale + 1)[axis]);
  }
  const bool antialias;
  const ScaleCurve* curve = kCurves;
};

struct ScaleKernel : Resampling {
  using Resampling::Resampling;
  void Run(sdk::RunContext c) const {
    CheckScale(c);
    const ScaleSizes s(sdk::DimsOf(c.input_view(0)), sdk::DimsOf(c.output_view(0)));
    const Spans rows = Along(c, 2, 0, s.height, s.to_height), columns = Along(c, 2, 1, s.width, s.to_width);
    // A row is made of rows first, and then of itself.
    const int64_t total = s.batch * s.to_height, line = sdk::Multiply(s.width, s.channels),
                  shares = std::clamp<int64_t>(total, 1, 16), share = (total + shares - 1) / shares;
    const int64_t lines = sdk::Multiply(shares, line);
    const sdk::KeptTensor memory = sdk::NewTensor(c, TENON_DT_FLOAT, {&lines, 1});
    const double cost =
        static_cast<double>(rows.most() * s.width + columns.most() * s.to_width) * static_cast<double>(s.channels);
    Pictures::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      c.ParallelFor(shares, cost * static_cast<double>(share), [&](int64_t begin, int64_t end) {
        sdk::CancelPoll poll(c);
        for (int64_t k = begin; k < end; ++k) {
          for (int64_t i = k * share; i < std::min(total, (k + 1) * share); ++i) {
            poll(static_cast<int64_t>(cost) + 1);
            Row(s, rows, columns, i % s.to_height, c.input<T>(0) + (i / s.to_height) * s.height * line,
                sdk::Data<float>(memory.view()) + k * line, c.output<float>(0) + i * s.to_width * s.channels);
          }
        }
      });
    });
  }

 private:
  template <class T>
  static void Row(const ScaleSizes& s, const Spans& rows, const Spans& columns, int64_t y, const T* image, float* line,
                  float* out) {
    const int64_t elements = s.width * s.channels;
    std::fill_n(line, elements, 0.0f);
    for (int64_t k = 0; k < rows.size(y); ++k) {
      const T* from = image + (rows.begin(y) + k) * elements;
      const float weight = rows.weights(y)[k];
#pragma GCC ivdep
      for (int64_t i = 0; i < elements; ++i) line[i] += static_cast<float>(from[i]) * weight;
    }
    s.channels == 3   ? Across<3>(s, columns, line, out)
    : s.channels == 1 ? Across<1>(s, columns, line, out)
                      : Across<0>(s, columns, line, out);
  }
  // kChannels: of the images; 0: any number.
  template <int64_t kChannels>
  static void Across(const ScaleSizes& s, const Spans& columns, const float* line, float* out) {
    const int64_t channels = kChannels != 0 ? kChannels : s.channels;
    for (int64_t x = 0; x < s.to_width; ++x, out += channels) {
      float few[kChannels != 0 ? kChannels : 1] = {};
      float* sum = kChannels != 0 ? few : out;
      std::fill_n(sum, channels, 0.0f);
      const float *from = line + columns.begin(x) * channels, *weights = columns.weights(x);
      for (int64_t k = 0, count = columns.size(x); k < count; ++k, from += channels) {
        for (int64_t i = 0; i < channels; ++i) sum[i] += from[i] * weights[k];
      }
      if (kChannels != 0) std::copy_n(sum, channels, out);
    }
  }
};

// Images are shared among threads: what is added to one pixel is added in order.
struct ScaleGradKernel : Resampling {
  using Resampling::Resampling;
  void Run(sdk::RunContext c) const {
    CheckScale(c);
    const int64_t pixels = sdk::Count(c.output_view(0));
    if (pixels == 0 || sdk::Count(c.input_view(0)) == 0) {
      std::fill_n(c.output<float>(0), pixels, 0.0f);
      return;
    }
    const ScaleSizes s(sdk::DimsOf(c.input_view(1)), sdk::DimsOf(c.input_view(0)));
    const Spans rows = Along(c, 2, 0, s.height, s.to_height), columns = Along(c, 2, 1, s.width, s.to_width);
    // Pixels go up to their rows first, and then along them: of each image the rows between are as long as the resized
    // ones.
    const int64_t line = sdk::Multiply(s.to_width, s.channels),
                  between = sdk::Multiply(s.batch, sdk::Multiply(s.height, line));
    const sdk::KeptTensor memory = sdk::NewTensor(c, TENON_DT_FLOAT, {&between, 1});
    const double cost =
        static_cast<double>(s.to_height * rows.most() + s.height * columns.most()) * static_cast<double>(line) * 0.2;
    c.ParallelFor(s.batch, cost, [&](int64_t begin, int64_t end) {
      sdk::CancelPoll poll(c);
      for (int64_t n = begin; n < end; ++n) {
        float* lines = sdk::Data<float>(memory.view()) + n * s.height * line;
        Up(s, rows, line, c.input<float>(0) + n * s.to_height * line, poll, lines);
        Along(s, columns, line, lines, poll, c.output<float>(0) + n * s.height * s.width * s.channels);
      }
    });
  }

 private:
  using Resampling::Along;
  static void Up(const ScaleSizes& s, const Spans& rows, int64_t line, const float* dy, sdk::CancelPoll& poll,
                 float* out) {
    std::fill_n(out, s.height * line, 0.0f);
    for (int64_t y = 0; y < s.to_height; ++y, dy += line) {
      for (int64_t i = 0; i < rows.size(y); poll(line / 4 + 1), ++i) {
        const float weight = rows.weights(y)[i];
        float* to = out + (rows.begin(y) + i) * line;
#pragma GCC ivdep
        for (int64_t k = 0; k < line; ++k) to[k] += dy[k] * weight;
      }
    }
  }
  static void Along(const ScaleSizes& s, const Spans& columns, int64_t line, const float* from, sdk::CancelPoll& poll,
                    float* out) {
    std::fill_n(out, s.height * s.width * s.channels, 0.0f);
    for (int64_t y = 0; y < s.height; poll(columns.most() * line / 4 + 1), ++y, out += s.width * s.channels) {
      for (int64_t x = 0; x < s.to_width; ++x, from += s.channels) {
        for (int64_t j = 0; j < columns.size(x); ++j) {
          const float weight = columns.weights(x)[j];
          float* to = out + (columns.begin(x) + j) * s.channels;
#pragma GCC ivdep
          for (int64_t k = 0; k < s.channels; ++k) to[k] += from[k] * weight;
        }
      }
    }
  }
};

}  // namespace

TENON_CPU_KERNEL(ScaleAndTranslate) =
    CpuKernel<ScaleKernel>("ScaleAndTranslate", {.constraints = sdk::Constraints<Pictures::Constraint<"T">>::list});
TENON_CPU_KERNEL(ScaleAndTranslateGrad) = CpuKernel<ScaleGradKernel>("ScaleAndTranslateGrad",
    {.constraints = sdk::Constraints<Types<float>::Constraint<"T">>::list});

}  // namespace tenon::cpu
