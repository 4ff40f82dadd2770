// SPDX-License-Identifier: Apache-2.0
// Element-wise kernels of the GPU plugins against the CPU's, on the emulated grid. Covers E11.
#include <limits>

#include "tests/device/tested.h"

namespace tenon::device_test {

const Settings kBenchSettings = {};

namespace {

TEST(Elementwise, OfOneTensorIsTheCpus) {
  Bench bench;
  EXPECT_EQ(Compare(bench, {"Square", {}, {RandomFloatsOf({7, 13})}, {{TENON_DT_FLOAT, {7, 13}}}}, 0), "");
}

struct OfOne {
  const char* op;
  float low, high;
};
TEST(Elementwise, CurvesAndActivationsAreTheCpus) {
  Bench bench;
  const OfOne ops[] = {{"Tan", -1.5f, 1.5f},     {"Asin", -1, 1}, {"Acos", -1, 1},    {"Atan", -9, 9},
                       {"Sinh", -5, 5},          {"Cosh", -5, 5}, {"Asinh", -9, 9},   {"Acosh", 1, 9},
                       {"Atanh", -0.99f, 0.99f}, {"Selu", -5, 5}, {"Softsign", -5, 5}};
  for (const uint32_t dtype : kFloatTypes) {
    for (const OfOne& each : ops) {
      const Tensor x = ValuesOf(dtype, RandomFloatsOf({3, 171}, 7, each.low, each.high));
      EXPECT_EQ(Compare(bench, {each.op, {}, {x}, {{dtype, {3, 171}}}},
                        ToleranceOf(dtype, dtype == TENON_DT_DOUBLE ? 1e-15 : 3e-7)),
                "")
          << each.op << dtype;
    }
    for (const char* op : {"SeluGrad", "SoftsignGrad", "Atan2", "Xlog1py", "TruncateMod"}) {
      const bool gradient = std::string_view(op).ends_with("Grad");  // of one shape
      const Dimensions second = gradient ? Dimensions{5, 67} : Dimensions{67};
      const Tensor x = ValuesOf(dtype, RandomFloatsOf({5, 67}, 8, -0.9f, 2)),
                   y = ValuesOf(dtype, RandomFloatsOf(second, 9, -0.9f, 2));
      EXPECT_EQ(Compare(bench, {op, {}, {x, y}, {{dtype, {5, 67}}}},
                        ToleranceOf(dtype, dtype == TENON_DT_DOUBLE ? 1e-15 : 3e-7)),
                "")
          << op << dtype;
    }
  }
}

TEST(Elementwise, ClippedAndNextNumbersAreTheCpus) {
  Bench bench;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const uint32_t dtype : kNumberTypes) {
    const Tensor x = ValuesOf(dtype, RandomFloatsOf({4, 67}, 3, -1, 1), 100),
                 all = ValuesOf(dtype, RandomFloatsOf({4, 67}, 4, -1, 1), 100);
    const Tensor low = ValuesOf(dtype, Floats({}, {-0.5f}), 100), high = ValuesOf(dtype, Floats({}, {0.25f}), 100);
    for (const auto& [least, most] :
         {std::pair(low, high), std::pair(high, low), std::pair(all, high), std::pair(low, all)}) {
      EXPECT_EQ(Compare(bench, {"ClipByValue", {}, {x, least, most}, {{dtype, {4, 67}}}}, 0), "") << dtype;
    }
  }
  EXPECT_EQ(Compare(bench,
                    {"ClipByValue",
                     {},
                     {Floats({3}, {nan, 1, 9}), Floats({}, {nan}), Floats({3}, {1, nan, 4})},
                     {{TENON_DT_FLOAT, {3}}}},
                    0),
            "");
  std::vector<Tensor> out;
  EXPECT_EQ(
      bench.OnDevice(
          {"ClipByValue", {}, {Floats({3}, {1, 2, 3}), Floats({2}, {1, 2}), Floats({}, {1})}, {{TENON_DT_FLOAT, {3}}}},
          &out),
      "INVALID_ARGUMENT: clip_value_min of shape [2] is no scalar, and does not have t's shape [3]");
  for (const uint32_t dtype : {TENON_DT_FLOAT, TENON_DT_DOUBLE}) {
    const Tensor x = ValuesOf(dtype, Floats({5}, {0, -0.0f, 1, nan, -3})),
                 y = ValuesOf(dtype, Floats({5}, {1, 0, 1, 2, -9}));
    EXPECT_EQ(Same(bench, {"NextAfter", {}, {x, y}, {{dtype, {5}}}}), "");
  }
}

TEST(Elementwise, BitsAreTheCpus) {
  Bench bench;
  for (const uint32_t dtype : {TENON_DT_INT8, TENON_DT_INT16, TENON_DT_INT32, TENON_DT_INT64, TENON_DT_UINT8,
                               TENON_DT_UINT16, TENON_DT_UINT32, TENON_DT_UINT64}) {
    const bool has_sign =
        dtype == TENON_DT_INT8 || dtype == TENON_DT_INT16 || dtype == TENON_DT_INT32 || dtype == TENON_DT_INT64;
    const Tensor x = Numbered(dtype, {3, 41}), y = Numbered(dtype, {41}, 90);
    const Tensor places =
        ValuesOf(dtype, RandomFloatsOf({3, 41}, 6, has_sign ? -1.0f : 0.0f, 1), 90);  // beyond what there is, too
    for (const char* op : {"BitwiseAnd", "BitwiseOr", "BitwiseXor"})
      EXPECT_EQ(Same(bench, {op, {}, {x, y}, {{dtype, {3, 41}}}}), "") << op << dtype;
    for (const char* op : {"LeftShift", "RightShift"}) {
      EXPECT_EQ(Same(bench, {op, {}, {x, places}, {{dtype, {3, 41}}}}), "") << op << dtype;
      EXPECT_EQ(Same(bench, {op, {}, {places, places}, {{dtype, {3, 41}}}}), "") << op << dtype;  // of negative numbers
    }
    EXPECT_EQ(Same(bench, {"Invert", {}, {x}, {{dtype, {3, 41}}}}), "") << dtype;
    EXPECT_EQ(Same(bench, {"PopulationCount", {}, {places}, {{TENON_DT_UINT8, {3, 41}}}}), "") << dtype;
  }
}

}  // namespace
}  // namespace tenon::device_test
