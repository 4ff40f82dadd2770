// SPDX-License-Identifier: Apache-2.0
// LRN and LRNGrad of the GPU plugins against the CPU's, on the emulated grid.
#include "tests/device/tested.h"

namespace tenon::device_test {
namespace {

TEST(Lrn, AndItsGradientAreTheCpus) {
  Bench bench;
  for (const Dimensions& dims :
       {Dimensions{2, 3, 4, 7}, Dimensions{1, 1, 2, 70}, Dimensions{1, 2, 1, 1}, Dimensions{0, 2, 2, 3}}) {
    for (const float beta : {0.5f, 1.0f, 0.75f}) {
      for (const int64_t radius : {0, 2, 5, 100}) {
        const Attributes attributes = {{"depth_radius", radius}, {"bias", 2.0f}, {"alpha", 0.5f}, {"beta", beta}};
        for (const uint32_t dtype : {TENON_DT_FLOAT, TENON_DT_HALF}) {
          const Tensor x = ValuesOf(dtype, RandomFloatsOf(dims, 1, -2, 2)),
                       dy = ValuesOf(dtype, RandomFloatsOf(dims, 2));
          const DeviceCase lrn = {"LRN", attributes, {x}, {{dtype, dims}}};
          EXPECT_EQ(Compare(bench, lrn, ToleranceOf(dtype, 2e-6)), "") << beta << " " << radius;
          std::vector<Tensor> y;
          ASSERT_EQ(bench.OnCpu(lrn, &y), "");
          EXPECT_EQ(Compare(bench, {"LRNGrad", attributes, {dy, x, y[0]}, {{dtype, dims}}}, ToleranceOf(dtype, 5e-6)),
                    "")
              << beta << " " << radius;
        }
      }
    }
  }
  std::vector<Tensor> out;
  const Attributes attributes = {{"depth_radius", int64_t{1}}, {"bias", 2.0f}, {"alpha", 0.5f}, {"beta", 1.0f}};
  EXPECT_EQ(bench.OnDevice({"LRN", attributes, {RandomFloatsOf({2, 3})}, {{TENON_DT_FLOAT, {2, 3}}}}, &out),
            "INVALID_ARGUMENT: images need 4 dims; the shape is [2,3]");
}

}  // namespace
}  // namespace tenon::device_test
