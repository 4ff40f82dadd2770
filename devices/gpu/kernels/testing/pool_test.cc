// SPDX-License-Identifier: Apache-2.0
// Pooling of the GPU plugins against the CPU's, on the emulated grid.
#include <limits>

#include "tests/device/tested.h"

namespace tenon::device_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Heights and widths of an image, its windows and the result.
struct Window {
  int64_t height, width, size_y, size_x, stride_y, stride_x;
  const char* padding;
  int64_t out_height, out_width;
};
const Window kWindows[] = {{6, 7, 2, 2, 2, 2, "VALID", 3, 3}, {6, 7, 3, 3, 2, 2, "SAME", 3, 4},
                           {5, 5, 3, 2, 1, 1, "SAME", 5, 5},  {5, 9, 1, 2, 2, 3, "VALID", 3, 3},
                           {4, 4, 7, 7, 1, 1, "SAME", 4, 4},  {4, 5, 4, 5, 4, 5, "VALID", 1, 1},
                           {5, 5, 1, 1, 2, 2, "VALID", 3, 3}, {9, 6, 3, 3, 2, 1, "EXPLICIT", 5, 7}};

struct Pooled {
  Pooled(const Window& w, bool first, int64_t batch, int64_t channels) {
    const auto list = [first](int64_t y, int64_t x) {
      return first ? std::vector<int64_t>{1, 1, y, x} : std::vector<int64_t>{1, y, x, 1};
    };
    attributes = {{"data_format", std::string(first ? "NCHW" : "NHWC")}, {"padding", std::string(w.padding)},
                  {"ksize", list(w.size_y, w.size_x)}, {"strides", list(w.stride_y, w.stride_x)}};
    if (w.padding[0] == 'E') {
      attributes["explicit_paddings"] =
          first ? std::vector<int64_t>{0, 0, 0, 0, 1, 1, 2, 1} : std::vector<int64_t>{0, 0, 1, 1, 2, 1, 0, 0};
    }
    image = first ? Dimensions{batch, channels, w.height, w.width} : Dimensions{batch, w.height, w.width, channels};
    result = first ? Dimensions{batch, channels, w.out_height, w.out_width}
                   : Dimensions{batch, w.out_height, w.out_width, channels};
  }
  Attributes attributes;
  Dimensions image, result;
};
const Dimensions kBatches[] = {{2, 3}, {1, 33}, {0, 2}, {3, 1}};

TEST(Pool, OfMaximaAndTheirGradientsIsTheCpus) {
  Bench bench;
  for (const Window& w : kWindows) {
    for (const Dimensions& batch : kBatches) {
      for (const bool first : {false, true}) {
        const Pooled pooled(w, first, batch[0], batch[1]);
        for (const uint32_t dtype : kNumberTypes) {
          // Whole numbers of a few values: many maxima are equal.
          const auto values = [&](const Dimensions& dims, uint32_t seed) {
            std::vector<float> whole = Values<float>(RandomFloatsOf(dims, seed, -3, 3));
            for (float& x : whole) x = std::round(x);
            return ValuesOf(dtype, Floats(dims, whole));
          };
          const Tensor image = values(pooled.image, 3), d_result = values(pooled.result, 4),
                       d_image = values(pooled.image, 5);
          const DeviceCase pool = {"MaxPool", pooled.attributes, {image}, {{dtype, pooled.result}}};
          EXPECT_EQ(Compare(bench, pool, 0), "") << dtype << w.padding;
          std::vector<Tensor> result;
          ASSERT_EQ(bench.OnCpu(pool, &result), "");
          EXPECT_EQ(
              Compare(bench, {"MaxPoolGrad", pooled.attributes, {image, result[0], d_result}, {{dtype, pooled.image}}},
                      0),
              "")
              << dtype << w.padding;
          EXPECT_EQ(
              Compare(bench,
                      {"MaxPoolGradGrad", pooled.attributes, {image, result[0], d_image}, {{dtype, pooled.result}}}, 0),
              "")
              << dtype << w.padding;
        }
      }
    }
  }
}

TEST(Pool, PassesOverNanAsTheCpuDoes) {
  Bench bench;
  const Pooled pooled({2, 8, 2, 2, 2, 2, "VALID", 1, 4}, false, 1, 1);
  const Tensor image = Floats(
      pooled.image, {kNan, 1, kNan, kNan, -kInfinity, kNan, 2, 2, 1, kNan, kNan, kNan, kNan, -kInfinity, 2, kInfinity});
  const DeviceCase pool = {"MaxPool", pooled.attributes, {image}, {{TENON_DT_FLOAT, pooled.result}}};
  EXPECT_EQ(Compare(bench, pool, 0), "");
  std::vector<Tensor> result;
  ASSERT_EQ(bench.OnDevice(pool, &result), "");
  EXPECT_EQ(Values<float>(result[0])[1], std::numeric_limits<float>::lowest());
  EXPECT_EQ(Compare(bench,
                    {"MaxPoolGrad",
                     pooled.attributes,
                     {image, result[0], Floats(pooled.result, {1, 2, 3, 4})},
                     {{TENON_DT_FLOAT, pooled.image}}},
                    0),
            "");
  // A result that is none of the window's: nothing goes back.
  EXPECT_EQ(Compare(bench,
                    {"MaxPoolGrad",
                     pooled.attributes,
                     {image, Floats(pooled.result, {9, 9, 9, 9}), Floats(pooled.result, {1, 2, 3, 4})},
                     {{TENON_DT_FLOAT, pooled.image}}},
                    0),
            "");
}

TEST(Pool, OfAveragesAndTheirGradientIsTheCpus) {
  Bench bench;
  for (const Window& w : kWindows) {
    if (w.padding[0] == 'E') continue;  // which AvgPool does not have
    for (const Dimensions& batch : kBatches) {
      for (const bool first : {false, true}) {
        const Pooled pooled(w, first, batch[0], batch[1]);
        for (const uint32_t dtype : kFloatTypes) {
          const Tensor image = ValuesOf(dtype, RandomFloatsOf(pooled.image, 3)),
                       d_result = ValuesOf(dtype, RandomFloatsOf(pooled.result, 4));
          EXPECT_EQ(Compare(bench, {"AvgPool", pooled.attributes, {image}, {{dtype, pooled.result}}},
                            ToleranceOf(dtype, 1e-6)),
                    "")
              << dtype << w.padding;
          Attributes attributes = pooled.attributes;
          attributes["T"] = Type{dtype};
          const Tensor shape = Ints({pooled.image.begin(), pooled.image.end()});
          EXPECT_EQ(Compare(bench, {"AvgPoolGrad", attributes, {shape, d_result}, {{dtype, pooled.image}}, {0}},
                            ToleranceOf(dtype, 1e-6)),
                    "")
              << dtype << w.padding;
        }
      }
    }
  }
}

TEST(Pool, RefusesWhatDoesNotFit) {
  Bench bench;
  std::vector<Tensor> out;
  const Pooled pooled({4, 4, 2, 2, 2, 2, "VALID", 2, 2}, false, 1, 1);
  EXPECT_EQ(bench.OnDevice(
                {"MaxPool", pooled.attributes, {RandomFloatsOf(pooled.image)}, {{TENON_DT_FLOAT, {1, 3, 2, 1}}}}, &out),
            "INVALID_ARGUMENT: a window of 2 with stride 2 over 4 cells gives 2 cells; the tensor has 3");
  EXPECT_EQ(bench.OnDevice({"MaxPoolGrad",
                            pooled.attributes,
                            {RandomFloatsOf(pooled.image), RandomFloatsOf(pooled.result), RandomFloatsOf({3})},
                            {{TENON_DT_FLOAT, pooled.image}}},
                           &out),
            "INVALID_ARGUMENT: a gradient of shape [3] for a result of shape [1,2,2,1]");
}

}  // namespace
}  // namespace tenon::device_test
