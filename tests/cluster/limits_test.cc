// SPDX-License-Identifier: Apache-2.0
// What a worker does not allow: too many sessions, too much memory, too large messages. Whoever asks for it is told,
// and honest clients go on. Covers E4, J3.
#include <fstream>

#include "tests/cluster/counting.h"

namespace tenon::engine {
namespace {

constexpr int64_t kMi = 1 << 18;  // floats in a mebibyte

class LimitsTest : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Over, LimitsTest, testing::ValuesIn(BuiltTransports()),
                         [](const auto& info) { return std::string(info.param); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LimitsTest);

Tensor Floats(int64_t count) {
  return *Tensor::From(std::vector<float>(static_cast<size_t>(count), 2.0f), Shape{count});
}

// A variable on task 0 that is assigned what is fed; what comes to task 0 from task 1, which repeats one value as often
// as it is told.
struct Keeping {
  Graph graph{TheRuntime()};
  explicit Keeping(const std::string& variable) {
    const Output x = graph.Placeholder("x", DType::kFloat, Shape{-1});
    Output repeated;
    {
      const auto on = graph.Device("/job:worker/task:1");
      repeated = graph.Op(
          "Fill",
          {graph.Placeholder("dims", DType::kInt32, Shape{1}), graph.Placeholder("value", DType::kFloat, Shape{})}, {},
          "repeated");
    }
    const auto on = graph.Device("/job:worker/task:0");
    const Output v =
        graph.Op("VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", Shape{-1}}, {"shared_name", variable}}, "v");
    graph.AddNode("AssignVariableOp", {v, x}, {}, "assign");
    graph.Op("Sum",
             {graph.Op("ReadVariableOp", {v}, {{"dtype", DType::kFloat}}), graph.Const(*Tensor::Scalar(int32_t{0}))},
             {}, "sum");
    graph.Op("Sum", {graph.Op("Neg", {repeated}), graph.Const(*Tensor::Scalar(int32_t{0}))}, {}, "of_repeated");
    graph.Op("Identity", {graph.Op("ReadVariableOp", {v}, {{"dtype", DType::kFloat}})}, {}, "all");
  }
  Result<Session> Connect(const Processes& tasks, bool isolate = false) const {
    SessionOptions options;
    options.master = tasks.address(0);
    options.isolate = isolate;
    return Session::Create(TheRuntime(), graph, options);
  }
};

Status Assign(const Session& session, int64_t count) {
  return session.Run({{"x", Floats(count)}}, {}, {"assign"}).status();
}

// The sum of `count` twos that come from another task.
Result<float> SumOfRepeated(const Session& session, int32_t count) {
  RunOptions options;
  options.timeout = std::chrono::seconds(30);
  TENON_TRY_ASSIGN(
      const std::vector<Tensor> values,
      session.Run({{"dims", *Tensor::From(std::vector<int32_t>{count}, Shape{1})}, {"value", *Tensor::Scalar(-2.0f)}},
                  {"of_repeated"}, {}, options));
  return values[0].scalar<float>();
}

float SumOfVariable(const Session& session) {
  auto values = session.Run({}, {"sum"});
  EXPECT_TRUE(values.ok()) << values.status().message();
  return values.ok() ? (*values)[0].scalar<float>() : -1;
}

void ExpectRefused(const Status& status, const std::string& why) {
  EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.message();
  EXPECT_NE(status.message().find(why), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("task /job:worker/replica:0/task:"), std::string::npos) << status.message();
}

TEST_P(LimitsTest, AnotherSessionThanAWorkerTakesIsRefusedUntilOneIsClosed) {
  const Processes tasks(GetParam(), {{"worker", 2}}, {"--threads=1", "--max-sessions=2"});
  ASSERT_TRUE(tasks.ok());
  const Keeping keeping("v");
  auto first = keeping.Connect(tasks);
  ASSERT_TRUE(first.ok()) << first.status().message();
  {
    auto second = keeping.Connect(tasks);
    ASSERT_TRUE(second.ok()) << second.status().message();
    ExpectRefused(keeping.Connect(tasks).status(), "has 2 sessions, as many as it may");
    ASSERT_TRUE(Assign(*first, 10).ok());
    EXPECT_EQ(SumOfVariable(*second), 20);
  }
  auto third = keeping.Connect(tasks);
  ASSERT_TRUE(third.ok()) << third.status().message();
  EXPECT_EQ(SumOfVariable(*third), 20);
}

TEST_P(LimitsTest, ALargerMessageIsRefusedAndTheSessionGoesOn) {
  const Processes tasks(GetParam(), {{"worker", 2}}, {"--threads=1", "--max-message=1M"});
  ASSERT_TRUE(tasks.ok());
  const Keeping keeping("v");
  auto session = keeping.Connect(tasks);
  ASSERT_TRUE(session.ok()) << session.status().message();
  ASSERT_TRUE(Assign(*session, 1000).ok());
  ExpectRefused(Assign(*session, 2 * kMi), "max_message_bytes");
  EXPECT_EQ(SumOfVariable(*session), 2000) << "feeds";
  ExpectRefused(SumOfRepeated(*session, 2 * kMi).status(), "max_message_bytes");
  auto sum = SumOfRepeated(*session, kMi / 2);
  ASSERT_TRUE(sum.ok()) << sum.status().message();
  EXPECT_EQ(*sum, kMi) << "values from task to task";
}

TEST_P(LimitsTest, AValueThatItsReceiverRefusesEndsTheStepAlsoWhenItsSenderIsDone) {
  Processes tasks(GetParam(), {{"worker", 2}});
  tasks.Kill(0);
  tasks.set_options({"--threads=1", "--max-message=1M"});
  ASSERT_TRUE(tasks.ok() && tasks.Start(0));
  const Keeping keeping("v");
  auto session = keeping.Connect(tasks);
  ASSERT_TRUE(session.ok()) << session.status().message();
  const Status refused = SumOfRepeated(*session, 2 * kMi).status();
  ExpectRefused(refused, "max_message_bytes");
  EXPECT_NE(refused.message().find("to task /job:worker/replica:0/task:0"), std::string::npos) << refused.message();
  auto sum = SumOfRepeated(*session, kMi / 2);
  ASSERT_TRUE(sum.ok()) << sum.status().message();
  EXPECT_EQ(*sum, kMi);
}

TEST_P(LimitsTest, OneLimitHoldsForTheMemoryOfAllSessionsTogether) {
  const Processes tasks(GetParam(), {{"worker", 2}}, {"--threads=1", "--memory-limit=8M"});
  ASSERT_TRUE(tasks.ok());
  const Keeping keeping("shared");
  const Keeping greedy("greedy");
  const auto first = keeping.Connect(tasks);
  ASSERT_TRUE(first.ok()) << first.status().message();
  ASSERT_TRUE(Assign(*first, 4 * kMi).ok());
  {
    const auto second = greedy.Connect(tasks, /*isolate=*/true);
    ASSERT_TRUE(second.ok()) << second.status().message();
    const std::string why = "would pass the memory limit of task /job:worker/replica:0/task:0, 8388608 bytes";
    ExpectRefused(Assign(*second, 6 * kMi), why);
    EXPECT_EQ(SumOfVariable(*first), 8 * kMi);
    // Values that come from another task are placed within the limit too.
    ExpectRefused(SumOfRepeated(*second, 6 * kMi).status(), why);
    EXPECT_EQ(SumOfVariable(*first), 8 * kMi);
    const Status small = Assign(*second, 2 * kMi);
    EXPECT_TRUE(small.ok()) << small.message();
    ExpectRefused(SumOfRepeated(*second, 3 * kMi).status(), why);
  }
  // What was the session's own has gone with it.
  auto sum = SumOfRepeated(*first, kMi);
  ASSERT_TRUE(sum.ok()) << sum.status().message();
  EXPECT_EQ(*sum, 2 * kMi);
}

uint64_t PeakOf(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  std::string word;
  uint64_t kilobytes = 0;
  while (status >> word)
    if (word == "VmHWM:") status >> kilobytes;
  return kilobytes << 10;
}

// A shuffle that keeps one number as often as there is room, in one session after the other: what each keeps, and what
// its memory keeps ready to be used again, is the worker's.
TEST_P(LimitsTest, WhatAStrangersGraphKeepsStaysWithinTheLimitOfTheWorker) {
  constexpr uint64_t kLimit = 128 << 20, kSlack = 64 << 20;
  const Processes tasks(GetParam(), {{"worker", 1}}, {"--threads=1", "--memory-limit=128M"});
  ASSERT_TRUE(tasks.ok());
  Graph graph{TheRuntime()};
  const auto on = graph.Device("/job:worker/task:0");
  const auto number = [&graph](int64_t value) { return graph.Const(*Tensor::Scalar(value)); };
  const Attrs of_numbers = {{"output_types", std::vector<DType>{DType::kInt64}},
                            {"output_shapes", std::vector<Shape>{Shape{}}}};
  const Output one =
      graph.Op("TensorDataset", {number(7)},
               {{"Toutput_types", std::vector<DType>{DType::kInt64}}, {"output_shapes", std::vector<Shape>{Shape{}}}});
  const Output ever = graph.Op("RepeatDataset", {one, number(-1)}, of_numbers);
  const Output kept = graph.Op("ShuffleDataset", {ever, number(int64_t{1} << 40), number(1), number(1)}, of_numbers);
  graph.Op("DatasetToSingleElement", {kept}, of_numbers, "element");
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  const uint64_t before = PeakOf(tasks.process(0));
  std::vector<Session> sessions;  // none of them ends
  for (int i = 0; i < 3; ++i) {
    SessionOptions options;
    options.master = tasks.address(0);
    options.isolate = true;
    auto session = Session::Create(TheRuntime(), graph, options);
    ASSERT_TRUE(session.ok()) << session.status().message();
    sessions.push_back(std::move(*session));
    ExpectRefused(sessions.back().Run({}, {"element"}, {}, {.timeout = std::chrono::seconds(30)}).status(),
                  "134217728 bytes");
  }
  EXPECT_LE(PeakOf(tasks.process(0)), before + kLimit + kSlack);
}

}  // namespace
}  // namespace tenon::engine
