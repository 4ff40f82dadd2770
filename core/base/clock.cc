// SPDX-License-Identifier: Apache-2.0
#include "core/base/clock.h"

#include <atomic>
#include <ctime>

namespace tenon {
namespace {

uint64_t RealClock() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

std::atomic<ClockFunction> g_clock{&RealClock};

}  // namespace

uint64_t NowNs() { return g_clock.load(std::memory_order_relaxed)(); }
void SetClock(ClockFunction clock) { g_clock.store(clock != nullptr ? clock : &RealClock); }

}  // namespace tenon
