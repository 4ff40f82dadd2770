// SPDX-License-Identifier: Apache-2.0
// Operations of a completion queue, and the threads that serve it.
//
// Idea: one thread serves a queue, because two that poll wake each other (measured: half the rate, twice the time).
// After an event it looks a while whether another comes, yielding the core, before it sleeps (measured: a call takes
// two thirds of the time). Where its callback takes longer than kPatience, a second one stands in, so that keepalive is
// answered and other connections go on.
#ifndef TENON_NET_GRPC_QUEUE_H_
#define TENON_NET_GRPC_QUEUE_H_

#include <grpcpp/completion_queue.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace tenon::grpc_net {

// What a completion queue's tags are.
class Operation {
 public:
  virtual void Done(bool ok) = 0;

 protected:
  ~Operation() = default;
};

// An operation that is a member function of its owner.
template <class Owner, void (Owner::*function)(bool)>
class MemberOperation final : public Operation {
 public:
  explicit MemberOperation(Owner* owner) : owner_(owner) {}
  void Done(bool ok) override { (owner_->*function)(ok); }

 private:
  Owner* owner_;
};

class QueueThreads {
 public:
  static constexpr std::chrono::milliseconds kPatience{200};

  explicit QueueThreads(grpc::CompletionQueue* queue);
  // The queue was shut down, or will be by another thread.
  ~QueueThreads();

 private:
  void Serve();
  void StandIn();

  grpc::CompletionQueue* const queue_;
  std::atomic<uint64_t> turns_{0};  // odd: in a callback
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::thread server_;
  std::thread stand_in_;
};

// Waits under `lock`, which `changed` tells, until `ended()` or the time; false: not ended. Threads that serve a queue
// go on serving it meanwhile: a callback that waits does not keep away what it waits for.
using Time = std::chrono::steady_clock::time_point;
bool Await(grpc::CompletionQueue* queue, std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
           Time until, const std::function<bool()>& ended);

}  // namespace tenon::grpc_net
#endif  // TENON_NET_GRPC_QUEUE_H_
