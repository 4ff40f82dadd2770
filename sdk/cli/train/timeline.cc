// SPDX-License-Identifier: Apache-2.0
#include "sdk/cli/train/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

#include "sdk/cli/json.h"

namespace tenon::cli {
namespace {

struct Bar {
  double begin = 0, end = 0;
  bool waits = false;
};

// The rows that share a clock.
struct Clock {
  std::string name;
  std::map<std::string, std::vector<Bar>> rows;
  double begin = std::numeric_limits<double>::infinity(), end = 0;
};

// How much of each character's time is busy: ' ' nothing, '.', '-', '=', '#' all of it; '~' where it waits.
std::string Draw(const std::vector<Bar>& bars, double begin, double end, int width) {
  std::vector<double> busy(static_cast<size_t>(width), 0), waits(busy);
  const double step = (end - begin) / width;
  for (const Bar& bar : bars) {
    const int first = std::clamp(static_cast<int>((bar.begin - begin) / step), 0, width - 1);
    const int last = std::clamp(static_cast<int>((bar.end - begin) / step), 0, width - 1);
    for (int i = first; i <= last; ++i) {
      const double from = std::max(bar.begin, begin + i * step), to = std::min(bar.end, begin + (i + 1) * step);
      (bar.waits ? waits : busy)[static_cast<size_t>(i)] += std::max(0.0, to - from) / step;
    }
  }
  std::string line;
  for (size_t i = 0; i < busy.size(); ++i) {
    if (busy[i] <= 0) line += waits[i] >= 0.5 ? '~' : ' ';
    else line += ".-=#"[std::min(3, static_cast<int>(busy[i] * 4))];
  }
  return line;
}

std::string FormatMicroseconds(double time) {
  return time >= 1000 ? fmt::format("{:.2f} ms", time / 1000) : fmt::format("{:.1f} us", time);
}

}  // namespace

host::Result<std::string> FormatTimeline(std::string_view trace, int width) {
  const Json json = Json::parse(trace, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.contains("traceEvents"))
    return host::Status(host::Code::kInvalidArgument, "the trace is no JSON with traceEvents");
  width = std::max(width, 20);
  std::map<int64_t, std::string> processes;
  std::map<std::pair<int64_t, int64_t>, std::string> threads;
  for (const Json& event : json["traceEvents"]) {
    if (event.value("ph", "") != "M") continue;
    const std::string name = event["args"].value("name", "");
    if (event.value("name", "") == "process_name") processes[event.value("pid", int64_t{0})] = name;
    else threads[{event.value("pid", int64_t{0}), event.value("tid", int64_t{0})}] = name;
  }
  // The host's clock first, with the rows of all devices; then each device's own.
  constexpr std::string_view kOwn = ", its own clock";
  std::vector<Clock> clocks = {{"by the host's clock", {}, std::numeric_limits<double>::infinity(), 0}};
  for (const Json& event : json["traceEvents"]) {
    if (event.value("ph", "") != "X") continue;
    const int64_t process = event.value("pid", int64_t{0}), thread = event.value("tid", int64_t{0});
    const std::string group = processes.contains(process) ? processes[process] : "host";
    const bool own = group.ends_with(kOwn);
    const std::string title = own ? group.substr(0, group.size() - kOwn.size()) + " by its own clock" : clocks[0].name;
    auto clock = std::find_if(clocks.begin(), clocks.end(), [&](const Clock& other) { return other.name == title; });
    if (clock == clocks.end()) clock = clocks.insert(clocks.end(), {title, {}, std::numeric_limits<double>::infinity(), 0});
    const std::string line = threads.contains({process, thread}) ? threads[{process, thread}] : "";
    const std::string row = own ? line : line.empty() ? group : group + " " + line;
    const double begin = event.value("ts", 0.0), end = begin + event.value("dur", 0.0);
    clock->rows[row].push_back({begin, end, event.value("cat", "") == "wait"});
    clock->begin = std::min(clock->begin, begin);
    clock->end = std::max(clock->end, end);
  }
  size_t widest = 4;
  for (const Clock& clock : clocks)
    for (const auto& [row, bars] : clock.rows) widest = std::max(widest, row.size());
  std::string out;
  for (const Clock& clock : clocks) {
    if (clock.rows.empty()) continue;
    out += fmt::format("{}, {}:\n", clock.name, FormatMicroseconds(clock.end - clock.begin));
    for (const auto& [row, bars] : clock.rows)
      out += fmt::format("  {:{}} |{}| {}\n", row, widest, Draw(bars, clock.begin, std::max(clock.end, clock.begin + 1e-3), width), bars.size());
  }
  return out + "  busy: . - = # of the time; ~ waiting; on the right the number of spans\n";
}

}  // namespace tenon::cli
