// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/loss_scaling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tenon/train/optimizer.h"
#include "tests/fakes/counting_model.h"

namespace tenon::train::loss_scaling_test {
namespace {

// One weight, w = 2; loss = w^2 * pull, so that the gradient is 2 w pull. As half it computes in float16, w^2 * pull *
// pull.
struct Well {
  Well(const OptimizerOptions& options, bool half = false)
      : graph(SharedRuntime()), model(graph, 3), session(NewSession()) {
    pull = graph.Placeholder("pull", DType::kFloat, {});
    const Variable& w = model.Weight("w", Shape(), Initializer::Constant(2));
    const DType dtype = half ? DType::kHalf : DType::kFloat;
    const auto as = [&](Output x) { return half ? graph.Op("Cast", {x}, {{"DstT", dtype}}) : x; };
    loss = graph.Op("Mul", {graph.Op("Square", {as(w.value)}), as(pull)});
    if (half) loss = graph.Op("Mul", {loss, as(pull)});
    update = Minimize(model, loss, graph.Const(0.125f), options);
    const Operation init = model.InitializeAll();
    Status status = session.Extend(graph);
    EXPECT_TRUE(status.ok()) << status;
    if (status.ok()) status = session.RunTargets({init});
    EXPECT_TRUE(status.ok()) << status;
  }
  void Step(float strength) {
    auto value = session.Run({{pull, *Tensor::From(std::vector<float>{strength}, Shape())}}, {loss}, {update});
    EXPECT_TRUE(value.ok()) << value.status();
  }
  float Value(const std::string& name) {
    for (const Variable& variable : model.variables()) {
      if (variable.name != name) continue;
      auto value = session.Run({}, {variable.value});
      EXPECT_TRUE(value.ok()) << value.status();
      return value.ok() ? (*value)[0].scalar<float>(NAN) : NAN;
    }
    ADD_FAILURE() << "no variable " << name;
    return NAN;
  }
  Graph graph;
  Model model;
  Session session;
  Output pull, loss;
  Operation update;
};

OptimizerOptions Scaling(LossScaling::Kind kind, float scale = 1024,
                         OptimizerOptions::Kind optimizer = OptimizerOptions::Kind::kGradientDescent) {
  OptimizerOptions options;
  options.kind = optimizer;
  options.loss_scaling = {kind, scale, 3};
  return options;
}

TEST(LossScaling, ChangesNothingWhereNothingOverflows) {
  Well none(Scaling(LossScaling::Kind::kNone)), fixed(Scaling(LossScaling::Kind::kFixed)),
      dynamic(Scaling(LossScaling::Kind::kDynamic));
  for (int step = 0; step < 5; ++step) {
    for (Well* well : {&none, &fixed, &dynamic}) well->Step(0.3f + 0.1f * static_cast<float>(step));
    EXPECT_EQ(fixed.Value("w"), none.Value("w"));
    EXPECT_EQ(dynamic.Value("w"), none.Value("w"));
  }
  EXPECT_LT(none.Value("w"), 2);
}

TEST(LossScaling, ThatIsDynamicLeavesOutAStepThatOverflowsAndHalves) {
  for (const auto optimizer :
       {OptimizerOptions::Kind::kGradientDescent, OptimizerOptions::Kind::kAdam, OptimizerOptions::Kind::kMomentum}) {
    Well well(Scaling(LossScaling::Kind::kDynamic, 1024, optimizer));
    well.Step(0.5f);
    std::vector<float> before;
    for (const Variable& variable : well.model.variables()) {
      if (!variable.name.starts_with("loss_scale")) before.push_back(well.Value(variable.name));
    }
    EXPECT_EQ(well.Value("loss_scale/good_steps"), 1);
    well.Step(std::numeric_limits<float>::infinity());
    well.Step(1e36f);  // finite, and not when it is scaled
    std::vector<float> after;
    for (const Variable& variable : well.model.variables()) {
      if (!variable.name.starts_with("loss_scale")) after.push_back(well.Value(variable.name));
    }
    EXPECT_EQ(after, before);  // slots too
    EXPECT_EQ(well.Value("loss_scale"), 256);
    EXPECT_EQ(well.Value("loss_scale/good_steps"), 0);
    well.Step(0.5f);
    EXPECT_LT(well.Value("w"), before[0]);
  }
}

TEST(LossScaling, ThatIsDynamicDoublesAfterGoodSteps) {
  Well well(Scaling(LossScaling::Kind::kDynamic));
  for (int step = 0; step < 3; ++step) {
    EXPECT_EQ(well.Value("loss_scale"), 1024);
    well.Step(0.25f);
  }
  EXPECT_EQ(well.Value("loss_scale"), 2048);
  EXPECT_EQ(well.Value("loss_scale/good_steps"), 0);
}

TEST(LossScaling, NeverGoesBelowOne) {
  Well well(Scaling(LossScaling::Kind::kDynamic, 2));
  for (int step = 0; step < 4; ++step) well.Step(std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(well.Value("loss_scale"), 1);
  EXPECT_EQ(well.Value("w"), 2);
}

// On its way the gradient is 1e-8, and float16's smallest number 6e-8.
TEST(LossScaling, KeepsGradientsOfHalvesFromVanishing) {
  Well without(Scaling(LossScaling::Kind::kNone, 1, OptimizerOptions::Kind::kAdam), true);
  Well with(Scaling(LossScaling::Kind::kDynamic, 32768, OptimizerOptions::Kind::kAdam), true);
  without.Step(1e-4f);
  with.Step(1e-4f);
  EXPECT_EQ(without.Value("w"), 2);
  EXPECT_LT(with.Value("w"), 1.99f);
  EXPECT_EQ(with.Value("loss_scale"), 32768);
}

TEST(LossScaling, RefusesScalesThatWouldRound) {
  for (const float scale : {0.0f, -2.0f, 1000.0f, std::numeric_limits<float>::infinity()}) {
    Graph graph(SharedRuntime());
    Model model(graph, 1);
    LossScaler scaler(model, {LossScaling::Kind::kFixed, scale, 1});
    EXPECT_EQ(graph.status().code(), Code::kInvalidArgument) << scale;
    EXPECT_NE(std::string(graph.status().message()).find("may be a power of two"), std::string::npos) << graph.status();
  }
}

TEST(LossScaling, IsRefusedForGradientsOfSeveralClients) {
  Graph graph(SharedRuntime());
  Model model(graph, 1);
  const Variable& w = model.Weight("w", Shape(), Initializer::Constant(2));
  ApplyGradients(model, {w.value}, graph.Const(0.1f), Scaling(LossScaling::Kind::kFixed));
  EXPECT_EQ(graph.status().code(), Code::kUnimplemented);
}

}  // namespace
}  // namespace tenon::train::loss_scaling_test
