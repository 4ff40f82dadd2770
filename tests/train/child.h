// SPDX-License-Identifier: Apache-2.0
// `tenon train` in a process of its own, which may be killed.
#ifndef TENON_TESTS_TRAIN_CHILD_H_
#define TENON_TESTS_TRAIN_CHILD_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <ctime>
#include <string>
#include <vector>

#include "tenon/train/checkpoint_files.h"
#include "tenon/train/checkpoint_state.h"

namespace tenon::train {

class Child {
 public:
  // Starts `tenon train JOB...` with these arguments; what it prints is read by Read.
  explicit Child(const std::vector<std::string>& arguments) {
    int ends[2];
    EXPECT_EQ(0, pipe2(ends, O_CLOEXEC));
    std::vector<std::string> all = {TENON_TEST_BUILD_DIR "/bin/tenon", "train"};
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
  void Interrupt() { kill(pid_, SIGINT); }
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

// Of the checkpoints in a job's folder; 0: there is none.
inline int64_t NewestStep(const std::string& folder) {
  const Result<CheckpointState> state = CheckpointState::Read(folder + "/checkpoints");
  return state.ok() && !state->paths.empty() ? StepOfCheckpoint(state->paths.back()) : 0;
}

}  // namespace tenon::train

#endif  // TENON_TESTS_TRAIN_CHILD_H_
