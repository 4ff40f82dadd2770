// SPDX-License-Identifier: Apache-2.0
// Time: monotonic nanoseconds, through one function that a simulator may replace.
#ifndef TENON_CORE_BASE_CLOCK_H_
#define TENON_CORE_BASE_CLOCK_H_

#include <cstdint>

namespace tenon {

using ClockFunction = uint64_t (*)();

// Monotonic nanoseconds.
uint64_t NowNs();
// Of the processor, that this thread has taken.
uint64_t ThreadCpuNs();
// Replaces the clock; nullptr brings the real one back. Not while steps run.
void SetClock(ClockFunction clock);

}  // namespace tenon

#endif  // TENON_CORE_BASE_CLOCK_H_
