// SPDX-License-Identifier: Apache-2.0
// A time line as a picture: a row for each device or thread, a bar for each node, a line for each transfer, and which
// colour is which op. What was predicted and what was measured are drawn alike.
#ifndef TENON_CLI_TIMELINE_SVG_TIMELINE_H_
#define TENON_CLI_TIMELINE_SVG_TIMELINE_H_

#include <string>
#include <string_view>
#include <vector>

#include "sdk/app/cli/json.h"
#include "tenon/tenon.h"

namespace tenon::cli {

struct TimelineBar {
  size_t row = 0;
  std::string name, kind;
  double begin = 0, end = 0;  // seconds
};

struct TimelineTransfer {
  size_t from = 0, to = 0;  // rows
  std::string name;
  double begin = 0, end = 0;  // seconds
};

struct Timeline {
  std::string title;
  double seconds = 0;  // that it is long
  std::vector<std::string> rows;
  std::vector<TimelineBar> bars;
  std::vector<TimelineTransfer> transfers;
};

std::string DrawTimeline(const Timeline& timeline);

// Of `tenon place --json`, and of a trace by the host's clock.
Timeline PredictedTimeline(const Json& placement);
host::Result<Timeline> MeasuredTimeline(std::string_view trace);

// "12.30 us".
std::string SecondsText(double seconds);

}  // namespace tenon::cli

#endif  // TENON_CLI_TIMELINE_SVG_TIMELINE_H_
