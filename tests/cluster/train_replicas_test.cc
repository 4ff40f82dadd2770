// SPDX-License-Identifier: Apache-2.0
// `tenon train digits --mode sync` and async, its replicas in one process and in several. Covers P2, P12, P14, R9.
//
// Each case takes seconds: a training by several processes goes on for some hundred steps after what happens to it, so
// that it does not end before.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/cluster/processes.h"
#include "tests/cluster/program.h"
#include "tests/fakes/whole.h"

namespace tenon::engine {
namespace {

class TrainReplicas : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/tenon_train_replicas_" + GetParam() + std::to_string(getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::vector<std::string> Words(const Processes& tasks, const std::string& name, int steps,
                                 const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"train",
                                      "digits",
                                      "--threads=1",
                                      "--cluster=" + tasks.file(),
                                      "--folder=" + folder_ + "/" + name,
                                      "--steps=" + std::to_string(steps)};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // What the trained graph gives for the images that it has not seen: bytes.
  std::string Probabilities(const std::string& name) const {
    const std::string own = folder_ + "/" + name;
    Program run({"run", own + "/digits.pb", "--feed", "images=" + own + "/unseen_images.npy", "--fetch",
                 "probabilities=" + own + "/p.npy"});
    EXPECT_EQ(run.Wait(), 0);
    return ReadFile(own + "/p.npy");
  }
  std::string folder_;
};
INSTANTIATE_TEST_SUITE_P(Over, TrainReplicas, testing::ValuesIn(BuiltTransports()),
                         [](const auto& info) { return std::string(info.param); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TrainReplicas);

TEST_P(TrainReplicas, SynchronousOnesLearnTheBitsOfOneGraphInOneProcessAndInSeveral) {
  const Processes tasks(GetParam(), {{"ps", 2}, {"worker", 2}}, {"--threads=1", "--files=" + folder_});
  ASSERT_TRUE(tasks.ok());
  ASSERT_EQ(Program(Words(tasks, "graph", 60, {})).Wait(), 0);
  ASSERT_EQ(Program(Words(tasks, "threads", 60, {"--mode=sync"})).Wait(), 0);
  const std::string wanted = Probabilities("graph");
  EXPECT_FALSE(wanted.empty());
  EXPECT_TRUE(wanted == Probabilities("threads")) << "other weights";
  Program second(Words(tasks, "second", 60, {"--mode=sync", "--replica=1"}));
  ASSERT_EQ(Program(Words(tasks, "first", 60, {"--mode=sync", "--replica=0"})).Wait(), 0);
  EXPECT_EQ(second.Wait(), 0);
  EXPECT_TRUE(wanted == Probabilities("first")) << "other weights";
}

TEST_P(TrainReplicas, AsynchronousOnesAndOnesWithABackupTrain) {
  const Processes tasks(GetParam(), {{"ps", 1}, {"worker", 3}}, {"--threads=1", "--files=" + folder_});
  ASSERT_TRUE(tasks.ok());
  EXPECT_EQ(Program(Words(tasks, "async", 60, {"--mode=async"})).Wait(), 0);
  EXPECT_EQ(Program(Words(tasks, "backup", 60, {"--mode=sync", "--backups=1", "--batch=30"})).Wait(), 0);
  for (const char* name : {"async", "backup"}) EXPECT_FALSE(Probabilities(name).empty());
}

TEST_P(TrainReplicas, SynchronousOnesGoOnAfterALostServerAndAKilledChief) {
  Processes tasks(GetParam(), {{"ps", 1}, {"worker", 2}}, {"--threads=1", "--files=" + folder_});
  ASSERT_TRUE(tasks.ok());
  constexpr int kSteps = 400;
  const std::vector<std::string> both = {"--mode=sync", "--checkpoint-steps=20", "--recover=60s"};
  const auto words = [&](const std::string& name, const std::string& replica) {
    std::vector<std::string> all = both;
    if (!replica.empty()) all.push_back("--replica=" + replica);
    return Words(tasks, name, kSteps, all);
  };
  ASSERT_EQ(Program(words("calm", "")).Wait(), 0);
  const std::string errors = folder_ + "/errors", own = folder_ + "/first";
  Program other(words("second", "1"), errors);
  const auto until_further = [&](Program& chief) {
    const int64_t seen = NewestCheckpoint(own);
    while (chief.Runs() && NewestCheckpoint(own) <= seen) usleep(2000);
    return chief.Runs();
  };
  {
    Program chief(words("first", "0"), folder_ + "/chief_errors");
    ASSERT_TRUE(until_further(chief)) << ReadFile(folder_ + "/chief_errors");
    tasks.Kill(0);
    ASSERT_TRUE(tasks.Start(0));
    ASSERT_TRUE(until_further(chief)) << ReadFile(folder_ + "/chief_errors");
    chief.Kill();
  }
  ASSERT_LT(NewestCheckpoint(own), kSteps) << "it ended before anything happened";
  ASSERT_EQ(Program(words("first", "0"), folder_ + "/chief_errors").Wait(), 0) << ReadFile(folder_ + "/chief_errors");
  EXPECT_EQ(other.Wait(), 0) << ReadFile(errors);
  EXPECT_EQ(NewestCheckpoint(own), kSteps);
  const std::string calm = Probabilities("calm");
  EXPECT_FALSE(calm.empty());
  EXPECT_TRUE(calm == Probabilities("first")) << "other weights";
}

TEST_P(TrainReplicas, AsynchronousOnesGoOnFromTheLastCheckpoint) {
  Processes tasks(GetParam(), {{"ps", 1}, {"worker", 2}}, {"--threads=1", "--files=" + folder_});
  ASSERT_TRUE(tasks.ok());
  const std::vector<std::string> words =
      Words(tasks, "async", 400, {"--mode=async", "--checkpoint-steps=20", "--recover=60s"});
  const std::string errors = folder_ + "/errors", output = folder_ + "/output", own = folder_ + "/async";
  {
    Program training(words, errors);
    while (training.Runs() && NewestCheckpoint(own) == 0) usleep(2000);
    ASSERT_TRUE(training.Runs()) << ReadFile(errors);
    tasks.Kill(0);
    ASSERT_TRUE(tasks.Start(0));
    EXPECT_EQ(training.Wait(), 0) << ReadFile(errors);
  }
  EXPECT_GE(NewestCheckpoint(own), 400);
  EXPECT_EQ(Program(words, errors, output).Wait(), 0) << ReadFile(errors);
  EXPECT_NE(ReadFile(output).find("going on after step 4"), std::string::npos) << ReadFile(output);
}

// Where a replica may be missed, so may its worker, whether it froze or died: the others go on, in the same sessions.
TEST_P(TrainReplicas, AWorkerThatFreezesOrDiesIsItsOwnReplicasLossAlone) {
  int number = 0;
  std::vector<std::pair<std::string, int>> losses = {
      {"sync", SIGSTOP}, {"async", SIGKILL}, {"sync", SIGKILL}, {"async", SIGSTOP}};
  if (!fakes::IsWhole()) losses.resize(2);
  for (const auto& [mode, signal] : losses) {
    const Processes tasks(GetParam(), {{"ps", 1}, {"worker", 3}}, {"--threads=1", "--files=" + folder_});
    ASSERT_TRUE(tasks.ok());
    constexpr int kSteps = 900;
    const std::string name = "lost" + std::to_string(number++), own = folder_ + "/" + name, errors = own + "_errors",
                      output = own + "_output";
    std::vector<std::string> more = {"--mode=" + mode, "--checkpoint-steps=20", "--recover=1ms",
                                     "--silence-timeout=1500ms"};
    if (mode == "sync") more.insert(more.end(), {"--backups=1", "--batch=30"});
    Program training(Words(tasks, name, kSteps, more), errors, output);
    while (training.Runs() && NewestCheckpoint(own) < 40) usleep(2000);
    ASSERT_TRUE(training.Runs()) << ReadFile(errors);
    const int64_t at = NewestCheckpoint(own);
    tasks.Signal(3, signal);
    ASSERT_LT(at, kSteps);
    EXPECT_EQ(training.Wait(), 0) << mode << ": " << ReadFile(errors) << ReadFile(output);
    EXPECT_GE(NewestCheckpoint(own), kSteps);
    const std::string said = ReadFile(output) + ReadFile(errors);
    EXPECT_NE(said.find("the others went on"), std::string::npos) << said;
    EXPECT_NE(said.find(tasks.NameOf(3)), std::string::npos) << said;
    EXPECT_EQ(said.find("trying again"), std::string::npos) << said;
  }
}

TEST_P(TrainReplicas, WhoWaitsForAChiefThatWasKilledSaysSo) {
  const Processes tasks(GetParam(), {{"ps", 1}, {"worker", 2}}, {"--threads=1", "--files=" + folder_});
  ASSERT_TRUE(tasks.ok());
  const std::string errors = folder_ + "/errors", output = folder_ + "/output";
  Program chief(Words(tasks, "first", 5000, {"--mode=sync", "--replica=0"}), "", output);
  const std::string told = folder_ + "/told";
  Program other(Words(tasks, "second", 5000, {"--mode=sync", "--replica=1"}), errors, told);
  // A tenth of the way is told.
  while (chief.Runs() && ReadFile(output).find("step") == std::string::npos) usleep(10000);
  ASSERT_TRUE(chief.Runs() && other.Runs()) << ReadFile(errors);
  chief.Kill();
  const auto has_said = [&] {
    return ReadFile(told).find(
               "lost: replica 1: replica 1 of 'digits' waits for a step: its chief has not been heard of for") !=
           std::string::npos;
  };
  while (other.Runs() && !has_said()) usleep(10000);
  EXPECT_TRUE(other.Runs() && has_said()) << ReadFile(told) << ReadFile(errors);  // and it waits for another chief
}

TEST(TrainReplicasAlone, WithoutAClusterAreRefused) {
  const std::string errors = testing::TempDir() + "/tenon_train_replicas_errors" + std::to_string(getpid());
  Program alone({"train", "digits", "--json", "--mode=sync", "--replicas=2"}, errors);
  EXPECT_GT(alone.Wait(), 0);
  EXPECT_NE(ReadFile(errors).find("give --cluster FILE or --master ADDRESS"), std::string::npos) << ReadFile(errors);
  std::filesystem::remove(errors);
}

}  // namespace
}  // namespace tenon::engine
