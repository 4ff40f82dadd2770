// SPDX-License-Identifier: Apache-2.0
// Work of a GPU's queue that is the same in every step is launched as one captured piece, and gives the same.
#include "tests/device/gpu.h"
#include "tests/engine/engine.h"

namespace tenon::engine {
namespace {

Runtime& Gpus() {
  static Runtime* const runtime = [] {
    auto made = Runtime::Create(device_test::GpuOptions());
    if (!made.ok()) {
      ADD_FAILURE() << made.status().message();
      std::abort();  // NOLINT: nothing can be tested without a runtime
    }
    return new Runtime(std::move(*made));
  }();
  return *runtime;
}

Session MakeSession(const Graph& graph, bool capture = true) {
  SessionOptions options;
  options.device = device_test::kGpu;
  options.capture = capture;
  options.compile = false;  // kernel by kernel: a chain would be one piece of work anyway
  auto session = Session::Create(Gpus(), graph, options);
  if (!session.ok()) {
    ADD_FAILURE() << session.status().message();
    std::abort();  // NOLINT
  }
  return std::move(*session);
}

uint64_t Captured(const Session& session) {
  auto metrics = session.Metrics();
  EXPECT_TRUE(metrics.ok());
  return metrics->captured_launches;
}

std::vector<float> RunOnce(const Session& session, const Output& x, std::vector<float> values, const Output& y) {
  auto out = session.Run({{x, *Tensor::From(values, Shape{static_cast<int64_t>(values.size())})}}, {y});
  EXPECT_TRUE(out.ok()) << out.status().message();
  return out.ok() ? Values<float>((*out)[0]) : std::vector<float>();
}

TEST(Capture, GivesWhatTheKernelsGiveStepAfterStep) {
  Graph g(Gpus());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{4});
  Output y = x;
  for (int i = 0; i < 20; ++i) y = g.Op("AddV2", {y, g.Op("Square", {x})});
  const Session with = MakeSession(g), without = MakeSession(g, false);
  for (int step = 0; step < 6; ++step) {
    const std::vector<float> values = {1.0f * step, 2, -3, 0.5f};
    const std::vector<float> got = RunOnce(with, x, values, y);
    EXPECT_EQ(got, RunOnce(without, x, values, y)) << step;
    EXPECT_EQ(got[1], 2 + 20 * 4.0f);
  }
  EXPECT_EQ(Captured(with), 4u);  // all steps but the first two
  EXPECT_EQ(Captured(without), 0u);
}

// Also where the engine asks in between whether the step was cancelled.
TEST(Capture, OfManyNodesIsOneLaunch) {
  Graph g(Gpus());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{1});
  Output y = x;
  for (int i = 0; i < 300; ++i) y = g.Op("Neg", {y});
  const Session session = MakeSession(g);
  for (int step = 0; step < 4; ++step) EXPECT_EQ(RunOnce(session, x, {2}, y), (std::vector<float>{2}));
  EXPECT_EQ(Captured(session), 2u);  // one a step, but for the first two
}

// Every shape is a program of its own, and every concurrent step an instance of its own.
TEST(Capture, IsOfOneBinding) {
  Graph g(Gpus());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{-1});
  const Output y = g.Op("Mul", {g.Op("Neg", {x}), g.Op("Square", {x})});
  const Session session = MakeSession(g);
  for (int step = 0; step < 8; ++step) {
    EXPECT_EQ(RunOnce(session, x, {2, 3}, y), (std::vector<float>{-8, -27}));
    EXPECT_EQ(RunOnce(session, x, {1, 2, 4}, y), (std::vector<float>{-1, -8, -64}));
  }
  EXPECT_GE(Captured(session), 12u);
}

TEST(Capture, FaultsOfDataFailTheirStepAlone) {
  Graph g(Gpus());
  const Output x = g.Placeholder("x", DType::kInt32, Shape{3});
  const Output twice = g.Op("AddV2", {x, x});
  const Output y = g.Op("FloorDiv", {twice, x}, {}, "quotient");
  const Session session = MakeSession(g);
  const auto run = [&](std::vector<int32_t> values) { return session.Run({{x, *Tensor::From(values, Shape{3})}}, {y}); };
  for (int step = 0; step < 4; ++step) ASSERT_TRUE(run({1, 2, 3}).ok());
  EXPECT_GE(Captured(session), 2u);
  const auto bad = run({1, 0, 3});
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(bad.status().message().find("node 'quotient' (FloorDiv) on GPU:0: Integer division by zero (element 1)"), std::string::npos)
      << bad.status().message();
  const auto good = run({3, 2, 1});
  ASSERT_TRUE(good.ok()) << good.status().message();
  EXPECT_EQ(Values<int32_t>((*good)[0]), (std::vector<int32_t>{2, 2, 2}));
}

// Node by node, so that each is told: by the host, and by the device's own clock of its queue.
TEST(Capture, IsNotOfATracedStep) {
  Graph g(Gpus());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{4});
  const Output y = g.Op("Neg", {g.Op("Square", {x}, {}, "squared")}, {}, "negative");
  const Session session = MakeSession(g);
  for (int step = 0; step < 5; ++step) {
    std::string trace;
    RunOptions run;
    run.trace = &trace;
    ASSERT_TRUE(session.Run({{x, *Tensor::From(std::vector<float>{1, 2, 3, 4}, Shape{4})}}, {y}, {}, run).ok());
    for (const char* name : {"squared", "negative"}) {
      int told = 0;
      for (size_t at = 0; (at = trace.find(std::string("\"") + name + "\"", at)) != std::string::npos; ++at) ++told;
      EXPECT_GE(told, 2) << name << " in " << trace;
    }
  }
  EXPECT_EQ(Captured(session), 0u);
}

}  // namespace
}  // namespace tenon::engine
