// SPDX-License-Identifier: Apache-2.0
// Accumulators, staging areas and barriers between steps of a session: steps wait for one another, and are cancelled.
// Covers F5, F6, M4, M7.
#include <thread>

#include "tests/engine/engine.h"

namespace tenon::engine::handover_test {
namespace {

Session OpenOf(const Graph& g) {
  auto session = Session::Create(TheRuntime(), g);
  EXPECT_TRUE(session.ok()) << session.status().message();
  return std::move(*session);
}

std::vector<float> Fetched(const Session& session, const Output& output) {
  auto values = session.Run({}, {output});
  EXPECT_TRUE(values.ok()) << values.status().message();
  return values.ok() ? Values<float>((*values)[0]) : std::vector<float>{};
}

TEST(HandoverSteps, ATakeWaitsForTheGradientsOfOtherSteps) {
  for (const std::string prefix : {"", "Resource"}) {
    Graph g(TheRuntime());
    const Attrs dtype = {{"dtype", DType::kFloat}};
    const Output handle = g.Op(prefix + "ConditionalAccumulator", {}, {{"dtype", DType::kFloat}, {"shape", Shape{2}}});
    const Output step = g.Placeholder("step", DType::kInt64, Shape()),
                 gradient = g.Placeholder("gradient", DType::kFloat, {2});
    const Operation apply = g.AddNode(prefix + "AccumulatorApplyGradient", {handle, step, gradient}, dtype);
    const Output average = g.Op(prefix + "AccumulatorTakeGradient", {handle, g.Const(int32_t{3})}, dtype);
    const Session session = OpenOf(g);
    const auto give = [&](int64_t at, const std::vector<float>& values) {
      EXPECT_TRUE(session.Run({{step, *Tensor::Scalar(at)}, {gradient, View(values, {2})}}, {}, {apply}).ok());
    };
    std::vector<float> taken;
    std::thread waiting([&] { taken = Fetched(session, average); });
    give(0, {1, 2});
    give(0, {2, 4});
    give(0, {6, 9});
    waiting.join();
    EXPECT_EQ(taken, (std::vector<float>{3, 5}));
    RunOptions soon;
    soon.timeout = std::chrono::milliseconds(20);
    EXPECT_EQ(session.Run({}, {average}, {}, soon).status().code(), Code::kDeadlineExceeded);
    for (int i = 0; i < 2; ++i) give(0, {9, 9});  // stale
    for (int i = 0; i < 3; ++i) give(1, {4, 8});
    EXPECT_EQ(Fetched(session, average), (std::vector<float>{4, 8})) << "the take that was given up took nothing";
  }
}

TEST(HandoverSteps, AStageOfOnePlaceHandsOverInOrder) {
  Graph g(TheRuntime());
  const Attrs area = {{"capacity", int64_t{1}}, {"dtypes", std::vector<DType>{DType::kFloat}}, {"shared_name", "area"}};
  const Output x = g.Placeholder("x", DType::kFloat, {1});
  const Operation stage = g.AddNode("Stage", {x}, {{"capacity", int64_t{1}}, {"shared_name", "area"}});
  const Output out = g.Op("Unstage", {}, area);
  const Session session = OpenOf(g);
  std::thread putting([&] {
    for (int i = 0; i < 200; ++i) {
      const std::vector<float> value = {static_cast<float>(i)};
      EXPECT_TRUE(session.Run({{x, View(value, {1})}}, {}, {stage}).ok());
    }
  });
  for (int i = 0; i < 200; ++i) EXPECT_EQ(Fetched(session, out), std::vector<float>{static_cast<float>(i)});
  putting.join();
}

TEST(HandoverSteps, ABarrierEndsWhatWaitsWithItsSession) {
  Graph g(TheRuntime());
  const Attrs types = {{"component_types", std::vector<DType>{DType::kFloat}}};
  const Output handle = g.Op(
      "Barrier", {}, {{"component_types", std::vector<DType>{DType::kFloat}}, {"shapes", std::vector<Shape>{Shape()}}});
  const Operation one = g.AddNode("BarrierTakeMany", {handle, g.Const(int32_t{1})}, types),
                  two = g.AddNode("BarrierTakeMany", {handle, g.Const(int32_t{2})}, types);
  const Output keys = g.Placeholder("keys", DType::kString, {1}), values = g.Placeholder("values", DType::kFloat, {1});
  const Operation insert = g.AddNode("BarrierInsertMany", {handle, keys, values}, {{"component_index", int64_t{0}}});
  const Output ready = g.Op("BarrierReadySize", {handle});
  auto session = std::make_unique<Session>(OpenOf(g));
  const auto put = [&](float value) {
    const std::vector<float> row = {value};
    EXPECT_TRUE(session->Run({{keys, *Tensor::Strings({"a"})}, {values, View(row, {1})}}, {}, {insert}).ok());
  };
  auto cancellation = Cancellation::Create();
  RunOptions cancellable;
  cancellable.cancellation = &*cancellation;
  std::thread cancelled(
      [&] { EXPECT_EQ(session->Run({}, {two.output(2)}, {}, cancellable).status().code(), Code::kCancelled); });
  cancellation->Cancel();
  cancelled.join();
  put(7);
  EXPECT_EQ(Fetched(*session, one.output(2)), std::vector<float>{7});
  std::thread left(
      [&, owned = session.get()] { EXPECT_EQ(owned->Run({}, {two.output(2)}).status().code(), Code::kCancelled); });
  // The step is inside when it has taken the one that there is.
  put(8);
  while ((*session->Run({}, {ready}))[0].scalar<int32_t>() != 0) std::this_thread::yield();
  session.reset();
  left.join();
}

}  // namespace
}  // namespace tenon::engine::handover_test
