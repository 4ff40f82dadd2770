// SPDX-License-Identifier: Apache-2.0
// Which checkpoints stay, which variables they hold under which names, and what they say of a step. Covers J5, J8, J9,
// J10.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "tenon/data/file.h"
#include "tests/fakes/counting_model.h"
#include "tests/fakes/trace_events.h"

namespace tenon::train::retention_test {
namespace {

std::vector<int64_t> StepsIn(const std::string& folder) {
  std::vector<int64_t> steps;
  for (const std::string& name : FindCheckpoints(folder)) steps.push_back(StepOfCheckpoint(name));
  return steps;
}

TEST(Retention, KeepsOneInSoManyHoursForEver) {
  const std::string folder = TemporaryFolder();
  double now = 1000000;
  CountingOptions options;
  options.saver.keep = 2;
  options.saver.keep_every_hours = 1;
  options.saver.clock = [&] { return now; };
  {
    Counting counting(folder, options);
    for (int64_t step = 1; step <= 10; ++step, now += 1200) counting.Save(step);
  }
  // The first is of 0:00; 4 is of 1:00, 7 of 2:00. What they are is known to the next run.
  EXPECT_EQ((std::vector<int64_t>{4, 7, 9, 10}), StepsIn(folder));
  Counting again(folder, options);
  again.Restore();
  for (int64_t step = 11; step <= 13; ++step, now += 1200) again.Save(step);
  EXPECT_EQ((std::vector<int64_t>{4, 7, 10, 12, 13}), StepsIn(folder));
}

TEST(Retention, KeepsTheBestByAMetric) {
  for (const bool higher : {false, true}) {
    const std::string folder = TemporaryFolder();
    CountingOptions options;
    options.saver.keep = 1;
    options.saver.keep_best = 2;
    options.saver.higher_is_better = higher;
    const double sign = higher ? -1 : 1;
    {
      Counting counting(folder, options);
      for (const auto& [step, metric] :
           std::vector<std::pair<int64_t, double>>{{1, 3}, {2, 1}, {3, 2}, {4, NAN}, {5, 9}}) {
        counting.Save(step, sign * metric);
      }
    }
    EXPECT_EQ((std::vector<int64_t>{2, 3, 5}), StepsIn(folder)) << "1 was good until 3 came";
    Counting again(folder, options);
    EXPECT_EQ(5, again.Restore().step) << "the newest, not the best";
    again.Save(6, sign * 1.5);
    again.Save(7);
    EXPECT_EQ((std::vector<int64_t>{2, 6, 7}), StepsIn(folder));
    const BestCheckpoints best = *BestCheckpoints::Read(folder);
    ASSERT_EQ(2u, best.list.size());
    EXPECT_EQ("model.ckpt-2", best.list[0].name);
    EXPECT_EQ(sign * 1.5, best.list[1].metric);
    ASSERT_TRUE(again.saver.Clear().ok());
    EXPECT_TRUE(StepsIn(folder).empty());
    EXPECT_TRUE(BestCheckpoints::Read(folder)->list.empty());
  }
}

TEST(Retention, WhatIsKeptForItsHourStaysWhenItIsNoLongerTheBest) {
  const std::string folder = TemporaryFolder();
  double now = 1000000;
  CountingOptions options;
  options.saver.keep = 1;
  options.saver.keep_best = 1;
  options.saver.keep_every_hours = 1;
  options.saver.clock = [&] { return now; };
  Counting counting(folder, options);
  counting.Save(1, 9);
  now += 4000;
  counting.Save(2, 5);
  counting.Save(3, 6);
  counting.Save(4, 1);
  counting.Save(5, 7);
  EXPECT_EQ((std::vector<int64_t>{2, 4, 5}), StepsIn(folder));
}

TEST(BestCheckpoints, RefusesWhatItDidNotWrite) {
  const BestCheckpoints best{{{0.5, "model.ckpt-3", true}, {1.0 / 3, "model.ckpt-4", false}}};
  const Result<BestCheckpoints> read = BestCheckpoints::Parse(best.Format());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(best.Format(), read->Format());
  EXPECT_EQ(1.0 / 3, read->list[1].metric);
  for (const char* bad :
       {"model.ckpt-3 0.5\n", "0.5\n", "nan model.ckpt-3\n", "0.5 model.ckpt-3 perhaps\n", "\n\n", "0.5 a kept b\n"}) {
    EXPECT_EQ(Code::kDataLoss, BestCheckpoints::Parse(bad).status().code()) << bad;
  }
}

TEST(WarmStart, RestoresAPartUnderOtherNames) {
  const std::string folder = TemporaryFolder();
  std::string prefix;
  {
    CountingOptions options;
    options.devices = {"", ""};  // value, value1
    Counting teacher(folder, options);
    teacher.Run(teacher.add);
    teacher.Run(teacher.model.variables()[1].initial);  // value1 is 0 again
    prefix = *teacher.saver.Save(teacher.session, 1);
  }
  Graph graph(SharedRuntime());
  Model model(graph);
  const Variable& mine = model.State("mine", {4}, 5);
  const Variable& other = model.State("other", {4}, 6);
  SaverOptions options;
  options.variables = {{"mine", "value"}};
  const Saver warm(model, "", options);
  const Operation init = model.InitializeAll();
  Session session = NewSession();
  ASSERT_TRUE(session.Extend(graph).ok());
  ASSERT_TRUE(session.RunTargets({init}).ok());
  const Status restored = warm.RestoreFrom(session, prefix);
  ASSERT_TRUE(restored.ok()) << restored;
  const Result<std::vector<Tensor>> values = session.Run({}, {mine.value, other.value});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ(std::vector<float>(4, 1), Floats((*values)[0]));
  EXPECT_EQ(std::vector<float>(4, 6), Floats((*values)[1])) << "it was not asked for";
}

TEST(WarmStart, SavesAPartUnderOtherNamesToo) {
  const std::string folder = TemporaryFolder();
  CountingOptions options;
  options.devices = {"", ""};
  options.saver.variables = {{"value1", "renamed"}};
  Counting counting(folder, options);
  counting.Save(1);
  const std::string index = *data::ReadFile(folder + "/model.ckpt-1.index");
  EXPECT_NE(std::string::npos, index.find("renamed"));
  EXPECT_EQ(std::string::npos, index.find("value"));
}

TEST(WarmStart, NamesTheVariableThatIsNotThere) {
  Graph graph(SharedRuntime());
  Model model(graph);
  model.State("mine", {4}, 5);
  SaverOptions options;
  options.variables = {{"yours", ""}};
  const Saver saver(model, "", options);
  EXPECT_EQ("the model has no variable 'yours' to save or restore", graph.status().message());
}

TEST(Restore, RunsInTheFirstStepAfterARestartOnly) {
  const std::string folder = TemporaryFolder();
  {
    Counting counting(folder);
    counting.Run(counting.add);
    counting.Save(1);
  }
  Counting again(folder);
  EXPECT_EQ(1, again.Restore().step);
  // Whatever would read the checkpoint now would fail.
  ASSERT_TRUE(again.saver.Clear().ok());
  for (int step = 2; step < 5; ++step) {
    std::string trace;
    host::RunOptions traced;
    traced.trace = &trace;
    ASSERT_TRUE(again.session.Run({}, {}, {again.add}, traced).ok());
    const std::set<std::string> ops = fakes::TracedCategories(trace);
    EXPECT_TRUE(ops.contains("AssignAddVariableOp")) << trace;
    EXPECT_FALSE(ops.contains("RestoreV2")) << trace;
    EXPECT_EQ(step, again.Step());
  }
}

TEST(Consistency, ACheckpointDuringAsynchronousUpdatesHoldsWholeVariablesOfPerhapsDifferentSteps) {
  // A worker's step updates one variable, then the other; a checkpoint may fall between.
  const std::string folder = TemporaryFolder();
  CountingOptions options;
  options.devices = {"", ""};
  options.saver.keep = 1000;
  Counting counting(folder, options);
  Graph& graph = counting.graph;
  std::vector<Operation> halves;
  for (const Variable& variable : counting.model.variables()) {
    const Output ones = graph.Const(std::vector<float>(4, 1), {4});
    halves.push_back(graph.AddNode("AssignAddVariableOp", {variable.handle, ones}, {{"dtype", variable.dtype}}));
  }
  ASSERT_TRUE(counting.session.Extend(graph).ok());
  counting.Run(halves[0]);
  counting.Save(0);
  counting.Run(halves[1]);
  {
    Counting mixed(folder, options);
    mixed.Restore();
    EXPECT_EQ((std::vector<float>{1, 1, 1, 1, 0, 0, 0, 0}), mixed.Value());
  }
  std::atomic<bool> stop{false};
  std::thread worker([&] {
    while (!stop) {
      for (const Operation& half : halves) counting.Run(half);
    }
  });
  for (int64_t step = 1; step <= 20; ++step) counting.Save(step);
  stop = true;
  worker.join();
  for (int64_t step = 1; step <= 20; ++step) {
    Counting saved(folder, options);
    ASSERT_TRUE(saved.saver.RestoreFrom(saved.session, folder + "/" + CheckpointName(step)).ok());
    const std::vector<float> all = saved.Value();
    for (size_t i = 1; i < 8; ++i) {
      EXPECT_TRUE(i == 4 || all[i] == all[i - 1]) << "a variable is one of its values, never two";
    }
  }
}

TEST(Consistency, ACheckpointAfterTheSynchronousUpdateHoldsOneStepOfAllVariables) {
  const std::string folder = TemporaryFolder();
  CountingOptions options;
  options.devices = {"", "", ""};
  options.saver.keep = 100;
  options.global_step = true;
  Counting counting(folder, options);
  for (int64_t step = 1; step <= 20; ++step) {
    counting.Run(counting.add);
    counting.Save(step);
  }
  for (int64_t step = 20; step >= 1; --step) {
    Counting saved(folder, options);
    ASSERT_TRUE(saved.saver.RestoreFrom(saved.session, folder + "/" + CheckpointName(step)).ok());
    EXPECT_EQ(step, saved.Step());
  }
}

}  // namespace
}  // namespace tenon::train::retention_test
