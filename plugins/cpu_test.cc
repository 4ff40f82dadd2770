// SPDX-License-Identifier: Apache-2.0
#include "plugins/cpu.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace tenon::plugins::cpu_test {
namespace {

#if defined(__x86_64__)
TEST(Cpu, FeaturesAgreeWithTheKernel) {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line) && !line.starts_with("flags")) {
  }
  ASSERT_TRUE(line.starts_with("flags"));
  std::istringstream words(line);
  std::vector<std::string> flags;
  for (std::string word; words >> word;) flags.push_back(word);
  const auto kernel_has = [&](const std::string& name) {
    return std::find(flags.begin(), flags.end(), name) != flags.end();
  };
  for (const char* name : {"sse4_2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512cd", "avx512dq",
                           "avx512vl", "avx512_vnni", "avx512_bf16"}) {
    EXPECT_EQ(MachineHas(name), kernel_has(name)) << name;
  }
  const bool v2 = kernel_has("sse4_2") && kernel_has("ssse3") && kernel_has("popcnt") && kernel_has("cx16");
  const bool v3 = v2 && kernel_has("avx2") && kernel_has("bmi1") && kernel_has("bmi2") && kernel_has("f16c") &&
                  kernel_has("fma") && kernel_has("abm") && kernel_has("movbe");
  const bool v4 = v3 && kernel_has("avx512f") && kernel_has("avx512bw") && kernel_has("avx512cd") &&
                  kernel_has("avx512dq") && kernel_has("avx512vl");
  EXPECT_TRUE(MachineHas("x86-64-v1"));
  EXPECT_EQ(MachineHas("x86-64-v2"), v2);
  EXPECT_EQ(MachineHas("x86-64-v3"), v3);
  EXPECT_EQ(MachineHas("x86-64-v4"), v4);
}
#endif

TEST(Cpu, AFeatureThatNobodyKnowsIsMissing) {
  EXPECT_FALSE(MachineHas("x86-64-v5"));
  EXPECT_FALSE(MachineHas("tenon_no_such_feature"));
  EXPECT_FALSE(MachineHas(""));
  EXPECT_EQ(FirstMissingFeature({}), "");
  EXPECT_EQ(FirstMissingFeature({"no_such_a", "no_such_b"}), "no_such_a");
}

TEST(Cpu, AHigherLevelRanksAboveAnyNumberOfSingleFeatures) {
  EXPECT_LT(FeatureRank({}), FeatureRank({"x86-64-v2"}));
  EXPECT_LT(FeatureRank({"x86-64-v3", "a", "b"}), FeatureRank({"x86-64-v4"}));
  EXPECT_LT(FeatureRank({"x86-64-v3"}), FeatureRank({"x86-64-v3", "avx512_vnni"}));
  EXPECT_EQ(FeatureRank({"x86-64-v1"}), FeatureRank({}));
}

}  // namespace
}  // namespace tenon::plugins::cpu_test
