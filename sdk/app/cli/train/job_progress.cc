// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/train/job_progress.h"

#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "sdk/app/cli/line/printable.h"

namespace tenon::cli {

JobProgress::JobProgress(bool quiet, std::vector<std::string> metrics)
    : quiet_(quiet), bar_(stdout, std::move(metrics)) {}

void JobProgress::Say(const std::string& message) {
  if (!quiet_) bar_.Say(Printable(message));
  else if (message.starts_with("warning"))
    std::fprintf(stderr, "%s\n", Printable(message).c_str());
}

void JobProgress::Watch(train::Trainer& trainer) {
  trainer.on_message = [this](const std::string& message) { Say(message); };
  if (!quiet_) trainer.on_step = [this](const train::StepReport& report) { bar_.Show(report); };
}

std::string CompleteText(int64_t step, int64_t steps) {
  return fmt::format("Training is complete (step {} of {}). --restart trains anew; more --steps train on.", step,
                     steps);
}

host::Status StoppedEarly(const train::TrainingReport& report, int64_t steps) {
  if (!report.stopped || report.last_step == steps) return host::Status();
  return host::Status(host::Code::kCancelled,
                      fmt::format("stopped after step {}; the same command goes on from there", report.last_step));
}

}  // namespace tenon::cli
