// SPDX-License-Identifier: Apache-2.0
// Queue runners: they fill, end with their input, report what failed, and stop while they wait. Covers M4.
#include "tenon/train/queue_runner.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/fakes/training_golden.h"

namespace tenon::train::queue_runner_test {
namespace {

// A counter from 0 to `limit` puts its numbers into a queue.
struct Numbers {
  Numbers(int64_t limit, int64_t capacity) : graph(SharedRuntime()) {
    const Attrs types = {{"component_types", std::vector<DType>{DType::kInt64}}};
    const Output counter = graph.Op(
        "VarHandleOp", {}, {{"dtype", DType::kInt64}, {"shape", Shape()}, {"shared_name", std::string("counter")}});
    graph.AddNode("AssignVariableOp", {counter, graph.Const(int64_t{0})}, {}, "init");
    const Output number = graph.Op("ResourceCountUpTo", {counter}, {{"limit", limit}, {"T", DType::kInt64}}, "count");
    const Output queue = graph.Op("FIFOQueueV2", {},
                                  {{"component_types", std::vector<DType>{DType::kInt64}},
                                   {"shapes", std::vector<Shape>{Shape()}},
                                   {"capacity", capacity}},
                                  "queue");
    graph.AddNode("QueueEnqueueV2", {queue, number}, {}, "enqueue");
    graph.AddNode("QueueCloseV2", {queue}, {}, "close");
    graph.AddNode("QueueCloseV2", {queue}, {{"cancel_pending_enqueues", true}}, "cancel");
    graph.Op("QueueDequeueV2", {queue}, types, "dequeue");
    graph.Op("QueueSizeV2", {queue}, {}, "size");
    EXPECT_TRUE(graph.status().ok()) << graph.status();
  }
  Graph graph;
};

QueueRunner RunnerOf(size_t threads) {
  return {"queue", std::vector<std::string>(threads, "enqueue"), "close", "cancel"};
}

Session Begun(const Numbers& numbers) {
  Session session = SessionOf(numbers.graph, {});
  EXPECT_TRUE(session.RunTargets({Name("init")}).ok());
  return session;
}

TEST(QueueRunners, FillUntilTheInputEndsAndStepsGetAllOfIt) {
  for (const size_t threads : {1u, 3u}) {
    const Numbers numbers(100, 5);
    const Session session = Begun(numbers);
    Coordinator coordinator;
    ASSERT_TRUE(StartQueueRunners(session, {RunnerOf(threads)}, &coordinator).ok());
    int64_t sum = 0, count = 0;
    for (;; ++count) {
      const auto value = session.Run({}, {Name("dequeue")});
      if (!value.ok()) {
        EXPECT_EQ(value.status().code(), Code::kOutOfRange) << value.status();
        break;
      }
      sum += (*value)[0].scalar<int64_t>();
    }
    EXPECT_EQ(count, 100);
    EXPECT_EQ(sum, 4950);
    EXPECT_FALSE(coordinator.should_stop()) << "the end of the input is no reason to stop others";
    EXPECT_TRUE(coordinator.Stop().ok());
  }
}

TEST(QueueRunners, StopWhileTheyWaitForRoom) {
  const Numbers numbers(1 << 30, 2);
  const Session session = Begun(numbers);
  Coordinator coordinator;
  ASSERT_TRUE(StartQueueRunners(session, {RunnerOf(2)}, &coordinator).ok());
  while ((*session.Run({}, {Name("size")}))[0].scalar<int32_t>() < 2) std::this_thread::yield();
  const Status stopped = coordinator.Stop();
  EXPECT_TRUE(stopped.ok()) << stopped;
}

TEST(QueueRunners, AFailureStopsAllAndIsTheCoordinators) {
  Numbers numbers(1 << 30, 2);
  Graph& graph = numbers.graph;
  const Output one = graph.Const(int64_t{1});
  const Output counter = graph.Op(
      "VarHandleOp", {}, {{"dtype", DType::kInt64}, {"shape", Shape()}, {"shared_name", std::string("counter")}});
  const Output nothing = graph.Op("FloorMod", {graph.Op("ReadVariableOp", {counter}, {{"dtype", DType::kInt64}}), one});
  const Output other = graph.Op("FIFOQueueV2", {}, {{"component_types", std::vector<DType>{DType::kInt64}}}, "other");
  graph.AddNode("QueueEnqueueV2", {other, graph.Op("FloorDiv", {one, nothing}, {}, "by_nothing")}, {}, "wrong");
  const Session session = Begun(numbers);
  Coordinator coordinator;
  ASSERT_TRUE(StartQueueRunners(session, {RunnerOf(1), {"other", {"wrong"}, "", ""}}, &coordinator).ok());
  EXPECT_TRUE(coordinator.WaitForStop(std::chrono::seconds(30)));
  const Status status = coordinator.Join();
  EXPECT_FALSE(status.ok());
  for (const char* part : {"the queue runner of 'other'", "by_nothing"})
    EXPECT_NE(status.message().find(part), std::string::npos) << status;
}

TEST(QueueRunners, ANodeThatIsNotThereIsSaidBeforeAnythingRuns) {
  const Numbers numbers(10, 20);
  const Session session = Begun(numbers);
  Coordinator coordinator;
  const Status status =
      StartQueueRunners(session, {RunnerOf(1), {"queue", {"enqeue"}, "close", "cancel"}}, &coordinator);
  EXPECT_EQ(status.code(), Code::kNotFound) << status;
  EXPECT_NE(status.message().find("enqeue"), std::string::npos) << status;
  EXPECT_TRUE(coordinator.Stop().ok());
  EXPECT_EQ((*session.Run({}, {Name("size")}))[0].scalar<int32_t>(), 0);
}

TEST(Coordinators, KeepTheFirstFailureAndWakeWhoAskedToBeWoken) {
  Coordinator coordinator;
  std::atomic<int> woken{0};
  coordinator.OnStop([&] { ++woken; });
  for (int i = 0; i < 3; ++i)
    coordinator.Start([&coordinator, i]() -> Status {
      if (i == 1) return Status(Code::kDataLoss, "the first");
      while (!coordinator.WaitForStop(std::chrono::seconds(30))) {
      }
      return Status(Code::kInternal, "a later one");
    });
  const Status status = coordinator.Join();
  EXPECT_EQ(status.code(), Code::kDataLoss) << status;
  coordinator.OnStop([&] { ++woken; });
  coordinator.RequestStop();
  EXPECT_EQ(woken, 2);
}

TEST(Coordinators, AThreadThatThrowsIsAFailure) {
  Coordinator coordinator;
  coordinator.Start([]() -> Status { throw std::runtime_error("out of order"); });
  const Status status = coordinator.Join();
  EXPECT_EQ(status.code(), Code::kInternal);
  EXPECT_NE(status.message().find("out of order"), std::string::npos);
}

}  // namespace
}  // namespace tenon::train::queue_runner_test
