// SPDX-License-Identifier: Apache-2.0
// Batch normalisation of the GPU plugins against the CPU's, on the emulated grid.
#include <cmath>
#include <functional>

#include "tests/device/tested.h"

namespace tenon::device_test {
namespace {

constexpr uint32_t kImageTypes[] = {TENON_DT_FLOAT, TENON_DT_HALF, TENON_DT_BFLOAT16};
struct Layout {
  const char* format;
  Dimensions dims;
};
const Layout kLayouts[] = {{"NHWC", {2, 5, 7, 3}},     {"NHWC", {3, 9, 8, 40}},   {"NHWC", {3, 1, 5, 8}},
                           {"NHWC", {1, 1, 1, 5}},     {"NHWC", {0, 2, 2, 3}},    {"NCHW", {2, 3, 5, 7}},
                           {"NCHW", {2, 2, 40, 33}},   {"NCHW", {5, 1, 1, 1}},    {"NCHW", {1, 6, 5, 1}},
                           {"NCHW", {1, 3, 41, 25}},   {"NCHW", {1, 40, 768, 1}}, {"NCHW", {1, 2, 128, 127}},
                           {"NDHWC", {2, 3, 2, 2, 4}}, {"NCDHW", {2, 3, 2, 4, 4}}};

int64_t ChannelsOf(const Layout& layout) { return layout.format[1] == 'C' ? layout.dims[1] : layout.dims.back(); }
Attributes AttributesOf(const Layout& layout, bool training, float factor) {
  return {{"epsilon", 0.001f},
          {"data_format", std::string(layout.format)},
          {"is_training", training},
          {"exponential_avg_factor", factor}};
}

TEST(BatchNorm, InTrainingAndInferenceIsTheCpus) {
  Bench bench;
  for (const Layout& layout : kLayouts) {
    const int64_t n = ChannelsOf(layout);
    const Tensor vector = {TENON_DT_FLOAT, {n}};
    const Tensor scale = RandomFloatsOf({n}, 2, 0.5f, 2), offset = RandomFloatsOf({n}, 3),
                 mean = RandomFloatsOf({n}, 4), variance = RandomFloatsOf({n}, 5, 0.5f, 2);
    for (const uint32_t dtype : kImageTypes) {
      const Tensor x = ValuesOf(dtype, RandomFloatsOf(layout.dims, 1, 2, 5));
      const std::vector<Tensor> five = {{dtype, layout.dims}, vector, vector, vector, vector};
      std::vector<Tensor> six = five;
      six.push_back({TENON_DT_FLOAT, {}});
      const double close = ToleranceOf(dtype, 1e-5);
      for (const float factor : {1.0f, 0.25f}) {
        EXPECT_EQ(
            Compare(bench,
                    {"FusedBatchNormV3", AttributesOf(layout, true, factor), {x, scale, offset, mean, variance}, six},
                    close),
            "")
            << layout.format << dtype;
      }
      EXPECT_EQ(Compare(bench,
                        {"FusedBatchNormV3",
                         AttributesOf(layout, true, 1),
                         {x, scale, offset, Floats({0}, {}), Floats({0}, {})},
                         six},
                        close),
                "")
          << layout.format;
      EXPECT_EQ(
          Compare(bench, {"FusedBatchNormV2", AttributesOf(layout, false, 1), {x, scale, offset, mean, variance}, five},
                  close),
          "")
          << layout.format << dtype;
    }
    const std::vector<Tensor> five = {{TENON_DT_FLOAT, layout.dims}, vector, vector, vector, vector};
    EXPECT_EQ(Compare(bench,
                      {"FusedBatchNorm",
                       AttributesOf(layout, true, 1),
                       {RandomFloatsOf(layout.dims), scale, offset, mean, variance},
                       five},
                      1e-5),
              "");
  }
}

// Mean and variance come from one walk, around a channel's first element: what that may cost is made good, whatever it
// is.
TEST(BatchNorm, HasTheStatisticsOfDoubles) {
  Bench bench;
  constexpr int64_t kPixels = 3000;
  const std::vector<std::function<float(int64_t)>> channels = {
      [](int64_t i) { return std::sin(0.37f * static_cast<float>(i)); },
      [](int64_t i) { return 10000 + 0.01f * static_cast<float>(i % 7); },              // far from 0
      [](int64_t i) { return i == 0 ? 5000.0f : std::cos(static_cast<float>(i)); },     // the first far from the others
      [](int64_t i) { return i == 0 ? -1e30f : static_cast<float>(i % 3) * 1e-3f; },
      [](int64_t i) { return i < 2900 ? 0.0f : static_cast<float>(i); },                // mostly 0
      [](int64_t i) { return i == 0 ? 0.0f : 300 + 0.001f * static_cast<float>(i % 5); },
      [](int64_t) { return 0.1f; },
      [](int64_t i) { return static_cast<float>(i % 2) * 1e-20f; },
  };
  const auto n = static_cast<int64_t>(channels.size());
  const Layout layouts[] = {{"NHWC", {1, 30, 100, n}}, {"NCHW", {1, n, 30, 100}}, {"NCHW", {2, n, 15, 100}}};
  for (const auto& [format, dims] : layouts) {
    const bool last = format[3] == 'C';
    const int64_t pixels = kPixels / dims[0];  // of an image
    std::vector<float> values(static_cast<size_t>(n * kPixels));
    for (int64_t c = 0; c < n; ++c) {
      for (int64_t i = 0; i < kPixels; ++i) {
        values[static_cast<size_t>(last ? i * n + c : (i / pixels * n + c) * pixels + i % pixels)] =
            channels[static_cast<size_t>(c)](i);
      }
    }
    const Tensor vector = {TENON_DT_FLOAT, {n}}, ones = Floats({n}, std::vector<float>(static_cast<size_t>(n), 1)),
                 none = Floats({0}, {});
    std::vector<Tensor> out;
    ASSERT_EQ(bench.OnDevice({"FusedBatchNormV3",
                              AttributesOf({format, {}}, true, 1),
                              {Floats(dims, values), ones, ones, none, none},
                              {{TENON_DT_FLOAT, dims}, vector, vector, vector, vector, {TENON_DT_FLOAT, {}}}},
                             &out),
              "");
    for (int64_t c = 0; c < n; ++c) {
      double mean = 0, variance = 0;
      for (int64_t i = 0; i < kPixels; ++i) mean += double{channels[static_cast<size_t>(c)](i)} / kPixels;
      for (int64_t i = 0; i < kPixels; ++i)
        variance += std::pow(double{channels[static_cast<size_t>(c)](i)} - mean, 2) / kPixels;
      const auto at = static_cast<size_t>(c);
      // To the last bits of floats of the channel; a square of 1e-20 is 0 in float.
      EXPECT_NEAR(Values<float>(out[3])[at], mean, 2e-7 * (std::fabs(mean) + std::sqrt(variance))) << format << c;
      if (variance > 1e38) continue;  // no float
      EXPECT_NEAR(Values<float>(out[4])[at], variance, 3e-6 * variance + 1e-14 * mean * mean + 1e-38) << format << c;
    }
  }
}

TEST(BatchNorm, GradientsAreTheCpus) {
  Bench bench;
  for (const Layout& layout : kLayouts) {
    const int64_t n = ChannelsOf(layout);
    const Tensor vector = {TENON_DT_FLOAT, {n}}, none = {TENON_DT_FLOAT, {0}};
    const Tensor scale = RandomFloatsOf({n}, 2, 0.5f, 2), mean = RandomFloatsOf({n}, 4),
                 variance = RandomFloatsOf({n}, 5, 0.5f, 2);
    for (const uint32_t dtype : kImageTypes) {
      const Tensor dy = ValuesOf(dtype, RandomFloatsOf(layout.dims, 6)),
                   x = ValuesOf(dtype, RandomFloatsOf(layout.dims, 1, -2, 3));
      const std::vector<Tensor> outputs = {{dtype, layout.dims}, vector, vector, none, none};
      const double close = ToleranceOf(dtype, 1e-5);
      const Tensor reserved = Floats({}, {0});
      EXPECT_EQ(Compare(bench,
                        {"FusedBatchNormGradV3",
                         AttributesOf(layout, true, 1),
                         {dy, x, scale, mean, variance, reserved},
                         outputs},
                        close),
                "")
          << layout.format << dtype;
      if (layout.format[1] == 'C') continue;  // which the CPU refuses
      EXPECT_EQ(
          Compare(bench,
                  {"FusedBatchNormGradV2", AttributesOf(layout, false, 1), {dy, x, scale, mean, variance}, outputs},
                  close),
          "")
          << layout.format << dtype;
      if (dtype != TENON_DT_FLOAT) continue;
      EXPECT_EQ(
          Compare(bench, {"FusedBatchNormGrad", AttributesOf(layout, true, 1), {dy, x, scale, mean, variance}, outputs},
                  close),
          "")
          << layout.format;
    }
  }
}

// The CPU has the gradient in inference with channels last only: the same numbers, in another order.
TEST(BatchNorm, GradientInInferenceTakesChannelsFirst) {
  Bench bench;
  const Tensor vector = {TENON_DT_FLOAT, {2}}, none = {TENON_DT_FLOAT, {0}};
  const Tensor x = RandomFloatsOf({1, 2, 3, 1}, 1), dy = RandomFloatsOf({1, 2, 3, 1}, 2), scale = Floats({2}, {2, 3}),
              mean = Floats({2}, {0.5f, 0.25f}), variance = Floats({2}, {0.999f, 3.999f});
  std::vector<Tensor> got;
  EXPECT_EQ(bench.OnDevice({"FusedBatchNormGradV2",
                            AttributesOf({"NCHW", {}}, false, 1),
                            {dy, x, scale, mean, variance},
                            {{TENON_DT_FLOAT, {1, 2, 3, 1}}, vector, vector, none, none}},
                           &got),
            "");
  const std::vector<float> dx = Values<float>(got[0]), g = Values<float>(dy), v = Values<float>(x);
  for (size_t c = 0; c < 2; ++c) {
    const float r = c == 0 ? 1.0f : 0.5f, m = c == 0 ? 0.5f : 0.25f;
    float sum = 0, moment = 0;
    for (size_t i = 3 * c; i < 3 * c + 3; ++i) {
      EXPECT_NEAR(dx[i], g[i] * r * static_cast<float>(c + 2), 1e-6);
      sum += g[i];
      moment += g[i] * (v[i] - m) * r;
    }
    EXPECT_NEAR(Values<float>(got[1])[c], moment, 1e-6);
    EXPECT_NEAR(Values<float>(got[2])[c], sum, 1e-6);
  }
}

TEST(BatchNorm, RefusesWhatDoesNotFit) {
  Bench bench;
  std::vector<Tensor> out;
  const Tensor v = RandomFloatsOf({3}), vector = {TENON_DT_FLOAT, {3}};
  const std::vector<Tensor> outputs = {{TENON_DT_FLOAT, {1, 1, 1, 3}}, vector, vector, vector, vector};
  const Attributes nhwc = AttributesOf({"NHWC", {}}, false, 1);
  EXPECT_EQ(bench.OnDevice({"FusedBatchNorm", nhwc, {RandomFloatsOf({1, 3}), v, v, v, v}, outputs}, &out),
            "INVALID_ARGUMENT: x of shape [1,3] does not have the rank of data_format NHWC");
  EXPECT_EQ(bench.OnDevice(
                {"FusedBatchNorm", nhwc, {RandomFloatsOf({1, 1, 1, 3}), v, v, RandomFloatsOf({2}), v}, outputs}, &out),
            "INVALID_ARGUMENT: mean has the shape [2]; x has 3 channels");
}

}  // namespace
}  // namespace tenon::device_test
