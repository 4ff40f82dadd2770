// SPDX-License-Identifier: Apache-2.0
#include "sdk/cli/timeline/text_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "sdk/cli/timeline/trace_spans.h"

namespace tenon::cli {
namespace {

// How much of each character's time is busy: ' ' nothing, '.', '-', '=', '#' all of it; '~' where it waits.
std::string Draw(const std::vector<const TraceSpan*>& spans, double begin, double end, int width) {
  std::vector<double> busy(static_cast<size_t>(width), 0), waits(busy);
  const double step = (end - begin) / width;
  for (const TraceSpan* span : spans) {
    const TraceSpan& bar = *span;
    const int first = std::clamp(static_cast<int>((bar.begin - begin) / step), 0, width - 1);
    const int last = std::clamp(static_cast<int>((bar.end - begin) / step), 0, width - 1);
    for (int i = first; i <= last; ++i) {
      const double from = std::max(bar.begin, begin + i * step), to = std::min(bar.end, begin + (i + 1) * step);
      (bar.kind == "wait" ? waits : busy)[static_cast<size_t>(i)] += std::max(0.0, to - from) / step;
    }
  }
  std::string line;
  for (size_t i = 0; i < busy.size(); ++i) {
    if (busy[i] <= 0)
      line += waits[i] >= 0.5 ? '~' : ' ';
    else
      line += ".-=#"[std::min(3, static_cast<int>(busy[i] * 4))];
  }
  return line;
}

std::string FormatMicroseconds(double time) {
  return time >= 1000 ? fmt::format("{:.2f} ms", time / 1000) : fmt::format("{:.1f} us", time);
}

}  // namespace

host::Result<std::string> FormatTimeline(std::string_view trace, int width) {
  TENON_TRY_ASSIGN(const std::vector<TraceClock> clocks, ReadTrace(trace));
  width = std::max(width, 20);
  size_t widest = 4;
  for (const TraceClock& clock : clocks)
    for (const TraceSpan& span : clock.spans) widest = std::max(widest, span.row.size());
  std::string out;
  for (const TraceClock& clock : clocks) {
    std::map<std::string, std::vector<const TraceSpan*>> rows;
    for (const TraceSpan& span : clock.spans) rows[span.row].push_back(&span);
    if (!rows.empty()) out += fmt::format("{}, {}:\n", clock.name, FormatMicroseconds(clock.end - clock.begin));
    for (const auto& [row, spans] : rows)
      out += fmt::format("  {:{}} |{}| {}\n", row, widest,
                         Draw(spans, clock.begin, std::max(clock.end, clock.begin + 1e-3), width), spans.size());
  }
  return out + "  busy: . - = # of the time; ~ waiting; on the right the number of spans\n";
}

}  // namespace tenon::cli
