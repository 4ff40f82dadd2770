// SPDX-License-Identifier: Apache-2.0
// The training library on a real engine with the real plugins.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "tenon/train/digits.h"
#include "tenon/train/file.h"
#include "tenon/train/graph_def.h"
#include "tenon/train/model.h"
#include "tenon/train/optimizer.h"
#include "tenon/train/saver.h"
#include "tenon/train/trainer.h"
#include "tests/fakes/temporary_folder.h"

namespace tenon::train {
namespace {

std::string TemporaryFolder() { return fakes::TemporaryFolder("train"); }

Runtime& SharedRuntime() {
  static Runtime* runtime = [] {
    Result<Runtime> created = Runtime::Create();
    EXPECT_TRUE(created.ok()) << created.status();
    return new Runtime(*std::move(created));
  }();
  return *runtime;
}

Session NewSession(host::SessionOptions options = {}) {
  options.seed = 1;
  Result<Session> session = Session::Create(SharedRuntime(), options);
  EXPECT_TRUE(session.ok()) << session.status();
  return *std::move(session);
}

std::vector<float> Floats(const Tensor& tensor) {
  return std::vector<float>(tensor.data<float>().begin(), tensor.data<float>().end());
}

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

INSTANTIATE_TEST_SUITE_P(All, Optimizers, testing::Values("sgd", "momentum", "adam", "adagrad"));

TEST(Optimizer, NamesTheOnesThatThereAre) {
  EXPECT_EQ("there is no optimizer 'sdg'; there are sgd, momentum, adam and adagrad",
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

// One variable that each step of `add` raises by one.
struct Counting {
  explicit Counting(const std::string& folder, int keep = 3, int64_t size = 4)
      : graph(SharedRuntime()),
        model(graph),
        value(model.State("value", {size}, 0).value),
        saver(model, folder, keep),
        session(NewSession()) {
    Output ones = graph.Const(std::vector<float>(static_cast<size_t>(size), 1), {size});
    add = graph.AddNode("AssignAddVariableOp", {model.variables()[0].handle, ones}, {{"dtype", DType::kFloat}});
    init = model.InitializeAll();
    Status extended = session.Extend(graph);
    EXPECT_TRUE(extended.ok()) << extended;
    Run(init);
  }
  void Run(Operation node) {
    Status status = session.RunTargets({node});
    EXPECT_TRUE(status.ok()) << status;
  }
  void Save(int64_t step) {
    Result<std::string> saved = saver.Save(session, step);
    EXPECT_TRUE(saved.ok()) << saved.status();
  }
  std::vector<float> Value() {
    Result<std::vector<Tensor>> values = session.Run({}, {value});
    EXPECT_TRUE(values.ok()) << values.status();
    return values.ok() ? Floats((*values)[0]) : std::vector<float>();
  }

  Graph graph;
  Model model;
  Output value;
  Saver saver;
  Session session;
  Operation add, init;
};

TEST(Saver, FindsNothingInANewFolder) {
  Counting counting(TemporaryFolder() + "/none");
  Result<Restored> restored = counting.saver.RestoreNewest(counting.session);
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ("", restored->prefix);
}

TEST(Saver, RestoresTheNewest) {
  const std::string folder = TemporaryFolder();
  {
    Counting counting(folder);
    counting.Run(counting.add);
    counting.Save(1);
    counting.Run(counting.add);
    counting.Save(2);
    counting.Run(counting.add);
  }
  Counting again(folder);
  Result<Restored> restored = again.saver.RestoreNewest(again.session);
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(2, restored->step);
  EXPECT_TRUE(restored->warnings.empty());
  EXPECT_EQ(std::vector<float>(4, 2), again.Value());
}

TEST(Saver, KeepsTheLastFew) {
  const std::string folder = TemporaryFolder();
  Counting counting(folder, 2);
  for (int64_t step = 1; step <= 5; ++step) counting.Save(step);
  Result<CheckpointState> state = CheckpointState::Read(folder);
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ((std::vector<std::string>{"model.ckpt-4", "model.ckpt-5"}), state->paths);
  const std::vector<std::string> files = *ListFolder(folder);
  EXPECT_EQ(
      0, std::count_if(files.begin(), files.end(), [](const std::string& f) { return f.starts_with("model.ckpt-3"); }));
  EXPECT_EQ(1, std::count(files.begin(), files.end(), "model.ckpt-4.index"));
}

void Damage(const std::string& path) {
  std::string bytes = *ReadFile(path);
  ASSERT_FALSE(bytes.empty());
  bytes[bytes.size() / 2] ^= 0x40;
  ASSERT_TRUE(ReplaceFile(path, {bytes}).ok());
}

TEST(Saver, FallsBackToThePreviousWhenTheNewestIsDamagedAndSaysSo) {
  for (const char* file : {"/model.ckpt-2.data-00000-of-00001", "/model.ckpt-2.index"}) {
    const std::string folder = TemporaryFolder();
    {
      Counting counting(folder, 3, 1000);
      counting.Run(counting.add);
      counting.Save(1);
      counting.Run(counting.add);
      counting.Save(2);
    }
    Damage(folder + file);
    Counting again(folder, 3, 1000);
    Result<Restored> restored = again.saver.RestoreNewest(again.session);
    ASSERT_TRUE(restored.ok()) << restored.status();
    EXPECT_EQ(1, restored->step);
    ASSERT_EQ(1u, restored->warnings.size());
    EXPECT_NE(std::string::npos, restored->warnings[0].find("model.ckpt-2"));
    EXPECT_EQ(std::vector<float>(1000, 1), again.Value());
    // The damaged one is named no more, and its step can be saved again.
    EXPECT_EQ((std::vector<std::string>{"model.ckpt-1"}), CheckpointState::Read(folder)->paths);
    again.Save(2);
    EXPECT_EQ((std::vector<std::string>{"model.ckpt-1", "model.ckpt-2"}), CheckpointState::Read(folder)->paths);
  }
}

TEST(Saver, RefusesToBeginAnewWhenNoneCanBeRead) {
  const std::string folder = TemporaryFolder();
  {
    Counting counting(folder, 3, 1000);
    counting.Save(1);
  }
  Damage(folder + "/model.ckpt-1.data-00000-of-00001");
  Counting again(folder, 3, 1000);
  Result<Restored> restored = again.saver.RestoreNewest(again.session);
  ASSERT_FALSE(restored.ok());
  EXPECT_NE(std::string::npos, restored.status().message().find("none of the 1 checkpoints")) << restored.status();
}

TEST(Saver, FindsCheckpointsByNameWhenTheStateFileIsGone) {
  const std::string folder = TemporaryFolder();
  {
    Counting counting(folder);
    counting.Save(9);
    counting.Run(counting.add);
    counting.Save(10);
  }
  ASSERT_EQ(0, unlink((folder + "/checkpoint").c_str()));
  Counting again(folder);
  Result<Restored> restored = again.saver.RestoreNewest(again.session);
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(10, restored->step);
}

TEST(Saver, ClearsTheFolder) {
  const std::string folder = TemporaryFolder();
  Counting counting(folder);
  counting.Save(1);
  ASSERT_TRUE(counting.saver.Clear().ok());
  Counting again(folder);
  Result<Restored> restored = again.saver.RestoreNewest(again.session);
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ("", restored->prefix);
  EXPECT_EQ((std::vector<std::string>{"checkpoint"}), *ListFolder(folder));
}

TEST(Saver, SaysWhyItCannotWrite) {
  Counting counting("/proc/no/such");
  Result<std::string> saved = counting.saver.Save(counting.session, 1);
  ASSERT_FALSE(saved.ok());
  EXPECT_NE(std::string::npos, saved.status().message().find("/proc/no")) << saved.status();
}

// ---- The digits job ----

const DigitData& Data() {
  static const DigitData* data = [] {
    Result<DigitData> loaded = DigitData::Load(TENON_TEST_SOURCE_DIR "/sdk/train/data/digits.npy");
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

DigitRun TrainDigits(const TrainingOptions& training, DigitOptions digits, int64_t stop_after = -1) {
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
  Result<std::string> frozen = Freeze(session, *graph_def, {DigitNetwork::kAnswers});
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
  Result<GraphView> graph = ParseGraphDef(run.frozen);
  ASSERT_TRUE(graph.ok()) << graph.status();
  for (const NodeView& node : graph->nodes) {
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

TEST(ParseGraphDef, RefusesDamagedBytes) {
  for (const std::string& bytes : {std::string("\x0a\x03"
                                               "abc"),
                                   std::string("\x0a\xff\xff\xff\x7f"), std::string("nonsense")}) {
    EXPECT_FALSE(ParseGraphDef(bytes).ok());
  }
}

}  // namespace
}  // namespace tenon::train
