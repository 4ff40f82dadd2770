// SPDX-License-Identifier: Apache-2.0
// What the compiler of chains writes is what hiprtc takes: compiled to machine code, which needs no GPU.
#include <gtest/gtest.h>

#include "hiprtc_compiler.h"
#include "tenon/testing/linked.h"
#include "testing/chains.h"

namespace tenon::gpu {
namespace {

TEST(Hiprtc, TakesTheSourcesOfAllFunctionsOnAllTypes) {
  const Hiprtc& hiprtc = Hiprtc::The();
  if (!hiprtc.opened().ok()) GTEST_SKIP() << hiprtc.opened().message;
  for (const std::string& source : SourcesOfAllFunctions()) {
    std::vector<char> image;
    const Outcome outcome = hiprtc.Compile("gfx90a", source, &image);
    ASSERT_TRUE(outcome.ok()) << outcome.message << source;
    EXPECT_GT(image.size(), 1000u);
    EXPECT_NE(std::string(image.begin(), image.end()).find(kFusedName), std::string::npos);
  }
}

TEST(Hiprtc, TakesTheSourcesOfChainsWithSumsOfRows) {
  const Hiprtc& hiprtc = Hiprtc::The();
  if (!hiprtc.opened().ok()) GTEST_SKIP() << hiprtc.opened().message;
  for (const std::string& source : SourcesOfRows()) {
    std::vector<char> image;
    const Outcome outcome = hiprtc.Compile("gfx90a", source, &image);
    ASSERT_TRUE(outcome.ok()) << outcome.message << source;
    EXPECT_NE(std::string(image.begin(), image.end()).find(kFusedName), std::string::npos);
  }
}

TEST(Hiprtc, SaysWhatIsWrongWithASource) {
  const Hiprtc& hiprtc = Hiprtc::The();
  if (!hiprtc.opened().ok()) GTEST_SKIP() << hiprtc.opened().message;
  std::vector<char> image;
  const Outcome outcome = hiprtc.Compile("gfx1030", "#include \"code/apply.h\"\nint broken = nothing;\n", &image);
  EXPECT_EQ(outcome.code, TENON_INTERNAL);
  EXPECT_NE(outcome.message.find("nothing"), std::string::npos) << outcome.message;
}

}  // namespace
}  // namespace tenon::gpu
