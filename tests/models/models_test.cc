// SPDX-License-Identifier: Apache-2.0
// Tiny networks that TensorFlow built: what they infer, and loss and variables after one, five and twenty steps. Covers
// L10, P11, P15, R8.
#include <gtest/gtest.h>

#include <fstream>

#include "tests/device/gpu.h"
#include "tests/golden/replay.h"

namespace tenon::golden {
namespace {

void ReplayWith(Kernels kernels, const Manner& manner = {}) {
  if (const std::string why = device_test::WhyNoGpu(); kernels == Kernels::kGpu && !why.empty()) GTEST_SKIP() << why;
  SayCaseOnCrash();
  const auto runtime = MakeRuntime(kernels);
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  std::ifstream text(TENON_TEST_SOURCE_DIR "/tests/models/small.jsonl");
  const Tally tally =
      ReplayAll(*runtime, text, Differences::Read(TENON_TEST_SOURCE_DIR "/tests/golden/differences.json"), manner);
  EXPECT_EQ(tally.cases, 5u);
  for (const std::string& failure : tally.failures) ADD_FAILURE() << failure;
}

TEST(Models, InferAndLearnAsInTensorFlow) { ReplayWith(Kernels::kAll); }
TEST(Models, InferAndLearnAsInTensorFlowWithPlainKernelsAlone) { ReplayWith(Kernels::kPlain); }
TEST(Models, InferAndLearnAsInTensorFlowWithOneDnnAtAnySize) { ReplayWith(Kernels::kOneDnnAlways); }
TEST(Models, InferAndLearnAsInTensorFlowOnAGpu) { ReplayWith(Kernels::kGpu, {.device = device_test::kGpu}); }
TEST(Models, InferAndLearnAsInTensorFlowInGraphsAsTheyStand) { ReplayWith(Kernels::kAll, {.optimize = false}); }

}  // namespace
}  // namespace tenon::golden
