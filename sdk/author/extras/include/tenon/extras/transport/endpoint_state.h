// SPDX-License-Identifier: Apache-2.0
// EndpointState: what the connections of one endpoint share: the host's events, limits, deadlines, draining.
#ifndef TENON_SDK_TRANSPORT_ENDPOINT_STATE_H_
#define TENON_SDK_TRANSPORT_ENDPOINT_STATE_H_

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tenon/ext/draft/transport.h"
#include "tenon/extras/transport/keeper.h"

namespace tenon::sdk {

class Connection;

// Lives as long as the last of its connections. Any thread.
struct EndpointState {
  tenon_endpoint_events events = {};
  uint64_t max_message_bytes = 0;
  // Connections that other sides made; one more is closed at once.
  static constexpr size_t kMostAccepted = 1024;
  // Of all requests together that have begun to come and are not all there: so many, or one message of the largest
  // size.
  static constexpr uint64_t kUnfinishedBytes = uint64_t{64} << 20;
  uint64_t max_unfinished_bytes() const { return std::max(max_message_bytes, kUnfinishedBytes); }
  // False: with these there would be too many.
  bool Begun(uint64_t bytes) {
    uint64_t before = unfinished_.load();
    do {
      if (before != 0 && bytes > max_unfinished_bytes() - std::min(before, max_unfinished_bytes())) return false;
    } while (!unfinished_.compare_exchange_weak(before, before + bytes));
    return true;
  }
  void Ended(uint64_t bytes) { unfinished_.fetch_sub(bytes); }
  Keeper keeper;
  std::atomic<bool> draining{false};

  void Remember(std::shared_ptr<Connection> connection) {
    const std::lock_guard guard(lock_);
    connections_.push_back(std::move(connection));
  }
  // The endpoint's reference.
  std::shared_ptr<Connection> Forget(Connection* connection) {
    const std::lock_guard guard(lock_);
    const auto found = std::find_if(connections_.begin(), connections_.end(),
                                    [connection](const auto& each) { return each.get() == connection; });
    if (found == connections_.end()) return nullptr;
    std::shared_ptr<Connection> owner = std::move(*found);
    connections_.erase(found);
    return owner;
  }
  bool HasRoom(bool (*accepted)(const Connection&)) {
    const std::lock_guard guard(lock_);
    return connections_.size() < kMostAccepted ||
           static_cast<size_t>(std::count_if(connections_.begin(), connections_.end(),
                                             [accepted](const auto& each) { return accepted(*each); })) < kMostAccepted;
  }
  std::vector<std::shared_ptr<Connection>> Connections() {
    const std::lock_guard guard(lock_);
    return connections_;
  }
  void Opened() { open_.fetch_add(1, std::memory_order_relaxed); }
  void Closed() {
    if (open_.fetch_sub(1) != 1 || !draining) return;
    const std::lock_guard guard(lock_);
    idle_.notify_all();
  }
  // False: some are open still.
  bool WaitIdle(uint64_t deadline_ns) {
    std::unique_lock guard(lock_);
    return idle_.wait_until(guard, TimePoint(deadline_ns), [this] { return open_ == 0; });
  }

 private:
  std::atomic<uint64_t> open_{0};
  std::atomic<uint64_t> unfinished_{0};
  std::mutex lock_;
  std::condition_variable idle_;
  std::vector<std::shared_ptr<Connection>> connections_;  // in the order in which they were made
};

}  // namespace tenon::sdk

#endif  // TENON_SDK_TRANSPORT_ENDPOINT_STATE_H_
