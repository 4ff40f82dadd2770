// SPDX-License-Identifier: Apache-2.0
// Progress of training on a terminal: a bar that redraws itself; where there is no terminal, a line now and then.
//
// Shows step, loss, metrics, examples a second and the time left; and below, where there are any, rows of the caller's.
#ifndef TENON_TRAIN_PROGRESS_H_
#define TENON_TRAIN_PROGRESS_H_

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "tenon/train/trainer.h"

namespace tenon::train {

class Progress {
 public:
  // names: of the metrics of StepReport.
  Progress(std::FILE* out, std::vector<std::string> names);
  // For tests: says itself whether `out` is a terminal.
  Progress(std::FILE* out, std::vector<std::string> names, bool terminal);

  void Show(const StepReport& report);
  // Asked for each time that the line is shown; may be empty.
  std::function<std::vector<std::string>()> rows;
  // A line of its own, above the bar.
  void Say(const std::string& message);
  // Ends the bar's line.
  void Finish();

  // The line for a report, without a bar: "step 10/100  loss 0.5  accuracy 0.9  1,234 examples/s  5 s left".
  std::string Line(const StepReport& report) const;

 private:
  bool Due(const StepReport& report);

  std::FILE* out_;
  std::vector<std::string> names_;
  bool terminal_;
  bool drawn_ = false;
  size_t drawn_rows_ = 0;
  int64_t tenth_ = -1;  // the last tenth of the way that was shown as a line
  double last_drawn_ = 0;
};

}  // namespace tenon::train

#endif  // TENON_TRAIN_PROGRESS_H_
