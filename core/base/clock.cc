// SPDX-License-Identifier: Apache-2.0
#include "core/base/clock.h"

#include <atomic>
#include <ctime>

namespace tenon {
namespace {

uint64_t Read(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}
uint64_t RealClock() { return Read(CLOCK_MONOTONIC); }

std::atomic<ClockFunction> g_clock{&RealClock};

}  // namespace

uint64_t NowNs() { return g_clock.load(std::memory_order_relaxed)(); }
uint64_t ThreadCpuNs() { return Read(CLOCK_THREAD_CPUTIME_ID); }
void SetClock(ClockFunction clock) { g_clock.store(clock != nullptr ? clock : &RealClock); }

}  // namespace tenon
