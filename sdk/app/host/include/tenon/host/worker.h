// SPDX-License-Identifier: Apache-2.0
// Worker: this process as a task of a cluster, which runs parts (partitions) of steps for masters until it is
// destroyed. It has threads of its own; all but moving and destroying may be called from any.
#ifndef TENON_HOST_WORKER_H_
#define TENON_HOST_WORKER_H_

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tenon/host/runtime.h"

namespace tenon::host {

struct ClusterTask {
  std::string name;     // "/job:ps/task:0"
  std::string address;  // with the transport's scheme; plain "host:port" is gRPC's
};

// What is more is RESOURCE_EXHAUSTED to whoever asks for it; others go on.
struct WorkerLimits {
  uint64_t sessions = 0;       // open at once; 0: 64
  uint64_t memory = 0;         // bytes of all sessions' values, variables and steps, in the host's memory and in each
                               // device's; 0: none
  uint64_t message_bytes = 0;  // of one message; 0: 4 GiB
};

class Worker {
 public:
  // The runtime was made with a task (RuntimeOptions::task), which is one of `tasks`, and outlives the worker. tasks:
  // the whole cluster, the same at each. listen: where; "": at the task's address. credentials: of the transport, JSON.
  // It serves when this returns.
  static Result<Worker> Start(const Runtime& runtime, const std::vector<ClusterTask>& tasks,
                              const std::string& listen = "", const std::string& credentials = "",
                              const WorkerLimits& limits = {}) {
    std::vector<tenon_task> c_tasks;
    for (const ClusterTask& task : tasks) c_tasks.push_back({Span(task.name), Span(task.address)});
    tenon_worker_options options = {};
    options.struct_size = sizeof(options);
    options.tasks = c_tasks.data();
    options.task_count = c_tasks.size();
    options.listen = Span(listen);
    options.credentials = Span(credentials);
    options.max_sessions = limits.sessions;
    options.memory_limit = limits.memory;
    options.max_message_bytes = limits.message_bytes;
    tenon_worker* worker = nullptr;
    TENON_TRY(Status::Take(tenon_worker_start(runtime.get(), &options, &worker)));
    return Worker(worker);
  }
  // Where it listens, with the port that the system chose.
  std::string address() const { return std::string(Text(tenon_worker_address(worker_.get()))); }
  // Takes no new steps, and lets those that run end for so long; then cancels them.
  Status Stop(std::chrono::nanoseconds timeout) {
    return Status::Take(tenon_worker_stop(worker_.get(), static_cast<uint64_t>(timeout.count())));
  }
  // What it has done, and has now: JSON, as tenon_worker_metrics of app.h describes it.
  Result<std::string> Metrics() const {
    tenon_text* text = nullptr;
    TENON_TRY(Status::Take(tenon_worker_metrics(worker_.get(), &text)));
    std::string json(Text(tenon_text_span(text)));
    tenon_text_release(text);
    return json;
  }

 private:
  struct Releaser {
    void operator()(tenon_worker* worker) const { tenon_worker_release(worker); }
  };
  explicit Worker(tenon_worker* worker) : worker_(worker) {}
  std::unique_ptr<tenon_worker, Releaser> worker_;
};

}  // namespace tenon::host

#endif  // TENON_HOST_WORKER_H_
