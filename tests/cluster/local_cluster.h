// SPDX-License-Identifier: Apache-2.0
// A cluster of tasks within this process, each with a runtime of its own, and a client.
#ifndef TENON_TESTS_CLUSTER_LOCAL_CLUSTER_H_
#define TENON_TESTS_CLUSTER_LOCAL_CLUSTER_H_

#include <memory>

#include "tests/engine/engine.h"

namespace tenon::engine {

class LocalCluster {
 public:
  // jobs: name and number of tasks. Addresses are "SCHEME://PREFIX_JOB_TASK". plugins: that each task loads besides.
  // log_level: of each task. plugin_options: of each task's.
  LocalCluster(const std::string& prefix, const std::vector<std::pair<std::string, int>>& jobs,
               std::vector<std::string> plugins = {}, uint32_t log_level = 0,
               std::vector<PluginOption> plugin_options = {})
      : plugins_(std::move(plugins)), plugin_options_(std::move(plugin_options)), log_level_(log_level) {
    for (const auto& [job, count] : jobs)
      for (int i = 0; i < count; ++i)
        tasks_.push_back({"/job:" + job + "/task:" + std::to_string(i), prefix + "_" + job + "_" + std::to_string(i)});
    for (size_t i = 0; i < tasks_.size(); ++i) {
      runtimes_.emplace_back();
      workers_.emplace_back();
      Start(i);
    }
  }

  void Start(size_t task) {
    RuntimeOptions options;
    options.task = tasks_[task].name;
    options.threads = 1;
    options.plugins = plugins_;
    options.plugin_options = plugin_options_;
    options.log_level = log_level_;
    auto runtime = Runtime::Create(options);
    if (!runtime.ok()) return Fail(runtime.status());
    runtimes_[task] = std::make_unique<Runtime>(std::move(*runtime));
    auto worker = Worker::Start(*runtimes_[task], tasks_);
    if (!worker.ok()) return Fail(worker.status());
    workers_[task] = std::make_unique<Worker>(std::move(*worker));
  }
  void Stop(size_t task) {
    workers_[task].reset();
    runtimes_[task].reset();
  }

  const std::vector<ClusterTask>& tasks() const { return tasks_; }
  const std::string& address(size_t task = 0) const { return tasks_[task].address; }

  // runtime: the graph's.
  Session Client(const Graph& graph, SessionOptions options = {}, const Runtime& runtime = TheRuntime()) const {
    options.master = address();
    auto session = Session::Create(runtime, graph, options);
    if (!session.ok()) {
      Fail(session.status());
      std::abort();  // NOLINT: nothing can be tested without one
    }
    return std::move(*session);
  }

 private:
  static void Fail(const Status& status) { ADD_FAILURE() << status.message(); }
  const std::vector<std::string> plugins_;
  const std::vector<PluginOption> plugin_options_;
  const uint32_t log_level_;
  std::vector<ClusterTask> tasks_;
  std::vector<std::unique_ptr<Runtime>> runtimes_;
  std::vector<std::unique_ptr<Worker>> workers_;  // end first
};

}  // namespace tenon::engine

#endif  // TENON_TESTS_CLUSTER_LOCAL_CLUSTER_H_
