// SPDX-License-Identifier: Apache-2.0
// Metrics: what a worker has done, counted, for those who watch it.
//
// Counters grow from the worker's start. What an answer tells is counted before the answer is sent: who has it finds it
// counted. The other side is "master" (all masters together), a task of the worker's cluster by its name, or "other" (a
// task that the cluster does not have), so that their number is bounded. Bytes are those that the worker and its
// transport hand each other. Any thread.
#ifndef TENON_NET_CLUSTER_METRICS_H_
#define TENON_NET_CLUSTER_METRICS_H_

#include <array>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor/buffer.h"
#include "net/cluster/cluster.pb.h"
#include "net/cluster/network.h"

namespace tenon::cluster {

// What the worker has now, beside what is counted.
struct WorkerState {
  std::string task, version;
  uint64_t incarnation = 0, uptime_ns = 0;
  uint64_t sessions = 0, max_sessions = 0;
  uint64_t steps_expected = 0, steps_queued = 0,
           steps_running = 0;  // expected: values have come before the master's message
  uint64_t values_waiting = 0;                                       // that no kernel has taken yet
  uint64_t parts = 0;                                                // that masters have registered and not dropped
  struct Memory {
    std::string device;
    std::shared_ptr<MemoryBudget> budget;
  };
  std::vector<Memory> memories;
};

class WorkerMetrics {
 public:
  WorkerMetrics(std::string_view own_task, const std::vector<Task>& tasks);

  // A call that came in. What is given counts the answer.
  Reply Called(std::string_view method, uint64_t bytes, Reply reply);
  // Peers are numbered; the last is "other".
  size_t PeerOf(std::string_view task) const;
  const std::string& NameOf(size_t peer) const { return peers_[peer].name; }
  void SentValue(size_t peer, uint64_t bytes) { peers_[peer].sent.Add(bytes); }
  void ReceivedValue(size_t peer, uint64_t bytes) { peers_[peer].received.Add(bytes); }
  void SessionOpened() { ++sessions_opened_; }
  void StepEnded(const Status& status);

  // Of all calls and values: for a short report.
  struct Totals {
    uint64_t steps = 0, bytes_sent = 0, bytes_received = 0;
  };
  Totals totals() const;
  // A list of families, as tenon_worker_metrics of app.h describes it.
  std::string ToJson(const WorkerState& state) const;

 private:
  struct BothWays {
    std::string name;  // of a method, or of a task
    Traffic sent{}, received{};
  };
  template <typename Function>
  void ForEach(const Function& function) const {
    for (const BothWays& method : methods_) function("master", method.name, method);
    for (const BothWays& peer : peers_) function(peer.name, "value", peer);
  }

  std::deque<BothWays> methods_, peers_;  // fixed
  std::array<std::atomic<uint64_t>, 17> errors_{};  // by code
  std::atomic<uint64_t> sessions_opened_{0}, steps_ok_{0}, steps_failed_{0}, steps_cancelled_{0};
};

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_METRICS_H_
