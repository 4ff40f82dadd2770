// SPDX-License-Identifier: Apache-2.0
#include "net/cluster/task_table.h"

#include <algorithm>
#include <chrono>

#include "core/base/clock.h"
#include "net/cluster/planted.h"
#include "net/cluster/protocol.h"

namespace tenon::cluster {

// ---- What they are ----

void TaskTable::Join(size_t task, uint64_t incarnation, std::shared_ptr<Connection> connection) {
  tasks_[task].incarnation = incarnation;
  tasks_[task].connection = std::move(connection);
  tasks_[task].heard_ns = NowNs();
}

size_t TaskTable::Named(std::string_view name) const {
  const auto at =
      std::find_if(tasks_.begin(), tasks_.end(), [&](const State& state) { return state.task.name() == name; });
  return static_cast<size_t>(at - tasks_.begin());
}

size_t TaskTable::At(std::string_view address) const {
  const auto at = std::find_if(tasks_.begin(), tasks_.end(), [&](const State& state) {
    return WithScheme(state.task.address()) == WithScheme(address);
  });
  return static_cast<size_t>(at - tasks_.begin());
}

std::string TaskTable::Where(size_t task) const {
  return StrCat("task ", tasks_[task].task.name(), " at ", tasks_[task].task.address());
}

TaskReport TaskTable::Report(size_t task) const {
  const State& state = tasks_[task];
  const std::lock_guard lock(mutex_);
  return {&state.task, NowNs() - state.heard_ns, state.said};
}

// ---- Whether they live ----

void TaskTable::Heard(size_t task) {
  const std::lock_guard lock(mutex_);
  tasks_[task].heard_ns = NowNs();
}

Status TaskTable::lost(size_t task) const {
  const std::lock_guard lock(mutex_);
  return tasks_[task].lost;
}

void TaskTable::Lose(size_t task, Status why) {
  {
    const std::lock_guard lock(mutex_);
    if (!tasks_[task].lost.ok() || stop_) return;
    tasks_[task].lost = Status(Code::kUnavailable, StrCat(Where(task), ": ", why.message(),
                                                          "; its state may be gone, so begin a new session"));
  }
  tasks_[task].gone->Cancel(lost(task));
}

void TaskTable::Ping(size_t task) {
  SessionRequest head;
  head.set_session(session_);
  auto packet = std::make_shared<OutPacket>();
  State& state = tasks_[task];
  {
    const std::lock_guard lock(mutex_);
    head.set_losses_known(state.losses);
  }
  packet->Finish(head);
  state.connection->Call(kMethodPing, packet->pieces(), NowNs() + silence_ns_,
                         [this, task, packet](Status status, tenon_span response) {
                           Pinged(task, std::move(status), response);
                         });
}

void TaskTable::Pinged(size_t task, Status status, tenon_span response) {
  PingReply answer;
  if (status.ok()) status = InPacket::Parse(response, &answer).status();
  State& asked = tasks_[task];
  Status lost;
  if (status.ok() && answer.incarnation() != asked.incarnation)
    lost = Status(Code::kUnavailable, "it has been started again");
  else if (!status.ok() && status.code() != Code::kDeadlineExceeded) lost = std::move(status);
  if (!lost.ok()) Lose(task, std::move(lost));
  else if (status.ok()) on_losses_(task, asked.losses, answer);
  const std::lock_guard lock(mutex_);
  if (status.ok()) {
    asked.heard_ns = NowNs();
    asked.losses = std::max(asked.losses, answer.losses_count());
    asked.said = answer;
  }
  asked.pinging = false;
}

// No answer can be said to be missing for as long as this process itself stood still: on a busy machine that takes
// seconds.
void TaskTable::Look() {
  std::unique_lock lock(mutex_);
  uint64_t looked_ns = NowNs();
  while (!stop_) {
    const uint64_t now = NowNs();
    const uint64_t late_ns = now - std::min(now, looked_ns + 2 * ping_ns_);
    looked_ns = now;
    for (size_t i = 0; i < tasks_.size() && !stop_; ++i) {
      State& state = tasks_[i];
      if (!state.lost.ok()) continue;
      state.heard_ns += late_ns;
      if (now > state.heard_ns + silence_ns_ && !Planted(Bug::kSilenceIgnored)) {
        lock.unlock();
        Lose(i, Status(Code::kUnavailable, StrCat("it has not answered for ", silence_ns_ / 1'000'000, " ms")));
        lock.lock();
      } else if (!std::exchange(state.pinging, true)) {
        lock.unlock();
        Ping(i);
        lock.lock();
      }
    }
    changed_.wait_for(lock, std::chrono::nanoseconds(ping_ns_), [this] { return stop_; });
  }
}

// ---- From the first ping to the last ----

void TaskTable::Watch() {
  watch_ = std::thread([this] { Look(); });
}

void TaskTable::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (watch_.joinable()) watch_.join();
}

void TaskTable::Close() {
  SessionRequest head;
  head.set_session(session_);
  // A task that does not answer has its lease.
  for (const State& state : tasks_)
    if (state.connection != nullptr && !state.connection->lost() && state.lost.ok())
      (void)Ask(*state.connection, kMethodClose, head, NowNs() + 2'000'000'000).ok();
  for (State& state : tasks_) state.connection.reset();
}

}  // namespace tenon::cluster
