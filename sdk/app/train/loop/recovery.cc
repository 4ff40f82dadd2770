// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/recovery.h"

#include <filesystem>
#include <thread>

namespace tenon::train {

bool IsLoss(const Status& status) {
  return status.code() == host::Code::kUnavailable || status.code() == host::Code::kAborted ||
         status.code() == host::Code::kDeadlineExceeded;
}

Result<TrainingReport> RunThroughLosses(const Recovery& recovery) {
  using Clock = std::chrono::steady_clock;
  Result<TrainingReport> report = recovery.run();
  const std::string words =
      recovery.words.empty()
          ? std::to_string(std::chrono::duration_cast<std::chrono::seconds>(recovery.patience).count()) + " s"
          : recovery.words;
  const auto stopped = [&] { return recovery.stop != nullptr && recovery.stop->load(); };
  std::string said;  // until something else is wrong, or it went on in between
  // The others need a moment to come back; what lasts longer than the user's patience is the answer.
  for (auto until = Clock::now() + recovery.patience; IsLoss(report.status()) && !stopped() && Clock::now() <= until;) {
    const std::string why = report.status().message();
    if (why != said && recovery.say)
      recovery.say("lost: " + why + "; trying again from the last checkpoint, for " + words);
    said = why;
    const int64_t before = recovery.reached();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    report = recovery.run();
    if (recovery.reached() == before) continue;
    said.clear();
    until = Clock::now() + recovery.patience;
  }
  return report;
}

Result<TrainingReport> TrainThroughLosses(Trainer& trainer, const host::Runtime& runtime,
                                          host::SessionOptions options) {
  const TrainingOptions& training = trainer.options();
  if (training.recover.count() > 0 && training.checkpoint_folder.empty())
    return Status(host::Code::kInvalidArgument,
                  "a training that is to go on after losses (recover) needs a folder for checkpoints "
                  "(checkpoint_folder), from which it goes on");
  if (options.owner.empty() && !training.checkpoint_folder.empty()) {
    const bool is_url = training.checkpoint_folder.find("://") != std::string::npos;
    options.owner =
        "trainer " + (is_url ? training.checkpoint_folder
                             : std::filesystem::absolute(training.checkpoint_folder).lexically_normal().string());
  }
  std::optional<Session> session;
  const auto run = [&]() -> Result<TrainingReport> {
    trainer.Leave();
    session.reset();
    TENON_TRY_ASSIGN(Session made, Session::Create(runtime, options));
    session.emplace(std::move(made));
    TENON_TRY(trainer.Begin(*session));
    return trainer.Run();
  };
  Result<TrainingReport> report = training.recover.count() <= 0
                                      ? run()
                                      : RunThroughLosses({training.recover, "", run, [&] { return trainer.step(); },
                                                          trainer.on_message, training.stop});
  trainer.Leave();
  return report;
}

}  // namespace tenon::train
