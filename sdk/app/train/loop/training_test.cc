// SPDX-License-Identifier: Apache-2.0
// The training library on a real engine with the real plugins. Covers J4, J9, J10, N5, P5, P6, R10.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tenon/data/file.h"
#include "tenon/data/graph_def.h"
#include "tenon/train/digits.h"
#include "tenon/train/model.h"
#include "tenon/train/optimizer.h"
#include "tenon/train/saver.h"
#include "tenon/train/trainer.h"
#include "tests/fakes/counting_model.h"

namespace tenon::train::training_test {
namespace {

// A least-squares fit: loss = mean((x w + b - y)^2), with fixed x and y.
struct Fit {
  explicit Fit(Graph& graph) : model(graph, 3) {
    const std::vector<float> xs = {0, 1, 1, 0, 1, 1, 2, -1}, ys = {1, 2, 3, 0.5f};
    Output x = graph.Const(xs, {4, 2}), y = graph.Const(ys, {4, 1});
    Output product = model.Dense("fit", x, 2, 1, Initializer::TruncatedNormal(0.5f));
    loss = graph.Op("Mean", {graph.Op("SquaredDifference", {product, y}), graph.Const({0, 1})});
  }
  Model model;
  Output loss;
};

// The weights after some steps.
std::vector<float> TrainFit(const OptimizerOptions& options, int steps) {
  Graph graph(SharedRuntime());
  Fit fit(graph);
  Operation update = Minimize(fit.model, fit.loss, graph.Const(0.05f), options);
  Operation init = fit.model.InitializeAll();
  Session session = NewSession();
  Status status = session.Extend(graph);
  EXPECT_TRUE(status.ok()) << status;
  status = session.RunTargets({init});
  EXPECT_TRUE(status.ok()) << status;
  float first = 0, last = 0;
  for (int i = 0; i < steps; ++i) {
    Result<std::vector<Tensor>> values = session.Run({}, {fit.loss}, {update});
    EXPECT_TRUE(values.ok()) << values.status();
    if (!values.ok()) return {};
    (i == 0 ? first : last) = (*values)[0].scalar<float>(NAN);
  }
  EXPECT_LT(last, first);
  Result<std::vector<Tensor>> weights =
      session.Run({}, {fit.model.variables()[0].value, fit.model.variables()[1].value});
  EXPECT_TRUE(weights.ok()) << weights.status();
  if (!weights.ok()) return {};
  std::vector<float> all = Floats((*weights)[0]);
  all.push_back((*weights)[1].scalar<float>());
  return all;
}

class Optimizers : public testing::TestWithParam<const char*> {};

TEST_P(Optimizers, AgreeWhetherFusedOrPrimitive) {
  OptimizerOptions options;
  options.kind = *OptimizerKindFromName(GetParam());
  for (bool nesterov : {false, true}) {
    options.nesterov = nesterov;
    options.fused = true;
    const std::vector<float> fused = TrainFit(options, 30);
    options.fused = false;
    const std::vector<float> primitive = TrainFit(options, 30);
    ASSERT_EQ(3u, fused.size());
    ASSERT_EQ(fused.size(), primitive.size());
    for (size_t i = 0; i < fused.size(); ++i) EXPECT_NEAR(fused[i], primitive[i], 1e-5f * (1 + std::abs(fused[i])));
    if (options.kind != OptimizerOptions::Kind::kMomentum) break;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Optimizers, testing::Values("sgd", "momentum", "adam", "adagrad", "rmsprop"));

TEST(Optimizer, NamesTheOnesThatThereAre) {
  EXPECT_EQ("there is no optimizer 'sdg'; there are sgd, momentum, adam, adagrad, rmsprop and adadelta",
            OptimizerKindFromName("sdg").status().message());
}

TEST(Optimizer, RefusesALossThatDependsOnNoVariable) {
  Graph graph(SharedRuntime());
  Fit fit(graph);
  Minimize(fit.model, graph.Const(1.0f), graph.Const(0.1f));
  EXPECT_EQ(Code::kInvalidArgument, graph.status().code());
  EXPECT_NE(std::string::npos, graph.status().message().find("depends on no trainable variable"));
}

TEST(Model, RefusesTheSameVariableWithAnotherShape) {
  Graph graph(SharedRuntime());
  Model model(graph);
  model.Weight("w", {2}, Initializer::Constant(0));
  model.Weight("w", {3}, Initializer::Constant(0));
  EXPECT_EQ("variable 'w' has shape [2] and is asked for with [3]", graph.status().message());
}

// ---- The digits job ----

const DigitData& Data() {
  static const DigitData* data = [] {
    Result<DigitData> loaded = DigitData::Load(TENON_TEST_SOURCE_DIR "/sdk/app/train/data/digits.npy");
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return new DigitData(*std::move(loaded));
  }();
  return *data;
}

struct DigitRun {
  Status status;
  TrainingReport report;
  std::vector<std::string> messages;
  std::vector<std::vector<float>> weights;
  std::string frozen;
};

DigitRun TrainDigits(const TrainingOptions& training, DigitOptions digits, int64_t stop_after = -1,
                     const std::function<void(const StepReport&)>& on_step = {}) {
  DigitRun run;
  Graph graph(SharedRuntime());
  DigitNetwork network(graph, Data(), digits);
  TrainingOptions options = training;
  std::atomic<bool> stop{false};
  options.stop = &stop;
  Trainer trainer(network.model(), network.Step(), options);
  trainer.on_message = [&](const std::string& message) { run.messages.push_back(message); };
  trainer.on_step = [&](const StepReport& report) {
    EXPECT_TRUE(std::isfinite(report.loss));
    if (on_step) on_step(report);
    if (report.step == stop_after) stop = true;
  };
  host::SessionOptions session_options;
  Session session = NewSession(session_options);
  run.status = trainer.Begin(session);
  if (!run.status.ok()) return run;
  Result<TrainingReport> report = trainer.Run();
  run.status = report.status();
  if (!report.ok()) return run;
  run.report = *report;
  std::vector<Name> names;
  for (const Variable& variable : network.model().variables()) {
    if (variable.dtype == DType::kFloat) names.emplace_back(variable.value);
  }
  Result<std::vector<Tensor>> values = session.Run({}, names);
  EXPECT_TRUE(values.ok()) << values.status();
  for (const Tensor& value : *values) run.weights.push_back(Floats(value));
  Result<std::string> graph_def = graph.Export();
  EXPECT_TRUE(graph_def.ok()) << graph_def.status();
  Result<std::string> frozen = data::Freeze(session, *graph_def, {DigitNetwork::kAnswers});
  EXPECT_TRUE(frozen.ok()) << frozen.status();
  if (frozen.ok()) run.frozen = *frozen;
  return run;
}

DigitOptions FewSteps() {
  DigitOptions digits;
  digits.steps = 40;
  return digits;
}

TEST(Trainer, GoesOnExactlyWhereItStopped) {
  TrainingOptions training;
  training.steps = 40;
  const DigitRun whole = TrainDigits(training, FewSteps());
  ASSERT_TRUE(whole.status.ok()) << whole.status;

  training.checkpoint_folder = TemporaryFolder();
  training.checkpoint_steps = 10;
  const DigitRun half = TrainDigits(training, FewSteps(), 17);
  ASSERT_TRUE(half.status.ok()) << half.status;
  EXPECT_EQ(17, half.report.last_step);
  EXPECT_TRUE(half.report.stopped);
  const DigitRun rest = TrainDigits(training, FewSteps());
  ASSERT_TRUE(rest.status.ok()) << rest.status;
  EXPECT_EQ(17, rest.report.first_step);
  EXPECT_EQ(40, rest.report.last_step);
  EXPECT_EQ(whole.weights, rest.weights);
}

TEST(Trainer, BeginsAnewWhenAskedTo) {
  TrainingOptions training;
  training.steps = 5;
  training.checkpoint_folder = TemporaryFolder();
  DigitOptions digits = FewSteps();
  ASSERT_TRUE(TrainDigits(training, digits).status.ok());
  training.resume = false;
  const DigitRun again = TrainDigits(training, digits);
  ASSERT_TRUE(again.status.ok()) << again.status;
  EXPECT_EQ(0, again.report.first_step);
}

TEST(Trainer, BeginsWithTheWeightsOfAnotherRunWhereThereIsNothingToResume) {
  TrainingOptions training;
  training.steps = 20;
  training.checkpoint_folder = TemporaryFolder();
  const DigitRun first = TrainDigits(training, FewSteps());
  ASSERT_TRUE(first.status.ok()) << first.status;
  training.warm_start = first.report.checkpoint;
  training.checkpoint_folder = TemporaryFolder();
  training.steps = 0;
  const DigitRun warm = TrainDigits(training, FewSteps());
  ASSERT_TRUE(warm.status.ok()) << warm.status;
  EXPECT_EQ(first.weights, warm.weights);
  EXPECT_EQ(0, warm.report.first_step) << "the steps are its own";

  training.steps = 3;
  ASSERT_TRUE(TrainDigits(training, FewSteps()).status.ok());
  const DigitRun resumed = TrainDigits(training, FewSteps());
  EXPECT_EQ(3, resumed.report.first_step) << "its own checkpoint goes before";

  training.warm_variables = {{"dense2/kernel", "not/there"}};
  training.checkpoint_folder = TemporaryFolder();
  EXPECT_EQ(Code::kNotFound, TrainDigits(training, FewSteps()).status.code());
}

TEST(Trainer, KeepsTheBestByAMetricOfTheStep) {
  TrainingOptions training;
  training.steps = 30;
  training.checkpoint_folder = TemporaryFolder();
  training.checkpoint_steps = 1;
  training.keep = 1;
  training.keep_best = 2;
  training.best_metric = "accuracy";
  training.higher_is_better = true;
  std::vector<std::pair<float, int64_t>> seen;
  ASSERT_TRUE(TrainDigits(training, FewSteps(), -1, [&](const StepReport& report) {
                seen.emplace_back(-report.metrics[0], report.step);
              }).status.ok());
  std::sort(seen.begin(), seen.end());
  const Result<BestCheckpoints> best = BestCheckpoints::Read(training.checkpoint_folder);
  ASSERT_TRUE(best.ok()) << best.status();
  ASSERT_EQ(2u, best->list.size());
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(CheckpointName(seen[i].second), best->list[i].name);
    EXPECT_TRUE(data::FileExists(training.checkpoint_folder + "/" + best->list[i].name + ".index"));
  }
  training.best_metric = "beauty";
  EXPECT_EQ(
      "the best checkpoints are to be known by 'beauty', which the step does not have; it has the loss and accuracy",
      TrainDigits(training, FewSteps()).status.message());
}

TEST(Trainer, RefusesToBringAheadAnInputThatTheStepDoesNotName) {
  TrainingOptions training;
  training.prefetch_device = "CPU:0";
  const DigitRun run = TrainDigits(training, FewSteps());
  EXPECT_EQ(Code::kInvalidArgument, run.status.code());
  EXPECT_NE(std::string::npos, run.status.message().find("to be brought to CPU:0 ahead (prefetch_device)"))
      << run.status;
}

TEST(Trainer, StopsAtALossThatIsNoNumberAndWritesNoCheckpoint) {
  TrainingOptions training;
  training.steps = 40;
  training.checkpoint_folder = TemporaryFolder();
  training.checkpoint_steps = 1;
  DigitOptions digits = FewSteps();
  digits.learning_rate = 1e30f;
  digits.optimizer.kind = OptimizerOptions::Kind::kGradientDescent;
  const DigitRun run = TrainDigits(training, digits);
  EXPECT_EQ(Code::kInvalidArgument, run.status.code());
  EXPECT_NE(std::string::npos, run.status.message().find("A smaller learning rate usually helps")) << run.status;
}

TEST(Freeze, GivesAGraphWithoutVariables) {
  TrainingOptions training;
  training.steps = 3;
  const DigitRun run = TrainDigits(training, FewSteps());
  ASSERT_TRUE(run.status.ok()) << run.status;
  Result<data::GraphView> graph = data::ParseGraphDef(run.frozen);
  ASSERT_TRUE(graph.ok()) << graph.status();
  for (const data::NodeView& node : graph->nodes) {
    EXPECT_EQ(std::string_view::npos, node.op.find("Variable")) << node.name;
    EXPECT_NE("VarHandleOp", node.op) << node.name;
  }
  Session session = NewSession();
  ASSERT_TRUE(session.Extend(run.frozen).ok());
  Result<std::vector<Tensor>> answers =
      session.Run({{DigitNetwork::kImages, *Data().held_out.ImageTensor()}}, {DigitNetwork::kAnswers});
  ASSERT_TRUE(answers.ok()) << answers.status();
  EXPECT_EQ(359u, (*answers)[0].data<int64_t>().size());
}

}  // namespace
}  // namespace tenon::train::training_test
