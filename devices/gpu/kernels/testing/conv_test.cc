// SPDX-License-Identifier: Apache-2.0
// Convolutions of the GPU plugins against the CPU's, on the emulated grid.
#include "tests/device/tested.h"

namespace tenon::device_test {
namespace {

struct Window {
  Dimensions image, filter, result;
  std::array<int64_t, 2> strides, dilations;
  const char* padding;
  const char* format = "NHWC";
  std::vector<int64_t> pads = {};  // before and after, of height and width
};

Attributes AttributesOf(const Window& w, uint32_t dtype) {
  const bool first = std::string_view(w.format) == "NCHW";
  const auto spatial = [&](std::array<int64_t, 2> a) {
    return first ? std::vector<int64_t>{1, 1, a[0], a[1]} : std::vector<int64_t>{1, a[0], a[1], 1};
  };
  Attributes out = {{"data_format", std::string(w.format)}, {"padding", std::string(w.padding)}, {"T", Type{dtype}}};
  out["strides"] = spatial(w.strides);
  out["dilations"] = spatial(w.dilations);
  if (!w.pads.empty()) {
    std::vector<int64_t> pads(8);
    std::copy(w.pads.begin(), w.pads.end(), pads.begin() + (first ? 4 : 2));
    out["explicit_paddings"] = pads;
  }
  return out;
}
Tensor SizesOf(const Dimensions& dims) { return Ints({dims.begin(), dims.end()}); }
double ToleranceOf(uint32_t dtype) {
  return dtype == TENON_DT_FLOAT      ? 3e-6
         : dtype == TENON_DT_DOUBLE   ? 1e-14
         : dtype == TENON_DT_HALF     ? 1e-3
         : dtype == TENON_DT_BFLOAT16 ? 8e-3
                                      : 0;
}

// MIOpen gives them rounded.
constexpr double kFilterSumsTolerance = std::string_view(TENON_TESTED_PLUGIN).ends_with("_rocm.so") ? 8e-3 : 1e-5;

// prefix: "Conv2D" or "DepthwiseConv2dNative".
void ExpectTheCpus(Bench& bench, const std::string& prefix, const Window& w, uint32_t dtype) {
  const Attributes attributes = AttributesOf(w, dtype);
  const double tolerance = ToleranceOf(dtype);
  const Tensor image = ValuesOf(dtype, RandomFloatsOf(w.image, 1), 100),
               filter = ValuesOf(dtype, RandomFloatsOf(w.filter, 2), 100),
               result = ValuesOf(dtype, RandomFloatsOf(w.result, 3), 100);
  const std::string where = std::string(w.format) + " " + w.padding + " " + ::testing::PrintToString(w.image) +
                            " of dtype " + std::to_string(dtype);
  EXPECT_EQ(Compare(bench, {prefix, attributes, {image, filter}, {{dtype, w.result}}}, tolerance), "") << where;
  EXPECT_EQ(Compare(bench,
                    {prefix + "BackpropInput", attributes, {SizesOf(w.image), filter, result}, {{dtype, w.image}}, {0}},
                    tolerance),
            "")
      << where;
  EXPECT_EQ(
      Compare(bench,
              {prefix + "BackpropFilter", attributes, {image, SizesOf(w.filter), result}, {{dtype, w.filter}}, {1}},
              tolerance),
      "")
      << where;
  if ((dtype == TENON_DT_HALF || dtype == TENON_DT_BFLOAT16) && prefix == "Conv2D") {
    EXPECT_EQ(Compare(bench,
                      {"Tenon>Conv2DBackpropFilterSums",
                       attributes,
                       {image, SizesOf(w.filter), result},
                       {{TENON_DT_FLOAT, w.filter}},
                       {1}},
                      kFilterSumsTolerance),
              "")
        << where;
  }
}

Window ChannelsFirst(Window w) {
  for (Dimensions* dims : {&w.image, &w.result}) *dims = {(*dims)[0], (*dims)[3], (*dims)[1], (*dims)[2]};
  w.format = "NCHW";
  return w;
}

constexpr uint32_t kTypes[] = {TENON_DT_FLOAT, TENON_DT_DOUBLE, TENON_DT_HALF, TENON_DT_BFLOAT16, TENON_DT_INT32};

TEST(GpuConvolution, AndItsGradientsAreTheCpus) {
  Bench bench;
  const Window windows[] = {
      {{2, 8, 8, 3}, {3, 3, 3, 5}, {2, 8, 8, 5}, {1, 1}, {1, 1}, "SAME"},
      {{1, 9, 7, 2}, {3, 2, 2, 4}, {1, 4, 3, 4}, {2, 2}, {1, 1}, "VALID"},
      {{3, 5, 5, 1}, {1, 1, 1, 2}, {3, 5, 5, 2}, {1, 1}, {1, 1}, "VALID"},     // single pixels
      {{2, 4, 6, 8}, {1, 1, 8, 12}, {2, 4, 6, 12}, {1, 1}, {1, 1}, "SAME"},
      {{3, 5, 5, 3}, {1, 1, 3, 2}, {3, 3, 3, 2}, {2, 2}, {1, 1}, "SAME"},      // single pixels, not all
      {{2, 9, 9, 4}, {3, 3, 2, 6}, {2, 5, 5, 6}, {2, 2}, {1, 1}, "SAME"},      // two groups
      {{2, 5, 6, 8}, {3, 3, 4, 8}, {2, 5, 6, 8}, {1, 1}, {1, 1}, "SAME"},      // two groups, in fours
      {{2, 5, 6, 4}, {1, 1, 2, 4}, {2, 5, 6, 4}, {1, 1}, {1, 1}, "SAME"},
      {{1, 9, 9, 2}, {3, 3, 2, 3}, {1, 5, 5, 3}, {1, 1}, {2, 2}, "VALID"},     // dilated
      {{1, 11, 8, 4}, {2, 3, 4, 4}, {1, 4, 4, 4}, {3, 2}, {2, 1}, "SAME"},     // all different
      {{2, 6, 5, 3}, {3, 2, 3, 4}, {2, 4, 8, 4}, {2, 1}, {1, 1}, "EXPLICIT", "NHWC", {1, 2, 0, 4}},
      {{0, 8, 8, 2}, {3, 3, 2, 3}, {0, 8, 8, 3}, {1, 1}, {1, 1}, "SAME"},
      {{2, 2, 8, 2}, {3, 3, 2, 3}, {2, 0, 6, 3}, {1, 1}, {1, 1}, "VALID"},     // no window fits
  };
  for (const Window& w : windows) {
    for (const uint32_t dtype : kTypes) {
      ExpectTheCpus(bench, "Conv2D", w, dtype);
      ExpectTheCpus(bench, "Conv2D", ChannelsFirst(w), dtype);
    }
  }
}

TEST(GpuConvolution, OfLargeTilesAndSplitDepthsIsTheCpus) {
  Bench bench;
  const Window windows[] = {{{2, 12, 12, 68}, {3, 3, 68, 72}, {2, 12, 12, 72}, {1, 1}, {1, 1}, "SAME"},
                            {{3, 9, 9, 65}, {2, 2, 65, 66}, {3, 5, 5, 66}, {2, 2}, {1, 1}, "SAME"},
                            {{5, 16, 16, 2}, {3, 3, 2, 3}, {5, 16, 16, 3}, {1, 1}, {1, 1}, "SAME"}};
  for (const Window& w : windows) {
    for (const uint32_t dtype : {TENON_DT_FLOAT, TENON_DT_BFLOAT16}) {
      ExpectTheCpus(bench, "Conv2D", w, dtype);
      ExpectTheCpus(bench, "Conv2D", ChannelsFirst(w), dtype);
    }
  }
}

TEST(GpuConvolution, OfEachChannelAloneIsTheCpus) {
  Bench bench;
  const Window windows[] = {
      {{2, 8, 7, 3}, {3, 3, 3, 1}, {2, 8, 7, 3}, {1, 1}, {1, 1}, "SAME"},
      {{2, 9, 8, 2}, {2, 3, 2, 4}, {2, 4, 3, 8}, {2, 2}, {1, 1}, "VALID"},
      {{3, 16, 16, 33}, {3, 2, 33, 1}, {3, 8, 8, 33}, {2, 2}, {1, 1}, "SAME"},
      {{1, 6, 5, 3}, {3, 2, 3, 2}, {1, 7, 8, 6}, {1, 1}, {1, 1}, "EXPLICIT", "NHWC", {1, 2, 0, 4}},
      {{0, 8, 8, 2}, {3, 3, 2, 1}, {0, 8, 8, 2}, {1, 1}, {1, 1}, "SAME"}};
  for (const Window& w : windows) {
    for (const uint32_t dtype : {TENON_DT_FLOAT, TENON_DT_DOUBLE, TENON_DT_HALF, TENON_DT_BFLOAT16})
      ExpectTheCpus(bench, "DepthwiseConv2dNative", w, dtype);
  }
}

TEST(GpuConvolution, RefusesShapesThatDoNotFit) {
  Bench bench;
  std::vector<Tensor> out;
  const Window w = {{2, 8, 8, 3}, {3, 3, 2, 5}, {2, 8, 8, 5}, {1, 1}, {1, 1}, "SAME"};
  const std::string text = bench.OnDevice({"Conv2D",
                                           AttributesOf(w, TENON_DT_FLOAT),
                                           {RandomFloatsOf(w.image), RandomFloatsOf(w.filter)},
                                           {{TENON_DT_FLOAT, w.result}}},
                                          &out);
  EXPECT_EQ(text, "INVALID_ARGUMENT: a filter of shape [3,3,2,5] does not fit images of 3 channels");
}

}  // namespace
}  // namespace tenon::device_test
