// SPDX-License-Identifier: Apache-2.0
// The precision policy with NVIDIA's libraries, on emulated ones. Covers N4.
#include "tests/device/libraries.h"

namespace tenon::device_test {
namespace {

// Rounding inputs of about 1 to TF32 changes each product by up to 2^-11 of itself.
TEST(Libraries, RoundFloatsWhenThePolicyAllowsItAndNotOtherwise) {
  for (const auto& make : {&LongProduct, &LongConvolution}) {
    const DeviceCase strict = make(TENON_PRECISION_STRICT);
    const std::vector<double> exact = Exact(strict);
    for (uint32_t precision : {TENON_PRECISION_ALLOW_TF32, TENON_PRECISION_ALLOW_BFLOAT16, TENON_PRECISION_ALLOW_FLOAT16}) {
      const double off = WorstOf(With(kLibraries), make(precision), exact);
      EXPECT_GT(off, kRounding) << strict.op << " under policy " << precision;
      EXPECT_LT(off, precision == TENON_PRECISION_ALLOW_BFLOAT16 ? 1e-3 : 1e-4) << strict.op << " under policy " << precision;
    }
  }
}

}  // namespace
}  // namespace tenon::device_test
