// SPDX-License-Identifier: Apache-2.0
#include "core/exec/device/async_calls.h"

#include <utility>

#include "core/base/log.h"
#include "core/base/plugin_call.h"

namespace tenon::exec {

AsyncCalls& AsyncCalls::The() {
  static AsyncCalls* const calls = new AsyncCalls;
  return *calls;
}

Result<void*> AsyncCalls::Open(void* waits, const Who& who) {
  std::lock_guard lock(mutex_);
  if (first_free_ == kNone) {
    if (entries_.size() >> kPlaceBits != 0)
      return Status::Of(Code::kResourceExhausted, entries_.size(),
                        " calls to plugins are under way at once, which is all that there may be");
    entries_.emplace_back();
    first_free_ = entries_.size() - 1;
  }
  const uint64_t place = first_free_;
  Entry& entry = entries_[place];
  entry.plugin = who.plugin;  // no memory is asked for where a name as long stood before
  entry.of = who.of;
  // From here on nothing throws.
  first_free_ = std::exchange(entry.next_free, kNone);
  entry.function = who.function;
  entry.waits = waits;
  entry.given_up = false;
  return reinterpret_cast<void*>(entry.generation << kPlaceBits | place);
}

AsyncCalls::Entry* AsyncCalls::Find(void* number, uint64_t* out_place) {
  const auto bits = reinterpret_cast<uint64_t>(number);
  *out_place = bits & ((uint64_t{1} << kPlaceBits) - 1);
  if (*out_place >= entries_.size()) return nullptr;
  Entry& entry = entries_[*out_place];
  return entry.generation == bits >> kPlaceBits ? &entry : nullptr;
}

void* AsyncCalls::Close(void* number) noexcept {
  Status late;
  {
    std::lock_guard lock(mutex_);
    uint64_t place = 0;
    Entry* entry = Find(number, &place);
    if (entry != nullptr) {
      ++entry->generation;
      entry->next_free = std::exchange(first_free_, place);
      if (!entry->given_up) return std::exchange(entry->waits, nullptr);
    }
    late = NameLate(place, number, entry != nullptr);
  }
  Log(TENON_LOG_ERROR, late.message());
  return nullptr;
}

// Under the lock.
Status AsyncCalls::NameLate(uint64_t place, const void* number, bool given_up) {
  const char* const what = given_up ? "called done when nobody waited for it any more" : "called done twice";
  // The place may serve another call by now; else its names are still those.
  if (place >= entries_.size() || entries_[place].generation != (reinterpret_cast<uint64_t>(number) >> kPlaceBits) + 1)
    return Status::Of(Code::kInternal, "a function of a plugin ", what, "; this is of no account");
  const Entry& entry = entries_[place];
  return Guarded([&] {
    return Internal(StrCat(DescribePlugin(entry.plugin), ": its ", entry.function, " '", entry.of, "' ", what,
                           "; this is of no account"));
  });
}

bool AsyncCalls::GiveUp(void* number) {
  std::lock_guard lock(mutex_);
  uint64_t place = 0;
  Entry* entry = Find(number, &place);
  if (entry == nullptr) return false;
  entry->given_up = true;
  entry->waits = nullptr;
  return true;
}

}  // namespace tenon::exec
