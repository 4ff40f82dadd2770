// SPDX-License-Identifier: Apache-2.0
#include "core/exec/async_calls.h"

#include <utility>

#include "core/base/log.h"
#include "core/base/plugin_call.h"

namespace tenon::exec {

AsyncCalls& AsyncCalls::The() {
  static AsyncCalls* const calls = new AsyncCalls;
  return *calls;
}

void* AsyncCalls::Open(void* call, const std::string& plugin, const std::string& node) {
  std::lock_guard lock(mutex_);
  if (free_.empty()) {
    free_.push_back(entries_.size());
    entries_.emplace_back();
  }
  const uint64_t place = free_.back();
  free_.pop_back();
  Entry& entry = entries_[place];
  entry.call = call;
  entry.given_up = false;
  entry.plugin = plugin;  // no memory is asked for where a name as long stood before
  entry.node = node;
  return reinterpret_cast<void*>(entry.generation << kPlaceBits | place);
}

AsyncCalls::Entry* AsyncCalls::Find(void* number, uint64_t* out_place) {
  const auto bits = reinterpret_cast<uint64_t>(number);
  *out_place = bits & ((uint64_t{1} << kPlaceBits) - 1);
  if (*out_place >= entries_.size()) return nullptr;
  Entry& entry = entries_[*out_place];
  return entry.generation == bits >> kPlaceBits ? &entry : nullptr;
}

void* AsyncCalls::Close(void* number) {
  std::string who;
  {
    std::lock_guard lock(mutex_);
    uint64_t place = 0;
    Entry* entry = Find(number, &place);
    if (entry != nullptr) {
      ++entry->generation;
      free_.push_back(place);
      if (!entry->given_up) return std::exchange(entry->call, nullptr);
    }
    // The place may serve another run by now; else its names are still those.
    if (place < entries_.size() && entries_[place].generation == (reinterpret_cast<uint64_t>(number) >> kPlaceBits) + 1)
      who = StrCat(DescribePlugin(entries_[place].plugin), ": its run_async() of node '", entries_[place].node, "'");
    else
      who = "the run_async() of a plugin";
    who += entry != nullptr ? " called done when nobody waited for it any more" : " called done twice";
  }
  Log(TENON_LOG_ERROR, who + "; this is of no account");
  return nullptr;
}

void AsyncCalls::GiveUp(void* number) {
  std::lock_guard lock(mutex_);
  uint64_t place = 0;
  Entry* entry = Find(number, &place);
  if (entry == nullptr) return;
  entry->given_up = true;
  entry->call = nullptr;
}

}  // namespace tenon::exec
