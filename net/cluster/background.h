// SPDX-License-Identifier: Apache-2.0
// Background: a worker's work that a callback of the transport has no time for.
#ifndef TENON_NET_CLUSTER_BACKGROUND_H_
#define TENON_NET_CLUSTER_BACKGROUND_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "core/session/runtime.h"

namespace tenon::cluster {

// Any thread.
class Background {
 public:
  // task: whose lines of the log it writes. The runtime outlives it.
  Background(session::Runtime* runtime, std::string task) : runtime_(runtime), task_(std::move(task)) {}
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // On a thread of the runtime's; on this one where there is none to be had. What it throws is logged.
  void Later(std::function<void()> work);
  // Until none is left, and what each held has gone.
  void Await();

 private:
  void Perform(std::function<void()>* work);
  void Say(uint32_t level, std::string_view text) const;

  session::Runtime* const runtime_;
  const std::string task_;
  std::mutex mutex_;
  std::condition_variable done_;
  int64_t count_ = 0;
};

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_BACKGROUND_H_
