// SPDX-License-Identifier: Apache-2.0
#include "reader.h"

#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "tenon/extras/transport/keeper.h"

namespace tenon::shm {
namespace {

constexpr uint64_t kSpin = 30'000;  // nanoseconds; about what waking a thread takes
constexpr uint64_t kYieldAfter = 5'000;
constexpr uint64_t kCrowded = 3'000;  // a yield that takes longer has let another thread run
constexpr uint64_t kCrowdedPause = 2'000'000;
constexpr uint64_t kCrowdedYields = 8;
constexpr int kLongestSleepMs = 100;  // a peer may have played with the bell

void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

tenon_status* Reader::Make(std::shared_ptr<Reader>* out_reader) {
  std::shared_ptr<Reader> reader(new Reader());
  TENON_SDK_RETURN_IF_ERROR(Bell::Make(&reader->bell_));
  reader->events_ = File(epoll_create1(EPOLL_CLOEXEC));
  reader->wake_ = File(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  epoll_event event = {EPOLLIN | EPOLLET, {nullptr}};
  if (!reader->events_.ok() || !reader->wake_.ok() ||
      epoll_ctl(reader->events_.get(), EPOLL_CTL_ADD, reader->wake_.get(), &event) != 0) {
    return sdk::Failure(TENON_RESOURCE_EXHAUSTED, "making what an endpoint waits with: ", std::strerror(errno));
  }
  *out_reader = std::move(reader);
  return nullptr;
}

void Reader::Add(Source* source, int socket) {
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  sources_.push_back(source);
  epoll_event event = {EPOLLIN | EPOLLRDHUP | EPOLLET, {source}};
  epoll_ctl(events_.get(), EPOLL_CTL_ADD, socket, &event);
  Wake();  // frames may have come before
}

void Reader::Remove(Source* source, int socket) {
  std::unique_lock lock(mutex_);
  std::erase(sources_, source);
  epoll_ctl(events_.get(), EPOLL_CTL_DEL, socket, nullptr);
  changed_.wait(lock, [source] { return source->threads_ == 0; });
}

void Reader::Leave(Source* source) {
  const std::lock_guard lock(mutex_);
  ++source->threads_;
}

void Reader::Return(Source* source) {
  const std::lock_guard lock(mutex_);
  --source->threads_;
  changed_.notify_all();
  Wake();
}

void Reader::Stop() {
  stop_ = true;
  Wake();
  if (thread_.joinable()) thread_.join();
}

void Reader::Wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t woken = write(wake_.get(), &one, sizeof one);
}

void Reader::Run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (VisitNext(&lock)) continue;
    lock.unlock();
    if (!Spin()) Sleep();
    lock.lock();
  }
}

bool Reader::VisitNext(std::unique_lock<std::mutex>* lock) {
  for (size_t i = 0; i < sources_.size(); ++i) {
    next_ = next_ + 1 < sources_.size() ? next_ + 1 : 0;
    Source* const source = sources_[next_];
    if (source->threads_ != 0 || !source->HasWork()) continue;
    ++source->threads_;
    lock->unlock();
    source->Visit();
    lock->lock();
    --source->threads_;
    changed_.notify_all();
    return true;
  }
  return false;
}

bool Reader::HasWork() {
  const std::lock_guard lock(mutex_);
  return std::any_of(sources_.begin(), sources_.end(),
                     [](Source* source) { return source->threads_ == 0 && source->HasWork(); });
}

// True: there is something to do. Others who want the core get it first: what comes meanwhile saves a sleep.
bool Reader::Spin() {
  uint64_t now = sdk::Now();
  for (uint64_t spent = 0; spent < kSpin;) {
    const uint64_t begin = now;
    const bool crowded = begin < crowded_until_;
    for (int i = 0; i < (crowded ? 1 : 20); ++i) {
      if (HasWork() || stop_.load(std::memory_order_relaxed)) return true;
      Pause();
    }
    if (crowded || spent >= kYieldAfter) {
      const uint64_t before = sdk::Now();
      sched_yield();
      now = sdk::Now();
      if (now - before >= kCrowded) {  // another thread has run
        crowded_until_ = now + kCrowdedPause;
        spent += kSpin / kCrowdedYields;
        continue;
      }
    } else {
      now = sdk::Now();
    }
    spent += now - begin;
  }
  return false;
}

void Reader::Sleep() {
  bell_->SetSleeping(true);
  epoll_event events[16];
  int count = 0;
  if (!HasWork() && !stop_) count = epoll_wait(events_.get(), events, 16, kLongestSleepMs);
  bell_->SetSleeping(false);
  const std::lock_guard lock(mutex_);
  for (int i = 0; i < count; ++i) {
    auto* const source = static_cast<Source*>(events[i].data.ptr);
    if (std::find(sources_.begin(), sources_.end(), source) != sources_.end()) source->Rung();
  }
}

}  // namespace tenon::shm
