// SPDX-License-Identifier: Apache-2.0
#include "queue.h"

#include <sched.h>

#include <algorithm>

namespace tenon::grpc_net {
namespace {

constexpr std::chrono::microseconds kSpin{30};  // about what waking a thread takes
constexpr std::chrono::microseconds kCrowded{5};  // a look and a yield that take longer have let another thread run
constexpr int kCrowdedYields = 8;

thread_local bool serves = false;

// The next event; false: the queue has ended. Before it sleeps it looks a while whether something comes, and lets
// others have the core.
bool Next(grpc::CompletionQueue* queue, void** operation, bool* ok) {
  using Clock = std::chrono::steady_clock;
  auto before = Clock::now();
  for (Clock::duration spent{0}; spent < kSpin;) {
    switch (queue->AsyncNext(operation, ok, gpr_inf_past(GPR_CLOCK_MONOTONIC))) {
      case grpc::CompletionQueue::GOT_EVENT: return true;
      case grpc::CompletionQueue::SHUTDOWN: return false;
      case grpc::CompletionQueue::TIMEOUT: break;
    }
    sched_yield();
    const auto now = Clock::now();
    spent += std::min<Clock::duration>(now - before, now - before < kCrowded ? kSpin : kSpin / kCrowdedYields);
    before = now;
  }
  return queue->Next(operation, ok);
}

// What comes soon, if anything does: another thread may take what this one waits for.
void ServeOne(grpc::CompletionQueue* queue) {
  void* operation = nullptr;
  bool ok = false;
  const auto soon = std::chrono::system_clock::now() + std::chrono::milliseconds(5);
  if (queue->AsyncNext(&operation, &ok, soon) == grpc::CompletionQueue::GOT_EVENT)
    static_cast<Operation*>(operation)->Done(ok);
}

}  // namespace

QueueThreads::QueueThreads(grpc::CompletionQueue* queue)
    : queue_(queue), server_([this] { Serve(); }), stand_in_([this] { StandIn(); }) {}

QueueThreads::~QueueThreads() {
  server_.join();
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  stand_in_.join();
}

void QueueThreads::Serve() {
  serves = true;
  void* operation = nullptr;
  bool ok = false;
  while (Next(queue_, &operation, &ok)) {
    turns_.fetch_add(1, std::memory_order_relaxed);
    static_cast<Operation*>(operation)->Done(ok);
    turns_.fetch_add(1, std::memory_order_relaxed);
  }
}

void QueueThreads::StandIn() {
  serves = true;
  uint64_t before = 0;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kPatience, [this] { return ended_; })) {
    const uint64_t now = turns_;
    if (now % 2 == 0 || now != std::exchange(before, now)) continue;
    lock.unlock();
    while (turns_ == now) ServeOne(queue_);
    lock.lock();
  }
}

bool Await(grpc::CompletionQueue* queue, std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
           Time until, const std::function<bool()>& ended) {
  if (!serves) {
    if (until != Time::max()) return changed.wait_until(lock, until, ended);
    changed.wait(lock, ended);
    return true;
  }
  while (!ended()) {
    if (std::chrono::steady_clock::now() >= until) return false;
    lock.unlock();
    ServeOne(queue);
    lock.lock();
  }
  return true;
}

}  // namespace tenon::grpc_net
