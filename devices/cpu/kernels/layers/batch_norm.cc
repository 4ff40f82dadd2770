// SPDX-License-Identifier: Apache-2.0
// FusedBatchNorm and its gradient, in three versions, channels last or first.
//
// Work is cut into blocks of fixed size (rows of channels; or, channels first, the planes of one image), so that sums
// do not depend on threads: a block's sums are floats in the workspace, which are added up in double. A block, which
// stays in the cache, is walked along twice: for its mean, and for the squares of what is left around that. So memory
// is read once for both; blocks are put together by their means' distances from the mean of all (Chan, Golub, LeVeque
// 1979, formula 2.1).
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kernels/common/types.h"

namespace tenon::cpu {
namespace {

using Images = Types<float, Half, Bfloat16>;

constexpr double kElementCost = 0.4;

// x as [blocks][rows of a block][channels], or as [images][channels][pixels].
struct Channels {
  Channels(sdk::Dims dims, std::string_view format) : first(format.substr(0, 2) == "NC") {
    if (dims.size() != format.size()) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "x of shape ", dims, " does not have the rank of data_format ", format);
    }
    channels = first ? dims[1] : dims.back();
    total = sdk::Count(dims);
    if (total == 0) return;
    per_channel = total / channels;
    pixels = first ? per_channel / dims[0] : 1;
    rows = first ? 1 : std::clamp<int64_t>(kBlock / channels, 1, per_channel);
    blocks = first ? dims[0] : (per_channel + rows - 1) / rows;
  }
  static constexpr int64_t kBlock = 16384;  // elements

  // function(channel, at, count, step) for each channel's runs in block b; channels last it is called for rows:
  // function(-1, at, channels, 1).
  template <class Row, class Plane>
  void ForEach(int64_t b, Row&& row, Plane&& plane) const {
    if (first) {
      for (int64_t k = 0; k < channels; ++k) plane(k, (b * channels + k) * pixels);
    } else {
      const int64_t end = std::min(per_channel, (b + 1) * rows);
      for (int64_t r = b * rows; r < end; ++r) row(r * channels);
    }
  }

  // Of a channel's elements in block b.
  int64_t Count(int64_t b) const { return first ? pixels : std::min(per_channel, (b + 1) * rows) - b * rows; }

  bool first;
  int64_t channels = 0, total = 0, per_channel = 0, pixels = 1, rows = 1, blocks = 0;
};

// Sums over block b of function(channel, element index, sums of that channel), kSums a channel.
template <int kSums, class Function>
void SumBlock(const Channels& v, int64_t b, float* sums, Function&& function) {
  std::fill(sums, sums + v.channels * kSums, 0.0f);
  v.ForEach(
      b,
      [&](int64_t at) {
#pragma GCC ivdep
        for (int64_t k = 0; k < v.channels; ++k) {
          const std::array<float, kSums> part = function(k, at + k);
          for (int s = 0; s < kSums; ++s) sums[s * v.channels + k] += part[s];
        }
      },
      [&](int64_t k, int64_t at) {
        // Lanes, so that the sum vectorises; their order is fixed.
        constexpr int64_t kLanes = 16;
        float lanes[kSums][kLanes] = {};
        int64_t i = 0;
        for (; i + kLanes <= v.pixels; i += kLanes) {
          for (int64_t lane = 0; lane < kLanes; ++lane) {
            const std::array<float, kSums> part = function(k, at + i + lane);
            for (int s = 0; s < kSums; ++s) lanes[s][lane] += part[s];
          }
        }
        for (int64_t lane = 0; i < v.pixels; ++i, ++lane) {
          const std::array<float, kSums> part = function(k, at + i);
          for (int s = 0; s < kSums; ++s) lanes[s][lane] += part[s];
        }
        for (int s = 0; s < kSums; ++s) {
          for (float lane : lanes[s]) sums[s * v.channels + k] += lane;
        }
      });
}

// function(block) of all blocks.
template <class Function>
void ForEachBlock(sdk::RunContext c, const Channels& v, Function&& function) {
  c.ParallelFor(v.blocks, kElementCost * static_cast<double>(v.total / std::max<int64_t>(1, v.blocks)),
                [&](int64_t begin, int64_t end) {
                  for (int64_t b = begin; b < end; ++b) function(b);
                });
}

// Sums over x, as of blocks, into `out` as doubles.
template <int kSums, class Function>
void SumChannels(sdk::RunContext c, const Channels& v, float* partial, double* out, Function&& function) {
  const int64_t width = v.channels * kSums;
  ForEachBlock(c, v, [&](int64_t b) { SumBlock<kSums>(v, b, partial + b * width, function); });
  std::fill(out, out + width, 0.0);
  for (int64_t b = 0; b < v.blocks; ++b) {
    for (int64_t k = 0; k < width; ++k) out[k] += static_cast<double>(partial[b * width + k]);
  }
}

// Means and variances of channels. partial: two floats a channel of each block, its mean and the squares around it;
// totals: two doubles a channel.
template <class T>
void Moments(sdk::RunContext c, const Channels& v, const T* x, float* partial, double* totals, float* mean,
             float* variance) {
  ForEachBlock(c, v, [&](int64_t b) {
    float* means = partial + b * 2 * v.channels;
    SumBlock<1>(v, b, means, [&](int64_t, int64_t i) { return std::array<float, 1>{static_cast<float>(x[i])}; });
    const float count = static_cast<float>(v.Count(b));
    for (int64_t k = 0; k < v.channels; ++k) means[k] /= count;
    SumBlock<1>(v, b, means + v.channels, [&](int64_t k, int64_t i) {
      const float d = static_cast<float>(x[i]) - means[k];
      return std::array<float, 1>{d * d};
    });
  });
  const double count = static_cast<double>(v.per_channel);
  std::fill(totals, totals + 2 * v.channels, 0.0);
  double* squares = totals + v.channels;
  for (int64_t b = 0; b < v.blocks; ++b) {
    for (int64_t k = 0; k < v.channels; ++k)
      totals[k] += static_cast<double>(partial[b * 2 * v.channels + k]) * static_cast<double>(v.Count(b));
  }
  for (int64_t k = 0; k < v.channels; ++k) totals[k] /= count;
  for (int64_t b = 0; b < v.blocks; ++b) {
    const float* means = partial + b * 2 * v.channels;
    for (int64_t k = 0; k < v.channels; ++k) {
      const double away = static_cast<double>(means[k]) - totals[k];
      squares[k] += static_cast<double>(means[v.channels + k]) + static_cast<double>(v.Count(b)) * away * away;
    }
  }
  for (int64_t k = 0; k < v.channels; ++k)
    mean[k] = static_cast<float>(totals[k]), variance[k] = static_cast<float>(squares[k] / count);
}

// out[i] = function(channel, i).
template <class T, class Function>
void MapChannels(sdk::RunContext c, const Channels& v, T* out, Function&& function) {
  ForEachBlock(c, v, [&](int64_t b) {
    v.ForEach(
        b,
        [&](int64_t at) {
#pragma GCC ivdep
          for (int64_t k = 0; k < v.channels; ++k) out[at + k] = static_cast<T>(function(k, at + k));
        },
        [&](int64_t k, int64_t at) {
#pragma GCC ivdep
          for (int64_t i = at; i < at + v.pixels; ++i) out[i] = static_cast<T>(function(k, i));
        });
  });
}

struct Settings {
  explicit Settings(sdk::CreateContext& c)
      : epsilon(c.Float("epsilon")), format(c.String("data_format")), training(c.Bool("is_training")),
        factor(c.Has("exponential_avg_factor") ? c.Float("exponential_avg_factor") : 1.0f) {}
  float epsilon;
  std::string format;
  bool training;
  float factor;
};

// Sums of blocks, their totals, and kVectors vectors of channels.
template <int kSums, int kVectors>
struct Workspace {
  Workspace(sdk::PrepareContext& c, const Channels& v) {
    const int64_t width = sdk::Multiply(v.channels, kSums);
    partial = c.Workspace(sdk::Multiply(sdk::Multiply(v.blocks, width), sizeof(float)));
    totals = c.Workspace(sdk::Multiply(width, sizeof(double)));
    vectors = c.Workspace(sdk::Multiply(v.channels, kVectors * static_cast<int64_t>(sizeof(float))));
  }
  int64_t partial = 0, totals = 0, vectors = 0;
};

void CheckVector(const tenon_tensor_view& vector, int64_t channels, std::string_view name) {
  if (sdk::Count(vector) != channels) {
    sdk::Fail(TENON_INVALID_ARGUMENT, name, " has the shape ", sdk::DimsOf(vector), "; x has ", channels, " channels");
  }
}

struct BatchNormKernel : Settings {
  using Settings::Settings;
  struct Plan : Channels, Workspace<2, 2> {
    Plan(const BatchNormKernel& kernel, sdk::PrepareContext& c)
        : Channels(sdk::DimsOf(c.input(0)), kernel.format), Workspace<2, 2>(c, *this) {
      CheckVector(c.input(1), channels, "scale");
      CheckVector(c.input(2), channels, "offset");
      if (kernel.training && kernel.factor == 1.0f) return;
      CheckVector(c.input(3), channels, "mean");
      CheckVector(c.input(4), channels, "variance");
    }
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    if (c.output_count() > 5) *c.output<float>(5) = 0.0f;
    if (plan.total == 0) return Nothing(plan, c);
    Images::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) { training ? Train<T>(plan, c) : Infer<T>(plan, c); });
  }

 private:
  template <class T>
  void Infer(const Plan& v, sdk::RunContext c) const {
    for (int32_t i = 0; i < 2; ++i) {
      const float* given = c.input<float>(3 + i);
      for (int32_t out : {1 + i, 3 + i}) std::copy(given, given + v.channels, c.output<float>(out));
    }
    Normalise<T>(v, c, c.input<float>(3), c.input<float>(4));
  }

  template <class T>
  void Train(const Plan& v, sdk::RunContext c) const {
    float* mean = c.output<float>(3);
    float* variance = c.output<float>(4);
    const T* x = c.input<T>(0);
    float* partial = c.workspace<float>(v.partial);
    double* totals = c.workspace<double>(v.totals);
    Moments(c, v, x, partial, totals, mean, variance);
    const double count = static_cast<double>(v.per_channel);
    // What is kept as an average has Bessel's correction.
    const float correction = static_cast<float>(count / std::max(1.0, count - 1.0));
    for (int64_t k = 0; k < v.channels; ++k) {
      c.output<float>(1)[k] = Average(c, 3, k, mean[k]);
      c.output<float>(2)[k] = Average(c, 4, k, variance[k] * correction);
    }
    Normalise<T>(v, c, mean, variance);
  }

  float Average(sdk::RunContext c, int32_t input, int64_t k, float now) const {
    return factor == 1.0f ? now : (1.0f - factor) * c.input<float>(input)[k] + factor * now;
  }

  // Of nothing there is no mean, not even the given one.
  static void Nothing(const Plan& v, sdk::RunContext c) {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    for (int32_t i = 1; i < 5; ++i) std::fill_n(c.output<float>(i), v.channels, i < 3 ? kNan : 0.0f);
  }

  template <class T>
  void Normalise(const Plan& v, sdk::RunContext c, const float* mean, const float* variance) const {
    const T* x = c.input<T>(0);
    const float* offset = c.input<float>(2);
    float* factors = c.workspace<float>(v.vectors);
    for (int64_t k = 0; k < v.channels; ++k) factors[k] = c.input<float>(1)[k] / std::sqrt(variance[k] + epsilon);
    MapChannels(c, v, c.output<T>(0),
                [=](int64_t k, int64_t i) { return (static_cast<float>(x[i]) - mean[k]) * factors[k] + offset[k]; });
  }
};

// (y_backprop, x, scale, mean, variance).
struct BatchNormGradKernel : Settings {
  explicit BatchNormGradKernel(sdk::CreateContext& c) : Settings(c) {
    if (!training && format.substr(0, 2) == "NC") {
      c.Fail(TENON_UNIMPLEMENTED, "the gradient in inference with data_format ", format, "; it has channels last");
    }
  }
  struct Plan : Channels, Workspace<2, 3> {
    Plan(const BatchNormGradKernel& kernel, sdk::PrepareContext& c)
        : Channels(sdk::DimsOf(c.input(1)), kernel.format), Workspace<2, 3>(c, *this) {
      if (!std::ranges::equal(sdk::DimsOf(c.input(0)), sdk::DimsOf(c.input(1)))) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "y_backprop has the shape ", sdk::DimsOf(c.input(0)), ", x ",
                  sdk::DimsOf(c.input(1)));
      }
      CheckVector(c.input(2), channels, "scale");
      CheckVector(c.input(3), channels, "the mean");
      CheckVector(c.input(4), channels, "the variance");
    }
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    Images::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) { Typed<T>(plan, c); });
  }

 private:
  // dx = scale r (dy - mean(dy) - (x - mean) r^2 mean(dy (x - mean))) in training, scale r dy in inference.
  template <class T>
  void Typed(const Plan& v, sdk::RunContext c) const {
    const T* dy = c.input<T>(0);
    const T* x = c.input<T>(1);
    const float* mean = c.input<float>(3);
    double* totals = c.workspace<double>(v.totals);
    SumChannels<2>(c, v, c.workspace<float>(v.partial), totals, [=](int64_t k, int64_t i) {
      const float g = static_cast<float>(dy[i]);
      return std::array<float, 2>{g, g * (static_cast<float>(x[i]) - mean[k])};
    });
    float* factors = c.workspace<float>(v.vectors);
    float* shifts = factors + v.channels;
    float* slopes = shifts + v.channels;
    const double count = static_cast<double>(std::max<int64_t>(1, v.per_channel));
    for (int64_t k = 0; k < v.channels; ++k) {
      const double r2 = 1.0 / (static_cast<double>(c.input<float>(4)[k]) + static_cast<double>(epsilon));
      const double r = std::sqrt(r2), sum = totals[k], moment = totals[v.channels + k];
      c.output<float>(1)[k] = v.total == 0 ? 0.0f : static_cast<float>(moment * r);
      c.output<float>(2)[k] = static_cast<float>(sum);
      factors[k] = static_cast<float>(static_cast<double>(c.input<float>(2)[k]) * r);
      shifts[k] = static_cast<float>(sum / count);
      slopes[k] = static_cast<float>(moment / count * r2);
    }
    // A constant variance has no part in it, were x NaN.
    if (!training)
      return MapChannels(c, v, c.output<T>(0),
                         [=](int64_t k, int64_t i) { return factors[k] * static_cast<float>(dy[i]); });
    MapChannels(c, v, c.output<T>(0), [=](int64_t k, int64_t i) {
      return factors[k] * (static_cast<float>(dy[i]) - shifts[k] - (static_cast<float>(x[i]) - mean[k]) * slopes[k]);
    });
  }
};

constexpr sdk::Traits kFloatImages = {.constraints = sdk::Constraints<sdk::Allowed<"T", TENON_DT_FLOAT>>::list};
constexpr sdk::Traits kOtherImages = {
    .constraints = sdk::Constraints<Images::Constraint<"T">, sdk::Allowed<"U", TENON_DT_FLOAT>>::list};

}  // namespace

TENON_CPU_KERNEL(FusedBatchNorm) = CpuKernel<BatchNormKernel>("FusedBatchNorm", kFloatImages);
TENON_CPU_KERNEL(FusedBatchNormV2) = CpuKernel<BatchNormKernel>("FusedBatchNormV2", kOtherImages);
TENON_CPU_KERNEL(FusedBatchNormV3) = CpuKernel<BatchNormKernel>("FusedBatchNormV3", kOtherImages);
TENON_CPU_KERNEL(FusedBatchNormGrad) = CpuKernel<BatchNormGradKernel>("FusedBatchNormGrad", kFloatImages);
TENON_CPU_KERNEL(FusedBatchNormGradV2) = CpuKernel<BatchNormGradKernel>("FusedBatchNormGradV2", kOtherImages);
TENON_CPU_KERNEL(FusedBatchNormGradV3) = CpuKernel<BatchNormGradKernel>("FusedBatchNormGradV3", kOtherImages);

}  // namespace tenon::cpu
