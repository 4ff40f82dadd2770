// SPDX-License-Identifier: Apache-2.0
// What a loop keeps for its gradient goes to the host's memory, so that its length is not bounded by the device's.
// Covers K8.
#include "tests/engine/engine.h"

namespace tenon::engine::long_loop_test {
namespace {

constexpr int64_t kSide = 64, kTurns = 300;         // a turn keeps at least one value of 16 KiB
constexpr int64_t kDeviceBytes = 512 << 10;         // a tenth of what the turns keep

// x <- tanh(w x), and the gradient of the sum by w.
std::vector<float> GradientOn(Runtime& runtime, const char* device) {
  Graph g(runtime);
  const auto on = g.Device(device);
  std::vector<float> numbers;
  for (int64_t i = 0; i < kSide * kSide; ++i) numbers.push_back(static_cast<float>((i * 37) % 101 - 50) / 400.0f);
  const Tensor value = *Tensor::From(numbers, Shape{kSide, kSide});
  const Output w = g.Placeholder("w", DType::kFloat, {kSide, kSide}),
               x = g.Placeholder("x", DType::kFloat, {kSide, kSide});
  const auto last = While(
      g, {g.Const<int32_t>(0), x}, {w},
      [&](const auto& v) {
        return g.Op("Less", {v[0], g.Const(static_cast<int32_t>(kTurns))});
      },
      [&](const auto& v) {
        return std::vector<Output>{g.Op("AddV2", {v[0], g.Const<int32_t>(1)}),
                                   g.Op("Tanh", {g.Op("MatMul", {v[2], v[1]})})};
      });
  const Output sum = g.Op("Sum", {last[1], g.Const<int32_t>({0, 1})});
  const std::vector<Gradient> gradients = g.Gradients({sum}, {w});
  EXPECT_TRUE(g.status().ok()) << g.status().message();
  if (!g.status().ok()) return {};
  auto session = Session::Create(runtime, g);
  EXPECT_TRUE(session.ok()) << session.status().message();
  auto values = session->Run({{w, value}, {x, value}}, {gradients[0].dense});
  EXPECT_TRUE(values.ok()) << values.status().message();
  return values.ok() ? Values<float>((*values)[0]) : std::vector<float>();
}

TEST(LongLoops, KeepForTheirGradientMoreThanTheDeviceHas) {
  RuntimeOptions options;
  options.plugin_options = {{"tenon.tpu_sim", "devices", "1"},
                            {"tenon.tpu_sim", "precision", "exact"},
                            {"tenon.tpu_sim", "memory_bytes", std::to_string(kDeviceBytes)}};
  auto runtime = Runtime::Create(options);
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  const std::vector<float> wanted = GradientOn(*runtime, "/device:CPU:0"),
                           found = GradientOn(*runtime, "/device:TPU:0");
  ASSERT_EQ(wanted.size(), static_cast<size_t>(kSide * kSide));
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(found[i], wanted[i], 1e-5 * (1 + std::abs(wanted[i]))) << i;
}

}  // namespace
}  // namespace tenon::engine::long_loop_test
