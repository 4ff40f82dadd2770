// SPDX-License-Identifier: Apache-2.0
// `tenon worker`: this process as a task of a cluster, until it gets SIGTERM or SIGINT.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "sdk/app/cli/cluster/cluster_file.h"
#include "sdk/app/cli/cluster/metrics_server.h"
#include "sdk/app/cli/command.h"
#include "sdk/app/cli/flags.h"
#include "sdk/app/cli/line/wrong_flag.h"
#include "tenon/data/file.h"

namespace tenon::cli {
namespace {

using host::Code;
using host::Result;
using host::Status;

struct WorkerArguments {
  std::string cluster, job, listen, credentials, metrics;
  bool metrics_plaintext = false;
  int task = -1;
  std::string patience = "5s";
  std::string memory_limit, max_message;
  uint64_t max_sessions = 64;
  std::vector<std::string> files;
  RuntimeFlags runtime;
};

// --cluster, or else TF_CONFIG.
Result<ClusterFile> ReadCluster(const std::string& path) {
  if (!path.empty()) return ClusterFile::Read(path);
  if (const char* given = std::getenv("TF_CONFIG"); given != nullptr) return ClusterFile::Parse(given, "TF_CONFIG");
  WrongFlag("--cluster", "which cluster? Give --cluster FILE, or set TF_CONFIG");
}

// Which task of the cluster this process is: as it was told, or by its launcher's number.
Result<std::string> OwnName(const WorkerArguments& arguments, ClusterFile cluster) {
  if (!arguments.job.empty()) cluster.job = arguments.job;
  if (arguments.task >= 0) cluster.task = arguments.task;
  if (!cluster.job.empty() && cluster.task >= 0) return TaskName(cluster.job, cluster.task);
  TENON_TRY_ASSIGN(const int rank, LauncherRank());
  if (rank < 0)
    WrongFlag("--job", "which task is this? Give --job NAME and --task N, or start it with mpirun, srun or torchrun");
  if (static_cast<size_t>(rank) >= cluster.tasks.size())
    return Status(Code::kInvalidArgument, "the launcher started process " + std::to_string(rank) +
                                              ", the cluster has " + std::to_string(cluster.tasks.size()) + " tasks");
  return cluster.tasks[static_cast<size_t>(rank)].name;
}

Result<host::WorkerLimits> Limits(const WorkerArguments& arguments) {
  host::WorkerLimits limits;
  limits.sessions = arguments.max_sessions;
  if (!arguments.memory_limit.empty()) {
    TENON_TRY_ASSIGN(limits.memory, ParseSize(arguments.memory_limit));
  }
  if (!arguments.max_message.empty()) {
    TENON_TRY_ASSIGN(limits.message_bytes, ParseSize(arguments.max_message));
  }
  return limits;
}

Status Serve(const WorkerArguments& arguments) {
  TENON_TRY_ASSIGN(const ClusterFile cluster, ReadCluster(arguments.cluster));
  TENON_TRY_ASSIGN(const std::string name, OwnName(arguments, cluster));
  TENON_TRY_ASSIGN(const host::WorkerLimits limits, Limits(arguments));
  TENON_TRY_ASSIGN(const std::chrono::nanoseconds patience, ParseTime(arguments.patience));
  // Before there are threads, which would get the signals otherwise.
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  TENON_TRY_ASSIGN(host::RuntimeOptions options, arguments.runtime.Options());
  options.task = name;
  std::string credentials;
  if (!arguments.credentials.empty()) {
    TENON_TRY_ASSIGN(credentials, data::ReadFile(arguments.credentials));
  }
  // Whoever may connect chooses the graphs, and so the paths that their ops open: none but those that were granted.
  options.plugin_options.push_back({"tenon", "files", ""});
  for (const std::string& grant : arguments.files) options.plugin_options.push_back({"tenon", "files", grant});
  TENON_TRY_ASSIGN(host::Runtime runtime, arguments.runtime.CreateWith(options));
  TENON_TRY_ASSIGN(host::Worker worker,
                   host::Worker::Start(runtime, cluster.tasks, arguments.listen, credentials, limits));
  std::unique_ptr<MetricsServer> metrics;
  if (!arguments.metrics.empty()) {
    Result<std::unique_ptr<MetricsServer>> started =
        MetricsServer::Start(arguments.metrics, arguments.metrics_plaintext, [&worker] { return worker.Metrics(); });
    if (started.status().code() == Code::kInvalidArgument) WrongFlag("--metrics", started.status().message());
    TENON_TRY_ASSIGN(metrics, std::move(started));
  }
  std::printf("%s listens at %s\n", options.task.c_str(), worker.address().c_str());
  if (metrics != nullptr) std::printf("%s shows its metrics at %s\n", options.task.c_str(), metrics->url().c_str());
  std::fflush(stdout);
  int signal = 0;
  sigwait(&ends, &signal);
  std::printf("%s ends\n", options.task.c_str());
  std::fflush(stdout);
  const Status stopped = worker.Stop(patience);
  if (stopped.code() == Code::kAborted) {
    // A thread that does not end cannot be waited for, and what it uses cannot be taken from it.
    std::fprintf(stderr, "tenon worker: %s; the process ends without it\n", stopped.message().c_str());
    std::fflush(nullptr);
    _exit(1);
  }
  return stopped.code() == Code::kDeadlineExceeded ? Status() : stopped;  // what ran too long was cancelled
}

}  // namespace

void AddWorkerCommand(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<WorkerArguments>();
  CLI::App& command = *app.add_subcommand("worker", "Be a task of a cluster: run parts of steps for masters");
  command
      .add_option("--cluster", arguments->cluster,
                  "JSON: the addresses of all tasks, {\"ps\": [...], \"worker\": [...]} (default: TF_CONFIG)")
      ->type_name("FILE");
  command
      .add_option("--job", arguments->job,
                  "The job that this task belongs to (default: TF_CONFIG's, or by the number that mpirun, srun or "
                  "torchrun gave)")
      ->type_name("NAME");
  command.add_option("--task", arguments->task, "Its number in the job (default: TF_CONFIG's)")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber);
  command.add_option("--listen", arguments->listen, "Where to listen, when that is not its address in the cluster")
      ->type_name("ADDRESS");
  command.add_option("--credentials", arguments->credentials, "JSON of the transport: certificates, a token")
      ->type_name("FILE");
  command
      .add_option("--files", arguments->files,
                  "Graphs may read and write files in this folder (PATH:ro: read alone), or of a file system that a "
                  "plugin brings "
                  "(memory://); may be repeated. Without it they touch no file")
      ->type_name("PATH[:ro]")
      ->allow_extra_args(false);
  command.add_option("--patience", arguments->patience, "How long running steps may go on after SIGTERM")
      ->type_name("TIME")
      ->capture_default_str()
      ->check(CheckTime);
  command
      .add_option(
          "--metrics", arguments->metrics,
          "Show metrics in Prometheus' text format at http://ADDRESS/metrics, such as 127.0.0.1:9100; port 0: any")
      ->type_name("ADDRESS");
  command.add_flag("--metrics-plaintext", arguments->metrics_plaintext,
                   "ADDRESS may be another than loopback: whoever reaches it reads the metrics, unencrypted");
  command
      .add_option(
          "--memory-limit", arguments->memory_limit,
          "Most memory of values and variables of all sessions, in the host's memory and in each device's, such as 4G")
      ->type_name("SIZE")
      ->check(CheckSize);
  command.add_option("--max-sessions", arguments->max_sessions, "Most sessions of masters at once")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 20));
  command
      .add_option("--max-message", arguments->max_message,
                  "Largest message (feeds, fetches, one value), such as 64M (default: 4G)")
      ->type_name("SIZE")
      ->check(CheckSize);
  arguments->runtime.AddTo(command);
  command.footer(
      "Environment: TF_CONFIG, and the launchers' numbers: `tenon help environment`.\n\n"
      "Example:\n"
      "  tenon worker --cluster cluster.json --job worker --task 0 --credentials secret.json --files /data:ro");
  command.callback([arguments, &action] { action = [arguments] { return Serve(*arguments); }; });
}

}  // namespace tenon::cli
