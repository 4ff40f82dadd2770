// SPDX-License-Identifier: Apache-2.0
// Receive scheduling: when each value that crosses should set out, so that it is there in time and no sooner.
//
// A step is a list of tasks in the order in which they are started, each on a lane (a device), which runs its own one
// after the other. A crossing brings a value to a lane over a link, which carries one at a time. Earliest times come
// from a walk forwards in which every crossing sets out as soon as its value is there; latest times from a walk
// backwards that keeps the length of the step. Then every crossing is put off until it would just arrive for its first
// reader, in reverse order of need on each link. It is issued with the task that its lane runs at that moment, because
// that is what an executor can do; the step is simulated again so, and where it came out longer, crossings set out
// earlier again.
//
// Pure; near-linear.
#ifndef TENON_CORE_PARTITION_SCHEDULE_RECEIVES_H_
#define TENON_CORE_PARTITION_SCHEDULE_RECEIVES_H_

#include <cstdint>
#include <vector>

namespace tenon::partition {

struct ReceiveProblem {
  struct Task {
    int32_t lane = 0;
    double seconds = 0;
    std::vector<int32_t> after;      // tasks, all earlier in the list
    std::vector<int32_t> crossings;  // whose values it reads
  };
  struct Crossing {
    int32_t producer = -1;  // task; -1: the value is there from the start
    int32_t lane = 0;       // that it goes to
    int32_t link = 0;
    double seconds = 0;
    double bytes = 0;       // of the lane's memory
  };
  std::vector<Task> tasks;
  std::vector<Crossing> crossings;  // each with at least one reader
  int32_t lanes = 0, links = 0;
};

struct ReceiveSchedule {
  // By crossing: the task before which it is issued: after its producer, at the latest its first reader.
  std::vector<int32_t> before;
  // Of the step when everything sets out at once, and as it is issued now.
  double earliest_seconds = 0, seconds = 0;
  // By task, how much later it could start without making the step longer.
  std::vector<double> slack;
  // By lane: the most bytes of crossings there at one time, from their issue to their last reader.
  std::vector<double> earliest_bytes, bytes;
};

ReceiveSchedule ScheduleReceives(const ReceiveProblem& problem);

}  // namespace tenon::partition

#endif  // TENON_CORE_PARTITION_SCHEDULE_RECEIVES_H_
