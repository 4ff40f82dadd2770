// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "tenon/data/number_text.h"

namespace tenon::train {
namespace {

constexpr int kBarWidth = 24;
constexpr double kRedrawSeconds = 0.05;

double Seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

bool IsEndless(const StepReport& report) { return report.steps == kEndless; }

// Of the way; where it has no known end, a line when the step has one digit more.
int64_t TenthOf(const StepReport& report) {
  if (IsEndless(report)) return static_cast<int64_t>(std::to_string(report.step).size());
  return report.steps > 0 ? report.step * 10 / report.steps : -1;
}

std::string Bar(const StepReport& report) {
  if (IsEndless(report)) return "";
  const double share = report.steps > 0 ? static_cast<double>(report.step) / static_cast<double>(report.steps) : 1;
  const int full = std::clamp(static_cast<int>(share * kBarWidth), 0, kBarWidth);
  return "[" + std::string(static_cast<size_t>(full), '#') + std::string(static_cast<size_t>(kBarWidth - full), '.') +
         "] ";
}

}  // namespace

Progress::Progress(std::FILE* out, std::vector<std::string> names)
    : Progress(out, std::move(names), isatty(fileno(out)) != 0) {}

Progress::Progress(std::FILE* out, std::vector<std::string> names, bool terminal)
    : out_(out), names_(std::move(names)), terminal_(terminal) {}

bool Progress::Due(const StepReport& report) {
  if (report.step == report.steps) return true;
  if (terminal_) return Seconds() - last_drawn_ >= kRedrawSeconds;
  return TenthOf(report) != tenth_;
}

std::string Progress::Line(const StepReport& report) const {
  std::string line = fmt::format("step {}{}  loss {:.4f}", report.step,
                                 IsEndless(report) ? "" : "/" + std::to_string(report.steps), report.loss);
  for (size_t i = 0; i < report.metrics.size() && i < names_.size(); ++i) {
    line += fmt::format("  {} {:.4f}", names_[i], report.metrics[i]);
  }
  if (report.examples_per_second > 0 || report.steps_per_second == 0)
    line += fmt::format("  {} examples/s", data::FormatCount(std::llround(report.examples_per_second)));
  else
    line += fmt::format("  {} steps/s", data::FormatCount(std::llround(report.steps_per_second)));
  if (report.step < report.steps && !IsEndless(report))
    line += fmt::format("  {} left", data::FormatDuration(report.seconds_left));
  return line;
}

void Progress::Show(const StepReport& report) {
  if (!Due(report)) return;
  last_drawn_ = Seconds();
  tenth_ = TenthOf(report);
  const std::vector<std::string> below = rows ? rows() : std::vector<std::string>();
  if (terminal_) {
    fmt::print(out_, "\r\x1b[K{}{}", Bar(report), Line(report));
    for (const std::string& row : below)
      fmt::print(out_, "\n\x1b[K\x1b[?7l{}\x1b[?7h", row);           // cut off at the edge, not wrapped
    if (!below.empty()) fmt::print(out_, "\x1b[{}A", below.size());  // the cursor stays in the bar's line
    drawn_ = true;
    drawn_rows_ = below.size();
  } else {
    fmt::print(out_, "{}\n", Line(report));
    for (const std::string& row : below) fmt::print(out_, "{}\n", row);
  }
  std::fflush(out_);
}

void Progress::Say(const std::string& message) {
  fmt::print(out_, "{}{}\n", drawn_ ? "\r\x1b[J" : "", message);
  std::fflush(out_);
  drawn_ = false;
}

void Progress::Finish() {
  if (drawn_) fmt::print(out_, "{}", std::string(drawn_rows_ + 1, '\n'));
  drawn_ = false;
  std::fflush(out_);
}

}  // namespace tenon::train
