// SPDX-License-Identifier: Apache-2.0
// Worker: a task of a cluster. It runs parts (partitions) of steps for masters, and exchanges values with other
// workers.
//
// A master opens a session here, registers the parts of its steps that this task runs, and then sends one message a
// step. State (variables, queues) lives in the worker's own container and outlives sessions, unless a session asks for
// one of its own. A session ends when its master closes it, is gone, or has not been heard of for its lease; its steps
// are cancelled then.
//
// Nothing that comes over the network can end the process: it is checked, and refused with a status.
#ifndef TENON_NET_CLUSTER_WORKER_H_
#define TENON_NET_CLUSTER_WORKER_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/session/runtime.h"
#include "net/cluster/background.h"
#include "net/cluster/early_steps.h"
#include "net/cluster/metrics.h"
#include "net/cluster/network.h"
#include "net/cluster/packet.h"
#include "net/cluster/peers.h"
#include "net/cluster/running_steps.h"
#include "net/cluster/session_table.h"
#include "net/cluster/worker_budgets.h"
#include "net/cluster/worker_sessions.h"
#include "net/cluster/worker_steps.h"
#include "net/cluster/worker_values.h"

namespace tenon::cluster {

struct WorkerOptions {
  std::string task;         // "/job:worker/replica:0/task:1"
  std::vector<Task> tasks;  // of the cluster, this one too
  std::string listen;       // where; empty: at its own address
  std::string credentials;  // of the transports, JSON
  // What is more is refused with RESOURCE_EXHAUSTED, which ends nothing but the step or the session that asked for it.
  uint64_t max_sessions = 64;
  uint64_t memory_limit =
      0;  // bytes of all sessions' values, variables and steps, in the host's memory and in each device's; 0: none
  uint64_t max_message_bytes = 0;  // of one message; 0: the transport's own limit
};

// Any thread. Its lock guards its own end alone: what it is made of has locks of its own.
class Worker {
 public:
  // The runtime's devices are open, and named by the task. It outlives the worker.
  static Result<std::unique_ptr<Worker>> Start(session::Runtime* runtime, Network::Finder finder,
                                               WorkerOptions options);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  const std::string& address() const { return address_; }
  // Takes no new calls, lets steps end until the deadline, then cancels them and stops. ABORTED: something does not
  // end, and the message says what; the process had best be ended, as the destructor waits for it.
  Status Stop(uint64_t deadline_ns);
  // JSON, as tenon_worker_metrics of app.h describes it.
  std::string Metrics() const;

 private:
  Worker(session::Runtime* runtime, Network::Finder finder, WorkerOptions options);
  // What the network calls.
  Handlers MakeHandlers();
  void OnCall(tenon_peer* peer, const tenon_incoming& call, Reply reply);
  // Of a method that a callback has the time for.
  Status Take(std::string_view method, tenon_span request, Reply reply);
  Status Hello(tenon_span request, Reply reply);
  Status Ping(tenon_span request, Reply reply);
  // Looks, from time to time, whose master or peer is silent.
  void Watch();
  // All that may wait for what runs.
  void Finish();

  session::Runtime* const runtime_;
  const WorkerOptions options_;
  std::string address_;  // fixed once it listens
  const uint64_t incarnation_, started_ns_;
  WorkerMetrics metrics_;
  const WorkerBudgets budgets_;
  Background background_;
  Network network_;
  const StepServices services_;
  EarlySteps early_;
  RunningSteps running_;
  SessionTable table_;
  Peers peers_;
  WorkerSessions sessions_;
  WorkerSteps steps_;
  const WorkerValues values_;
  std::mutex mutex_;  // guards the next two
  bool stop_ = false, finished_ = false;
  std::condition_variable changed_;
  std::thread finisher_;
  std::thread watch_;
};

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_WORKER_H_
