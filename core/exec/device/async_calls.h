// SPDX-License-Identifier: Apache-2.0
// AsyncCalls: what a function that a plugin calls back gets for an argument, instead of an address: a number that
// stands for one call alone. So a second call, or one that comes when nobody waits any more, touches nothing and is
// named.
#ifndef TENON_CORE_EXEC_DEVICE_ASYNC_CALLS_H_
#define TENON_CORE_EXEC_DEVICE_ASYNC_CALLS_H_

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>

#include "core/base/status.h"

namespace tenon::exec {

// Any thread. One for the process, for ever, since plugins call when they like.
class AsyncCalls {
 public:
  static AsyncCalls& The();

  // Who may call back, for messages: "plugin 'x': its run_async() of node 'y'".
  struct Who {
    const std::string& plugin;
    const char* function;  // "run_async() of node"; stays
    const std::string& of;
  };
  // A number for a call; `waits` is given back by the first Close. RESOURCE_EXHAUSTED: there are too many at once.
  Result<void*> Open(void* waits, const Who& who);
  // nullptr: it was closed before, or given up; a line of the log says whose it was. Takes no memory but for that.
  void* Close(void* number) noexcept;
  // Nobody waits any more. false: it was closed; who did so is about to tell, or has.
  bool GiveUp(void* number);

 private:
  static constexpr uint64_t kNone = ~uint64_t{0};
  struct Entry {
    uint64_t generation = 1;
    void* waits = nullptr;
    bool given_up = false;
    uint64_t next_free = kNone;
    const char* function = "";
    std::string plugin, of;
  };
  // The numbers of a process suffice for 2^24 calls at once, and 2^40 one after the other in each place.
  static constexpr int kPlaceBits = 24;
  Entry* Find(void* number, uint64_t* out_place);
  Status NameLate(uint64_t place, const void* number, bool given_up);

  std::mutex mutex_;
  std::deque<Entry> entries_;
  uint64_t first_free_ = kNone;
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_DEVICE_ASYNC_CALLS_H_
