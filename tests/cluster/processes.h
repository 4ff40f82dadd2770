// SPDX-License-Identifier: Apache-2.0
// Real tasks: processes of `tenon worker` on this machine, which can be killed and stopped.
#ifndef TENON_TESTS_CLUSTER_PROCESSES_H_
#define TENON_TESTS_CLUSTER_PROCESSES_H_

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/cluster/program.h"

namespace tenon::engine {

// The transports between processes that this build has.
inline std::vector<const char*> BuiltTransports() {
  return {
#ifdef TENON_TEST_HAS_shm
      "shm",
#endif
#ifdef TENON_TEST_HAS_grpc
      "grpc",
#endif
  };
}

// Starts a program that dies with the test. output: where its standard output goes.
inline pid_t StartProgram(std::vector<std::string> words, int output) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t process = fork();
  if (process != 0) return process;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  dup2(output, STDOUT_FILENO);
  execv(argv[0], argv.data());
  _exit(127);
}

class Processes {
 public:
  // jobs: name and number of tasks. scheme: "grpc" or "shm".
  Processes(const std::string& scheme, const std::vector<std::pair<std::string, int>>& jobs,
            std::vector<std::string> options = {"--threads=1"})
      : options_(std::move(options)) {
    static std::atomic<int> clusters{0};
    const std::string own = std::to_string(getpid()) + "_" + std::to_string(clusters++);
    file_ = "/tmp/tenon_test_" + own + ".json";
    std::string text;
    for (const auto& [job, count] : jobs) {
      text += (text.empty() ? "{\"" : ", \"") + job + "\": [";
      for (int i = 0; i < count; ++i) {
        const std::string address = scheme == "grpc"
                                        ? "grpc://127.0.0.1:" + std::to_string(FreePort())
                                        : scheme + "://tenon_test_" + own + "_" + job + "_" + std::to_string(i);
        text += (i == 0 ? "\"" : ", \"") + address + "\"";
        tasks_.push_back({job, i, address, -1, -1});
      }
      text += "]";
    }
    std::ofstream(file_) << text << "}\n";
    for (size_t i = 0; i < tasks_.size(); ++i) ok_ = Start(i) && ok_;
  }
  ~Processes() {
    for (size_t i = 0; i < tasks_.size(); ++i) Kill(i);
    unlink(file_.c_str());
  }
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  // Whether all listened within ten seconds.
  bool ok() const { return ok_; }
  const std::string& address(size_t task) const { return tasks_[task].address; }
  // As errors name it: "task /job:worker/replica:0/task:1 at grpc://...".
  std::string NameOf(size_t task) const {
    return "task /job:" + tasks_[task].job + "/replica:0/task:" + std::to_string(tasks_[task].number) + " at " +
           tasks_[task].address;
  }
  // The cluster's.
  const std::string& file() const { return file_; }
  size_t size() const { return tasks_.size(); }
  pid_t process(size_t task) const { return tasks_[task].process; }

  bool Start(size_t index) {
    Task& task = tasks_[index];
    int out[2];
    if (pipe2(out, O_CLOEXEC) != 0) return false;
    std::vector<std::string> words = {TENON_PROGRAM, "worker", "--cluster", file_,
                                      "--job",       task.job, "--task",    std::to_string(task.number)};
    words.insert(words.end(), options_.begin(), options_.end());
    task.process = StartProgram(std::move(words), out[1]);
    close(out[1]);
    task.output = out[0];
    const std::string said = Line(index);
    return said.find("listens at") != std::string::npos;
  }
  // The next line that the task says; what it said so far when ten seconds pass or it ends.
  std::string Line(size_t task) const {
    std::string said;
    for (char byte = 0; !said.ends_with('\n');) {
      pollfd polled = {tasks_[task].output, POLLIN, 0};
      if (poll(&polled, 1, 10000) <= 0 || read(tasks_[task].output, &byte, 1) != 1) break;
      said += byte;
    }
    return said;
  }
  // Of tasks that are started from now on.
  void set_options(std::vector<std::string> options) { options_ = std::move(options); }
  void Signal(size_t task, int signal) const { SendSignal(tasks_[task].process, signal); }
  void Kill(size_t index) {
    Task& task = tasks_[index];
    if (task.process > 0) {
      kill(task.process, SIGKILL);
      waitpid(task.process, nullptr, 0);
    }
    if (task.output >= 0) close(task.output);
    task.process = task.output = -1;
  }

 private:
  struct Task {
    std::string job;
    int number;
    std::string address;
    pid_t process;
    int output;
  };

  // Below those that the system gives to connections (from 32768 on): one that was free a moment ago would be another
  // test's by now, and while a task is started again. Each process begins elsewhere.
  static int FreePort() {
    constexpr int kFirst = 10000, kPorts = 22000, kOfProcess = 64;
    static std::atomic<int> next{static_cast<int>(int64_t{getpid()} * kOfProcess % kPorts)};
    for (int tried = 0; tried < kPorts; ++tried) {
      const int port = kFirst + next++ % kPorts;
      const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      sockaddr_in address = {};
      address.sin_family = AF_INET;
      address.sin_port = htons(static_cast<uint16_t>(port));
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      const bool is_free = bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
      close(socket);
      if (is_free) return port;
    }
    return 0;
  }

  std::vector<std::string> options_;
  std::string file_;
  std::vector<Task> tasks_;
  bool ok_ = true;
};

}  // namespace tenon::engine

#endif  // TENON_TESTS_CLUSTER_PROCESSES_H_
