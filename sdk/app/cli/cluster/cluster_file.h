// SPDX-License-Identifier: Apache-2.0
// The tasks of a cluster as people's launchers write them: the `cluster` object of TF_CONFIG.
#ifndef TENON_CLI_CLUSTER_CLUSTER_FILE_H_
#define TENON_CLI_CLUSTER_CLUSTER_FILE_H_

#include <string>
#include <string_view>
#include <vector>

#include "tenon/tenon.h"

namespace tenon::cli {

struct ClusterFile {
  std::vector<host::ClusterTask> tasks;
  // Which of them this process is, where the text says so (TF_CONFIG's `task`); "" and -1: it does not.
  std::string job;
  int task = -1;

  // {"ps": ["host:port"], "worker": ["shm://w0", ...]}, a job's tasks also as {"0": "host:port"}; or {"cluster": that,
  // "task":
  // {"type": "worker", "index": 1}}. `source`: the text's name in errors.
  static host::Result<ClusterFile> Parse(std::string_view text, const std::string& source);
  static host::Result<ClusterFile> Read(const std::string& path);
};

// The number that a launcher gave this process among those that it started: Open MPI's, Slurm's, PMI's or torchrun's
// variable; -1: none is set. Task N of a cluster is then the N-th of its tasks, jobs in the order of their names.
host::Result<int> LauncherRank();

// "/job:worker/task:1".
std::string TaskName(const std::string& job, int task);

}  // namespace tenon::cli

#endif  // TENON_CLI_CLUSTER_CLUSTER_FILE_H_
