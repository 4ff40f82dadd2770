// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/scheduler.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "tests/simulation/intercept.h"

namespace tenon::simulation {
namespace {

// A run that takes more has a thread that spins.
constexpr uint64_t kMostSwitches = 2'000'000;
constexpr uint64_t kTickNs = 2000;

}  // namespace

thread_local Thread* Scheduler::self_ = nullptr;
Scheduler* Scheduler::active_ = nullptr;

Scheduler::Scheduler(uint64_t seed) : random_(seed) {
  constexpr double kChances[] = {0, 0.02, 0.1, 0.3};
  yield_chance_ = kChances[Draw(4)];
}

void Scheduler::Run(uint64_t seed, const std::function<void()>& main) {
  Scheduler scheduler(seed);
  active_ = &scheduler;
  self_ = scheduler.NewThread(0);
  main();
  self_ = nullptr;
  active_ = nullptr;
}

Thread* Scheduler::NewThread(int node) {
  auto thread = std::make_unique<Thread>();
  thread->id = static_cast<int>(threads_.size());
  thread->node = node;
  sem_init(&thread->baton, 0, 0);
  living_.push_back(thread.get());
  return threads_.emplace_back(std::move(thread)).get();
}

int Scheduler::SetNode(int node) { return std::exchange(self_->node, node); }

void Scheduler::Kill(int node) {
  killed_.insert(node);
  frozen_.erase(node);
}

// ---- Who goes on ----

bool Scheduler::MayRun(const Thread& thread) const {
  return thread.ready && (thread.locks > 0 || (!frozen_.contains(thread.node) && !killed_.contains(thread.node)));
}

// Those whose time has come.
void Scheduler::WakeSleepers() {
  for (Thread* thread : living_) {
    if (thread->ready || thread->wake_ns > now_) continue;
    thread->ready = thread->woken_by_time = true;
  }
}

Thread* Scheduler::Choose() {
  for (;;) {
    WakeSleepers();
    size_t count = 0;
    for (const Thread* thread : living_) count += MayRun(*thread);
    if (count > 0) {
      size_t chosen = count == 1 ? 0 : Draw(count);
      for (Thread* thread : living_)
        if (MayRun(*thread) && chosen-- == 0) return thread;
    }
    uint64_t next = kNever;
    for (const Thread* thread : living_)
      if (!thread->ready && (thread->locks > 0 || (!killed_.contains(thread->node) && !frozen_.contains(thread->node))))
        next = std::min(next, thread->wake_ns);
    if (next == kNever) Stuck("all threads wait for ever");
    now_ = std::max(now_, next);
  }
}

void Scheduler::Switch() {
  Thread* const me = self_;
  now_ += kTickNs;
  if (++switches_ > kMostSwitches) Stuck("the run does not end");
  Thread* const next = Choose();
  trace_ = (trace_ ^ static_cast<uint64_t>(next->id) ^ now_) * 0x9E3779B97F4A7C15u;
  if (next == me) return;
  sem_post(&next->baton);
  if (!me->done) TakeBaton(me);
}

void Scheduler::TakeBaton(Thread* me) {
  while (sem_wait(&me->baton) != 0) {
  }
  if (leaving_ == nullptr) return;
  Thread* const left = std::exchange(leaving_, nullptr);
  RealJoin(left->handle, nullptr);
  left->gone = true;
}

void Scheduler::Yield() { Switch(); }
void Scheduler::MaybeYield() {
  if (yield_chance_ > 0 && Chance(yield_chance_)) Switch();
}

bool Scheduler::Wait(const void* key, uint64_t until) {
  Thread* const me = self_;
  me->ready = me->woken_by_time = false;
  me->waits_for = key;
  me->wake_ns = until;
  Switch();
  me->waits_for = nullptr;
  me->wake_ns = kNever;
  return !me->woken_by_time;
}

void Scheduler::Wake(const void* key, bool all) {
  std::vector<Thread*> waiting;
  for (Thread* thread : living_)
    if (!thread->ready && thread->waits_for == key) waiting.push_back(thread);
  if (waiting.empty()) return;
  if (!all) waiting = {waiting[waiting.size() == 1 ? 0 : Draw(waiting.size())]};
  for (Thread* thread : waiting) thread->ready = true;
}

std::string Scheduler::Describe() const {
  std::string out;
  for (const Thread* thread : living_) {
    char line[160];
    std::snprintf(
        line, sizeof line, "  thread %d of node %d: %s%s%s, %d locks, wakes in %.3f s\n", thread->id, thread->node,
        thread->ready ? "ready" : "waits", frozen_.contains(thread->node) ? ", frozen" : "",
        killed_.contains(thread->node) ? ", killed" : "", thread->locks,
        thread->wake_ns == kNever ? -1.0 : static_cast<double>(static_cast<int64_t>(thread->wake_ns - now_)) * 1e-9);
    out += line;
  }
  return out;
}

void Scheduler::Stuck(const std::string& why) {
  if (on_stuck) on_stuck(why + "\n" + Describe());
  std::fprintf(stderr, "simulation: %s\n%s", why.c_str(), Describe().c_str());
  std::abort();
}

// ---- Threads ----

void* Scheduler::Begin(void* given) {
  Thread* const thread = static_cast<Thread*>(given);
  self_ = thread;
  active_->TakeBaton(thread);
  thread->result = thread->body(thread->argument);
  Scheduler& scheduler = *active_;
  thread->done = true;
  thread->ready = false;
  thread->wake_ns = kNever;
  std::erase(scheduler.living_, thread);
  scheduler.Wake(thread);
  scheduler.leaving_ = thread;
  scheduler.Switch();
  self_ = nullptr;
  return thread->result;
}

int Scheduler::Create(pthread_t* out, const pthread_attr_t* attributes, void* (*body)(void*), void* argument) {
  Thread* const thread = NewThread(self_->node);
  thread->body = body;
  thread->argument = argument;
  const int failed = RealCreate(&thread->handle, attributes, &Begin, thread);
  if (failed != 0) {
    std::erase(living_, thread);
    return failed;
  }
  *out = HandleOf(thread);
  MaybeYield();
  return 0;
}

int Scheduler::Join(pthread_t handle, void** out_result) {
  auto* const thread = reinterpret_cast<Thread*>(handle);
  while (!thread->gone) {
    if (thread->done) Switch();
    else Wait(thread);
  }
  if (out_result != nullptr) *out_result = thread->result;
  return 0;
}

// ---- Locks ----

void Scheduler::Lock(void* mutex, bool recursive) {
  MaybeYield();
  while (!TryLock(mutex, recursive)) {
    if (mutexes_[mutex].owner == self_) Stuck("a thread locks a mutex that it holds");
    Wait(mutex);
  }
}

bool Scheduler::TryLock(void* mutex, bool recursive) {
  const auto [at, free] = mutexes_.try_emplace(mutex, MutexState{self_, 1});
  if (free) {
    ++self_->locks;
    return true;
  }
  if (!recursive || at->second.owner != self_) return false;
  ++at->second.depth;
  return true;
}

void Scheduler::Unlock(void* mutex) {
  const auto at = mutexes_.find(mutex);
  if (at == mutexes_.end()) return;  // locked before the simulation began
  if (--at->second.depth > 0) return;
  --at->second.owner->locks;
  mutexes_.erase(at);
  Wake(mutex);
  MaybeYield();
}

bool Scheduler::WaitCondition(void* condition, void* mutex, uint64_t until) {
  const auto at = mutexes_.find(mutex);
  const int depth = at->second.depth;
  self_->locks--;
  mutexes_.erase(at);
  Wake(mutex);
  const bool woken = Wait(condition, until);
  while (!TryLock(mutex, false)) Wait(mutex);
  mutexes_[mutex].depth = depth;
  return woken;
}

void Scheduler::LockShared(void* lock) {
  MaybeYield();
  while (shared_[lock].writer != nullptr) Wait(lock);
  ++shared_[lock].readers;
  ++self_->locks;
}

void Scheduler::LockAlone(void* lock) {
  MaybeYield();
  while (shared_[lock].writer != nullptr || shared_[lock].readers > 0) Wait(lock);
  shared_[lock].writer = self_;
  ++self_->locks;
}

void Scheduler::UnlockEither(void* lock) {
  SharedState& state = shared_[lock];
  if (state.writer != nullptr) {
    state.writer = nullptr;
  } else {
    --state.readers;
  }
  --self_->locks;
  if (state.writer == nullptr && state.readers == 0) shared_.erase(lock);
  Wake(lock);
  MaybeYield();
}

void Scheduler::Once(pthread_once_t* control, void (*routine)()) {
  constexpr pthread_once_t kDone = 2;  // glibc's own mark
  while (*control != kDone) {
    if (!once_running_.insert(control).second) {
      Wait(control);
      continue;
    }
    routine();
    *control = kDone;
    once_running_.erase(control);
    Wake(control);
  }
}

}  // namespace tenon::simulation
