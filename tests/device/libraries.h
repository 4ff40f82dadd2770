// SPDX-License-Identifier: Apache-2.0
// Problems that tell whether an emulated library of a vendor has computed them, or our kernels.
#ifndef TENON_TESTS_DEVICE_LIBRARIES_H_
#define TENON_TESTS_DEVICE_LIBRARIES_H_

#include <cmath>

#include "tests/device/tested.h"

namespace tenon::device_test {

inline constexpr char kLibraries[] = TENON_TEST_BUILD_DIR "/tests/plugins/libraries";
inline Settings With(std::string_view libraries) {
  return {{"devices", "1"}, {"cache", "off"}, {"libraries", std::string(libraries)}};
}

// The emulated libraries add up doubles, our kernels floats: the numbers say who it was.
inline double WorstOf(const Settings& settings, const DeviceCase& given, const std::vector<double>& exact) {
  Bench bench(settings, 0);
  std::vector<Tensor> out;
  EXPECT_EQ(bench.OnDevice(given, &out), "");
  if (out.size() != 1) return INFINITY;
  const std::vector<double> got = Numbers(out[0]);
  double worst = 0;
  for (size_t i = 0; i < exact.size(); ++i) worst = std::max(worst, std::abs(got[i] - exact[i]) / std::abs(exact[i]));
  return worst;
}
inline constexpr double kRounding = 6e-8;  // of one float

inline constexpr int64_t kDepth = 5000;
inline DeviceCase LongProduct(uint32_t precision) {
  DeviceCase given = {"MatMul",
                      {{"transpose_a", false}, {"transpose_b", false}},
                      {RandomFloatsOf({1, kDepth}, 1, 0.5f, 1), RandomFloatsOf({kDepth, 1}, 2, 0.5f, 1)},
                      {{TENON_DT_FLOAT, {1, 1}}}};
  given.precision = precision;
  return given;
}
inline DeviceCase LongConvolution(uint32_t precision) {
  DeviceCase given = {
      "Conv2D",
      {{"data_format", std::string("NHWC")},
       {"padding", std::string("VALID")},
       {"T", Type{TENON_DT_FLOAT}},
       {"strides", std::vector<int64_t>{1, 1, 1, 1}},
       {"dilations", std::vector<int64_t>{1, 1, 1, 1}}},
      {RandomFloatsOf({1, 5, 5, kDepth / 25}, 1, 0.5f, 1), RandomFloatsOf({5, 5, kDepth / 25, 1}, 2, 0.5f, 1)},
      {{TENON_DT_FLOAT, {1, 1, 1, 1}}}};
  given.precision = precision;
  return given;
}
// Both are the sum of these products.
inline std::vector<double> Exact(const DeviceCase& given) {
  const std::vector<double> left = Numbers(given.inputs[0]), right = Numbers(given.inputs[1]);
  double sum = 0;
  for (size_t i = 0; i < left.size(); ++i) sum += left[i] * right[i];
  return {sum};
}

}  // namespace tenon::device_test

#endif  // TENON_TESTS_DEVICE_LIBRARIES_H_
