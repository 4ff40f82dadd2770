// SPDX-License-Identifier: Apache-2.0
// TaskTable: the tasks of a cluster as a session's master knows them: where they are, and whether they live.
//
// Tasks are pinged; one that is lost, has been started again, or has not answered for silence_ns fails the steps that
// run at it, and all later ones that would.
#ifndef TENON_NET_CLUSTER_TASK_TABLE_H_
#define TENON_NET_CLUSTER_TASK_TABLE_H_

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/base/cancellation.h"
#include "net/cluster/network.h"
#include "net/cluster/packet.h"

namespace tenon::cluster {

// A task as its master knows it.
struct TaskReport {
  const Task* task;  // lives as long as the master
  uint64_t silent_ns = 0;
  PingReply said;    // last
};

// Any thread, once all tasks are added and joined; until then one. The lock guards what a task has said, whether it is
// lost, and the pings; it is not held while a task is called or a cancellation is made.
class TaskTable {
 public:
  // Values were lost, of which the answer tells beyond those that are known.
  using OnLosses = std::function<void(size_t task, uint64_t known, const PingReply& answer)>;

  // session: its number.
  TaskTable(uint64_t session, uint64_t ping_ns, uint64_t silence_ns, OnLosses on_losses)
      : session_(session),
        ping_ns_(ping_ns),
        silence_ns_(silence_ns),
        on_losses_(std::move(on_losses)) {}
  TaskTable(const TaskTable&) = delete;
  TaskTable& operator=(const TaskTable&) = delete;
  ~TaskTable() { Stop(); }

  void Add(Task task) { tasks_.emplace_back().task = std::move(task); }
  // It is there, and has opened the session.
  void Join(size_t task, uint64_t incarnation, std::shared_ptr<Connection> connection);
  // Pings them from now on, until Stop().
  void Watch();
  // Nothing is lost any more.
  void Stop();
  // Asks those that live to close the session, and lets go of the connections.
  void Close();

  size_t size() const { return tasks_.size(); }
  const Task& task(size_t i) const { return tasks_[i].task; }
  uint64_t incarnation(size_t i) const { return tasks_[i].incarnation; }
  const std::shared_ptr<Connection>& connection(size_t i) const { return tasks_[i].connection; }
  // Cancelled when it is lost.
  Cancellation* gone(size_t i) const { return tasks_[i].gone.get(); }
  // Their numbers; size() is none.
  size_t Named(std::string_view name) const;
  size_t At(std::string_view address) const;
  // For people.
  std::string Where(size_t task) const;
  TaskReport Report(size_t task) const;

  // It has said something.
  void Heard(size_t task);
  void Lose(size_t task, Status why);
  // Why no step can run at a task any more; OK: they can.
  Status lost(size_t task) const;

 private:
  struct State {
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
  void Look();
  void Ping(size_t task);
  void Pinged(size_t task, Status status, tenon_span response);

  const uint64_t session_, ping_ns_, silence_ns_;
  const OnLosses on_losses_;
  std::vector<State> tasks_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::thread watch_;
};

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_TASK_TABLE_H_
