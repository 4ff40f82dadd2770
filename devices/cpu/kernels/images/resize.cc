// SPDX-License-Identifier: Apache-2.0
// ResizeBilinear, ResizeNearestNeighbor and their gradients, NHWC. Where a pixel comes from is computed in float, as
// TensorFlow does.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/common/types.h"
#include "tenon/extras/kernel/update.h"

namespace tenon::cpu {
namespace {

struct Sampling {
  explicit Sampling(sdk::CreateContext& c)
      : align_corners(c.Bool("align_corners")), half_pixel_centers(c.Bool("half_pixel_centers")) {
    if (align_corners && half_pixel_centers) c.Invalid("If half_pixel_centers is True, align_corners must be False.");
  }
  // Source pixels a target pixel.
  float Scale(int64_t source, int64_t target) const {
    return align_corners && target > 1 ? static_cast<float>(source - 1) / static_cast<float>(target - 1)
                                       : static_cast<float>(source) / static_cast<float>(target);
  }
  bool align_corners, half_pixel_centers;
};

// For each target pixel the two source pixels around it, and how near the second is.
struct Between {
  int64_t low, high;
  float weight;
};
std::vector<Between> Positions(const Sampling& s, int64_t source, int64_t target) {
  const float scale = s.Scale(source, target);
  std::vector<Between> out;
  for (int64_t i = 0; i < target; ++i) {
    const float at =
        s.half_pixel_centers ? (static_cast<float>(i) + 0.5f) * scale - 0.5f : static_cast<float>(i) * scale;
    const float floor = std::floor(at);
    // Where rounding puts a pixel behind the last one, it is the last one.
    out.push_back({std::clamp<int64_t>(static_cast<int64_t>(floor), 0, source - 1),
                   std::min(source - 1, static_cast<int64_t>(std::ceil(at))), at - floor});
  }
  return out;
}
std::vector<int64_t> Nearest(const Sampling& s, int64_t source, int64_t target) {
  const float scale = s.Scale(source, target);
  std::vector<int64_t> out;
  for (int64_t i = 0; i < target; ++i) {
    const float at = s.half_pixel_centers ? (static_cast<float>(i) + 0.5f) * scale : static_cast<float>(i) * scale;
    const auto pixel = static_cast<int64_t>(s.align_corners ? std::round(at) : std::floor(at));
    out.push_back(std::clamp<int64_t>(pixel, 0, source - 1));
  }
  return out;
}

// Batch, height, width and channels of what is read and of what is written.
struct Sizes {
  Sizes(const View& from, const View& to, bool needs_channels, bool needs_pixels) {
    const sdk::Dims a = sdk::DimsOf(from), b = sdk::DimsOf(to);
    if (a.size() != 4 || b.size() != 4 || a[0] != b[0] || a[3] != b[3])
      sdk::Fail(TENON_INVALID_ARGUMENT, "images of shape ", a, " cannot become ", b);
    if (needs_channels && a[3] <= 0)
      sdk::Fail(TENON_INVALID_ARGUMENT, "image must have at least one channel; it has the shape ", a);
    if (needs_pixels && (a[1] <= 0 || a[2] <= 0))
      sdk::Fail(TENON_INVALID_ARGUMENT, "input image must be of non-zero size; it has the shape ", a);
    if (b[1] <= 0 || b[2] <= 0) sdk::Fail(TENON_INVALID_ARGUMENT, "output dimensions must be positive; they are ", b);
    batch = a[0], channels = a[3], from_height = a[1], from_width = a[2], to_height = b[1], to_width = b[2];
  }
  // Nothing is read: no images, or none with pixels or channels.
  bool empty() const { return batch == 0 || channels == 0 || from_height == 0 || from_width == 0; }
  int64_t From(int64_t n, int64_t y, int64_t x) const { return ((n * from_height + y) * from_width + x) * channels; }
  int64_t To(int64_t n, int64_t y, int64_t x) const { return ((n * to_height + y) * to_width + x) * channels; }
  int64_t batch, channels, from_height, from_width, to_height, to_width;
};

// Where the pixels of the resized images lie in the original ones: of a gradient the resized ones are what is read, and
// there may be nothing of them as far as TensorFlow takes it.
template <auto kPositions, bool kGradient, bool kNeedsPixels>
struct ResizeKernel : Sampling {
  using Sampling::Sampling;
  struct Plan {
    Plan(const ResizeKernel& kernel, sdk::PrepareContext& c)
        : s(c.input(0), c.output(0), !kGradient, kNeedsPixels),
          rows(Along(kernel, s.from_height, s.to_height)),
          columns(Along(kernel, s.from_width, s.to_width)) {}
    auto Along(const Sampling& sampling, int64_t from, int64_t to) const {
      if (s.empty()) return decltype(kPositions(sampling, from, to))();  // however large the images would be
      return kGradient ? kPositions(sampling, to, from) : kPositions(sampling, from, to);
    }
    Sizes s;
    decltype(kPositions(std::declval<Sampling>(), 0, 0)) rows, columns;
  };
};

struct BilinearKernel : ResizeKernel<Positions, false, true> {
  using ResizeKernel::ResizeKernel;
  void Run(const Plan& plan, sdk::RunContext c) const {
    const Sizes& s = plan.s;
    const auto& rows = plan.rows;
    const auto& columns = plan.columns;
    Pictures::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      c.ParallelFor(
          s.batch * s.to_height, 2.0 * static_cast<double>(s.to_width * s.channels), [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i)
              Row<T>(c, s, i / s.to_height, i % s.to_height, rows[static_cast<size_t>(i % s.to_height)], columns);
          });
    });
  }

 private:
  template <class T>
  static void Row(sdk::RunContext c, const Sizes& s, int64_t n, int64_t y, const Between& row,
                  const std::vector<Between>& columns) {
    const T* x = c.input<T>(0);
    float* out = c.output<float>(0) + s.To(n, y, 0);
    for (const Between& column : columns) {
      const T* top_left = x + s.From(n, row.low, column.low);
      const T* top_right = x + s.From(n, row.low, column.high);
      const T* bottom_left = x + s.From(n, row.high, column.low);
      const T* bottom_right = x + s.From(n, row.high, column.high);
#pragma GCC ivdep
      for (int64_t k = 0; k < s.channels; ++k) {
        const float a = static_cast<float>(top_left[k]), b = static_cast<float>(top_right[k]);
        const float d = static_cast<float>(bottom_left[k]), e = static_cast<float>(bottom_right[k]);
        const float top = a + (b - a) * column.weight, bottom = d + (e - d) * column.weight;
        out[k] = top + (bottom - top) * row.weight;
      }
      out += s.channels;
    }
  }
};

template <class T>
void AddTo(T& sum, T value) {
  sum = sdk::AddOrSubtract<false>(sum, value);
}

// Images are shared among threads: what is added to one pixel is added in order.
struct BilinearGradKernel : ResizeKernel<Positions, true, true> {
  using ResizeKernel::ResizeKernel;
  void Run(const Plan& plan, sdk::RunContext c) const {
    const Sizes& s = plan.s;
    const auto& rows = plan.rows;
    const auto& columns = plan.columns;
    Reals::Dispatch(c.output_view(0).dtype, [&]<class T>(Tag<T>) {
      T* out = c.output<T>(0);
      std::fill_n(out, sdk::Count(c.output_view(0)), T(0.0f));
      if (s.empty()) return;  // of however many images
      c.ParallelFor(s.batch, 8.0 * static_cast<double>(s.from_height * s.from_width * s.channels),
                    [&](int64_t begin, int64_t end) {
                      sdk::CancelPoll poll(c);
                      for (int64_t n = begin; n < end; ++n) {
                        const float* dy = c.input<float>(0) + s.From(n, 0, 0);
                        for (const Between& row : rows) {
                          poll(8 * s.from_width * s.channels);
                          for (const Between& column : columns) {
                            const float up = 1 - row.weight, left = 1 - column.weight;
                            const auto add = [&](int64_t y, int64_t x, float down, float right) {
                              T* to = out + s.To(n, y, x);
#pragma GCC ivdep
                              for (int64_t k = 0; k < s.channels; ++k) AddTo(to[k], T(dy[k] * down * right));
                            };
                            add(row.low, column.low, up, left);
                            add(row.low, column.high, up, column.weight);
                            add(row.high, column.low, row.weight, left);
                            add(row.high, column.high, row.weight, column.weight);
                            dy += s.channels;
                          }
                        }
                      }
                    });
    });
  }
};

struct NearestKernel : ResizeKernel<Nearest, false, true> {
  using ResizeKernel::ResizeKernel;
  void Run(const Plan& plan, sdk::RunContext c) const {
    const Sizes& s = plan.s;
    const auto& rows = plan.rows;
    const auto& columns = plan.columns;
    DispatchSize(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      c.ParallelFor(
          s.batch * s.to_height, 0.5 * static_cast<double>(s.to_width * s.channels), [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
              T* out = c.output<T>(0) + i * s.to_width * s.channels;
              const T* row = c.input<T>(0) + s.From(i / s.to_height, rows[static_cast<size_t>(i % s.to_height)], 0);
              for (int64_t x : columns) out = std::copy_n(row + x * s.channels, s.channels, out);
            }
          });
    });
  }
};

struct NearestGradKernel : ResizeKernel<Nearest, true, false> {
  using ResizeKernel::ResizeKernel;
  void Run(const Plan& plan, sdk::RunContext c) const {
    const Sizes& s = plan.s;
    const auto& rows = plan.rows;
    const auto& columns = plan.columns;
    Pictures::Dispatch(c.output_view(0).dtype, [&]<class T>(Tag<T>) {
      T* out = c.output<T>(0);
      std::fill_n(out, sdk::Count(c.output_view(0)), T(0));
      if (s.empty()) return;  // of however many images
      c.ParallelFor(s.batch, 2.0 * static_cast<double>(s.from_height * s.from_width * s.channels),
                    [&](int64_t begin, int64_t end) {
                      sdk::CancelPoll poll(c);
                      for (int64_t n = begin; n < end; ++n) {
                        const T* dy = c.input<T>(0) + s.From(n, 0, 0);
                        for (int64_t y : rows) {
                          poll(2 * s.from_width * s.channels);
                          for (int64_t x : columns) {
                            T* pixel = out + s.To(n, y, x);
                            for (int64_t k = 0; k < s.channels; ++k) AddTo(pixel[k], *dy++);
                          }
                        }
                      }
                    });
    });
  }
};

constexpr sdk::Traits kPictures = {.constraints = sdk::Constraints<Pictures::Constraint<"T">>::list};
constexpr sdk::Traits kReals = {.constraints = sdk::Constraints<Reals::Constraint<"T">>::list};

}  // namespace

TENON_CPU_KERNEL(ResizeBilinear) = CpuKernel<BilinearKernel>("ResizeBilinear", kPictures);
TENON_CPU_KERNEL(ResizeBilinearGrad) = CpuKernel<BilinearGradKernel>("ResizeBilinearGrad", kReals);
TENON_CPU_KERNEL(ResizeNearestNeighbor) = CpuKernel<NearestKernel>("ResizeNearestNeighbor", kPictures);
TENON_CPU_KERNEL(ResizeNearestNeighborGrad) = CpuKernel<NearestGradKernel>("ResizeNearestNeighborGrad", kPictures);

}  // namespace tenon::cpu
