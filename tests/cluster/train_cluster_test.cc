// SPDX-License-Identifier: Apache-2.0
// Training on a cluster whose tasks are killed and frozen at random moments: it goes on by itself from its last
// checkpoint, and ends with the very weights of one that nobody disturbed. Replicas on tasks give what they give in one
// process. Covers H11, J3, J6, P1, R9.
//
// Each case takes seconds: it trains twice, disturbed and not, by several processes, with a checkpoint now and then,
// and a task that is frozen is found out by its silence.
#include <filesystem>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "tests/cluster/processes.h"
#include "tests/cluster/program.h"
#include "tests/fakes/whole.h"

namespace tenon::engine {
namespace {

// TENON_KILLS=100 disturbs more.
int Kills() {
  const char* wished = std::getenv("TENON_KILLS");
  return wished != nullptr ? std::atoi(wished) : fakes::IsWhole() ? 4 : 2;
}

// `tenon train digits` in a process of its own. output: a file that gets what it says.
class Training : public Program {
 public:
  Training(const std::string& folder, int steps, const std::vector<std::string>& more,
           const std::string& output = "/dev/null")
      : Program(Words(folder, steps, more), "", output) {}

 private:
  static std::vector<std::string> Words(const std::string& folder, int steps, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"train", "digits", "--restart", "--threads=1", "--checkpoint-steps=20",
                                      "--folder=" + folder, "--steps=" + std::to_string(steps)};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

class TrainCluster : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Over, TrainCluster, testing::ValuesIn(BuiltTransports()),
                         [](const auto& info) { return std::string(info.param); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TrainCluster);

// Without compilers, which take chains as wholes in one process and, since parts keep the order of all of them, not in
// tasks: they round otherwise.
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
// On a busy machine a client may stand still for longer than it has patience with its tasks, which did nothing wrong.
TEST_P(TrainCluster, AClientThatStoodStillTakesNobodyForLost) {
  const std::string folder = testing::TempDir() + "/tenon_train_stood_" + GetParam() + std::to_string(getpid()),
                    errors = folder + "/errors", output = folder + "/output";
  std::filesystem::create_directories(folder);
  const Processes tasks(GetParam(), {{"ps", 1}, {"worker", 1}}, {"--threads=1", "--files=" + folder});
  ASSERT_TRUE(tasks.ok());
  Program training({"train", "digits", "--threads=1", "--cluster=" + tasks.file(), "--folder=" + folder + "/own",
                    "--steps=600", "--checkpoint-steps=20", "--silence-timeout=1200ms"},
                   errors, output);
  while (training.Runs() && NewestCheckpoint(folder + "/own") == 0) usleep(2000);
  ASSERT_TRUE(training.Runs()) << ReadFile(errors);
  training.Signal(SIGSTOP);
  usleep(1800000);  // gRPC itself takes a connection for lost over which nothing came for two to three seconds
  training.Signal(SIGCONT);
  EXPECT_EQ(training.Wait(), 0) << ReadFile(errors);
  const std::string said = ReadFile(errors) + ReadFile(output);
  EXPECT_EQ(said.find("trying again"), std::string::npos) << said;
  std::filesystem::remove_all(folder);
}

// `tenon train GRAPH` goes on by itself after a loss, from the last checkpoint, and ends with what an undisturbed run
// has.
TEST_P(TrainCluster, AGraphFromAFileGoesOnAfterLosses) {
  const std::string folder = testing::TempDir() + "/tenon_train_graph_" + GetParam() + std::to_string(getpid()),
                    goldens = TENON_TEST_SOURCE_DIR "/tests/golden/trained";
  std::filesystem::create_directories(folder);
  Processes tasks(GetParam(), {{"ps", 1}, {"worker", 2}}, {"--threads=1", "--files=" + folder});
  ASSERT_TRUE(tasks.ok());
  constexpr int kSteps = 2000;
  const auto words = [&](const std::string& name) -> std::vector<std::string> {
    return {"train",
            goldens + "/v1.meta",
            "--loss=loss",
            "--data=x=" + goldens + "/x.npy",
            "--data=y=" + goldens + "/y.npy",
            "--batch=8",
            "--passes=1000000",
            "--threads=1",
            "--steps=" + std::to_string(kSteps),
            "--checkpoint-steps=50",
            "--recover=60s",
            "--folder=" + folder + "/" + name,
            "--master=" + tasks.address(1)};
  };
  // "The loss is 0.0123; ..." of the last step.
  const auto loss_of = [](const std::string& said) {
    const size_t at = said.find("The loss is ");
    return at == std::string::npos ? "none in: " + said : said.substr(at, said.find(';', at) - at);
  };
  const std::string calm = folder + "/calm_output", output = folder + "/output", errors = folder + "/errors",
                    own = folder + "/disturbed";
  ASSERT_EQ(Program(words("calm"), errors, calm).Wait(), 0) << ReadFile(errors);
  int lost = 0;
  {
    Program training(words("disturbed"), errors, output);
    for (const size_t victim : {0, 2, 0}) {  // where the variables are, and another
      const int64_t seen = NewestCheckpoint(own);
      while (training.Runs() && NewestCheckpoint(own) <= seen) usleep(1000);
      if (!training.Runs()) break;
      tasks.Kill(victim);
      ASSERT_TRUE(tasks.Start(victim));
      ++lost;
    }
    EXPECT_EQ(training.Wait(), 0) << ReadFile(errors) << ReadFile(output);
  }
  EXPECT_GT(lost, 0);
  EXPECT_NE(ReadFile(output).find("trying again from the last checkpoint"), std::string::npos) << ReadFile(output);
  EXPECT_EQ(NewestCheckpoint(own), kSteps);
  EXPECT_EQ(loss_of(ReadFile(output)), loss_of(ReadFile(calm)));
  std::filesystem::remove_all(folder);
}

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

// How often a training has said that it lost a task.
int Losses(const std::string& output) {
  const std::string said = ReadFile(output), lost = "lost: ";
  int count = 0;
  for (size_t at = said.find(lost); at != std::string::npos; at = said.find(lost, at + 1)) ++count;
  return count;
}

// Kills and freezes tasks while it trains, from the last checkpoint of which it goes on; each ends with the weights of
// a run that nobody disturbed.
void ExpectUndisturbedWeights(const std::string& scheme, const std::vector<std::pair<std::string, int>>& jobs,
                              const std::vector<std::string>& words, bool of_cluster) {
  const std::string folder = testing::TempDir() + "/tenon_train_kill_" + scheme + std::to_string(getpid());
  Processes tasks(scheme, jobs, {"--threads=1", "--files=" + folder});
  ASSERT_TRUE(tasks.ok());
  std::vector<std::string> more = words;
  more.push_back(of_cluster ? "--cluster=" + tasks.file() : "--master=" + tasks.address(1));
  const std::string output = folder + "/output";
  std::filesystem::create_directories(folder);
  const int steps = 300 + 150 * Kills(), seconds = 100 + 5 * Kills();
  ASSERT_EQ(Training(folder + "/calm", steps, more).Wait(seconds), 0);
  std::mt19937 random(20161103);
  int done = 0;
  {
    Training training(folder + "/disturbed", steps, more, output);
    for (; done < Kills() && training.Runs(); ++done) {
      // After it has come further, so that it can end at last.
      const int64_t seen = NewestCheckpoint(folder + "/disturbed");
      for (int i = 0; i < 6000 && training.Runs() && NewestCheckpoint(folder + "/disturbed") <= seen; ++i) usleep(5000);
      usleep(random() % 50000);
      const size_t victim = random() % tasks.size();
      if (done % 4 == 1) {
        const int told = Losses(output);
        tasks.Signal(victim, SIGSTOP);
        while (training.Runs() && Losses(output) == told) usleep(10000);
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

TEST_P(TrainCluster, EndsWithTheWeightsOfAnUndisturbedRun) {
  ExpectUndisturbedWeights(GetParam(), {{"ps", 1}, {"worker", 2}}, {}, false);
}

// A member of collectives that is lost leaves nobody waiting. Covers H11.
TEST_P(TrainCluster, MirroredReplicasEndWithTheWeightsOfAnUndisturbedRun) {
  ExpectUndisturbedWeights(GetParam(), {{"worker", 2}}, {"--mirrored=on"}, true);
}

}  // namespace
}  // namespace tenon::engine
