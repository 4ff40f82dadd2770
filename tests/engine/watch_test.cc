// SPDX-License-Identifier: Apache-2.0
// Looking at what kernels make: the first value that is no number, and watchers of steps. Covers R10, R11.
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <thread>

#include "tests/device/gpu.h"
#include "tests/engine/engine.h"

namespace tenon::engine::watch_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

bool HasGpu() { return device_test::WhyNoGpu().empty(); }

// With devices whose kernels go to queues.
Runtime& QueuedRuntime() {
  static Runtime* const runtime = [] {
    RuntimeOptions options;
    options.plugin_options = {{"tenon.tpu_sim", "devices", "1"}, {"tenon.tpu_sim", "precision", "exact"}};
    if (HasGpu()) {
      options.plugins = {device_test::kEmulatedPlugin};
      for (const auto& [key, value] :
           {std::pair{"devices", "1"}, std::pair{"cache", "off"}, std::pair{"collectives", "off"}})
        options.plugin_options.push_back({"tenon.gpu_emulated", key, value});
    }
    auto made = Runtime::Create(options);
    EXPECT_TRUE(made.ok()) << made.status();
    return new Runtime(std::move(*made));
  }();
  return *runtime;
}
constexpr char kCpu[] = "/device:CPU:0";
std::vector<const char*> Devices() {
  std::vector<const char*> devices = {kCpu, "/device:TPU:0"};
  if (HasGpu()) {
    devices.push_back(device_test::kGpu);
  } else {
    std::fprintf(stderr, "without %s: %s\n", device_test::kGpu, device_test::WhyNoGpu().c_str());
  }
  return devices;
}

Result<Session> Checking(Runtime& runtime, const Graph& g, const std::string& device) {
  SessionOptions options;
  options.check_numerics = true;
  options.device = device;
  options.soft_placement = true;
  return Session::Create(runtime, g, options);
}

TEST(CheckNumerics, NamesTheFirstNodeThatMakesNoNumber) {
  Graph g(QueuedRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, {2, 2});
  const Output half = g.Op("Mul", {x, g.Const(0.5f)}, {}, "half");
  const Output bad = g.Op("Log", {half}, {}, "bad");
  const Output later = g.Op("Exp", {bad}, {}, "later");
  const Output finite = g.Op("Tanh", {half}, {}, "finite");
  ASSERT_TRUE(g.status().ok()) << g.status();
  for (const char* device : Devices()) {
    SCOPED_TRACE(device);
    const auto session = Checking(QueuedRuntime(), g, device);
    ASSERT_TRUE(session.ok()) << session.status();
    const auto run = [&](std::vector<float> values, const Output& fetch) {
      return session->Run({{x, View(values, {2, 2})}}, {fetch}).status();
    };
    EXPECT_TRUE(run({1, 2, 3, 4}, later).ok());
    EXPECT_TRUE(run({1, -2, 3, 4}, finite).ok()) << "what is not run is not looked at";
    const Status nan = run({1, -2, 0, 4}, later);
    EXPECT_EQ(nan.code(), Code::kInvalidArgument);
    EXPECT_NE(
        nan.message().find("node 'bad' (Log) made 1 NaN and 1 infinity: output 0, float[2,2], the first at [0,1]"),
        std::string::npos)
        << nan;
    const Status fed = run({1, kInfinity, 3, 4}, finite);
    EXPECT_NE(fed.message().find("node 'half' (Mul) made 1 infinity: output 0, float[2,2], the first at [0,1]"),
              std::string::npos)
        << fed;
    if (device == kCpu) {
      EXPECT_NE(fed.message().find("input 0 has 1 infinity already"), std::string::npos) << fed;
    }
    EXPECT_TRUE(run({1, 2, 3, 4}, later).ok()) << "the session goes on";
  }
  SessionOptions plain;
  const auto unchecked = Session::Create(QueuedRuntime(), g, plain);
  ASSERT_TRUE(unchecked.ok());
  const std::vector<float> values = {1, -2, 0, 4};
  EXPECT_TRUE(unchecked->Run({{x, View(values, {2, 2})}}, {later}).ok());
}

TEST(CheckNumerics, LooksIntoLoopsFunctionsAndEveryType) {
  Graph g(TheRuntime());
  const Output n = g.Placeholder("n", DType::kInt32, Shape());
  const auto loop = While(
      g, {g.Const(0), g.Const(1.0)}, {n, g.Const(1), g.Const(1e100)},
      [&](const auto& v) {
        return g.Op("Less", {v[0], v[2]});
      },
      [&](const auto& v) {
        const Output grown = g.Op("Mul", {v[1], v[4]}, {}, "grown");
        return std::vector<Output>{g.Op("AddV2", {v[0], v[3]}), grown};
      });
  const Output x = g.Placeholder("x", DType::kFloat, Shape());
  std::vector<Output> casts;
  for (const DType type : {DType::kHalf, DType::kBfloat16, DType::kDouble, DType::kComplex64, DType::kComplex128})
    casts.push_back(g.Op("Cast", {x}, {{"DstT", type}}));
  ASSERT_TRUE(g.status().ok()) << g.status();
  const auto session = Checking(TheRuntime(), g, "");
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_TRUE(session->Run({{n, *Tensor::Scalar(int32_t{3})}}, {loop[1]}).ok());
  const Status overflow = session->Run({{n, *Tensor::Scalar(int32_t{10})}}, {loop[1]}).status();
  EXPECT_NE(overflow.message().find("(Mul) made 1 infinity: output 0, double[]"), std::string::npos) << overflow;
  for (const Output& cast : casts) {
    EXPECT_TRUE(session->Run({{x, *Tensor::Scalar(1.0f)}}, {cast}).ok());
    for (const float bad : {kInfinity, std::nanf("")}) {
      const Status status = session->Run({{x, *Tensor::Scalar(bad)}}, {cast}).status();
      EXPECT_EQ(status.code(), Code::kInvalidArgument) << status;
      EXPECT_NE(status.message().find(std::isnan(bad) ? "1 NaN" : "1 infinity"), std::string::npos) << status;
    }
  }
}

TEST(Watch, ShowsWhatEachKernelMakes) {
  Graph g(QueuedRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, {3});
  const Output twice = g.Op("AddV2", {x, x}, {}, "twice");
  const Output parts = g.Op("Split", {g.Const(0), g.Op("Concat", {g.Const(0), twice, twice}, {}, "joined")},
                            {{"num_split", int64_t{2}}}, "parts");
  const Output second(parts.graph(), parts.node(), 1);
  const Output sum = g.Op("Sum", {second, g.Const(0)}, {}, "sum");
  ASSERT_TRUE(g.status().ok()) << g.status();
  for (const char* device : Devices()) {
    SCOPED_TRACE(device);
    SessionOptions options;
    options.watch = true;
    options.device = device;
    const auto session = Session::Create(QueuedRuntime(), g, options);
    ASSERT_TRUE(session.ok()) << session.status();
    std::mutex mutex;
    std::map<std::string, std::vector<float>> seen;
    RunOptions run;
    run.watch = [&](const host::Watched& made) {
      const std::lock_guard lock(mutex);
      if (made.value.dtype == TENON_DT_FLOAT) {
        const auto* data = static_cast<const float*>(made.value.dl.data);
        seen[std::string(made.node) + ":" + std::to_string(made.output) + " " + std::string(made.op)].assign(
            data, data + made.value.byte_size / sizeof(float));
      }
      return Status();
    };
    const std::vector<float> values = {1, 2, 3};
    const auto fetched = session->Run({{x, View(values, {3})}}, {sum}, {}, run);
    ASSERT_TRUE(fetched.ok()) << fetched.status();
    EXPECT_EQ((*fetched)[0].scalar<float>(), 12);
    EXPECT_EQ(seen["twice:0 AddV2"], (std::vector<float>{2, 4, 6}));
    EXPECT_EQ(seen["parts:1 Split"], (std::vector<float>{2, 4, 6}));
    EXPECT_EQ(seen["sum:0 Sum"], (std::vector<float>{12}));
    run.watch = [](const host::Watched& made) {
      return made.node == "joined" ? Status(Code::kDataLoss, "I have seen enough") : Status();
    };
    const Status ended = session->Run({{x, View(values, {3})}}, {sum}, {}, run).status();
    EXPECT_EQ(ended.code(), Code::kDataLoss);
    EXPECT_NE(ended.message().find("who watches node 'joined' (Concat): I have seen enough"), std::string::npos)
        << ended;
    run.watch = [](const host::Watched&) -> Status { throw std::runtime_error("what now"); };
    EXPECT_NE(session->Run({{x, View(values, {3})}}, {sum}, {}, run).status().message().find("what now"),
              std::string::npos);
    run.watch = nullptr;
    EXPECT_TRUE(session->Run({{x, View(values, {3})}}, {sum}, {}, run).ok()) << "nobody has to watch";
  }
}

TEST(Watch, IsRefusedWhereItCannotBe) {
  Graph g(TheRuntime());
  const Output one = g.Op("Neg", {g.Const(1.0f)}, {}, "one");
  const auto session = Session::Create(TheRuntime(), g);
  ASSERT_TRUE(session.ok());
  RunOptions run;
  run.watch = [](const host::Watched&) { return Status(); };
  const Status plain = session->Run({}, {one}, {}, run).status();
  EXPECT_EQ(plain.code(), Code::kFailedPrecondition);
  EXPECT_NE(plain.message().find("make it with the option 'watch'"), std::string::npos) << plain;
  SessionOptions options;
  options.watch = true;
  const auto watched = Session::Create(TheRuntime(), g, options);
  const auto callable = watched->Prepare({}, {one});
  ASSERT_TRUE(callable.ok());
  const Status later = callable->RunAsync({}, [](const auto&) {}, run);
  EXPECT_NE(later.message().find("cannot be watched"), std::string::npos) << later;
  options.master = "loopback://nobody";
  EXPECT_NE(Session::Create(TheRuntime(), g, options).status().message().find("'watch'"), std::string::npos);
}

}  // namespace
}  // namespace tenon::engine::watch_test
