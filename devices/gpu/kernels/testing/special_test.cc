// SPDX-License-Identifier: Apache-2.0
// Special functions of the GPU plugins, which are computed in double, against the CPU's, on the emulated grid. Covers
// E11.
#include <limits>

#include "tests/device/tested.h"

namespace tenon::device_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

// Relative to the largest: the CPU computes floats as floats. Of doubles both round as they go.
double Close(uint32_t dtype) { return ToleranceOf(dtype, dtype == TENON_DT_DOUBLE ? 1e-13 : 1e-6); }

struct Range {
  const char* op;
  float low, high;
};

TEST(Special, FunctionsOfOneTensorAreTheCpus) {
  Bench bench;
  const Range ranges[] = {
      {"Lgamma", 0.1f, 30},      {"Lgamma", -3.9f, -3.1f},  {"Digamma", 0.1f, 30},     {"Digamma", -3.9f, -3.1f},
      {"Ndtri", 0.001f, 0.999f}, {"Ndtri", 1e-30f, 1e-10f}, {"Erfinv", -0.99f, 0.99f}, {"Erfinv", -1e-6f, 1e-6f},
      {"Dawsn", -20, 20},        {"Expint", 0.01f, 5},      {"Expint", 0.3f, 0.45f},   {"Spence", 0, 9},
      {"FresnelSin", -9, 9},     {"FresnelCos", -9, 9},     {"BesselI0", -9, 9},       {"BesselI0e", -90, 90},
      {"BesselI1", -9, 9},       {"BesselI1e", -90, 90},    {"BesselJ0", -9, 9},       {"BesselJ1", -9, 9},
      {"BesselY0", 0.1f, 9},     {"BesselY1", 0.1f, 9},     {"BesselK0", 0.1f, 30},    {"BesselK0e", 0.1f, 2.5f},
      {"BesselK0e", 2, 90},      {"BesselK1", 0.1f, 30},    {"BesselK1e", 0.1f, 2.5f}, {"BesselK1e", 2, 90}};
  for (const uint32_t dtype : kFloatTypes) {
    for (const Range& range : ranges) {
      if (range.high < 1e-3f && dtype != TENON_DT_DOUBLE && dtype != TENON_DT_FLOAT) continue;  // no such halves
      const Tensor x = ValuesOf(dtype, RandomFloatsOf({331}, 5, range.low, range.high));
      EXPECT_EQ(Compare(bench, {range.op, {}, {x}, {{dtype, {331}}}}, Close(dtype)), "")
          << range.op << " of dtype " << dtype << " from " << range.low;
    }
    const Tensor edges = ValuesOf(dtype, Floats({9}, {0, -0.0f, 1, -1, -2, 2, kNan, -0.5f, 0.5f}));
    for (const Range& range : ranges)
      EXPECT_EQ(Compare(bench, {range.op, {}, {edges}, {{dtype, {9}}}}, Close(dtype)), "")
          << range.op << " of dtype " << dtype;
  }
}

TEST(Special, FunctionsOfTwoTensorsAreTheCpus) {
  Bench bench;
  for (const uint32_t dtype : kFloatTypes) {
    const Tensor a = ValuesOf(dtype, RandomFloatsOf({37}, 1, 0.1f, 12)),
                 x = ValuesOf(dtype, RandomFloatsOf({9, 37}, 2, 0, 15));
    const Tensor edges = ValuesOf(dtype, Floats({7}, {0, 1, -1, 2, kNan, 0.5f, 3})),
                 column = ValuesOf(dtype, Floats({7, 1}, {0, 1, -1, 2, kNan, 0.5f, 3}));
    std::vector<const char*> ops = {"Igamma", "Igammac"};
    if (dtype == TENON_DT_FLOAT || dtype == TENON_DT_DOUBLE) ops.insert(ops.end(), {"IgammaGradA", "RandomGammaGrad"});
    for (const char* op : ops) {
      EXPECT_EQ(Compare(bench, {op, {}, {a, x}, {{dtype, {9, 37}}}}, 10 * Close(dtype)), "") << op << dtype;
      EXPECT_EQ(Compare(bench, {op, {}, {column, edges}, {{dtype, {7, 7}}}}, 10 * Close(dtype)), "") << op << dtype;
    }
  }
  for (const uint32_t dtype : {TENON_DT_FLOAT, TENON_DT_DOUBLE}) {
    const Tensor order = ValuesOf(dtype, Floats({5, 1}, {0, 1, 2, 3, 7})),
                 x = ValuesOf(dtype, RandomFloatsOf({61}, 3, 0.6f, 20));
    const Tensor edges = ValuesOf(dtype, Floats({9}, {0, -1, -2, 1, kNan, -0.5f, 0.5f, kInfinity, -3.25f}));
    EXPECT_EQ(Compare(bench, {"Polygamma", {}, {order, x}, {{dtype, {5, 61}}}}, 10 * Close(dtype)), "");
    EXPECT_EQ(Compare(bench, {"Polygamma", {}, {order, edges}, {{dtype, {5, 9}}}}, 10 * Close(dtype)), "");
    const Tensor s = ValuesOf(dtype, Floats({5, 1}, {1, 1.5f, 2, 3, 0.5f}));
    EXPECT_EQ(Compare(bench, {"Zeta", {}, {s, x}, {{dtype, {5, 61}}}}, 10 * Close(dtype)), "");
    EXPECT_EQ(Compare(bench, {"Zeta", {}, {s, edges}, {{dtype, {5, 9}}}}, 10 * Close(dtype)), "");
  }
  // A sum over ever so many numbers below 0 ends all the same.
  std::vector<Tensor> out;
  EXPECT_EQ(
      bench.OnDevice({"Zeta", {}, {Make<double>({}, {2}), Make<double>({1}, {-1e12 + 0.5})}, {{TENON_DT_DOUBLE, {1}}}},
                     &out),
      "");
  EXPECT_NEAR(Values<double>(out.at(0))[0], 9.8696044, 1e-6);
}

TEST(Special, TheIncompleteBetaIntegralIsTheCpus) {
  Bench bench;
  for (const uint32_t dtype : {TENON_DT_FLOAT, TENON_DT_DOUBLE}) {
    const Tensor a = ValuesOf(dtype, RandomFloatsOf({200}, 1, 0.1f, 12)),
                 b = ValuesOf(dtype, RandomFloatsOf({200}, 2, 0.1f, 12));
    const Tensor x = ValuesOf(dtype, RandomFloatsOf({200}, 3, 0, 1)), one = ValuesOf(dtype, Floats({}, {0.75f}));
    EXPECT_EQ(Compare(bench, {"Betainc", {}, {a, b, x}, {{dtype, {200}}}}, 10 * Close(dtype)), "");
    EXPECT_EQ(Compare(bench, {"Betainc", {}, {a, one, x}, {{dtype, {200}}}}, 10 * Close(dtype)), "");
    const Tensor edges = ValuesOf(dtype, Floats({6}, {0, 1, -1, 2, kNan, 0.5f}));
    EXPECT_EQ(Compare(bench, {"Betainc", {}, {one, one, edges}, {{dtype, {6}}}}, 10 * Close(dtype)), "");
    EXPECT_EQ(Compare(bench, {"Betainc", {}, {edges, one, one}, {{dtype, {6}}}}, 10 * Close(dtype)), "");
  }
  std::vector<Tensor> out;
  EXPECT_EQ(
      bench.OnDevice(
          {"Betainc", {}, {Floats({2}, {1, 2}), Floats({}, {1}), Floats({3}, {0, 0, 0})}, {{TENON_DT_FLOAT, {3}}}},
          &out),
      "INVALID_ARGUMENT: input 0 of shape [2] is no scalar, and does not have the shape [3]");
}

}  // namespace
}  // namespace tenon::device_test
