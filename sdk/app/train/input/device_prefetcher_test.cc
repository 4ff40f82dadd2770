// SPDX-License-Identifier: Apache-2.0
// Batches that come into a device's memory ahead: all of them, in their order, failures once; nobody waits for ever.
// Covers M4.
#include "tenon/train/device_prefetcher.h"

#include <gtest/gtest.h>

#include <chrono>

#include "tenon/train/dataset.h"
#include "tests/fakes/training_golden.h"

namespace tenon::train::device_prefetcher_test {
namespace {

constexpr const char* kTpu = "/device:TPU:0";

using Outputs = std::vector<Output>;

const Runtime& OneTpu() {
  static const Runtime kRuntime = [] {
    host::RuntimeOptions options;
    options.plugin_options.push_back({"tenon.tpu_sim", "devices", "1"});
    return *Runtime::Create(options);
  }();
  return kRuntime;
}
Session SessionFor(const Graph& graph) {
  EXPECT_TRUE(graph.status().ok()) << graph.status();
  return *Session::Create(OneTpu(), graph);
}

// A pass, its batches' sums with "|" between, as a step computes them of what it is fed on the device.
std::string Pass(DevicePrefetcher* batches, const host::Callable& step) {
  std::string said;
  for (int n = 0; n < 50; ++n) {
    const auto batch = batches->Next();
    if (!batch.ok()) return said + std::string(host::CodeName(batch.status().code()));
    const auto sum = step.Run({View((*batch)[0])});
    EXPECT_TRUE(sum.ok()) << sum.status();
    if (!sum.ok()) return said;
    said += std::to_string(static_cast<int64_t>((*sum)[0].scalar<float>())) + "|";
  }
  return said + "...";
}

Dataset Floats(Graph& graph, int64_t many) {
  return Dataset::Range(graph, 0, many).Map([](Graph& g, const Outputs& x) {
    return g.Op("Cast", {x[0]}, {{"DstT", DType::kFloat}});
  });
}

TEST(DevicePrefetcher, GivesAllBatchesInTheirOrderAndThenTheEnd) {
  Graph graph(OneTpu());
  const DatasetIterator input = Floats(graph, 7).Batch(2).MakeIterator("input");
  const Output sum = graph.Op("Sum", {graph.Op("Square", {input.next[0]}), graph.Const({0})}, {}, "sum");
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  const Session session = SessionFor(graph);
  for (const size_t depth : {1u, 3u}) {
    const auto batches = DevicePrefetcher::Create(session, input.next, kTpu, depth);
    ASSERT_TRUE(batches.ok()) << batches.status();
    EXPECT_EQ((*batches)->devices(), std::vector<std::string>{kTpu});
    const auto step = session.Prepare({Name(input.next[0])}, {Name(sum)}, {}, (*batches)->devices());
    ASSERT_TRUE(step.ok()) << step.status();
    for (int pass = 0; pass < 2; ++pass) {
      ASSERT_TRUE(session.RunTargets({Name(input.begin)}).ok());
      EXPECT_EQ(Pass(batches->get(), *step), "1|13|41|36|OUT_OF_RANGE") << depth;
    }
  }
}

// Of known shapes, which come by way of pinned memory: each has its own values, whoever keeps those before.
TEST(DevicePrefetcher, BatchesOfOneSizeKeepTheirValues) {
  Graph graph(OneTpu());
  const DatasetIterator input = Dataset::Zip({Floats(graph, 9), Floats(graph, 9)}).Batch(2, true).MakeIterator("input");
  ASSERT_TRUE(input.next[0].shape().fully_known()) << input.next[0].shape().ToString();
  const Session session = SessionFor(graph);
  auto batches = DevicePrefetcher::Create(session, input.next, kTpu, 3);
  ASSERT_TRUE(batches.ok()) << batches.status();
  for (int pass = 0; pass < 2; ++pass) {
    ASSERT_TRUE(session.RunTargets({Name(input.begin)}).ok());
    std::vector<std::vector<Tensor>> all;
    for (;;) {
      auto next = (*batches)->Next();
      if (!next.ok()) {
        EXPECT_EQ(next.status().code(), Code::kOutOfRange) << next.status();
        break;
      }
      all.push_back(*std::move(next));
    }
    ASSERT_EQ(all.size(), 4u);
    for (size_t i = 0; i < all.size(); ++i)
      for (const Tensor& value : all[i]) {
        EXPECT_FALSE(value.on_host());
        const auto here = session.CopyTensor(value, "");
        ASSERT_TRUE(here.ok()) << here.status();
        const std::span<const float> found = here->data<float>();
        EXPECT_EQ(std::vector<float>(found.begin(), found.end()),
                  (std::vector<float>{2.0f * static_cast<float>(i), 2.0f * static_cast<float>(i) + 1}));
      }
  }
}

TEST(DevicePrefetcher, NeedsNoPinnedMemory) {
  host::RuntimeOptions options;
  options.plugin_options = {{"tenon.tpu_sim", "devices", "1"}, {"tenon.tpu_sim", "staging_bytes", "8"}};
  const Runtime runtime = *Runtime::Create(options);
  Graph graph(runtime);
  const DatasetIterator input = Floats(graph, 8).Batch(4, true).MakeIterator("input");
  const Session session = *Session::Create(runtime, graph);
  for (const char* device : {kTpu, "/device:CPU:0"}) {
    ASSERT_TRUE(session.RunTargets({Name(input.begin)}).ok());
    auto batches = DevicePrefetcher::Create(session, input.next, device);
    ASSERT_TRUE(batches.ok()) << batches.status();
    for (int i = 0; i < 2; ++i) EXPECT_TRUE((*batches)->Next().ok());
    EXPECT_EQ((*batches)->Next().status().code(), Code::kOutOfRange);
  }
}

TEST(DevicePrefetcher, WhatFailsIsToldOnceAndTheOthersCome) {
  Graph graph(OneTpu());
  const Dataset checked = Floats(graph, 5).Map([](Graph& g, const Outputs& x) {
    return g.Op("CheckNumerics", {g.Op("RealDiv", {x[0], g.Op("Sub", {x[0], g.Const(2.0f)})})},
                {{"message", std::string("two")}});
  });
  const DatasetIterator input = checked.MakeIterator("input");
  const Session session = SessionFor(graph);
  ASSERT_TRUE(session.RunTargets({Name(input.begin)}).ok());
  const auto values = DevicePrefetcher::Create(session, input.next, kTpu);
  ASSERT_TRUE(values.ok()) << values.status();
  std::string codes;
  for (int n = 0; n < 6; ++n) codes += std::string(host::CodeName((*values)->Next().status().code())) + " ";
  EXPECT_EQ(codes, "OK OK INVALID_ARGUMENT OK OK OUT_OF_RANGE ");
}

TEST(DevicePrefetcher, TextsStayInHostMemory) {
  Graph graph(OneTpu());
  const DatasetIterator input =
      Dataset::Zip({Floats(graph, 1), Dataset::FromTensors(graph, {graph.StringConst("word")})}).MakeIterator("input");
  const Session session = SessionFor(graph);
  ASSERT_TRUE(session.RunTargets({Name(input.begin)}).ok());
  const auto values = DevicePrefetcher::Create(session, input.next, kTpu);
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ((*values)->devices(), (std::vector<std::string>{kTpu, ""}));
  const auto element = (*values)->Next();
  ASSERT_TRUE(element.ok()) << element.status();
  EXPECT_EQ((*element)[1].string(0), "word");
}

TEST(DevicePrefetcher, EndsWhileItsInputHasNothing) {
  Graph graph(OneTpu());
  const std::vector<DType> types = {DType::kFloat};
  const Output queue =
      graph.Op("FIFOQueueV2", {}, {{"component_types", types}, {"shapes", std::vector<Shape>{Shape()}}}, "queue");
  const Operation enqueue = graph.AddNode("QueueEnqueueV2", {queue, graph.Const(3.0f)}, {}, "enqueue");
  const Output taken = graph.Op("QueueDequeueV2", {queue}, {{"component_types", types}}, "taken");
  const Session session = SessionFor(graph);
  auto values = DevicePrefetcher::Create(session, {taken}, kTpu);
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ((*values)->Next(std::chrono::milliseconds(1)).status().code(), Code::kDeadlineExceeded);
  ASSERT_TRUE(session.RunTargets({Name(enqueue)}).ok());
  EXPECT_TRUE((*values)->Next().ok()) << "who gave up has lost nothing";
  (*values).reset();  // it waits at the queue
}

TEST(DevicePrefetcher, SaysWhatIsWrong) {
  Graph graph(OneTpu());
  const DatasetIterator input = Floats(graph, 1).MakeIterator("input");
  const Session session = SessionFor(graph);
  EXPECT_NE(
      DevicePrefetcher::Create(session, input.next, "/device:GPU:7").status().message().find("there is no device"),
      std::string::npos);
  EXPECT_EQ(DevicePrefetcher::Create(session, {}, kTpu).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace tenon::train::device_prefetcher_test
