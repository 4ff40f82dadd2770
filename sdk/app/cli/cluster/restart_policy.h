// SPDX-License-Identifier: Apache-2.0
// RestartPolicy: when a task that has died may be started again, and when that is to be given up.
#ifndef TENON_CLI_CLUSTER_RESTART_POLICY_H_
#define TENON_CLI_CLUSTER_RESTART_POLICY_H_

#include <chrono>
#include <deque>
#include <optional>

namespace tenon::cli {

struct RestartLimits {
  std::chrono::nanoseconds first_pause = std::chrono::milliseconds(100);  // then twice as long each time
  std::chrono::nanoseconds longest_pause = std::chrono::seconds(10);
  std::chrono::nanoseconds window = std::chrono::minutes(5);
  size_t most = 10;  // deaths within the window; one more is too many
};

// Of one task. Time is what the caller says it is, any steady clock's.
class RestartPolicy {
 public:
  explicit RestartPolicy(RestartLimits limits = {}) : limits_(limits) {}

  // It has died: how long to wait before it is started again; nullopt: too often within the window, so not again. A
  // pause is forgotten with the deaths that made it.
  std::optional<std::chrono::nanoseconds> Died(std::chrono::nanoseconds now) {
    while (!deaths_.empty() && now - deaths_.front() > limits_.window) deaths_.pop_front();
    deaths_.push_back(now);
    if (deaths_.size() > limits_.most) return std::nullopt;
    std::chrono::nanoseconds pause = limits_.first_pause;
    for (size_t i = 1; i < deaths_.size() && pause < limits_.longest_pause; ++i) pause *= 2;
    return pause < limits_.longest_pause ? pause : limits_.longest_pause;
  }
  size_t deaths() const { return deaths_.size(); }
  const RestartLimits& limits() const { return limits_; }

 private:
  const RestartLimits limits_;
  std::deque<std::chrono::nanoseconds> deaths_;
};

}  // namespace tenon::cli

#endif  // TENON_CLI_CLUSTER_RESTART_POLICY_H_
