// SPDX-License-Identifier: Apache-2.0
// Checkpoints of a cluster, within this process: a shard for each task, all of them or none. Covers J5 to J7.
#include <cstdlib>

#include "tenon/data/file.h"
#include "tests/cluster/local_cluster.h"
#include "tests/fakes/counting_model.h"
#include "tests/fakes/crash_control.h"
#include "tests/fakes/trace_events.h"

namespace tenon::engine {
namespace {

using train::Counting;
using train::CountingOptions;
using data::ListFolder;
using train::Restored;

const std::vector<std::string> kTasks = {"/job:ps/task:0", "/job:ps/task:1", "/job:worker/task:0",
                                         "/job:worker/task:1"};

// Four tasks with a variable each, and clients of them.
struct FourTasks {
  explicit FourTasks(const std::string& name) : cluster("loopback://" + name, {{"ps", 2}, {"worker", 2}}) {}
  CountingOptions Options() const {
    CountingOptions options;
    options.saver = train::Keeping(2);
    options.devices = kTasks;
    options.global_step = true;
    options.session.master = cluster.address();
    return options;
  }
  LocalCluster cluster;
};

TEST(CheckpointCluster, FourTasksWriteFourShardsAndOneIndex) {
  const FourTasks tasks("four_shards");
  const std::string folder = fakes::TemporaryFolder("shards");
  {
    Counting counting(folder, tasks.Options());
    EXPECT_EQ(4u, counting.saver.shards());
    for (int64_t step = 1; step <= 3; ++step) {
      counting.Run(counting.add);
      counting.Save(step);
    }
  }
  EXPECT_EQ((std::vector<std::string>{
                "checkpoint", "model.ckpt-2.data-00000-of-00004", "model.ckpt-2.data-00001-of-00004",
                "model.ckpt-2.data-00002-of-00004", "model.ckpt-2.data-00003-of-00004", "model.ckpt-2.index",
                "model.ckpt-3.data-00000-of-00004", "model.ckpt-3.data-00001-of-00004",
                "model.ckpt-3.data-00002-of-00004", "model.ckpt-3.data-00003-of-00004", "model.ckpt-3.index"}),
            *ListFolder(folder));
  EXPECT_EQ(4u * sizeof(float), data::ReadFile(folder + "/model.ckpt-3.data-00003-of-00004")->size())
      << "its task's variable alone";
  Counting again(folder, tasks.Options());
  EXPECT_EQ(0, again.Step());
  EXPECT_EQ(3, again.Restore().step);
  EXPECT_EQ(3, again.Step());
}

TEST(CheckpointCluster, OneProcessReadsWhatFourTasksWrote) {
  const FourTasks tasks("read_alone");
  const std::string folder = fakes::TemporaryFolder("shards");
  {
    Counting counting(folder, tasks.Options());
    counting.Run(counting.add);
    counting.Save(1);
  }
  CountingOptions alone = tasks.Options();
  alone.session.master.clear();
  alone.devices = {"", "", "", ""};
  Counting again(folder, alone);
  EXPECT_EQ(1u, again.saver.shards());
  EXPECT_EQ(1, again.Restore().step);
  EXPECT_EQ(1, again.Step());
}

TEST(CheckpointCluster, EachTaskSavesAndRestoresItsOwnVariablesAndLaterStepsNone) {
  const FourTasks tasks("own_variables");
  const std::string folder = fakes::TemporaryFolder("shards");
  Counting counting(folder, tasks.Options());
  counting.Run(counting.add);
  counting.Save(1);
  auto save =
      counting.session.Prepare({"save/prefix", "save/parts_prefix", "save/parts"}, {}, {"save/MergeV2Checkpoints"});
  ASSERT_TRUE(save.ok()) << save.status();
  auto restore = counting.session.Prepare({"save/prefix"}, {}, {"save/restore_all"});
  ASSERT_TRUE(restore.ok()) << restore.status();
  // One node of each kind on each task, with its variable.
  const auto count = [](const std::string& text, const std::string& part) {
    size_t found = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
  };
  const std::string saving = *save->Explain(), restoring = *restore->Explain();
  for (const char* task : {"/job:ps/replica:0/task:0/", "/job:ps/replica:0/task:1/", "/job:worker/replica:0/task:0/",
                           "/job:worker/replica:0/task:1/"}) {
    EXPECT_EQ(1u, count(saving, std::string("\"op\":\"SaveV2\",\"device\":\"") + task)) << saving;
    EXPECT_EQ(1u, count(restoring, std::string("\"op\":\"RestoreV2\",\"device\":\"") + task)) << restoring;
    const size_t variables = count(saving, std::string("\"op\":\"ReadVariableOp\",\"device\":\"") + task);
    EXPECT_EQ(variables, count(restoring, std::string("\"op\":\"AssignVariableOp\",\"device\":\"") + task))
        << restoring;
    EXPECT_GE(variables, 1u) << saving;
  }
  EXPECT_EQ(1u, count(saving, "\"op\":\"MergeV2Checkpoints\"")) << saving;
  for (const char* file : {"/checkpoint", "/model.ckpt-1.index"}) ASSERT_TRUE(RemoveFile(folder + file).ok());
  for (int step = 2; step < 5; ++step) {
    std::string trace;
    RunOptions traced;
    traced.trace = &trace;
    ASSERT_TRUE(counting.session.Run({}, {}, {counting.add}, traced).ok()) << "there is nothing to restore from";
    const std::set<std::string> ops = fakes::TracedCategories(trace);
    EXPECT_TRUE(ops.contains("AssignAddVariableOp")) << trace;
    EXPECT_FALSE(ops.contains("RestoreV2")) << trace;
  }
}

TEST(CheckpointCluster, AMissingOrDamagedShardSendsAllTasksToTheOneBefore) {
  const FourTasks tasks("missing_shard");
  for (const bool missing : {false, true}) {
    for (const char* shard : {"0", "3"}) {
      const std::string folder = fakes::TemporaryFolder("shards");
      {
        Counting counting(folder, tasks.Options());
        for (int64_t step = 1; step <= 2; ++step) {
          counting.Run(counting.add);
          counting.Save(step);
        }
      }
      const std::string path = folder + "/model.ckpt-2.data-0000" + shard + "-of-00004";
      if (missing) {
        ASSERT_TRUE(RemoveFile(path).ok());
      } else {
        std::string bytes = *data::ReadFile(path);
        bytes[0] ^= 1;
        ASSERT_TRUE(data::ReplaceFile(path, {bytes}).ok());
      }
      Counting again(folder, tasks.Options());
      EXPECT_FALSE(again.saver.RestoreFrom(again.session, folder + "/model.ckpt-2").ok());
      EXPECT_EQ(0, again.Step()) << "those that could be read are not kept";
      const Restored restored = again.Restore();
      EXPECT_EQ(1, restored.step);
      EXPECT_EQ(1u, restored.warnings.size());
      EXPECT_EQ(1, again.Step());
    }
  }
}

const tenon_test_crash& Power() {
  static const tenon_test_crash* const control = [] {
    const Status loaded = train::SharedRuntime().LoadPlugin(TENON_TEST_CRASH_PLUGIN);
    EXPECT_TRUE(loaded.ok()) << loaded;
    return fakes::CrashControl(TENON_TEST_CRASH_PLUGIN);
  }();
  return *control;
}

// TENON_CHECKPOINT_KILLS=200 tries each operation, not one in some.
int64_t Every() { return std::getenv("TENON_CHECKPOINT_KILLS") == nullptr ? 7 : 1; }

// The files of all tasks fail at operations of a save in turn, from the first one given.
void CrashAtChanges(uint32_t lost, int64_t first, const std::string& where) {
  const FourTasks tasks(where);
  const auto train_until_it_fails = [&](const std::string& folder) {
    Counting counting(folder, tasks.Options());
    int64_t saved = 0;
    for (int64_t step = 1; step <= 3; ++step) {
      counting.Run(counting.add);
      if (!counting.saver.Save(counting.session, step).ok()) break;
      saved = step;
    }
    return saved;
  };
  Power().restart(lost);
  const std::string root = "crash://" + where;
  EXPECT_EQ(3, train_until_it_fails(root + "/calm"));
  const int64_t changes = Power().changes();
  ASSERT_GT(changes, 100);
  for (int64_t change = first; change <= changes && !testing::Test::HasFailure(); change += Every()) {
    const std::string when = "change " + std::to_string(change), folder = root + "/" + std::to_string(change);
    Power().restart(lost);
    Power().crash_at(change);
    const int64_t saved = train_until_it_fails(folder);
    Power().restart(lost);
    Counting again(folder, tasks.Options());
    const Restored restored = again.Restore();
    EXPECT_TRUE(restored.warnings.empty()) << when << ": " << restored.warnings[0];
    EXPECT_TRUE(restored.step == saved || restored.step == saved + 1)
        << when << ": " << restored.step << " after " << saved;
    EXPECT_EQ(restored.step, again.Step()) << when;
    again.Run(again.add);
    again.Save(restored.step + 1);
    const std::vector<std::string> files = *ListFolder(folder);
    for (const std::string& file : files)
      EXPECT_TRUE(file.find("tmp") == std::string::npos && file.find("_temp_") == std::string::npos)
          << when << " left " << file;
  }
}

TEST(CheckpointCluster, ALossOfPowerAtAnyOperationOfSavingLeavesAllShardsOrNone) { CrashAtChanges(1, 1, "power"); }
TEST(CheckpointCluster, AKillAtAnyOperationOfSavingLeavesAllShardsOrNone) {
  CrashAtChanges(0, Every() == 1 ? 1 : 4, "kill");
}

}  // namespace
}  // namespace tenon::engine
