// SPDX-License-Identifier: Apache-2.0
// AsyncCalls: what `done` of an asynchronous kernel gets for an argument, instead of an address: a number that stands for one run
// alone. So a second `done`, or one that comes when nobody waits any more, touches nothing and is named.
#ifndef TENON_CORE_EXEC_ASYNC_CALLS_H_
#define TENON_CORE_EXEC_ASYNC_CALLS_H_

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

namespace tenon::exec {

// Any thread. One for the process, for ever, since plugins call when they like.
class AsyncCalls {
 public:
  static AsyncCalls& The();

  // A number for a run; `call` is given back by the first Close. The names are for messages.
  void* Open(void* call, const std::string& plugin, const std::string& node);
  // nullptr: it was closed before, or given up; a line of the log says whose it was.
  void* Close(void* number);
  // Nobody waits any more.
  void GiveUp(void* number);

 private:
  struct Entry {
    uint64_t generation = 1;
    void* call = nullptr;
    bool given_up = false;
    std::string plugin, node;
  };
  // The numbers of a process suffice for 2^24 runs at once, and 2^40 one after the other in each place.
  static constexpr int kPlaceBits = 24;
  Entry* Find(void* number, uint64_t* out_place);

  std::mutex mutex_;
  std::deque<Entry> entries_;
  std::vector<uint64_t> free_;
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_ASYNC_CALLS_H_
