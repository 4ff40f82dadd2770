// SPDX-License-Identifier: Apache-2.0
// Losses over many classes on two parameter servers: what travels in a step does not grow with the classes. Covers P9,
// P10.
#include <cmath>

#include "tenon/train/optimizer.h"
#include "tenon/train/sampled_loss.h"
#include "tenon/train/sharded_softmax.h"
#include "tests/cluster/local_cluster.h"
#include "tests/fakes/counting_transport.h"
#include "tests/fakes/plugin_capability.h"

namespace tenon::engine::classes_cluster_test {
namespace {

constexpr int64_t kWidth = 16, kBatch = 4;

const tenon_test_counted& Counted() {
  static const auto* const table = static_cast<const tenon_test_counted*>(
      fakes::CapabilityOf(fakes::PluginOf(TENON_TEST_COUNTED_PLUGIN), TENON_TEST_COUNTED));
  return *table;
}

// The bytes of the last of some steps that train the weights of so many classes on the servers, and inputs on the
// worker.
uint64_t BytesOfAStep(const LocalCluster& cluster, int64_t classes, bool sampled) {
  Graph g(TheRuntime());
  train::Model model(g);
  const std::string name =
      (sampled ? "sampled" : "whole") + std::to_string(100000 + classes);  // as long for all: names travel too
  const train::ClassShards shards =
      train::MakeClassShards(model, name, classes, kWidth, train::Initializer::Constant(0),
                             {{"/job:ps/task:0", "/job:ps/task:1"}, train::Partition::kDiv, sampled});
  const train::Variable& x =
      model.Weight(name + "_x", {kBatch, kWidth}, train::Initializer::TruncatedNormal(1), "/job:worker/task:0");
  const Output labels = g.Const(std::vector<int64_t>{0, classes / 2 - 1, classes / 2, classes - 1}, {kBatch});
  Output loss;
  {
    const auto on = g.Device("/job:worker/task:0");
    train::SampledLossOptions options;
    options.candidates =
        train::Candidates{g.Const(std::vector<int64_t>{1, classes - 2}, {2}),
                          g.Const(std::vector<float>(kBatch, 0.5f), {kBatch, 1}), g.Const({0.5f, 0.5f})};
    const Output losses = sampled ? train::SampledSoftmaxLoss(g, shards, x.value, labels, options)
                                  : train::ShardedSoftmaxLoss(g, shards, x.value, labels);
    loss = g.Op("Mean", {losses, g.Const({0})});
  }
  train::OptimizerOptions options;
  options.kind = train::OptimizerOptions::Kind::kGradientDescent;
  const Operation update = train::Minimize(model, loss, g.Const(0.5f), options), init = model.InitializeAll();
  EXPECT_TRUE(g.status().ok()) << g.status();
  const Session session = cluster.Client(g);
  EXPECT_TRUE(session.RunTargets({init}).ok());
  uint64_t before = 0;
  float first = 0, last = 0;
  for (int step = 0; step < 6; ++step) {
    before = Counted().bytes();
    const auto values = session.Run({}, {loss}, {update});
    EXPECT_TRUE(values.ok()) << values.status();
    last = values.ok() ? (*values)[0].scalar<float>() : NAN;
    if (step == 0) first = last;
  }
  const uint64_t bytes = Counted().bytes() - before;
  EXPECT_NEAR(first, std::log(sampled ? 3.0f : static_cast<float>(classes)), 1e-3f);
  EXPECT_LT(last, first);
  return bytes;
}

TEST(ClassesCluster, SendsNeitherWeightsNorLogits) {
  ASSERT_TRUE(TheRuntime().LoadPlugin(TENON_TEST_COUNTED_PLUGIN).ok());
  const LocalCluster cluster("counted://classes", {{"worker", 1}, {"ps", 2}}, {TENON_TEST_COUNTED_PLUGIN});
  const uint64_t few = BytesOfAStep(cluster, 40, false), many = BytesOfAStep(cluster, 40000, false);
  // A thousand times as many classes; which of the small values go where is the placer's.
  EXPECT_NEAR(static_cast<double>(few), static_cast<double>(many), 200);
  // To each server the inputs and back their gradient; and some numbers for each example.
  EXPECT_GE(many, 2 * 2 * kBatch * kWidth * sizeof(float));
  EXPECT_LE(many, 2 * 2 * kBatch * kWidth * sizeof(float) + 4096);
  // Rows of labels and samples there, and their gradients back.
  const uint64_t sampled = BytesOfAStep(cluster, 40000, true);
  EXPECT_EQ(sampled, BytesOfAStep(cluster, 40, true));
  EXPECT_LE(sampled, 2 * (kBatch + 2) * (kWidth + 1) * sizeof(float) + 4096);
}

}  // namespace
}  // namespace tenon::engine::classes_cluster_test
