// SPDX-License-Identifier: Apache-2.0
// `tenon worker`: this process as a task of a cluster, until it gets SIGTERM or SIGINT.
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include <CLI/CLI.hpp>
#include <memory>

#include "sdk/cli/cluster_file.h"
#include "sdk/cli/command.h"
#include "sdk/cli/flags.h"
#include "tenon/train/file.h"

namespace tenon::cli {
namespace {

using host::Code;
using host::Result;
using host::Status;

struct WorkerArguments {
  std::string cluster, job, listen, credentials;
  int task = -1;
  std::string patience = "5s";
  RuntimeFlags runtime;
};

// --cluster, or else TF_CONFIG.
Result<ClusterFile> ReadCluster(const std::string& path) {
  if (!path.empty()) return ClusterFile::Read(path);
  if (const char* given = std::getenv("TF_CONFIG"); given != nullptr) return ClusterFile::Parse(given, "TF_CONFIG");
  return Status(Code::kInvalidArgument, "which cluster? Give --cluster FILE, or set TF_CONFIG");
}

Status Serve(const WorkerArguments& arguments) {
  TENON_TRY_ASSIGN(ClusterFile cluster, ReadCluster(arguments.cluster));
  if (!arguments.job.empty()) cluster.job = arguments.job;
  if (arguments.task >= 0) cluster.task = arguments.task;
  std::string name = cluster.job.empty() || cluster.task < 0 ? "" : TaskName(cluster.job, cluster.task);
  if (name.empty()) {
    TENON_TRY_ASSIGN(const int rank, LauncherRank());
    if (rank < 0) return Status(Code::kInvalidArgument, "which task is this? Give --job NAME and --task N, or start it with mpirun, srun or torchrun");
    if (static_cast<size_t>(rank) >= cluster.tasks.size())
      return Status(Code::kInvalidArgument, "the launcher started process " + std::to_string(rank) + ", the cluster has " + std::to_string(cluster.tasks.size()) + " tasks");
    name = cluster.tasks[static_cast<size_t>(rank)].name;
  }
  TENON_TRY_ASSIGN(const std::chrono::nanoseconds patience, ParseTime(arguments.patience));
  // Before there are threads, which would get the signals otherwise.
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  TENON_TRY_ASSIGN(host::RuntimeOptions options, arguments.runtime.Options());
  options.task = name;
  TENON_TRY_ASSIGN(host::Runtime runtime, host::Runtime::Create(options));
  std::string credentials;
  if (!arguments.credentials.empty()) {
    TENON_TRY_ASSIGN(credentials, train::ReadFile(arguments.credentials));
  }
  TENON_TRY_ASSIGN(host::Worker worker, host::Worker::Start(runtime, cluster.tasks, arguments.listen, credentials));
  std::printf("%s listens at %s\n", options.task.c_str(), worker.address().c_str());
  std::fflush(stdout);
  int signal = 0;
  sigwait(&ends, &signal);
  std::printf("%s ends\n", options.task.c_str());
  std::fflush(stdout);
  const Status stopped = worker.Stop(patience);
  return stopped.code() == Code::kDeadlineExceeded ? Status() : stopped;  // what ran too long was cancelled
}

}  // namespace

void AddWorkerCommand(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<WorkerArguments>();
  CLI::App& command = *app.add_subcommand("worker", "Be a task of a cluster: run parts of steps for masters");
  command.add_option("--cluster", arguments->cluster, "JSON: the addresses of all tasks, {\"ps\": [...], \"worker\": [...]} (default: TF_CONFIG)")->type_name("FILE");
  command.add_option("--job", arguments->job, "The job that this task belongs to (default: TF_CONFIG's, or by the number that mpirun, srun or torchrun gave)")->type_name("NAME");
  command.add_option("--task", arguments->task, "Its number in the job (default: TF_CONFIG's)")->type_name("N")->check(CLI::NonNegativeNumber);
  command.add_option("--listen", arguments->listen, "Where to listen, when that is not its address in the cluster")->type_name("ADDRESS");
  command.add_option("--credentials", arguments->credentials, "JSON of the transport: certificates, a token")->type_name("FILE");
  command.add_option("--patience", arguments->patience, "How long running steps may go on after SIGTERM")->type_name("TIME")->capture_default_str();
  arguments->runtime.AddTo(command);
  command.callback([arguments, &action] { action = [arguments] { return Serve(*arguments); }; });
}

}  // namespace tenon::cli
