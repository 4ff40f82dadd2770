// SPDX-License-Identifier: Apache-2.0
// Tests of machine code (devices/cpu_codegen), one for each level of instructions.
#ifndef TENON_TESTS_ENGINE_CODEGEN_H_
#define TENON_TESTS_ENGINE_CODEGEN_H_

#include "tests/engine/chains.h"

namespace tenon::engine {

class Codegen : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    runtime_ = RuntimeOf(GetParam());
    if (runtime_ == nullptr) GTEST_SKIP() << "no code of " << GetParam() << " on this machine or in this build";
  }
  // The same bits, as code and node by node; how many nodes were compiled.
  int Compare(const Graph& graph, const std::vector<std::pair<Output, Tensor>>& feeds,
              const std::vector<Output>& fetches, const std::string& what = "") {
    EXPECT_TRUE(graph.status().ok()) << what << graph.status().message();
    const Answer one_by_one = RunIt(*runtime_, graph, feeds, fetches, false),
                 compiled = RunIt(*runtime_, graph, feeds, fetches, true);
    EXPECT_EQ(one_by_one.failure, compiled.failure) << what;
    EXPECT_EQ(one_by_one.how.count("compiled"), 0u) << what;
    EXPECT_EQ(one_by_one.values.size(), compiled.values.size()) << what;
    for (size_t i = 0; i < std::min(one_by_one.values.size(), compiled.values.size()); ++i)
      EXPECT_EQ(DifferenceOf(one_by_one.values[i], compiled.values[i]), "")
          << what << "fetch " << i << ", '" << fetches[i].name() << "'";
    const auto found = compiled.how.find("compiled");
    return found == compiled.how.end() ? 0 : found->second;
  }
  Runtime* runtime_ = nullptr;
};

}  // namespace tenon::engine

#endif  // TENON_TESTS_ENGINE_CODEGEN_H_
