// SPDX-License-Identifier: Apache-2.0
// Stands before the C library's functions for threads, locks, time and random numbers. On a simulated thread they are
// the scheduler's; on others they are what they were.
//
// A program's own definition goes before a shared library's, for all libraries that are in the process. Locks are the
// scheduler's alone: a simulated thread never touches what the C library keeps in them.
#include "tests/simulation/intercept.h"

#include <dlfcn.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <ctime>

#include "tests/simulation/scheduler.h"

using tenon::simulation::kNever;
using tenon::simulation::Scheduler;

namespace {

constexpr uint64_t kWallClockAhead = 1'600'000'000'000'000'000;

template <typename Function>
Function* Real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}
#define REAL(name)                                       \
  ([]() -> decltype(&name) {                             \
    static decltype(&name) const function = Real<decltype(name)>(#name); \
    return function;                                     \
  }())

uint64_t Nanoseconds(const timespec& time) {
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(time.tv_nsec);
}
bool IsRecursive(const pthread_mutex_t* mutex) { return (mutex->__data.__kind & 3) == PTHREAD_MUTEX_RECURSIVE; }

uint64_t Until(clockid_t clock, const timespec& time) {
  const uint64_t ns = Nanoseconds(time);
  return clock == CLOCK_REALTIME ? (ns < kWallClockAhead ? 0 : ns - kWallClockAhead) : ns;
}

}  // namespace

namespace tenon::simulation {

int RealCreate(pthread_t* out, const pthread_attr_t* attributes, void* (*body)(void*), void* argument) {
  return REAL(pthread_create)(out, attributes, body, argument);
}
int RealJoin(pthread_t thread, void** out_result) { return REAL(pthread_join)(thread, out_result); }

}  // namespace tenon::simulation

// Seen by all libraries of the process.
#pragma GCC visibility push(default)
extern "C" {

// ---- Threads ----

int pthread_create(pthread_t* out, const pthread_attr_t* attributes, void* (*body)(void*), void* argument) {
  Scheduler* const here = Scheduler::Here();
  return here == nullptr ? REAL(pthread_create)(out, attributes, body, argument)
                         : here->Create(out, attributes, body, argument);
}
int pthread_join(pthread_t thread, void** out_result) {
  Scheduler* const here = Scheduler::Here();
  return here == nullptr ? REAL(pthread_join)(thread, out_result) : here->Join(thread, out_result);
}
pthread_t pthread_self() noexcept {
  return Scheduler::Here() == nullptr ? REAL(pthread_self)() : Scheduler::HandleOf(Scheduler::Self());
}
// It is joined all the same, by the scheduler.
int pthread_detach(pthread_t thread) noexcept {
  return Scheduler::Here() == nullptr ? REAL(pthread_detach)(thread) : 0;
}
int pthread_once(pthread_once_t* control, void (*routine)()) {
  Scheduler* const here = Scheduler::Here();
  if (here == nullptr) return REAL(pthread_once)(control, routine);
  here->Once(control, routine);
  return 0;
}
int sched_yield() noexcept {
  Scheduler* const here = Scheduler::Here();
  if (here == nullptr) return REAL(sched_yield)();
  here->Yield();
  return 0;
}

// ---- Locks ----

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  Scheduler* const here = Scheduler::Here();
  if (here == nullptr) return REAL(pthread_mutex_lock)(mutex);
  here->Lock(mutex, IsRecursive(mutex));
  return 0;
}
int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  Scheduler* const here = Scheduler::Here();
  if (here == nullptr) return REAL(pthread_mutex_trylock)(mutex);
  return here->TryLock(mutex, IsRecursive(mutex)) ? 0 : EBUSY;
}
int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  Scheduler* const here = Scheduler::Here();
  if (here == nullptr) return REAL(pthread_mutex_unlock)(mutex);
  here->Unlock(mutex);
  return 0;
}
int pthread_rwlock_rdlock(pthread_rwlock_t* lock) noexcept {
  Scheduler* const here = Scheduler::Here();
  if (here == nullptr) return REAL(pthread_rwlock_rdlock)(lock);
  here->LockShared(lock);
  return 0;
}
int pthread_rwlock_wrlock(pthread_rwlock_t* lock) noexcept {
  Scheduler* const here = Scheduler::Here();
  if (here == nullptr) return REAL(pthread_rwlock_wrlock)(lock);
  here->LockAlone(lock);
  return 0;
}
int pthread_rwlock_unlock(pthread_rwlock_t* lock) noexcept {
  Scheduler* const here = Scheduler::Here();
  if (here == nullptr) return REAL(pthread_rwlock_unlock)(lock);
  here->UnlockEither(lock);
  return 0;
}

// ---- Conditions ----

int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  Scheduler* const here = Scheduler::Here();
  if (here == nullptr) return REAL(pthread_cond_wait)(condition, mutex);
  here->WaitCondition(condition, mutex, kNever);
  return 0;
}
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  Scheduler* const here = Scheduler::Here();
  if (here == nullptr) return REAL(pthread_cond_clockwait)(condition, mutex, clock, until);
  return here->WaitCondition(condition, mutex, Until(clock, *until)) ? 0 : ETIMEDOUT;
}
int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* until) {
  Scheduler* const here = Scheduler::Here();
  if (here == nullptr) return REAL(pthread_cond_timedwait)(condition, mutex, until);
  return here->WaitCondition(condition, mutex, Until(CLOCK_REALTIME, *until)) ? 0 : ETIMEDOUT;
}
int pthread_cond_signal(pthread_cond_t* condition) noexcept {
  Scheduler* const here = Scheduler::Here();
  if (here == nullptr) return REAL(pthread_cond_signal)(condition);
  here->Wake(condition, /*all=*/false);
  here->MaybeYield();
  return 0;
}
int pthread_cond_broadcast(pthread_cond_t* condition) noexcept {
  Scheduler* const here = Scheduler::Here();
  if (here == nullptr) return REAL(pthread_cond_broadcast)(condition);
  here->Wake(condition);
  here->MaybeYield();
  return 0;
}

// What std::atomic's wait and the guards of static variables use.
long syscall(long number, ...) noexcept {
  va_list list;
  va_start(list, number);
  long words[6];
  for (long& word : words) word = va_arg(list, long);
  va_end(list);
  Scheduler* const here = Scheduler::Here();
  const long operation = words[1] & 127;
  if (here == nullptr || number != SYS_futex)
    return REAL(syscall)(number, words[0], words[1], words[2], words[3], words[4], words[5]);
  auto* const word = reinterpret_cast<int*>(words[0]);
  if (operation == FUTEX_WAKE) {
    here->Wake(word);
    return 1;
  }
  if (operation != FUTEX_WAIT && operation != FUTEX_WAIT_BITSET)
    return REAL(syscall)(number, words[0], words[1], words[2], words[3], words[4], words[5]);
  if (*word != static_cast<int>(words[2])) {
    errno = EAGAIN;
    return -1;
  }
  uint64_t until = kNever;
  if (words[3] != 0)
    until = (operation == FUTEX_WAIT ? here->now() : 0) + Nanoseconds(*reinterpret_cast<const timespec*>(words[3]));
  if (here->Wait(word, until)) return 0;
  errno = ETIMEDOUT;
  return -1;
}

// ---- Time ----

int clock_gettime(clockid_t clock, timespec* out) noexcept {
  Scheduler* const here = Scheduler::Here();
  if (here == nullptr || (clock != CLOCK_MONOTONIC && clock != CLOCK_REALTIME && clock != CLOCK_THREAD_CPUTIME_ID))
    return REAL(clock_gettime)(clock, out);
  const uint64_t now = here->now() + (clock == CLOCK_REALTIME ? kWallClockAhead : 0);
  out->tv_sec = static_cast<time_t>(now / 1'000'000'000u);
  out->tv_nsec = static_cast<long>(now % 1'000'000'000u);
  return 0;
}
int nanosleep(const timespec* time, timespec* left) {
  Scheduler* const here = Scheduler::Here();
  if (here == nullptr) return REAL(nanosleep)(time, left);
  here->Sleep(Nanoseconds(*time));
  return 0;
}
int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* left) {
  Scheduler* const here = Scheduler::Here();
  if (here == nullptr) return REAL(clock_nanosleep)(clock, flags, time, left);
  here->SleepUntil((flags & TIMER_ABSTIME) != 0 ? Until(clock, *time) : here->now() + Nanoseconds(*time));
  return 0;
}
int usleep(useconds_t microseconds) {
  Scheduler* const here = Scheduler::Here();
  if (here == nullptr) return REAL(usleep)(microseconds);
  here->Sleep(uint64_t{microseconds} * 1000);
  return 0;
}

// ---- Random numbers ----

// std::random_device's; declared by its symbol, because the class does not give it away.
unsigned int tenon_simulation_random(void* device) __asm__("_ZNSt13random_device9_M_getvalEv");
unsigned int tenon_simulation_random(void* device) {
  if (Scheduler* const here = Scheduler::Here(); here != nullptr) return static_cast<unsigned int>(here->random()());
  static auto* const real = Real<unsigned int(void*)>("_ZNSt13random_device9_M_getvalEv");
  return real(device);
}

}  // extern "C"
#pragma GCC visibility pop
