// SPDX-License-Identifier: Apache-2.0
// Queues at a task: clients meet there, many may wait there, and who waits is told when the task goes. Covers F5, F6,
// M3, M9.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <latch>
#include <thread>

#include "tests/cluster/local_cluster.h"

namespace tenon::engine::queue_cluster_test {
namespace {

constexpr const char* kServer = "/job:ps/task:0";

// Two queues at the server: in a step a client says that it is there, and waits for its turn.
struct Meeting {
  explicit Meeting(const char* device = kServer) : g(TheRuntime()) {
    const auto on = g.Device(device);
    const auto queue = [&](const char* name) {
      return g.Op("FIFOQueueV2", {},
                  {{"component_types", std::vector<DType>{DType::kFloat}},
                   {"shapes", std::vector<Shape>{Shape()}},
                   {"shared_name", name}});
    };
    const Output here = queue("here"), turns = queue("turns");
    const auto nowhere = g.Device("");
    const Operation arrive = g.AddNode("QueueEnqueueV2", {here, g.Const(1.0f)});
    arrived = g.Op("QueueSizeV2", {here});
    {
      const auto after = g.ControlDependencies({arrive});
      turn = g.Op("QueueDequeueV2", {turns}, {{"component_types", std::vector<DType>{DType::kFloat}}});
    }
    given = g.Placeholder("given", DType::kFloat, {-1});
    give = g.AddNode("QueueEnqueueManyV2", {turns, given});
  }
  int32_t Arrived(const Session& session) const {
    auto values = session.Run({}, {arrived}, {}, Patience());
    EXPECT_TRUE(values.ok()) << values.status().message();
    return values.ok() ? (*values)[0].scalar<int32_t>() : -1;
  }
  static RunOptions Patience() {
    RunOptions options;
    options.timeout = std::chrono::seconds(60);
    return options;
  }
  Graph g;
  Output arrived, turn, given;
  Operation give;
};

int ThreadsOfTheProcess() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<int>(std::distance(begin(tasks), end(tasks)));
}

// What a task waits for in a queue may be what comes from another task, late in its part's order: the receive does not
// wait for those that wait.
TEST(QueueCluster, AReceiveDoesNotWaitForADequeueThatItsValueEnds) {
  const LocalCluster cluster("loopback://queue_receive", {{"ps", 1}, {"worker", 1}});
  for (const bool early : {false, true}) {  // early: values come as soon as they are there
    Graph g(TheRuntime());
    const Output x = g.Placeholder("x", DType::kFloat, Shape{});
    const auto on = [&](const char* device, const char* op, const std::vector<Output>& inputs,
                        const Attrs& attrs = {}) {
      const auto there = g.Device(device);
      return g.AddNode(op, inputs, attrs);
    };
    const Attrs of_queue = {{"component_types", std::vector<DType>{DType::kFloat}},
                            {"shapes", std::vector<Shape>{Shape()}}};
    const Output queue = on(kServer, "FIFOQueueV2", {}, of_queue);
    Output taken = on(kServer, "QueueDequeueV2", {queue}, {{"component_types", std::vector<DType>{DType::kFloat}}});
    taken = on(kServer, "Neg", {taken});
    const Output far = on("/job:worker/task:0", "Square", {x});
    const Operation put = on(kServer, "QueueEnqueueV2", {queue, on(kServer, "Neg", {far})});
    SessionOptions options;
    options.debug.early_transfers = early;
    const Session session = cluster.Client(g, options);
    for (int i = 0; i < 3; ++i) {
      const auto values = session.Run({{x, *Tensor::Scalar(3.0f)}}, {taken}, {put}, Meeting::Patience());
      ASSERT_TRUE(values.ok()) << values.status();
      EXPECT_EQ((*values)[0].scalar<float>(), 9);
    }
  }
}

TEST(QueueCluster, ManyWaitingStepsDoNotKeepOutTheOneThatEndsTheirWaiting) {
  const LocalCluster cluster("loopback://queue_many", {{"ps", 1}, {"worker", 1}});
  const Meeting meeting;
  const Session session = cluster.Client(meeting.g);
  constexpr int kWaiting = 200;
  EXPECT_EQ(meeting.Arrived(session), 0);
  const int before = ThreadsOfTheProcess();
  std::vector<std::thread> clients;
  for (int i = 0; i < kWaiting; ++i)
    clients.emplace_back([&] {
      const Status status = session.Run({}, {meeting.turn}, {}, Meeting::Patience()).status();
      EXPECT_TRUE(status.ok()) << status.message();
    });
  int32_t arrived = 0;
  while (arrived >= 0 && arrived < kWaiting) {
    arrived = meeting.Arrived(session);
    std::this_thread::yield();
  }
  // Each client waits on a thread of its own; none at the task does, though some stay there for the next work.
  constexpr int kStay = 80;
  for (int polls = 0; polls < 1000 && ThreadsOfTheProcess() > before + kWaiting + kStay; ++polls)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_LE(ThreadsOfTheProcess(), before + kWaiting + kStay);
  const std::vector<float> turns(kWaiting, 1.0f);
  EXPECT_TRUE(session.Run({{meeting.given, View(turns, {kWaiting})}}, {}, {meeting.give}, Meeting::Patience()).ok());
  for (std::thread& client : clients) client.join();
}

// Neither the client nor the task keeps a thread for a step that waits.
TEST(QueueCluster, AsynchronousStepsWaitWithoutAThread) {
  const LocalCluster cluster("loopback://queue_async", {{"ps", 1}, {"worker", 1}});
  const Meeting meeting;
  const Session session = cluster.Client(meeting.g);
  const Callable turn = *session.Prepare({}, {meeting.turn});
  EXPECT_EQ(meeting.Arrived(session), 0);
  const int before = ThreadsOfTheProcess();
  constexpr int kSteps = 500;
  std::latch ended(kSteps);
  std::atomic<int> failed{0};
  const auto done = [&](const Result<std::vector<Tensor>>& values) {
    if (!values.ok() && failed.fetch_add(1) == 0) ADD_FAILURE() << values.status();
    ended.count_down();
  };
  for (int i = 0; i < kSteps; ++i) ASSERT_TRUE(turn.RunAsync({}, done, Meeting::Patience()).ok());
  for (int32_t arrived = 0; arrived >= 0 && arrived < kSteps; arrived = meeting.Arrived(session))
    std::this_thread::yield();
  constexpr int kStay = 160;  // idle threads of both, for the next work
  for (int polls = 0; polls < 1000 && ThreadsOfTheProcess() > before + kStay; ++polls)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_LE(ThreadsOfTheProcess(), before + kStay);
  // What is cancelled ends, and takes nothing.
  auto cancellation = Cancellation::Create();
  RunOptions cancellable = Meeting::Patience();
  cancellable.cancellation = &*cancellation;
  std::latch cancelled(1);
  ASSERT_TRUE(turn.RunAsync({}, [&](const Result<std::vector<Tensor>>& values) {
    EXPECT_EQ(values.status().code(), Code::kCancelled) << values.status();
    cancelled.count_down();
  }, cancellable).ok());
  cancellation->Cancel();
  cancelled.wait();
  const std::vector<float> turns(kSteps, 1.0f);
  EXPECT_TRUE(session.Run({{meeting.given, View(turns, {kSteps})}}, {}, {meeting.give}, Meeting::Patience()).ok());
  ended.wait();
  EXPECT_EQ(failed.load(), 0);
}

TEST(QueueCluster, AQuickPartWhoseValueDoesNotComeEndsWithItsStep) {
  const LocalCluster cluster("loopback://queue_late", {{"ps", 1}, {"worker", 1}});
  Meeting meeting;
  Output taken;
  {
    const auto on = meeting.g.Device("/job:worker/task:0");
    taken = meeting.g.Op("Neg", {meeting.turn});
  }
  const Session session = cluster.Client(meeting.g);
  const auto give = [&](const std::vector<float>& turns) {
    const Tensor values = *Tensor::From(turns, Shape{static_cast<int64_t>(turns.size())});
    return session.Run({{meeting.given, values}}, {}, {meeting.give}, Meeting::Patience()).status();
  };
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(give({1, 2, 3, 4, 5, 6, 7, 8}).ok());
    for (int turn = 1; turn <= 8; ++turn) {  // enough to know the worker's part
      auto values = session.Run({}, {taken}, {}, Meeting::Patience());
      ASSERT_TRUE(values.ok()) << values.status().message();
      EXPECT_EQ((*values)[0].scalar<float>(), static_cast<float>(-turn));
    }
    RunOptions soon;
    soon.timeout = std::chrono::milliseconds(100);
    const Status late = session.Run({}, {taken}, {}, soon).status();
    EXPECT_EQ(late.code(), Code::kDeadlineExceeded) << late.message();
  }
}

TEST(QueueCluster, AQueueOutlivesItsClientAndIsWhereItsHandleIs) {
  const LocalCluster cluster("loopback://queue_lives", {{"ps", 1}, {"worker", 1}});
  const Meeting meeting;
  const std::vector<float> turns = {7, 8};
  {
    const Session first = cluster.Client(meeting.g);
    ASSERT_TRUE(first.Run({{meeting.given, View(turns, {2})}}, {}, {meeting.give}).ok());
  }
  // The session ends at the server in its own time; its queue stays.
  const Session second = cluster.Client(meeting.g);
  for (const float turn : turns) EXPECT_EQ((*second.Run({}, {meeting.turn}))[0].scalar<float>(), turn);
  // Who uses a queue elsewhere is refused: its handle cannot leave the task.
  Graph g(TheRuntime());
  Output handle;
  {
    const auto on = g.Device(kServer);
    handle = g.Op("FIFOQueueV2", {}, {{"component_types", std::vector<DType>{DType::kFloat}}});
  }
  const auto on = g.Device("/job:worker/task:0");
  const Output size = g.Op("QueueSizeV2", {handle});
  SessionOptions hard;
  hard.soft_placement = false;
  const Status refused = cluster.Client(g, hard).Run({}, {size}).status();
  EXPECT_NE(refused.message().find("takes a resource handle that comes from"), std::string::npos) << refused.message();
}

TEST(QueueCluster, WhoWaitsIsToldWhenTheTaskIsLost) {
  LocalCluster cluster("loopback://queue_lost", {{"worker", 1}, {"ps", 1}});
  const Meeting meeting;
  const Session session = cluster.Client(meeting.g);
  std::thread waiting([&] {
    const Status lost = session.Run({}, {meeting.turn}, {}, Meeting::Patience()).status();
    EXPECT_EQ(lost.code(), Code::kUnavailable) << lost.message();
    EXPECT_NE(lost.message().find("/job:ps/replica:0/task:0"), std::string::npos) << lost.message();
  });
  while (meeting.Arrived(session) != 1) std::this_thread::yield();
  cluster.Stop(1);
  waiting.join();
}

}  // namespace
}  // namespace tenon::engine::queue_cluster_test
