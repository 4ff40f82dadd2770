// SPDX-License-Identifier: Apache-2.0
// `tenon cluster up`: starts the tasks of a cluster on this machine, watches them, and says how one that died ended.
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <deque>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "sdk/app/cli/cluster/cluster_file.h"
#include "sdk/app/cli/cluster/private_folder.h"
#include "sdk/app/cli/cluster/restart_policy.h"
#include "sdk/app/cli/command.h"
#include "sdk/app/cli/line/printable.h"
#include "sdk/app/cli/line/wrong_flag.h"

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
  std::vector<std::string> files;           // --files of each task
  std::vector<std::string> worker_options;  // given on to each `tenon worker`
};

Status System(const std::string& what) { return Status(Code::kInternal, what + ": " + std::strerror(errno)); }

std::chrono::nanoseconds Now() { return std::chrono::steady_clock::now().time_since_epoch(); }

class LocalTasks {
 public:
  explicit LocalTasks(const UpArguments& arguments) : arguments_(arguments) {}
  ~LocalTasks() {
    for (Task& task : tasks_) End(task);
  }

  Status Start() {
    TENON_TRY_ASSIGN(PrivateFolder made, PrivateFolder::Make("tenon_cluster"));
    folder_.emplace(std::move(made));
    nlohmann::json cluster;
    for (const auto& [job, count] : {std::pair<std::string, int>{"ps", arguments_.ps}, {"worker", arguments_.workers}})
      for (int i = 0; i < count; ++i) {
        Task& task = tasks_.emplace_back();
        task.job = job;
        task.number = i;
        task.address = Address(job, i);
        cluster[job].push_back(task.address);
      }
    file_ = arguments_.write.empty() ? folder_->path() + "/cluster.json" : arguments_.write;
    TENON_TRY(PutFile(file_, cluster.dump() + "\n"));
    TENON_TRY(MakeCredentials());
    for (Task& task : tasks_) TENON_TRY(Spawn(task));
    return Status();
  }

  // Until SIGINT or SIGTERM, or (without --restart) a task has died.
  Status Watch(int signals) {
    for (;;) {
      std::vector<pollfd> polled = {{signals, POLLIN, 0}};
      for (const Task& task : tasks_) polled.push_back({task.output, POLLIN, 0});
      if (poll(polled.data(), polled.size(), UntilRestart()) < 0 && errno != EINTR)
        return System("waiting for the tasks");
      for (size_t i = 0; i < tasks_.size(); ++i)
        if (polled[i + 1].revents != 0) TENON_TRY(Read(tasks_[i]));
      signalfd_siginfo signal = {};
      if ((polled[0].revents & POLLIN) != 0 && read(signals, &signal, sizeof(signal)) > 0 &&
          signal.ssi_signo != SIGCHLD)
        return Status();
      for (Task& task : tasks_)
        if (task.due && *task.due <= Now()) TENON_TRY(Spawn(task));
    }
  }

 private:
  std::string master() const { return tasks_.back().address; }

  struct Task {
    std::string job;
    int number;
    std::string address;
    pid_t process = -1;
    int output = -1;
    std::string line{};
    std::deque<std::string> last{};
    bool listens = false;  // it has said so
    RestartPolicy policy{};
    std::optional<std::chrono::nanoseconds> due{};  // when it is started again
    std::string name() const { return TaskName(job, number); }
  };

  // All on this host: sockets in a folder that is this user's alone, or what the transport makes of a name.
  std::string Address(const std::string& job, int number) const {
    const std::string name = job + "_" + std::to_string(number);
    if (arguments_.scheme == "grpc") return "grpc://" + folder_->path() + "/" + name + ".socket";
    return arguments_.scheme + "://" + std::filesystem::path(folder_->path()).filename().string() + "_" + name;
  }

  // A token that nobody else knows, unless the tasks get credentials otherwise. In a file: others see a process's
  // words.
  Status MakeCredentials() {
    const auto gives = [](const std::string& word) {
      return word == "--credentials" || word.starts_with("--credentials=");
    };
    if (arguments_.scheme == "shm" ||
        std::any_of(arguments_.worker_options.begin(), arguments_.worker_options.end(), gives))
      return Status();
    TENON_TRY_ASSIGN(const std::string token, RandomDigits(32));
    credentials_ = folder_->path() + "/credentials.json";
    return WriteNewFile(credentials_, nlohmann::json({{"token", token}}).dump() + "\n");
  }

  // Milliseconds; -1: nobody waits to be started again.
  int UntilRestart() const {
    int least = -1;
    for (const Task& task : tasks_) {
      if (!task.due) continue;
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*task.due - Now()).count();
      const int wait = static_cast<int>(std::max<int64_t>(left, 0));
      least = least < 0 ? wait : std::min(least, wait);
    }
    return least;
  }

  Status Spawn(Task& task) {
    task.due.reset();
    int pipe[2];
    if (pipe2(pipe, O_CLOEXEC) != 0) return System("a pipe for " + task.name());
    std::vector<std::string> words = {
        ProgramFolder() + "/tenon", "worker", "--cluster", file_, "--job", task.job, "--task",
        std::to_string(task.number)};
    if (!credentials_.empty()) words.insert(words.end(), {"--credentials", credentials_});
    for (const std::string& grant : arguments_.files) words.insert(words.end(), {"--files", grant});
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
      Say(task);
      task.last.push_back(std::move(task.line));
      task.line.clear();
      if (task.last.size() > kLastLines) task.last.pop_front();
    }
    std::fflush(stdout);
    return size == 0 ? Died(task) : Status();
  }

  // A line of its own, under its name, which many begin with.
  void Say(Task& task) {
    const std::string line = Printable(task.line);
    std::printf("%s%s\n", line.starts_with(task.name()) ? "" : (task.name() + ": ").c_str(), line.c_str());
    task.listens = task.listens || line.starts_with(task.name() + " listens at ");
    const auto listens = [](const Task& each) { return each.listens; };
    if (!told_ && std::all_of(tasks_.begin(), tasks_.end(), listens)) TellHowToUseIt();
  }

  // When it can be.
  void TellHowToUseIt() {
    std::printf("the cluster stands in %s; use it with --master %s%s\n", file_.c_str(), master().c_str(),
                credentials_.empty() ? "" : (" --credentials " + credentials_).c_str());
    told_ = true;
  }

  Status Died(Task& task) {
    int status = 0;
    close(std::exchange(task.output, -1));
    waitpid(std::exchange(task.process, -1), &status, 0);
    const std::string how = WIFSIGNALED(status) ? std::string("was killed by ") + strsignal(WTERMSIG(status))
                                                : "ended with exit code " + std::to_string(WEXITSTATUS(status));
    std::string text = "task " + task.name() + " " + how;
    // Each line was said when it came.
    if (!arguments_.restart)
      return Status(Code::kUnavailable, text + (task.last.empty() ? "" : "; its last line: " + task.last.back()));
    if (!task.last.empty()) text += "; its last lines:";
    for (const std::string& line : task.last) text += "\n  " + Printable(line);
    const std::optional<std::chrono::nanoseconds> pause = task.policy.Died(Now());
    if (!pause) {
      const auto minutes = std::chrono::duration_cast<std::chrono::minutes>(task.policy.limits().window).count();
      return Status(Code::kUnavailable, "task " + task.name() + " has died " + std::to_string(task.policy.deaths()) +
                                            " times within " + std::to_string(minutes) +
                                            " minutes and is not started again. At last, it " + how +
                                            (task.last.empty() ? "" : "; its last line: " + task.last.back()));
    }
    std::printf("%s\n", text.c_str());
    std::printf("task %s is started again in %lld ms\n", task.name().c_str(),
                static_cast<long long>(std::chrono::duration_cast<std::chrono::milliseconds>(*pause).count()));
    std::fflush(stdout);
    task.last.clear();
    task.due = Now() + *pause;
    return Status();
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
  std::optional<PrivateFolder> folder_;
  std::deque<Task> tasks_;
  std::string file_;
  std::string
      credentials_;    // what a client gives to be let in; empty: the transport asks the system whose process it is
  bool told_ = false;  // how to use the cluster
};

Status Up(const UpArguments& arguments) {
  if (arguments.workers + arguments.ps == 0) WrongFlag("--workers", "a cluster has at least one task");
  sigset_t taken;
  sigemptyset(&taken);
  for (int signal : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&taken, signal);
  sigprocmask(SIG_BLOCK, &taken, nullptr);
  const int signals = signalfd(-1, &taken, SFD_CLOEXEC);
  if (signals < 0) return System("waiting for signals");
  LocalTasks tasks(arguments);
  TENON_TRY(tasks.Start());
  Status status = tasks.Watch(signals);
  close(signals);
  return status;
}

}  // namespace

void AddClusterCommand(CLI::App& app, Action& action) {
  CLI::App& cluster = *app.add_subcommand("cluster", "Clusters on this machine");
  cluster.require_subcommand(1);
  auto arguments = std::make_shared<UpArguments>();
  CLI::App& up = *cluster.add_subcommand(
      "up", "Start the tasks of a cluster here, for this user alone, and watch them until SIGINT");
  up.add_option("--workers", arguments->workers, "Tasks of the job worker")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000));
  up.add_option("--ps", arguments->ps, "Tasks of the job ps, for parameters")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000));
  up.add_option("--transport", arguments->scheme,
                "The transport between them: grpc (over sockets of this user's, with a token) or shm")
      ->type_name("SCHEME")
      ->capture_default_str();
  up.add_option("--write", arguments->write,
                "Where to write the cluster file (default: in a temporary folder that is this user's alone)")
      ->type_name("FILE");
  up.add_flag(
      "--restart", arguments->restart,
      "A task that dies is started again, after pauses that grow; one that dies 11 times within 5 minutes is given up");
  up.add_option(
        "--files", arguments->files,
        "Graphs may read and write files in this folder (PATH:ro: read alone), as of `tenon worker`; may be repeated")
      ->type_name("PATH[:ro]")
      ->allow_extra_args(false);
  up.add_option("--worker-option", arguments->worker_options,
                "A word for each `tenon worker`, such as --threads=1; may be repeated")
      ->type_name("WORD")
      ->allow_extra_args(false);
  up.footer(
      "Examples:\n"
      "  tenon cluster up --workers 2 --ps 1 --files .\n"
      "  tenon run graph.pb --fetch y --master ADDRESS --credentials FILE    with the words that it says");
  up.callback([arguments, &action] { action = [arguments] { return Up(*arguments); }; });
}

}  // namespace tenon::cli
