// SPDX-License-Identifier: Apache-2.0
// What a step's trace says, read as the JSON that it is: spans, with the names of their rows.
#ifndef TENON_TESTS_FAKES_TRACE_EVENTS_H_
#define TENON_TESTS_FAKES_TRACE_EVENTS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tenon::fakes {

struct TraceSpan {
  std::string process;  // "host", a device, a task, a device with "its own clock"
  std::string line;     // a queue, a thread; "" where it has no name
  std::string name, category, detail;
  double begin = 0, end = 0;  // microseconds
  int64_t thread = 0;
};

// A failure for what is no trace, lacks a field, or has a row without a name.
inline std::vector<TraceSpan> TraceSpans(const std::string& text) {
  std::vector<TraceSpan> spans;
  try {
    const auto json = nlohmann::json::parse(text);
    std::map<int64_t, std::string> processes;
    std::map<std::pair<int64_t, int64_t>, std::string> lines;
    for (const auto& event : json.at("traceEvents")) {
      if (event.at("ph") != "M") continue;
      const int64_t process = event.at("pid");
      const bool added =
          event.at("name") == "process_name"
              ? processes.emplace(process, event.at("args").at("name")).second
              : lines.emplace(std::pair(process, int64_t{event.at("tid")}), event.at("args").at("name")).second;
      EXPECT_TRUE(added) << "named twice: " << event;
    }
    for (const auto& event : json.at("traceEvents")) {
      if (event.at("ph") == "M") continue;
      EXPECT_EQ(event.at("ph"), "X") << event;
      TraceSpan& span = spans.emplace_back();
      const int64_t process = event.at("pid");
      span.thread = event.at("tid");
      EXPECT_TRUE(processes.empty() ? process == 1 : processes.contains(process)) << event;
      span.process = processes.empty() ? "host" : processes[process];
      const auto line = lines.find({process, span.thread});
      EXPECT_TRUE(line != lines.end() || span.process == "host") << event;
      if (line != lines.end()) span.line = line->second;
      span.name = event.at("name");
      span.category = event.at("cat");
      if (event.contains("args")) span.detail = event.at("args").at("detail");
      span.begin = event.at("ts");
      span.end = span.begin + double{event.at("dur")};
      EXPECT_GE(span.end, span.begin) << event;
    }
  } catch (const nlohmann::json::exception& error) {
    ADD_FAILURE() << error.what() << " in " << text;
  }
  return spans;
}

inline std::set<std::string> TracedCategories(const std::string& text) {
  std::set<std::string> categories;
  for (const TraceSpan& span : TraceSpans(text)) categories.insert(span.category);
  return categories;
}

}  // namespace tenon::fakes

#endif  // TENON_TESTS_FAKES_TRACE_EVENTS_H_
