// SPDX-License-Identifier: Apache-2.0
// What the compiler of chains writes is what NVRTC takes: compiled to machine code, which needs no GPU. Covers N8, Q4.
#include <gtest/gtest.h>

#include "nvrtc_compiler.h"
#include "tenon/testing/linked.h"
#include "testing/chains.h"

namespace tenon::gpu {
namespace {

TEST(Nvrtc, TakesTheSourcesOfAllFunctionsOnAllTypes) {
  const Nvrtc& nvrtc = Nvrtc::The();
  if (!nvrtc.opened().ok()) GTEST_SKIP() << nvrtc.opened().message;
  for (const std::string& source : SourcesOfAllFunctions()) {
    std::vector<char> image;
    const Outcome outcome = nvrtc.Compile(9, 0, source, &image);
    ASSERT_TRUE(outcome.ok()) << outcome.message << source;
    EXPECT_GT(image.size(), 1000u);
    EXPECT_NE(std::string(image.begin(), image.end()).find(kFusedName), std::string::npos);
  }
}

TEST(Nvrtc, TakesTheSourcesOfChainsWithSumsOfRows) {
  const Nvrtc& nvrtc = Nvrtc::The();
  if (!nvrtc.opened().ok()) GTEST_SKIP() << nvrtc.opened().message;
  for (const std::string& source : SourcesOfRows()) {
    std::vector<char> image;
    const Outcome outcome = nvrtc.Compile(9, 0, source, &image);
    ASSERT_TRUE(outcome.ok()) << outcome.message << source;
    EXPECT_NE(std::string(image.begin(), image.end()).find(kFusedName), std::string::npos);
  }
}

// PTX that the driver compiles for it.
TEST(Nvrtc, HasCodeForGpusThatAreNewerThanItself) {
  const Nvrtc& nvrtc = Nvrtc::The();
  if (!nvrtc.opened().ok()) GTEST_SKIP() << nvrtc.opened().message;
  std::vector<char> image;
  const Outcome outcome = nvrtc.Compile(99, 0, SourcesOfAllFunctions().front(), &image);
  ASSERT_TRUE(outcome.ok()) << outcome.message;
  ASSERT_FALSE(image.empty());
  EXPECT_EQ(image.back(), '\0');
  EXPECT_NE(std::string(image.begin(), image.end()).find(".target sm_"), std::string::npos);
  EXPECT_EQ(nvrtc.Compile(1, 0, SourcesOfAllFunctions().front(), &image).code, TENON_UNIMPLEMENTED);
}

TEST(Nvrtc, SaysWhatIsWrongWithASource) {
  const Nvrtc& nvrtc = Nvrtc::The();
  if (!nvrtc.opened().ok()) GTEST_SKIP() << nvrtc.opened().message;
  std::vector<char> image;
  const Outcome outcome = nvrtc.Compile(8, 0, "#include \"code/apply.h\"\nint broken = nothing;\n", &image);
  EXPECT_EQ(outcome.code, TENON_INTERNAL);
  EXPECT_NE(outcome.message.find("chain.cu(2): error"), std::string::npos) << outcome.message;
}

}  // namespace
}  // namespace tenon::gpu
