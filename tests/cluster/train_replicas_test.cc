// SPDX-License-Identifier: Apache-2.0
// `tenon train digits --mode sync` and async, its replicas in one process and in several. Covers P2, P12, R9.
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "tests/cluster/processes.h"
#include "tests/cluster/program.h"

namespace tenon::engine {
namespace {

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

class TrainReplicas : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/tenon_train_replicas_" + GetParam() + std::to_string(getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::vector<std::string> Words(const Processes& tasks, const std::string& name, int steps, const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"train", "digits", "--restart", "--threads=1", "--cluster=" + tasks.file(), "--folder=" + folder_ + "/" + name,
                                      "--steps=" + std::to_string(steps)};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // What the trained graph gives for the images that it has not seen: bytes.
  std::string Probabilities(const std::string& name) const {
    const std::string own = folder_ + "/" + name;
    Program run({"run", own + "/digits.pb", "--feed", "images=" + own + "/unseen_images.npy", "--fetch", "probabilities=" + own + "/p.npy"});
    EXPECT_EQ(run.Wait(), 0);
    return ReadAll(own + "/p.npy");
  }
  std::string folder_;
};
INSTANTIATE_TEST_SUITE_P(Over, TrainReplicas, testing::ValuesIn(BuiltTransports()), [](const auto& info) { return std::string(info.param); });
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

TEST_P(TrainReplicas, WhoWaitsForAChiefThatWasKilledSaysSo) {
  const Processes tasks(GetParam(), {{"ps", 1}, {"worker", 2}}, {"--threads=1", "--files=" + folder_});
  ASSERT_TRUE(tasks.ok());
  const std::string errors = folder_ + "/errors", output = folder_ + "/output";
  Program chief(Words(tasks, "first", 5000, {"--mode=sync", "--replica=0"}), "", output);
  Program other(Words(tasks, "second", 5000, {"--mode=sync", "--replica=1"}), errors);
  // A tenth of the way is told.
  while (chief.Runs() && ReadAll(output).find("step") == std::string::npos) usleep(10000);
  ASSERT_TRUE(chief.Runs() && other.Runs()) << ReadAll(errors);
  chief.Kill();
  EXPECT_GT(other.Wait(), 0);
  EXPECT_NE(ReadAll(errors).find("replica 1 of 'digits' waits for a step: its chief has not been heard of for"), std::string::npos) << ReadAll(errors);
}

TEST(TrainReplicasAlone, WithoutAClusterAreRefused) {
  const std::string errors = testing::TempDir() + "/tenon_train_replicas_errors" + std::to_string(getpid());
  Program alone({"train", "digits", "--json", "--mode=sync", "--replicas=2"}, errors);
  EXPECT_GT(alone.Wait(), 0);
  EXPECT_NE(ReadAll(errors).find("give --cluster FILE or --master ADDRESS"), std::string::npos) << ReadAll(errors);
  std::filesystem::remove(errors);
}

}  // namespace
}  // namespace tenon::engine
