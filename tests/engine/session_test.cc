// SPDX-License-Identifier: Apache-2.0
// Sessions: extending, feeding and fetching any edge, concurrent and partial steps, limits. Covers A4, A6, C1 to C8,
// C10, C11, D1, D2, E9, F3, N1, N2.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <span>
#include <thread>

#include "tests/engine/engine.h"
#include "tests/fakes/temporary_folder.h"

namespace tenon::engine::session_test {
namespace {

TEST(Session, FeedsTheMiddleOfAChainAndRunsNothingBeforeIt) {
  Graph g(TheRuntime());
  // The first node would fail.
  const Output bad = g.Op("FloorDiv", {g.Placeholder("never", DType::kInt32, {}), g.Const(0)}, {}, "bad");
  const Output middle = g.Op("Neg", {bad}, {}, "middle");
  const Output end = g.Op("AddV2", {middle, g.Const(1)}, {}, "end");
  const auto values = RunOnce(g, {{"middle:0", *Tensor::Scalar(int32_t{41})}}, {end});
  ASSERT_EQ(values.size(), 1u);
  EXPECT_EQ(Values<int32_t>(values[0])[0], 42);
}

TEST(Session, GrowsWhileItIsUsedAndRefusesAClash) {
  Graph g(TheRuntime());
  const Output a = g.Const(2.0f, "a");
  auto session = Session::Create(TheRuntime(), g);
  ASSERT_TRUE(session.ok());
  ASSERT_TRUE(session->Run({}, {a}).ok());
  const Output b = g.Op("Square", {a}, {}, "b");
  ASSERT_TRUE(session->Extend(g).ok());
  auto values = session->Run({}, {b});
  ASSERT_TRUE(values.ok()) << values.status().message();
  EXPECT_EQ(Values<float>((*values)[0])[0], 4.0f);
  auto def = g.Export();
  ASSERT_TRUE(def.ok());
  const Status clash = session->Extend(*def);
  EXPECT_EQ(clash.code(), Code::kAlreadyExists) << clash.message();
  EXPECT_TRUE(session->Run({}, {b}).ok());
}

// A gradient makes the calls that it goes through dataflow: the session, which has them as calls, is told so, and what
// they change is changed once.
TEST(Session, GrowsByGradientsThroughCallsThatItHas) {
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, {});
  const Output sum =
      g.Op("VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", Shape{}}, {"shared_name", "sum"}}, "sum");
  const Operation first = g.AddNode("AssignVariableOp", {sum, g.Const(0.0f)}, {}, "first");
  const Function square = Define(g, "square", [](Graph& body, const std::vector<Output>& v) {
    return FunctionResults({body.Op("Mul", {v[0], v[0]})}, {body.AddNode("AssignAddVariableOp", {v[1], v[0]})});
  }, {{DType::kFloat, Shape()}, DType::kResource});
  const Operation by_name = g.Call(square, {x, sum});
  const Operation by_op = g.AddNode("StatefulPartitionedCall", {by_name.output(0), sum},
                                    {{"f", square}, {"Tout", std::vector<DType>{DType::kFloat}}}, "by_op");
  const Output now = g.Op("ReadVariableOp", {sum}, {{"dtype", DType::kFloat}}, "now");
  auto session = Session::Create(TheRuntime(), g);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE(session->RunTargets({first}).ok());
  const Feed three{x, *Tensor::Scalar(3.0f)};
  auto values = session->Run({three}, {by_op.output(0)});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ((*values)[0].scalar<float>(), 81);
  values = session->Run({}, {now});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ((*values)[0].scalar<float>(), 3 + 9);
  const Output slope = g.Gradients({by_op.output(0)}, {x})[0].dense;
  ASSERT_TRUE(g.status().ok()) << g.status();
  const Status grown = session->Extend(g);
  ASSERT_TRUE(grown.ok()) << grown;
  values = session->Run({three}, {by_op.output(0), slope});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ((*values)[0].scalar<float>(), 81);
  EXPECT_EQ((*values)[1].scalar<float>(), 108);
  values = session->Run({}, {now});
  ASSERT_TRUE(values.ok());
  EXPECT_EQ((*values)[0].scalar<float>(), 2 * (3 + 9));
}

TEST(Session, GrowsBesideStepsThatRun) {
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kInt64, {});
  Output last = g.Op("AddV2", {x, g.Const(int64_t{1})}, {}, "sum0");
  auto session = Session::Create(TheRuntime(), g);
  ASSERT_TRUE(session.ok());
  constexpr int kExtends = 60;
  std::atomic<int> known{0};
  std::vector<std::thread> threads;
  std::atomic<int64_t> steps{0};
  for (int t = 0; t < 3; ++t) threads.emplace_back([&, t] {
    for (int64_t n = t; known < kExtends; n += 3) {
      const int which = static_cast<int>(n % (known + 1));  // sum<k> is x + k + 1
      const auto values = session->Run({{"x", *Tensor::Scalar(n)}}, {"sum" + std::to_string(which)});
      ASSERT_TRUE(values.ok()) << values.status();
      ASSERT_EQ((*values)[0].scalar<int64_t>(), n + which + 1);
      ++steps;
    }
  });
  for (int k = 1; k <= kExtends; ++k) {
    last = g.Op("AddV2", {last, g.Const(int64_t{1})}, {}, "sum" + std::to_string(k));
    const Status extended = session->Extend(g);
    EXPECT_TRUE(extended.ok()) << extended;
    const int64_t so_far = steps;
    known = k;
    while (k < kExtends && steps < so_far + 3) std::this_thread::yield();
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Session, NamesWhatIsWrongWithAFeed) {
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, {2, 2});
  const Output y = g.Op("MatMul", {x, x}, {}, "y");
  auto session = Session::Create(TheRuntime(), g);
  ASSERT_TRUE(session.ok());
  const auto fail = [&](const std::vector<Feed>& feeds, std::string_view expected) {
    auto values = session->Run(feeds, {y});
    ASSERT_FALSE(values.ok());
    EXPECT_NE(values.status().message().find(expected), std::string::npos) << values.status().message();
  };
  fail({}, "node 'x' (Placeholder) must be fed");
  fail({{x, *Tensor::Scalar(1.0)}}, "'x:0' must be float, found double");
  fail({{x, *Tensor::Scalar(1.0f)}}, "'x:0' is declared as float[2,2], found float[]");
  fail({{"nox", *Tensor::Scalar(1.0f)}}, "no node 'nox'");
  fail({{"x:3", *Tensor::Scalar(1.0f)}}, "has 1 outputs");
}

TEST(Session, RunsControlDependenciesInOrder) {
  // Each increment waits for the one before; the read waits for all.
  Graph g(TheRuntime());
  const Output v = g.Op("VarHandleOp", {}, {{"dtype", DType::kInt32}, {"shape", Shape{}}, {"shared_name", "v"}});
  const Operation init = g.AddNode("AssignVariableOp", {v, g.Const(0)}, {{"dtype", DType::kInt32}}, "init");
  Operation last = init;
  for (int i = 0; i < 50; ++i) {
    const auto order = g.ControlDependencies({last});
    last = g.AddNode("AssignAddVariableOp", {v, g.Const(i)}, {{"dtype", DType::kInt32}});
  }
  const auto order = g.ControlDependencies({last});
  const Output read = g.Op("ReadVariableOp", {v}, {{"dtype", DType::kInt32}});
  for (const uint32_t seed : {0u, 1u, 2u, 3u})
    for (const uint32_t executor : {TENON_EXECUTOR_AUTO, TENON_EXECUTOR_DYNAMIC}) {
      SessionOptions options;
      options.executor = executor;
      options.debug.schedule_seed = seed;
      const auto values = RunOnce(g, {}, {read}, options);
      ASSERT_EQ(values.size(), 1u);
      EXPECT_EQ(Values<int32_t>(values[0])[0], 49 * 50 / 2);
    }
}

TEST(Session, KeepsAValueThatWasReadWhenTheVariableIsWritten) {
  Graph g(TheRuntime());
  const Output v = g.Op("VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", Shape{3}}, {"shared_name", "v"}});
  const Operation init =
      g.AddNode("AssignVariableOp", {v, g.Const({1.0f, 2.0f, 3.0f})}, {{"dtype", DType::kFloat}}, "init");
  const Output read = g.Op("ReadVariableOp", {v}, {{"dtype", DType::kFloat}}, "before");
  Output after;
  {
    const auto order = g.ControlDependencies({Operation(read)});
    const Operation add =
        g.AddNode("AssignAddVariableOp", {v, g.Const({10.0f, 10.0f, 10.0f})}, {{"dtype", DType::kFloat}});
    const auto later = g.ControlDependencies({add});
    after = g.Op("Sub", {g.Op("ReadVariableOp", {v}, {{"dtype", DType::kFloat}}), read}, {}, "difference");
  }
  auto session = Session::Create(TheRuntime(), g);
  ASSERT_TRUE(session.ok());
  const auto uninitialized = session->Run({}, {read});
  ASSERT_FALSE(uninitialized.ok());
  EXPECT_EQ(uninitialized.status().code(), Code::kFailedPrecondition);
  EXPECT_NE(uninitialized.status().message().find("no value yet"), std::string::npos)
      << uninitialized.status().message();
  ASSERT_TRUE(session->RunTargets({init}).ok());
  for (int step = 0; step < 5; ++step) {
    auto values = session->Run({}, {after, read});
    ASSERT_TRUE(values.ok()) << values.status().message();
    EXPECT_EQ(Values<float>((*values)[0]), (std::vector<float>{10, 10, 10}));
    EXPECT_EQ(Values<float>((*values)[1])[0], 1.0f + 10.0f * static_cast<float>(step));
  }
}

// Branches, each of which makes mebibytes out of the step's number and one number out of these, behind one another in
// the graph; in_a_loop: in a loop's body.
uint64_t PeakOfBranches(uint32_t executor, uint64_t seed, bool in_a_loop, uint64_t memory_limit = uint64_t{1} << 30) {
  constexpr int64_t kMebi = 1 << 18;  // floats
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, {});
  const auto branches = [&](const Output& from) {
    std::vector<Output> sums;
    for (int i = 0; i < 8; ++i) {
      Output wide = g.Op("Fill", {g.Const({kMebi}), g.Op("AddV2", {from, g.Const(static_cast<float>(i))})});
      for (int k = 0; k < 3; ++k) wide = g.Op("Cumsum", {wide, g.Const(0)});
      sums.push_back(g.Op("Max", {wide, g.Const({0})}));
    }
    return g.Op("AddN", {sums});
  };
  Output end;
  if (in_a_loop) {
    const auto turns = While(
        g, {x}, {},
        [&](const std::vector<Output>& v) {
          return g.Op("Less", {v[0], g.Const(1.0f)});
        },
        [&](const std::vector<Output>& v) {
          return std::vector<Output>{
              g.Op("AddV2", {g.Op("Mul", {branches(v[0]), g.Const(0.0f)}), g.Op("AddV2", {v[0], g.Const(0.25f)})})};
        });
    end = turns[0];
  } else {
    end = branches(x);
  }
  EXPECT_TRUE(g.status().ok()) << g.status();
  SessionOptions options;
  options.executor = executor;
  options.debug.schedule_seed = seed;
  options.memory_limit = memory_limit;
  auto session = Session::Create(TheRuntime(), g, options);
  EXPECT_TRUE(session.ok()) << session.status();
  for (int step = 0; step < 4; ++step) {
    const auto values = session->Run({{x, *Tensor::Scalar(0.0f)}}, {end});
    EXPECT_TRUE(values.ok()) << values.status();
  }
  return session->Metrics()->peak_bytes;
}

// A loop that turns until another branch, which was made after it, has written a variable.
TEST(Session, ALoopKeepsNoOtherBranchWaiting) {
  Graph g(TheRuntime());
  const Output flag = g.Op(
      "VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", Shape{}}, {"shared_name", std::string("flag")}}, "flag");
  const Operation init = g.AddNode("AssignVariableOp", {flag, g.Const(0.0f)}, {}, "init");
  const auto turns = While(
      g, {g.Const(int64_t{0})}, {flag},
      [&](const std::vector<Output>& v) {
        const auto after = g.ControlDependencies({Operation(v[0])});
        return g.Op("Less", {g.Op("ReadVariableOp", {v[1]}, {{"dtype", DType::kFloat}}), g.Const(1.0f)});
      },
      [&](const std::vector<Output>& v) { return std::vector<Output>{g.Op("AddV2", {v[0], g.Const(int64_t{1})})}; });
  Output x = g.Placeholder("x", DType::kFloat, {});
  for (int i = 0; i < 20; ++i) x = g.Op("Sqrt", {x});
  const Operation set = g.AddNode("AssignVariableOp", {flag, g.Op("AddV2", {x, g.Const(1.0f)})}, {}, "set");
  ASSERT_TRUE(g.status().ok()) << g.status();
  for (const uint64_t seed : {0u, 3u}) {
    SessionOptions options;
    options.executor = TENON_EXECUTOR_DYNAMIC;
    options.debug.schedule_seed = seed;
    auto session = Session::Create(TheRuntime(), g, options);
    ASSERT_TRUE(session.ok()) << session.status();
    ASSERT_TRUE(session->RunTargets({Name(init)}).ok());
    RunOptions run;
    run.timeout = std::chrono::seconds(60);
    const auto values = session->Run({{"x", *Tensor::Scalar(4.0f)}}, {turns[0]}, {Name(set)}, run);
    EXPECT_TRUE(values.ok()) << values.status();
  }
}

TEST(Session, TheDynamicExecutorKeepsAsFewValuesAsStraightCode) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "under AddressSanitizer no two values of a step have the same memory";
#endif
  const uint64_t straight = PeakOfBranches(TENON_EXECUTOR_AUTO, 0, false);
  EXPECT_LT(straight, 4u << 20);
  EXPECT_LE(PeakOfBranches(TENON_EXECUTOR_DYNAMIC, 0, false), straight);
  EXPECT_LE(PeakOfBranches(TENON_EXECUTOR_DYNAMIC, 0, true), straight);
  EXPECT_GT(PeakOfBranches(TENON_EXECUTOR_DYNAMIC, 5, false), straight)
      << "an order that is none keeps more: the measure means something";
  // Without a limit branches run side by side, as many as there are threads.
  constexpr uint64_t kOfABranch = 3 << 20;
  const uint64_t beside = straight + kOfABranch * (std::max(1u, std::thread::hardware_concurrency()) - 1);
  EXPECT_LE(PeakOfBranches(TENON_EXECUTOR_DYNAMIC, 0, false, 0), beside);
  EXPECT_LE(PeakOfBranches(TENON_EXECUTOR_AUTO, 0, false, 0), beside);
}

TEST(Session, RunsConcurrentStepsThatShareVariablesAlone) {
  Graph g(TheRuntime());
  const Output v = g.Op("VarHandleOp", {}, {{"dtype", DType::kInt64}, {"shape", Shape{}}, {"shared_name", "v"}});
  const Operation init = g.AddNode("AssignVariableOp", {v, g.Const(int64_t{0})}, {{"dtype", DType::kInt64}}, "init");
  const Output x = g.Placeholder("x", DType::kInt64, {});
  const Output y = g.Op("Mul", {g.Op("AddV2", {x, x}), x}, {}, "y");
  auto session = Session::Create(TheRuntime(), g);
  ASSERT_TRUE(session.ok());
  ASSERT_TRUE(session->RunTargets({init}).ok());
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int64_t i = 0; i < 200; ++i) {
        const int64_t value = t * 1000 + i;
        auto values = session->Run({{x, *Tensor::Scalar(value)}}, {y});
        if (!values.ok() || Values<int64_t>((*values)[0])[0] != 2 * value * value) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  auto metrics = session->Metrics();
  ASSERT_TRUE(metrics.ok());
  EXPECT_LE(metrics->plans_built, 9u);  // a race may build one twice; none is built for each step
  EXPECT_GE(metrics->steps, 1600u);
}

TEST(Session, PlansOnceAndBindsOnceForEachShape) {
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, {-1});
  const Output y = g.Op("Sum", {g.Op("Square", {x}), g.Const(0)}, {}, "y");
  auto session = Session::Create(TheRuntime(), g);
  ASSERT_TRUE(session.ok());
  for (int round = 0; round < 3; ++round)
    for (int64_t size = 1; size <= 4; ++size) {
      auto values = session->Run({{x, View(std::vector<float>(static_cast<size_t>(size), 2.0f), {size})}}, {y});
      ASSERT_TRUE(values.ok()) << values.status().message();
      EXPECT_EQ(Values<float>((*values)[0])[0], 4.0f * static_cast<float>(size));
    }
  auto metrics = session->Metrics();
  ASSERT_TRUE(metrics.ok());
  EXPECT_EQ(metrics->plans_built, 1u);
  EXPECT_EQ(metrics->bindings_built, 4u);
}

TEST(Feeds, AreWhatTheirPlaceholderDeclares) {
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, {-1, 3});
  const Output y = g.Op("Neg", {x});
  auto session = Session::Create(TheRuntime(), g);
  ASSERT_TRUE(session.ok());
  EXPECT_TRUE(session->Run({{x, View(std::vector<float>(6), {2, 3})}}, {y}).ok());
  for (const Shape& shape : {Shape{2, 2}, Shape{6}, Shape{1, 2, 3}, Shape{}}) {
    const auto values =
        session->Run({{x, View(std::vector<float>(static_cast<size_t>(shape.element_count())), shape)}}, {y});
    EXPECT_EQ(values.status().code(), Code::kInvalidArgument) << values.status();
    EXPECT_NE(std::string(values.status().message()).find("feed 'x:0' is declared as float[?,3], found float"),
              std::string::npos)
        << values.status();
  }
}

TEST(Feeds, HaveTheBytesOfTheirShape) {
  Graph g(TheRuntime());
  const Output x = g.Op("Placeholder", {}, {{"dtype", DType::kFloat}}, "x");
  g.Op("Neg", {x}, {}, "y");
  auto session = Session::Create(TheRuntime(), g);
  ASSERT_TRUE(session.ok());
  auto callable = session->Prepare({"x"}, {"y"});
  ASSERT_TRUE(callable.ok());
  float data[4] = {};
  const auto run = [&](std::vector<int64_t> dims, uint64_t bytes) {
    tenon_tensor_view view{};
    view.dl.data = data;
    view.dl.device_type = 1;
    view.dl.ndim = static_cast<int32_t>(dims.size());
    view.dl.shape = dims.data();
    view.dtype = TENON_DT_FLOAT;
    view.byte_size = bytes;
    const tenon_tensor_view* feed = &view;
    tenon_tensor* out = nullptr;
    const Status status = Status::Take(tenon_callable_run(callable->get(), nullptr, &feed, &out));
    tenon_tensor_release(out);
    return status;
  };
  EXPECT_TRUE(run({2, 2}, 16).ok());
  EXPECT_EQ(run({2, 2}, 12).code(), Code::kInvalidArgument);
  EXPECT_EQ(run({1 << 20}, 16).code(), Code::kInvalidArgument);
  EXPECT_EQ(run({int64_t{1} << 62, 4}, 0).code(), Code::kInvalidArgument) << "a product that is 0 in 64 bits";
  EXPECT_EQ(run({-4}, 16).code(), Code::kInvalidArgument);
}

TEST(Modes, RefuseTheOptionsThatTheyDoNotHonour) {
  const auto refused = [](const SessionOptions& options, const std::string& name) {
    const auto session = Session::Create(TheRuntime(), options);
    EXPECT_EQ(session.status().code(), Code::kUnimplemented) << name << ": " << session.status();
    EXPECT_NE(std::string(session.status().message()).find("'" + name + "'"), std::string::npos) << session.status();
  };
  SessionOptions on_cluster;
  on_cluster.master = "loopback://nobody";
  const auto with = [&](auto set) {
    SessionOptions options = on_cluster;
    set(options);
    return options;
  };
  refused(with([](SessionOptions& o) { o.debug.partition = true; }), "debug.partition");
  refused(with([](SessionOptions& o) { o.watch = true; }), "watch");
  refused(with([](SessionOptions& o) { o.share_state = true; }), "share_state");
  SessionOptions here;
  here.isolate = true;
  refused(here, "isolate");
  here = SessionOptions();
  here.credentials = "{}";
  refused(here, "credentials");
  SessionOptions parted;
  parted.debug.partition = parted.record_costs = true;
  refused(parted, "record_costs");
}

TEST(Session, FoldsConstantsAndMergesEqualNodes) {
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, {2});
  const Output two = g.Op("AddV2", {g.Const(1.0f), g.Const(1.0f)});
  const Output y = g.Op("AddV2", {g.Op("Mul", {x, two}), g.Op("Mul", {x, two})});
  auto session = Session::Create(TheRuntime(), g);
  ASSERT_TRUE(session.ok());
  auto values = session->Run({{x, View(std::vector<float>{1, 2}, {2})}}, {y});
  ASSERT_TRUE(values.ok()) << values.status().message();
  EXPECT_EQ(Values<float>((*values)[0]), (std::vector<float>{4, 8}));
  auto metrics = session->Metrics();
  ASSERT_TRUE(metrics.ok());
  EXPECT_GE(metrics->nodes_merged, 1u);
  EXPECT_GE(metrics->nodes_folded, 1u);
}

TEST(Session, ReadsTheClockAnewForEachNodeAndStep) {
  Graph g(TheRuntime());
  const Output before = g.Op("Timestamp", {}), after = Output(g.AddNode("Timestamp", {}, {}, "after"));
  auto session = Session::Create(TheRuntime(), g);
  ASSERT_TRUE(session.ok()) << session.status();
  const auto now = [] {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  };
  std::set<double> seen;
  const double first = now();
  for (int step = 0; step < 3; ++step) {
    auto values = session->Run({}, {before, after});
    ASSERT_TRUE(values.ok()) << values.status();
    for (const Tensor& value : *values) {
      EXPECT_GE(Values<double>(value)[0], first - 1e-3);
      EXPECT_LE(Values<double>(value)[0], now() + 1e-3);
      seen.insert(Values<double>(value)[0]);
    }
  }
  EXPECT_GE(seen.size(), 3u) << "a step does not see the time of another";
}

TEST(Session, RefusesATerabyteAndGoesOn) {
  Graph g(TheRuntime());
  const Output huge = g.Op("Fill", {g.Placeholder("dims", DType::kInt32, {2}), g.Const(1.0f)}, {}, "huge");
  const Output small = g.Op("Neg", {g.Const(1.0f)});
  SessionOptions options;
  options.memory_limit = 1 << 20;
  auto session = Session::Create(TheRuntime(), g, options);
  ASSERT_TRUE(session.ok());
  auto values = session->Run({{"dims", View(std::vector<int32_t>{1 << 20, 1 << 18}, {2})}}, {huge});
  ASSERT_FALSE(values.ok());
  EXPECT_EQ(values.status().code(), Code::kResourceExhausted) << values.status().message();
  EXPECT_NE(values.status().message().find("memory limit"), std::string::npos) << values.status().message();
  EXPECT_NE(values.status().message().find("node 'huge' (Fill)"), std::string::npos) << values.status().message();
  EXPECT_TRUE(session->Run({}, {small}).ok());
}

// Steps that were prepared keep their memory for their next run; they give it up where another one lacks it, and run
// again.
TEST(Session, IdleStepsGiveTheirMemoryUpBeforeAnotherOneIsRefused) {
  constexpr int64_t kSide = 512, kSteps = 40;
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, {kSide, kSide});
  std::vector<Output> sums;
  Output a = x;
  for (int64_t i = 0; i < kSteps; ++i) {
    a = g.Op("ReverseV2", {a, g.Const({0})});
    sums.push_back(g.Op("Max", {a, g.Const({0, 1})}));
  }
  const Tensor feed = *Tensor::Zeros(DType::kFloat, {kSide, kSide});
  for (const bool prepared : {false, true}) {
    SessionOptions options;
    options.memory_limit = 24 << 20;  // enough for some of the steps, which take one or two mebibytes each
    auto session = Session::Create(TheRuntime(), g, options);
    ASSERT_TRUE(session.ok()) << session.status();
    std::vector<Callable> callables;
    for (int round = 0; round < 2; ++round)
      for (size_t i = 0; i < sums.size(); ++i) {
        if (prepared && round == 0) callables.push_back(*session->Prepare({x}, {sums[i]}));
        const Status status =
            prepared ? callables[i].Run({View(feed)}).status() : session->Run({{x, View(feed)}}, {sums[i]}).status();
        ASSERT_TRUE(status.ok()) << (prepared ? "callable " : "step ") << i << ", round " << round << ": " << status;
      }
  }
}

TEST(Session, IdleStepsGiveADevicesMemoryUp) {
  RuntimeOptions runtime_options;
  runtime_options.plugin_options = {{"tenon.tpu_sim", "devices", "1"},
                                    {"tenon.tpu_sim", "precision", "exact"},
                                    {"tenon.tpu_sim", "memory_bytes", std::to_string(32 << 20)}};
  auto runtime = Runtime::Create(runtime_options);
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  constexpr int64_t kSide = 512, kSteps = 40;
  Graph g(*runtime);
  const Output x = g.Placeholder("x", DType::kFloat, {kSide, kSide});
  std::vector<Output> sums;
  {
    const auto device = g.Device("/device:TPU:0");
    Output a = x;
    for (int64_t i = 0; i < kSteps; ++i) {
      a = g.Op("Relu", {a});
      sums.push_back(g.Op("Max", {a, g.Const({0, 1})}));
    }
  }
  SessionOptions options;
  options.compile = false;
  auto session = Session::Create(*runtime, g, options);
  ASSERT_TRUE(session.ok()) << session.status();
  const Tensor feed = *Tensor::Zeros(DType::kFloat, {kSide, kSide});
  for (int round = 0; round < 2; ++round)
    for (size_t i = 0; i < sums.size(); ++i) {
      const Status status = session->Run({{x, View(feed)}}, {sums[i]}).status();
      ASSERT_TRUE(status.ok()) << "step " << i << ", round " << round << ": " << status;
    }
}

// Plans of large graphs are not kept by the hundred.
TEST(Session, KeepsFewerPreparedStepsOfLargeGraphs) {
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, {});
  Output a = x;
  std::vector<Output> all;
  for (int i = 0; i < 8000; ++i) all.push_back(a = g.Op("Neg", {a}));
  auto session = Session::Create(TheRuntime(), g);
  ASSERT_TRUE(session.ok());
  const auto run = [&](size_t back) {
    return session->Run({{x, *Tensor::Scalar(1.0f)}}, {all[all.size() - 1 - back]}).ok();
  };
  for (size_t i = 0; i < 24; ++i) ASSERT_TRUE(run(i));
  ASSERT_TRUE(run(23) && run(10));
  EXPECT_EQ(session->Metrics()->plans_built, 24u) << "the latest stay";
  ASSERT_TRUE(run(0));
  EXPECT_EQ(session->Metrics()->plans_built, 25u) << "the first one has made room";
}

TEST(PartialRun, TakesFeedsOneAfterTheOtherAndRunsEachNodeOnce) {
  Graph g(TheRuntime());
  const Output v = g.Op("VarHandleOp", {}, {{"dtype", DType::kInt32}, {"shape", Shape{}}, {"shared_name", "v"}});
  const Operation init = g.AddNode("AssignVariableOp", {v, g.Const(0)}, {{"dtype", DType::kInt32}}, "init");
  const Output a = g.Placeholder("a", DType::kInt32, {}), b = g.Placeholder("b", DType::kInt32, {});
  Output first;
  {
    const auto counted =
        g.ControlDependencies({g.AddNode("AssignAddVariableOp", {v, g.Const(1)}, {{"dtype", DType::kInt32}})});
    first = g.Op("AddV2", {a, g.Const(10)}, {}, "first");
  }
  g.Op("Mul", {first, b}, {}, "second");
  const Output count = g.Op("ReadVariableOp", {v}, {{"dtype", DType::kInt32}}, "count");
  auto session = Session::Create(TheRuntime(), g);
  ASSERT_TRUE(session.ok());
  ASSERT_TRUE(session->RunTargets({init}).ok());

  const tenon_span feeds[] = {TENON_SPAN("a"), TENON_SPAN("b")};
  const tenon_span fetches[] = {TENON_SPAN("first"), TENON_SPAN("second")};
  tenon_partial_run* partial = nullptr;
  ASSERT_EQ(tenon_session_partial_setup(session->get(), feeds, 2, fetches, 2, nullptr, 0, &partial), nullptr);
  const auto step = [&](tenon_span feed, int32_t value, tenon_span fetch, int32_t* out) {
    const Tensor tensor = *Tensor::Scalar(value);
    const tenon_tensor_view* view = tenon_tensor_get_view(tensor.get());
    tenon_tensor* fetched = nullptr;
    Status status = Status::Take(tenon_partial_run_step(partial, nullptr, &feed, &view, 1, &fetch, 1, &fetched));
    if (status.ok()) *out = Values<int32_t>(Tensor::Take(fetched))[0];
    return status;
  };
  int32_t value = 0;
  const Status early = step(feeds[1], 7, fetches[1], &value);
  EXPECT_EQ(early.code(), Code::kFailedPrecondition) << early.message();
  ASSERT_TRUE(step(feeds[0], 5, fetches[0], &value).ok());
  EXPECT_EQ(value, 15);
  const Status last = step(feeds[1], 7, fetches[1], &value);
  ASSERT_TRUE(last.ok()) << last.message();
  EXPECT_EQ(value, 105);
  tenon_partial_run_release(partial);
  auto counted = session->Run({}, {count});
  ASSERT_TRUE(counted.ok());
  EXPECT_EQ(Values<int32_t>((*counted)[0])[0], 1);
}

TEST(Session, APartialRunThroughTheCppFace) {
  Graph g(TheRuntime());
  const Output a = g.Placeholder("a", DType::kInt32, {}), b = g.Placeholder("b", DType::kInt32, {});
  const Output first = g.Op("AddV2", {a, g.Const(10)}), second = g.Op("Mul", {first, b});
  auto session = Session::Create(TheRuntime(), g);
  ASSERT_TRUE(session.ok());
  EXPECT_EQ(PartialRun::Setup(*session, {"nothing"}, {first}).status().code(), Code::kNotFound);
  auto run = PartialRun::Setup(*session, {a, b}, {first, second});
  ASSERT_TRUE(run.ok()) << run.status().message();
  EXPECT_EQ(run->Run({{b, *Tensor::Scalar(7)}}, {second}).status().code(), Code::kFailedPrecondition);
  const auto one = run->Run({{a, *Tensor::Scalar(5)}}, {first});
  ASSERT_TRUE(one.ok()) << one.status().message();
  EXPECT_EQ(Values<int32_t>((*one)[0])[0], 15);
  const auto other = run->Run({{b, *Tensor::Scalar(7)}}, {second});
  ASSERT_TRUE(other.ok()) << other.status().message();
  EXPECT_EQ(Values<int32_t>((*other)[0])[0], 105);
  EXPECT_EQ(run->Run({{a, *Tensor::Scalar(5)}}, {}).status().code(), Code::kInvalidArgument);
}

TEST(Session, RefusesAPrecisionThatItDoesNotKnow) {
  SessionOptions options;
  options.precision = static_cast<Precision>(9);
  EXPECT_EQ(
      Session::Create(TheRuntime(), options).status().message(),
      "the session option 'precision' is 9; it may be 0 (strict), 1 (tf32), 2 (bfloat16), 3 (float16) or 4 (int8)");
  options.precision = Precision::kAllowFloat16;
  EXPECT_TRUE(Session::Create(TheRuntime(), options).ok());
}

// What is fetched is the caller's, large values without a copy: later steps, other fetches and feeds do not stand in
// its memory.
class FetchedMemory : public testing::Test {
 protected:
  static constexpr int64_t kCount = 5000;
  static std::vector<float> Filled(float value) { return std::vector<float>(kCount, value); }
  Session Open() {
    auto session = Session::Create(TheRuntime(), g);
    EXPECT_TRUE(session.ok()) << session.status().message();
    return std::move(*session);
  }
  Graph g{TheRuntime()};
  const Output x = g.Placeholder("x", DType::kFloat, {kCount});
  const Output twice = g.Op("AddV2", {x, x}, {}, "twice");
};

TEST_F(FetchedMemory, IsWrittenByNoLaterStep) {
  const Session session = Open();
  std::vector<Tensor> kept;
  for (int i = 0; i < 8; ++i)
    kept.push_back((*session.Run({{x, View(Filled(static_cast<float>(i)), {kCount})}}, {twice}))[0]);
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(Values<float>(kept[static_cast<size_t>(i)]), Filled(2.0f * static_cast<float>(i)));
}

TEST_F(FetchedMemory, IsOfEachFetchItsOwn) {
  const Output other = g.Op("Reshape", {twice, g.Const<int32_t>({-1, 1000})}, {}, "other"),
               same = g.Op("Identity", {x}, {}, "same");
  const Session session = Open();
  const std::vector<float> given = Filled(3);
  const auto values = session.Run({{x, View(given, {kCount})}}, {twice, other, twice, same, x});
  ASSERT_TRUE(values.ok()) << values.status().message();
  EXPECT_EQ((*values)[1].shape(), (Shape{5, 1000}));
  std::set<const void*> places = {given.data()};
  for (const Tensor& value : *values)
    EXPECT_TRUE(places.insert(value.view()->dl.data).second) << "two stand in one memory";
  for (const size_t i : {0, 1, 2}) EXPECT_EQ(Values<float>((*values)[i]), Filled(6));
  for (const size_t i : {3, 4}) EXPECT_EQ(Values<float>((*values)[i]), Filled(3));
}

TEST_F(FetchedMemory, OutlivesItsSessionAndIsNoVariables) {
  const Output variable =
      g.Op("VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", Shape{kCount}}, {"shared_name", "v"}});
  const Operation assign = g.AddNode("AssignVariableOp", {variable, x});
  const Output read = g.Op("ReadVariableOp", {variable}, {{"dtype", DType::kFloat}}, "read");
  std::vector<Tensor> kept;
  {
    const Session session = Open();
    ASSERT_TRUE(session.Run({{x, View(Filled(1), {kCount})}}, {}, {assign}).ok());
    kept = *session.Run({{x, View(Filled(5), {kCount})}}, {read, twice});
    ASSERT_TRUE(session.Run({{x, View(Filled(2), {kCount})}}, {}, {assign}).ok());
    EXPECT_EQ(Values<float>((*session.Run({}, {read}))[0]), Filled(2));
  }
  EXPECT_EQ(Values<float>(kept[0]), Filled(1));
  EXPECT_EQ(Values<float>(kept[1]), Filled(10));
}

TEST_F(FetchedMemory, MayBeTheCallersAndAFeedsToo) {
  const Output reversed = g.Op("ReverseV2", {x, g.Const<int32_t>({0})}, {}, "reversed");
  const Session session = Open();
  auto step = session.Prepare({x}, {reversed, twice});
  ASSERT_TRUE(step.ok()) << step.status().message();
  struct alignas(64) Memory {
    float values[kCount + 24];
  };
  const auto memory = std::make_unique<Memory[]>(2);
  for (const int64_t offset : {0, 1, 16}) {  // aligned as kernels want it or not; the feed itself, or behind it
    for (const bool on_the_feed : {true, false}) {
      float* const feed = memory[0].values;
      float* const first = on_the_feed ? feed + offset : memory[1].values + offset;
      std::vector<float> second(kCount);
      for (int64_t i = 0; i < kCount; ++i) feed[i] = static_cast<float>(i);
      const View given(std::span<const float>(feed, kCount), {kCount}),
          to_first(std::span<const float>(first, kCount), {kCount}), to_second(second, {kCount});
      const tenon_tensor_view given_view = given.c_view(), places[] = {to_first.c_view(), to_second.c_view()};
      const tenon_tensor_view* const feeds[] = {&given_view};
      const Status ran = step->RunInto(feeds, places);
      ASSERT_TRUE(ran.ok()) << ran.message();
      for (int64_t i = 0; i < kCount; ++i) {
        ASSERT_EQ(first[i], static_cast<float>(kCount - 1 - i)) << i << " at offset " << offset;
        ASSERT_EQ(second[static_cast<size_t>(i)], 2.0f * static_cast<float>(i));
      }
    }
  }
}

TEST(SessionEffects, AnAssertionHoldsBackWhatIsKnownWithoutIt) {
  for (const bool optimize : {true, false}) {
    for (const bool holds : {true, false}) {
      Graph g(TheRuntime());
      const Operation check =
          g.AddNode("Assert", {g.Const(holds), g.Const(7.0f)}, {{"T", std::vector<DType>{DType::kFloat}}});
      Output y;
      {
        const auto after = g.ControlDependencies({check});
        y = g.Op("Identity", {g.Const(3.0f)});
      }
      const Output z = g.Op("Neg", {y});
      ASSERT_TRUE(g.status().ok()) << g.status().message();
      SessionOptions options;
      options.optimize = optimize;
      const auto session = Session::Create(TheRuntime(), g, options);
      ASSERT_TRUE(session.ok());
      auto values = session->Run({}, {z});
      if (holds) {
        ASSERT_TRUE(values.ok()) << values.status().message();
        EXPECT_EQ((*values)[0].scalar<float>(), -3);
      } else {
        EXPECT_EQ(values.status().code(), Code::kInvalidArgument) << "optimize " << optimize;
      }
    }
  }
}

TEST(SessionDevice, IsNamedInAnySpellingThatGraphsHave) {
  Graph g(TheRuntime());
  g.Op("Neg", {g.Const(2.0f)}, {}, "y");
  for (const char* name : {"CPU", "cpu", "CPU:0", "cpu:0", "/cpu:0", "/device:CPU:0", "/device:cpu:*",
                           "/job:localhost/replica:0/task:0/device:CPU:0", "/job:localhost/cpu:0"}) {
    SessionOptions options;
    options.device = name;
    const auto session = Session::Create(TheRuntime(), g, options);
    EXPECT_TRUE(session.ok()) << name << ": " << session.status();
  }
  for (const char* name : {"cpu:7", "/job:other/cpu:0", "cp", "/", "cpu:x"}) {
    SessionOptions options;
    options.device = name;
    EXPECT_EQ(Session::Create(TheRuntime(), g, options).status().code(), Code::kNotFound) << name;
  }
}

// As on a machine that is older than the one that Tenon was built on.
TEST(SessionDevice, ThatThisMachineCannotRunIsToldOf) {
  const std::string folder = fakes::TemporaryFolder("older_machine");
  std::ifstream built(TENON_TEST_BUILD_DIR "/lib/tenon/plugins/tenon_cpu.so", std::ios::binary);
  std::string library(std::istreambuf_iterator<char>(built), {});
  size_t levels = 0;
  for (size_t at = 0; (at = library.find("x86-64-v", at)) != std::string::npos; at += 9, ++levels)
    library[at + 8] = '9';
  ASSERT_GT(levels, 0u);
  std::ofstream(folder + "/tenon_cpu.so", std::ios::binary) << library;
  RuntimeOptions options;
  options.plugins = {folder};
  options.search = false;
  options.log_level = TENON_LOG_ERROR + 1;
  const auto runtime = Runtime::Create(options);
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  const Graph g(*runtime);
  const Status status = Session::Create(*runtime, g).status();
  EXPECT_NE(
      status.message().find("(refused: tenon_cpu.so: it needs the CPU feature x86-64-v9, which this machine lacks"),
      std::string::npos)
      << status;
}

}  // namespace
}  // namespace tenon::engine::session_test
