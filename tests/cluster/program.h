// SPDX-License-Identifier: Apache-2.0
// A command of bin/tenon in a process of its own.
#ifndef TENON_TESTS_CLUSTER_PROGRAM_H_
#define TENON_TESTS_CLUSTER_PROGRAM_H_

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace tenon::engine {

// When it returns the process stands still (SIGSTOP) or is dead (SIGKILL): a signal alone is on its way, and what is
// asked of the process meanwhile may still be answered.
inline void SendSignal(pid_t process, int signal) {
  kill(process, signal);
  siginfo_t seen;
  const int change = signal == SIGSTOP ? WSTOPPED | WEXITED : WEXITED;
  if (signal == SIGSTOP || signal == SIGKILL) waitid(P_PID, static_cast<id_t>(process), &seen, change | WNOWAIT);
}

class Program {
 public:
  // words: after `tenon`. errors, output: files that get what it says on stderr ("": this process's) and stdout.
  explicit Program(std::vector<std::string> words, const std::string& errors = "",
                   const std::string& output = "/dev/null") {
    words.insert(words.begin(), TENON_PROGRAM);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    process_ = fork();
    if (process_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      constexpr int kWrite = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
      dup2(open(output.c_str(), kWrite, 0600), STDOUT_FILENO);
      if (!errors.empty()) dup2(open(errors.c_str(), kWrite, 0600), STDERR_FILENO);
      execv(argv[0], argv.data());
      _exit(127);
    }
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() { Kill(); }

  pid_t process() const { return process_; }
  void Signal(int signal) const {
    if (process_ > 0) SendSignal(process_, signal);
  }
  void Kill() {
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    process_ = -1;
  }
  bool Runs() {
    int status = 0;
    if (process_ <= 0 || waitpid(process_, &status, WNOHANG) == 0) return process_ > 0;
    process_ = -1;
    code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return false;
  }
  // The exit code; -2: it did not end in time.
  int Wait(int seconds = 120) {
    for (int i = 0; i < 100 * seconds; ++i) {
      if (!Runs()) return code_;
      usleep(10000);
    }
    return -2;
  }

 private:
  pid_t process_ = -1;
  int code_ = -1;
};

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

// The step of the newest checkpoint in a training's folder; 0: none.
inline int64_t NewestCheckpoint(const std::string& folder) {
  int64_t newest = 0;
  std::error_code problem;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/checkpoints", problem)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("model.ckpt-") && name.ends_with(".index"))
      newest = std::max<int64_t>(newest, std::atoll(name.c_str() + 11));
  }
  return newest;
}

}  // namespace tenon::engine

#endif  // TENON_TESTS_CLUSTER_PROGRAM_H_
