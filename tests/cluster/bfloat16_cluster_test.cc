// SPDX-License-Identifier: Apache-2.0
// Precision bfloat16 of a session whose steps run on a cluster: the client's session says what computes in 16 bits,
// workers compute it, and 16 bits go between them. Covers N4.
#include <cmath>

#include "tests/cluster/local_cluster.h"
#include "tests/device/gpu.h"

namespace tenon::engine {
namespace {

std::vector<float> Numbers(size_t count, uint32_t seed) {
  std::vector<float> values(count);
  for (float& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<float>(seed >> 8) * 0x1p-23f - 1;
  }
  return values;
}

constexpr int64_t kSide = 128;

// Two layers, on two tasks of a cluster, or in this process; the second's weights are a variable.
struct TwoLayers {
  // device: of which type each layer's is, as in names; empty: the CPU's.
  TwoLayers(Graph& g, bool on_cluster, const std::string& device) {
    x = g.Placeholder("x", DType::kFloat, {kSide, kSide});
    Output hidden;
    {
      const auto on = g.Device((on_cluster ? "/job:worker/task:0" : "") + device);
      hidden = g.Op("Relu", {g.Op("MatMul", {x, g.Const(Numbers(kSide * kSide, 1), {kSide, kSide})}, {}, "first")}, {},
                    "hidden");
    }
    const auto on = g.Device((on_cluster ? "/job:worker/task:1" : "") + device);
    const Output weights =
        g.Op("VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", Shape{kSide, kSide}}}, "weights");
    assign = g.AddNode("AssignVariableOp", {weights, g.Const(Numbers(kSide * kSide, 2), {kSide, kSide})}, {}, "assign");
    y = g.Op("MatMul", {hidden, g.Op("ReadVariableOp", {weights}, {{"dtype", DType::kFloat}})}, {}, "second");
  }
  Output x, y;
  Operation assign;
};

// runtime: of the client and of the process that computes alone.
void ExpectWhatOneProcessComputes(const LocalCluster& cluster, const Runtime& runtime, const std::string& device) {
  Graph g(runtime), alone(runtime);
  const TwoLayers there(g, true, device), here(alone, false, device);
  ASSERT_TRUE(g.status().ok()) << g.status();
  const std::vector<float> in = Numbers(kSide * kSide, 3);
  const auto run = [&](const Session& session, const TwoLayers& layers, bool* computes) {
    EXPECT_TRUE(session.RunTargets({layers.assign}).ok());
    const auto callable = session.Prepare({layers.x}, {layers.y});
    EXPECT_TRUE(callable.ok()) << callable.status();
    if (!callable.ok()) return std::vector<float>(kSide * kSide);
    const auto values = callable->Run({View(in, {kSide, kSide})});
    EXPECT_TRUE(values.ok()) << values.status();
    if (const auto explanation = callable->Explain(); computes != nullptr && explanation.ok())
      *computes = explanation->find("in bfloat16") != std::string::npos;
    return values.ok() ? Values<float>((*values)[0]) : std::vector<float>(kSide * kSide);
  };
  SessionOptions options;
  options.precision = Precision::kAllowBfloat16;
  const Session spread = cluster.Client(g, options, runtime);
  const auto one = Session::Create(runtime, alone, options), exact = Session::Create(runtime, alone);
  ASSERT_TRUE(one.ok() && exact.ok());
  bool computes = false;
  const std::vector<float> wanted = run(*one, here, &computes), got = run(spread, there, nullptr),
                           floats = run(*exact, here, nullptr);
  EXPECT_EQ(got, wanted);
  EXPECT_TRUE(computes || device.empty()) << "a GPU always may";
  EXPECT_EQ(got != floats, computes) << "where one process computes in bfloat16, the cluster does";
  double apart = 0, size = 0;
  for (size_t i = 0; i < floats.size(); ++i) apart += std::pow(got[i] - floats[i], 2), size += std::pow(floats[i], 2);
  EXPECT_LT(std::sqrt(apart / size), 0x1p-9 * std::sqrt(5))
      << "further than the roundings of two inputs, two weights and an image between explain";
}

TEST(Bfloat16OnACluster, ComputesWhatOneProcessDoes) {
  ExpectWhatOneProcessComputes(LocalCluster("loopback://bfloat16", {{"worker", 2}}), TheRuntime(), "");
}

// Each task has a GPU, which keeps in 16 bits all that may be.
TEST(Bfloat16OnACluster, OfGpusComputesWhatOneProcessDoes) {
  if (const std::string why = device_test::WhyNoGpu(); !why.empty()) GTEST_SKIP() << why;
  RuntimeOptions options = device_test::GpuOptions();
  options.plugin_options.push_back({device_test::GpuPlugin(), "storage", "always"});
  const auto runtime = Runtime::Create(options);
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  ExpectWhatOneProcessComputes(
      LocalCluster("loopback://bfloat16_gpus", {{"worker", 2}}, options.plugins, 0, options.plugin_options), *runtime,
      device_test::kGpu);
}

}  // namespace
}  // namespace tenon::engine
