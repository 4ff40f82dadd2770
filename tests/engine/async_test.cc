// SPDX-License-Identifier: Apache-2.0
// Kernels that finish elsewhere, in any order, late or never; kernels that run at once. Covers A14, C11, F4, F5, L5,
// L6, P4.
//
// The test says when each call finishes (tests/fakes/async_plugin.cc): nothing here depends on how long something
// takes.
#include <algorithm>
#include <functional>
#include <future>
#include <random>

#include "tests/engine/engine.h"
#include "tests/fakes/async_control.h"

namespace tenon::engine::async_test {
namespace {

Runtime& AsyncRuntime() {
  static Runtime* const runtime = [] {
    RuntimeOptions options;
    options.plugins = {TENON_TEST_ASYNC_PLUGIN};
    options.threads = 2;
    auto made = Runtime::Create(options);
    EXPECT_TRUE(made.ok()) << made.status().message();
    return new Runtime(std::move(*made));
  }();
  return *runtime;
}
const tenon_test_async& Control() {
  static const tenon_test_async* const control = [] {
    AsyncRuntime();
    const tenon_test_async* found = fakes::AsyncControl(TENON_TEST_ASYNC_PLUGIN);
    EXPECT_NE(found, nullptr);
    return found;
  }();
  return *control;
}

using Values = Result<std::vector<Tensor>>;

// A graph of asynchronous nodes, its session, and steps that run while the test goes on.
class Async : public testing::Test {
 protected:
  // Calls left behind would be another test's.
  void SetUp() override { ASSERT_EQ(Control().pending(), 0u); }
  void TearDown() override { EXPECT_EQ(Control().pending(), 0u); }

  Output Hold(const Output& x, std::string_view name = {}) { return g_.Op("TestHold", {x}, {}, name); }
  void Prepare(const std::vector<Name>& feeds, const std::vector<Name>& fetches, const SessionOptions& options = {}) {
    auto session = Session::Create(AsyncRuntime(), g_, options);
    ASSERT_TRUE(session.ok()) << session.status().message();
    session_ = std::make_unique<Session>(std::move(*session));
    auto callable = session_->Prepare(feeds, fetches);
    ASSERT_TRUE(callable.ok()) << callable.status().message();
    callable_ = std::make_unique<Callable>(std::move(*callable));
  }
  std::future<Values> Start(std::vector<View> feeds = {}, RunOptions options = {}) {
    return std::async(std::launch::async, [this, feeds, options] { return callable_->Run(feeds, options); });
  }
  static std::vector<float> Scalars(const Values& values) {
    EXPECT_TRUE(values.ok()) << values.status().message();
    std::vector<float> out;
    if (values.ok())
      for (const Tensor& tensor : *values) out.push_back(tensor.scalar<float>());
    return out;
  }
  uint64_t BytesInUse() const { return session_->Metrics()->bytes_in_use; }

  Graph g_{AsyncRuntime()};
  std::unique_ptr<Session> session_;
  std::unique_ptr<Callable> callable_;
};

TEST_F(Async, FinishesInEveryOrder) {
  const Output a = Hold(g_.Const(1.0f)), b = Hold(g_.Const(10.0f)), c = Hold(g_.Const(100.0f));
  Prepare({}, {g_.Op("AddV2", {g_.Op("AddV2", {a, b}), c}), b});
  std::vector<uint64_t> order = {0, 1, 2};
  do {
    auto step = Start();
    ASSERT_EQ(Control().wait_for(3), 3u) << "all are pending at once";
    std::vector<float> inputs;
    for (uint64_t i = 0; i < 3; ++i) inputs.push_back(Control().input(i));
    for (uint64_t wanted : order) {
      uint64_t at = 0;
      while (Control().input(at) != inputs[wanted]) ++at;
      EXPECT_EQ(Control().finish(at, 0, nullptr), 1u);
    }
    EXPECT_EQ(Scalars(step.get()), (std::vector<float>{114, 11}));
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(Async, FinishesOneAfterTheOtherAlongAChain) {
  Output x = g_.Const(0.0f);
  for (int i = 0; i < 5; ++i) x = Hold(x);
  Prepare({}, {x});
  auto step = Start();
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(Control().wait_for(1), 1u);
    EXPECT_EQ(Control().input(0), static_cast<float>(i));
    Control().finish(0, 0, nullptr);
  }
  EXPECT_EQ(Scalars(step.get()), std::vector<float>{5});
}

TEST_F(Async, MayFinishBeforeItsSubmissionReturns) {
  Output x = g_.Const(0.0f);
  for (int i = 0; i < 50; ++i) x = g_.Op("TestNow", {x});
  Prepare({}, {x});
  for (int step = 0; step < 3; ++step) EXPECT_EQ(Scalars(callable_->Run()), std::vector<float>{50});
}

// A loop that adds hold(i) for i of [0, turns): the calls do not depend on each other, their sum does.
std::vector<Output> SummingLoop(Graph& g, int32_t turns, int64_t parallel_iterations) {
  LoopOptions options;
  options.parallel_iterations = parallel_iterations;
  return While(
      g, {g.Const(0), g.Const(0.0f)}, {g.Const(turns)}, [&](const auto& v) { return g.Op("Less", {v[0], v[2]}); },
      [&](const auto& v) {
        const Output held = g.Op("TestHold", {g.Op("Cast", {v[0]}, {{"DstT", DType::kFloat}})});
        return std::vector<Output>{g.Op("AddV2", {v[0], g.Const(1)}), g.Op("AddV2", {v[1], held})};
      },
      options);
}

TEST_F(Async, OverlapsIterationsUpToTheLimit) {
  for (const int64_t limit : {2, 5}) {
    SetUp();
    Graph g(AsyncRuntime());
    const std::vector<Output> sum = SummingLoop(g, 12, limit);
    g_ = std::move(g);
    Prepare({}, {sum[1]});
    for (uint32_t seed = 1; seed <= 3; ++seed) {
      const uint64_t before = Control().submitted();
      auto step = Start();
      ASSERT_EQ(Control().wait_for(static_cast<uint64_t>(limit)), static_cast<uint64_t>(limit))
          << "iterations in flight";
      // The newest first: iterations end in another order than they began; none begins while the oldest is there.
      for (int64_t i = limit; --i > 0;) Control().finish(static_cast<uint64_t>(i), 0, nullptr);
      EXPECT_EQ(Control().pending(), 1u);
      EXPECT_EQ(Control().submitted() - before, static_cast<uint64_t>(limit));
      std::minstd_rand random(seed);
      for (uint64_t left = 12 - static_cast<uint64_t>(limit) + 1; left > 0; --left) {
        const uint64_t pending = Control().wait_for(1);
        ASSERT_GE(pending, 1u);
        EXPECT_LE(pending, static_cast<uint64_t>(limit));
        Control().finish(random() % pending, 0, nullptr);
      }
      EXPECT_EQ(Scalars(step.get()), std::vector<float>{78}) << "1 + 2 + ... + 12";
    }
    callable_.reset();
    session_.reset();
  }
}

TEST_F(Async, RunsOneIterationAtATimeWhenTheLoopSaysSo) {
  const std::vector<Output> sum = SummingLoop(g_, 6, 1);
  Prepare({}, {sum[1]});
  auto step = Start();
  for (int i = 0; i < 6; ++i) {
    ASSERT_EQ(Control().wait_for(1), 1u);
    EXPECT_EQ(Control().input(0), static_cast<float>(i));
    Control().finish(0, 0, nullptr);
  }
  EXPECT_EQ(Scalars(step.get()), std::vector<float>{21});
}

TEST_F(Async, FailsLateWithTheNodesNameAndLeavesNothingBehind) {
  const Output x = g_.Placeholder("x", DType::kFloat, Shape());
  const Output late = Hold(x, "late"), other = Hold(g_.Op("AddV2", {x, g_.Const(1.0f)}), "other");
  Prepare({x}, {g_.Op("AddV2", {late, other})});
  uint64_t bytes = 0;
  for (int round = 0; round < 4; ++round) {
    const Tensor fed = *Tensor::Scalar(5.0f);
    auto step = Start({fed});
    ASSERT_EQ(Control().wait_for(2), 2u);
    const uint64_t at = Control().input(0) == 5.0f ? 0 : 1;
    if (round % 2 == 0) {
      // The step's failure cancels the other one, which ends by itself.
      Control().finish(at, TENON_UNAVAILABLE, "the line is dead");
      const Values values = step.get();
      EXPECT_EQ(values.status().code(), Code::kUnavailable);
      EXPECT_EQ(values.status().message(), "node 'late' (TestHold): the line is dead");
    } else {
      Control().finish(0, 0, nullptr);
      Control().finish(0, 0, nullptr);
      EXPECT_EQ(Scalars(step.get()), std::vector<float>{13}) << "the session goes on";
    }
    if (round == 1) bytes = BytesInUse();
  }
  EXPECT_EQ(BytesInUse(), bytes);
}

TEST_F(Async, FailsInALoopWithIterationsInFlight) {
  const std::vector<Output> sum = SummingLoop(g_, 100, 4);
  Prepare({}, {sum[1]});
  uint64_t first = 0;
  for (int round = 0; round < 300; ++round) {
    auto step = Start();
    ASSERT_EQ(Control().wait_for(4), 4u);
    Control().finish(2, TENON_DATA_LOSS, "lost");
    EXPECT_EQ(step.get().status().code(), Code::kDataLoss);
    EXPECT_EQ(Control().pending(), 0u) << "those in flight were cancelled before the step ended";
    if (round == 0) first = BytesInUse();
  }
  // Iterations are kept for later steps: a few more or fewer, by the moment of the failure. A buffer left behind in
  // each step would be 300 times 64 bytes.
  EXPECT_LT(BytesInUse(), first + 100 * 64);
}

TEST_F(Async, IsRefusedAtSubmissionWithTheNodesName) {
  const Output bad = g_.Op("TestRefuse", {g_.Const(1.0f)}, {}, "bad");
  Prepare({}, {bad});
  for (int round = 0; round < 3; ++round) {
    const Values values = callable_->Run();
    EXPECT_EQ(values.status().code(), Code::kUnavailable);
    EXPECT_EQ(values.status().message(), "node 'bad' (TestRefuse): not today");
  }
}

TEST_F(Async, EndsAtItsDeadlineWhenItNeverFinishes) {
  Prepare({}, {Hold(g_.Const(1.0f))});
  RunOptions options;
  options.timeout = std::chrono::milliseconds(20);
  EXPECT_EQ(callable_->Run({}, options).status().code(), Code::kDeadlineExceeded);
  EXPECT_EQ(Control().pending(), 0u);
  auto step = Start();
  ASSERT_EQ(Control().wait_for(1), 1u);
  Control().finish(0, 0, nullptr);
  EXPECT_EQ(Scalars(step.get()), std::vector<float>{2}) << "the session goes on";
}

TEST_F(Async, EndsWhenItsCallerCancels) {
  const std::vector<Output> sum = SummingLoop(g_, 100, 3);
  Prepare({}, {sum[1]});
  auto cancellation = *Cancellation::Create();
  RunOptions options;
  options.cancellation = &cancellation;
  auto step = Start({}, options);
  ASSERT_EQ(Control().wait_for(3), 3u);
  cancellation.Cancel();
  EXPECT_EQ(step.get().status().code(), Code::kCancelled);
  EXPECT_EQ(Control().pending(), 0u);
}

TEST_F(Async, EndsWhenItsSessionDoes) {
  Prepare({}, {Hold(g_.Const(1.0f))});
  auto step = Start();
  ASSERT_EQ(Control().wait_for(1), 1u);
  session_.reset();
  EXPECT_EQ(step.get().status().code(), Code::kCancelled);
}

TEST_F(Async, DecidesTheRaceOfAFinishAndACancel) {
  Prepare({}, {Hold(g_.Const(1.0f))});
  for (int round = 0; round < 50; ++round) {
    auto cancellation = *Cancellation::Create();
    RunOptions options;
    options.cancellation = &cancellation;
    auto step = Start({}, options);
    ASSERT_EQ(Control().wait_for(1), 1u);
    auto finisher = std::async(std::launch::async, [] { return Control().finish(0, 0, nullptr); });
    cancellation.Cancel();
    const uint32_t finished = finisher.get();
    const Values values = step.get();
    // A step that was finished may be cancelled at its very end; one that was not must be.
    EXPECT_TRUE(finished == 1 || !values.ok());
    EXPECT_TRUE(values.ok() ? Scalars(values) == std::vector<float>{2} : values.status().code() == Code::kCancelled);
  }
}

TEST_F(Async, KeepsTwoStepsOfOneCallableApart) {
  const Output x = g_.Placeholder("x", DType::kFloat, Shape());
  Prepare({x}, {Hold(g_.Op("Mul", {Hold(x), g_.Const(2.0f)}))});
  const Tensor one = *Tensor::Scalar(1.0f), ten = *Tensor::Scalar(10.0f);
  for (int round = 0; round < 5; ++round) {
    auto first = Start({one}), second = Start({ten});
    // Each step's calls are told apart by their inputs; the second's go first.
    for (const float input : {10.0f, 22.0f, 1.0f, 4.0f}) {
      uint64_t at = 0;
      ASSERT_GE(Control().wait_for(input == 10.0f || input == 22.0f ? 2 : 1), 1u);
      while (at < Control().pending() && Control().input(at) != input) ++at;
      ASSERT_EQ(Control().finish(at, 0, nullptr), 1u) << input;
    }
    EXPECT_EQ(Scalars(first.get()), std::vector<float>{5});
    EXPECT_EQ(Scalars(second.get()), std::vector<float>{23});
  }
}

TEST_F(Async, AllocatesItsOutputsAtItsEnd) {
  const Output x = g_.Placeholder("x", DType::kFloat, Shape());
  const Output grown = g_.Op("TestGrow", {x});
  Prepare({x}, {grown, g_.Op("Sum", {grown, g_.Const(0)})});
  uint64_t bytes = 0;
  for (const float count : {3.0f, 1000.0f, 0.0f, 3.0f}) {
    const Tensor fed = *Tensor::Scalar(count);
    {
      auto step = Start({fed});
      ASSERT_EQ(Control().wait_for(1), 1u);
      Control().finish(0, 0, nullptr);
      const Values values = step.get();
      ASSERT_TRUE(values.ok()) << values.status().message();
      EXPECT_EQ((*values)[0].shape(), (Shape{static_cast<int64_t>(count)}));
      EXPECT_EQ((*values)[1].scalar<float>(), count * count);
    }
    if (bytes == 0) bytes = BytesInUse();
  }
  EXPECT_EQ(BytesInUse(), bytes);
}

TEST_F(Async, StandsInABranchThatIsTaken) {
  const Output p = g_.Placeholder("p", DType::kBool, Shape());
  const std::vector<Output> out = Cond(
      g_, p, {g_.Const(1.0f)}, [&](const auto& v) { return std::vector{Hold(v[0])}; },
      [&](const auto& v) { return std::vector{g_.Op("Neg", {v[0]})}; });
  Prepare({p}, {out[0]});
  const Tensor yes = *Tensor::FromBytes(DType::kBool, Shape(), "\1", 1),
               no = *Tensor::FromBytes(DType::kBool, Shape(), "\0", 1);
  EXPECT_EQ(Scalars(callable_->Run({no})), std::vector<float>{-1}) << "its kernel is not even submitted";
  auto step = Start({yes});
  ASSERT_EQ(Control().wait_for(1), 1u);
  Control().finish(0, 0, nullptr);
  EXPECT_EQ(Scalars(step.get()), std::vector<float>{2});
}

// ---- Kernels that run at once: they meet, or give 0 ----

TEST_F(Async, RunsIndependentExpensiveKernelsAtOnce) {
  SessionOptions options;
  options.executor = TENON_EXECUTOR_DYNAMIC;
  const Output two = g_.Placeholder("two", DType::kFloat, Shape());
  const std::vector<Name> fetches = {g_.Op("TestMeet", {two}), g_.Op("TestMeet", {two})};
  const Tensor fed = *Tensor::Scalar(2.0f);
  for (int round = 0; round < 10; ++round) {
    Prepare({two}, fetches, options);  // anew: what was seen to be short stays on its caller's thread
    EXPECT_EQ(Scalars(callable_->Run({fed})), (std::vector<float>{1, 1}));
  }
}

// What says nothing of itself is seen to be long, in straight code too, which then gives way.
TEST_F(Async, RunsIndependentLongKernelsAtOnce) {
  const Output x = g_.Placeholder("x", DType::kFloat, Shape()), y = g_.Placeholder("y", DType::kFloat, Shape());
  const std::vector<Name> fetches = {g_.Op("TestLong", {x}), g_.Op("TestLong", {y})};
  const std::vector<View> feeds(2, *Tensor::Scalar(2.0f));
  for (const uint32_t executor : {TENON_EXECUTOR_DYNAMIC, TENON_EXECUTOR_AUTO}) {
    SessionOptions options;
    options.executor = executor;
    Prepare({x, y}, fetches, options);
    std::vector<float> met;
    for (int step = 0; step < 100 && met != std::vector<float>{1, 1}; ++step) met = Scalars(callable_->Run(feeds));
    EXPECT_EQ(met, (std::vector<float>{1, 1})) << "executor " << executor;
    const bool says_why = callable_->Explain()->find("its kernels run side by side") != std::string::npos;
    EXPECT_EQ(says_why, executor == TENON_EXECUTOR_AUTO) << *callable_->Explain();
  }
}

// One after the other there is nothing to be gained, and straight code stays.
TEST_F(Async, LeavesLongKernelsThatNeedEachOtherWhereTheyAre) {
  const Output x = g_.Placeholder("x", DType::kFloat, Shape());
  Prepare({x}, {g_.Op("TestLong", {g_.Op("TestLong", {x})})});
  for (int step = 0; step < 6; ++step)
    EXPECT_EQ(Scalars(callable_->Run({View(*Tensor::Scalar(2.0f))})), (std::vector<float>{0}));
  EXPECT_EQ(callable_->Explain()->find("dynamic"), std::string::npos) << *callable_->Explain();
}

TEST_F(Async, GivesEachBlockingKernelAThreadOfItsOwn) {
  SessionOptions options;
  options.executor = TENON_EXECUTOR_DYNAMIC;
  const Output all = g_.Placeholder("all", DType::kFloat, Shape());
  std::vector<Name> fetches;
  for (int i = 0; i < 6; ++i) fetches.emplace_back(g_.Op("TestMeetBlocking", {all}));
  Prepare({all}, fetches, options);
  const Tensor fed = *Tensor::Scalar(6.0f);
  for (int round = 0; round < 10; ++round) EXPECT_EQ(Scalars(callable_->Run({fed})), std::vector<float>(6, 1));
}

}  // namespace
}  // namespace tenon::engine::async_test
