// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/cluster/cluster_file.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace tenon::cli::cluster_file_test {
namespace {

// Without what the test's own launcher has set.
class LauncherVariables : public testing::Test {
 protected:
  void SetUp() override { Clear(); }
  void TearDown() override { Clear(); }
  static void Clear() {
    for (const char* variable : kVariables) unsetenv(variable);
  }
  static constexpr const char* kVariables[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", "RANK"};
};

TEST_F(LauncherVariables, SayWhichProcessThisIs) {
  auto none = LauncherRank();
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(*none, -1);
  int number = 0;
  for (const char* variable : kVariables) {  // of Open MPI, PMIx, PMI, Slurm and torchrun
    Clear();
    setenv(variable, std::to_string(++number).c_str(), 1);
    auto rank = LauncherRank();
    ASSERT_TRUE(rank.ok()) << variable;
    EXPECT_EQ(*rank, number) << variable;
  }
}

TEST_F(LauncherVariables, ThatAreNoNumbersAreRefused) {
  setenv("SLURM_PROCID", "many", 1);
  EXPECT_EQ(LauncherRank().status().code(), host::Code::kInvalidArgument);
}

TEST(ClusterFile, OfATrainingOperatorSaysWhichTaskThisIs) {
  auto cluster = ClusterFile::Parse(R"({"cluster": {"chief": ["c:1"], "ps": ["p:1", "p:2"], "worker": ["w:1"]},
                                        "task": {"type": "ps", "index": "1"}, "environment": "cloud"})", "TF_CONFIG");
  ASSERT_TRUE(cluster.ok()) << cluster.status().message();
  EXPECT_EQ(cluster->job, "ps");
  EXPECT_EQ(cluster->task, 1);
  ASSERT_EQ(cluster->tasks.size(), 4u);
  EXPECT_EQ(cluster->tasks[2].name, "/job:ps/task:1");
  EXPECT_EQ(cluster->tasks[2].address, "p:2");
}

}  // namespace
}  // namespace tenon::cli::cluster_file_test
