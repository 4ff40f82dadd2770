// SPDX-License-Identifier: Apache-2.0
#include "core/exec/work/work.h"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/plugin_call.h"
#include "core/exec/threads/event_loop.h"
#include "core/exec/threads/host_threads.h"

namespace tenon::exec {

Status SessionWorks::Begin(bool may_wait) {
  if (pending_.fetch_add(1) >= kMostPending) {
    pending_.fetch_sub(1);
    return ResourceExhausted(StrCat("a session has at most ", kMostPending, " things under way in the background"));
  }
  if (!may_wait || waiting_.fetch_add(1) < kMostWaiting) return Status::Ok();
  waiting_.fetch_sub(1);
  pending_.fetch_sub(1);
  return ResourceExhausted(
      StrCat("a session has at most ", kMostWaiting, " threads for what may wait in the background"));
}

void SessionWorks::Add(const std::shared_ptr<tenon_work>& work) {
  std::unique_lock lock(mutex_);
  std::erase_if(background_, [](const auto& weak) { return weak.expired(); });
  background_.push_back(work);
  if (!closed_.load()) return;
  const Status why = reason_;
  lock.unlock();
  work->Cancel(why);  // it came too late for Close() to see it
}

Status SessionWorks::reason() {
  const std::lock_guard lock(mutex_);
  return reason_;
}

void SessionWorks::Close(const Status& reason) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (reason_.ok()) reason_ = reason;
    closed_.store(true);
  }
  for (;;) {
    std::shared_ptr<tenon_work> work;
    {
      std::lock_guard lock(mutex_);
      while (!background_.empty() && work == nullptr) {
        work = background_.back().lock();
        background_.pop_back();
      }
    }
    if (work == nullptr) return;
    work->Cancel(reason);
  }
}

}  // namespace tenon::exec

using tenon::StrCat;
using tenon::Status;
using tenon::exec::EventLoop;
using tenon::exec::SessionWorks;

std::shared_ptr<tenon_work> tenon_work::Make(std::shared_ptr<SessionWorks> session, const std::string& plugin,
                                             std::string name, tenon::Cancellation* step) {
  std::shared_ptr<tenon_work> work(new tenon_work(std::move(session), plugin, std::move(name), step));
  if (step != nullptr) {
    work->subscription_.Begin(step, [raw = work.get()](const Status&) { raw->HandOverAll(); });
  } else {
    work->live_.emplace(plugin);
    work->session_->Add(work);
  }
  return work;
}

// ---- Taking ----

Status tenon_work::Take(tenon_done_function function, void* argument, bool may_wait, uint64_t* out_token) {
  if (function == nullptr) return tenon::InvalidArgument("there is no function to call");
  if (cancelled()) return cancellation_->reason();
  TENON_RETURN_IF_ERROR(session_->Begin(may_wait));
  std::lock_guard lock(mutex_);
  *out_token = next_++;
  const Status kept = tenon::Guarded([&] { items_.emplace(*out_token, Item{function, argument, may_wait}); });
  if (!kept.ok()) session_->End(may_wait);
  return kept;
}

// ask() -> Result<uint64_t>: the event loop has it under this number. What fails, or throws, is not taken, unless it
// has come back already.
template <typename Ask>
Status tenon_work::Wait(uint64_t token, const Ask& ask) {
  uint64_t number = 0;
  const Status asked = tenon::Guarded([&]() -> Status {
    TENON_ASSIGN_OR_RETURN(number, ask());
    return Status::Ok();
  });
  if (!asked.ok()) return Forget(token) ? asked : Status::Ok();
  {
    std::lock_guard lock(mutex_);
    if (const auto it = items_.find(token); it != items_.end()) it->second.waits_for = number;
  }
  // Cancelled before it was there to be seen.
  if (cancelled()) HandOverAll();
  return Status::Ok();
}

Status tenon_work::Schedule(uint64_t after_ns, uint32_t flags, tenon_done_function function, void* argument,
                            uint64_t* out_token) {
  if ((flags & ~TENON_WORK_MAY_WAIT) != 0)
    return tenon::Unimplemented(StrCat("the flags ", flags, " of schedule(); TENON_WORK_MAY_WAIT is known"));
  const SessionWorks::Entered entered(session_.get());
  if (!entered) return entered.why();
  uint64_t token = 0;
  TENON_RETURN_IF_ERROR(Take(function, argument, (flags & TENON_WORK_MAY_WAIT) != 0, &token));
  if (out_token != nullptr) *out_token = token;
  if (after_ns == 0) {
    HandOver(token, false);
    return Status::Ok();
  }
  const uint64_t now = tenon::NowNs(), when = after_ns > UINT64_MAX - 1 - now ? UINT64_MAX - 1 : now + after_ns;
  return Wait(token, [&] {
    return session_->loop()->At(when, [self = shared_from_this(), token](bool) { self->HandOver(token, false); });
  });
}

Status tenon_work::Await(int32_t descriptor, uint32_t events, uint64_t timeout_ns, tenon_done_function function,
                         void* argument, uint64_t* out_token) {
  constexpr uint32_t kEvents = TENON_WORK_READABLE | TENON_WORK_WRITABLE;
  if (events == 0 || (events & ~kEvents) != 0)
    return tenon::InvalidArgument(
        StrCat("the events ", events, " of await_descriptor(); TENON_WORK_READABLE, TENON_WORK_WRITABLE or both"));
  const SessionWorks::Entered entered(session_.get());
  if (!entered) return entered.why();
  uint64_t token = 0;
  TENON_RETURN_IF_ERROR(Take(function, argument, false, &token));
  if (out_token != nullptr) *out_token = token;
  const auto polled = static_cast<short>(((events & TENON_WORK_READABLE) != 0 ? POLLIN : 0) |
                                         ((events & TENON_WORK_WRITABLE) != 0 ? POLLOUT : 0));
  const uint64_t now = tenon::NowNs();
  const uint64_t until = timeout_ns == 0 || timeout_ns > UINT64_MAX - 1 - now ? EventLoop::kNever : now + timeout_ns;
  const auto ready = [self = shared_from_this(), token](bool timed_out) { self->HandOver(token, timed_out); };
  return Wait(token, [&] { return session_->loop()->WhenReady(descriptor, polled, until, ready); });
}

bool tenon_work::Forget(uint64_t token) {
  uint64_t waits_for = 0;
  bool may_wait = false;
  {
    std::lock_guard lock(mutex_);
    const auto it = items_.find(token);
    if (it == items_.end() || it->second.state == Item::State::kRuns) return false;
    waits_for = it->second.waits_for;
    may_wait = it->second.may_wait;
    items_.erase(it);
    back_.notify_all();
  }
  if (waits_for != 0) (void)session_->loop()->Forget(waits_for);
  session_->End(may_wait);
  return true;
}

// ---- Calling ----

void tenon_work::HandOver(uint64_t token, bool timed_out) noexcept {
  bool may_wait = false;
  {
    std::lock_guard lock(mutex_);
    const auto it = items_.find(token);
    if (it == items_.end() || it->second.state != Item::State::kWaits) return;
    it->second.state = Item::State::kOnItsWay;
    it->second.timed_out = timed_out;
    may_wait = it->second.may_wait;
  }
  const Status handed = tenon::Guarded([&] {
    const auto run = [self = shared_from_this(), token] { self->Run(token); };
    return may_wait ? session_->threads()->ScheduleWaiting(run) : session_->threads()->Schedule(run);
  });
  if (!handed.ok()) Run(token);  // there is no other thread
}

// What still waits comes back now.
void tenon_work::HandOverAll() noexcept {
  for (uint64_t token = 0;;) {
    uint64_t waits_for = 0;
    {
      std::lock_guard lock(mutex_);
      const auto it = std::find_if(items_.upper_bound(token), items_.end(),
                                   [](const auto& item) { return item.second.state == Item::State::kWaits; });
      if (it == items_.end()) return;
      token = it->first;
      waits_for = std::exchange(it->second.waits_for, 0);
    }
    if (waits_for != 0) (void)session_->loop()->Forget(waits_for);
    HandOver(token, false);
  }
}

void tenon_work::Run(uint64_t token) {
  Item item{};
  {
    std::lock_guard lock(mutex_);
    const auto it = items_.find(token);
    if (it == items_.end()) return;  // forgotten
    it->second.state = Item::State::kRuns;
    it->second.runner = std::this_thread::get_id();
    item = it->second;
  }
  Status status;
  if (cancelled()) status = Status::Of(tenon::Code::kCancelled, cancellation_->reason().message());
  else if (item.timed_out) status = Status::Of(tenon::Code::kDeadlineExceeded, "the descriptor was not ready in time");
  tenon::TellPlugin(plugin_, "scheduled function", &name_, nullptr,
                    [&] { item.function(item.argument, status.release()); });
  std::lock_guard lock(mutex_);
  session_->End(item.may_wait);  // before anybody is told: nothing of the session is touched after this
  items_.erase(token);
  back_.notify_all();
}

// ---- Functions ----

Status tenon_work::Call(tenon_function* function, std::span<const tenon_tensor_view* const> arguments,
                        std::span<const tenon_tensor_view* const> places, std::span<tenon_tensor_view> out_results) {
  const auto check = [&](const char* what, size_t found, size_t wanted) {
    return found == wanted ? Status::Ok()
                           : tenon::InvalidArgument(StrCat("function '", function->name, "' has ", wanted, " ", what,
                                                           ", the call ", found));
  };
  TENON_RETURN_IF_ERROR(check("arguments", arguments.size(), function->argument_types.size()));
  TENON_RETURN_IF_ERROR(check("results", out_results.size(), function->result_types.size()));
  const SessionWorks::Entered entered(session_.get());
  if (!entered) return entered.why();
  return function->Call(cancellation_, arguments, places, out_results);
}

// ---- The end ----

void tenon_work::Cancel(const Status& reason) noexcept {
  own_.Cancel(Status(reason));
  HandOverAll();
}

void tenon_work::EndStep() noexcept {
  const std::shared_ptr<tenon_work> kept = std::move(kept_);  // until the end of this
  subscription_.End();
  size_t left = 0;
  for (;; ++left) {
    uint64_t token = 0;
    {
      std::lock_guard lock(mutex_);
      const auto it = std::find_if(items_.begin(), items_.end(),
                                   [](const auto& item) { return item.second.state != Item::State::kRuns; });
      if (it == items_.end()) break;
      token = it->first;
    }
    (void)Forget(token);
  }
  if (left == 0) return;
  const Status said = tenon::Guarded([&] {
    tenon::Log(TENON_LOG_ERROR, StrCat(tenon::DescribePlugin(plugin_), ": node '", name_, "' was done while ", left,
                                       " things that it had scheduled were still to come; they are dropped"));
  });
  if (!said.ok())
    tenon::Log(TENON_LOG_ERROR,
               "a node was done while things that it had scheduled were still to come; they are dropped, and there is "
               "no memory to name it");
}

bool tenon_work::AllBack() const {
  const auto here = std::this_thread::get_id();
  return std::all_of(items_.begin(), items_.end(), [here](const auto& item) { return item.second.runner == here; });
}

void tenon_work::EndBackground() {
  Cancel(Status::Of(tenon::Code::kCancelled, "the background work '", name_, "' was ended"));
  std::shared_ptr<tenon_work> kept;  // goes without the lock
  std::unique_lock lock(mutex_);
  back_.wait(lock, [this] { return AllBack(); });
  kept.swap(kept_);
  lock.unlock();
}
