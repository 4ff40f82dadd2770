// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/train/lbfgs/line_search.h"

#include <algorithm>
#include <cmath>

namespace tenon::train {
namespace {

using Found = Result<std::optional<LinePoint>>;

// The minimum of the cubic with the ends' values and slopes, kept off the ends by a tenth of what is between them; the
// middle where there is none.
double Between(const LinePoint& a, const LinePoint& b) {
  const double middle = (a.step + b.step) / 2, low = std::min(a.step, b.step), high = std::max(a.step, b.step),
               margin = (high - low) / 10;
  if (!std::isfinite(a.value) || !std::isfinite(b.value)) return middle;
  const double d1 = a.slope + b.slope - 3 * (a.value - b.value) / (a.step - b.step);
  const double root = d1 * d1 - a.slope * b.slope;
  if (!(root >= 0)) return middle;
  const double d2 = std::copysign(std::sqrt(root), b.step - a.step);
  const double at = b.step - (b.step - a.step) * (b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2);
  return std::isfinite(at) ? std::clamp(at, low + margin, high - margin) : middle;
}

class Search {
 public:
  Search(const LineSearch& options, const LinePoint& start) : options_(options), start_(start) {}

  // Algorithm 3.5.
  Found Bracket(double step) {
    LinePoint before = start_;
    for (bool first = true; Left(); first = false, step *= 2) {
      TENON_TRY_ASSIGN(const LinePoint point, Evaluate(step));
      if (!Decreases(point) || (!first && point.value >= before.value)) return Zoom(before, point);
      if (IsFlat(point)) return std::optional(point);
      if (point.slope >= 0) return Zoom(point, before);
      before = point;
    }
    return Best(before);
  }

 private:
  bool Left() const { return evaluations_ < options_.max_evaluations; }
  Result<LinePoint> Evaluate(double step) {
    ++evaluations_;
    return options_.evaluate(step);
  }
  bool Decreases(const LinePoint& point) const {
    return point.value <= start_.value + options_.c1 * point.step * start_.slope;
  }
  bool IsFlat(const LinePoint& point) const { return std::abs(point.slope) <= -options_.c2 * start_.slope; }
  // Of what is left: it decreases enough, unless it is where the search began.
  Found Best(const LinePoint& low) const {
    return low.step > 0 && low.value < start_.value ? std::optional(low) : std::nullopt;
  }

  // Algorithm 3.6. low: the lowest point with sufficient decrease so far, which falls towards high.
  Found Zoom(LinePoint low, LinePoint high) {
    while (Left() && std::abs(high.step - low.step) > 1e-12 * std::max(high.step, low.step)) {
      TENON_TRY_ASSIGN(const LinePoint point, Evaluate(Between(low, high)));
      if (!Decreases(point) || point.value >= low.value) {
        high = point;
        continue;
      }
      if (IsFlat(point)) return std::optional(point);
      if (point.slope * (high.step - low.step) >= 0) high = low;
      low = point;
    }
    return Best(low);
  }

  const LineSearch& options_;
  const LinePoint start_;
  int64_t evaluations_ = 0;
};

}  // namespace

Result<std::optional<LinePoint>> LineSearch::Find(const LinePoint& start, double first_step) const {
  return Search(*this, start).Bracket(first_step);
}

}  // namespace tenon::train
