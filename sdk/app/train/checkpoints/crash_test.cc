// SPDX-License-Identifier: Apache-2.0
// The power goes at every operation of saving: no checkpoint that was written is lost, none is half of another. Covers
// J6, J12.
#include <gtest/gtest.h>

#include "tenon/data/file.h"
#include "tenon/train/trainer.h"
#include "tests/fakes/counting_model.h"
#include "tests/fakes/crash_control.h"
#include "tests/train/losses.h"

namespace tenon::train::crash_test {
namespace {

const tenon_test_crash& Power() {
  static const tenon_test_crash* const control = [] {
    const Status loaded = SharedRuntime().LoadPlugin(TENON_TEST_CRASH_PLUGIN);
    EXPECT_TRUE(loaded.ok()) << loaded;
    return fakes::CrashControl(TENON_TEST_CRASH_PLUGIN);
  }();
  return *control;
}

CountingOptions Options() {
  CountingOptions options;
  options.saver = Keeping(2);
  options.saver.keep_best = 1;
  options.global_step = true;
  return options;
}

// Steps and saves until something fails; the last step that was saved.
int64_t TrainUntilThePowerGoes(const std::string& folder, int64_t steps) {
  Counting counting(folder, Options());
  int64_t saved = 0;
  for (int64_t step = 1; step <= steps; ++step) {
    counting.Run(counting.add);
    if (!counting.saver.Save(counting.session, step, -static_cast<double>(step)).ok()) break;
    saved = step;
  }
  return saved;
}

// All that the folder names can be restored, and is what it says.
void ExpectWholeCheckpoints(const std::string& folder, const std::string& when) {
  const Result<CheckpointState> state = CheckpointState::Read(folder);
  if (!state.ok()) return;  // none was ever named
  for (const std::string& name : state->paths) {
    Counting named("", Options());
    const Status restored = named.saver.RestoreFrom(named.session, data::JoinPath(folder, name));
    EXPECT_TRUE(restored.ok()) << when << ": " << restored;
    EXPECT_EQ(StepOfCheckpoint(name), named.Step()) << when;
  }
}

void CrashAtEachChange(uint32_t lost, const std::string& where) {
  constexpr int64_t kSteps = 4;
  Power().restart(lost);
  EXPECT_EQ(kSteps, TrainUntilThePowerGoes(where + "/calm", kSteps));
  const int64_t changes = Power().changes();
  ASSERT_GT(changes, 40);
  for (int64_t change = 1; change <= changes && !testing::Test::HasFailure(); ++change) {
    const std::string when = "change " + std::to_string(change), folder = where + "/" + std::to_string(change);
    Power().restart(lost);
    Power().crash_at(change);
    const int64_t saved = TrainUntilThePowerGoes(folder, kSteps);
    Power().restart(lost);
    ExpectWholeCheckpoints(folder, when);
    Counting again(folder, Options());
    const Restored restored = again.Restore();
    EXPECT_TRUE(restored.warnings.empty()) << when << ": " << restored.warnings[0];
    // A checkpoint may be whole although its writer did not live to hear of it.
    EXPECT_TRUE(restored.step == saved || restored.step == saved + 1)
        << when << ": " << restored.step << " after " << saved;
    EXPECT_EQ(restored.step, again.Step()) << when;
    again.Run(again.add);
    again.Save(restored.step + 1, 0);
    const std::vector<std::string> files = *data::ListFolder(folder);
    for (const std::string& file : files) EXPECT_EQ(std::string::npos, file.find("tmp")) << when << " left " << file;
  }
}

TEST(Crash, OfTheMachineAtAnyOperationOfSavingLosesNoCheckpoint) { CrashAtEachChange(1, "crash://machine"); }
TEST(Crash, OfTheProcessAtAnyOperationOfSavingLosesNoCheckpoint) { CrashAtEachChange(0, "crash://process"); }

// Trains for so many steps with a checkpoint at every second; what the run said at its end.
Status TrainWithEvents(const std::string& folder, int64_t steps) {
  Graph graph(SharedRuntime());
  Model model(graph, 1);
  TrainingStep step;
  step.loss = AddCountingVariables(model, {""}, 1)[0];
  step.update = AddCountingStep(model);
  TrainingOptions options;
  options.steps = steps;
  options.checkpoint_folder = folder + "/checkpoints";
  options.event_folder = folder + "/events";
  options.event_steps = 1;
  options.checkpoint_steps = 2;
  Trainer trainer(model, step, options);
  Session session = NewSession();
  TENON_TRY(trainer.Begin(session));
  return trainer.Run().status();
}

TEST(Crash, OfTheProcessAtAnyOperationOfTrainingLeavesTheEventsOfEachStepThatACheckpointHas) {
  constexpr int64_t kSteps = 6;
  const std::string where = "crash://events";
  Power().restart(0);
  ASSERT_TRUE(TrainWithEvents(where + "/calm", kSteps).ok());
  const int64_t changes = Power().changes();
  ASSERT_GT(changes, 20);
  int64_t resumed = 0;
  for (int64_t change = 1; change <= changes && !testing::Test::HasFailure(); ++change) {
    const std::string folder = where + "/" + std::to_string(change);
    Power().restart(0);
    Power().crash_at(change);
    (void)TrainWithEvents(folder, kSteps);
    Power().restart(0);
    const Result<CheckpointState> state = CheckpointState::Read(folder + "/checkpoints");
    if (state.ok() && !state->paths.empty()) ++resumed;
    const Status again = TrainWithEvents(folder, kSteps);
    ASSERT_TRUE(again.ok()) << "change " << change << ": " << again;
    EXPECT_EQ(static_cast<size_t>(kSteps), ValuesOfEvents(folder + "/events").size())
        << "after the crash at change " << change;
  }
  EXPECT_GT(resumed, 10);
}

TEST(Crash, RestoringReadsTheFilesOnce) {
  Power().restart(1);
  const std::string folder = "crash://reads";
  EXPECT_EQ(2, TrainUntilThePowerGoes(folder, 2));
  Counting again(folder, Options());
  const int64_t before = Power().reads();
  EXPECT_EQ(2, again.Restore().step);
  const int64_t after = Power().reads();
  EXPECT_GT(after, before);
  for (int i = 0; i < 5; ++i) again.Run(again.add);
  EXPECT_EQ(after, Power().reads()) << "later steps restore nothing";
  EXPECT_EQ(7, again.Step());
}

}  // namespace
}  // namespace tenon::train::crash_test
