// SPDX-License-Identifier: Apache-2.0
// What the jobs of `tenon train` say while they train: progress on standard output; with --json warnings alone, on
// standard error.
#ifndef TENON_CLI_TRAIN_JOB_PROGRESS_H_
#define TENON_CLI_TRAIN_JOB_PROGRESS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tenon/train/progress.h"
#include "tenon/train/trainer.h"

namespace tenon::cli {

class JobProgress {
 public:
  // quiet: with --json. metrics: the names of TrainingStep::metrics.
  JobProgress(bool quiet, std::vector<std::string> metrics);

  train::Progress& bar() { return bar_; }
  // A line of its own.
  void Say(const std::string& message);
  // The trainer's messages and steps are shown as long as this lives.
  void Watch(train::Trainer& trainer);

 private:
  const bool quiet_;
  train::Progress bar_;
};

// What a job says that has nothing left to do.
std::string CompleteText(int64_t step, int64_t steps);
// Ok, or CANCELLED where it was stopped before its last step.
host::Status StoppedEarly(const train::TrainingReport& report, int64_t steps);

}  // namespace tenon::cli

#endif  // TENON_CLI_TRAIN_JOB_PROGRESS_H_
