// SPDX-License-Identifier: Apache-2.0
// Iterators for several devices: elements dealt to shards, whoever asks first and however many threads; steps that give
// up, passes that replace one another, the end. Covers M4.
#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>

#include "tests/engine/engine.h"

namespace tenon::engine::dataset_shards_test {
namespace {

using Types = std::vector<DType>;
using Shapes = std::vector<Shape>;

// The numbers up to `stop`, dealt to shards; with a gate, element by element as a queue is filled.
struct Dealt {
  Dealt(int64_t stop, size_t shards, int64_t most, bool gate = false) : g(TheRuntime()) {
    Output dataset = g.Op("RangeDataset", {Int(0), Int(stop), Int(1)}, spec);
    if (gate) {
      const Function through = Define(
          g, "through",
          [this](Graph& body, const std::vector<Output>& x) {
            return std::vector<Output>{body.Op("AddV2", {x[0], body.Op("QueueDequeueV2", {Queue(body)},
                                                                       {{"component_types", Types{DType::kInt64}}})})};
          },
          {DType::kInt64});
      Attrs attrs = spec;
      attrs.push_back({"f", through});
      attrs.push_back({"Targuments", Types{}});
      dataset = g.Op("MapDataset", {dataset}, attrs);
      open = g.AddNode("QueueEnqueueV2", {Queue(g), Int(0)});
    }
    Attrs attrs = spec;
    attrs.push_back({"devices", std::vector<std::string>(shards, "/cpu:0")});
    attrs.push_back({"shared_name", std::string("dealt")});
    attrs.push_back({"container", std::string()});
    const Output handle = g.Op("MultiDeviceIterator", {}, attrs);
    begin = g.Op("MultiDeviceIteratorInit", {dataset, handle, Int(most)});
    shard = g.Op("Placeholder", {}, {{"dtype", DType::kInt32}, {"shape", Shape()}});
    incarnation = g.Op("Placeholder", {}, {{"dtype", DType::kInt64}, {"shape", Shape()}});
    next = g.Op("MultiDeviceIteratorGetNextFromShard", {handle, shard, incarnation}, spec);
    remove = g.AddNode("DeleteMultiDeviceIterator", {handle, g.Op("OptionalNone", {})}, {{"N", int64_t{0}}});
    EXPECT_TRUE(g.status().ok()) << g.status().message();
  }
  Output Int(int64_t value) { return g.Op("Const", {}, {{"dtype", DType::kInt64}, {"value", *Tensor::Scalar(value)}}); }
  static Output Queue(Graph& graph) {
    return graph.Op(
        "FIFOQueueV2", {},
        {{"component_types", Types{DType::kInt64}}, {"shapes", Shapes{Shape()}}, {"shared_name", std::string("gate")}});
  }
  Session Open() const {
    auto session = Session::Create(TheRuntime(), g);
    EXPECT_TRUE(session.ok()) << session.status().message();
    return std::move(*session);
  }
  int64_t Begin(const Session& session) const {
    auto values = session.Run({}, {begin});
    EXPECT_TRUE(values.ok()) << values.status().message();
    return values.ok() ? (*values)[0].scalar<int64_t>() : -1;
  }
  Result<int64_t> Next(const Session& session, int32_t of, int64_t pass, const RunOptions& options = {}) const {
    auto values =
        session.Run({{shard, *Tensor::Scalar(of)}, {incarnation, *Tensor::Scalar(pass)}}, {next}, {}, options);
    if (!values.ok()) return values.status();
    return (*values)[0].scalar<int64_t>();
  }

  const Attrs spec = {{"output_types", Types{DType::kInt64}}, {"output_shapes", Shapes{Shape()}}};
  Graph g;
  Output begin, shard, incarnation, next;
  Operation open, remove;
};

RunOptions Soon() {
  RunOptions options;
  options.timeout = std::chrono::milliseconds(5);
  return options;
}

TEST(DatasetShards, EachGetsItsElementsInOrderWhateverTheThreads) {
  constexpr int32_t kShards = 3;
  for (const int64_t most : {0, 1, 7}) {
    const Dealt d(1000, kShards, most);
    const Session session = d.Open();
    const int64_t pass = d.Begin(session);
    std::vector<std::vector<int64_t>> got(kShards);
    std::vector<std::thread> threads;
    for (int32_t i = 0; i < kShards; ++i)
      threads.emplace_back([&, i] {
        for (;;) {
          const auto value = d.Next(session, i, pass);
          if (!value.ok()) {
            EXPECT_EQ(value.status().code(), Code::kOutOfRange) << value.status().message();
            return;
          }
          got[static_cast<size_t>(i)].push_back(*value);
        }
      });
    for (auto& thread : threads) thread.join();
    for (int32_t i = 0; i < kShards; ++i) {
      std::vector<int64_t> wanted;
      for (int64_t n = i; n < 1000; n += kShards) wanted.push_back(n);
      EXPECT_EQ(got[static_cast<size_t>(i)], wanted) << "shard " << i << ", buffers of " << most;
    }
  }
}

TEST(DatasetShards, SeveralThreadsOfOneShardGetEachElementOnce) {
  const Dealt d(600, 2, 2);
  const Session session = d.Open();
  const int64_t pass = d.Begin(session);
  std::mutex mutex;
  std::vector<int64_t> got;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (;;) {
        const auto value = d.Next(session, t % 2, pass);
        if (!value.ok()) return;
        EXPECT_EQ(*value % 2, t % 2);
        const std::lock_guard lock(mutex);
        got.push_back(*value);
      }
    });
  for (auto& thread : threads) thread.join();
  std::sort(got.begin(), got.end());
  ASSERT_EQ(got.size(), 600u);
  for (int64_t i = 0; i < 600; ++i) EXPECT_EQ(got[static_cast<size_t>(i)], i);
}

TEST(DatasetShards, AStepThatGivesUpLosesNoElement) {
  for (const int64_t most : {0, 2}) {
    const Dealt d(6, 2, most, true);
    const Session session = d.Open();
    const int64_t pass = d.Begin(session);
    for (int i = 0; i < 2; ++i)
      for (int32_t of : {1, 0}) EXPECT_EQ(d.Next(session, of, pass, Soon()).status().code(), Code::kDeadlineExceeded);
    for (int i = 0; i < 6; ++i) ASSERT_TRUE(session.RunTargets({d.open}).ok());
    for (int32_t n = 0; n < 6; ++n) EXPECT_EQ(*d.Next(session, n % 2, pass), n);
    for (int32_t of : {0, 1}) EXPECT_EQ(d.Next(session, of, pass).status().code(), Code::kOutOfRange);
  }
}

TEST(DatasetShards, AFullBufferKeepsTheOthersWaitingUntilItsShardAsks) {
  const Dealt d(8, 2, 1);
  const Session session = d.Open();
  const int64_t pass = d.Begin(session);
  EXPECT_EQ(*d.Next(session, 1, pass), 1);
  EXPECT_EQ(d.Next(session, 1, pass, Soon()).status().code(), Code::kDeadlineExceeded)
      << "element 3, before which 2 has no room";
  EXPECT_EQ(*d.Next(session, 0, pass), 0);
  EXPECT_EQ(*d.Next(session, 1, pass), 3);
}

TEST(DatasetShards, APassEndsForAllAtOnceAlsoForThoseWhoWait) {
  const Dealt d(1, 3, 1, true);
  const Session session = d.Open();
  const int64_t pass = d.Begin(session);
  std::vector<std::thread> threads;
  for (int32_t of : {1, 2})
    threads.emplace_back([&, of] { EXPECT_EQ(d.Next(session, of, pass).status().code(), Code::kOutOfRange); });
  ASSERT_TRUE(session.RunTargets({d.open}).ok());
  EXPECT_EQ(*d.Next(session, 0, pass), 0);
  for (auto& thread : threads) thread.join();
  for (int32_t of : {0, 1, 2}) EXPECT_EQ(d.Next(session, of, pass).status().code(), Code::kOutOfRange);
}

TEST(DatasetShards, ANewPassCancelsThoseWhoWaitInTheOldOneWhoseNumberIsNoneAnyMore) {
  const Dealt d(4, 2, 1, true);
  const Session session = d.Open();
  ASSERT_EQ(d.Begin(session), 1);
  std::thread waiting([&] {
    const Code code = d.Next(session, 1, 1).status().code();
    EXPECT_TRUE(code == Code::kCancelled || code == Code::kInvalidArgument) << "in line already, or not yet";
  });
  EXPECT_EQ(d.Next(session, 0, 1, Soon()).status().code(), Code::kDeadlineExceeded);
  ASSERT_EQ(d.Begin(session), 2);
  waiting.join();
  const auto old = d.Next(session, 0, 1);
  EXPECT_EQ(old.status().code(), Code::kInvalidArgument);
  EXPECT_NE(old.status().message().find("Invalid incarnation id. Provided: 1; Expected: 2"), std::string::npos)
      << old.status().message();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(session.RunTargets({d.open}).ok());  // one may go to the pass that ended
  for (int32_t n = 0; n < 4; ++n) EXPECT_EQ(*d.Next(session, n % 2, 2), n);
}

TEST(DatasetShards, AStepThatWaitsEndsWithItsSessionAndWithItsIterator) {
  for (const bool removed : {false, true}) {
    const Dealt d(4, 2, 1, true);
    auto session = std::make_unique<Session>(d.Open());
    const int64_t pass = d.Begin(*session);
    std::thread waiting([&, owned = session.get()] {
      const auto value =
          owned->Run({{d.shard, *Tensor::Scalar(int32_t{0})}, {d.incarnation, *Tensor::Scalar(pass)}}, {d.next});
      // In line already, or, where the iterator goes, not yet.
      EXPECT_TRUE(value.status().code() == Code::kCancelled ||
                  (removed && value.status().code() == Code::kFailedPrecondition))
          << value.status().message();
    });
    EXPECT_EQ(d.Next(*session, 1, pass, Soon()).status().code(), Code::kDeadlineExceeded);
    if (removed) {
      const Status status = session->RunTargets({d.remove});
      EXPECT_TRUE(status.ok()) << status.message();
      waiting.join();
      EXPECT_EQ(d.Next(*session, 0, pass).status().code(), Code::kFailedPrecondition);
    }
    session.reset();
    if (!removed) waiting.join();
  }
}

TEST(DatasetShards, WhatIsNoShardOrNoPassIsRefused) {
  const Dealt d(4, 2, 1);
  const Session session = d.Open();
  EXPECT_EQ(d.Next(session, 0, 1).status().code(), Code::kFailedPrecondition) << "nobody has begun a pass";
  const int64_t pass = d.Begin(session);
  for (int32_t of : {-1, 2}) {
    const auto none = d.Next(session, of, pass);
    EXPECT_EQ(none.status().code(), Code::kInvalidArgument);
    EXPECT_NE(none.status().message().find("there are 2 shards"), std::string::npos) << none.status().message();
  }
  EXPECT_EQ(d.Next(session, 0, pass + 1).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(*d.Next(session, 0, pass), 0);
  const Dealt negative(4, 2, -1);
  const Session other = negative.Open();
  EXPECT_EQ(other.Run({}, {negative.begin}).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace tenon::engine::dataset_shards_test
