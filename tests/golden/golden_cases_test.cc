// SPDX-License-Identifier: Apache-2.0
// Every committed case against what TensorFlow computed or refused, with each set of kernels. Covers A8, B1 to B5, B7, B8, B10 to B13, B15 to B19, E8.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/device/gpu.h"
#include "tests/golden/replay.h"

namespace tenon::golden {
namespace {

const std::string kFolder = TENON_TEST_SOURCE_DIR "/tests/golden";

class Cases : public ::testing::TestWithParam<std::string> {
 protected:
  static void ReplayWith(Kernels kernels, const Manner& manner = {}) {
    if (const std::string why = device_test::WhyNoGpu(); kernels == Kernels::kGpu && !why.empty()) GTEST_SKIP() << why;
    SayCaseOnCrash();
    const auto runtime = MakeRuntime(kernels);
    ASSERT_TRUE(runtime.ok()) << runtime.status().message();
    const std::string path = kFolder + "/cases/" + GetParam() + ".jsonl";
    std::ifstream text(path);
    const Tally tally = ReplayAll(*runtime, text, Differences::Read(kFolder + "/differences.json"), manner);
    EXPECT_GT(tally.cases, 10u) << path;
    for (const std::string& failure : tally.failures) ADD_FAILURE() << path << ", " << failure;
  }
};

TEST_P(Cases, AreTensorFlows) { ReplayWith(Kernels::kAll); }
TEST_P(Cases, AreTensorFlowsWithPlainKernelsAlone) { ReplayWith(Kernels::kPlain); }
TEST_P(Cases, AreTensorFlowsWithOneDnnAtAnySize) { ReplayWith(Kernels::kOneDnnAlways); }
TEST_P(Cases, AreTensorFlowsInGraphsAsTheyStand) { ReplayWith(Kernels::kAll, {.optimize = false}); }
TEST_P(Cases, AreTensorFlowsOnAGpu) { ReplayWith(Kernels::kGpu, {.device = device_test::kGpu}); }

class Pipelines : public Cases {};
TEST_P(Pipelines, GoOnFromTheirStateInAnotherSessionAfterEachElement) { ReplayWith(Kernels::kAll, {.resume = true}); }
TEST_P(Pipelines, TakeNoHarmFromDamagedStates) { ReplayWith(Kernels::kAll, {.resume = true, .damage = 8}); }
INSTANTIATE_TEST_SUITE_P(Of, Pipelines, ::testing::Values("dataset", "dataset_files", "dataset_names", "dataset_others", "dataset_parse"), [](const auto& test) { return test.param; });

std::vector<std::string> Packages() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder + "/cases")) names.push_back(entry.path().stem());
  std::sort(names.begin(), names.end());
  return names;
}
INSTANTIATE_TEST_SUITE_P(Of, Cases, ::testing::ValuesIn(Packages()), [](const auto& test) { return test.param; });

// The measure itself: what would let everything pass would show here.
class Measure : public ::testing::Test {
 protected:
  static host::Tensor Floats(std::vector<float> values) {
    return *host::Tensor::From(values, host::Shape{static_cast<int64_t>(values.size())});
  }
};
TEST_F(Measure, TakesUnitsOfTheLastPlaceAndNoMore) {
  EXPECT_EQ(Compare(Floats({1}), Floats({1 + 0x1p-21f}), {}), "");
  EXPECT_NE(Compare(Floats({1}), Floats({1 + 0x1p-19f}), {}), "");
  EXPECT_NE(Compare(Floats({1, 1000}), Floats({1 + 0x1p-19f, 1000}), {}), "");
  EXPECT_EQ(Compare(Floats({1, 1000}), Floats({1 + 0x1p-19f, 1000}), {.of_largest = true}), "");
}
TEST_F(Measure, TellsNanInfinitiesAndZerosApart) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Compare(Floats({nan, infinity, -0.0f}), Floats({nan, infinity, -0.0f}), {}), "");
  EXPECT_NE(Compare(Floats({nan}), Floats({1}), {}), "");
  EXPECT_NE(Compare(Floats({1}), Floats({nan}), {}), "");
  EXPECT_NE(Compare(Floats({infinity}), Floats({-infinity}), {}), "");
  EXPECT_NE(Compare(Floats({infinity}), Floats({3e38f}), {}), "");
  EXPECT_NE(Compare(Floats({0.0f}), Floats({-0.0f}), {}), "");
  EXPECT_EQ(Compare(Floats({0.0f}), Floats({-0.0f}), {.signed_zero = false}), "");
}
TEST_F(Measure, LooksAtShapeAndDtype) {
  EXPECT_NE(Compare(Floats({}), *host::Tensor::Scalar(1.0f), {}), "");
  EXPECT_NE(Compare(*host::Tensor::Scalar(1), *host::Tensor::Scalar(1.0f), {}), "");
  EXPECT_NE(Compare(*host::Tensor::String("a"), *host::Tensor::String("b"), {}), "");
}

}  // namespace
}  // namespace tenon::golden
