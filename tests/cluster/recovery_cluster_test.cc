// SPDX-License-Identifier: Apache-2.0
// A trainer goes on by itself after a task is lost, from its newest checkpoint, with the losses of a run that nothing
// disturbed. Covers J3.
#include <unistd.h>

#include <filesystem>
#include <map>

#include "tenon/train/optimizer.h"
#include "tenon/train/recovery.h"
#include "tests/cluster/local_cluster.h"
#include "tests/cluster/processes.h"

namespace tenon::engine {
namespace {

using train::Model, train::Trainer, train::TrainingOptions, train::TrainingReport, train::TrainingStep;

constexpr int64_t kSteps = 60, kEach = 10;

// A line through points that are a function of the step: the variables at the server, the loss at a worker.
struct Line {
  Line(TrainingOptions options, const std::string& server, const std::string& worker)
      : graph(TheRuntime()), model(graph) {
    model.set_variable_devices({server});
    const Output x = graph.Placeholder("x", DType::kFloat, Shape{8, 4}),
                 y = graph.Placeholder("y", DType::kFloat, Shape{8, 1});
    TrainingStep step;
    {
      const auto on = graph.Device(worker);
      const Output off = graph.Op("Sub", {model.Dense("line", x, 4, 1, {}), y});
      step.loss = graph.Op("Mean", {graph.Op("Square", {off}), graph.Const({0, 1})}, {}, "loss");
    }
    step.update = train::Minimize(model, step.loss, graph.Const(0.05f));
    step.feeds = {x, y};
    step.feed = [this](int64_t number) -> Result<std::vector<View>> {
      for (size_t i = 0; i < xs.size(); ++i)
        xs[i] = static_cast<float>((number * 31 + static_cast<int64_t>(i) * 7) % 13) / 13.0f - 0.5f;
      for (size_t i = 0; i < ys.size(); ++i) ys[i] = xs[4 * i] - 2 * xs[4 * i + 1] + 0.5f;
      return std::vector<View>{View(std::span<const float>(xs), Shape{8, 4}),
                               View(std::span<const float>(ys), Shape{8, 1})};
    };
    options.steps = kSteps;
    options.checkpoint_steps = kEach;
    trainer.emplace(model, std::move(step), options);
    trainer->on_step = [this](const train::StepReport& report) {
      losses[report.step].push_back(report.loss);
      if (after_step) after_step(report.step);
    };
    trainer->on_message = [this](const std::string& message) { said += message + "\n"; };
  }
  Graph graph;
  Model model;
  std::vector<float> xs = std::vector<float>(32), ys = std::vector<float>(8);
  std::optional<Trainer> trainer;
  std::function<void(int64_t)> after_step;
  std::map<int64_t, std::vector<float>> losses;  // of each step, as often as it was done
  std::string said;
};

class RecoveryCluster : public testing::TestWithParam<const char*> {
 protected:
  RecoveryCluster() { std::filesystem::create_directories(folder_); }
  ~RecoveryCluster() override { std::filesystem::remove_all(folder_); }
  const std::string folder_ = testing::TempDir() + "/tenon_recovery_" + GetParam() + std::to_string(getpid());
};
INSTANTIATE_TEST_SUITE_P(Over, RecoveryCluster, testing::ValuesIn(BuiltTransports()),
                         [](const auto& info) { return std::string(info.param); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RecoveryCluster);

TEST_P(RecoveryCluster, GoesOnFromTheNewestCheckpoint) {
  Processes tasks(GetParam(), {{"ps", 1}, {"worker", 1}}, {"--threads=1", "--files=" + folder_});
  ASSERT_TRUE(tasks.ok());
  SessionOptions session;
  session.master = tasks.address(0);
  const std::string server = "/job:ps/task:0", worker = "/job:worker/task:0";
  TrainingOptions options;
  options.checkpoint_folder = folder_ + "/calm";
  Line calm(options, server, worker);
  const auto undisturbed = train::TrainThroughLosses(*calm.trainer, TheRuntime(), session);
  ASSERT_TRUE(undisturbed.ok()) << undisturbed.status();
  options.checkpoint_folder = folder_ + "/disturbed";
  options.recover = std::chrono::seconds(60);
  Line line(options, server, worker);
  std::map<int64_t, size_t> victims = {{25, 0},
                                       {37, 1}};  // after which step, whom: where the variables are, and another
  line.after_step = [&](int64_t step) {
    const auto victim = victims.find(step);
    if (victim == victims.end()) return;
    tasks.Kill(victim->second);
    EXPECT_TRUE(tasks.Start(victim->second));
    victims.erase(victim);
  };
  const auto report = train::TrainThroughLosses(*line.trainer, TheRuntime(), session);
  ASSERT_TRUE(report.ok()) << report.status() << line.said;
  EXPECT_EQ(report->last_step, kSteps);
  EXPECT_EQ(line.losses.at(22).size(), 2u) << "it goes on from step 20";
  EXPECT_EQ(line.losses.at(20).size(), 1u);
  EXPECT_EQ(line.losses.at(35).size(), 2u);
  EXPECT_EQ(line.losses.at(30).size(), 1u);
  for (const auto& [step, losses] : line.losses)
    for (const float loss : losses) EXPECT_EQ(loss, calm.losses.at(step)[0]) << "step " << step;
  EXPECT_NE(line.said.find("trying again from the last checkpoint, for 60 s"), std::string::npos) << line.said;
}

TEST_P(RecoveryCluster, EndsWithTheLossWhereNobodyComesBackOrItIsNotAskedFor) {
  Processes tasks(GetParam(), {{"ps", 1}, {"worker", 1}}, {"--threads=1", "--files=" + folder_});
  ASSERT_TRUE(tasks.ok());
  SessionOptions session;
  session.master = tasks.address(0);
  session.silence_timeout = std::chrono::seconds(1);
  for (const bool recovers : {false, true}) {
    TrainingOptions options;
    options.checkpoint_folder = folder_ + "/" + std::to_string(recovers);
    if (recovers) options.recover = std::chrono::milliseconds(500);
    Line line(options, "/job:ps/task:0", "/job:worker/task:0");
    line.after_step = [&](int64_t step) {
      if (step == 15) tasks.Kill(1);
    };
    const auto report = train::TrainThroughLosses(*line.trainer, TheRuntime(), session);
    EXPECT_TRUE(train::IsLoss(report.status())) << report.status();
    EXPECT_EQ(line.said.find("trying again") != std::string::npos, recovers) << line.said;
    ASSERT_TRUE(tasks.Start(1));
  }
  TrainingOptions without;
  without.recover = std::chrono::seconds(1);
  Line line(without, "/job:ps/task:0", "/job:worker/task:0");
  const auto refused = train::TrainThroughLosses(*line.trainer, TheRuntime(), session);
  EXPECT_EQ(refused.status().code(), Code::kInvalidArgument) << refused.status();
  EXPECT_NE(refused.status().message().find("checkpoint_folder"), std::string::npos) << refused.status();
}

}  // namespace
}  // namespace tenon::engine
