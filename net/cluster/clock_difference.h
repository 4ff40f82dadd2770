// SPDX-License-Identifier: Apache-2.0
// How far a task's clock is ahead of this one, by a call and its answer.
#ifndef TENON_NET_CLUSTER_CLOCK_DIFFERENCE_H_
#define TENON_NET_CLUSTER_CLOCK_DIFFERENCE_H_

#include <cstdint>

namespace tenon::cluster {

// By this clock the call went at `called_ns` and the answer was there at `now_ns`; by the task's the call came at
// `came_ns` and the answer went at `answered_ns`. The ways there and back bound how far the clocks are apart: what is
// said is off by half of what one takes longer than the other. 0 where they may be one clock.
inline int64_t ClockAheadNs(uint64_t called_ns, uint64_t came_ns, uint64_t answered_ns, uint64_t now_ns) {
  if (called_ns <= came_ns && came_ns <= answered_ns && answered_ns <= now_ns) return 0;
  const auto middle = [](uint64_t a, uint64_t b) { return static_cast<int64_t>(a + b) / 2; };
  return middle(came_ns, answered_ns) - middle(called_ns, now_ns);
}

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_CLOCK_DIFFERENCE_H_
