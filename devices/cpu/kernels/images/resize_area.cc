// SPDX-License-Identifier: Apache-2.0
// ResizeArea, NHWC: the mean of the pixels that one covers, those at its edges in part.
#include <algorithm>
#include <cmath>

#include "kernels/common/types.h"

namespace tenon::cpu {
namespace {

// The pixels that pixel i of the result covers along an axis, scale of them, and the share of each. Those beyond the
// image are its last.
struct Covered {
  Covered(float pixels, int64_t i)
      : scale(pixels),
        from(static_cast<float>(i) * scale),
        to(static_cast<float>(i + 1) * scale),
        begin(static_cast<int64_t>(std::floor(from))),
        end(static_cast<int64_t>(std::ceil(to))) {}
  float Share(int64_t pixel) const {
    const auto low = static_cast<float>(pixel), high = static_cast<float>(pixel + 1);
    return low < from ? (high > to ? scale : high - from) : high > to ? to - low : 1.0f;
  }
  float scale, from, to;
  int64_t begin, end;
};

// A pixel of a row that one of the result covers.
struct Tap {
  int64_t at;  // its first element in the row
  float share;
};

struct AreaKernel {
  explicit AreaKernel(sdk::CreateContext& c) : align_corners(c.Bool("align_corners")) {}
  struct Plan {
    Plan(const AreaKernel& kernel, sdk::PrepareContext& c) {
      const sdk::Dims a = sdk::DimsOf(c.input(0)), b = sdk::DimsOf(c.output(0));
      if (a.size() != 4 || b.size() != 4)
        sdk::Fail(TENON_INVALID_ARGUMENT, "images of shape ", a, " cannot become ", b);
      if (a[3] <= 0) sdk::Fail(TENON_INVALID_ARGUMENT, "image must have at least one channel; it has the shape ", a);
      if (a[1] <= 0 || a[2] <= 0)
        sdk::Fail(TENON_INVALID_ARGUMENT, "input image must be of non-zero size; it has the shape ", a);
      batch = a[0], height = a[1], width = a[2], channels = a[3], to_height = b[1], to_width = b[2];
      if (batch == 0) return;
      down = kernel.Scale(height, to_height), right = kernel.Scale(width, to_width);
      line = sdk::Multiply(width, channels);
      most_taps = static_cast<int64_t>(right) + 3;  // where the sums in float are a little off, too
      taps = c.Workspace(sdk::Multiply(to_width, most_taps * static_cast<int64_t>(sizeof(Tap))));
      counts = c.Workspace(sdk::Multiply(to_width, sizeof(int64_t)));
      shares = std::min<int64_t>(c.threads() * 4, batch * to_height);
      lines = c.Workspace(sdk::Multiply(shares, sdk::Multiply(line, sizeof(float))));
    }
    int64_t batch, height, width, channels, to_height, to_width;
    float down = 1, right = 1;           // pixels that one covers
    int64_t line = 0;                    // elements of a row of an image
    int64_t most_taps = 0;               // of a pixel of the result
    int64_t taps = 0, counts = 0, lines = 0;  // where they are in the workspace
    int64_t shares = 1;                  // that are made at once, each with a line of the workspace
  };
  float Scale(int64_t source, int64_t target) const {
    return align_corners && source > 1 && target > 1 ? static_cast<float>(source - 1) / static_cast<float>(target - 1)
        : static_cast<float>(source) / static_cast<float>(target);
  }

  void Run(const Plan& plan, sdk::RunContext c) const {
    if (plan.batch == 0) return;
    const int64_t total = plan.batch * plan.to_height, share = (total + plan.shares - 1) / plan.shares;
    FindTaps(plan, c);
    const double cost =
        static_cast<double>(share) * static_cast<double>((plan.down + 2) * static_cast<float>(plan.line)) * 0.5;
    Pictures::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      c.ParallelFor(plan.shares, cost, [&](int64_t begin, int64_t end) {
        sdk::CancelPoll poll(c);
        for (int64_t k = begin; k < end; ++k) {
          float* line = c.workspace<float>(plan.lines) + k * plan.line;
          for (int64_t i = k * share; i < std::min(total, (k + 1) * share); ++i) {
            Down(plan, c.input<T>(0) + (i / plan.to_height) * plan.height * plan.line,
                 Covered(plan.down, i % plan.to_height), poll, line);
            float* out = c.output<float>(0) + i * plan.to_width * plan.channels;
            poll(plan.to_width * plan.channels);
            plan.channels == 3   ? Across<3>(plan, c, line, out)
            : plan.channels == 1 ? Across<1>(plan, c, line, out)
                                 : Across<0>(plan, c, line, out);
          }
        }
      });
    });
  }

 private:
  // The rows that one covers, added up.
  template <class T>
  static void Down(const Plan& plan, const T* image, const Covered& row, sdk::CancelPoll& poll, float* line) {
    const float scale = 1.0f / (plan.down * plan.right);
    std::fill_n(line, plan.line, 0.0f);
    for (int64_t y = row.begin; y < row.end; ++y) {
      poll(plan.line);
      const T* from = image + std::clamp<int64_t>(y, 0, plan.height - 1) * plan.line;
      const float weight = row.Share(y) * scale;
#pragma GCC ivdep
      for (int64_t i = 0; i < plan.line; ++i) line[i] += static_cast<float>(from[i]) * weight;
    }
  }
  // Those of the pixels of a row, which are the same for all rows.
  static void FindTaps(const Plan& plan, const sdk::RunContext& c) {
    Tap* first = c.workspace<Tap>(plan.taps);
    int64_t* const counts = c.workspace<int64_t>(plan.counts);
    sdk::CancelPoll poll(c);
    for (int64_t i = 0; i < plan.to_width; ++i, first += plan.most_taps) {
      const Covered column(plan.right, i);
      counts[i] = std::min(column.end - column.begin, plan.most_taps);
      poll(counts[i]);
      for (int64_t k = 0; k < counts[i]; ++k) {
        const int64_t x = column.begin + k;
        first[k] = {std::clamp<int64_t>(x, 0, plan.width - 1) * plan.channels, column.Share(x)};
      }
    }
  }
  // kChannels: of the images; 0: any number.
  template <int64_t kChannels>
  static void Across(const Plan& plan, const sdk::RunContext& c, const float* line, float* out) {
    const int64_t channels = kChannels != 0 ? kChannels : plan.channels;
    const Tap* first = c.workspace<Tap>(plan.taps);
    const int64_t* const counts = c.workspace<int64_t>(plan.counts);
    for (int64_t i = 0; i < plan.to_width; ++i, out += channels, first += plan.most_taps) {
      float few[kChannels != 0 ? kChannels : 1] = {};
      float* sum = kChannels != 0 ? few : out;
      std::fill_n(sum, channels, 0.0f);
      for (const Tap* tap = first; tap != first + counts[i]; ++tap) {
        const float* const pixel = line + tap->at;
        for (int64_t k = 0; k < channels; ++k) sum[k] += pixel[k] * tap->share;
      }
      if (kChannels != 0) std::copy_n(sum, channels, out);
    }
  }

  const bool align_corners;
};

}  // namespace

TENON_CPU_KERNEL(ResizeArea) =
    CpuKernel<AreaKernel>("ResizeArea", {.constraints = sdk::Constraints<Pictures::Constraint<"T">>::list});

}  // namespace tenon::cpu
