// SPDX-License-Identifier: Apache-2.0
// Training that is killed (SIGKILL) at random moments resumes each time, and ends with the very weights of a run that
// nobody disturbed.
//
// A checkpoint is written at each step, so that most kills fall into the writing of one. The moments are random in
// time; nothing waits longer than the child runs, and no outcome depends on how fast the machine is.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "tenon/data/file.h"
#include "tenon/train/checkpoint_state.h"
#include "tenon/train/event_file.h"
#include "tenon/train/saver.h"
#include "tests/fakes/temporary_folder.h"

namespace tenon::train {
namespace {

constexpr int kSteps = 16 * TENON_KILLS + 40;  // more than the killed runs get through together

class Child {
 public:
  // Starts `tenon train digits` with these arguments; what it prints is read by Read.
  explicit Child(const std::vector<std::string>& arguments) {
    int ends[2];
    EXPECT_EQ(0, pipe2(ends, O_CLOEXEC));
    std::vector<std::string> all = {TENON_TEST_BUILD_DIR "/bin/tenon", "train", "digits"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& argument : all) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      dup2(ends[1], STDERR_FILENO);
      execv(argv[0], argv.data());
      _exit(127);
    }
    close(ends[1]);
    out_ = ends[0];
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { close(out_); }

  // Reads until the text appears (true), or the child's output ends (false).
  bool ReadUntil(const std::string& text) {
    while (output_.find(text) == std::string::npos) {
      if (!ReadMore(-1)) return false;
    }
    return true;
  }
  // Reads for so many milliseconds, or until the output ends.
  void ReadFor(int milliseconds) {
    timespec begin = {}, now = {};
    clock_gettime(CLOCK_MONOTONIC, &begin);
    while (milliseconds > 0 && ReadMore(milliseconds)) {
      clock_gettime(CLOCK_MONOTONIC, &now);
      milliseconds -= static_cast<int>((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000);
      begin = now;
    }
  }
  void Kill() { kill(pid_, SIGKILL); }
  // The exit code, or minus the signal.
  int Wait() {
    while (ReadMore(-1)) {
    }
    int status = 0;
    EXPECT_EQ(pid_, waitpid(pid_, &status, 0));
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }
  const std::string& output() const { return output_; }

 private:
  // False at the end of the output, or when the time is over.
  bool ReadMore(int milliseconds) {
    pollfd wait = {out_, POLLIN, 0};
    if (poll(&wait, 1, milliseconds) <= 0) return false;
    char bytes[4096];
    const ssize_t count = read(out_, bytes, sizeof(bytes));
    if (count > 0) output_.append(bytes, static_cast<size_t>(count));
    return count > 0;
  }

  pid_t pid_ = -1;
  int out_ = -1;
  std::string output_;
};

std::string TemporaryFolder() { return fakes::TemporaryFolder("kill"); }

std::vector<std::string> Arguments(const std::string& folder, const std::string& checkpoint_steps) {
  return {"--folder", folder,      "--steps", std::to_string(kSteps), "--checkpoint-steps", checkpoint_steps, "--keep",
          "2",        "--threads", "1"};
}

int64_t NewestStep(const std::string& folder) {
  const Result<CheckpointState> state = CheckpointState::Read(folder + "/checkpoints");
  return state.ok() && !state->paths.empty() ? StepOfCheckpoint(state->paths.back()) : 0;
}

void ExpectReadableEvents(const std::string& folder) {
  const Result<std::vector<std::string>> files = data::ListFolder(folder + "/events");
  ASSERT_TRUE(files.ok()) << files.status();
  for (const std::string& file : *files) {
    const Result<std::string> bytes = data::ReadFile(folder + "/events/" + file);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    RecordReader reader(*bytes);
    while (true) {
      const Result<std::optional<std::string_view>> record = reader.Next();
      ASSERT_TRUE(record.ok()) << file << ": " << record.status();
      if (!record->has_value()) break;
    }
  }
}

TEST(Kill, TrainingResumesEachTimeAndEndsWithTheSameWeights) {
  const std::string folder = TemporaryFolder();
  std::mt19937 random(std::random_device{}());
  int kills = 0, resumed = 0;
  int64_t newest = 0;
  while (kills < TENON_KILLS) {
    Child child(Arguments(folder, "1"));
    // A random moment after the start, but none later than a few new checkpoints, so that the steps last for all kills.
    ASSERT_TRUE(child.ReadUntil("Teaching")) << child.output();
    for (auto left = static_cast<int>(random() % 200); left > 0 && NewestStep(folder) < newest + 4; left -= 5)
      child.ReadFor(5);
    child.Kill();
    const int code = child.Wait();
    if (code == 0) break;  // it was done before it could be killed
    ASSERT_EQ(-SIGKILL, code) << child.output();
    ++kills;
    // What was complete before is never lost, and a checkpoint that is named can be read: no run had to fall back.
    EXPECT_EQ(std::string::npos, child.output().find("warning")) << child.output();
    EXPECT_GE(NewestStep(folder), newest) << child.output();
    newest = NewestStep(folder);
    resumed += child.output().find("resumed from") != std::string::npos;
  }
  EXPECT_GE(kills, TENON_KILLS / 2);
  EXPECT_GE(resumed, 1);

  Child last(Arguments(folder, "1000000"));
  ASSERT_EQ(0, last.Wait()) << last.output();
  EXPECT_EQ(kSteps, NewestStep(folder));
  ExpectReadableEvents(folder);

  const std::string undisturbed = TemporaryFolder();
  Child whole(Arguments(undisturbed, "1000000"));
  ASSERT_EQ(0, whole.Wait()) << whole.output();
  // Weights and slots: the tensors of the last checkpoint.
  const std::string data = "/checkpoints/model.ckpt-" + std::to_string(kSteps) + ".data-00000-of-00001";
  const Result<std::string> one = data::ReadFile(folder + data), two = data::ReadFile(undisturbed + data);
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_TRUE(*one == *two) << "the weights differ";
  std::printf("%d kills, %d of the killed runs had resumed, the last at step %lld of %d\n", kills, resumed,
              static_cast<long long>(newest), kSteps);
}

}  // namespace
}  // namespace tenon::train
