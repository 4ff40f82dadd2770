// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/timeline/text_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "sdk/app/cli/table.h"
#include "sdk/app/cli/timeline/trace_spans.h"

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

host::Result<std::string> FormatTimeline(std::string_view trace, size_t width) {
  constexpr size_t kTime = 100, kLeastTime = 20, kLeastName = 12;
  TENON_TRY_ASSIGN(const std::vector<TraceClock> clocks, ReadTrace(trace));
  size_t widest = 4, most = 1;
  for (const TraceClock& clock : clocks) {
    for (const TraceSpan& span : clock.spans) widest = std::max(widest, span.row.size());
    most = std::max(most, clock.spans.size());
  }
  size_t time = kTime;
  if (width > 0) {
    const size_t others = std::string_view("   || ").size() + std::to_string(most).size();
    widest = std::min(widest, std::max(kLeastName, width / 3));
    time = std::max(kLeastTime, width - std::min(width, others + widest));
  }
  std::string out;
  for (const TraceClock& clock : clocks) {
    std::map<std::string, std::vector<const TraceSpan*>> rows;
    for (const TraceSpan& span : clock.spans) rows[span.row].push_back(&span);
    const std::string took = ", " + FormatMicroseconds(clock.end - clock.begin) + ":\n";
    if (!rows.empty()) out += KeepEnd(clock.name, width > took.size() ? width - took.size() + 1 : kTime) + took;
    for (const auto& [row, spans] : rows)
      out += fmt::format("  {:{}} |{}| {}\n", KeepEnd(row, widest), widest,
                         Draw(spans, clock.begin, std::max(clock.end, clock.begin + 1e-3), static_cast<int>(time)),
                         spans.size());
  }
  return out + "  busy: . - = # of the time; ~ waiting; on the right the number of spans\n";
}

}  // namespace tenon::cli
