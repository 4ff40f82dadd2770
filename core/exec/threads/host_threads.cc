// SPDX-License-Identifier: Apache-2.0
#include "core/exec/threads/host_threads.h"

#include <algorithm>
#include <exception>
#include <limits>

#include "core/base/clock.h"
#include "core/base/log.h"

namespace tenon::exec {
namespace {

// Waking a helper costs tens of microseconds; less work than this stays on one thread.
constexpr double kMinShareNs = 4000;
// How long a helper spins before it sleeps: about 50 us.
constexpr int kSpins = 20000;
constexpr double kSpinNs = 50000;
// After a helper lost its core, so many runs take none: some tens of milliseconds of small kernels.
constexpr int32_t kCrowdedRuns = 4096;
constexpr size_t kMaxComputing = 64;
constexpr size_t kMaxIdle = 64;  // of either kind; more end

thread_local bool in_waiting_task = false;

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

HostThreads::HostThreads(uint32_t threads)
    : threads_(std::max<uint32_t>(threads, 1)), computing_{kMaxComputing}, waiting_{std::numeric_limits<size_t>::max()} {
  helpers_.reserve(threads_);
  try {
    for (uint32_t i = 1; i < threads_; ++i) helpers_.emplace_back([this] { Helper(); });
  } catch (const std::exception& error) {
    Log(TENON_LOG_WARNING, Status::Of(Code::kResourceExhausted, "of ", threads_, " threads for steps there are ", helpers_.size() + 1, ": ", error.what()).message());
    threads_ = static_cast<uint32_t>(helpers_.size()) + 1;
  }
}

HostThreads::~HostThreads() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
  for (Background* background : {&computing_, &waiting_}) {
    background->wake.notify_all();
    for (std::thread& thread : background->threads) thread.join();
  }
}

void HostThreads::TakeShares() {
  for (;;) {
    const int64_t begin = next_.fetch_add(share_, std::memory_order_relaxed);
    if (begin >= total_) return;
    function_(argument_, begin, std::min(begin + share_, total_));
  }
}

void HostThreads::Run(int64_t total, double cost, RangeFunction function, void* argument, uint64_t* out_waits_ns) {
  if (total <= 0) return;
  const double work = static_cast<double>(total) * cost;
  const bool crowd = in_waiting_task && waiting_running_.load(std::memory_order_relaxed) > threads_;
  if (threads_ == 1 || total == 1 || work < 2 * kMinShareNs || crowd || busy_.test_and_set(std::memory_order_acquire))
    return function(argument, 0, total);
  if (crowded_runs_ > 0) {
    --crowded_runs_;
    busy_.clear(std::memory_order_release);
    return function(argument, 0, total);
  }
  const auto shares = static_cast<int64_t>(std::min<double>(threads_ * 4, std::max(2.0, work / kMinShareNs)));
  total_ = total;
  share_ = std::max<int64_t>(1, (total + shares - 1) / shares);
  function_ = function;
  argument_ = argument;
  next_.store(0, std::memory_order_relaxed);
  // An odd epoch is open for helpers. They count themselves in before they look at it again.
  epoch_.fetch_add(1, std::memory_order_seq_cst);
  if (sleeping_.load(std::memory_order_seq_cst) > 0) {
    { std::lock_guard lock(mutex_); }
    wake_.notify_all();
  }
  TakeShares();
  epoch_.fetch_add(1, std::memory_order_seq_cst);
  if (out_waits_ns != nullptr && inside_.load(std::memory_order_seq_cst) != 0) *out_waits_ns = NowNs();
  // As long as helpers spin, and four times a share.
  AwaitHelpers(kSpins + static_cast<int64_t>(4 * work / static_cast<double>(shares) * kSpins / kSpinNs));
  busy_.clear(std::memory_order_release);
}

// A helper that does not come back soon has lost its core, and its share waits with it. Then threads outnumber cores: the
// core is given away, and the next runs stay on their caller's thread.
void HostThreads::AwaitHelpers(int64_t patience) {
  for (int64_t spins = 0; inside_.load(std::memory_order_seq_cst) != 0; ++spins) {
    if (spins < patience) {
      Pause();
      continue;
    }
    crowded_runs_ = kCrowdedRuns;
    std::this_thread::yield();
  }
}

void HostThreads::Helper() {
  uint64_t done = 0;
  for (;;) {
    int spins = 0;
    uint64_t epoch = epoch_.load(std::memory_order_acquire);
    while ((epoch & 1u) == 0 || epoch == done) {
      if (stop_.load(std::memory_order_relaxed)) return;
      if (++spins > kSpins) {
        std::unique_lock lock(mutex_);
        sleeping_.fetch_add(1, std::memory_order_seq_cst);
        wake_.wait(lock, [&] {
          const uint64_t now = epoch_.load(std::memory_order_seq_cst);
          return stop_.load() || ((now & 1u) != 0 && now != done);
        });
        sleeping_.fetch_sub(1, std::memory_order_seq_cst);
        spins = 0;
      }
      Pause();
      epoch = epoch_.load(std::memory_order_acquire);
    }
    inside_.fetch_add(1, std::memory_order_seq_cst);
    if (epoch_.load(std::memory_order_seq_cst) == epoch) TakeShares();
    inside_.fetch_sub(1, std::memory_order_seq_cst);
    done = epoch;
  }
}

// Under the lock.
Status HostThreads::AddThread(Background* background) {
  std::list<std::thread> added;
  try {
    const auto self = added.emplace(added.end());
    *self = std::thread([this, background, self] { Serve(background, self); });
  } catch (const std::exception& error) {
    return Status::Of(Code::kResourceExhausted, "the system gives no thread for work in the background: ", error.what());
  }
  background->threads.splice(background->threads.end(), added);
  return Status::Ok();
}

Status HostThreads::Schedule(Background* background, const std::function<void()>& task) {
  {
    std::lock_guard lock(mutex_);
    background->tasks.push_back(task);
    const bool wanted = background->idle < background->tasks.size() && background->threads.size() < background->limit;
    if (wanted) {
      const Status made = AddThread(background);
      // A task that computes can wait for a thread that there is. One that others wait for cannot: all of them may be waiting for it.
      if (!made.ok() && (background->threads.empty() || background == &waiting_)) {
        background->tasks.pop_back();
        return made;
      }
    }
  }
  background->wake.notify_one();
  return Status::Ok();
}

void HostThreads::Serve(Background* background, std::list<std::thread>::iterator self) {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++background->idle;
    background->wake.wait(lock, [&] { return stop_.load() || !background->tasks.empty() || background->idle > kMaxIdle; });
    --background->idle;
    if (background->tasks.empty()) break;
    std::function<void()> task = std::move(background->tasks.front());
    background->tasks.pop_front();
    lock.unlock();
    if (background == &waiting_) {
      in_waiting_task = true;
      waiting_running_.fetch_add(1, std::memory_order_relaxed);
    }
    // Tasks tell those who wait for them; here nobody does.
    if (Status thrown = Guarded(task); !thrown.ok())
      Log(TENON_LOG_ERROR, std::move(thrown).Annotate("a task in the background threw").message());
    task = nullptr;
    if (background == &waiting_) waiting_running_.fetch_sub(1, std::memory_order_relaxed);
    lock.lock();
  }
  if (stop_.load()) return;  // it is joined
  // Nothing of this object is touched after the unlock.
  self->detach();
  background->threads.erase(self);
}

}  // namespace tenon::exec
