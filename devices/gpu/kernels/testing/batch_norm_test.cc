// SPDX-License-Identifier: Apache-2.0
// Batch normalisation of the GPU plugins against the CPU's, on the emulated grid.
#include "tests/device/tested.h"

namespace tenon::device_test {
namespace {

constexpr uint32_t kImageTypes[] = {TENON_DT_FLOAT, TENON_DT_HALF, TENON_DT_BFLOAT16};
struct Layout {
  const char* format;
  Dimensions dims;
};
const Layout kLayouts[] = {{"NHWC", {2, 5, 7, 3}},     {"NHWC", {3, 9, 8, 40}},   {"NHWC", {3, 1, 5, 8}},   {"NHWC", {1, 1, 1, 5}},
                           {"NHWC", {0, 2, 2, 3}},     {"NCHW", {2, 3, 5, 7}},    {"NCHW", {2, 2, 40, 33}}, {"NCHW", {5, 1, 1, 1}},
                           {"NDHWC", {2, 3, 2, 2, 4}}, {"NCDHW", {2, 3, 2, 4, 4}}};

int64_t ChannelsOf(const Layout& layout) { return layout.format[1] == 'C' ? layout.dims[1] : layout.dims.back(); }
Attributes AttributesOf(const Layout& layout, bool training, float factor) {
  return {{"epsilon", 0.001f}, {"data_format", std::string(layout.format)}, {"is_training", training}, {"exponential_avg_factor", factor}};
}

TEST(BatchNorm, InTrainingAndInferenceIsTheCpus) {
  Bench bench;
  for (const Layout& layout : kLayouts) {
    const int64_t n = ChannelsOf(layout);
    const Tensor vector = {TENON_DT_FLOAT, {n}};
    const Tensor scale = RandomFloatsOf({n}, 2, 0.5f, 2), offset = RandomFloatsOf({n}, 3), mean = RandomFloatsOf({n}, 4),
                variance = RandomFloatsOf({n}, 5, 0.5f, 2);
    for (const uint32_t dtype : kImageTypes) {
      const Tensor x = ValuesOf(dtype, RandomFloatsOf(layout.dims, 1, 2, 5));
      const std::vector<Tensor> five = {{dtype, layout.dims}, vector, vector, vector, vector};
      std::vector<Tensor> six = five;
      six.push_back({TENON_DT_FLOAT, {}});
      const double close = ToleranceOf(dtype, 1e-5);
      for (const float factor : {1.0f, 0.25f}) {
        EXPECT_EQ(Compare(bench, {"FusedBatchNormV3", AttributesOf(layout, true, factor), {x, scale, offset, mean, variance}, six}, close), "")
            << layout.format << dtype;
      }
      EXPECT_EQ(Compare(bench, {"FusedBatchNormV3", AttributesOf(layout, true, 1), {x, scale, offset, Floats({0}, {}), Floats({0}, {})}, six}, close),
                "")
          << layout.format;
      EXPECT_EQ(Compare(bench, {"FusedBatchNormV2", AttributesOf(layout, false, 1), {x, scale, offset, mean, variance}, five}, close), "")
          << layout.format << dtype;
    }
    const std::vector<Tensor> five = {{TENON_DT_FLOAT, layout.dims}, vector, vector, vector, vector};
    EXPECT_EQ(
        Compare(bench, {"FusedBatchNorm", AttributesOf(layout, true, 1), {RandomFloatsOf(layout.dims), scale, offset, mean, variance}, five}, 1e-5),
        "");
  }
}

TEST(BatchNorm, GradientsAreTheCpus) {
  Bench bench;
  for (const Layout& layout : kLayouts) {
    const int64_t n = ChannelsOf(layout);
    const Tensor vector = {TENON_DT_FLOAT, {n}}, none = {TENON_DT_FLOAT, {0}};
    const Tensor scale = RandomFloatsOf({n}, 2, 0.5f, 2), mean = RandomFloatsOf({n}, 4), variance = RandomFloatsOf({n}, 5, 0.5f, 2);
    for (const uint32_t dtype : kImageTypes) {
      const Tensor dy = ValuesOf(dtype, RandomFloatsOf(layout.dims, 6)), x = ValuesOf(dtype, RandomFloatsOf(layout.dims, 1, -2, 3));
      const std::vector<Tensor> outputs = {{dtype, layout.dims}, vector, vector, none, none};
      const double close = ToleranceOf(dtype, 1e-5);
      const Tensor reserved = Floats({}, {0});
      EXPECT_EQ(Compare(bench, {"FusedBatchNormGradV3", AttributesOf(layout, true, 1), {dy, x, scale, mean, variance, reserved}, outputs}, close), "")
          << layout.format << dtype;
      if (layout.format[1] == 'C') continue;  // which the CPU refuses
      EXPECT_EQ(Compare(bench, {"FusedBatchNormGradV2", AttributesOf(layout, false, 1), {dy, x, scale, mean, variance}, outputs}, close), "")
          << layout.format << dtype;
      if (dtype != TENON_DT_FLOAT) continue;
      EXPECT_EQ(Compare(bench, {"FusedBatchNormGrad", AttributesOf(layout, true, 1), {dy, x, scale, mean, variance}, outputs}, close), "")
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
  EXPECT_EQ(bench.OnDevice({"FusedBatchNorm", nhwc, {RandomFloatsOf({1, 1, 1, 3}), v, v, RandomFloatsOf({2}), v}, outputs}, &out),
            "INVALID_ARGUMENT: mean has the shape [2]; x has 3 channels");
}

}  // namespace
}  // namespace tenon::device_test
