// SPDX-License-Identifier: Apache-2.0
// Worker: a task of a cluster. It runs parts (partitions) of steps for masters, and exchanges values with other
// workers.
//
// A master opens a session here, registers the parts of its steps that this task runs, and then sends one message a
// step. State (variables, queues) lives in the worker's own container and outlives sessions, unless a session asks for
// one of its own. A session ends when its master closes it, is gone, or has not been heard of for its lease; its steps
// are cancelled then.
//
// A step's values from other parts may come before the step does: whatever comes first makes the step's meeting place.
// Nothing that comes over the network can end the process: it is checked, and refused with a status.
#ifndef TENON_NET_CLUSTER_WORKER_H_
#define TENON_NET_CLUSTER_WORKER_H_

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/session/session.h"
#include "net/cluster/background.h"
#include "net/cluster/metrics.h"
#include "net/cluster/network.h"
#include "net/cluster/packet.h"
#include "net/cluster/peers.h"
#include "net/cluster/worker_session.h"
#include "net/cluster/worker_step.h"

namespace tenon::exec {
class ResourceManager;
struct Device;
}  // namespace tenon::exec

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

struct StepOrder;

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
  struct Arrival;
  class Planning;

  Worker(session::Runtime* runtime, WorkerOptions options);
  std::shared_ptr<MemoryBudget> BudgetOf(const exec::Device& device) const;
  void LogOf(uint64_t session, uint32_t level, std::string_view text) const;
  void OnCall(tenon_peer* peer, const tenon_incoming& call, Reply reply);
  void OnCancelled(tenon_reply* reply);
  void OnLost(tenon_peer* peer);
  Status Place(tenon_peer* peer, tenon_span key, tenon_span head, uint64_t bytes, tenon_bytes* out_memory,
               void** out_token);
  // The step that a value is for; nullptr: it is over. The number of who sent it.
  Result<std::shared_ptr<WorkerStep>> StepFor(DataKey key, tenon_peer* peer,
                                              std::shared_ptr<WorkerSession>* out_session, size_t* out_sender);
  static Status MakeRoom(const WorkerSession& session, const DataHead& head, uint64_t bytes, Arrival* arrival);
  void Placed(Arrival* arrival, Status status);
  size_t SenderOf(const WorkerSession& session, const DataKey& key) const;

  Status Hello(tenon_span request, Reply reply);
  Status Open(tenon_peer* peer, tenon_span request, Reply reply);
  Status Register(tenon_span request, Reply reply);
  Status Drop(tenon_span request, Reply reply);
  Status Reset(tenon_span request, Reply reply);
  Status Run(tenon_span request, Reply reply);
  Status Ping(tenon_span request, Reply reply);
  Status CloseSession(tenon_span request, Reply reply);
  Status Settle(tenon_span request, Reply reply);
  Status Go(tenon_span request, Reply reply);

  Result<std::shared_ptr<WorkerSession>> Find(uint64_t session);
  Result<std::shared_ptr<WorkerSession>> SessionOf(uint64_t session);  // the same for who does not hold mutex_
  Status CheckOwn(const Task& task) const;
  // It is open from now on; not when the worker stops, or has as many as it may.
  Status Admit(const std::shared_ptr<WorkerSession>& session);
  // Ends the sessions of an owner, and waits for their steps, for a bounded time. Those that were opened with another
  // secret are not its own.
  Status EndOf(const std::string& owner, const std::string& secret);
  // The step's meeting place; FAILED_PRECONDITION when the step is over.
  Result<std::shared_ptr<WorkerStep>> StepOf(const std::shared_ptr<WorkerSession>& session, uint32_t part,
                                             uint64_t step);
  // The same for a value that `sender` brings, maybe before its step: of these there are so many, and no more.
  Result<std::shared_ptr<WorkerStep>> EarlyStepOf(const std::shared_ptr<WorkerSession>& session, uint32_t part,
                                                  uint64_t step, tenon_peer* sender);
  // It has begun, or never will.
  void NoLongerEarly(WorkerStep* step);
  // It runs from now on. quick: what its part's last runs took.
  Result<std::shared_ptr<WorkerStep>> BeginStep(const RunPart& head, tenon_reply* reply, WorkerPart::Quick* quick);
  void RunStep(const std::shared_ptr<WorkerStep>& step, const std::shared_ptr<StepOrder>& order);
  void Computed(const std::shared_ptr<WorkerStep>& step, const std::shared_ptr<StepOrder>& order, Status status);
  // Its end: it is over here, and the master is answered.
  void Conclude(const std::shared_ptr<WorkerStep>& step, const std::shared_ptr<StepOrder>& order, Status status);
  void EndStep(WorkerStep* step);
  void End(const std::shared_ptr<WorkerSession>& session, const Status& why);
  void Watch();
  std::vector<std::shared_ptr<WorkerSession>> LateSessions(uint64_t now_ns) const;
  // Peers of the steps that have lasted a while, by address.
  std::map<std::string, Peers::Busy> BusyPeers(uint64_t now_ns) const;
  // Gives up the open steps that exchange values with a task. noted: what was sent to it may be lost, also of steps
  // that are over.
  void LosePeer(const std::string& address, std::string_view why, bool noted);
  void CountSteps(WorkerState* out) const;
  // All that may wait for what runs.
  void Finish();
  // Why nothing is begun any more.
  Status Stopping() const;
  // What runs still, for people.
  std::string BusyLocked() const;

  session::Runtime* const runtime_;
  const WorkerOptions options_;
  std::string address_;
  uint64_t incarnation_ = 0, started_ns_ = 0;
  WorkerMetrics metrics_;
  std::vector<WorkerState::Memory> memories_;  // fixed; the host's first
  const std::unique_ptr<exec::ResourceManager> unnamed_;
  Background background_;
  StepServices services_;  // with the network
  std::unique_ptr<Network> network_;
  std::unique_ptr<Peers> peers_;
  mutable std::mutex mutex_;  // guards all below
  std::map<uint64_t, std::shared_ptr<WorkerSession>> sessions_;
  std::set<std::shared_ptr<WorkerSession>> ending_;  // those whose steps are awaited
  std::map<tenon_reply*, std::shared_ptr<WorkerStep>> running_;
  std::atomic<uint64_t> queued_{0};  // of running_, those that wait for a thread
  std::map<tenon_reply*, bool> coming_;  // calls that are being taken in: whether they were cancelled
  std::map<tenon_peer*, uint64_t> early_;  // by who sent their first value: steps whose master's message has not come
  std::multiset<std::pair<uint64_t, uint32_t>> planning_;  // sessions and parts that are being registered
  std::condition_variable changed_;
  bool stop_ = false, finished_ = false;
  std::thread finisher_;
  std::thread watch_;
};

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_WORKER_H_
