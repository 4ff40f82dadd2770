// SPDX-License-Identifier: Apache-2.0
// Work of a GPU's queue that is the same in every step is launched as one captured piece, and gives the same. Covers
// A13.
#include <dlfcn.h>

#include <cmath>
#include <set>
#include <thread>

#include "devices/cuda/emulation/driver_controls.h"
#include "tests/device/gpu.h"
#include "tests/engine/engine.h"
#include "tests/fakes/trace_events.h"

namespace tenon::engine::capture_test {
namespace {

Runtime& Gpus() {
  static Runtime* const runtime = new Runtime(device_test::MakeRuntime(device_test::GpuOptions()));
  return *runtime;
}

Session MakeSession(const Graph& graph, bool capture = true) {
  SessionOptions options;
  options.device = device_test::kGpu;
  options.capture = capture;
  options.compile = false;  // kernel by kernel: a chain would be one piece of work anyway
  auto session = Session::Create(Gpus(), graph, options);
  if (!session.ok()) {
    ADD_FAILURE() << session.status().message();
    std::abort();  // NOLINT
  }
  return std::move(*session);
}

uint64_t Captured(const Session& session) {
  auto metrics = session.Metrics();
  EXPECT_TRUE(metrics.ok());
  return metrics->captured_launches;
}

std::vector<float> RunOnce(const Session& session, const Output& x, std::vector<float> values, const Output& y) {
  auto out = session.Run({{x, *Tensor::From(values, Shape{static_cast<int64_t>(values.size())})}}, {y});
  EXPECT_TRUE(out.ok()) << out.status().message();
  return out.ok() ? Values<float>((*out)[0]) : std::vector<float>();
}

TEST(Capture, GivesWhatTheKernelsGiveStepAfterStep) {
  Graph g(Gpus());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{4});
  Output y = x;
  for (int i = 0; i < 20; ++i) y = g.Op("AddV2", {y, g.Op("Square", {x})});
  const Session with = MakeSession(g), without = MakeSession(g, false);
  for (int step = 0; step < 6; ++step) {
    const std::vector<float> values = {1.0f * step, 2, -3, 0.5f};
    const std::vector<float> got = RunOnce(with, x, values, y);
    EXPECT_EQ(got, RunOnce(without, x, values, y)) << step;
    EXPECT_EQ(got[1], 2 + 20 * 4.0f);
  }
  EXPECT_EQ(Captured(with), 4u);  // all steps but the first two
  EXPECT_EQ(Captured(without), 0u);
}

// Also where the engine asks in between whether the step was cancelled.
TEST(Capture, OfManyNodesIsOneLaunch) {
  Graph g(Gpus());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{1});
  Output y = x;
  for (int i = 0; i < 300; ++i) y = g.Op("Neg", {y});
  const Session session = MakeSession(g);
  for (int step = 0; step < 4; ++step) EXPECT_EQ(RunOnce(session, x, {2}, y), (std::vector<float>{2}));
  EXPECT_EQ(Captured(session), 2u);  // one a step, but for the first two
}

// A kernel that takes an argument in the host's memory does what the argument says in that step.
TEST(Capture, LeavesOutWhatTheHostDecidesInEachStep) {
  Graph g(Gpus());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{8});
  const Output begin = g.Placeholder("begin", DType::kInt32, Shape{1});
  const Output part = g.Op("Slice", {g.Op("Neg", {g.Op("Neg", {x})}), begin, g.Const({2})});
  const Output y = g.Op("Neg", {g.Op("Neg", {part})});
  const Session session = MakeSession(g);
  for (int32_t step = 0; step < 6; ++step) {
    auto out = session.Run({{x, *Tensor::From(std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}, Shape{8})},
                            {begin, *Tensor::From(std::vector<int32_t>{step}, Shape{1})}},
                           {y});
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ(Values<float>((*out)[0]), (std::vector<float>{1.0f * step, 1.0f + step}));
  }
}

// Every shape is a program of its own, and every concurrent step an instance of its own.
TEST(Capture, IsOfOneBinding) {
  Graph g(Gpus());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{-1});
  const Output y = g.Op("Mul", {g.Op("Neg", {x}), g.Op("Square", {x})});
  const Session session = MakeSession(g);
  for (int step = 0; step < 8; ++step) {
    EXPECT_EQ(RunOnce(session, x, {2, 3}, y), (std::vector<float>{-8, -27}));
    EXPECT_EQ(RunOnce(session, x, {1, 2, 4}, y), (std::vector<float>{-1, -8, -64}));
  }
  EXPECT_GE(Captured(session), 12u);
}

// A stream of random numbers goes on from step to step, in captured work too: the numbers are those of work that is not
// kept.
TEST(Capture, OfRandomNumbersDrawsOthersInEachStep) {
  Graph g(Gpus());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{5});
  const Output drawn = g.Op("RandomStandardNormal", {g.Const({5})},
                            {{"dtype", DType::kFloat}, {"seed", int64_t{3}}, {"seed2", int64_t{4}}});
  const Output whole = g.Op("RandomUniformInt", {g.Const({5}), g.Const(-3), g.Const(1000)}, {{"seed", int64_t{5}}});
  const Output y = g.Op("AddV2", {g.Op("AddV2", {g.Op("Neg", {g.Op("Square", {x})}), drawn}),
                                  g.Op("Cast", {whole}, {{"DstT", DType::kFloat}})});
  const Session with = MakeSession(g), without = MakeSession(g, false);
  std::vector<float> before;
  for (int step = 0; step < 8; ++step) {
    const std::vector<float> got = RunOnce(with, x, {1, 2, 3, 4, 5}, y);
    EXPECT_EQ(got, RunOnce(without, x, {1, 2, 3, 4, 5}, y)) << step;
    EXPECT_NE(got, before) << step;
    before = got;
  }
  EXPECT_EQ(Captured(with), 6u);  // one a step, but for the first two
  EXPECT_EQ(Captured(without), 0u);
}

// Steps that run at once take numbers that no other has, of one stream.
TEST(Capture, OfRandomNumbersGivesStepsThatRunAtOnceTheirOwn) {
  Graph g(Gpus());
  const Output drawn =
      g.Op("RandomUniform", {g.Const({64})}, {{"dtype", DType::kDouble}, {"seed", int64_t{3}}, {"seed2", int64_t{4}}});
  const Output y = g.Op("Neg", {g.Op("Neg", {drawn})});
  const Session session = MakeSession(g);
  constexpr int kThreads = 4, kSteps = 12;
  std::vector<std::vector<double>> all(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int step = 0; step < kSteps; ++step) {
        auto out = session.Run({}, {y});
        ASSERT_TRUE(out.ok()) << out.status();
        const std::vector<double> values = Values<double>((*out)[0]);
        all[static_cast<size_t>(t)].insert(all[static_cast<size_t>(t)].end(), values.begin(), values.end());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<double> different;
  for (const std::vector<double>& each : all) different.insert(each.begin(), each.end());
  EXPECT_EQ(different.size(), size_t{64} * kThreads * kSteps);
}

TEST(Capture, FaultsOfDataFailTheirStepAlone) {
  Graph g(Gpus());
  const Output x = g.Placeholder("x", DType::kInt32, Shape{3});
  const Output twice = g.Op("AddV2", {x, x});
  const Output y = g.Op("FloorDiv", {twice, x}, {}, "quotient");
  const Session session = MakeSession(g);
  const auto run = [&](std::vector<int32_t> values) {
    return session.Run({{x, *Tensor::From(values, Shape{3})}}, {y});
  };
  for (int step = 0; step < 4; ++step) ASSERT_TRUE(run({1, 2, 3}).ok());
  EXPECT_GE(Captured(session), 2u);
  const auto bad = run({1, 0, 3});
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(bad.status().message().find("node 'quotient' (FloorDiv) on GPU:0: Integer division by zero (element 1)"),
            std::string::npos)
      << bad.status().message();
  const auto good = run({3, 2, 1});
  ASSERT_TRUE(good.ok()) << good.status().message();
  EXPECT_EQ(Values<int32_t>((*good)[0]), (std::vector<int32_t>{2, 2, 2}));
}

// A value that stands somewhere else in every step is not worth capturing; when it stands still, or moves now and then,
// it is.
TEST(Capture, IsTriedAgainWhenAddressesStandStill) {
  Graph g(Gpus());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{4});
  const Output y = g.Op("Neg", {g.Op("Square", {x})});
  const Session session = MakeSession(g), calm = MakeSession(g);
  std::vector<Tensor> places;
  for (int i = 0; i < 8; ++i) {
    auto there =
        session.CopyTensor(*Tensor::From(std::vector<float>{1.0f * static_cast<float>(i), 2, 3, 4}, Shape{4}), "GPU:0");
    ASSERT_TRUE(there.ok()) << there.status().message();
    places.push_back(*there);
  }
  auto step = session.Prepare({x}, {y}, {}, {"GPU:0"}), calm_step = calm.Prepare({x}, {y}, {}, {"GPU:0"});
  ASSERT_TRUE(step.ok() && calm_step.ok()) << step.status().message();
  const auto run = [&](Callable& on, size_t place) {
    auto out = on.Run({places[place]});
    ASSERT_TRUE(out.ok()) << out.status().message();
    EXPECT_EQ(Values<float>((*out)[0])[0], -1.0f * static_cast<float>(place * place));
  };
  for (size_t i = 0; i < 40; ++i) run(*step, i % places.size());
  const uint64_t moving = Captured(session);
  EXPECT_LE(moving, 22u);
  for (size_t i = 0; i < 100; ++i) run(*step, 3);
  EXPECT_GE(Captured(session) - moving, 50u);
  for (size_t i = 0; i < 400; ++i) run(*calm_step, i / 10 % places.size());
  EXPECT_EQ(Captured(calm), 398u);
}

// Node by node, so that each is told: by the host, and by the device's own clock of its queue.
TEST(Capture, IsNotOfATracedStep) {
  Graph g(Gpus());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{4});
  const Output y = g.Op("Neg", {g.Op("Square", {x}, {}, "squared")}, {}, "negative");
  const Session session = MakeSession(g);
  for (int step = 0; step < 5; ++step) {
    std::string trace;
    RunOptions run;
    run.trace = &trace;
    ASSERT_TRUE(session.Run({{x, *Tensor::From(std::vector<float>{1, 2, 3, 4}, Shape{4})}}, {y}, {}, run).ok());
    std::multiset<std::string> told;
    for (const fakes::TraceSpan& span : fakes::TraceSpans(trace))
      if (span.name == "squared" || span.name == "negative") told.insert(span.name + " on " + span.process);
    EXPECT_EQ(told, (std::multiset<std::string>{"squared on host", "squared on /device:GPU:0", "negative on host",
                                                "negative on /device:GPU:0"}))
        << trace;
  }
  EXPECT_EQ(Captured(session), 0u);
}

// ---- Updates of variables ----

// Variables on the GPU, which begin at 1, and a session for them.
struct Variables {
  explicit Variables(int count, int64_t size = 4) : g(Gpus()), size(size) {
    for (int i = 0; i < count; ++i) {
      const std::string name = "v" + std::to_string(i);
      handles.push_back(g.Op("VarHandleOp", std::vector<Output>{},
                             {{"dtype", DType::kFloat}, {"shape", Shape{size}}, {"shared_name", name}}));
      initial.push_back(g.AddNode(
          "AssignVariableOp", {handles.back(), g.Op("Fill", {g.Const({static_cast<int32_t>(size)}), g.Const(1.0f)})},
          {{"dtype", DType::kFloat}}));
    }
  }
  Output Read(int i) { return g.Op("ReadVariableOp", {handles[static_cast<size_t>(i)]}, {{"dtype", DType::kFloat}}); }
  Operation Add(int i, Output value) {
    return g.AddNode("AssignAddVariableOp", {handles[static_cast<size_t>(i)], value}, {{"dtype", DType::kFloat}});
  }
  Operation Descend(int i, Output gradient) {
    return g.AddNode("ResourceApplyGradientDescent", {handles[static_cast<size_t>(i)], g.Const(0.125f), gradient});
  }
  Session Begin(bool capture) {
    Session session = MakeSession(g, capture);
    Step(session, initial);
    return session;
  }
  static void Step(const Session& session, const std::vector<Operation>& targets) {
    const Status status = session.RunTargets(std::vector<Name>(targets.begin(), targets.end()));
    EXPECT_TRUE(status.ok()) << status;
  }
  static float First(const Session& session, const Output& value) {
    auto out = session.Run({}, {value});
    EXPECT_TRUE(out.ok()) << out.status();
    return out.ok() ? Values<float>((*out)[0])[0] : NAN;
  }
  Graph g;
  const int64_t size;
  std::vector<Output> handles;
  std::vector<Operation> initial;
};

// Gradients of what is read, and the update of what was read: one piece of work, in place.
TEST(CapturedUpdates, AreOneLaunchWithTheWorkBeforeThem) {
  Variables v(3, 1 << 16);
  std::vector<Operation> updates;
  Output x = v.Read(0);
  for (int i = 0; i < 3; ++i) {
    x = v.g.Op("Mul", {x, v.Read(i)});
    updates.push_back(v.Descend(i, v.g.Op("Tanh", {x})));
  }
  const Output last = v.Read(2);
  const Session with = v.Begin(true), without = v.Begin(false);
  for (int step = 0; step < 6; ++step) {
    Variables::Step(with, updates);
    Variables::Step(without, updates);
    EXPECT_EQ(Variables::First(with, last), Variables::First(without, last)) << step;
  }
  EXPECT_LT(Variables::First(with, last), 0.9f);
  EXPECT_EQ(Captured(with), 4u);  // one a step, but for the first two
  const auto peak = [](const Session& session) { return session.Metrics()->device_peak_bytes; };
  EXPECT_EQ(peak(with), peak(without)) << "an update took other memory than the variable's";
}

// As many as a large network has, of different sizes: the same bits as one by one, and on the emulated driver, which
// counts, few launches.
TEST(CapturedUpdates, OfManyVariablesAreFewLaunches) {
  constexpr int kVariables = 161;
  Graph g(Gpus());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{});
  std::vector<Operation> initial, updates;
  std::vector<Output> reads, gradients;
  std::vector<std::vector<Output>> changed;
  const Output rate = g.Const(0.25f), momentum = g.Const(0.5f);
  for (int i = 0; i < kVariables; ++i) {
    const int64_t size = i % 7 == 0 ? 5000 : i % 5 + (i == 3 ? 0 : 1);
    std::vector<Output> handles;
    for (const char* kind : {"v", "slot"}) {
      handles.push_back(
          g.Op("VarHandleOp", std::vector<Output>{},
               {{"dtype", DType::kFloat}, {"shape", Shape{size}}, {"shared_name", kind + std::to_string(i)}}));
      initial.push_back(g.AddNode(
          "AssignVariableOp", {handles.back(), g.Op("Fill", {g.Const({static_cast<int32_t>(size)}), g.Const(1.0f)})},
          {{"dtype", DType::kFloat}}));
    }
    reads.push_back(g.Op("ReadVariableOp", {handles[0]}, {{"dtype", DType::kFloat}}));
    gradients.push_back(g.Op(
        "Mul", {g.Op("Fill", {g.Const({static_cast<int32_t>(size)}), g.Const(0.01f * static_cast<float>(i))}), x}));
    changed.push_back(std::move(handles));
  }
  // As optimizers add them: behind all gradients.
  for (size_t i = 0; i < gradients.size(); ++i) {
    updates.push_back(g.AddNode("ResourceApplyMomentum", {changed[i][0], changed[i][1], rate, gradients[i], momentum}));
  }
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  auto* const get = driver == nullptr
                        ? nullptr
                        : reinterpret_cast<EmulatedDriverControls* (*)()>(dlsym(driver, "tenon_emulated_driver"));
  const auto optimizers = [&] { return get == nullptr ? 0 : get()->optimizers.load(); };
  const Session with = MakeSession(g), without = MakeSession(g, false);
  Variables::Step(with, initial);
  Variables::Step(without, initial);
  uint64_t in_a_step = 0;
  for (int step = 0; step < 5; ++step) {
    for (const Session* session : {&with, &without}) {
      const uint64_t before = optimizers();
      const Status status =
          session
              ->Run({{x, *Tensor::From(std::vector<float>{1.0f + static_cast<float>(step)}, Shape{})}}, {},
                    std::vector<Name>(updates.begin(), updates.end()))
              .status();
      ASSERT_TRUE(status.ok()) << status;
      if (session == &with) in_a_step = optimizers() - before;
    }
  }
  auto one = with.Run({}, std::vector<Name>(reads.begin(), reads.end())),
       other = without.Run({}, std::vector<Name>(reads.begin(), reads.end()));
  ASSERT_TRUE(one.ok() && other.ok());
  for (size_t i = 0; i < reads.size(); ++i) EXPECT_EQ(Values<float>((*one)[i]), Values<float>((*other)[i])) << i;
  EXPECT_GE(Captured(with), 2u);
  if (get == nullptr) return;
  EXPECT_GE(in_a_step, 1u);
  EXPECT_LE(in_a_step, 4u);
}

TEST(CapturedUpdates, MayBeFollowedByReadsOfOtherVariables) {
  Variables v(2);
  const Operation first = v.Add(0, v.g.Op("Neg", {v.Read(0)}));  // 0
  Operation second;
  {
    auto after = v.g.ControlDependencies({first});
    second = v.Add(1, v.g.Op("Square", {v.Read(1)}));
  }
  const Output zero = v.Read(0), one = v.Read(1);
  const Session session = v.Begin(true);
  for (int step = 0; step < 4; ++step) Variables::Step(session, {second});
  EXPECT_EQ(Variables::First(session, zero), 0);
  EXPECT_EQ(Variables::First(session, one), 1806);  // 1, 2, 6, 42, 1806
  EXPECT_EQ(Captured(session), 2u);
}

// What is read there is the new value, which no read before the work would give.
TEST(CapturedUpdates, LeaveOutReadsOfWhatTheyChange) {
  Variables v(2);
  const Operation first = v.Add(0, v.g.Op("Square", {v.Read(0)}));
  Operation second;
  {
    auto after = v.g.ControlDependencies({first});
    second = v.Add(1, v.g.Op("Neg", {v.Read(0)}));
  }
  const Output one = v.Read(1);
  const Session session = v.Begin(true);
  for (int step = 0; step < 4; ++step) Variables::Step(session, {second});
  EXPECT_EQ(Variables::First(session, one), 1 - 2 - 6 - 42 - 1806);
}

TEST(CapturedUpdates, LeaveOutASecondUpdateOfOne) {
  Variables v(1);
  const Operation first = v.Add(0, v.g.Const(std::vector<float>{1, 1, 1, 1}, Shape{4}));
  Operation second;
  {
    auto after = v.g.ControlDependencies({first});
    second = v.Add(0, v.g.Op("Neg", {v.g.Const(std::vector<float>{3, 3, 3, 3}, Shape{4})}));
  }
  const Output value = v.Read(0);
  const Session session = v.Begin(true);
  for (int step = 0; step < 5; ++step) Variables::Step(session, {second});
  EXPECT_EQ(Variables::First(session, value), 1 - 5 * 2);
}

TEST(CapturedUpdates, OfAVariableWithoutAValueFail) {
  Variables v(1);
  const Operation update =
      v.Descend(0, v.g.Op("Neg", {v.g.Op("Neg", {v.g.Const(std::vector<float>{1, 1, 1, 1}, Shape{4})})}));
  const Output value = v.Read(0);
  const Session session = MakeSession(v.g);
  for (int step = 0; step < 4; ++step) {
    const auto out = session.Run({}, {}, {update});
    EXPECT_EQ(out.status().code(), Code::kFailedPrecondition) << step;
    EXPECT_NE(std::string(out.status().message()).find("has no value yet"), std::string::npos) << out.status();
  }
  Variables::Step(session, v.initial);
  Variables::Step(session, {update});
  EXPECT_EQ(Variables::First(session, value), 0.875f);
}

// Two steps that take the same variables in opposite orders do not wait for each other, and every addition counts.
TEST(CapturedUpdates, OfConcurrentStepsInOppositeOrdersAllCount) {
  Variables v(2);
  const auto both = [&](int a, int b) {
    const Operation first = v.Add(a, v.g.Op("Abs", {v.g.Const(std::vector<float>{1, 1, 1, 1}, Shape{4})}));
    auto after = v.g.ControlDependencies({first});
    return v.Add(b, v.g.Op("Abs", {v.g.Const(std::vector<float>{2, 2, 2, 2}, Shape{4})}));
  };
  const Operation forward = both(0, 1), backward = both(1, 0);
  const Output zero = v.Read(0), one = v.Read(1);
  const Session session = v.Begin(true);
  constexpr int kSteps = 100;
  const auto run = [&](const Operation& target) {
    for (int step = 0; step < kSteps; ++step) Variables::Step(session, {target});
  };
  std::thread other([&] { run(backward); });
  run(forward);
  other.join();
  EXPECT_EQ(Variables::First(session, zero), 1 + 3 * kSteps);
  EXPECT_EQ(Variables::First(session, one), 1 + 3 * kSteps);
}

// ---- Steps that return before the GPU is done ----

uint64_t HostWaits(const Session& session) {
  auto metrics = session.Metrics();
  EXPECT_TRUE(metrics.ok());
  return metrics->host_waits;
}

TEST(LaterEnds, AStepWithoutFetchesWaitsForNothingAndOneWithFetchesOnce) {
  Variables v(3, 1 << 12);
  std::vector<Operation> updates;
  for (int i = 0; i < 3; ++i) updates.push_back(v.Descend(i, v.g.Op("Mul", {v.Read(i), v.Read((i + 1) % 3)})));
  const Output sum = v.g.Op("AddV2", {v.Read(0), v.Read(1)});
  const Session later = v.Begin(true), each = v.Begin(true);
  const uint64_t before = HostWaits(later);
  for (int step = 0; step < 10; ++step) Variables::Step(later, updates);
  EXPECT_EQ(HostWaits(later), before);
  const float found = Variables::First(later, sum);
  EXPECT_EQ(HostWaits(later), before + 1);
  for (int step = 0; step < 10; ++step) {
    Variables::Step(each, updates);
    (void)Variables::First(each, sum);
  }
  EXPECT_EQ(found, Variables::First(each, sum));
  // However many there are, they do not go far ahead.
  for (int step = 0; step < 100; ++step) Variables::Step(later, updates);
  EXPECT_LE(HostWaits(later), before + 1 + 100 / 8);
  for (int step = 0; step < 100; ++step) Variables::Step(each, updates);
  EXPECT_EQ(Variables::First(later, sum), Variables::First(each, sum));
}

// What a step reads of the caller's memory has been read when it returns.
TEST(LaterEnds, FeedsAreTheCallersAgain) {
  Variables v(1, 1 << 18);
  const Output x = v.g.Placeholder("x", DType::kFloat, Shape{1 << 18});
  const Operation add = v.Add(0, x);
  const Output value = v.Read(0);
  const Session session = v.Begin(true);
  std::vector<float> fed(1 << 18);
  for (int step = 0; step < 8; ++step) {
    std::fill(fed.begin(), fed.end(), 1.0f + static_cast<float>(step));
    ASSERT_TRUE(session.RunTargets({add}, {{x, View(fed, Shape{1 << 18})}}).ok());
    std::fill(fed.begin(), fed.end(), NAN);
  }
  auto out = session.Run({}, {value});
  ASSERT_TRUE(out.ok()) << out.status();
  const std::vector<float> expected(1 << 18, 1 + 36.0f);
  EXPECT_EQ(Values<float>((*out)[0]), expected);
}

// A division of variables, whose divisor's zero the GPU finds.
struct Quotient {
  Quotient() : g(Gpus()) {
    for (const char* name : {"numerator", "divisor", "result"}) {
      handles.push_back(g.Op("VarHandleOp", std::vector<Output>{},
                             {{"dtype", DType::kInt32}, {"shape", Shape{3}}, {"shared_name", name}}));
      given.push_back(g.Placeholder(std::string("given_") + name, DType::kInt32, Shape{3}));
      assign.push_back(g.AddNode("AssignVariableOp", {handles.back(), given.back()}, {{"dtype", DType::kInt32}}));
    }
    const Output quotient = g.Op("FloorDiv", {Read(0), Read(1)}, {}, "quotient");
    divide = g.AddNode("AssignVariableOp", {handles[2], quotient}, {{"dtype", DType::kInt32}});
  }
  Output Read(size_t i) { return g.Op("ReadVariableOp", {handles[i]}, {{"dtype", DType::kInt32}}); }
  Status Assign(const Session& session, size_t i, std::vector<int32_t> values) const {
    return session.RunTargets({assign[i]}, {{given[i], *Tensor::From(values, Shape{3})}});
  }
  Graph g;
  std::vector<Output> handles, given;
  std::vector<Operation> assign;
  Operation divide;
};

TEST(LaterEnds, TheNextStepIsToldOfAFailureOnceAndByName) {
  Quotient q;
  const Output result = q.Read(2), numerator = q.Read(0);
  const Session session = MakeSession(q.g);
  for (size_t i = 0; i < 3; ++i) ASSERT_TRUE(q.Assign(session, i, {6, 6, 6}).ok());
  for (int round = 0; round < 4; ++round) {
    ASSERT_TRUE(q.Assign(session, 1, {1, 0, 3}).ok()) << round;
    Status told = session.RunTargets({q.divide});
    // It may be seen at once, or by whoever comes next.
    if (told.ok()) told = session.Run({}, {numerator}).status();
    if (told.ok()) told = session.RunTargets({q.divide});
    ASSERT_FALSE(told.ok()) << round;
    EXPECT_NE(told.message().find("node 'quotient' (FloorDiv) on GPU:0: Integer division by zero (element 1)"),
              std::string::npos)
        << told;
    // Nothing else has failed, and the variable is as one whose write failed.
    const Status lost = session.Run({}, {result}).status();
    EXPECT_EQ(lost.code(), Code::kDataLoss) << lost;
    ASSERT_TRUE(q.Assign(session, 1, {1, 2, 3}).ok());
    ASSERT_TRUE(session.RunTargets({q.divide}).ok());
    auto good = session.Run({}, {result});
    ASSERT_TRUE(good.ok()) << good.status();
    EXPECT_EQ(Values<int32_t>((*good)[0]), (std::vector<int32_t>{6, 3, 2}));
  }
}

TEST(LaterEnds, AStepWithATimeoutWaits) {
  Quotient q;
  const Session session = MakeSession(q.g);
  for (size_t i = 0; i < 3; ++i) ASSERT_TRUE(q.Assign(session, i, {6, 6, 0}).ok());
  RunOptions run;
  run.timeout = std::chrono::minutes(2);
  for (int step = 0; step < 3; ++step) {
    const Status told = session.Run({}, {}, {q.divide}, run).status();
    EXPECT_NE(told.message().find("Integer division by zero"), std::string::npos) << told;
  }
}

TEST(LaterEnds, SessionsEndWithStepsUnderWay) {
  Variables v(2, 1 << 16);
  const Operation update = v.Descend(0, v.g.Op("Mul", {v.Read(0), v.Read(1)}));
  for (int round = 0; round < 10; ++round) {
    const Session session = v.Begin(true);
    auto callable = session.Prepare({}, {}, {update});
    ASSERT_TRUE(callable.ok()) << callable.status();
    for (int step = 0; step < 6; ++step) ASSERT_TRUE(callable->Run().ok());
  }
}

// Steps of several threads and sets of targets, whose updates all count.
TEST(LaterEnds, StepsOfSeveralThreadsAllCount) {
  Variables v(2);
  const Output one = v.g.Const(std::vector<float>{1, 1, 1, 1}, Shape{4});
  const std::vector<Operation> updates = {v.Add(0, v.g.Op("Abs", {one})), v.Add(1, v.g.Op("Abs", {one})),
                                          v.Add(0, v.g.Op("Square", {one}))};
  const Output zero = v.Read(0), other = v.Read(1);
  const Session session = v.Begin(true);
  constexpr int kSteps = 60;
  std::vector<std::thread> threads;
  threads.reserve(updates.size());
  for (const Operation& update : updates)
    threads.emplace_back([&session, update] {
      for (int step = 0; step < kSteps; ++step) Variables::Step(session, {update});
    });
  for (int step = 0; step < kSteps; ++step) (void)Variables::First(session, zero);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Variables::First(session, zero), 1 + 2 * kSteps);
  EXPECT_EQ(Variables::First(session, other), 1 + kSteps);
}

}  // namespace
}  // namespace tenon::engine::capture_test
