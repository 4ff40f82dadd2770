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

// A callback that throws must not keep the others from hearing it.
void Call(const std::function<void(const Status&)>& callback, const Status& reason) {
  if (Status thrown = Guarded([&] { callback(reason); }); !thrown.ok())
    LogFailure(std::move(thrown).Annotate("while a cancellation was told"));
}

}  // namespace

bool Subscription::Begin(Cancellation* to, std::function<void(const Status&)> callback) {
  End();
  callback_ = std::move(callback);
  if (to->Append(this)) return true;
  Call(callback_, to->reason());
  return false;
}

bool Subscription::End() {
  if (to_ == nullptr) return false;
  Cancellation* const from = std::exchange(to_, nullptr);
  std::unique_lock lock(from->mutex_);
  if (waits_) {
    from->Remove(this);
    return true;
  }
  if (from->runner_ != std::this_thread::get_id()) from->ran_.wait(lock, [&] { return from->running_ != this; });
  return false;
}

bool Cancellation::Append(Subscription* subscription) {
  std::lock_guard lock(mutex_);
  if (flag_.load()) return false;
  subscription->to_ = this;
  subscription->before_ = last_;
  subscription->after_ = nullptr;
  subscription->waits_ = true;
  (last_ == nullptr ? first_ : last_->after_) = subscription;
  last_ = subscription;
  return true;
}

// Under the lock.
void Cancellation::Remove(Subscription* subscription) {
  subscription->waits_ = false;
  (subscription->before_ == nullptr ? first_ : subscription->before_->after_) = subscription->after_;
  (subscription->after_ == nullptr ? last_ : subscription->after_->before_) = subscription->before_;
}

void Cancellation::Cancel(Status reason) noexcept {
  std::unique_lock lock(mutex_);
  if (flag_.load()) return;
  reason_ = std::move(reason);
  flag_.store(true);
  runner_ = std::this_thread::get_id();
  while (first_ != nullptr) {
    Subscription* const subscription = first_;
    Remove(subscription);
    running_ = subscription;
    // It may end the subscription itself.
    std::function<void(const Status&)> callback = std::move(subscription->callback_);
    lock.unlock();
    Call(callback, reason_);
    callback = nullptr;
    lock.lock();
    running_ = nullptr;
    ran_.notify_all();
  }
}

Status Cancellation::reason() const {
  std::lock_guard lock(mutex_);
  return reason_;
}

uint64_t Cancellation::Subscribe(std::function<void(const Status&)> callback) {
  std::map<uint64_t, Subscription>::node_type unused;
  std::lock_guard lock(numbered_mutex_);
  const uint64_t token = next_token_;
  Subscription& subscription = numbered_[token];
  subscription.callback_ = std::move(callback);
  if (Append(&subscription)) return next_token_++;
  unused = numbered_.extract(token);
  return 0;
}

bool Cancellation::Unsubscribe(uint64_t token) {
  std::map<uint64_t, Subscription>::node_type ended;
  {
    std::lock_guard lock(numbered_mutex_);
    ended = numbered_.extract(token);
  }
  return !ended.empty() && ended.mapped().End();
}

DeadlineWatcher::~DeadlineWatcher() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Result<uint64_t> DeadlineWatcher::Watch(Cancellation* cancellation, uint64_t deadline_ns, uint64_t timeout_ns,
                                        const PluginTrail* trail) {
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

std::multimap<uint64_t, DeadlineWatcher::Entry>::iterator DeadlineWatcher::Find(uint64_t token) {
  return std::find_if(entries_.begin(), entries_.end(),
                      [token](const auto& entry) { return entry.second.token == token; });
}

void DeadlineWatcher::Follow(uint64_t token, const PluginTrail* trail) {
  const std::lock_guard lock(mutex_);
  if (const auto it = Find(token); it != entries_.end()) it->second.trail = trail;
}

void DeadlineWatcher::CancelLate(const Entry& entry) {
  entry.cancellation->Cancel(Status::Of(Code::kDeadlineExceeded, "the step did not end within its deadline of ",
                                        entry.timeout_ns / 1000000, " ms"));
}

void DeadlineWatcher::Forget(uint64_t token) {
  std::lock_guard lock(mutex_);
  const auto it = Find(token);
  if (it == entries_.end()) return;
  if (!it->second.cancelled && it->first <= NowNs()) CancelLate(it->second);  // the thread was not quick enough
  entries_.erase(it);
}

void DeadlineWatcher::NameWhoRuns(const Entry& entry) {
  PluginPlace place;
  if (entry.trail == nullptr || !ReadTrail(*entry.trail, &place)) return;
  (void)Guarded([&] {  // without memory a line less
    Log(TENON_LOG_WARNING,
        StrCat(DescribePlugin(place.plugin), ": its ", Describe(place), " still runs, ", kGraceNs / 1000000,
               " ms after the deadline of ", entry.timeout_ns / 1000000, " ms; a step cannot end before it returns"));
  });
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
    CancelLate(first->second);
    // Who does not end is named a while later; who works on it then, if nobody does now.
    auto entry = entries_.extract(first);
    entry.mapped().cancelled = true;
    entry.key() = now + kGraceNs;
    entries_.insert(std::move(entry));
  }
}

}  // namespace tenon
