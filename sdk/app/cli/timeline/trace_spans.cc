// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/timeline/trace_spans.h"

#include <algorithm>
#include <map>

#include "sdk/app/cli/json.h"

namespace tenon::cli {
namespace {

constexpr std::string_view kOwn = ", its own clock";

class Reader {
 public:
  explicit Reader(const Json& events) : clocks_{{"by the host's clock", {}, 0, 0}} {
    for (const Json& event : events)
      if (event.value("ph", "") == "M") TakeName(event);
    for (const Json& event : events)
      if (event.value("ph", "") == "X") TakeSpan(event);
  }
  std::vector<TraceClock> clocks() && { return std::move(clocks_); }

 private:
  static int64_t Process(const Json& event) { return event.value("pid", int64_t{0}); }
  static int64_t Thread(const Json& event) { return event.value("tid", int64_t{0}); }

  void TakeName(const Json& event) {
    const std::string name = event.value("args", Json::object()).value("name", "");
    if (event.value("name", "") == "process_name")
      processes_[Process(event)] = name;
    else
      threads_[{Process(event), Thread(event)}] = name;
  }

  void TakeSpan(const Json& event) {
    const auto process = processes_.find(Process(event));
    const auto thread = threads_.find({Process(event), Thread(event)});
    const std::string group = process == processes_.end() ? "host" : process->second;
    const std::string line = thread == threads_.end() ? "" : thread->second;
    const bool own = group.ends_with(kOwn);
    TraceSpan span{own            ? line
                   : line.empty() ? group
                                  : group + " " + line,
                   event.value("name", ""), event.value("cat", ""), event.value("ts", 0.0), 0};
    span.end = span.begin + event.value("dur", 0.0);
    Add(own ? ClockOf(group.substr(0, group.size() - kOwn.size()) + " by its own clock") : clocks_[0], std::move(span));
  }

  TraceClock& ClockOf(const std::string& name) {
    const auto found =
        std::find_if(clocks_.begin(), clocks_.end(), [&](const TraceClock& each) { return each.name == name; });
    return found == clocks_.end() ? clocks_.emplace_back(TraceClock{name, {}, 0, 0}) : *found;
  }

  static void Add(TraceClock& clock, TraceSpan span) {
    clock.begin = clock.spans.empty() ? span.begin : std::min(clock.begin, span.begin);
    clock.end = clock.spans.empty() ? span.end : std::max(clock.end, span.end);
    clock.spans.push_back(std::move(span));
  }

  std::vector<TraceClock> clocks_;
  std::map<int64_t, std::string> processes_;
  std::map<std::pair<int64_t, int64_t>, std::string> threads_;
};

}  // namespace

host::Result<std::vector<TraceClock>> ReadTrace(std::string_view trace) {
  const Json json = Json::parse(trace, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("traceEvents"))
    return host::Status(host::Code::kInvalidArgument, "the trace is no JSON with traceEvents");
  return Reader(json["traceEvents"]).clocks();
}

}  // namespace tenon::cli
