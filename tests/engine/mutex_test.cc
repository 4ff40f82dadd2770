// SPDX-License-Identifier: Apache-2.0
// Mutexes between steps: one step at a time, whoever fails or is given up, and what Abort does instead of ending the
// process. Covers B7, D8.
#include <string>
#include <thread>
#include <vector>

#include "tests/engine/engine.h"

namespace tenon::engine::mutex_test {
namespace {

const Attrs kFloats = {{"component_types", std::vector<DType>{DType::kFloat}}};

// A variable that steps read and write under a lock, and a step that stays inside until it is let go.
struct Guarded {
  Guarded() : g(TheRuntime()) {
    mutex = g.Op("MutexV2", {}, {{"shared_name", "m"}});
    const Output variable =
        g.Op("VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", Shape()}, {"shared_name", "v"}});
    assign = g.AddNode("AssignVariableOp", {variable, g.Const(0.0f)});
    read = g.Op("ReadVariableOp", {variable}, {{"dtype", DType::kFloat}});
    add = Inside([&] {
      return g.AddNode(
          "AssignVariableOp",
          {variable, g.Op("AddV2", {g.Op("ReadVariableOp", {variable}, {{"dtype", DType::kFloat}}), g.Const(1.0f)})});
    });
    const Output entered = Queue("entered"), gate = Queue("gate");
    const auto get = [&](const Output& queue) { return g.Op("QueueDequeueV2", {queue}, kFloats); };
    const auto put = [&](const Output& queue) { return g.AddNode("QueueEnqueueV2", {queue, g.Const(1.0f)}); };
    stay = Inside([&] {
      const Operation told = put(entered);
      const auto after = g.ControlDependencies({told});
      return Operation(get(gate));
    });
    has_entered = get(entered);
    let_go = put(gate);
    fail = Inside([&] { return g.AddNode("Abort", {}, {{"error_msg", "on purpose"}}); });
    keep = Operation(g.Op("MutexLock", {mutex}));
  }
  Output Queue(const std::string& name) {
    return g.Op("FIFOQueueV2", {},
                {{"component_types", std::vector<DType>{DType::kFloat}},
                 {"shapes", std::vector<Shape>{Shape()}},
                 {"shared_name", name}});
  }
  template <class Make>
  Operation Inside(const Make& make) {
    const Output lock = g.Op("MutexLock", {mutex});
    const auto after_lock = g.ControlDependencies({Operation(lock)});
    const Operation last = make();
    const auto after_all = g.ControlDependencies({last});
    return g.AddNode("ConsumeMutexLock", {lock});
  }
  Session Open() {
    EXPECT_TRUE(g.status().ok()) << g.status();
    auto session = Session::Create(TheRuntime(), g);
    EXPECT_TRUE(session.ok()) << session.status().message();
    EXPECT_TRUE(session->RunTargets({Name(assign)}).ok());
    return std::move(*session);
  }

  Graph g;
  Output mutex, read, has_entered;
  Operation assign, add, stay, let_go, fail, keep;
};

Status RunOne(const Session& session, const Operation& target, const RunOptions& options = {}) {
  return session.Run({}, {}, {target}, options).status();
}

TEST(Mutex, NoStepComesBetweenReadingAndWriting) {
  Guarded guarded;
  const Session session = guarded.Open();
  constexpr int kThreads = 4, kSteps = 200;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      for (int step = 0; step < kSteps; ++step) EXPECT_TRUE(RunOne(session, guarded.add).ok());
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ((*session.Run({}, {guarded.read}))[0].scalar<float>(), static_cast<float>(kThreads * kSteps));
}

// Two variables that change together, by a step that stands still between the two: who reads both under the lock has
// both as they were, or both as they will be.
TEST(Mutex, WhatBelongsTogetherIsSeenTogether) {
  Guarded guarded;
  Graph& g = guarded.g;
  const Output x = g.Placeholder("x", DType::kFloat, Shape());
  const Output halfway = guarded.Queue("halfway"), on = guarded.Queue("on"), asked = guarded.Queue("asked");
  const auto put = [&](const Output& queue) { return g.AddNode("QueueEnqueueV2", {queue, x}); };
  const auto get = [&](const Output& queue) { return g.Op("QueueDequeueV2", {queue}, kFloats); };
  const auto variable = [&](const char* name) {
    return g.Op("VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", Shape()}, {"shared_name", std::string(name)}});
  };
  const Output one = variable("one"), other = variable("other");
  const Operation first[] = {g.AddNode("AssignVariableOp", {one, g.Const(0.0f)}),
                             g.AddNode("AssignVariableOp", {other, g.Const(0.0f)})};
  const Operation change = guarded.Inside([&] {
    const auto after_one = g.ControlDependencies({g.AddNode("AssignVariableOp", {one, x})});
    const auto after_told = g.ControlDependencies({put(halfway)});
    const auto after_go = g.ControlDependencies({Operation(get(on))});
    return g.AddNode("AssignVariableOp", {other, x});
  });
  Output reads[2];
  const Operation ask = put(asked);
  const Operation read = [&] {
    const auto after_asked = g.ControlDependencies({ask});
    return guarded.Inside([&] {
      for (int i = 0; i < 2; ++i) reads[i] = g.Op("ReadVariableOp", {i == 0 ? one : other}, {{"dtype", DType::kFloat}});
      const auto after_both = g.ControlDependencies({Operation(reads[0]), Operation(reads[1])});
      return g.AddNode("NoOp", {});
    });
  }();
  const Output told = get(halfway), wished = get(asked);
  const Operation go = put(on);
  const Session session = guarded.Open();
  ASSERT_TRUE(session.RunTargets({Name(first[0]), Name(first[1])}).ok());
  for (float value = 1; value <= 20; ++value) {
    const std::vector<Feed> feeds = {{x, *Tensor::Scalar(value)}};
    std::thread writer([&] { EXPECT_TRUE(session.Run(feeds, {}, {change}).ok()); });
    EXPECT_TRUE(session.Run({}, {told}).ok());
    std::thread reader([&] {
      const auto values = session.Run(feeds, {reads[0], reads[1]}, {read});
      ASSERT_TRUE(values.ok()) << values.status();
      EXPECT_EQ((*values)[0].scalar<float>(), value);
      EXPECT_EQ((*values)[1].scalar<float>(), value);
    });
    EXPECT_TRUE(session.Run({}, {wished}).ok());
    EXPECT_TRUE(session.Run(feeds, {}, {go}).ok());
    writer.join();
    reader.join();
  }
}

TEST(Mutex, AStepThatWaitsCanBeGivenUpAndTheOthersGoOn) {
  Guarded guarded;
  const Session session = guarded.Open();
  std::thread inside([&] { EXPECT_TRUE(RunOne(session, guarded.stay).ok()); });
  ASSERT_TRUE(session.Run({}, {guarded.has_entered}).ok());
  RunOptions brief;
  brief.timeout = std::chrono::milliseconds(1);
  const Status waited = RunOne(session, guarded.add, brief);
  EXPECT_EQ(waited.code(), Code::kDeadlineExceeded) << waited;
  std::thread next([&] { EXPECT_TRUE(RunOne(session, guarded.add).ok()); });
  EXPECT_EQ((*session.Run({}, {guarded.read}))[0].scalar<float>(), 0);
  ASSERT_TRUE(RunOne(session, guarded.let_go).ok());
  inside.join();
  next.join();
  EXPECT_EQ((*session.Run({}, {guarded.read}))[0].scalar<float>(), 1);
}

TEST(Mutex, AStepThatIsGivenUpInsideLeavesNothingLocked) {
  Guarded guarded;
  const Session session = guarded.Open();
  RunOptions brief;
  brief.timeout = std::chrono::milliseconds(20);
  EXPECT_FALSE(RunOne(session, guarded.stay, brief).ok());
  EXPECT_TRUE(RunOne(session, guarded.add).ok());
  EXPECT_EQ((*session.Run({}, {guarded.read}))[0].scalar<float>(), 1);
}

TEST(Mutex, AStepThatFailsInsideOrKeepsItsLockLeavesNothingLocked) {
  Guarded guarded;
  const Session session = guarded.Open();
  for (int i = 0; i < 3; ++i) {
    const Status failed = RunOne(session, guarded.fail);
    EXPECT_EQ(failed.code(), Code::kAborted) << failed;
    EXPECT_NE(failed.message().find("on purpose"), std::string::npos) << failed;
    EXPECT_TRUE(RunOne(session, guarded.keep).ok());
    EXPECT_TRUE(RunOne(session, guarded.add).ok());
  }
  EXPECT_EQ((*session.Run({}, {guarded.read}))[0].scalar<float>(), 3);
}

TEST(Mutex, WhatIsNoLockIsRefused) {
  Guarded guarded;
  const Operation bad = guarded.g.AddNode("ConsumeMutexLock", {guarded.g.Op("OptionalNone", {})});
  const Session session = guarded.Open();
  const Status refused = RunOne(session, bad);
  EXPECT_EQ(refused.code(), Code::kInvalidArgument) << refused;
  EXPECT_NE(refused.message().find("no lock of a mutex"), std::string::npos) << refused;
}

TEST(Abort, FailsTheStepAndNotTheProcessAlsoWithoutAnError) {
  Graph g(TheRuntime());
  const Operation abort = g.AddNode("Abort", {}, {{"error_msg", "enough"}, {"exit_without_error", true}});
  auto session = Session::Create(TheRuntime(), g);
  ASSERT_TRUE(session.ok()) << session.status();
  const Status failed = RunOne(*session, abort);
  EXPECT_EQ(failed.code(), Code::kAborted) << failed;
  EXPECT_NE(failed.message().find("enough; exit_without_error would have the process end well"), std::string::npos)
      << failed;
}

}  // namespace
}  // namespace tenon::engine::mutex_test
