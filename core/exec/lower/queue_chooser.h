// SPDX-License-Identifier: Apache-2.0
// QueueChooser: which of a device's compute queues an operation goes to, as a program is built.
//
// Operations come in the order of their submission. Each goes where it could begin first, by a simulation of the queues with
// the ops' own costs; a queue that must wait for another pays for that. So a chain stays on one queue, and independent
// chains go to several.
#ifndef TENON_CORE_EXEC_LOWER_QUEUE_CHOOSER_H_
#define TENON_CORE_EXEC_LOWER_QUEUE_CHOOSER_H_

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "core/exec/device/environment.h"

namespace tenon::exec {

class QueueChooser {
 public:
  explicit QueueChooser(const Environment& env) : free_(env.queues.size(), 0) {}

  // The queue among [first, first + count) for work that reads these values.
  int32_t Choose(int32_t first, int32_t count, const std::vector<int32_t>& values) const {
    int32_t best = first;
    for (int32_t queue = first + 1; queue < first + count; ++queue)
      if (Begin(queue, values) < Begin(best, values)) best = queue;
    return best;
  }
  // Work that takes so long goes to the queue and makes these values.
  void Submit(int32_t queue, double seconds, const std::vector<int32_t>& reads, const std::vector<int32_t>& makes) {
    double& free = free_[queue];
    free = Begin(queue, reads) + seconds;
    for (int32_t value : makes) made_[value] = {free, queue};
  }

 private:
  static constexpr double kCrossingSeconds = 2e-6;
  struct Made {
    double seconds;
    int32_t queue;
  };
  double Begin(int32_t queue, const std::vector<int32_t>& values) const {
    double begin = free_[queue];
    for (int32_t value : values)
      if (const auto it = made_.find(value); it != made_.end())
        begin = std::max(begin, it->second.seconds + (it->second.queue == queue ? 0 : kCrossingSeconds));
    return begin;
  }
  std::vector<double> free_;               // by queue: when its work ends
  std::unordered_map<int32_t, Made> made_;  // by value
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_LOWER_QUEUE_CHOOSER_H_
