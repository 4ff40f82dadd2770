// SPDX-License-Identifier: Apache-2.0
// Checkpoints of one process: which are kept, found, passed over and restored, on each file system. Covers J4, J9, J12.
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>

#include "tenon/data/file.h"
#include "tests/fakes/counting_model.h"

namespace tenon::train::saver_test {
namespace {

// On each file system.
class SaverTest : public testing::TestWithParam<const char*> {
 protected:
  static std::string NewFolder() {
    static int folders = 0;
    SharedRuntime();  // which finds the plugin
    return std::string(GetParam()) == "memory" ? "memory://saver_test/" + std::to_string(folders++) : TemporaryFolder();
  }
};
INSTANTIATE_TEST_SUITE_P(On, SaverTest, testing::Values("system", "memory"),
                         [](const auto& info) { return std::string(info.param); });

// Flips a bit in the middle.
void Damage(const std::string& path) {
  std::string bytes = *data::ReadFile(path);
  ASSERT_FALSE(bytes.empty());
  bytes[bytes.size() / 2] ^= 0x40;
  ASSERT_TRUE(data::ReplaceFile(path, {bytes}).ok());
}

TEST_P(SaverTest, FindsNothingInANewFolder) {
  Counting counting(NewFolder() + "/none");
  Result<Restored> restored = counting.saver.RestoreNewest(counting.session);
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ("", restored->prefix);
}

TEST_P(SaverTest, RestoresTheNewest) {
  const std::string folder = NewFolder();
  {
    Counting counting(folder);
    counting.Run(counting.add);
    counting.Save(1);
    counting.Run(counting.add);
    counting.Save(2);
    counting.Run(counting.add);
  }
  Counting again(folder);
  Result<Restored> restored = again.saver.RestoreNewest(again.session);
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(2, restored->step);
  EXPECT_TRUE(restored->warnings.empty());
  EXPECT_EQ(std::vector<float>(4, 2), again.Value());
}

TEST_P(SaverTest, KeepsTheLastFew) {
  const std::string folder = NewFolder();
  Counting counting(folder, 2);
  for (int64_t step = 1; step <= 5; ++step) counting.Save(step);
  Result<CheckpointState> state = CheckpointState::Read(folder);
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ((std::vector<std::string>{"model.ckpt-4", "model.ckpt-5"}), state->paths);
  const std::vector<std::string> files = *data::ListFolder(folder);
  EXPECT_EQ(
      0, std::count_if(files.begin(), files.end(), [](const std::string& f) { return f.starts_with("model.ckpt-3"); }));
  EXPECT_EQ(1, std::count(files.begin(), files.end(), "model.ckpt-4.index"));
}

TEST_P(SaverTest, FallsBackToThePreviousWhenTheNewestIsDamagedAndSaysSo) {
  for (const char* file : {"/model.ckpt-2.data-00000-of-00001", "/model.ckpt-2.index"}) {
    const std::string folder = NewFolder();
    {
      Counting counting(folder, 3, 1000);
      counting.Run(counting.add);
      counting.Save(1);
      counting.Run(counting.add);
      counting.Save(2);
    }
    Damage(folder + file);
    Counting again(folder, 3, 1000);
    Result<Restored> restored = again.saver.RestoreNewest(again.session);
    ASSERT_TRUE(restored.ok()) << restored.status();
    EXPECT_EQ(1, restored->step);
    ASSERT_EQ(1u, restored->warnings.size());
    EXPECT_NE(std::string::npos, restored->warnings[0].find("model.ckpt-2"));
    EXPECT_EQ(std::vector<float>(1000, 1), again.Value());
    // The damaged one is named no more, and its step can be saved again.
    EXPECT_EQ((std::vector<std::string>{"model.ckpt-1"}), CheckpointState::Read(folder)->paths);
    again.Save(2);
    EXPECT_EQ((std::vector<std::string>{"model.ckpt-1", "model.ckpt-2"}), CheckpointState::Read(folder)->paths);
  }
}

TEST_P(SaverTest, RefusesToBeginAnewWhenNoneCanBeRead) {
  const std::string folder = NewFolder();
  {
    Counting counting(folder, 3, 1000);
    counting.Save(1);
  }
  Damage(folder + "/model.ckpt-1.data-00000-of-00001");
  Counting again(folder, 3, 1000);
  Result<Restored> restored = again.saver.RestoreNewest(again.session);
  ASSERT_FALSE(restored.ok());
  EXPECT_NE(std::string::npos, restored.status().message().find("none of the 1 checkpoints")) << restored.status();
  EXPECT_EQ(std::vector<float>(1000, 0), again.Value()) << "the variables are as they were";
}

TEST_P(SaverTest, FindsCheckpointsByNameWhenTheStateFileIsGone) {
  const std::string folder = NewFolder();
  {
    Counting counting(folder);
    counting.Save(9);
    counting.Run(counting.add);
    counting.Save(10);
  }
  ASSERT_TRUE(host::RemoveFile(folder + "/checkpoint").ok());
  Counting again(folder);
  Result<Restored> restored = again.saver.RestoreNewest(again.session);
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(10, restored->step);
}

TEST_P(SaverTest, PassesOverACheckpointThatHoldsAnotherStepThanItsName) {
  const std::string folder = NewFolder();
  CountingOptions options;
  options.global_step = true;
  {
    Counting counting(folder, options);
    for (int64_t step = 1; step <= 2; ++step) {
      counting.Run(counting.add);
      counting.Save(step);
    }
  }
  // Whoever renames a checkpoint gets no other step.
  for (const char* ending : {".index", ".data-00000-of-00001"}) {
    const std::string bytes = *data::ReadFile(folder + "/model.ckpt-1" + ending);
    ASSERT_TRUE(data::ReplaceFile(folder + "/model.ckpt-7" + ending, {bytes}).ok());
  }
  CheckpointState state = *CheckpointState::Read(folder);
  state.paths.push_back("model.ckpt-7");
  state.timestamps.push_back(7);
  ASSERT_TRUE(state.Write(folder).ok());
  Counting again(folder, options);
  const Restored restored = again.Restore();
  EXPECT_EQ(2, restored.step);
  EXPECT_EQ(2, again.Step());
  ASSERT_EQ(1u, restored.warnings.size());
  EXPECT_NE(std::string::npos, restored.warnings[0].find("it holds 'global_step' = 1, but is named for step 7"))
      << restored.warnings[0];
}

TEST_P(SaverTest, RemovesWhatAKillHasLeft) {
  const std::string folder = NewFolder();
  {
    Counting counting(folder);
    counting.Save(1);
  }
  const std::vector<std::string> clean = *data::ListFolder(folder);
  ASSERT_TRUE(data::MakeFolder(folder + "/model.ckpt-2_temp_0123").ok());
  for (const char* left :
       {"model.ckpt-2_temp_0123/part-00000-of-00004.index",
        "model.ckpt-2_temp_0123/part-00000-of-00004.data-00000-of-00001", "model.ckpt-2.data-00000-of-00001.tmp",
        "model.ckpt-2.index.tmp", "model.ckpt-3.data-00000-of-00004", "checkpoint.tmp77", "somebody's.tmp"}) {
    ASSERT_TRUE(data::ReplaceFile(folder + "/" + left, {"half"}).ok());
  }
  Counting again(folder);
  EXPECT_EQ(1, again.Restore().step);
  std::vector<std::string> left = *data::ListFolder(folder);
  EXPECT_EQ(1, std::erase(left, "somebody's.tmp")) << "it is not ours";
  EXPECT_EQ(clean, left);
}

TEST_P(SaverTest, ClearsTheFolder) {
  const std::string folder = NewFolder();
  {
    Counting counting(folder);
    counting.Save(1);
    ASSERT_TRUE(counting.saver.Clear().ok());
  }
  Counting again(folder);
  Result<Restored> restored = again.saver.RestoreNewest(again.session);
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ("", restored->prefix);
  EXPECT_EQ((std::vector<std::string>{"checkpoint"}), *data::ListFolder(folder));
}

TEST(SaverErrors, SayWhyACheckpointCannotBeWritten) {
  Counting counting("/proc/no/such");
  Result<std::string> saved = counting.saver.Save(counting.session, 1);
  ASSERT_FALSE(saved.ok());
  EXPECT_NE(std::string::npos, saved.status().message().find("/proc/no")) << saved.status();
}

// Two runs in one folder: the second is told who is there, and touches nothing; it may read.
TEST_P(SaverTest, ASecondSaverIsRefusedAndTouchesNothing) {
  const std::string folder = NewFolder();
  Counting second(folder);
  {
    Counting first(folder);
    first.Run(first.add);
    first.Save(1);
    // What the first one's next save would have on the disk at this moment.
    const std::vector<std::string> begun = {"model.ckpt-2.data-00000-of-00001.tmp", "model.ckpt-2.index.tmp",
                                            "model.ckpt-3.data-00000-of-00001"};
    for (const std::string& name : begun) ASSERT_TRUE(data::ReplaceFile(data::JoinPath(folder, name), {"begun"}).ok());
    const std::vector<std::string> before = *data::ListFolder(folder);
    const auto refused = [&](const Status& status) {
      EXPECT_EQ(status.code(), Code::kFailedPrecondition) << status;
      EXPECT_NE(status.message().find("'" + folder + "'"), std::string::npos) << status;
      EXPECT_NE(status.message().find("process " + std::to_string(getpid())), std::string::npos) << status;
    };
    refused(second.saver.Claim());
    refused(second.saver.Save(second.session, 7).status());
    refused(second.saver.Clear());
    EXPECT_EQ(second.Restore().step, 1) << "who reads does no harm";
    EXPECT_EQ(*data::ListFolder(folder), before);
    first.Run(first.add);
    first.Save(2);
  }
  EXPECT_FALSE(data::FileExists(data::JoinPath(folder, "checkpoint.lock")));
  EXPECT_EQ(second.Restore().step, 2);
  second.Save(7);
  EXPECT_EQ(FindCheckpoints(folder).back(), "model.ckpt-7");
}

TEST_P(SaverTest, ALockThatADeadRunLeftMeansNothing) {
  const std::string folder = NewFolder();
  ASSERT_TRUE(data::MakeFolder(folder).ok());
  ASSERT_TRUE(data::ReplaceFile(data::JoinPath(folder, "checkpoint.lock"), {"process 1\n"}).ok());
  ASSERT_TRUE(data::ReplaceFile(data::JoinPath(folder, "model.ckpt-1.lock"), {"process 1\n"}).ok());
  {
    Counting counting(folder);
    counting.Save(1);
  }
  const std::vector<std::string> files = *data::ListFolder(folder);
  for (const std::string& name : files) EXPECT_FALSE(name.ends_with(".lock")) << name;
}

}  // namespace
}  // namespace tenon::train::saver_test
