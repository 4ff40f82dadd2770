// SPDX-License-Identifier: Apache-2.0
// `tenon cluster up`: starts the tasks of a cluster on this machine, watches them, and says how one that died ended.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <deque>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "sdk/cli/cluster_file.h"
#include "sdk/cli/command.h"

namespace tenon::cli {
namespace {

using host::Code;
using host::Result;
using host::Status;

constexpr size_t kLastLines = 10;

struct UpArguments {
  int workers = 2, ps = 0;
  std::string scheme = "grpc", write;
  bool restart = false;
  std::vector<std::string> worker_options;  // given on to each `tenon worker`
};

Status System(const std::string& what) { return Status(Code::kInternal, what + ": " + std::strerror(errno)); }

// A port that nobody has now.
Result<int> FreePort() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  const bool found = socket >= 0 && bind(socket, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  const Status problem = found ? Status() : System("looking for a free port");
  if (socket >= 0) close(socket);
  if (!found) return problem;
  return int{ntohs(address.sin_port)};
}

class LocalTasks {
 public:
  explicit LocalTasks(const UpArguments& arguments) : arguments_(arguments) {}
  ~LocalTasks() {
    for (Task& task : tasks_) End(task);
    if (!file_.empty() && arguments_.write.empty()) unlink(file_.c_str());
  }

  Status Start() {
    nlohmann::json cluster;
    for (const auto& [job, count] : {std::pair<std::string, int>{"ps", arguments_.ps}, {"worker", arguments_.workers}})
      for (int i = 0; i < count; ++i) {
        TENON_TRY_ASSIGN(const std::string address, Address(job, i));
        cluster[job].push_back(address);
        tasks_.push_back({job, i, address});
      }
    file_ = arguments_.write.empty() ? "/tmp/tenon_cluster_" + std::to_string(getpid()) + ".json" : arguments_.write;
    std::ofstream file(file_);
    if (!(file << cluster.dump() << std::endl)) return System("writing " + file_);
    for (Task& task : tasks_) TENON_TRY(Spawn(task));
    return Status();
  }
  const std::string& file() const { return file_; }
  std::string master() const { return tasks_.back().address; }

  // Until SIGINT or SIGTERM, or (without --restart) a task has died.
  Status Watch(int signals) {
    for (;;) {
      std::vector<pollfd> polled = {{signals, POLLIN, 0}};
      for (const Task& task : tasks_) polled.push_back({task.output, POLLIN, 0});
      if (poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) return System("waiting for the tasks");
      for (size_t i = 0; i < tasks_.size(); ++i)
        if (polled[i + 1].revents != 0) TENON_TRY(Read(tasks_[i]));
      signalfd_siginfo signal = {};
      if ((polled[0].revents & POLLIN) != 0 && read(signals, &signal, sizeof(signal)) > 0 && signal.ssi_signo != SIGCHLD) return Status();
    }
  }

 private:
  struct Task {
    std::string job;
    int number;
    std::string address;
    pid_t process = -1;
    int output = -1;
    std::string line{};
    std::deque<std::string> last{};
    std::string name() const { return TaskName(job, number); }
  };

  Result<std::string> Address(const std::string& job, int number) const {
    if (arguments_.scheme != "grpc")
      return arguments_.scheme + "://tenon_" + std::to_string(getpid()) + "_" + job + "_" + std::to_string(number);
    TENON_TRY_ASSIGN(const int port, FreePort());
    return "grpc://127.0.0.1:" + std::to_string(port);
  }

  Status Spawn(Task& task) {
    int pipe[2];
    if (pipe2(pipe, O_CLOEXEC) != 0) return System("a pipe for " + task.name());
    std::vector<std::string> words = {ProgramFolder() + "/tenon", "worker", "--cluster", file_, "--job", task.job, "--task", std::to_string(task.number)};
    words.insert(words.end(), arguments_.worker_options.begin(), arguments_.worker_options.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    task.process = fork();
    if (task.process == 0) {
      prctl(PR_SET_PDEATHSIG, SIGTERM);  // no task outlives what watches it
      sigset_t none;
      sigemptyset(&none);
      sigprocmask(SIG_SETMASK, &none, nullptr);
      dup2(pipe[1], STDOUT_FILENO);
      dup2(pipe[1], STDERR_FILENO);
      execv(argv[0], argv.data());
      _exit(127);
    }
    close(pipe[1]);
    task.output = pipe[0];
    return task.process < 0 ? System("starting " + task.name()) : Status();
  }

  Status Read(Task& task) {
    char buffer[4096];
    const ssize_t size = read(task.output, buffer, sizeof(buffer));
    for (ssize_t i = 0; i < size; ++i) {
      if (buffer[i] != '\n') {
        task.line += buffer[i];
        continue;
      }
      std::printf("%s: %s\n", task.name().c_str(), task.line.c_str());
      task.last.push_back(std::move(task.line));
      task.line.clear();
      if (task.last.size() > kLastLines) task.last.pop_front();
    }
    std::fflush(stdout);
    return size == 0 ? Died(task) : Status();
  }

  Status Died(Task& task) {
    int status = 0;
    close(std::exchange(task.output, -1));
    waitpid(std::exchange(task.process, -1), &status, 0);
    const std::string how = WIFSIGNALED(status) ? std::string("was killed by ") + strsignal(WTERMSIG(status))
                                                : "ended with exit code " + std::to_string(WEXITSTATUS(status));
    std::string text = "task " + task.name() + " " + how;
    if (!task.last.empty()) text += "; its last lines:";
    for (const std::string& line : task.last) text += "\n  " + line;
    if (!arguments_.restart) return Status(Code::kUnavailable, text);
    std::printf("%s\n", text.c_str());
    std::fflush(stdout);
    task.last.clear();
    return Spawn(task);
  }

  static void End(Task& task) {
    if (task.process > 0) {
      kill(task.process, SIGTERM);
      kill(task.process, SIGCONT);  // one that is stopped too
      waitpid(task.process, nullptr, 0);
    }
    if (task.output >= 0) close(task.output);
  }

  const UpArguments& arguments_;
  std::vector<Task> tasks_;
  std::string file_;
};

Status Up(const UpArguments& arguments) {
  if (arguments.workers + arguments.ps == 0) return Status(Code::kInvalidArgument, "a cluster has at least one task");
  sigset_t taken;
  sigemptyset(&taken);
  for (int signal : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&taken, signal);
  sigprocmask(SIG_BLOCK, &taken, nullptr);
  const int signals = signalfd(-1, &taken, SFD_CLOEXEC);
  if (signals < 0) return System("waiting for signals");
  LocalTasks tasks(arguments);
  TENON_TRY(tasks.Start());
  std::printf("the cluster stands in %s; use it with --master %s\n", tasks.file().c_str(), tasks.master().c_str());
  std::fflush(stdout);
  Status status = tasks.Watch(signals);
  close(signals);
  return status;
}

}  // namespace

void AddClusterCommand(CLI::App& app, Action& action) {
  CLI::App& cluster = *app.add_subcommand("cluster", "Clusters on this machine");
  cluster.require_subcommand(1);
  auto arguments = std::make_shared<UpArguments>();
  CLI::App& up = *cluster.add_subcommand("up", "Start the tasks of a cluster here, and watch them until SIGINT");
  up.add_option("--workers", arguments->workers, "Tasks of the job worker")->capture_default_str()->check(CLI::Range(0, 1000));
  up.add_option("--ps", arguments->ps, "Tasks of the job ps, for parameters")->capture_default_str()->check(CLI::Range(0, 1000));
  up.add_option("--transport", arguments->scheme, "The transport between them")->type_name("SCHEME")->capture_default_str();
  up.add_option("--write", arguments->write, "Where to write the cluster file (default: a temporary one)")->type_name("FILE");
  up.add_flag("--restart", arguments->restart, "A task that dies is started again");
  up.add_option("--worker-option", arguments->worker_options, "A word for each `tenon worker`, such as --threads=1; may be repeated")
      ->type_name("WORD")
      ->allow_extra_args(false);
  up.callback([arguments, &action] { action = [arguments] { return Up(*arguments); }; });
}

}  // namespace tenon::cli
