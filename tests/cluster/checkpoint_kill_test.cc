// SPDX-License-Identifier: Apache-2.0
// Tasks and the client of a cluster are killed, and tasks frozen, at random moments while a checkpoint is written at
// each step: none is lost, none is mixed. Covers J6, J7.
#include <cstdlib>
#include <random>

#include "tenon/data/file.h"
#include "tests/cluster/processes.h"
#include "tests/fakes/counting_model.h"

namespace tenon::train {
namespace {

const std::vector<std::string> kTasks = {"/job:ps/task:0", "/job:ps/task:1", "/job:worker/task:0",
                                         "/job:worker/task:1"};

// TENON_CHECKPOINT_KILLS=200 kills more.
int Kills() {
  const char* wished = std::getenv("TENON_CHECKPOINT_KILLS");
  return wished == nullptr ? 8 : std::atoi(wished);
}

// The client in a process of its own.
class Client {
 public:
  Client(const std::string& master, const std::string& folder) {
    int out[2];
    EXPECT_EQ(0, pipe2(out, O_CLOEXEC));
    std::vector<std::string> words = {TENON_CHECKPOINT_CLIENT, master, folder};
    words.insert(words.end(), kTasks.begin(), kTasks.end());
    process_ = engine::StartProgram(std::move(words), out[1]);
    close(out[1]);
    output_ = out[0];
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() {
    Kill();
    waitpid(process_, nullptr, 0);
    close(output_);
  }

  // Reads until so many steps were done in all, or the client has ended. False: nothing came for a minute.
  bool ReadSteps(int steps) {
    while (steps_ < steps) {
      pollfd polled = {output_, POLLIN, 0};
      if (poll(&polled, 1, 60000) <= 0) return false;
      char byte = 0;
      if (read(output_, &byte, 1) != 1) return true;
      said_ += byte;
      if (byte == '\n') Line();
    }
    return true;
  }
  void Kill() const { kill(process_, SIGKILL); }
  const std::string& said() const { return said_; }
  int64_t step() const { return step_; }

 private:
  void Line() {
    const size_t begin = said_.rfind('\n', said_.size() - 2) + 1;  // npos + 1 is 0
    if (said_.compare(begin, 5, "step ") != 0) return;
    step_ = std::atoll(said_.c_str() + begin + 5);
    ++steps_;
  }
  pid_t process_ = -1;
  int output_ = -1;
  std::string said_;
  int steps_ = 0;
  int64_t step_ = 0;  // the last that was done
};

// What the folder holds, on a cluster that works.
struct Verdict {
  int named = 0, lost = 0, mixed = 0;
  int64_t newest = 0;
  bool left = false;  // something of a save that did not end
};

Verdict Judge(const std::string& folder, const std::string& master, int64_t saved) {
  Verdict verdict;
  const std::vector<std::string> files = *data::ListFolder(folder);
  for (const std::string& file : files)
    verdict.left |= file.find("_temp_") != std::string::npos || file.ends_with(".tmp");
  CountingOptions options;
  options.size = 64;
  options.devices = kTasks;
  options.global_step = true;
  options.session.master = master;
  Counting counting(folder, options);
  const Result<CheckpointState> state = CheckpointState::Read(folder);
  EXPECT_TRUE(state.ok()) << state.status();
  for (const std::string& name : state->paths) {
    ++verdict.named;
    const Status restored = counting.saver.RestoreFrom(counting.session, data::JoinPath(folder, name));
    verdict.lost += !restored.ok();
    verdict.mixed += restored.ok() && counting.Step() != StepOfCheckpoint(name);
    EXPECT_TRUE(restored.ok()) << restored;
  }
  const Restored restored = counting.Restore();
  EXPECT_TRUE(restored.warnings.empty()) << restored.warnings[0];
  EXPECT_EQ(restored.step, counting.Step());
  verdict.newest = restored.step;
  verdict.lost += restored.step < saved;
  EXPECT_TRUE(restored.step == saved || restored.step == saved + 1) << restored.step << " after " << saved;
  return verdict;
}

class CheckpointKill : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Over, CheckpointKill, testing::ValuesIn(engine::BuiltTransports()),
                         [](const auto& info) { return std::string(info.param); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CheckpointKill);

TEST_P(CheckpointKill, NoCheckpointIsLostAndNoneIsMixed) {
  const std::string folder = fakes::TemporaryFolder("checkpoint_kill");
  engine::Processes tasks(GetParam(), {{"ps", 2}, {"worker", 2}}, {"--threads=1", "--files=" + folder});
  ASSERT_TRUE(tasks.ok());
  std::mt19937 random(20161104);
  Verdict all;
  int64_t newest = 0;
  int in_mid_save = 0, clients = 0, frozen = 0;
  for (int kill = 0; kill < Kills() && !HasFailure(); ++kill) {
    Client client(tasks.address(random() % tasks.size()), folder);
    ASSERT_TRUE(client.ReadSteps(2 + static_cast<int>(random() % 4))) << client.said();
    usleep(random() % 20000);
    const size_t victim = random() % (tasks.size() + 1);
    const bool freeze = victim < tasks.size() && kill % 8 == 3;
    if (victim == tasks.size()) {
      client.Kill();
      ++clients;
    } else if (freeze) {
      tasks.Signal(victim, SIGSTOP);
      ++frozen;
    } else {
      tasks.Kill(victim);
    }
    ASSERT_TRUE(client.ReadSteps(20000)) << "it does not end: " << client.said();  // to its end; never so many
    if (victim < tasks.size()) {
      EXPECT_NE(client.said().find(tasks.NameOf(victim)), std::string::npos) << client.said();
      // One that stood still goes on with its part of a step that has ended, while the folder is looked at.
      if (freeze) tasks.Signal(victim, SIGCONT);
      ASSERT_TRUE(freeze || tasks.Start(victim));
    }
    EXPECT_EQ(client.said().find("warning"), std::string::npos) << client.said();
    EXPECT_GT(client.step(), newest) << "it came further: " << client.said();
    const Verdict verdict = Judge(folder, tasks.address(0), client.step() - 1);
    all.named += verdict.named;
    all.lost += verdict.lost;
    all.mixed += verdict.mixed;
    in_mid_save += verdict.left;
    newest = verdict.newest;
  }
  std::printf(
      "%d kills (%d of the client, %d freezes, %d in the middle of a save), %lld steps: %d checkpoints looked at, %d "
      "lost, %d mixed\n",
      Kills(), clients, frozen, in_mid_save, static_cast<long long>(newest), all.named, all.lost, all.mixed);
  EXPECT_EQ(all.lost, 0);
  EXPECT_EQ(all.mixed, 0);
  const std::vector<std::string> files = *data::ListFolder(folder);
  for (const std::string& file : files) EXPECT_EQ(file.find("_temp_"), std::string::npos) << "left: " << file;
}

}  // namespace
}  // namespace tenon::train
