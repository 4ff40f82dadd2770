// SPDX-License-Identifier: Apache-2.0
#include "stream.h"

namespace tenon::grpc_net {
namespace {

thread_local bool serves = false;

}  // namespace

void Serve(grpc::CompletionQueue* queue) {
  serves = true;
  void* operation = nullptr;
  bool ok = false;
  while (queue->Next(&operation, &ok)) static_cast<Operation*>(operation)->Done(ok);
}

bool Await(grpc::CompletionQueue* queue, std::unique_lock<std::mutex>& lock, std::condition_variable& changed, Time until,
           const std::function<bool()>& ended) {
  if (!serves) {
    if (until != Time::max()) return changed.wait_until(lock, until, ended);
    changed.wait(lock, ended);
    return true;
  }
  while (!ended()) {
    if (std::chrono::steady_clock::now() >= until) return false;
    lock.unlock();
    void* operation = nullptr;
    bool ok = false;
    const auto soon = std::chrono::system_clock::now() + std::chrono::milliseconds(5);  // another thread may take the last one
    if (queue->AsyncNext(&operation, &ok, soon) == grpc::CompletionQueue::GOT_EVENT) static_cast<Operation*>(operation)->Done(ok);
    lock.lock();
  }
  return true;
}

}  // namespace tenon::grpc_net
