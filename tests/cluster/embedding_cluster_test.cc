// SPDX-License-Identifier: Apache-2.0
// An embedding on two parameter servers: what travels is the rows of a step, however large the table. Covers P7, P8.
#include "tenon/train/embedding.h"

#include "tenon/train/optimizer.h"
#include "tests/cluster/local_cluster.h"
#include "tests/fakes/counting_transport.h"
#include "tests/fakes/plugin_capability.h"

namespace tenon::engine::embedding_cluster_test {
namespace {

constexpr int64_t kWidth = 64;

const tenon_test_counted& Counted() {
  static const auto* const table = static_cast<const tenon_test_counted*>(
      fakes::CapabilityOf(fakes::PluginOf(TENON_TEST_COUNTED_PLUGIN), TENON_TEST_COUNTED));
  return *table;
}

// The bytes of the second of two steps that train `count` rows of a table of `rows`.
uint64_t BytesOfAStep(const LocalCluster& cluster, int64_t rows, int64_t count) {
  Graph g(TheRuntime());
  train::Model model(g);
  const train::Embedding table(model, "table" + std::to_string(rows) + "_" + std::to_string(count), rows, kWidth,
                               train::Initializer::Constant(0.5f), {"/job:ps/task:0", "/job:ps/task:1"});
  Output loss;
  const Output ids = g.Placeholder("ids", DType::kInt64, {-1});
  {
    const auto on = g.Device("/job:worker/task:0");
    loss = g.Op("Sum", {g.Op("Square", {table.Lookup(ids)}), g.Const({0, 1})});
  }
  train::OptimizerOptions options;
  options.kind = train::OptimizerOptions::Kind::kGradientDescent;
  const Operation update = train::Minimize(model, loss, g.Const(0.25f), options);
  const Operation init = model.InitializeAll();
  EXPECT_TRUE(g.status().ok()) << g.status().message();
  const Session session = cluster.Client(g);
  EXPECT_TRUE(session.RunTargets({init}).ok());
  std::vector<int64_t> which;
  for (int64_t i = 0; i < count; ++i) which.push_back((i * 37) % rows);
  uint64_t before = 0;
  float first = 0;
  for (int step = 0; step < 2; ++step) {
    before = Counted().bytes();
    auto values = session.Run({{ids, View(which, {count})}}, {loss}, {update});
    EXPECT_TRUE(values.ok()) << values.status().message();
    const float found = values.ok() ? (*values)[0].scalar<float>() : 0;
    if (step == 0) first = found;
    else EXPECT_LT(found, first);
  }
  return Counted().bytes() - before;
}

TEST(EmbeddingCluster, SendsTheRowsOfAStepAndNotTheTable) {
  ASSERT_TRUE(TheRuntime().LoadPlugin(TENON_TEST_COUNTED_PLUGIN).ok());
  const LocalCluster cluster("counted://embedding", {{"worker", 1}, {"ps", 2}}, {TENON_TEST_COUNTED_PLUGIN});
  const uint64_t few = BytesOfAStep(cluster, 1000, 16), many = BytesOfAStep(cluster, 1000, 160),
                 large = BytesOfAStep(cluster, 100000, 16);
  const uint64_t row = kWidth * sizeof(float);
  // A row comes and its gradient goes, and its number.
  EXPECT_GE(few, 16 * 2 * row);
  EXPECT_LE(few, 16 * (2 * row + 32) + 512);
  EXPECT_NEAR(static_cast<double>(many), 10.0 * static_cast<double>(few), 0.1 * static_cast<double>(many));
  EXPECT_EQ(large, few) << "a table a hundred times as large";
}

}  // namespace
}  // namespace tenon::engine::embedding_cluster_test
