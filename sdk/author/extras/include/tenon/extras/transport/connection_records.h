// SPDX-License-Identifier: Apache-2.0
// What is open on a connection: calls and sends of this side, calls of the other side, streams; and what connections
// share.
//
// Records are pooled or few, and hold their timers. Who owns one stands with it; connection.h says how they change.
#ifndef TENON_SDK_TRANSPORT_CONNECTION_RECORDS_H_
#define TENON_SDK_TRANSPORT_CONNECTION_RECORDS_H_

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "tenon/ext/draft/transport.h"
#include "tenon/sdk/span.h"
#include "tenon/extras/transport/frame.h"
#include "tenon/extras/transport/keeper.h"

namespace tenon::sdk {

class Connection;

// Memory for messages, aligned for callbacks and kept while it is small.
class MessageBuffer {
 public:
  static constexpr uint64_t kKept = uint64_t{1} << 20;
  MessageBuffer() = default;
  MessageBuffer(MessageBuffer&& other) noexcept { *this = std::move(other); }
  MessageBuffer& operator=(MessageBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  ~MessageBuffer() { Free(); }
  // Contents are lost. nullptr: no memory.
  char* Reserve(uint64_t bytes) {
    if (bytes > capacity_ || data_ == nullptr) {
      Free();
      const uint64_t capacity = bytes < 256 ? 256 : bytes;
      data_ = static_cast<char*>(::operator new(capacity, std::align_val_t(TENON_TRANSPORT_ALIGNMENT), std::nothrow));
      capacity_ = data_ == nullptr ? 0 : capacity;
    }
    return data_;
  }
  void Rest() {
    if (capacity_ > kKept) Free();
  }
  char* data() const { return data_; }

 private:
  void Free() {
    ::operator delete(data_, std::align_val_t(TENON_TRANSPORT_ALIGNMENT));
    data_ = nullptr;
    capacity_ = 0;
  }
  char* data_ = nullptr;
  uint64_t capacity_ = 0;
};

inline uint64_t TotalOf(const tenon_span* pieces, uint64_t count) {
  uint64_t total = 0;
  for (uint64_t i = 0; i < count; ++i) total += pieces[i].size;
  return total;
}
inline void Gather(const tenon_span* pieces, uint64_t count, char* to) {
  for (uint64_t i = 0; i < count; ++i) {
    if (pieces[i].size != 0) std::memcpy(to, pieces[i].data, pieces[i].size);
    to += pieces[i].size;
  }
}

// What the connections of one endpoint share; it lives as long as the last of them.
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

// A call or a send of this side. Its done is called by who finds that it is both settled (its outcome is known) and
// written (its pieces are no longer needed).
struct OpenCall {
  static constexpr uint32_t kWritten = 1, kSettled = 2;
  uint64_t id() const { return uint64_t{generation} << 32 | index; }

  Connection* connection = nullptr;
  Timer timer;
  uint32_t index = 0;
  uint32_t generation = 1;
  bool used = false;
  std::atomic<uint32_t> flags{0};
  tenon_status* outcome = nullptr;
  MessageBuffer response;  // one that came before the pieces were written
  uint64_t response_bytes = 0;
  void (*call_done)(void* argument, tenon_status* status, tenon_span response) = nullptr;  // one of the two
  void (*send_done)(void* argument, tenon_status* status) = nullptr;
  void* argument = nullptr;
};

// A call of the other side. Owned by whoever counts: the host until it responds, the frame that brings it, a
// cancellation.
struct OpenReply {
  std::shared_ptr<Connection> connection;
  std::atomic<uint32_t> references{0};
  uint64_t id = 0;
  Timer timer;
  bool waited_for = false;  // in the connection's table: the other side waits
  tenon_incoming incoming = {};
  std::vector<tenon_metadata> metadata;
  MessageBuffer head, request, response;
  void (*sent)(void* argument) = nullptr;
  void* argument = nullptr;
};

// One side of a stream. References: the host's until it closes, the connection's until end() has returned.
struct OpenStream {
  std::shared_ptr<Connection> connection;
  std::atomic<uint32_t> references{2};
  uint64_t id = 0;
  bool mine = false;  // opened by this side
  uint64_t deadline_ns = 0;
  Timer timer;
  tenon_stream_events events = {};
  // Under the connection's lock.
  std::condition_variable room;
  uint64_t outstanding = 0;  // bytes that the other side has not read
  uint64_t unreported = 0;   // bytes read that the other side does not know of
  bool listed = false;       // in the connection's table
  bool write_closed = false;
  bool read_ended = false;  // end() was called, or will be by who delivers
  bool delivering = false;
  bool end_waits = false;  // for the delivery
  uint32_t code = TENON_OK;  // of the failure
  std::string text;
};

}  // namespace tenon::sdk

#endif  // TENON_SDK_TRANSPORT_CONNECTION_RECORDS_H_
