// SPDX-License-Identifier: Apache-2.0
// TaskLines: a line for each task of a cluster, of what it does just now, made of what it says twice a second.
#ifndef TENON_CLI_CLUSTER_TASK_LINES_H_
#define TENON_CLI_CLUSTER_TASK_LINES_H_

#include <string>
#include <vector>

#include "tenon/tenon.h"

namespace tenon::cli {

class TaskLines {
 public:
  // now: seconds of any clock. One after the other, of one cluster, whose sessions may change:
  // "  /job:ps/task:0  120 steps/s  in 1.5 MB/s  out 12.0 MB/s  8.1 MB held  heard 0.3 s ago"; before there is a rate
  // "7 steps so far".
  std::vector<std::string> Make(const std::vector<tenon_task_state>& tasks, double now);

 private:
  struct Task {
    tenon_task_state said = {};
    double heard = -1;  // when; -1: never
    double steps = 0, in = 0, out = 0;  // a second
    bool has_rates = false;             // it was heard twice since it began
    std::string Rates() const;
  };
  static void Take(const tenon_task_state& state, double now, Task* task);
  std::vector<Task> tasks_;
};

}  // namespace tenon::cli

#endif  // TENON_CLI_CLUSTER_TASK_LINES_H_
