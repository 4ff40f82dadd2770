// SPDX-License-Identifier: Apache-2.0
// Clipping against TensorFlow's, of gradients that are small, large, none, infinite and no number; and as an option of
// Minimize. Covers B15, K5.
#include "tenon/train/clipping.h"

#include <gtest/gtest.h>

#include "tenon/train/embedding.h"
#include "tenon/train/optimizer.h"
#include "tests/fakes/training_golden.h"

namespace tenon::train::clipping_test {
namespace {

TEST(Clipping, IsTensorFlows) {
  for (const auto& golden : TrainingGolden("clipping")) {
    Graph graph(SharedRuntime());
    std::vector<Output> gradients;
    for (const auto& gradient : golden["gradients"]) gradients.push_back(GoldenConst(graph, gradient));
    gradients.insert(gradients.begin() + 1, Output());  // of a variable that the loss does not depend on
    const GloballyClipped global = ClipByGlobalNorm(graph, gradients, 1.5f);
    const std::vector<Output> by_value = ClipByValue(graph, gradients, -0.5f, 1.5f),
                              by_norm = ClipByNorm(graph, gradients, 1.5f);
    for (const auto& clipped : {by_value, by_norm, global.gradients}) {
      ASSERT_EQ(clipped.size(), 3u);
      EXPECT_FALSE(clipped[1].valid());
    }
    const auto values = SessionOf(graph, {}).Run(
        {}, {by_value[0], by_value[2], by_norm[0], by_norm[2], global.gradients[0], global.gradients[2], global.norm});
    ASSERT_TRUE(values.ok()) << values.status();
    for (size_t i = 0; i < 2; ++i) {
      ExpectNear(Floats((*values)[i]), GoldenValues(golden["by_value"][i]), "by value");
      ExpectNear(Floats((*values)[2 + i]), GoldenValues(golden["by_norm"][i]), "by norm");
      ExpectNear(Floats((*values)[4 + i]), GoldenValues(golden["by_global_norm"][i]), "by global norm");
    }
    ExpectNear(Floats((*values)[6]), {GoldenNumber(golden["global_norm"])}, "global norm");
  }
}

TEST(Clipping, KeepsTheTypeOfEachGradient) {
  Graph graph(SharedRuntime());
  const Output wide = graph.Const(std::vector<double>{3, 4}, {2}), narrow = graph.Const(std::vector<float>{12}, {1});
  const GloballyClipped clipped = ClipByGlobalNorm(graph, {wide, narrow}, 6.5f);
  const std::vector<Output> by_norm = ClipByNorm(graph, {wide}, 1), by_value = ClipByValue(graph, {wide}, -1, 3.5f);
  const auto values =
      SessionOf(graph, {}).Run({}, {clipped.gradients[0], clipped.gradients[1], clipped.norm, by_norm[0], by_value[0]});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_NEAR((*values)[0].data<double>()[0], 1.5, 1e-7);
  EXPECT_NEAR((*values)[1].data<float>()[0], 6, 1e-6);
  EXPECT_NEAR((*values)[2].data<double>()[0], 13, 1e-7);
  EXPECT_NEAR((*values)[3].data<double>()[1], 0.8, 1e-7);
  EXPECT_EQ((*values)[4].data<double>()[1], 3.5);
}

// One step of gradient descent by 1 moves the weights by what is left of the gradients.
std::vector<float> MovedBy(const Clipping& clipping, bool dynamic_scale = false) {
  Graph graph(SharedRuntime());
  Model model(graph);
  const Variable& a = model.Weight("a", {2}, Initializer::Constant(0));
  const Variable& b = model.Weight("b", {1}, Initializer::Constant(0));
  const Output loss =
      graph.Op("Sum", {graph.Op("ConcatV2", {graph.Op("Mul", {a.value, graph.Const({-3.0f, -4.0f})}),
                                             graph.Op("Mul", {b.value, graph.Const({-12.0f})}), graph.Const(0)}),
                       graph.Const({0})});
  OptimizerOptions options;
  options.kind = OptimizerOptions::Kind::kGradientDescent;
  options.clipping = clipping;
  if (dynamic_scale) options.loss_scaling.kind = LossScaling::Kind::kDynamic;
  const Operation update = Minimize(model, loss, graph.Const(1.0f), options);
  Session session = SessionOf(graph, {model.InitializeAll()});
  EXPECT_TRUE(session.RunTargets({update}).ok());
  const auto values = session.Run({}, {a.value, b.value});
  std::vector<float> all = Floats((*values)[0]);
  all.push_back((*values)[1].scalar<float>());
  return all;
}

TEST(Clipping, IsDoneByMinimize) {
  for (const bool scaled : {false, true}) {
    ExpectNear(MovedBy({}, scaled), {3, 4, 12}, "none");
    ExpectNear(MovedBy({Clipping::Kind::kValue, 3.5f}, scaled), {3, 3.5f, 3.5f}, "value");
    ExpectNear(MovedBy({Clipping::Kind::kNorm, 6}, scaled), {3, 4, 6}, "norm");
    ExpectNear(MovedBy({Clipping::Kind::kGlobalNorm, 6.5f}, scaled), {1.5f, 2, 6}, "global norm");
  }
}

// Rows that come twice count once, with their sum.
TEST(Clipping, OfRowsIsThatOfTheDenseTable) {
  for (const auto kind : {Clipping::Kind::kValue, Clipping::Kind::kNorm, Clipping::Kind::kGlobalNorm}) {
    std::vector<float> moved[2];
    for (const bool rows : {false, true}) {
      Graph graph(SharedRuntime());
      Model model(graph);
      const Embedding table(model, "t", rows ? 3 : 1, 2, Initializer::Constant(0));
      const Variable& dense = model.Weight("dense", {3, 2}, Initializer::Constant(0));
      const Output ids = graph.Const({2, 0, 2});
      const Output looked_up = rows ? table.Lookup(ids) : graph.Op("GatherV2", {dense.value, ids, graph.Const(0)});
      const Output weight = graph.Const(std::vector<float>{3, 4, -1, 2, 2, -5}, {3, 2});
      OptimizerOptions options;
      options.kind = OptimizerOptions::Kind::kGradientDescent;
      options.clipping = {kind, 2.5f};
      const Operation update =
          Minimize(model, graph.Op("Sum", {graph.Op("Mul", {looked_up, weight}), graph.Const({0, 1})}),
                   graph.Const(1.0f), options);
      Session session = SessionOf(graph, {model.InitializeAll()});
      ASSERT_TRUE(session.RunTargets({update}).ok());
      moved[rows] = Floats((*session.Run({}, {rows ? table.shards()[0]->value : dense.value}))[0]);
    }
    ExpectNear(moved[1], moved[0], "rows");
    EXPECT_NE(moved[0][0], 0);
  }
}

TEST(Clipping, RefusesLimitsThatAreNone) {
  const Clipping wrong[] = {{Clipping::Kind::kNorm, 0},
                            {Clipping::Kind::kGlobalNorm, -1},
                            {Clipping::Kind::kValue, NAN},
                            {Clipping::Kind::kNorm, INFINITY}};
  for (const Clipping& clipping : wrong) {
    Graph graph(SharedRuntime());
    Clip(graph, {graph.Const(1.0f)}, clipping);
    EXPECT_EQ(graph.status().code(), Code::kInvalidArgument);
    EXPECT_NE(graph.status().message().find("a positive number is needed"), std::string::npos) << graph.status();
  }
  Graph graph(SharedRuntime());
  ClipByValue(graph, {graph.Const(1.0f)}, 2, 1);
  EXPECT_EQ(graph.status().code(), Code::kInvalidArgument);
  Graph empty(SharedRuntime());
  EXPECT_FALSE(ClipByGlobalNorm(empty, {Output()}, 1).norm.valid());
  EXPECT_EQ(empty.status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace tenon::train::clipping_test
