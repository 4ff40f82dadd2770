// SPDX-License-Identifier: Apache-2.0
// FusedBatchNorm and its gradient, in three versions, channels last or first.
#include "kernels/batch_norm.h"

#include <algorithm>
#include <cmath>

namespace tenon::gpu {
namespace {

using Images = Types<float, sdk::Half, sdk::Bfloat16>;

struct Settings : BatchNormSettings {
  explicit Settings(sdk::CreateContext& c)
      : BatchNormSettings{c.Float("epsilon"), std::string(c.String("data_format")), c.Bool("is_training"),
                          c.Has("exponential_avg_factor") ? c.Float("exponential_avg_factor") : 1.0f} {}
};

void CheckVector(const Shapes& s, int32_t input, int64_t channels, std::string_view name) {
  if (sdk::Count(s.in(input)) != channels) {
    sdk::Fail(TENON_INVALID_ARGUMENT, name, " has the shape ", s.in(input), "; x has ", channels, " channels");
  }
}

struct BatchNorm : Settings {
  using Settings::Settings;
  struct Plan : BatchNormPlan {
    Plan(const BatchNorm& kernel, Shapes& s) : BatchNormPlan(kernel, s) {}
    void Launch(Launcher& on, char* const* at) const { BatchNormPlan::Launch(on, at); }
  };
};

// (y_backprop, x, scale, mean, variance, ..) to (dx, dscale, doffset, ..).
struct BatchNormGrad : Settings {
  using Settings::Settings;
  struct Plan {
    Plan(const BatchNormGrad& kernel, Shapes& s)
        : settings(kernel),
          shape(s.in(1), kernel.format),
          inputs(s.input_count()),
          moments(s, AllBut(s.in(1), shape.at), "BatchNormMoments", s.dtype(0)),
          vectors(s.Workspace(sdk::Multiply(3, shape.vector_bytes()))),
          code(s.Code("BatchNormGrad", s.dtype(0))) {
      if (!std::ranges::equal(s.in(0), s.in(1)))
        sdk::Fail(TENON_INVALID_ARGUMENT, "y_backprop has the shape ", s.in(0), ", x ", s.in(1));
      CheckVector(s, 2, shape.channels, "scale");
      CheckVector(s, 3, shape.channels, "the mean");
      CheckVector(s, 4, shape.channels, "the variance");
    }
    void Launch(Launcher& on, char* const* at) const {
      char* const* out = at + inputs;
      const auto vector = [](char* address) { return As<float>(address); };
      auto* const made = on.Workspace<float>(vectors);
      moments(on, BatchMomentsParams{{},
                                     at[0],
                                     at[1],
                                     vector(at[2]),
                                     vector(at[3]),
                                     vector(at[4]),
                                     vector(out[1]),
                                     vector(out[2]),
                                     made,
                                     settings.epsilon});
      on(code, Flat(shape.total, 4),
         BatchNormGradParams{at[0], at[1], out[0], vector(at[3]), made, shape.total, shape.pixels, shape.channels,
                             settings.training ? 1 : 0});
    }
    const Settings settings;
    const BatchNormChannels shape;
    const int32_t inputs;
    const Reduction moments;
    const int64_t vectors;
    const Function code;
  };
};

constexpr sdk::Traits kFloat = {.constraints = sdk::Constraints<sdk::Allowed<"T", TENON_DT_FLOAT>>::list};
constexpr sdk::Traits kImages = {
    .constraints = sdk::Constraints<Images::Constraint<"T">, sdk::Allowed<"U", TENON_DT_FLOAT>>::list};

}  // namespace

BatchNormPlan::BatchNormPlan(const BatchNormSettings& settings, Shapes& s, const BatchNormEnd& end)
    : settings_(settings),
      end_(end),
      shape_(s.in(0), settings.format),
      inputs_(s.input_count()),
      reserve_(s.output_count() > 5 ? sdk::Count(s.out(5)) : 0) {
  CheckVector(s, 1, shape_.channels, "scale");
  CheckVector(s, 2, shape_.channels, "offset");
  if (!settings_.training || settings_.factor != 1.0f) {
    CheckVector(s, 3, shape_.channels, "mean");
    CheckVector(s, 4, shape_.channels, "variance");
  }
  if (shape_.total == 0) return;
  const uint32_t dtype = s.dtype(0);
  if (IsOfRows(s)) {
    lanes_ = LanesForPacks(s.facts(), shape_.channels, shape_.pixels, dtype);
    grid_ = GroupGrid(s.facts(), shape_.channels, lanes_);
    normalise_ = s.Code("BatchNormRows", dtype);
    return;
  }
  factors_ = s.Workspace(shape_.vector_bytes());
  if (settings_.training) {
    const sdk::ReduceShape all = AllBut(s.in(0), shape_.at);
    statistics_.emplace(s, all, "BatchNormStatistics", dtype);
    variance_.emplace(s, all, "BatchNormVariance", dtype);
  } else {
    given_ = s.Code("BatchNormGiven", TENON_DT_FLOAT);
  }
  normalise_ = s.Code("BatchNorm", dtype);
}

bool BatchNormPlan::IsOfRows(const Shapes& s) const {
  constexpr int64_t kLongest = 16384;  // of more a reduction's kernel gives parts to several blocks
  return settings_.training && shape_.at == 1 && s.in(0)[0] == 1 && shape_.pixels <= kLongest && !end_.adds &&
         !end_.rectifies;
}

void BatchNormPlan::Launch(Launcher& on, char* const* at, const void* added) const {
  char* const* out = at + inputs_;
  on.Fill(reserve_ > 0 ? out[5] : nullptr, 0, reserve_ * static_cast<int64_t>(sizeof(float)));
  if (shape_.total == 0) {
    // Of nothing there is no mean, not even the given one: all bits set are a NaN.
    for (int i = 1; i < 5; ++i) on.Fill(out[i], i < 3 ? 0xff : 0, shape_.vector_bytes());
    return;
  }
  if (lanes_ != 0) {
    on(normalise_, grid_,
       BatchNormRowsParams{Statistics(at, out, nullptr), out[0], As<const float>(at[2]), shape_.channels, shape_.pixels,
                           lanes_});
    return;
  }
  auto* const by = on.Workspace<float>(factors_);
  if (settings_.training) {
    const BatchStatisticsParams p = Statistics(at, out, by);
    (*statistics_)(on, p);
    (*variance_)(on, p);
  } else {
    BatchGivenParams p = {As<const float>(at[3]), As<const float>(at[4]), As<const float>(at[1]), {}, {}, by,
                          shape_.channels,        settings_.epsilon};
    for (int i = 0; i < 2; ++i) {
      p.means[i] = As<float>(out[1 + 2 * i]);
      p.variances[i] = As<float>(out[2 + 2 * i]);
    }
    on(given_, Flat(shape_.channels), p);
  }
  on(normalise_, Flat(shape_.total, 4),
     BatchNormParams{at[0], end_.adds ? added : nullptr, out[0], As<const float>(out[3]), by, As<const float>(at[2]),
                     shape_.total, shape_.pixels, shape_.channels, end_.rectifies ? 1 : 0});
}

BatchStatisticsParams BatchNormPlan::Statistics(char* const* at, char* const* out, float* by) const {
  const auto count = static_cast<double>(shape_.total / shape_.channels);
  BatchStatisticsParams p = {};
  p.x = at[0];
  p.scale = As<const float>(at[1]);
  p.mean = As<float>(out[3]);
  p.variance = As<float>(out[4]);
  p.factors = by;
  p.keep = 1.0f - settings_.factor;
  p.take = settings_.factor;
  // What is kept as an average has Bessel's correction.
  p.correction = static_cast<float>(count / std::max(1.0, count - 1.0));
  p.epsilon = settings_.epsilon;
  for (int i = 0; i < 2; ++i) {
    p.given[i] = As<const float>(at[3 + i]);
    p.average[i] = As<float>(out[1 + i]);
  }
  return p;
}

TENON_GPU_KERNEL(FusedBatchNorm) = Kernel<BatchNorm>("FusedBatchNorm", kFloat);
TENON_GPU_KERNEL(FusedBatchNormV2) = Kernel<BatchNorm>("FusedBatchNormV2", kImages);
TENON_GPU_KERNEL(FusedBatchNormV3) = Kernel<BatchNorm>("FusedBatchNormV3", kImages);
TENON_GPU_KERNEL(FusedBatchNormGrad) = Kernel<BatchNormGrad>("FusedBatchNormGrad", kFloat);
TENON_GPU_KERNEL(FusedBatchNormGradV2) = Kernel<BatchNormGrad>("FusedBatchNormGradV2", kImages);
TENON_GPU_KERNEL(FusedBatchNormGradV3) = Kernel<BatchNormGrad>("FusedBatchNormGradV3", kImages);

}  // namespace tenon::gpu
