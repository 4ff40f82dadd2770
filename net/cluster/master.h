// SPDX-License-Identifier: Apache-2.0
// Master: runs a session's steps on the workers of a cluster.
//
// It stands in the client's process, and needs the address of one task: that one knows the others. A placed graph
// becomes one part a task, registered once; then a step is one message to each worker that has a part, with the feeds
// that it reads, and one reply, with its fetches. Workers exchange values themselves. The first failure gives the step
// up everywhere, and is named with its task and address.
//
// Tasks are pinged; one that is lost, has been started again, or has not answered for silence_ns fails the steps that
// run at it, and all later ones that would: its state may be gone, so what to do is the caller's to decide, in a new
// session. Steps of other tasks go on.
#ifndef TENON_NET_CLUSTER_MASTER_H_
#define TENON_NET_CLUSTER_MASTER_H_

#include <condition_variable>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/exec/parts/channel_shapes.h"
#include "core/exec/plan/plan_options.h"
#include "core/place/device_name.h"
#include "core/session/remote.h"
#include "core/session/session_options.h"
#include "net/cluster/network.h"
#include "net/cluster/packet.h"
#include "net/cluster/step_state.h"

namespace tenon::cluster {

struct MasterOptions {
  // Of any task, or of several, separated by commas. Credentials go to these alone, and to sockets beside one of them:
  // whoever answers at an address may say that the cluster's other tasks are anywhere.
  std::string address;
  std::string credentials;          // of the transports, JSON
  uint64_t connect_ns = 10'000'000'000;
  uint64_t ping_ns = 500'000'000, silence_ns = 3'000'000'000, lease_ns = 15'000'000'000;
  session::SessionOptions session;  // what holds at the workers is sent to them
};

// A task as its master knows it.
struct TaskReport {
  const Task* task;  // lives as long as the master
  uint64_t silent_ns = 0;
  PingReply said;    // last
};

class ClusterRun;

class Master : public session::Remote {
 public:
  // Greets all tasks that the session's device filters leave, and opens a session at each. UNAVAILABLE or
  // DEADLINE_EXCEEDED name the task that cannot be reached.
  static Result<std::shared_ptr<Master>> Connect(Network::Finder finder, MasterOptions options);
  ~Master() override;
  size_t task_count() const { return tasks_.size(); }
  TaskReport Report(size_t task) const;

  const std::vector<exec::Device>& devices() const override { return devices_; }
  Result<std::shared_ptr<exec::Runnable>> MakePlan(graph::Graph graph, std::vector<graph::Edge> feeds,
                                                   std::vector<graph::Edge> fetches, std::vector<graph::NodeId> targets,
                                                   const exec::Environment& env,
                                                   const exec::PlanOptions& options) override;
  Result<int64_t> ResetContainers(const std::vector<std::string_view>& containers) override;

 private:
  friend class ClusterPlan;
  friend class ClusterRun;
  friend class ClusterGoes;
  struct TaskState {
    Task task;
    uint64_t incarnation = 0;
    std::shared_ptr<Connection> connection;
    uint64_t heard_ns = 0;
    uint64_t losses = 0;  // of its connections, that are taken note of
    PingReply said;  // last
    bool pinging = false;
    Status lost;     // why no step can run at it any more; OK: they can
    std::unique_ptr<Cancellation> gone = std::make_unique<Cancellation>();  // cancelled with `lost`
  };

  explicit Master(MasterOptions options) : options_(std::move(options)) {}
  // The hello of the first given task that answers.
  Status GreetAny(uint64_t deadline_ns, HelloReply* out);
  // Whether the credentials may be shown at an address that another task gave.
  Status CheckGiven(const Task& task) const;
  Status Greet(std::string_view address, uint64_t deadline_ns, HelloReply* out);
  Status Join(uint64_t deadline_ns);
  Status Open(size_t task, uint64_t deadline_ns, const HelloReply& hello);
  // The devices that the option device_filters leaves of a task.
  Status AddDevices(const HelloReply& hello);
  Status ReadFilters();
  bool IsVisible(const place::DeviceName& name, bool whole_task) const;
  void Watch();
  // It has said something.
  void Heard(size_t task);
  void Ping(size_t task);
  void Lose(size_t task, Status why);
  // Gives up what values of that task were lost of, beyond the losses that are known.
  void TakeLosses(size_t task, uint64_t known, const PingReply& answer);
  // Tells the tasks that nobody runs these parts any more, without waiting for them. A task that does not hear it keeps
  // them to the session's end.
  void Drop(const std::map<size_t, DropParts>& of_tasks);
  // Waits until what is left of steps that were given up and may touch `state` has ended at its tasks, so that nothing
  // of them is done after what begins now; or until the cancellation (nullptr: none) or the deadline (0: none).
  Status SettleEarlier(const StepState& state, Cancellation* cancellation, uint64_t deadline_ns = 0);
  // Why no step can run at a task any more; OK: they can.
  Status lost(size_t task) const;
  uint64_t ReceiveWindow() const {
    return options_.session.receive_window == 0 ? uint64_t{8} << 20 : options_.session.receive_window;
  }
  std::string Where(size_t task) const {
    return StrCat("task ", tasks_[task].task.name(), " at ", tasks_[task].task.address());
  }

  const MasterOptions options_;
  std::vector<std::string> given_;  // addresses
  uint64_t session_ = 0;
  std::unique_ptr<Network> network_;
  std::vector<TaskState> tasks_;  // fixed once joined; what changes is guarded by mutex_
  std::vector<exec::Device> devices_;
  std::atomic<uint64_t> next_step_{1};
  std::atomic<uint32_t> next_part_{1};
  std::mutex runs_mutex_;
  std::map<uint64_t, ClusterRun*> runs_;  // that are open, by the numbers of their steps
  // A part of a step that was given up, and may still be done at its task.
  struct Unsettled {
    size_t task;
    uint32_t part;
    uint64_t step;
    std::shared_ptr<const StepState> state;
    bool operator==(const Unsettled&) const = default;
  };
  Status Settle(const Unsettled& left, Cancellation* cancellation, uint64_t deadline_ns);
  std::mutex settling_;  // guards the list, and is not held while one waits
  std::vector<Unsettled> unsettled_;
  std::atomic<bool> any_unsettled_{false};
  std::vector<place::DeviceName> filters_;  // none: all devices
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  int open_pings_ = 0;
  std::thread watch_;
};

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_MASTER_H_
