// SPDX-License-Identifier: Apache-2.0
// ResizeBicubic and its gradient, NHWC. Weights come from a table of 1024 steps between two pixels, as TensorFlow's do.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kernels/common/types.h"

namespace tenon::cpu {
namespace {

constexpr int kSteps = 1024;

// Keys' cubic convolution (1981) with the slope a: of a neighbour at x in [0, 1], and of one at 1 + x.
struct Curve {
  explicit Curve(double a) {
    for (int i = 0; i <= kSteps; ++i) {
      const auto x = static_cast<float>(i * 1.0 / kSteps);
      near[static_cast<size_t>(i)] = static_cast<float>(
          ((a + 2) * static_cast<double>(x) - (a + 3)) * static_cast<double>(x) * static_cast<double>(x) + 1);
      const double y = static_cast<double>(x) + 1.0;
      far[static_cast<size_t>(i)] = static_cast<float>(((a * y - 5 * a) * y + 8 * a) * y - 4 * a);
    }
  }
  std::array<float, kSteps + 1> near, far;
};

// The four pixels that one is made of, and their weights.
struct Four {
  std::array<int64_t, 4> at;
  std::array<float, 4> weight;
};

struct CubicSampling {
  explicit CubicSampling(sdk::CreateContext& c)
      : align_corners(c.Bool("align_corners")), half_pixel_centers(c.Bool("half_pixel_centers")) {
    if (align_corners && half_pixel_centers) c.Invalid("If half_pixel_centers is True, align_corners must be False.");
  }
  float Scale(int64_t source, int64_t target) const {
    return align_corners && target > 1 ? static_cast<float>(source - 1) / static_cast<float>(target - 1)
                                       : static_cast<float>(source) / static_cast<float>(target);
  }
  // What pixel i of a target is made of; scale: source pixels a target pixel.
  Four Position(float scale, int64_t source, int64_t i) const {
    static const Curve kKeys(-0.5), kSteep(-0.75);
    const float at = half_pixel_centers ? (static_cast<float>(i) + 0.5f) * scale - 0.5f : static_cast<float>(i) * scale;
    const auto pixel = static_cast<int64_t>(std::floor(at));
    const auto step = static_cast<size_t>(std::lrint((at - static_cast<float>(pixel)) * kSteps));
    return Around(half_pixel_centers ? kKeys : kSteep, pixel, step, source);
  }
  bool align_corners, half_pixel_centers;

 private:
  // Half pixels: what lies outside of the image has no weight; else it is the image's edge.
  Four Around(const Curve& curve, int64_t pixel, size_t step, int64_t source) const {
    Four four{{}, {curve.far[step], curve.near[step], curve.near[kSteps - step], curve.far[kSteps - step]}};
    float sum = 0;
    for (size_t k = 0; k < 4; ++k) {
      const int64_t at = pixel - 1 + static_cast<int64_t>(k);
      four.at[k] = std::clamp<int64_t>(at, 0, source - 1);
      if (half_pixel_centers && four.at[k] != at) four.weight[k] = 0;
      sum += four.weight[k];
    }
    if (half_pixel_centers && std::abs(sum) >= 1000 * std::numeric_limits<float>::min()) {
      for (float& weight : four.weight) weight *= 1.0f / sum;
    }
    return four;
  }
};

// Batch, heights, widths and channels of the images and of the resized ones.
struct CubicSizes {
  CubicSizes(const View& image, const View& resized, bool gradient) {
    const sdk::Dims a = sdk::DimsOf(image), b = sdk::DimsOf(resized);
    if (a.size() != 4 || b.size() != 4 || a[0] != b[0] || a[3] != b[3])
      sdk::Fail(TENON_INVALID_ARGUMENT, "images of shape ", a, " cannot become ", b);
    if (!gradient && a[3] <= 0)
      sdk::Fail(TENON_INVALID_ARGUMENT, "image must have at least one channel; it has the shape ", a);
    if (a[1] <= 0 || a[2] <= 0)
      sdk::Fail(TENON_INVALID_ARGUMENT, "input image must be of non-zero size; it has the shape ", a);
    if (b[1] <= 0 || b[2] <= 0) sdk::Fail(TENON_INVALID_ARGUMENT, "output dimensions must be positive; they are ", b);
    batch = a[0], height = a[1], width = a[2], channels = a[3], to_height = b[1], to_width = b[2];
  }
  bool empty() const { return batch == 0 || channels == 0; }
  int64_t batch, height, width, channels, to_height, to_width;
};

// Where columns are made of is looked up, row by row, in memory of the run, which counts against the session.
template <bool kGradient>
struct CubicPlan {
  CubicPlan(const CubicSampling& sampling, sdk::PrepareContext& c)
      : s(c.input(kGradient ? 1 : 0), kGradient ? c.input(0) : c.output(0), kGradient),
        down(sampling.Scale(s.height, s.to_height)),
        right(sampling.Scale(s.width, s.to_width)) {
    if (s.empty()) return;  // however large the images would be
    line = s.width * s.channels;
    columns_at = c.Workspace(sdk::Multiply(s.to_width, sizeof(Four)));
    if (kGradient) return;
    shares = std::min<int64_t>(c.threads() * 4, s.batch * s.to_height);
    lines_at = c.Workspace(sdk::Multiply(shares, sdk::Multiply(line, sizeof(float))));
  }
  const Four* Columns(const CubicSampling& sampling, const sdk::RunContext& c) const {
    Four* columns = c.workspace<Four>(columns_at);
    for (int64_t i = 0; i < s.to_width; ++i) columns[i] = sampling.Position(right, s.width, i);
    return columns;
  }
  CubicSizes s;
  float down, right;
  int64_t line = 0;    // elements of a row of an image
  int64_t shares = 1;  // that are made at once, each with a line of the workspace
  int64_t columns_at = 0, lines_at = 0;
};

// Four rows become one, and that a row of the result.
struct CubicKernel : CubicSampling {
  using CubicSampling::CubicSampling;
  using Plan = CubicPlan<false>;
  void Run(const Plan& plan, sdk::RunContext c) const {
    const CubicSizes& s = plan.s;
    if (s.empty()) return;
    const Four* columns = plan.Columns(*this, c);
    const int64_t total = s.batch * s.to_height, share = (total + plan.shares - 1) / plan.shares;
    const double cost =
        static_cast<double>(share) * static_cast<double>(s.width + 2 * s.to_width) * static_cast<double>(s.channels);
    Pictures::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      c.ParallelFor(plan.shares, cost, [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k) {
          sdk::CancelPoll poll(c);
          for (int64_t i = k * share; i < std::min(total, (k + 1) * share); ++i) {
            poll(static_cast<int64_t>(cost) / share + 1);
            Row<T>(plan, columns, c, i, c.workspace<float>(plan.lines_at) + k * plan.line);
          }
        }
      });
    });
  }

 private:
  template <class T>
  void Row(const Plan& plan, const Four* columns, const sdk::RunContext& c, int64_t i, float* line) const {
    const CubicSizes& s = plan.s;
    const Four row = Position(plan.down, s.height, i % s.to_height);
    const T* image = c.input<T>(0) + (i / s.to_height) * s.height * plan.line;
    const T* from[4];
    for (size_t k = 0; k < 4; ++k) from[k] = image + row.at[k] * plan.line;
    const float w0 = row.weight[0], w1 = row.weight[1], w2 = row.weight[2], w3 = row.weight[3];
#pragma GCC ivdep
    for (int64_t j = 0; j < plan.line; ++j)
      line[j] = static_cast<float>(from[0][j]) * w0 + static_cast<float>(from[1][j]) * w1 +
                static_cast<float>(from[2][j]) * w2 + static_cast<float>(from[3][j]) * w3;
    float* out = c.output<float>(0) + i * s.to_width * s.channels;
    s.channels == 3   ? Across<3>(s, columns, line, out)
    : s.channels == 1 ? Across<1>(s, columns, line, out)
                      : Across<0>(s, columns, line, out);
  }
  // kChannels: of the images; 0: any number.
  template <int64_t kChannels>
  static void Across(const CubicSizes& s, const Four* columns, const float* line, float* out) {
    const int64_t channels = kChannels != 0 ? kChannels : s.channels;
    for (int64_t x = 0; x < s.to_width; ++x) {
      const Four& column = columns[x];
      const float *a = line + column.at[0] * channels, *b = line + column.at[1] * channels,
                  *d = line + column.at[2] * channels, *e = line + column.at[3] * channels;
#pragma GCC ivdep
      for (int64_t k = 0; k < channels; ++k)
        out[k] = a[k] * column.weight[0] + b[k] * column.weight[1] + d[k] * column.weight[2] + e[k] * column.weight[3];
      out += channels;
    }
  }
};

// Images are shared among threads: what is added to one pixel is added in order.
struct CubicGradKernel : CubicSampling {
  using CubicSampling::CubicSampling;
  using Plan = CubicPlan<true>;
  void Run(const Plan& plan, sdk::RunContext c) const {
    const CubicSizes& s = plan.s;
    if (s.empty()) return;
    const Four* columns = plan.Columns(*this, c);
    Types<float, double>::Dispatch(c.output_view(0).dtype, [&]<class T>(Tag<T>) {
      c.ParallelFor(s.batch, 32.0 * static_cast<double>(s.to_height * s.to_width * s.channels),
                    [&](int64_t begin, int64_t end) {
                      for (int64_t n = begin; n < end; ++n)
                        Image(plan, columns, c, n, c.output<T>(0) + n * s.height * plan.line);
                    });
    });
  }

 private:
  template <class T>
  void Image(const Plan& plan, const Four* columns, const sdk::RunContext& c, int64_t n, T* out) const {
    const CubicSizes& s = plan.s;
    std::fill_n(out, s.height * plan.line, T(0));
    const float* dy = c.input<float>(0) + n * s.to_height * s.to_width * s.channels;
    sdk::CancelPoll poll(c);
    for (int64_t y = 0; y < s.to_height; ++y) {
      const Four row = Position(plan.down, s.height, y);
      poll(32 * s.to_width * s.channels);
      for (int64_t x = 0; x < s.to_width; ++x) {
        const Four& column = columns[x];
        for (size_t i = 0; i < 4; ++i) {
          for (size_t j = 0; j < 4; ++j) {
            T* to = out + row.at[i] * plan.line + column.at[j] * s.channels;
            for (int64_t k = 0; k < s.channels; ++k)
              to[k] += static_cast<T>(dy[k]) * static_cast<T>(row.weight[i]) * static_cast<T>(column.weight[j]);
          }
        }
        dy += s.channels;
      }
    }
  }
};

}  // namespace

TENON_CPU_KERNEL(ResizeBicubic) =
    CpuKernel<CubicKernel>("ResizeBicubic", {.constraints = sdk::Constraints<Pictures::Constraint<"T">>::list});
TENON_CPU_KERNEL(ResizeBicubicGrad) = CpuKernel<CubicGradKernel>("ResizeBicubicGrad",
    {.constraints = sdk::Constraints<Types<float, double>::Constraint<"T">>::list});

}  // namespace tenon::cpu
