// SPDX-License-Identifier: Apache-2.0
// A line search with the strong Wolfe conditions: Nocedal and Wright, Numerical Optimization, 2nd ed., algorithms 3.5
// and 3.6.
//
// Of a function f of the step that falls at 0, it looks for a step a with
//   f(a) <= f(0) + c1 a f'(0)   (sufficient decrease)   and   |f'(a)| <= c2 |f'(0)|   (curvature)
// The first half tries longer steps until an interval must hold such a step; the second takes it apart, at the minimum
// of the cubic through both ends (their formula 3.59) where that lies well inside, else in the middle.
#ifndef TENON_SDK_TRAIN_LBFGS_LINE_SEARCH_H_
#define TENON_SDK_TRAIN_LBFGS_LINE_SEARCH_H_

#include <cstdint>
#include <functional>
#include <optional>

#include "tenon/train/base.h"

namespace tenon::train {

struct LinePoint {
  double step;
  double value;  // may be infinity: the step is too long
  double slope;  // of no account where the value is infinity
};

struct LineSearch {
  double c1 = 1e-4, c2 = 0.9;
  int64_t max_evaluations = 20;
  std::function<Result<LinePoint>(double step)> evaluate;

  // start: at step 0, with a negative slope. Where no step that was tried has both, one with sufficient decrease; else
  // none. A failure of evaluate ends it.
  Result<std::optional<LinePoint>> Find(const LinePoint& start, double first_step) const;
};

}  // namespace tenon::train

#endif  // TENON_SDK_TRAIN_LBFGS_LINE_SEARCH_H_
