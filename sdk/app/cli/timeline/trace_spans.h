// SPDX-License-Identifier: Apache-2.0
// The spans of a step's trace (Chrome's JSON), by the rows in which they are drawn.
#ifndef TENON_CLI_TIMELINE_TRACE_SPANS_H_
#define TENON_CLI_TIMELINE_TRACE_SPANS_H_

#include <string>
#include <string_view>
#include <vector>

#include "tenon/tenon.h"

namespace tenon::cli {

struct TraceSpan {
  std::string row;            // "host worker 1", "TPU:0 queue 0"
  std::string name;           // a node, or what ran
  std::string kind;           // its op, "copy", "wait"
  double begin = 0, end = 0;  // microseconds of the clock
};

// Rows that share a clock, and the time that they take of it.
struct TraceClock {
  std::string name;  // "by the host's clock", "TPU:0 by its own clock"
  std::vector<TraceSpan> spans;
  double begin = 0, end = 0;
};

// The host's clock first, with the rows of all devices; then each device's own. INVALID_ARGUMENT: it is no trace.
host::Result<std::vector<TraceClock>> ReadTrace(std::string_view trace);

}  // namespace tenon::cli

#endif  // TENON_CLI_TIMELINE_TRACE_SPANS_H_
