// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/timeline/svg_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sdk/app/cli/line/printable.h"
#include "sdk/app/cli/table.h"
#include "sdk/app/cli/timeline/trace_spans.h"

namespace tenon::cli {
namespace {

// Pixels.
constexpr double kLeft = 20, kWidth = 1160, kTop = 60, kRow = 64, kBar = 28, kThinnest = 0.1, kLegendBox = 12,
                 kLegendCell = 290, kLegendLine = 20;
constexpr double kCharacter = 8;
constexpr size_t kLegendAcross = 4, kMostLegend = 20;

std::string Escape(std::string_view text) {
  std::string out;
  for (char c : Printable(text)) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else
      out += c;
  }
  return out;
}

// The same for an op in every picture.
std::string Colour(std::string_view kind) {
  uint32_t hash = 2166136261;
  for (char c : kind) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619;
  return fmt::format("hsl({},60%,70%)", hash % 360);
}

std::string Label(double x, double y, std::string_view text) {
  return fmt::format("<text x=\"{:.2f}\" y=\"{:.2f}\">{}</text>\n", x, y, Escape(text));
}

class Drawing {
 public:
  explicit Drawing(const Timeline& timeline)
      : timeline_(timeline), scale_(timeline.seconds > 0 ? kWidth / timeline.seconds : 0) {}

  std::string Draw() {
    std::string bars, lines, names;
    for (const TimelineBar& bar : timeline_.bars) bars += Bar(bar);
    for (const TimelineTransfer& transfer : timeline_.transfers) lines += Line(transfer);
    for (size_t i = 0; i < timeline_.rows.size(); ++i) names += Label(kLeft, Y(i) - 5, timeline_.rows[i]);
    const double bottom = kTop + kRow * static_cast<double>(timeline_.rows.size());
    const std::string legend = Legend(bottom + kLegendLine);
    const std::string title =
        timeline_.title + (left_out_ > 0 ? fmt::format("; {} are too short to be seen", left_out_) : "");
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.2f}\" height=\"{:.2f}\" "
               "font-family=\"sans-serif\" font-size=\"12\">\n"
               "<style>.t{{stroke:#c33;stroke-width:1;opacity:.6}}.g{{stroke:#ddd}}</style>\n<rect width=\"100%\" "
               "height=\"100%\" fill=\"#fff\"/>\n",
               kWidth + 2 * kLeft, bottom + kLegendLine * (2 + static_cast<double>(legend_lines_))) +
           Label(kLeft, 20, title) + Axis(bottom) + names + lines + bars + legend + "</svg>\n";
  }

 private:
  double X(double seconds) const { return kLeft + seconds * scale_; }
  static double Y(size_t row) { return kTop + kRow * static_cast<double>(row) + 20; }

  std::string Axis(double bottom) const {
    constexpr int kTicks = 8;
    std::string out;
    for (int i = 0; i <= kTicks; ++i) {
      const double at = timeline_.seconds * i / kTicks;
      out += fmt::format("<line class=\"g\" x1=\"{0:.2f}\" x2=\"{0:.2f}\" y1=\"44\" y2=\"{1:.2f}\"/>\n", X(at), bottom);
      if (i < kTicks) out += Label(X(at), 40, SecondsText(at));
    }
    return out;
  }

  std::string Bar(const TimelineBar& bar) {
    const double width = (bar.end - bar.begin) * scale_;
    left_out_ += width < kThinnest;
    if (width < kThinnest) return "";
    seconds_of_[bar.kind] += bar.end - bar.begin;
    const std::string name = width > kCharacter * static_cast<double>(bar.name.size())
                                 ? Label(X(bar.begin) + 3, Y(bar.row) + 18, bar.name)
                                 : "";
    return fmt::format(
        "<g><rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\" stroke=\"#555\" "
        "stroke-width=\".3\"/>"
        "<title>{} ({}): {} + {}</title>{}</g>\n",
        X(bar.begin), Y(bar.row), width, kBar, Colour(bar.kind), Escape(bar.name), Escape(bar.kind),
        SecondsText(bar.begin), SecondsText(bar.end - bar.begin), name);
  }

  std::string Line(const TimelineTransfer& transfer) const {
    const bool down = transfer.from < transfer.to;
    return fmt::format(
        "<line class=\"t\" x1=\"{:.2f}\" y1=\"{:.2f}\" x2=\"{:.2f}\" y2=\"{:.2f}\"><title>{}</title></line>\n",
        X(transfer.begin), Y(transfer.from) + (down ? kBar : 0), X(transfer.end), Y(transfer.to) + (down ? 0 : kBar),
        Escape(transfer.name));
  }

  // The ops that take longest, in their colours.
  std::string Legend(double top) {
    std::vector<std::pair<std::string, double>> kinds(seconds_of_.begin(), seconds_of_.end());
    std::stable_sort(kinds.begin(), kinds.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    kinds.resize(std::min(kinds.size(), kMostLegend));
    std::string out;
    for (size_t i = 0; i < kinds.size(); ++i) {
      const double x = kLeft + kLegendCell * static_cast<double>(i % kLegendAcross),
                   y = top + kLegendLine * static_cast<double>(i / kLegendAcross);
      out += fmt::format("<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>\n", x, y, kLegendBox,
                         kLegendBox, Colour(kinds[i].first));
      out += Label(x + kLegendBox + 6, y + kLegendBox - 2, kinds[i].first + "  " + SecondsText(kinds[i].second));
    }
    legend_lines_ = (kinds.size() + kLegendAcross - 1) / kLegendAcross;
    return out;
  }

  const Timeline& timeline_;
  const double scale_;
  int64_t left_out_ = 0;
  size_t legend_lines_ = 0;
  std::map<std::string, double> seconds_of_;
};

size_t RowOf(Timeline& timeline, const std::string& name) {
  const auto found = std::find(timeline.rows.begin(), timeline.rows.end(), name);
  if (found == timeline.rows.end()) timeline.rows.push_back(name);
  return static_cast<size_t>(std::find(timeline.rows.begin(), timeline.rows.end(), name) - timeline.rows.begin());
}

}  // namespace

std::string DrawTimeline(const Timeline& timeline) { return Drawing(timeline).Draw(); }

Timeline PredictedTimeline(const Json& placement) {
  Timeline timeline;
  timeline.seconds = placement.value("seconds", 0.0);
  timeline.title =
      fmt::format("predicted step: {}, {} transfers of {}", SecondsText(timeline.seconds),
                  placement.value("transfers", int64_t{0}), FormatBytes(placement.value("transfer_bytes", 0.0)));
  for (const Json& device : placement["devices"]) timeline.rows.push_back(device.value("name", ""));
  for (const Json& node : placement["nodes"]) {
    if (!node.contains("start")) continue;
    timeline.bars.push_back({RowOf(timeline, node.value("device", "")), node.value("name", ""), node.value("op", ""),
                             node["start"], node["finish"]});
  }
  for (const Json& span : placement["transfer_spans"]) {
    const std::string what = fmt::format("{}: {}, {}", span.value("value", ""), FormatBytes(span.value("bytes", 0.0)),
                                         SecondsText(span.value("finish", 0.0) - span.value("start", 0.0)));
    timeline.transfers.push_back({RowOf(timeline, span.value("from", "")), RowOf(timeline, span.value("to", "")), what,
                                  span["start"], span["finish"]});
  }
  return timeline;
}

host::Result<Timeline> MeasuredTimeline(std::string_view trace) {
  constexpr double kMicrosecond = 1e-6;
  TENON_TRY_ASSIGN(const std::vector<TraceClock> clocks, ReadTrace(trace));
  const TraceClock& host = clocks[0];
  Timeline timeline;
  timeline.seconds = (host.end - host.begin) * kMicrosecond;
  timeline.title = "measured step: " + SecondsText(timeline.seconds);
  for (const TraceSpan& span : host.spans)
    timeline.bars.push_back({RowOf(timeline, span.row), span.name, span.kind, (span.begin - host.begin) * kMicrosecond,
                             (span.end - host.begin) * kMicrosecond});
  return timeline;
}

std::string SecondsText(double seconds) {
  if (seconds <= 0) return "0 s";
  if (seconds >= 1) return fmt::format("{:.2f} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.2f} ms", seconds * 1e3);
  if (seconds >= 1e-6) return fmt::format("{:.2f} us", seconds * 1e6);
  return fmt::format("{:.2f} ns", seconds * 1e9);
}

}  // namespace tenon::cli
