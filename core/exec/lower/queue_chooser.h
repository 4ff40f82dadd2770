// SPDX-License-Identifier: Apache-2.0
// QueueChooser: which of a device's compute queues an operation goes to, as a program is built.
//
// Operations come in the order of their submission. Each goes where it could begin first, by a simulation of the queues
// with the ops' own costs; a queue that must wait for another pays for that. So a chain stays on one queue, and
// independent chains go to several.
#ifndef TENON_CORE_EXEC_LOWER_QUEUE_CHOOSER_H_
#define TENON_CORE_EXEC_LOWER_QUEUE_CHOOSER_H_

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "core/exec/program/program_code.h"

#include "core/exec/device/environment.h"

namespace tenon::exec {

class QueueChooser {
 public:
  explicit QueueChooser(const Environment& env) : free_(env.queues.size(), 0) {}

  // The queue among [first, first + count) for work that reads these values.
  QueueId Choose(QueueId first, int32_t count, const std::vector<SlotId>& values) const {
    QueueId best = first;
    for (const QueueId queue : IdRange(first, QueueId(first.number() + count)))
      if (Begin(queue, values) < Begin(best, values)) best = queue;
    return best;
  }
  // Work that takes so long goes to the queue and makes these values.
  void Submit(QueueId queue, double seconds, const std::vector<SlotId>& reads, const std::vector<SlotId>& makes) {
    double& free = free_[queue];
    free = Begin(queue, reads) + seconds;
    for (SlotId value : makes) made_[value] = {free, queue};
  }

 private:
  static constexpr double kCrossingSeconds = 2e-6;
  struct Made {
    double seconds;
    QueueId queue;
  };
  double Begin(QueueId queue, const std::vector<SlotId>& values) const {
    double begin = free_[queue];
    for (SlotId value : values)
      if (const auto it = made_.find(value); it != made_.end())
        begin = std::max(begin, it->second.seconds + (it->second.queue == queue ? 0 : kCrossingSeconds));
    return begin;
  }
  IdVector<QueueId, double> free_;         // when its work ends
  std::unordered_map<SlotId, Made> made_;
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_LOWER_QUEUE_CHOOSER_H_
