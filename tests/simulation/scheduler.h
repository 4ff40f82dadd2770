// SPDX-License-Identifier: Apache-2.0
// Scheduler: runs the threads of a whole cluster one at a time, in an order and on a clock that one seed decides.
//
// Idea: everything that is simulated is the real code with its real threads. Where a thread locks, waits, sleeps,
// starts or joins, it comes here (intercept.cc stands before the C library's functions), and the scheduler decides who
// goes on. A thread that is not at such a place runs alone, so a run is a sequence of choices, and the same seed makes
// the same ones. Time stands still while a thread runs, and leaps to the next deadline when all threads wait. A thread
// belongs to a node (a process of the cluster), as the thread that made it did. A frozen node's threads do not run, a
// killed one's never again; but who holds a lock runs until it holds none, because nodes share this process's own (its
// pools, its log). Rules. One simulation at a time; a process that has killed nodes keeps their memory, so let each be
// a process of its own.
#ifndef TENON_TESTS_SIMULATION_SCHEDULER_H_
#define TENON_TESTS_SIMULATION_SCHEDULER_H_

#include <pthread.h>
#include <semaphore.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace tenon::simulation {

inline constexpr uint64_t kNever = UINT64_MAX;
inline constexpr uint64_t kMillisecond = 1'000'000, kSecond = 1'000'000'000;

struct Thread {
  int id = 0, node = 0;
  bool ready = true, done = false, gone = false;  // gone: its real thread has ended too
  const void* waits_for = nullptr;  // a mutex, condition, thread, ...
  uint64_t wake_ns = kNever;
  bool woken_by_time = false;
  int locks = 0;
  sem_t baton;
  pthread_t handle{};
  void* (*body)(void*) = nullptr;
  void* argument = nullptr;
  void* result = nullptr;
};

class Scheduler {
 public:
  // Runs `main` as the first thread, of node 0, on the thread that calls this.
  static void Run(uint64_t seed, const std::function<void()>& main);
  // The one that runs this thread; nullptr: it is not simulated.
  static Scheduler* Here() { return self_ == nullptr ? nullptr : active_; }
  static Thread* Self() { return self_; }

  uint64_t now() const { return now_; }
  // All choices that are not threads' own: network, faults.
  std::mt19937_64& random() { return random_; }
  uint64_t Draw(uint64_t below) { return below == 0 ? 0 : random_() % below; }
  bool Chance(double chance) { return static_cast<double>(random_() >> 11) * 0x1.0p-53 < chance; }

  void SleepUntil(uint64_t when) { Wait(&sleepers_, when); }
  void Sleep(uint64_t ns) { SleepUntil(now_ + ns); }
  // Waits to be woken for this key. False: until the time came.
  bool Wait(const void* key, uint64_t until = kNever);
  void Wake(const void* key, bool all = true);
  // Lets another go on, maybe.
  void Yield();
  // As Yield, as often as the seed has chosen: between threads' locks.
  void MaybeYield();

  // Threads that this thread makes belong to this node.
  int SetNode(int node);
  void Freeze(int node) { frozen_.insert(node); }
  void Thaw(int node) { frozen_.erase(node); }
  bool IsFrozen(int node) const { return frozen_.contains(node); }
  // Its threads never run again, but to give back locks.
  void Kill(int node);

  // ---- What intercept.cc asks ----
  int Create(pthread_t* out, const pthread_attr_t* attributes, void* (*body)(void*), void* argument);
  int Join(pthread_t thread, void** out_result);
  // What simulated threads know each other by; the C library gives its own again when a thread has ended.
  static pthread_t HandleOf(Thread* thread) { return reinterpret_cast<pthread_t>(thread); }
  void Lock(void* mutex, bool recursive);
  bool TryLock(void* mutex, bool recursive);
  void Unlock(void* mutex);
  bool WaitCondition(void* condition, void* mutex, uint64_t until);
  void LockShared(void* lock);
  void LockAlone(void* lock);
  void UnlockEither(void* lock);
  void Once(pthread_once_t* control, void (*routine)());

  // A number of all choices so far: equal runs have equal ones.
  uint64_t trace() const { return trace_; }
  uint64_t switches() const { return switches_; }
  // What happens when all threads wait for ever, or a run does not end. Prints who waits; ends the process.
  std::function<void(const std::string& why)> on_stuck;
  std::string Describe() const;

 private:
  struct MutexState {
    Thread* owner;
    int depth;
  };
  struct SharedState {
    Thread* writer = nullptr;
    int readers = 0;
  };
  explicit Scheduler(uint64_t seed);
  static void* Begin(void* thread);
  Thread* NewThread(int node);
  // Gives the baton to whoever is chosen; returns when this thread is.
  void Switch();
  // Waits for the baton, and for the end of the thread that gave it, if that was its last act: two never run at a time.
  void TakeBaton(Thread* me);
  Thread* Choose();
  bool MayRun(const Thread& thread) const;
  void WakeSleepers();
  [[noreturn]] void Stuck(const std::string& why);

  static thread_local Thread* self_;
  static Scheduler* active_;

  std::mt19937_64 random_;
  uint64_t now_ = kSecond, switches_ = 0, trace_ = 0;
  double yield_chance_ = 0;
  std::deque<std::unique_ptr<Thread>> threads_;
  std::vector<Thread*> living_;
  std::unordered_map<const void*, MutexState> mutexes_;
  std::unordered_map<const void*, SharedState> shared_;
  std::set<const void*> once_running_;
  std::set<int> frozen_, killed_;
  Thread* leaving_ = nullptr;
  char sleepers_ = 0;
};

}  // namespace tenon::simulation

#endif  // TENON_TESTS_SIMULATION_SCHEDULER_H_
