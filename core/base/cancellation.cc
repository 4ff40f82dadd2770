// SPDX-License-Identifier: Apache-2.0
#include "core/base/cancellation.h"

#include <algorithm>
#include <chrono>
#include <system_error>

#include "core/base/clock.h"
#include "core/base/log.h"

namespace tenon {
namespace {

constexpr uint64_t kGraceNs = 1'000'000'000;

}  // namespace

void Cancellation::Cancel(Status reason) {
  std::unique_lock lock(mutex_);
  if (flag_.load()) return;
  reason_ = std::move(reason);
  flag_.store(true);
  while (!callbacks_.empty()) {
    auto node = callbacks_.extract(callbacks_.begin());
    running_ = node.key();
    runner_ = std::this_thread::get_id();
    lock.unlock();
    node.mapped()(reason_);
    lock.lock();
    running_ = 0;
    ran_.notify_all();
  }
}

Status Cancellation::reason() const {
  std::lock_guard lock(mutex_);
  return reason_;
}

uint64_t Cancellation::Subscribe(std::function<void(const Status&)> callback) {
  std::lock_guard lock(mutex_);
  if (flag_.load()) return 0;
  callbacks_.emplace(next_token_, std::move(callback));
  return next_token_++;
}

bool Cancellation::Unsubscribe(uint64_t token) {
  std::unique_lock lock(mutex_);
  if (callbacks_.erase(token) > 0) return true;
  if (runner_ != std::this_thread::get_id()) ran_.wait(lock, [&] { return running_ != token; });
  return false;
}

DeadlineWatcher::~DeadlineWatcher() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Result<uint64_t> DeadlineWatcher::Watch(Cancellation* cancellation, uint64_t deadline_ns, uint64_t timeout_ns, const PluginTrail* trail) {
  std::lock_guard lock(mutex_);
  try {
    if (!thread_.joinable()) thread_ = std::thread([this] { Loop(); });
  } catch (const std::system_error& error) {
    return ResourceExhausted(StrCat("the system gives no thread to watch a deadline: ", error.what()));
  }
  const bool first = entries_.empty() || deadline_ns < entries_.begin()->first;
  entries_.emplace(deadline_ns, Entry{cancellation, next_token_, timeout_ns, trail, false});
  if (first) wake_.notify_all();
  return next_token_++;
}

void DeadlineWatcher::Forget(uint64_t token) {
  std::lock_guard lock(mutex_);
  for (auto it = entries_.begin(); it != entries_.end(); ++it)
    if (it->second.token == token) {
      entries_.erase(it);
      return;
    }
}

void DeadlineWatcher::NameWhoRuns(const Entry& entry) {
  PluginPlace place;
  if (!ReadTrail(*entry.trail, &place)) return;
  try {
    Log(TENON_LOG_WARNING, StrCat(DescribePlugin(place.plugin), ": its ", Describe(place), " still runs, ", kGraceNs / 1000000,
                                  " ms after the deadline of ", entry.timeout_ns / 1000000, " ms; a step cannot end before it returns"));
  } catch (const std::bad_alloc&) {  // a line less: who waits for the deadlines must not end for want of memory
  }
}

void DeadlineWatcher::Loop() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (entries_.empty()) {
      wake_.wait(lock);
      continue;
    }
    const uint64_t now = NowNs();
    const auto first = entries_.begin();
    if (first->first > now) {
      // A time that no clock can be set to would be past at once, again and again.
      constexpr uint64_t kLongest = 3'600'000'000'000;
      wake_.wait_for(lock, std::chrono::nanoseconds(std::min(first->first - now, kLongest)));
      continue;
    }
    if (first->second.cancelled) {
      NameWhoRuns(first->second);
      entries_.erase(first);
      continue;
    }
    // Under the lock, so that Forget is a barrier; callbacks must not watch deadlines.
    try {
      first->second.cancellation->Cancel(Status(Code::kDeadlineExceeded, StrCat("the step did not end within its deadline of ",
                                                                                first->second.timeout_ns / 1000000, " ms")));
    } catch (const std::bad_alloc&) {  // for the reason: it is tried again until there is memory
      wake_.wait_for(lock, std::chrono::milliseconds(1));
      continue;
    }
    // Who does not end is named a while later.
    auto entry = entries_.extract(first);
    if (entry.mapped().trail == nullptr) continue;
    entry.mapped().cancelled = true;
    entry.key() = now + kGraceNs;
    entries_.insert(std::move(entry));
  }
}

}  // namespace tenon
