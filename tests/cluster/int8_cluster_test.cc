// SPDX-License-Identifier: Apache-2.0
// Precision int8 of a session whose steps run on a cluster: the client's session makes bytes of it, workers compute,
// and bytes go between them. Covers N6.
#include <cmath>

#include "tests/cluster/local_cluster.h"

namespace tenon::engine::int8_cluster_test {
namespace {

std::vector<float> Numbers(size_t count, uint32_t seed) {
  std::vector<float> values(count);
  for (float& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<float>(seed >> 8) * 0x1p-23f - 1;
  }
  return values;
}

// Two layers, on two tasks of a cluster, or in this process.
Output TwoLayers(Graph& g, bool on_cluster) {
  const Output x = g.Placeholder("x", DType::kFloat, {16, 32});
  Output hidden;
  {
    const auto on = g.Device(on_cluster ? "/job:worker/task:0" : "");
    hidden = g.Op("Relu", {g.Op("MatMul", {x, g.Const(Numbers(32 * 64, 1), {32, 64})}, {}, "first")}, {}, "hidden");
  }
  const auto on = g.Device(on_cluster ? "/job:worker/task:1" : "");
  return g.Op("MatMul", {hidden, g.Const(Numbers(64 * 8, 2), {64, 8})}, {}, "second");
}

constexpr char kRanges[] = "tenon calibration 1\nx:0 - -1 1\nhidden:0 Relu 0 12\n";

SessionOptions Int8() {
  SessionOptions options;
  options.precision = Precision::kInt8;
  options.calibration = kRanges;
  return options;
}

TEST(Int8OnACluster, ComputesWhatOneProcessDoes) {
  const LocalCluster cluster("loopback://int8", {{"worker", 2}});
  Graph g(TheRuntime()), alone(TheRuntime());
  const Output y = TwoLayers(g, true), same = TwoLayers(alone, false);
  ASSERT_TRUE(g.status().ok()) << g.status();
  const std::vector<float> in = Numbers(16 * 32, 3);
  const auto run = [&](const Session& session, const Output& fetch) {
    auto values = session.Run({{"x", View(in, {16, 32})}}, {fetch});
    EXPECT_TRUE(values.ok()) << values.status();
    return values.ok() ? Values<float>((*values)[0]) : std::vector<float>(16 * 8);
  };
  const Session spread = cluster.Client(g, Int8());
  const auto one = Session::Create(TheRuntime(), alone, Int8()), exact = Session::Create(TheRuntime(), alone);
  ASSERT_TRUE(one.ok() && exact.ok());
  const std::vector<float> got = run(spread, y), wanted = run(*one, same), floats = run(*exact, same);
  EXPECT_EQ(got, wanted);
  EXPECT_NE(got, floats) << "nothing was computed in 8-bit integers";
  for (size_t i = 0; i < floats.size(); ++i) EXPECT_NEAR(got[i], floats[i], 0.3f) << i;
}

}  // namespace
}  // namespace tenon::engine::int8_cluster_test
