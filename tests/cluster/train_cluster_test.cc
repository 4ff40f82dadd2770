// SPDX-License-Identifier: Apache-2.0
// Training on a cluster whose tasks are killed and frozen at random moments: it goes on by itself from its last checkpoint, and
// ends with the very weights of one that nobody disturbed. Replicas on tasks give what they give in one process. Covers H11, J3, J6, P1, R9.
#include <filesystem>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "tests/cluster/processes.h"
#include "tests/cluster/program.h"

namespace tenon::engine {
namespace {

// TENON_KILLS=100 disturbs more.
int Kills() {
  const char* wished = std::getenv("TENON_KILLS");
  return wished == nullptr ? 4 : std::atoi(wished);
}

// `tenon train digits` in a process of its own.
class Training : public Program {
 public:
  Training(const std::string& folder, int steps, const std::vector<std::string>& more) : Program(Words(folder, steps, more)) {}

 private:
  static std::vector<std::string> Words(const std::string& folder, int steps, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"train", "digits", "--json", "--restart", "--threads=1", "--checkpoint-steps=20",
                                      "--folder=" + folder, "--steps=" + std::to_string(steps)};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

class TrainCluster : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Over, TrainCluster, testing::ValuesIn(BuiltTransports()), [](const auto& info) { return std::string(info.param); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TrainCluster);

// Without compilers, which take chains as wholes in one process and, since parts keep the order of all of them, not in tasks: they round otherwise.
TEST_P(TrainCluster, ReplicasOnTasksGiveTheBytesOfOneProcess) {
  const std::string folder = testing::TempDir() + "/tenon_replicas_" + GetParam() + std::to_string(getpid());
  ASSERT_EQ(Training(folder + "/one", 200, {"--replicas=2", "--no-compile"}).Wait(), 0);
  const Processes tasks(GetParam(), {{"ps", 2}, {"worker", 2}}, {"--threads=1", "--files=" + folder});
  ASSERT_TRUE(tasks.ok());
  ASSERT_EQ(Training(folder + "/many", 200, {"--cluster=" + tasks.file()}).Wait(), 0);
  const std::string one = ReadFile(folder + "/one/digits.pb");
  EXPECT_FALSE(one.empty());
  EXPECT_TRUE(one == ReadFile(folder + "/many/digits.pb")) << "other weights";
  std::filesystem::remove_all(folder);
}

// Each worker has all variables, and no parameter server is there: collectives between the workers add the gradients.
TEST_P(TrainCluster, MirroredReplicasOnTasksGiveTheBytesOfOneProcess) {
  const std::string folder = testing::TempDir() + "/tenon_mirrored_" + GetParam() + std::to_string(getpid());
  ASSERT_EQ(Training(folder + "/one", 200, {"--replicas=4", "--mirrored=on", "--no-compile"}).Wait(), 0);
  const Processes tasks(GetParam(), {{"worker", 4}}, {"--threads=1", "--files=" + folder});
  ASSERT_TRUE(tasks.ok());
  ASSERT_EQ(Training(folder + "/many", 200, {"--mirrored=on", "--cluster=" + tasks.file()}).Wait(), 0);
  const std::string one = ReadFile(folder + "/one/digits.pb");
  EXPECT_FALSE(one.empty());
  EXPECT_TRUE(one == ReadFile(folder + "/many/digits.pb")) << "other weights";
  std::filesystem::remove_all(folder);
}

// Kills and freezes tasks while it trains, from the last checkpoint of which it goes on; each ends with the weights of a run that nobody disturbed.
void ExpectUndisturbedWeights(const std::string& scheme, const std::vector<std::pair<std::string, int>>& jobs, const std::vector<std::string>& words, bool of_cluster) {
  const std::string folder = testing::TempDir() + "/tenon_train_kill_" + scheme + std::to_string(getpid());
  Processes tasks(scheme, jobs, {"--threads=1", "--files=" + folder});
  ASSERT_TRUE(tasks.ok());
  std::vector<std::string> more = words;
  more.push_back(of_cluster ? "--cluster=" + tasks.file() : "--master=" + tasks.address(1));
  const int steps = 300 + 150 * Kills(), seconds = 100 + 5 * Kills();
  ASSERT_EQ(Training(folder + "/calm", steps, more).Wait(seconds), 0);
  std::mt19937 random(20161103);
  int done = 0;
  {
    Training training(folder + "/disturbed", steps, more);
    for (; done < Kills() && training.Runs(); ++done) {
      // After it has come further, so that it can end at last.
      const int64_t seen = NewestCheckpoint(folder + "/disturbed");
      for (int i = 0; i < 6000 && training.Runs() && NewestCheckpoint(folder + "/disturbed") <= seen; ++i) usleep(5000);
      usleep(random() % 50000);
      const size_t victim = random() % tasks.size();
      if (done % 4 == 3) {
        tasks.Signal(victim, SIGSTOP);
        usleep(3500000);  // longer than its master waits
        tasks.Signal(victim, SIGCONT);
      } else {
        tasks.Kill(victim);
        ASSERT_TRUE(tasks.Start(victim));
      }
    }
    EXPECT_EQ(training.Wait(seconds), 0);
  }
  EXPECT_GT(done, 0) << "it ended before anything happened";
  const std::string calm = ReadFile(folder + "/calm/digits.pb");
  EXPECT_FALSE(calm.empty());
  EXPECT_TRUE(calm == ReadFile(folder + "/disturbed/digits.pb")) << "other weights";
  std::filesystem::remove_all(folder);
}

TEST_P(TrainCluster, EndsWithTheWeightsOfAnUndisturbedRun) { ExpectUndisturbedWeights(GetParam(), {{"ps", 1}, {"worker", 2}}, {}, false); }

// A member of collectives that is lost leaves nobody waiting. Covers H11.
TEST_P(TrainCluster, MirroredReplicasEndWithTheWeightsOfAnUndisturbedRun) { ExpectUndisturbedWeights(GetParam(), {{"worker", 2}}, {"--mirrored=on"}, true); }

}  // namespace
}  // namespace tenon::engine
