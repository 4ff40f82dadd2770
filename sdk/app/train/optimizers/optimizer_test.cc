// SPDX-License-Identifier: Apache-2.0
// Optimizers against TensorFlow's, of whole variables and of rows; gradients of several steps, applied at once. Covers
// D4, M7, P5, P6.
#include "tenon/train/optimizer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>

#include "tenon/train/embedding.h"
#include "tenon/train/lbfgs.h"
#include "tenon/train/trainer.h"
#include "tests/fakes/training_golden.h"

namespace tenon::train::optimizer_test {
namespace {

using Kind = OptimizerOptions::Kind;

struct Case {
  const char* name;  // in the golden
  OptimizerOptions options;
  float rate = 0.1f;
};

OptimizerOptions Of(Kind kind, bool nesterov = false) {
  OptimizerOptions options;
  options.kind = kind;
  options.nesterov = nesterov;
  return options;
}
OptimizerOptions RmsProp(bool centered, bool momentum) {
  OptimizerOptions options = Of(Kind::kRmsProp);
  options.centered = centered;
  if (momentum) options.rho = 0.8f, options.rms_momentum = 0.7f, options.epsilon = 1e-3f;
  return options;
}
OptimizerOptions Adadelta(float rho, float epsilon) {
  OptimizerOptions options = Of(Kind::kAdadelta);
  options.rho = rho;
  options.epsilon = epsilon;
  return options;
}

std::vector<Case> Cases() {
  return {{"sgd", Of(Kind::kGradientDescent)},
          {"momentum", Of(Kind::kMomentum)},
          {"momentum_nesterov", Of(Kind::kMomentum, true)},
          {"adam", Of(Kind::kAdam)},
          {"adagrad", Of(Kind::kAdagrad)},
          {"rmsprop", RmsProp(false, false)},
          {"rmsprop_momentum", RmsProp(false, true)},
          {"rmsprop_centered", RmsProp(true, false)},
          {"rmsprop_centered_momentum", RmsProp(true, true)},
          {"adadelta", Of(Kind::kAdadelta), 1},
          {"adadelta_rho", Adadelta(0.8f, 1e-4f), 0.5f}};
}

class OptimizersOfTensorFlow : public testing::TestWithParam<Case> {
 protected:
  const nlohmann::json& golden = TrainingGolden("optimizers");
};

TEST_P(OptimizersOfTensorFlow, GiveTheSameWeights) {
  for (const bool fused : {true, false}) {
    OptimizerOptions options = GetParam().options;
    options.fused = fused;
    Graph graph(SharedRuntime());
    Model model(graph);
    const Variable& weights = model.Weight("v", GoldenShape(golden["first"]), Initializer::Constant(0));
    const Output gradient = graph.Placeholder("g", DType::kFloat, weights.shape);
    const Output loss = graph.Op("Sum", {graph.Op("Mul", {weights.value, gradient}), graph.Const({0})});
    const Operation update = Minimize(model, loss, graph.Const(GetParam().rate), options);
    const Operation init = model.InitializeAll(), given = AssignNode(graph, weights, GoldenValues(golden["first"]));
    Session session = SessionOf(graph, {init});
    ASSERT_TRUE(session.RunTargets({given}).ok());
    for (size_t i = 0; i < golden["gradients"].size(); ++i) {
      const auto stepped = session.Run({{gradient, GoldenTensor(golden["gradients"][i])}}, {}, {update});
      ASSERT_TRUE(stepped.ok()) << stepped.status();
      const auto values = session.Run({}, {weights.value});
      ExpectNear(Floats((*values)[0]), GoldenValues(golden["after"][GetParam().name][i]),
                 std::string(GetParam().name) + (fused ? ", fused, step " : ", primitive, step ") + std::to_string(i));
    }
  }
}

TEST_P(OptimizersOfTensorFlow, GiveTheSameRows) {
  Graph graph(SharedRuntime());
  Model model(graph);
  const Shape shape = GoldenShape(golden["table"]);
  const Embedding table(model, "t", shape[0], shape[1], Initializer::Constant(0));
  const Output ids = graph.Placeholder("ids", DType::kInt64, {-1}),
               gradient = graph.Placeholder("g", DType::kFloat, {-1, shape[1]});
  const Output loss = graph.Op("Sum", {graph.Op("Mul", {table.Lookup(ids), gradient}), graph.Const({0, 1})});
  const Operation update = Minimize(model, loss, graph.Const(GetParam().rate), GetParam().options);
  const Operation init = model.InitializeAll(),
                  given = AssignNode(graph, *table.shards()[0], GoldenValues(golden["table"]));
  Session session = SessionOf(graph, {init});
  ASSERT_TRUE(session.RunTargets({given}).ok());
  for (size_t i = 0; i < golden["ids"].size(); ++i) {
    const auto of_step = golden["ids"][i].get<std::vector<int64_t>>();
    const auto stepped = session.Run(
        {{ids, View(of_step, {static_cast<int64_t>(of_step.size())})}, {gradient, GoldenTensor(golden["rows"][i])}}, {},
        {update});
    ASSERT_TRUE(stepped.ok()) << stepped.status();
    const auto values = session.Run({}, {table.shards()[0]->value});
    ExpectNear(Floats((*values)[0]), GoldenValues(golden["after_rows"][GetParam().name][i]),
               std::string(GetParam().name) + ", step " + std::to_string(i), 1e-5f);
  }
}

INSTANTIATE_TEST_SUITE_P(Of, OptimizersOfTensorFlow, testing::ValuesIn(Cases()),
                         [](const auto& info) { return std::string(info.param.name); });

// ---- Gradients of several steps ----

// The fit of a line to eight points, of which each step sees some.
class Line {
 public:
  explicit Line(const OptimizerOptions& options) : graph_(SharedRuntime()), model_(graph_, 5) {
    x_ = graph_.Placeholder("x", DType::kFloat, {-1, 2});
    y_ = graph_.Placeholder("y", DType::kFloat, {-1, 1});
    const Output fit = model_.Dense("fit", x_, 2, 1, Initializer::TruncatedNormal(0.5f));
    loss_ = graph_.Op("Mean", {graph_.Op("SquaredDifference", {fit, y_}), graph_.Const({0, 1})});
    update_ = Minimize(model_, loss_, graph_.Const(0.1f), options);
  }
  Model& model() { return model_; }
  const Status& status() const { return graph_.status(); }
  // For Trainer: so many points at a step.
  TrainingStep Step(int64_t points) {
    TrainingStep step;
    step.loss = loss_;
    step.update = update_;
    step.feeds = {x_, y_};
    step.feed = [this, points](int64_t number) {
      xs_.clear();
      ys_.clear();
      for (int64_t i = number * points; i < (number + 1) * points; ++i) {
        const float t = static_cast<float>(i % 8) - 3.5f;
        xs_.insert(xs_.end(), {t, 1 - 0.3f * t * t});
        ys_.push_back(2 * t - 1 + 0.1f * t * t * t);
      }
      return Result<std::vector<View>>(std::vector<View>{View(xs_, {points, 2}), View(ys_, {points, 1})});
    };
    step.examples = points;
    return step;
  }

 private:
  Graph graph_;
  Model model_;
  Output x_, y_, loss_;
  Operation update_;
  std::vector<float> xs_, ys_;
};

// The values of all variables that are not integers, after a run.
Result<std::vector<float>> TrainLine(const OptimizerOptions& options, int64_t points, const TrainingOptions& training,
                                     int64_t stop_after = -1) {
  Line line(options);
  std::atomic<bool> stop{false};
  TrainingOptions own = training;
  own.stop = &stop;
  Trainer trainer(line.model(), line.Step(points), own);
  trainer.on_step = [&](const StepReport& report) { stop = report.step == stop_after; };
  Session session = NewSession();
  TENON_TRY(trainer.Begin(session));
  TENON_TRY(trainer.Run().status());
  std::vector<Name> names;
  for (const Variable& variable : line.model().variables())
    if (variable.dtype == DType::kFloat) names.emplace_back(variable.value);
  TENON_TRY_ASSIGN(const std::vector<Tensor> values, session.Run({}, names));
  std::vector<float> all;
  for (const Tensor& value : values) all.insert(all.end(), value.data<float>().begin(), value.data<float>().end());
  return all;
}

class Accumulation : public testing::TestWithParam<const char*> {};

TEST_P(Accumulation, OfFourStepsIsOneStepOfTheWholeBatch) {
  OptimizerOptions options = Of(*OptimizerKindFromName(GetParam()));
  options.clipping = {Clipping::Kind::kGlobalNorm, 0.7f};
  TrainingOptions training;
  training.steps = 6;
  const auto whole = TrainLine(options, 8, training);
  options.accumulate = 4;
  training.steps = 24;
  const auto accumulated = TrainLine(options, 2, training);
  ASSERT_TRUE(whole.ok() && accumulated.ok()) << whole.status() << accumulated.status();
  const std::vector<float> weights(whole->begin(), whole->begin() + 3);
  ExpectNear(std::vector<float>(accumulated->begin(), accumulated->begin() + 3), weights, GetParam(), 2e-5f);

  training.steps = 23;
  const auto before = TrainLine(options, 2, training);
  training.steps = 20;
  const auto last_update = TrainLine(options, 2, training);
  ASSERT_TRUE(before.ok() && last_update.ok()) << before.status() << last_update.status();
  for (size_t i = 0; i < 3; ++i)
    EXPECT_EQ((*before)[i], (*last_update)[i]) << "a step between two updates changes no weight";
}

INSTANTIATE_TEST_SUITE_P(Of, Accumulation,
                         testing::Values("sgd", "momentum", "adam", "adagrad", "rmsprop", "adadelta"));

TEST(Accumulation, GoesOnBetweenTwoUpdatesWhereItStopped) {
  OptimizerOptions options = Of(Kind::kAdam);
  options.accumulate = 4;
  TrainingOptions training;
  training.steps = 16;
  const auto whole = TrainLine(options, 2, training);
  training.checkpoint_folder = TemporaryFolder();
  ASSERT_TRUE(TrainLine(options, 2, training, 6).ok());
  const auto resumed = TrainLine(options, 2, training);
  ASSERT_TRUE(whole.ok() && resumed.ok()) << whole.status() << resumed.status();
  EXPECT_EQ(*whole, *resumed);
}

TEST(Accumulation, TrainsNoSum) {
  OptimizerOptions options = Of(Kind::kGradientDescent);
  options.accumulate = 2;
  Line line(options);
  ASSERT_TRUE(line.status().ok()) << line.status();
  EXPECT_EQ(line.model().trainable().size(), 2u);
  EXPECT_EQ(line.model().variables().size(), 5u);  // two weights, two sums, the count
}

TEST(Accumulation, IsRefusedWhereItCannotBe) {
  OptimizerOptions options = Of(Kind::kGradientDescent);
  options.accumulate = 0;
  EXPECT_EQ(Line(options).status().code(), Code::kInvalidArgument);
  options.accumulate = 2;
  options.loss_scaling.kind = LossScaling::Kind::kDynamic;
  EXPECT_EQ(Line(options).status().code(), Code::kUnimplemented);
  options.loss_scaling.kind = LossScaling::Kind::kFixed;
  EXPECT_TRUE(Line(options).status().ok());

  Graph graph(SharedRuntime());
  Model model(graph);
  const Embedding table(model, "t", 4, 2, Initializer::Constant(0));
  OptimizerOptions of_rows = Of(Kind::kGradientDescent);
  of_rows.accumulate = 2;
  Minimize(model, graph.Op("Sum", {table.Lookup(graph.Const({1})), graph.Const({0, 1})}), graph.Const(0.1f), of_rows);
  EXPECT_EQ(graph.status().code(), Code::kUnimplemented);
  EXPECT_NE(graph.status().message().find("'t/shard_0' is changed by rows"), std::string::npos) << graph.status();
}

// Variables that a loss does not reach are known to whoever warns of them, by each way to train.
TEST(Unreached, AreKnownByEachWayToTrain) {
  const auto unreached = [](const auto& train) {
    Graph graph(SharedRuntime());
    Model model(graph);
    const Variable& used = model.Weight("used", {2}, Initializer::Constant(1));
    model.Weight("aside", {2}, Initializer::Constant(1));
    train(model, graph.Op("Sum", {graph.Op("Square", {used.value}), graph.Const({0})}));
    EXPECT_TRUE(graph.status().ok()) << graph.status();
    return model.unreached();
  };
  const auto rate = [](Model& model) { return model.graph().Const(0.1f); };
  const std::vector<std::string> aside = {"aside"};
  EXPECT_EQ(unreached([&](Model& model, const Output& loss) {
              Minimize(model, loss, rate(model), Of(Kind::kGradientDescent));
            }),
            aside);
  EXPECT_EQ(unreached([&](Model& model, const Output& loss) {
              ApplyGradients(model, VariableGradients(model, loss), rate(model), Of(Kind::kGradientDescent));
            }),
            aside);
  EXPECT_EQ(unreached([](Model& model, const Output& loss) { const Lbfgs lbfgs(model, loss); }), aside);
}

}  // namespace
}  // namespace tenon::train::optimizer_test
