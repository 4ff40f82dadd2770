// SPDX-License-Identifier: Apache-2.0
#include "core/exec/threads/host_threads.h"

#include <sched.h>

#include <algorithm>
#include <exception>
#include <limits>

#include "core/base/clock.h"
#include "core/base/flush_denormals.h"
#include "core/base/log.h"

namespace tenon::exec {
namespace {

// Waking a helper costs tens of microseconds; less work than this stays on one thread.
constexpr double kMinShareNs = 4000;
// How long a helper spins before it sleeps: about 50 us.
constexpr int kSpins = 20000;
// How long a helper computes before it offers its core to others, between two shares: shorter than the time that a
// system gives at once (Linux: about 1.4 ms on two cores, and 3 on many), or it would be taken in the middle of a share
// that the caller then waits for.
constexpr uint64_t kTurnNs = 600'000;
constexpr size_t kMaxComputing = 64;
constexpr size_t kMaxIdle = 64;  // of either kind; more end

constexpr uint64_t kNever = UINT64_MAX;

thread_local bool in_waiting_task = false;
thread_local uint64_t shared_runs = 0;

// The cores that this process may use: more threads than these at once would wait for each other.
uint32_t Cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return std::max(1u, std::thread::hardware_concurrency());
  return static_cast<uint32_t>(std::max(1, CPU_COUNT(&allowed)));
}

// This thread goes on on another core than this one, if it may, and may come back later.
void Leave(int core) {
  cpu_set_t allowed, others;
  if (core < 0 || core >= CPU_SETSIZE || sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  others = allowed;
  CPU_CLR(core, &others);
  if (CPU_COUNT(&others) > 0 && sched_setaffinity(0, sizeof(others), &others) == 0)
    sched_setaffinity(0, sizeof(allowed), &allowed);
}

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

HostThreads::HostThreads(uint32_t threads)
    : threads_(std::max<uint32_t>(threads, 1)),
      computing_{kMaxComputing},
      waiting_{std::numeric_limits<size_t>::max()} {
  const uint32_t at_once = std::min(threads_, Cores());
  helpers_.reserve(at_once);
  try {
    for (uint32_t i = 1; i < at_once; ++i) helpers_.emplace_back([this] { Helper(); });
  } catch (const std::exception& error) {
    Log(TENON_LOG_WARNING, Status::Of(Code::kResourceExhausted, "of ", threads_, " threads for steps there are ",
                                      helpers_.size() + 1, ": ", error.what())
                               .message());
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

bool HostThreads::TakeShares(uint64_t until_ns) {
  do {
    const int64_t begin = next_.fetch_add(share_, std::memory_order_relaxed);
    if (begin >= total_) return true;
    function_(argument_, begin, std::min(begin + share_, total_));
  } while (until_ns == kNever || NowNs() < until_ns);
  return false;
}

void HostThreads::Run(int64_t total, double cost, RangeFunction function, void* argument, uint64_t* out_waits_ns) {
  if (total <= 0) return;
  const double work = static_cast<double>(total) * cost;
  const bool crowd = in_waiting_task && waiting_running_.load(std::memory_order_relaxed) > threads_;
  if (helpers_.empty() || total == 1 || work < 2 * kMinShareNs || crowd) return function(argument, 0, total);
  ++shared_runs;
  if (busy_.test_and_set(std::memory_order_acquire)) return function(argument, 0, total);
  const auto shares =
      static_cast<int64_t>(std::min(4.0 * static_cast<double>(helpers_.size() + 1), std::max(2.0, work / kMinShareNs)));
  total_ = total;
  share_ = std::max<int64_t>(1, (total + shares - 1) / shares);
  function_ = function;
  argument_ = argument;
  next_.store(0, std::memory_order_relaxed);
  caller_core_.store(sched_getcpu(), std::memory_order_relaxed);
  // An odd epoch is open for helpers. They count themselves in before they look at it again.
  epoch_.fetch_add(1, std::memory_order_seq_cst);
  if (sleeping_.load(std::memory_order_seq_cst) > 0) {
    { std::lock_guard lock(mutex_); }
    wake_.notify_all();
  }
  TakeShares(kNever);
  epoch_.fetch_add(1, std::memory_order_seq_cst);
  if (out_waits_ns != nullptr && inside_.load(std::memory_order_seq_cst) != 0) *out_waits_ns = NowNs();
  AwaitHelpers();
  busy_.clear(std::memory_order_release);
}

uint64_t HostThreads::SharedRuns() { return shared_runs; }

// A helper that does not come back soon may have lost its core, and its share waits with it: this thread then sleeps,
// so that the system gives the helper the core that is free now. To spin or to yield would keep that core.
void HostThreads::AwaitHelpers() {
  for (int spins = 0; inside_.load(std::memory_order_seq_cst) != 0; ++spins) {
    if (spins < kSpins) {
      Pause();
      continue;
    }
    caller_sleeps_.store(true, std::memory_order_seq_cst);
    for (int32_t inside; (inside = inside_.load(std::memory_order_seq_cst)) != 0;)
      inside_.wait(inside, std::memory_order_seq_cst);
    caller_sleeps_.store(false, std::memory_order_relaxed);
  }
}

void HostThreads::Helper() {
  const FlushDenormals flush;
  uint64_t done = 0, turn_ends = NowNs() + kTurnNs;
  int spins = 0;
  for (;;) {
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
        turn_ends = NowNs() + kTurnNs;
      }
      Pause();
      epoch = epoch_.load(std::memory_order_acquire);
    }
    if (const int core = sched_getcpu(); core == caller_core_.load(std::memory_order_relaxed)) Leave(core);
    inside_.fetch_add(1, std::memory_order_seq_cst);
    if (epoch_.load(std::memory_order_seq_cst) != epoch || TakeShares(turn_ends)) done = epoch;
    spins = 0;
    if (inside_.fetch_sub(1, std::memory_order_seq_cst) == 1 && caller_sleeps_.load(std::memory_order_seq_cst)) {
      inside_.notify_all();
      spins = kSpins;  // the caller may want this core
    }
    if (NowNs() < turn_ends) continue;
    std::this_thread::yield();
    turn_ends = NowNs() + kTurnNs;
  }
}

// Under the lock.
Status HostThreads::AddThread(Background* background) {
  std::list<std::thread> added;
  try {
    const auto self = added.emplace(added.end());
    *self = std::thread([this, background, self] { Serve(background, self); });
  } catch (const std::exception& error) {
    return Status::Of(Code::kResourceExhausted,
                      "the system gives no thread for work in the background: ", error.what());
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
      // A task that computes can wait for a thread that there is. One that others wait for cannot: all of them may be
      // waiting for it.
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
  const FlushDenormals flush;
  std::unique_lock lock(mutex_);
  for (;;) {
    ++background->idle;
    background->wake.wait(lock,
                          [&] { return stop_.load() || !background->tasks.empty() || background->idle > kMaxIdle; });
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
