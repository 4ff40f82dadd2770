// SPDX-License-Identifier: Apache-2.0
// The precision policy with NVIDIA's libraries, on emulated ones. Covers N4.
#include <dlfcn.h>

#include <cstdlib>

#include "emulation/element.h"
#include "tests/device/libraries.h"

namespace tenon::device_test {
namespace {

// Rounding inputs of about 1 to TF32 changes each product by up to 2^-11 of itself.
TEST(Libraries, RoundFloatsWhenThePolicyAllowsItAndNotOtherwise) {
  for (const auto& make : {&LongProduct, &LongConvolution}) {
    const DeviceCase strict = make(TENON_PRECISION_STRICT);
    const std::vector<double> exact = Exact(strict);
    for (uint32_t precision :
         {TENON_PRECISION_ALLOW_TF32, TENON_PRECISION_ALLOW_BFLOAT16, TENON_PRECISION_ALLOW_FLOAT16}) {
      const double off = WorstOf(With(kLibraries), make(precision), exact);
      EXPECT_GT(off, kRounding) << strict.op << " under policy " << precision;
      EXPECT_LT(off, precision == TENON_PRECISION_ALLOW_BFLOAT16 ? 1e-3 : 1e-4)
          << strict.op << " under policy " << precision;
    }
  }
}

// Halves are refused for these columns; TF32, which is more exact, is not.
TEST(Libraries, AreAskedAgainInAMoreExactWayForWhatTheyRefuse) {
  for (uint32_t precision : {TENON_PRECISION_ALLOW_BFLOAT16, TENON_PRECISION_ALLOW_FLOAT16}) {
    const DeviceCase given = LongProduct(precision);
    const std::vector<double> left = Numbers(given.inputs[0]), right = Numbers(given.inputs[1]);
    double sum = 0;
    for (size_t i = 0; i < left.size(); ++i) sum += gpu::Rounded(left[i], 10) * gpu::Rounded(right[i], 10);
    EXPECT_LT(WorstOf(With(kLibraries), given, {sum}), kRounding) << "under policy " << precision;
  }
}

// Our kernels compute then, which add up floats.
TEST(Libraries, ThatTellSizesThatCannotBeAreNotUsed) {
  for (const char* lie : {"1", "2"}) {
    setenv("TENON_EMULATED_LIES", lie, 1);
    for (const DeviceCase& given : {LongProduct(TENON_PRECISION_STRICT), LongConvolution(TENON_PRECISION_STRICT)}) {
      if (*lie == '2' && given.op == "Conv2D") continue;
      const double off = WorstOf(With(kLibraries), given, Exact(given));
      EXPECT_GT(off, kRounding) << given.op << ' ' << lie;
      EXPECT_LT(off, 1e-5) << given.op << ' ' << lie;
    }
  }
  unsetenv("TENON_EMULATED_LIES");
}

// One session's, a second session's, a second step's.
TEST(Libraries, PlanAConvolutionOnce) {
  void* const library = dlopen((std::string(kLibraries) + "/" TENON_TESTED_CUDNN).c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto plans = reinterpret_cast<int (*)()>(dlsym(library, "tenon_emulated_cudnn_plans"));
  ASSERT_NE(plans, nullptr);
  const DeviceCase strict = LongConvolution(TENON_PRECISION_STRICT);
  Bench bench(With(kLibraries), 0);
  const int before = plans();
  std::vector<Tensor> first, second;
  EXPECT_EQ(bench.OnDevice(strict, &first), "");
  EXPECT_EQ(plans(), before + 1);
  EXPECT_EQ(bench.OnDevice(strict, &second), "");
  EXPECT_EQ(plans(), before + 1);
  EXPECT_EQ(Numbers(first[0]), Numbers(second[0]));
  EXPECT_EQ(bench.OnDevice(LongConvolution(TENON_PRECISION_ALLOW_TF32), &first), "");
  EXPECT_EQ(plans(), before + 2);
}

}  // namespace
}  // namespace tenon::device_test
