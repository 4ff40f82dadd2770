// SPDX-License-Identifier: Apache-2.0
// The steps of `tenon run --repeat`, and how long each took; the first interrupt ends them after the step that runs.
#ifndef TENON_CLI_RUN_REPEAT_H_
#define TENON_CLI_RUN_REPEAT_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tenon/tenon.h"

namespace tenon::cli {

class Repeat {
 public:
  explicit Repeat(uint64_t steps) : steps_(steps) {}

  // step(is_last) is one of them. On a terminal, stderr shows how far they are. An error says in which step.
  host::Status Run(const std::function<host::Status(bool is_last)>& step);

  bool interrupted() const { return times_.size() < steps_; }
  uint64_t done() const { return times_.size(); }
  uint64_t steps() const { return steps_; }
  // Microseconds; of done() > 0.
  std::pair<double, double> LeastAndMedian() const;
  // "step: min 1.0 us, median 1.2 us, 50 steps"
  std::string Text() const;

 private:
  uint64_t steps_;
  std::vector<double> times_;  // microseconds
};

}  // namespace tenon::cli

#endif  // TENON_CLI_RUN_REPEAT_H_
