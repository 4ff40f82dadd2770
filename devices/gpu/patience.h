// SPDX-License-Identifier: Apache-2.0
// Patience: the backoff of a thread of the host that waits for a GPU.
#ifndef TENON_DEVICES_GPU_PATIENCE_H_
#define TENON_DEVICES_GPU_PATIENCE_H_

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "device.h"

namespace tenon::gpu {

// Steps repeat, so that a wait is about as long as the one before. It looks all the time at first, sleeps through most
// of what is to be expected, looks all the time around the end, and after that at intervals that grow with the wait.
class Patience {
 public:
  using Clock = std::chrono::steady_clock;
  Patience(Clock::time_point begin, Clock::duration usual) : begin_(begin), usual_(usual) {}
  bool Spins(Clock::time_point now) const {
    if (now - begin_ < kSpin) return true;
    return now >= WakeUp() && now < std::min(begin_ + usual_ + usual_ / 4, WakeUp() + kLongestSpin);
  }
  Clock::duration Pause(Clock::time_point now) const {
    if (now < WakeUp()) return std::min<Clock::duration>(WakeUp() - now, kBetweenHealthChecks);
    return std::clamp<Clock::duration>((now - begin_) / 32, kShortest, kLongest);
  }

 private:
  static constexpr std::chrono::microseconds kSpin{50}, kShortest{5}, kLongest{1000}, kLongestSpin{500};
  // Sleeping takes a little longer than it is told.
  Clock::time_point WakeUp() const { return begin_ + usual_ - usual_ / 8; }
  const Clock::time_point begin_;
  const Clock::duration usual_;
};

// Until settle(overslept) gives an outcome, which it is asked for at once, when is_due() says so, at the deadline and
// in between. Now and then it asks after the GPU's health. usual: how long such a wait takes; 0: not known. overslept:
// it was due while this slept, who knows since when.
template <class IsDue, class Settle>
Outcome WaitFor(Device& device, std::chrono::nanoseconds usual, Patience::Clock::time_point deadline,
                const IsDue& is_due, const Settle& settle) {
  using Clock = Patience::Clock;
  Clock::time_point now = Clock::now(), checked = now;
  const Patience patience(now, usual);
  bool slept = false;
  while (true) {
    if (std::optional<Outcome> outcome = settle(slept)) return *std::move(outcome);
    slept = false;
    now = Clock::now();
    while (!is_due() && patience.Spins(now) && now < deadline) now = Clock::now();
    if (is_due() || now >= deadline) continue;
    slept = true;
    std::this_thread::sleep_for(std::min<Clock::duration>(patience.Pause(now), deadline - now));
    if (now - checked > kBetweenHealthChecks) {
      device.CheckHealth();
      checked = now;
    }
  }
}

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_PATIENCE_H_
