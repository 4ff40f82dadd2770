// SPDX-License-Identifier: Apache-2.0
// Products and convolutions that go to NVIDIA's libraries: emulated GPUs, and emulated libraries with the functions of the real ones
// (emulation/). The products and convolutions of devices/gpu are tested in this program too: each compares with the CPU's kernels.
#include <cmath>

#include "tests/device/values.h"

namespace tenon::device_test {

constexpr char kLibraries[] = TENON_TEST_BUILD_DIR "/tests/plugins/libraries";
const Settings kBenchSettings = {{"devices", "1"}, {"cache", "off"}, {"libraries", kLibraries}};

namespace {

Settings With(std::string_view libraries) { return {{"devices", "1"}, {"cache", "off"}, {"libraries", std::string(libraries)}}; }

// The emulated libraries add up doubles, our kernels floats: the numbers say who it was.
double WorstOf(const Settings& settings, const Case& given, const std::vector<double>& exact) {
  Bench bench(settings, 0);
  std::vector<Value> out;
  EXPECT_EQ(bench.OnDevice(given, &out), "");
  if (out.size() != 1) return INFINITY;
  const std::vector<double> got = out[0].Numbers();
  double worst = 0;
  for (size_t i = 0; i < exact.size(); ++i) worst = std::max(worst, std::abs(got[i] - exact[i]) / std::abs(exact[i]));
  return worst;
}
constexpr double kRounding = 6e-8;  // of one float

constexpr int64_t kDepth = 5000;
Case LongProduct(uint32_t precision) {
  Case given = {"MatMul", {{"transpose_a", false}, {"transpose_b", false}}, {RandomFloatsOf({1, kDepth}, 1, 0.5f, 1), RandomFloatsOf({kDepth, 1}, 2, 0.5f, 1)},
                {{TENON_DT_FLOAT, {1, 1}}}};
  given.precision = precision;
  return given;
}
Case LongConvolution(uint32_t precision) {
  Case given = {"Conv2D",
                {{"data_format", std::string("NHWC")}, {"padding", std::string("VALID")}, {"T", Type{TENON_DT_FLOAT}}, {"strides", std::vector<int64_t>{1, 1, 1, 1}},
                 {"dilations", std::vector<int64_t>{1, 1, 1, 1}}},
                {RandomFloatsOf({1, 5, 5, kDepth / 25}, 1, 0.5f, 1), RandomFloatsOf({5, 5, kDepth / 25, 1}, 2, 0.5f, 1)},
                {{TENON_DT_FLOAT, {1, 1, 1, 1}}}};
  given.precision = precision;
  return given;
}
// Both are the sum of these products.
std::vector<double> Exact(const Case& given) {
  const std::vector<double> left = given.inputs[0].Numbers(), right = given.inputs[1].Numbers();
  double sum = 0;
  for (size_t i = 0; i < left.size(); ++i) sum += left[i] * right[i];
  return {sum};
}

TEST(Libraries, ComputeWhereTheyAre) {
  for (const Case& given : {LongProduct(TENON_PRECISION_STRICT), LongConvolution(TENON_PRECISION_STRICT)}) {
    EXPECT_LT(WorstOf(With(kLibraries), given, Exact(given)), kRounding) << given.op;
    EXPECT_GT(WorstOf(With("off"), given, Exact(given)), kRounding) << given.op << ": our kernels add up floats, or this test tells nothing";
  }
}

TEST(Libraries, MayBeMissing) {
  for (const Case& given : {LongProduct(TENON_PRECISION_STRICT), LongConvolution(TENON_PRECISION_STRICT)}) {
    EXPECT_LT(WorstOf(With("/nowhere"), given, Exact(given)), 1e-5) << given.op;
  }
}

// Rounding inputs of about 1 to TF32 changes each product by up to 2^-11 of itself.
TEST(Libraries, RoundFloatsWhenThePolicyAllowsItAndNotOtherwise) {
  for (const auto& make : {&LongProduct, &LongConvolution}) {
    const Case strict = make(TENON_PRECISION_STRICT);
    const std::vector<double> exact = Exact(strict);
    for (uint32_t precision : {TENON_PRECISION_ALLOW_TF32, TENON_PRECISION_ALLOW_BFLOAT16}) {
      const double off = WorstOf(With(kLibraries), make(precision), exact);
      EXPECT_GT(off, kRounding) << strict.op << " under policy " << precision;
      EXPECT_LT(off, precision == TENON_PRECISION_ALLOW_TF32 ? 1e-4 : 1e-3) << strict.op << " under policy " << precision;
    }
  }
}

TEST(Libraries, AreNotGivenOperandsThatAreNotAligned) {
  // The second matrix of 3 by 3 halves begins at byte 18.
  Case given = {"BatchMatMulV2", {{"adj_x", false}, {"adj_y", true}, {"T", Type{TENON_DT_HALF}}}, {RandomOf(TENON_DT_HALF, {5, 3, 3}, 1), RandomOf(TENON_DT_HALF, {5, 3, 3}, 2)},
                {{TENON_DT_HALF, {5, 3, 3}}}};
  Bench bench(With(kLibraries), 0);
  EXPECT_EQ(Compare(bench, given, 1e-3), "");
}

TEST(Libraries, AreLookedForInAFolderOrNot) {
  tenon_plugin_self* self = nullptr;
  EXPECT_EQ(Text(Load({{"libraries", "here"}}, &self)), "INVALID_ARGUMENT: option libraries is 'here'; it may be auto, off, or an absolute path");
}

}  // namespace
}  // namespace tenon::device_test
