// SPDX-License-Identifier: Apache-2.0
// Learning rates against TensorFlow's, at several steps.
#include "tenon/train/learning_rate.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/fakes/training_golden.h"

namespace tenon::train::learning_rate_test {
namespace {

const std::map<std::string, LearningRate>& Rates() {
  static const auto* const rates = new std::map<std::string, LearningRate>{
      {"exponential", ExponentialDecay(0.5f, 10, 0.7f)},
      {"exponential_staircase", ExponentialDecay(0.5f, 10, 0.7f, true)},
      {"natural_exp", NaturalExpDecay(0.5f, 10, 0.7f)},
      {"natural_exp_staircase", NaturalExpDecay(0.5f, 10, 0.7f, true)},
      {"inverse_time", InverseTimeDecay(0.5f, 10, 0.7f)},
      {"inverse_time_staircase", InverseTimeDecay(0.5f, 10, 0.7f, true)},
      {"piecewise", PiecewiseConstant({7, 20}, {0.5f, 0.25f, 0.125f})},
      {"polynomial", PolynomialDecay(0.5f, 20)},
      {"polynomial_power", PolynomialDecay(0.5f, 20, 0.01f, 2)},
      {"polynomial_cycle", PolynomialDecay(0.5f, 10, 0.01f, 0.5f, true)},
      {"cosine", CosineDecay(0.5f, 20)},
      {"cosine_alpha", CosineDecay(0.5f, 20, 0.1f)},
      {"cosine_restarts", CosineRestarts(0.5f, 7, 2, 0.8f, 0.1f)},
      {"cosine_restarts_even", CosineRestarts(0.5f, 7, 1, 0.5f)},
      {"warm_up_cosine", WarmUp(5, CosineDecay(0.5f, 20), 0.1f)},
  };
  return *rates;
}

TEST(LearningRates, AreTensorFlows) {
  const nlohmann::json& golden = TrainingGolden("learning_rates");
  ASSERT_EQ(golden["rates"].size(), Rates().size());
  Graph graph(SharedRuntime());
  const Output step = graph.Placeholder("step", DType::kInt64, Shape()),
               narrow = graph.Op("Cast", {step}, {{"DstT", DType::kInt32}});
  std::vector<Name> fetches;
  for (const auto& [name, rate] : Rates()) {
    fetches.emplace_back(rate(graph, step));
    fetches.emplace_back(rate(graph, narrow));
  }
  const Session session = SessionOf(graph, {});
  for (size_t i = 0; i < golden["steps"].size(); ++i) {
    const auto values = session.Run({{step, *Tensor::Scalar(golden["steps"][i].get<int64_t>())}}, fetches);
    ASSERT_TRUE(values.ok()) << values.status();
    size_t k = 0;
    for (const auto& [name, rate] : Rates()) {
      const float wanted = GoldenNumber(golden["rates"][name][i]);
      for (const bool wide : {true, false})
        EXPECT_NEAR((*values)[k++].scalar<float>(), wanted, 1e-6f)
            << name << " at step " << golden["steps"][i] << (wide ? "" : ", int32");
    }
  }
}

TEST(LearningRates, FollowACounterOfTheModel) {
  Graph graph(SharedRuntime());
  Model model(graph);
  const Variable& step = model.Counter("global_step");
  const Output rate = PiecewiseConstant({1}, {3, 5})(graph, step.value);
  const Operation count =
      graph.AddNode("AssignAddVariableOp", {step.handle, graph.Const(int64_t{1})}, {{"dtype", DType::kInt64}});
  Session session = SessionOf(graph, {model.InitializeAll()});
  std::vector<float> found;
  for (int i = 0; i < 3; ++i) {
    found.push_back((*session.Run({}, {rate}))[0].scalar<float>());
    ASSERT_TRUE(session.RunTargets({count}).ok());
  }
  EXPECT_EQ(found, (std::vector<float>{3, 3, 5}));
}

TEST(LearningRates, WarmUpIntoOneThatWarmsUp) {
  Graph graph(SharedRuntime());
  const LearningRate rate = WarmUp(2, WarmUp(2, ConstantRate(8), 4));
  std::vector<Name> fetches;
  for (int64_t step = 0; step < 6; ++step) fetches.emplace_back(rate(graph, graph.Const(step)));
  const auto values = SessionOf(graph, {}).Run({}, fetches);
  ASSERT_TRUE(values.ok()) << values.status();
  std::vector<float> found;
  for (const Tensor& value : *values) found.push_back(value.scalar<float>());
  EXPECT_EQ(found, (std::vector<float>{0, 2, 4, 6, 8, 8}));
}

TEST(LearningRates, RefuseWhatMakesNoSense) {
  const std::pair<LearningRate, const char*> wrong[] = {
      {ExponentialDecay(0.5f, 0, 0.7f), "ExponentialDecay over 0 steps"},
      {NaturalExpDecay(0.5f, -1, 0.7f), "NaturalExpDecay over -1 steps"},
      {InverseTimeDecay(0.5f, 0, 0.7f), "InverseTimeDecay over 0 steps"},
      {PiecewiseConstant({5, 5}, {1, 2, 3}), "boundaries rise"},
      {PiecewiseConstant({5}, {1}), "1 boundaries and 1 values"},
      {PolynomialDecay(0.5f, 0), "PolynomialDecay over 0 steps"},
      {CosineDecay(0.5f, 0), "CosineDecay over 0 steps"},
      {CosineRestarts(0.5f, 0), "CosineRestarts over 0 steps"},
      {CosineRestarts(0.5f, 5, 0.5f), "periods that grow by 0.5"},
      {WarmUp(0, ConstantRate(1)), "WarmUp over 0 steps"},
      {WarmUp(3, CosineDecay(1, 0)), "CosineDecay over 0 steps"}};
  for (const auto& [rate, text] : wrong) {
    Graph graph(SharedRuntime());
    rate(graph, graph.Const(int64_t{0}));
    EXPECT_EQ(graph.status().code(), Code::kInvalidArgument) << text;
    EXPECT_NE(graph.status().message().find(text), std::string::npos) << graph.status();
  }
}

}  // namespace
}  // namespace tenon::train::learning_rate_test
