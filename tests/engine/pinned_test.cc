// SPDX-License-Identifier: Apache-2.0
// Pinned tensors: memory of the caller's that a GPU's copies reach without a stop, fed in many steps and run into.
// Covers E10.
#include <algorithm>
#include <thread>

#include "tests/engine/pinned.h"

namespace tenon::engine::pinned_test {
namespace {

class PinnedTensors : public testing::TestWithParam<uint32_t> {
 protected:
  void SetUp() override { (void)TheCopies().Take(); }
  static SessionOptions Options() {
    SessionOptions options;
    options.executor = GetParam();
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(Executors, PinnedTensors, testing::Values(TENON_EXECUTOR_AUTO, TENON_EXECUTOR_DYNAMIC));

TEST_P(PinnedTensors, AreFedWithoutAStop) {
  const Doubling graph(Gpus());
  const Session session = Open(Gpus(), graph.g, Options());
  auto step = session.Prepare({graph.x}, {graph.last});
  ASSERT_TRUE(step.ok()) << step.status().message();
  const Tensor pinned = Pinned(session);
  for (int i = 0; i < 4; ++i) {
    Fill(pinned.mutable_data<float>(), static_cast<float>(i));
    const auto values = step->Run({pinned});
    ASSERT_TRUE(values.ok()) << values.status().message();
    EXPECT_EQ(Values<float>((*values)[0]), std::vector<float>{2 * (static_cast<float>(i) + 3)});
    ExpectCopies(1, 0, "pinned");
  }
  const std::vector<float> pageable(kCount, 4);
  ASSERT_TRUE(step->Run({View(pageable, {kCount})}).ok());
  ExpectCopies(0, 4, "pageable");
}

TEST_P(PinnedTensors, AreRunInto) {
  const Doubling graph(Gpus());
  const Session session = Open(Gpus(), graph.g, Options());
  auto step = session.Prepare({graph.x}, {graph.y});
  ASSERT_TRUE(step.ok()) << step.status().message();
  const Tensor from = Pinned(session), to = Pinned(session);
  const bool straight = GetParam() == TENON_EXECUTOR_AUTO;
  for (int i = 0; i < 4; ++i) {
    Fill(from.mutable_data<float>(), static_cast<float>(i));
    const Status status = RunInto(*step, *from.view(), *to.view());
    ASSERT_TRUE(status.ok()) << status.message();
    ExpectDoubled(to.data<float>(), static_cast<float>(i));
    ExpectCopies(straight ? 2 : 1, straight ? 0 : 4, "pinned");
  }
  // Memory that is not, and the pinned one again.
  std::vector<float> pageable(kCount);
  ASSERT_TRUE(RunInto(*step, *from.view(), View(pageable, {kCount}).c_view()).ok());
  ExpectDoubled(pageable, 3);
  ExpectCopies(1, 4, "pageable");
  Fill(from.mutable_data<float>(), 9);
  ASSERT_TRUE(RunInto(*step, *from.view(), *to.view()).ok());
  ExpectDoubled(to.data<float>(), 9);
  ExpectDoubled(pageable, 3);
}

TEST_P(PinnedTensors, AreAsGoodInPart) {
  const Doubling graph(Gpus());
  const Session session = Open(Gpus(), graph.g, Options());
  auto step = session.Prepare({graph.x}, {graph.y});
  ASSERT_TRUE(step.ok()) << step.status().message();
  const Tensor both = Pinned(session, 2 * kCount + 16);
  const std::span<float> values = both.mutable_data<float>();
  Fill(values, 0);
  Fill(values.first(kCount), 5);
  const View from(std::span<const float>(values.data(), kCount), {kCount}),
      to(std::span<const float>(values.data() + kCount + 16, kCount), {kCount});
  (void)TheCopies().Take();
  ASSERT_TRUE(RunInto(*step, from.c_view(), to.c_view()).ok());
  ExpectDoubled(values.last(kCount), 5);
  if (GetParam() == TENON_EXECUTOR_AUTO) ExpectCopies(2, 0, "parts");
  const std::vector<float> between(values.begin() + kCount, values.begin() + kCount + 16);
  for (size_t i = 0; i < between.size(); ++i)
    EXPECT_EQ(between[i], static_cast<float>((kCount + i) % 7)) << "what lies between was written";
  // Into what is fed; and half of it.
  ASSERT_TRUE(RunInto(*step, from.c_view(), from.c_view()).ok());
  ExpectDoubled(values.first(kCount), 5);
  Fill(values.first(kCount), 2);
  const View overlapping(std::span<const float>(values.data() + kCount / 2, kCount), {kCount});
  ASSERT_TRUE(RunInto(*step, from.c_view(), overlapping.c_view()).ok());
  ExpectDoubled(std::span<const float>(values.data() + kCount / 2, kCount), 2);
}

TEST_P(PinnedTensors, AreReadOnTheHostToo) {
  Doubling graph(Gpus());
  Output sum;
  {
    const auto on_host = graph.g.Device("/device:CPU:0");
    sum = graph.g.Op("Neg", {graph.y}, {}, "negative");
  }
  const Session session = Open(Gpus(), graph.g, Options());
  auto step = session.Prepare({graph.x}, {graph.y, sum});
  ASSERT_TRUE(step.ok()) << step.status().message();
  const Tensor from = Pinned(session), to = Pinned(session), negative = Pinned(session);
  Fill(from.mutable_data<float>(), 1);
  const tenon_tensor_view* const feeds[] = {from.view()};
  const tenon_tensor_view fetches[] = {*to.view(), *negative.view()};
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(step->RunInto(feeds, fetches).ok());
    ExpectDoubled(to.data<float>(), 1);
    for (const size_t at : {size_t{0}, size_t{kCount - 1}})
      EXPECT_EQ(negative.data<float>()[at], -to.data<float>()[at]);
  }
}

// What a step keeps of a feed is not the feed's memory, which is written again.
TEST_P(PinnedTensors, WhatStepsKeepOfThemIsACopy) {
  Graph g(Gpus());
  const auto on_host = g.Device("/device:CPU:0");
  const Output v = g.Op("VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", Shape{8}}, {"shared_name", "v"}});
  const Output x = g.Placeholder("x", DType::kFloat, Shape{8});
  const Operation assign = g.AddNode("AssignVariableOp", {v, x}, {}, "assign");
  const Output read = g.Op("ReadVariableOp", {v}, {{"dtype", DType::kFloat}}, "read");
  const Output queue =
      g.Op("FIFOQueueV2", {},
           {{"component_types", std::vector<DType>{DType::kFloat}}, {"shapes", std::vector<Shape>{Shape{8}}}}, "queue");
  const Operation enqueue = g.AddNode("QueueEnqueueV2", {queue, x}, {}, "enqueue");
  const Output taken =
      g.Op("QueueDequeueV2", {queue}, {{"component_types", std::vector<DType>{DType::kFloat}}}, "taken");
  const Session session = Open(Gpus(), g, Options());
  for (const char* device : {"", "CPU:0", "GPU:0"}) {
    const Tensor pinned = Pinned(session, 8, device);
    Fill(pinned.mutable_data<float>(), 1);
    const std::vector<float> given = Values<float>(pinned);
    auto fetched = session.Run({{x, pinned}}, {x}, {assign, enqueue});
    ASSERT_TRUE(fetched.ok()) << fetched.status().message();
    Fill(pinned.mutable_data<float>(), 100);
    EXPECT_EQ(Values<float>((*fetched)[0]), given) << device;
    auto kept = session.Run({}, {read, taken});
    ASSERT_TRUE(kept.ok()) << kept.status().message();
    EXPECT_EQ(Values<float>((*kept)[0]), given) << device;
    EXPECT_EQ(Values<float>((*kept)[1]), given) << device;
  }
}

// A step without a fetch returns before the GPU is done with it, and has read what it was fed.
TEST_P(PinnedTensors, MayBeWrittenWhenAStepThatEndsLaterReturns) {
  Graph g(Gpus());
  const Output v =
      g.Op("VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", Shape{kCount}}, {"shared_name", "sums"}});
  const Output x = g.Placeholder("x", DType::kFloat, Shape{kCount});
  const Operation begin = g.AddNode("AssignVariableOp", {v, g.Op("ZerosLike", {x})}, {}, "begin"),
                  add = g.AddNode("AssignAddVariableOp", {v, g.Op("AddV2", {x, x})}, {}, "add");
  const Output read = g.Op("ReadVariableOp", {v}, {{"dtype", DType::kFloat}}, "read");
  const Session session = Open(Gpus(), g, Options());
  const Tensor pinned = Pinned(session);
  ASSERT_TRUE(session.RunTargets({begin}, {{x, pinned}}).ok());
  auto step = session.Prepare({x}, {}, {add});
  ASSERT_TRUE(step.ok()) << step.status().message();
  constexpr int kSteps = 12;
  for (int i = 0; i < kSteps; ++i) {
    Fill(pinned.mutable_data<float>(), static_cast<float>(i));
    ASSERT_TRUE(step->Run({pinned}).ok());
    std::ranges::fill(pinned.mutable_data<float>(), -1e6f);
  }
  auto sums = session.Run({}, {read});
  ASSERT_TRUE(sums.ok()) << sums.status().message();
  const std::span<const float> found = (*sums)[0].data<float>();
  for (size_t i = 0; i < found.size(); ++i)
    ASSERT_EQ(found[i], 2.0f * (kSteps * (kSteps - 1) / 2 + kSteps * static_cast<float>(i % 7))) << i;
}

TEST_P(PinnedTensors, OneValueGoesIntoTwoAndUnderAnotherShape) {
  Doubling graph(Gpus());
  Output square;
  {
    const auto on_host = graph.g.Device("/device:CPU:0");
    square = graph.g.Op("Reshape", {graph.y, graph.g.Const({int32_t{1024}, int32_t{-1}})}, {}, "square");
  }
  const Session session = Open(Gpus(), graph.g, Options());
  const Tensor from = Pinned(session), one = Pinned(session), two = Pinned(session);
  const auto wide = session.PinnedTensor(DType::kFloat, {1024, kCount / 1024}, kGpu);
  ASSERT_TRUE(wide.ok()) << wide.status().message();
  const std::vector<std::pair<std::vector<Name>, std::vector<const Tensor*>>> ways = {
      {{graph.y, graph.y}, {&one, &two}},
      {{square}, {&*wide}},
      {{graph.y, square}, {&one, &*wide}},
      {{square, graph.y, graph.y}, {&*wide, &one, &two}}};
  float first = 0;
  for (const auto& [fetches, places] : ways) {
    auto step = session.Prepare({graph.x}, fetches);
    ASSERT_TRUE(step.ok()) << step.status().message();
    std::vector<tenon_tensor_view> into;
    for (const Tensor* place : places) into.push_back(*place->view());
    for (int i = 0; i < 3; ++i) {
      Fill(from.mutable_data<float>(), ++first);
      for (const Tensor* place : places) Fill(place->mutable_data<float>(), -5);
      const tenon_tensor_view* const feeds[] = {from.view()};
      const Status status = step->RunInto(feeds, into.data());
      ASSERT_TRUE(status.ok()) << status.message();
      for (const Tensor* place : places) ExpectDoubled(place->data<float>(), first);
    }
  }
}

TEST_P(PinnedTensors, OfManyThreads) {
  const Doubling graph(Gpus(), {4096});
  const Session session = Open(Gpus(), graph.g, Options());
  auto step = session.Prepare({graph.x}, {graph.y});
  ASSERT_TRUE(step.ok()) << step.status().message();
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 12; ++i) {
        const Tensor from = Pinned(session, 4096, i % 3 == 2 ? "" : kGpu), to = Pinned(session, 4096 + 64 * t);
        Fill(from.mutable_data<float>(), static_cast<float>(t + i));
        const View into(to.data<float>().first(4096), {4096});
        const Status status = RunInto(*step, *from.view(), into.c_view());
        ASSERT_TRUE(status.ok()) << status.message();
        ExpectDoubled(to.data<float>().first(4096), static_cast<float>(t + i));
      }
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tenon::engine::pinned_test
