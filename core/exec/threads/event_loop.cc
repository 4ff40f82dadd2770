// SPDX-License-Identifier: Apache-2.0
#include "core/exec/threads/event_loop.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/log.h"

namespace tenon::exec {

EventLoop::~EventLoop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    Wake();
  }
  if (thread_.joinable()) thread_.join();
  for (const int end : wake_)
    if (end >= 0) close(end);
}

Result<uint64_t> EventLoop::WhenReady(int descriptor, short events, uint64_t until_ns, Callback callback) {
  if (descriptor < 0 || fcntl(descriptor, F_GETFD) < 0)
    return InvalidArgument(
        StrCat(descriptor, " is no open descriptor: ", std::strerror(descriptor < 0 ? EBADF : errno)));
  return Add({descriptor, events, until_ns, std::move(callback)});
}

Result<uint64_t> EventLoop::Add(Entry entry) {
  std::lock_guard lock(mutex_);
  TENON_RETURN_IF_ERROR(Start());
  const uint64_t number = next_++;
  const uint64_t until = entry.until_ns;
  const bool earliest = times_.empty() || until < times_.begin()->first;
  const bool looks = entry.descriptor >= 0;
  entries_.emplace(number, std::move(entry));
  try {
    if (until != kNever) times_.emplace(until, number);
  } catch (...) {  // without memory: it was not taken
    entries_.erase(number);
    throw;
  }
  if (looks || earliest) Wake();
  return number;
}

Status EventLoop::Start() {
  if (thread_.joinable()) return Status::Ok();
  if (wake_[0] < 0 && pipe2(wake_, O_NONBLOCK | O_CLOEXEC) != 0)
    return ResourceExhausted(StrCat("no pipe to wait with: ", std::strerror(errno)));
  try {
    thread_ = std::thread([this] { Loop(); });
  } catch (const std::system_error& error) {
    return ResourceExhausted(StrCat("no thread to wait with: ", error.what()));
  }
  return Status::Ok();
}

bool EventLoop::Forget(uint64_t number) {
  Entry forgotten{};  // destroyed without the lock
  std::lock_guard lock(mutex_);
  const auto it = entries_.find(number);
  if (it == entries_.end()) return false;
  forgotten = std::move(it->second);
  entries_.erase(it);
  times_.erase({forgotten.until_ns, number});
  if (forgotten.descriptor >= 0) Wake();  // it may be closed now, and be another's next
  return true;
}

void EventLoop::Wake() const {
  const char byte = 0;
  if (wake_[1] >= 0) (void)!write(wake_[1], &byte, 1);  // full: it will wake
}

// Sleeps until something may be due; `ready_` then says which descriptors are.
void EventLoop::Await(std::unique_lock<std::mutex>* lock) {
  std::vector<pollfd> polled = {{wake_[0], POLLIN, 0}};
  std::vector<uint64_t> numbers = {0};
  for (const auto& [number, entry] : entries_) {
    if (entry.descriptor < 0) continue;
    polled.push_back({entry.descriptor, entry.events, 0});
    numbers.push_back(number);
  }
  ready_.clear();
  ready_.reserve(numbers.size());
  timespec timeout{};
  const bool timed = !times_.empty();
  if (timed) {
    const uint64_t now = NowNs(), first = times_.begin()->first, left = first > now ? first - now : 0;
    timeout = {static_cast<time_t>(left / 1'000'000'000), static_cast<long>(left % 1'000'000'000)};
  }
  lock->unlock();
  if (ppoll(polled.data(), polled.size(), timed ? &timeout : nullptr, nullptr) < 0)
    for (pollfd& each : polled) each.revents = 0;  // interrupted: it is looked again
  char bytes[64];
  while (read(wake_[0], bytes, sizeof(bytes)) > 0) {
  }
  lock->lock();
  for (size_t i = 1; i < polled.size(); ++i)
    if (polled[i].revents != 0) ready_.push_back(numbers[i]);
}

void EventLoop::Take(uint64_t number, bool timed_out, std::vector<Due>* out) {
  const auto it = entries_.find(number);
  if (it == entries_.end()) return;  // forgotten meanwhile
  times_.erase({it->second.until_ns, number});
  out->push_back({std::move(it->second.callback), timed_out && it->second.descriptor >= 0});
  entries_.erase(it);
}

void EventLoop::TakeDue(std::vector<Due>* out) {
  out->reserve(entries_.size());  // from here on nothing takes memory
  for (const uint64_t number : ready_) Take(number, false, out);
  for (const uint64_t now = NowNs(); !times_.empty() && times_.begin()->first <= now;)
    Take(times_.begin()->second, true, out);
}

void EventLoop::Loop() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    std::vector<Due> due;
    const Status looked = Guarded([&] {
      Await(&lock);
      TakeDue(&due);
    });
    lock.unlock();
    // Without memory to look: again, a moment later.
    if (!looked.ok()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    for (const Due& each : due)
      if (Status thrown = Guarded([&each] { each.callback(each.timed_out); }); !thrown.ok())
        Log(TENON_LOG_ERROR, std::move(thrown).Annotate("what was waited for could not be told").message());
    due.clear();
    lock.lock();
  }
}

}  // namespace tenon::exec
