// SPDX-License-Identifier: Apache-2.0
// FusedBatchNorm and its gradient, in three versions, channels last or first.
#include "code/batch_norm.h"

#include <algorithm>
#include <cmath>

#include "kernels/reduction.h"

namespace tenon::gpu {
namespace {

using Images = Types<float, sdk::Half, sdk::Bfloat16>;

struct Settings {
  explicit Settings(sdk::CreateContext& c)
      : epsilon(c.Float("epsilon")), format(c.String("data_format")), training(c.Bool("is_training")),
        factor(c.Has("exponential_avg_factor") ? c.Float("exponential_avg_factor") : 1.0f) {}
  float epsilon;
  std::string format;
  bool training;
  float factor;
};

// x as [.., channels, pixels]; of channels last, a pixel is one element.
struct Channels {
  Channels(sdk::Dims dims, std::string_view format) {
    if (dims.size() != format.size()) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "x of shape ", dims, " does not have the rank of data_format ", format);
    }
    at = format.starts_with("NC") ? 1 : dims.size() - 1;
    channels = dims[at];
    pixels = sdk::Count(dims.subspan(at + 1));
    total = sdk::Count(dims);
  }
  int64_t vector_bytes() const { return channels * static_cast<int64_t>(sizeof(float)); }
  size_t at;
  int64_t channels, pixels, total;
};

void CheckVector(const Shapes& s, int32_t input, int64_t channels, std::string_view name) {
  if (sdk::Count(s.in(input)) != channels) {
    sdk::Fail(TENON_INVALID_ARGUMENT, name, " has the shape ", s.in(input), "; x has ", channels, " channels");
  }
}

// (x, scale, offset, mean, variance) to (y, batch_mean, batch_variance, saved mean, saved variance, ..).
struct BatchNorm : Settings {
  using Settings::Settings;
  struct Plan {
    Plan(const BatchNorm& kernel, Shapes& s)
        : settings(kernel), shape(s.in(0), kernel.format), inputs(s.input_count()), reserve(s.output_count() > 5 ? sdk::Count(s.out(5)) : 0) {
      CheckVector(s, 1, shape.channels, "scale");
      CheckVector(s, 2, shape.channels, "offset");
      if (!settings.training || settings.factor != 1.0f) {
        CheckVector(s, 3, shape.channels, "mean");
        CheckVector(s, 4, shape.channels, "variance");
      }
      if (shape.total == 0) return;
      const uint32_t dtype = s.dtype(0);
      factors = s.Workspace(shape.vector_bytes());
      if (settings.training) {
        const sdk::ReduceShape all = AllBut(s.in(0), shape.at);
        mean.emplace(s, all, "BatchNormMean", dtype);
        variance.emplace(s, all, "BatchNormVariance", dtype);
      } else {
        given = s.Code("BatchNormGiven", TENON_DT_FLOAT);
      }
      normalise = s.Code("BatchNorm", dtype);
    }
    void Launch(Launcher& on, char* const* at) const {
      char* const* out = at + inputs;
      on.Fill(reserve > 0 ? out[5] : nullptr, 0, reserve * static_cast<int64_t>(sizeof(float)));
      if (shape.total == 0) {
        // Of nothing there is no mean, not even the given one: all bits set are a NaN.
        for (int i = 1; i < 5; ++i) on.Fill(out[i], i < 3 ? 0xff : 0, shape.vector_bytes());
        return;
      }
      auto* const by = on.Workspace<float>(factors);
      if (settings.training) {
        Train(on, at, out, by);
      } else {
        BatchGivenParams p = {As<const float>(at[3]), As<const float>(at[4]), As<const float>(at[1]), {}, {}, by, shape.channels, settings.epsilon};
        for (int i = 0; i < 2; ++i) {
          p.means[i] = As<float>(out[1 + 2 * i]);
          p.variances[i] = As<float>(out[2 + 2 * i]);
        }
        on(given, Flat(shape.channels), p);
      }
      on(normalise, Flat(shape.total, 4),
         BatchNormParams{at[0], out[0], As<const float>(out[3]), by, As<const float>(at[2]), shape.total, shape.pixels, shape.channels});
    }

   private:
    void Train(Launcher& on, char* const* at, char* const* out, float* by) const {
      const auto count = static_cast<double>(shape.total / shape.channels);
      BatchStatisticsParams p = {};
      p.x = at[0];
      p.scale = As<const float>(at[1]);
      p.mean = As<float>(out[3]);
      p.variance = As<float>(out[4]);
      p.factors = by;
      p.keep = 1.0f - settings.factor;
      p.take = settings.factor;
      // What is kept as an average has Bessel's correction.
      p.correction = static_cast<float>(count / std::max(1.0, count - 1.0));
      p.epsilon = settings.epsilon;
      p.given = As<const float>(at[3]);
      p.average = As<float>(out[1]);
      (*mean)(on, p);
      p.given = As<const float>(at[4]);
      p.average = As<float>(out[2]);
      (*variance)(on, p);
    }
    const Settings settings;
    const Channels shape;
    const int32_t inputs;
    const int64_t reserve;
    int64_t factors = 0;
    std::optional<Reduction> mean, variance;
    Function given = nullptr, normalise = nullptr;
  };
};

// (y_backprop, x, scale, mean, variance, ..) to (dx, dscale, doffset, ..).
struct BatchNormGrad : Settings {
  using Settings::Settings;
  struct Plan {
    Plan(const BatchNormGrad& kernel, Shapes& s)
        : settings(kernel), shape(s.in(1), kernel.format), inputs(s.input_count()),
          moments(s, AllBut(s.in(1), shape.at), "BatchNormMoments", s.dtype(0)), vectors(s.Workspace(sdk::Multiply(3, shape.vector_bytes()))),
          code(s.Code("BatchNormGrad", s.dtype(0))) {
      if (!std::ranges::equal(s.in(0), s.in(1))) sdk::Fail(TENON_INVALID_ARGUMENT, "y_backprop has the shape ", s.in(0), ", x ", s.in(1));
      CheckVector(s, 2, shape.channels, "scale");
      CheckVector(s, 3, shape.channels, "the mean");
      CheckVector(s, 4, shape.channels, "the variance");
    }
    void Launch(Launcher& on, char* const* at) const {
      char* const* out = at + inputs;
      const auto vector = [](char* address) { return As<float>(address); };
      auto* const made = on.Workspace<float>(vectors);
      moments(on, BatchMomentsParams{
                      {}, at[0], at[1], vector(at[2]), vector(at[3]), vector(at[4]), vector(out[1]), vector(out[2]), made, settings.epsilon});
      on(code, Flat(shape.total, 4),
         BatchNormGradParams{at[0], at[1], out[0], vector(at[3]), made, shape.total, shape.pixels, shape.channels, settings.training ? 1 : 0});
    }
    const Settings settings;
    const Channels shape;
    const int32_t inputs;
    const Reduction moments;
    const int64_t vectors;
    const Function code;
  };
};

constexpr sdk::Traits kFloat = {.constraints = sdk::Constraints<sdk::Allowed<"T", TENON_DT_FLOAT>>::list};
constexpr sdk::Traits kImages = {.constraints = sdk::Constraints<Images::Constraint<"T">, sdk::Allowed<"U", TENON_DT_FLOAT>>::list};

}  // namespace

TENON_GPU_KERNEL(FusedBatchNorm) = Kernel<BatchNorm>("FusedBatchNorm", kFloat);
TENON_GPU_KERNEL(FusedBatchNormV2) = Kernel<BatchNorm>("FusedBatchNormV2", kImages);
TENON_GPU_KERNEL(FusedBatchNormV3) = Kernel<BatchNorm>("FusedBatchNormV3", kImages);
TENON_GPU_KERNEL(FusedBatchNormGrad) = Kernel<BatchNormGrad>("FusedBatchNormGrad", kFloat);
TENON_GPU_KERNEL(FusedBatchNormGradV2) = Kernel<BatchNormGrad>("FusedBatchNormGradV2", kImages);
TENON_GPU_KERNEL(FusedBatchNormGradV3) = Kernel<BatchNormGrad>("FusedBatchNormGradV3", kImages);

}  // namespace tenon::gpu
