// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/cluster/task_lines.h"

#include <fmt/format.h>

namespace tenon::cli {
namespace {

constexpr double kMegabyte = 1e6;
constexpr double kNewsSeconds =
    0.1;  // tasks say something new at most that often; what is heard in between is the same again

}  // namespace

// What was heard once is a count; what lies between two such is a rate.
std::string TaskLines::Task::Rates() const {
  if (!has_rates) return fmt::format("{} steps so far", said.steps);
  return fmt::format("{:.0f} steps/s  in {:.1f} MB/s  out {:.1f} MB/s", steps, in / kMegabyte, out / kMegabyte);
}

void TaskLines::Take(const tenon_task_state& state, double now, Task* task) {
  const double heard = now - static_cast<double>(state.silent_ns) / 1e9;
  const double since = heard - task->heard;
  if (task->heard >= 0 && since < kNewsSeconds) return;
  // One that has been started again counts from zero.
  const bool goes_on = task->heard >= 0 && state.steps >= task->said.steps && state.bytes_sent >= task->said.bytes_sent;
  const auto rate = [&](uint64_t tenon_task_state::*member) {
    return goes_on ? static_cast<double>(state.*member - task->said.*member) / since : 0.0;
  };
  task->has_rates = goes_on;
  task->steps = rate(&tenon_task_state::steps);
  task->in = rate(&tenon_task_state::bytes_received);
  task->out = rate(&tenon_task_state::bytes_sent);
  task->said = state;
  task->heard = heard;
}

std::vector<std::string> TaskLines::Make(const std::vector<tenon_task_state>& tasks, double now) {
  tasks_.resize(tasks.size());
  std::vector<std::string> lines;
  for (size_t i = 0; i < tasks.size(); ++i) {
    Task& task = tasks_[i];
    Take(tasks[i], now, &task);
    std::string name(host::Text(tasks[i].name));
    if (const size_t replica = name.find("/replica:0"); replica != std::string::npos) name.erase(replica, 10);
    lines.push_back(fmt::format("  {}  {}  {:.1f} MB held  heard {:.1f} s ago", name, task.Rates(),
                                static_cast<double>(task.said.bytes_in_use) / kMegabyte, now - task.heard));
  }
  return lines;
}

}  // namespace tenon::cli
