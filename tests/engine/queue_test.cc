// SPDX-License-Identifier: Apache-2.0
// Queues between steps: pipelines, containers, cancellation, and thousands that wait on few threads. Covers D5, D7, F5,
// F6, M3, M4, M9, M10.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "tests/engine/engine.h"

namespace tenon::engine::queue_test {
namespace {

using Outputs = std::vector<Output>;

const Attrs kFloats = {{"component_types", std::vector<DType>{DType::kFloat}}};

// A queue of float scalars, and a graph with what can be done to it.
struct QueueGraph {
  explicit QueueGraph(int64_t capacity = -1, const std::string& container = "") : g(TheRuntime()) {
    x = g.Placeholder("x", DType::kFloat, Shape());
    rows = g.Placeholder("rows", DType::kFloat, {-1});
    count = g.Placeholder("count", DType::kInt32, Shape());
    handle = g.Op("FIFOQueueV2", {},
                  {{"component_types", std::vector<DType>{DType::kFloat}},
                   {"shapes", std::vector<Shape>{Shape()}},
                   {"capacity", capacity},
                   {"container", container},
                   {"shared_name", "q"}});
    enqueue = g.AddNode("QueueEnqueueV2", {handle, x});
    enqueue_rows = g.AddNode("QueueEnqueueManyV2", {handle, rows});
    dequeued = g.Op("QueueDequeueV2", {handle}, kFloats);
    dequeued_rows = g.Op("QueueDequeueManyV2", {handle, count}, kFloats);
    size = g.Op("QueueSizeV2", {handle});
    close = g.AddNode("QueueCloseV2", {handle});
  }
  Session Open() const {
    auto session = Session::Create(TheRuntime(), g);
    EXPECT_TRUE(session.ok()) << session.status().message();
    return std::move(*session);
  }
  Status Put(const Session& session, float value, const RunOptions& options = {}) const {
    return session.Run({{x, *Tensor::Scalar(value)}}, {}, {enqueue}, options).status();
  }
  Result<float> Get(const Session& session, const RunOptions& options = {}) const {
    auto values = session.Run({}, {dequeued}, {}, options);
    if (!values.ok()) return values.status();
    return (*values)[0].scalar<float>();
  }

  Graph g;
  Output x, rows, count, handle, dequeued, dequeued_rows, size;
  Operation enqueue, enqueue_rows, close;
};

// A loop that takes from a queue what other steps put in meanwhile, until the queue is closed and empty, and passes it
// on by another. It takes only what it has a token for, and the last one's comes after the queue was closed: so it
// never finds the queue open, goes to take, and is told OUT_OF_RANGE.
TEST(Queue, ALoopTakesUntilItIsClosed) {
  constexpr int32_t kElements = 50;
  QueueGraph q(3);
  Graph& g = q.g;
  const Attrs floats = {{"component_types", std::vector<DType>{DType::kFloat}},
                        {"shapes", std::vector<Shape>{Shape()}}};
  const Output tokens = g.Op("FIFOQueueV2", {}, floats, "tokens"), results = g.Op("FIFOQueueV2", {}, floats, "results");
  const Operation give = g.AddNode("QueueEnqueueV2", {tokens, q.x});
  const Output passed = g.Op("QueueDequeueV2", {results}, kFloats);
  const auto ends = While(
      g, {g.Const(0.0f), g.Const(int32_t{0})}, {q.handle, tokens, results},
      [&](const std::vector<Output>& v) {
        const auto after = g.ControlDependencies({Operation(v[1])});
        const Output closed = g.Op("QueueIsClosedV2", {v[2]}), left = g.Op("QueueSizeV2", {v[2]});
        return g.Op("LogicalOr", {g.Op("LogicalNot", {closed}), g.Op("Greater", {left, g.Const(0)})});
      },
      [&](const std::vector<Output>& v) {
        const auto after = g.ControlDependencies({Operation(v[1])});
        const Output token = g.Op("QueueDequeueV2", {v[3]}, kFloats);
        const auto with_token = g.ControlDependencies({Operation(token)});
        const Output element = g.Op("QueueDequeueV2", {v[2]}, kFloats), doubled = g.Op("AddV2", {element, element});
        const auto when_passed = g.ControlDependencies({g.AddNode("QueueEnqueueV2", {v[4], doubled})});
        return std::vector<Output>{g.Op("AddV2", {v[0], element}), g.Op("AddV2", {v[1], g.Const(int32_t{1})})};
      });
  ASSERT_TRUE(g.status().ok()) << g.status();
  const Session session = q.Open();
  RunOptions patient;
  patient.timeout = std::chrono::minutes(1);
  std::thread others([&] {
    for (int i = 1; i <= kElements; ++i) {
      EXPECT_TRUE(q.Put(session, static_cast<float>(i), patient).ok());
      if (i == kElements) {
        EXPECT_TRUE(session.Run({}, {}, {Name(q.close)}, patient).ok());
      }
      EXPECT_TRUE(session.Run({{q.x, *Tensor::Scalar(0.0f)}}, {}, {Name(give)}, patient).ok());
      const auto value = session.Run({}, {passed}, {}, patient);  // while the loop runs
      ASSERT_TRUE(value.ok()) << value.status();
      EXPECT_EQ((*value)[0].scalar<float>(), static_cast<float>(2 * i));
    }
  });
  const auto values = session.Run({}, {ends[0], ends[1]}, {}, patient);
  others.join();
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ((*values)[0].scalar<float>(), kElements * (kElements + 1) / 2);
  EXPECT_EQ((*values)[1].scalar<int32_t>(), kElements);
}

TEST(QueueSteps, HandValuesOverThroughOnePlace) {
  const QueueGraph q(1);
  const Session session = q.Open();
  std::thread producer([&] {
    for (int i = 0; i < 200; ++i) EXPECT_TRUE(q.Put(session, static_cast<float>(i)).ok());
    EXPECT_TRUE(session.RunTargets({q.close}).ok());
  });
  for (int i = 0; i < 200; ++i) EXPECT_EQ(*q.Get(session), static_cast<float>(i));
  producer.join();
  EXPECT_EQ(q.Get(session).status().code(), Code::kOutOfRange);
}

TEST(QueueSteps, TakeSeveralAtOnce) {
  const QueueGraph q;
  const Session session = q.Open();
  const auto take = [&](int32_t count) {
    auto values = session.Run({{q.count, *Tensor::Scalar(count)}}, {q.dequeued_rows});
    EXPECT_TRUE(values.ok()) << values.status().message();
    return values.ok() ? Values<float>((*values)[0]) : std::vector<float>{};
  };
  for (int i = 1; i < 6; ++i) ASSERT_TRUE(q.Put(session, static_cast<float>(i)).ok());
  EXPECT_EQ(take(2), (std::vector<float>{1, 2}));
  EXPECT_EQ(take(3), (std::vector<float>{3, 4, 5}));
}

size_t ThreadsOfTheProcess() {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) count += entry.exists();
  return count;
}

TEST(QueueSteps, TenThousandWaitInOneStepWithoutAThreadEach) {
  QueueGraph q;
  std::vector<Output> all;
  constexpr int kWaiting = 10000;
  for (int i = 0; i < kWaiting; ++i) all.push_back(q.g.Op("QueueDequeueV2", {q.handle}, kFloats));
  const Output sum = q.g.Op("AddN", {all});
  const Session session = q.Open();
  ASSERT_TRUE(session.Run({}, {q.size}).ok());
  const size_t before = ThreadsOfTheProcess();
  std::thread waiting([&] { EXPECT_EQ((*session.Run({}, {sum}))[0].scalar<float>(), static_cast<float>(kWaiting)); });
  const std::vector<float> ones(kWaiting / 2, 1.0f);
  ASSERT_TRUE(session.Run({{q.rows, View(ones, {kWaiting / 2})}}, {}, {q.enqueue_rows}).ok());
  // All that was put in is taken, so the step waits.
  while ((*session.Run({}, {q.size}))[0].scalar<int32_t>() != 0) std::this_thread::yield();
  EXPECT_LE(ThreadsOfTheProcess(), before + 2);
  ASSERT_TRUE(session.Run({{q.rows, View(ones, {kWaiting / 2})}}, {}, {q.enqueue_rows}).ok());
  waiting.join();
}

// Each step is one of its own: while it waits it has memory, and no thread.
TEST(QueueSteps, TenThousandAsynchronousStepsWaitWithoutAThreadEach) {
  const QueueGraph q;
  const Session session = q.Open();
  const Callable get = *session.Prepare({}, {q.dequeued});
  constexpr int kSteps = 10000;
  ASSERT_TRUE(session.Run({}, {q.size}).ok());
  const size_t before = ThreadsOfTheProcess();
  std::atomic<int> done{0};
  const auto ended = [&done](const Result<std::vector<Tensor>>& values) {
    EXPECT_TRUE(values.ok()) << values.status();
    EXPECT_EQ(values.ok() ? (*values)[0].scalar<float>() : 0, 1);
    done.fetch_add(1);
  };
  for (int i = 0; i < kSteps; ++i) ASSERT_TRUE(get.RunAsync({}, ended, {}).ok());
  const std::vector<float> ones(kSteps / 2, 1.0f);
  const View half(ones, {kSteps / 2});
  ASSERT_TRUE(session.Run({{q.rows, half}}, {}, {q.enqueue_rows}).ok());
  while (done.load() != kSteps / 2) std::this_thread::yield();
  // The other half waits. Threads that have nothing to do go, but for some that stay for the next work.
  constexpr size_t kStay = 70;
  for (int polls = 0; polls < 3000 && ThreadsOfTheProcess() > before + kStay; ++polls)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_LE(ThreadsOfTheProcess(), before + kStay);
  EXPECT_EQ(done.load(), kSteps / 2);
  ASSERT_TRUE(session.Run({{q.rows, half}}, {}, {q.enqueue_rows}).ok());
  while (done.load() != kSteps) std::this_thread::yield();
}

// What ends a step that waits: its deadline, who asked for it, its session.
TEST(QueueSteps, ThatWaitAsynchronouslyEndWithTheirDeadlineTheirCancellationAndTheirSession) {
  const QueueGraph q;
  auto session = std::make_unique<Session>(q.Open());
  auto get = std::make_unique<Callable>(*session->Prepare({}, {q.dequeued}));
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Code> codes;
  const auto ended = [&](const Result<std::vector<Tensor>>& values) {
    const std::lock_guard lock(mutex);
    codes.push_back(values.status().code());
    changed.notify_all();
  };
  const auto await = [&](size_t count) {
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(60), [&] { return codes.size() == count; }))
        << codes.size() << " of " << count;
  };
  RunOptions options;
  options.timeout = std::chrono::milliseconds(20);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(get->RunAsync({}, ended, options).ok());
  await(100);
  EXPECT_EQ(std::count(codes.begin(), codes.end(), Code::kDeadlineExceeded), 100);
  codes.clear();
  auto cancellation = Cancellation::Create();
  RunOptions cancellable;
  cancellable.cancellation = &*cancellation;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(get->RunAsync({}, ended, cancellable).ok());
  cancellation->Cancel();
  await(100);
  EXPECT_EQ(std::count(codes.begin(), codes.end(), Code::kCancelled), 100);
  codes.clear();
  ASSERT_TRUE(q.Put(*session, 1).ok());
  EXPECT_EQ(*q.Get(*session), 1) << "who was cancelled took nothing";
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(get->RunAsync({}, ended, {}).ok());
  get.reset();
  session.reset();
  await(100);
  EXPECT_EQ(std::count(codes.begin(), codes.end(), Code::kCancelled), 100);
}

TEST(QueueSteps, ThatWaitAsynchronouslyDoNotKeepOutTheOneTheyWaitFor) {
  const QueueGraph q;
  const Session session = q.Open();
  const Callable get = *session.Prepare({}, {q.dequeued}), put = *session.Prepare({q.rows}, {}, {q.enqueue_rows});
  constexpr int kWaiting = 150;
  std::latch done(kWaiting + 1);
  const auto ended = [&done](const Result<std::vector<Tensor>>& values) {
    EXPECT_TRUE(values.ok()) << values.status().message();
    done.count_down();
  };
  RunOptions options;
  options.timeout = std::chrono::seconds(60);
  for (int i = 0; i < kWaiting; ++i) ASSERT_TRUE(get.RunAsync({}, ended, options).ok());
  const std::vector<float> ones(kWaiting, 1.0f);
  ASSERT_TRUE(put.RunAsync({View(ones, {kWaiting})}, ended, options).ok());
  done.wait();
}

TEST(QueueSteps, EndWithTheirDeadlineTheirCancellationAndTheirSession) {
  const QueueGraph q;
  auto session = std::make_unique<Session>(q.Open());
  RunOptions options;
  options.timeout = std::chrono::milliseconds(5);
  EXPECT_EQ(q.Get(*session, options).status().code(), Code::kDeadlineExceeded);
  auto cancellation = Cancellation::Create();
  RunOptions cancellable;
  cancellable.cancellation = &*cancellation;
  std::thread cancelled([&] { EXPECT_EQ(q.Get(*session, cancellable).status().code(), Code::kCancelled); });
  cancellation->Cancel();
  cancelled.join();
  ASSERT_TRUE(q.Put(*session, 1).ok());
  EXPECT_EQ(*q.Get(*session), 1) << "who was cancelled took nothing";
  std::thread left([&, owned = session.get()] {
    EXPECT_EQ(owned->Run({{q.count, *Tensor::Scalar(int32_t{2})}}, {q.dequeued_rows}).status().code(),
              Code::kCancelled);
  });
  // The step is inside when it has taken the one that there is.
  ASSERT_TRUE(q.Put(*session, 2).ok());
  while ((*session->Run({}, {q.size}))[0].scalar<int32_t>() != 0) std::this_thread::yield();
  session.reset();
  left.join();
}

TEST(QueueSteps, OfSeveralSessionsMeetInANamedContainer) {
  const QueueGraph a(-1, "meeting"), b(-1, "meeting"), other(-1, "");
  const Session first = a.Open(), second = b.Open(), third = other.Open();
  ASSERT_TRUE(a.Put(first, 5).ok());
  EXPECT_EQ((*third.Run({}, {other.size}))[0].scalar<int32_t>(), 0);
  EXPECT_EQ(*b.Get(second), 5);
}

TEST(QueueSteps, ThatDescribeTheQueueOtherwiseAreRefused) {
  const QueueGraph a(2, "differs"), b(3, "differs");
  const Session first = a.Open(), second = b.Open();
  ASSERT_TRUE(a.Put(first, 5).ok());
  const Status refused = b.Get(second).status();
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_NE(refused.message().find("the shared FIFOQueue 'q' exists with other capacity"), std::string::npos)
      << refused.message();
}

TEST(QueueSteps, KnowTheShapesOfWhatComesOut) {
  QueueGraph q;
  const Output three = q.g.Op("QueueDequeueManyV2", {q.handle, q.g.Const(3)}, kFloats);
  const Output shape = q.g.Op("Shape", {three});
  const Session session = q.Open();
  EXPECT_EQ(Values<int32_t>((*session.Run({}, {shape}))[0]), std::vector<int32_t>{3})
      << "no element is needed to say so";
}

// Elements are never doubled, whoever gives up when.
TEST(QueueSteps, ThatGiveUpAtRandomTakeNoElementTwice) {
  const QueueGraph q(5);
  const Session session = q.Open();
  std::mutex mutex;
  std::set<float> seen;
  int doubled = 0;
  std::atomic<int> running = 3;
  std::vector<std::thread> threads;
  for (int p = 0; p < 3; ++p)
    threads.emplace_back([&, p] {
      for (int i = 0; i < 150; ++i) EXPECT_TRUE(q.Put(session, static_cast<float>(p * 1000 + i)).ok());
      if (--running == 0) {
        EXPECT_TRUE(session.RunTargets({q.close}).ok());
      }
    });
  for (int c = 0; c < 3; ++c)
    threads.emplace_back([&, c] {
      std::mt19937 random(static_cast<unsigned>(c));
      for (;;) {
        RunOptions options;
        options.timeout = std::chrono::microseconds(20 + random() % 300);
        const int32_t wanted = 1 + static_cast<int32_t>(random() % 4);
        auto values = session.Run({{q.count, *Tensor::Scalar(wanted)}}, {q.dequeued_rows}, {}, options);
        if (!values.ok() && values.status().code() == Code::kOutOfRange && wanted == 1) return;
        if (!values.ok()) continue;
        const std::lock_guard lock(mutex);
        for (const float value : Values<float>((*values)[0])) doubled += !seen.insert(value).second;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(doubled, 0);
  EXPECT_GT(seen.size(), 0u);
  EXPECT_LE(seen.size(), 450u);
}

// What is known before the step waits all the same for what takes an element; also where it is a function's.
TEST(QueueSteps, TakeWhatAKnownValueWaitsFor) {
  for (const uint32_t executor : {TENON_EXECUTOR_AUTO, TENON_EXECUTOR_DYNAMIC})
    for (const bool optimize : {true, false}) {
      QueueGraph q;
      Graph& g = q.g;
      Output known;
      {
        const auto after = g.ControlDependencies({g.AddNode("QueueDequeueV2", {q.handle}, kFloats)});
        known = g.Op("AddV2", {g.Const(5.0f), g.Const(1.0f)});
      }
      ASSERT_TRUE(g.status().ok()) << g.status();
      SessionOptions options;
      options.executor = executor;
      options.optimize = optimize;
      const auto session = Session::Create(TheRuntime(), g, options);
      ASSERT_TRUE(session.ok()) << session.status();
      for (int i = 0; i < 2; ++i) ASSERT_TRUE(q.Put(*session, 1).ok());
      EXPECT_EQ((*session->Run({}, {known}))[0].scalar<float>(), 6);
      EXPECT_EQ((*session->Run({}, {q.size}))[0].scalar<int32_t>(), 1)
          << "executor " << executor << ", optimized " << optimize;
    }
}

// A function whose control return is a branch that takes an element, or a call that does: it takes one whichever of its
// values is fetched.
TEST(QueueSteps, TakeWhatABranchOfACallTakes) {
  for (const bool nested : {false, true})
    for (const uint32_t executor : {TENON_EXECUTOR_AUTO, TENON_EXECUTOR_DYNAMIC}) {
      QueueGraph q;
      Graph& g = q.g;
      const std::vector<Argument> types = {DType::kResource, {DType::kFloat, Shape()}};
      const Function takes = Define(g, "takes", [](Graph& body, const Outputs& v) {
        const auto take = [&body](const Outputs& w) { return Outputs{body.Op("QueueDequeueV2", {w[0]}, kFloats)}; };
        const auto leave = [](const Outputs& w) { return Outputs{w[1]}; };
        const Output yes = body.Op("GreaterEqual", {v[1], v[1]});
        const Outputs element = Cond(body, yes, v, [&](const Outputs& w) {
          const auto after = body.ControlDependencies({Operation(take(w)[0])});
          return Outputs{body.Op("Identity", {w[1]})};
        }, leave);
        return FunctionResults({body.Op("Neg", {v[1]})}, {Operation(element[0])});
      }, types);
      const Function calls = Define(g, "calls", [&](Graph& body, const Outputs& v) {
        return FunctionResults({body.Op("Square", {v[1]})}, {body.Call(takes, v)});
      }, types);
      const Output value = g.Call(nested ? calls : takes, {q.handle, g.Const(3.0f)}).output(0);
      ASSERT_TRUE(g.status().ok()) << g.status();
      SessionOptions options;
      options.executor = executor;
      const auto session = Session::Create(TheRuntime(), g, options);
      ASSERT_TRUE(session.ok()) << session.status();
      for (int i = 0; i < 2; ++i) ASSERT_TRUE(q.Put(*session, 1).ok());
      EXPECT_EQ((*session->Run({}, {value}))[0].scalar<float>(), nested ? 9 : -3);
      EXPECT_EQ((*session->Run({}, {q.size}))[0].scalar<int32_t>(), 1) << "executor " << executor << ", " << nested;
    }
}

// The same of steps that stand still, each of which begins the next one when it has ended.
TEST(QueueSteps, ThatGiveUpAtRandomWhileNoThreadWaitsTakeNoElementTwice) {
  const QueueGraph q(5);
  const Session session = q.Open();
  const Callable get = *session.Prepare({q.count}, {q.dequeued_rows});
  constexpr int kChains = 6;
  std::latch over(kChains);
  std::mutex mutex;
  std::set<float> seen;
  int doubled = 0, others = 0;
  struct Chain {
    std::mt19937 random;
    Tensor wanted;
  };
  std::vector<Chain> chains(kChains);
  const std::function<void(size_t)> next = [&](size_t c) {
    Chain& chain = chains[c];
    const int32_t count = 1 + static_cast<int32_t>(chain.random() % 4);
    chain.wanted = *Tensor::Scalar(count);
    RunOptions options;
    options.timeout = std::chrono::microseconds(20 + chain.random() % 3000);
    const auto cancellation = std::make_shared<Cancellation>(*Cancellation::Create());
    const bool cancels = chain.random() % 3 == 0;
    options.cancellation = cancellation.get();
    const Status begun = get.RunAsync(
        {chain.wanted},
        [&, c, count, cancellation](const Result<std::vector<Tensor>>& values) {
          const Code code = values.status().code();
          if (values.ok()) {
            const std::lock_guard lock(mutex);
            for (const float value : Values<float>((*values)[0])) doubled += seen.insert(value).second ? 0 : 1;
          } else if (code == Code::kOutOfRange && count == 1) {
            return over.count_down();
          } else if (code != Code::kDeadlineExceeded && code != Code::kCancelled && code != Code::kOutOfRange) {
            const std::lock_guard lock(mutex);
            ++others;
          }
          next(c);
        },
        options);
    EXPECT_TRUE(begun.ok()) << begun;
    if (cancels) cancellation->Cancel();  // the chain may be further by now
  };
  for (size_t c = 0; c < chains.size(); ++c) {
    chains[c].random.seed(static_cast<unsigned>(c));
    next(c);
  }
  for (int i = 0; i < 300; ++i) EXPECT_TRUE(q.Put(session, static_cast<float>(i)).ok());
  EXPECT_TRUE(session.RunTargets({q.close}).ok());
  over.wait();
  EXPECT_EQ(doubled, 0);
  EXPECT_EQ(others, 0);
  EXPECT_GT(seen.size(), 0u);
}

}  // namespace
}  // namespace tenon::engine::queue_test
