// SPDX-License-Identifier: Apache-2.0
// A transport that wraps another and treats what goes out as a bad network would: by rules and a seed.
//
//   FaultTransport faults(inner_table, inner_self, {.seed = 7, .drop_request = 0.1, .delay = 0.2});
//   faults.table()->open(faults.self(), ...);   // as any transport; faults are made where calls and sends go out
//   faults.Partition(true);                     // until Partition(false) nothing gets through
//
// A call or send that is dropped ends with DEADLINE_EXCEEDED at its deadline, as one does whose other side is silent;
// without a deadline it ends with its connection. Calls may overtake each other; data keeps its order, and is never
// delayed. A duplicate is made at once, or after the delay of its original; its answer is thrown away. Which fault a
// call meets depends on the seed and on how many went before it alone. Peers, replies and streams are the wrapped
// transport's own; one FaultTransport lives at a time.
#ifndef TENON_TESTS_FAKES_FAULT_TRANSPORT_H_
#define TENON_TESTS_FAKES_FAULT_TRANSPORT_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tenon/ext/draft/transport.h"

namespace tenon::fakes {

struct FaultRules {
  uint64_t seed = 1;
  // Chances from 0 to 1, for each call (the first five) and each send (not reply, delay and reorder).
  double drop_request = 0;
  double drop_reply = 0;  // the other side has done its work
  double delay = 0;       // to most_delay
  double reorder = 0;     // until another call has gone out, or most_delay
  double duplicate = 0;
  double truncate = 0;  // the request or data loses its last bytes
  std::chrono::nanoseconds most_delay = std::chrono::milliseconds(5);
};

struct FaultCounts {
  std::atomic<int> calls{0}, sends{0}, dropped_requests{0}, dropped_replies{0}, delayed{0}, reordered{0}, duplicated{0},
      truncated{0};
};

class FaultTransport {
 public:
  FaultTransport(const tenon_host* host, const tenon_transport* wrapped, tenon_plugin_self* wrapped_self,
                 const FaultRules& rules);
  ~FaultTransport();
  FaultTransport(const FaultTransport&) = delete;
  FaultTransport& operator=(const FaultTransport&) = delete;

  const tenon_transport* table() const { return &table_; }
  tenon_plugin_self* self() { return reinterpret_cast<tenon_plugin_self*>(this); }
  void Partition(bool partitioned) { partitioned_ = partitioned; }
  const FaultCounts& counts() const { return counts_; }

 private:
  // What one call or send meets.
  struct Fate {
    bool drop_request, drop_reply, reorder, duplicate, truncate;
    std::chrono::nanoseconds delay;
  };
  struct Message;
  using MessagePointer = std::shared_ptr<Message>;

  static FaultTransport& Active() { return *active_; }
  Fate Draw(bool is_send);
  tenon_status* Begin(MessagePointer message, uint64_t deadline_ns, bool is_send, uint64_t* out_call);
  void PassOn(const MessagePointer& message);
  tenon_status* PassOnce(const MessagePointer& message, bool answered);
  void End(const MessagePointer& message, tenon_status* status, tenon_span response);
  void EndAll(tenon_peer* peer);
  void Cancel(tenon_peer* peer, uint64_t call);
  tenon_status* Failed(uint32_t code, const char* text) const;

  void At(std::chrono::steady_clock::time_point when, std::function<void()> action);
  void Run();

  static FaultTransport* active_;
  const tenon_host* const host_;
  const tenon_transport* const wrapped_;
  tenon_plugin_self* const wrapped_self_;
  const FaultRules rules_;
  tenon_transport table_;
  FaultCounts counts_;
  std::atomic<bool> partitioned_{false};

  std::mutex passing_;  // a message goes out; before lock_
  std::mutex lock_;
  std::condition_variable changed_;
  std::mt19937_64 random_;
  std::map<uint64_t, MessagePointer> open_;
  std::vector<MessagePointer> overtaken_;
  uint64_t last_ = 0;
  std::multimap<std::chrono::steady_clock::time_point, std::function<void()>> actions_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tenon::fakes

#endif  // TENON_TESTS_FAKES_FAULT_TRANSPORT_H_
