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

}  // namespace
}  // namespace tenon::device_test
