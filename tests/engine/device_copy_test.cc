// SPDX-License-Identifier: Apache-2.0
// Copies between devices of different drivers, as a plugin brings them for a pair of device types
// (ext/draft/device_copy.h). Covers G1, H7.
//
// The plugin's queues are slow threads, and say when work meets memory that other work still uses
// (tests/fakes/paired_control.h).
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "tests/engine/engine.h"
#include "tests/fakes/paired_control.h"

namespace tenon::engine::device_copy_test {
namespace {

Runtime& PairedRuntime() {
  static Runtime* const runtime = [] {
    RuntimeOptions options;
    options.plugins = {TENON_TEST_PAIRED_PLUGIN};
    auto made = Runtime::Create(options);
    EXPECT_TRUE(made.ok()) << made.status().message();
    return new Runtime(std::move(*made));
  }();
  return *runtime;
}
const tenon_test_paired& Control() {
  static const tenon_test_paired* const control = [] {
    PairedRuntime();
    const tenon_test_paired* found = fakes::PairedControl(TENON_TEST_PAIRED_PLUGIN);
    EXPECT_NE(found, nullptr);
    return found;
  }();
  return *control;
}

constexpr const char* kDevices[] = {"/device:LEFT:0", "/device:RIGHT:0", "/device:CPU:0"};

class DeviceCopy : public testing::Test {
 protected:
  void SetUp() override { Control().set(1); }
  void TearDown() override { EXPECT_EQ(Control().races(), 0u) << "memory was used again too early"; }
};

Output Square(Graph& g, const Output& x, const char* device) {
  const auto on = g.Device(device);
  return g.Op("Square", {x});
}

Result<std::vector<Tensor>> Ran(const Graph& g, const Output& fetch, const Tensor& x,
                                const SessionOptions& options = {}) {
  TENON_TRY_ASSIGN(const Session session, Session::Create(PairedRuntime(), g, options));
  return session.Run({{"x", x}}, {fetch});
}

// left, right, left, right: three crossings, and the host at the ends alone.
struct Zigzag {
  Graph g{PairedRuntime()};
  Output y;
  Zigzag() {
    y = g.Placeholder("x", DType::kFloat, Shape{64});
    for (int i = 0; i < 4; ++i) y = Square(g, y, kDevices[i % 2]);
  }
};
Tensor Input() {
  std::vector<float> values;
  for (int i = 0; i < 64; ++i) values.push_back(1 + static_cast<float>(i) / 512);
  return *Tensor::From(values, Shape{64});
}

TEST_F(DeviceCopy, GoesFromDeviceToDeviceWhereAPluginReachesThePair) {
  const Zigzag zigzag;
  std::vector<float> expected;
  for (const uint32_t what : {0u, 1u, 2u}) {
    for (const uint32_t executor : {TENON_EXECUTOR_AUTO, TENON_EXECUTOR_DYNAMIC}) {
      Control().set(what);
      SessionOptions options;
      options.executor = executor;
      const uint64_t between = Control().between(), by_host = Control().by_host();
      const auto values = Ran(zigzag.g, zigzag.y, Input(), options);
      ASSERT_TRUE(values.ok()) << values.status().message();
      const std::span<const float> found = (*values)[0].data<float>();
      if (expected.empty()) expected.assign(found.begin(), found.end());
      EXPECT_TRUE(std::equal(found.begin(), found.end(), expected.begin(), expected.end()));
      EXPECT_EQ(Control().between() - between, what == 1 ? 3u : 0u) << what << " " << executor;
      EXPECT_EQ(Control().by_host() - by_host, what == 1 ? 2u : 8u) << what << " " << executor;
    }
  }
}

TEST_F(DeviceCopy, ThatFailsFailsTheStepAndIsNamed) {
  const Zigzag zigzag;
  Control().set(3);
  for (const uint32_t executor : {TENON_EXECUTOR_AUTO, TENON_EXECUTOR_DYNAMIC}) {
    SessionOptions options;
    options.executor = executor;
    const Status status = Ran(zigzag.g, zigzag.y, Input(), options).status();
    EXPECT_EQ(status.code(), Code::kInternal);
    EXPECT_NE(status.message().find("the cable was cut"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("tenon.test.paired"), std::string::npos) << status.message();
  }
  Control().set(1);
  EXPECT_TRUE(Ran(zigzag.g, zigzag.y, Input()).ok());
}

TEST_F(DeviceCopy, KeepsItsPluginWhileASessionUsesIt) {
  auto runtime = Runtime::Create([] {
    RuntimeOptions options;
    options.plugins = {TENON_TEST_PAIRED_PLUGIN};
    return options;
  }());
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  {
    const Graph g(*runtime);
    const auto session = Session::Create(*runtime, g);
    ASSERT_TRUE(session.ok()) << session.status().message();
    EXPECT_FALSE(runtime->UnloadPlugin("tenon.test.paired").ok());
  }
  const Status unloaded = runtime->UnloadPlugin("tenon.test.paired");
  EXPECT_TRUE(unloaded.ok()) << unloaded.message();
}

// The same bits, but for squares below the smallest normal number, of which three are added: the host has 0 instead of
// them, and these devices compute on threads of their own.
bool AreAlike(float on_devices, float on_host) {
  constexpr float kLeast = 3 * std::numeric_limits<float>::min();
  return std::bit_cast<uint32_t>(on_devices) == std::bit_cast<uint32_t>(on_host) ||
         (std::abs(on_devices) < kLeast && std::abs(on_host) < kLeast);
}

// Values of many sizes go to and fro, are added up on the host, and memory is used again; in straight code, by the
// dynamic executor in random orders, and in a loop.
TEST_F(DeviceCopy, RandomGraphsGiveTheHostsBits) {
  for (uint32_t seed = 1; seed <= 30; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&random](uint32_t below) { return static_cast<int>(random() % below); };
    const int64_t size = 1 + draw(5000);
    const auto build = [&](Graph& g, bool placed) {
      std::mt19937 own(seed);
      const auto choose = [&own](uint32_t below) { return static_cast<size_t>(own() % below); };
      const auto on = [&](size_t device) { return kDevices[placed ? device : 2]; };
      const auto work = [&](Output x) {
        // Each reads one of the last three, so that memory is free again soon.
        std::vector<Output> values = {x};
        for (int i = 0; i < 24; ++i) {
          const Output from =
              values[values.size() - 1 - choose(static_cast<uint32_t>(std::min<size_t>(values.size(), 3)))];
          values.push_back(Square(g, from, on(choose(5) == 0 ? 2 : choose(2))));
        }
        const auto host = g.Device(kDevices[2]);
        return g.Op("Minimum", {g.Op("AddN", {std::vector<Output>(values.end() - 3, values.end())}), g.Const(2.0f)});
      };
      Output x = g.Placeholder("x", DType::kFloat, Shape{size});
      if (seed % 3 == 0) {
        const Output zero = g.Const(*Tensor::Scalar(int32_t{0}));
        return While(
            g, {zero, x}, {},
            [&](const std::vector<Output>& v) {
              return g.Op("Less", {v[0], g.Const(*Tensor::Scalar(int32_t{3}))});
            },
            [&](const std::vector<Output>& v) -> std::vector<Output> {
              return {g.Op("Add", {v[0], g.Const(*Tensor::Scalar(int32_t{1}))}), work(v[1])};
            })[1];
      }
      return work(x);
    };
    Graph placed(PairedRuntime()), plain(PairedRuntime());
    const Output there = build(placed, true), here = build(plain, false);
    std::vector<float> values(static_cast<size_t>(size));
    for (float& value : values) value = static_cast<float>(draw(1000)) / 900;
    const Tensor x = *Tensor::From(values, Shape{size});
    const auto expected = Ran(plain, here, x);
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    for (uint32_t way = 0; way < 3; ++way) {
      SessionOptions options;
      options.executor = way == 0 ? TENON_EXECUTOR_AUTO : TENON_EXECUTOR_DYNAMIC;
      options.debug.schedule_seed = way == 2 ? seed : 0;
      auto session = Session::Create(PairedRuntime(), placed, options);
      ASSERT_TRUE(session.ok()) << session.status().message();
      for (int step = 0; step < 3; ++step) {
        const auto found = session->Run({{"x", x}}, {there});
        ASSERT_TRUE(found.ok()) << "seed " << seed << ": " << found.status().message();
        EXPECT_TRUE(std::ranges::equal((*found)[0].data<float>(), (*expected)[0].data<float>(), AreAlike))
            << "seed " << seed << ", way " << way << ", step " << step;
      }
    }
  }
  EXPECT_GT(Control().between(), 100u);
}

}  // namespace
}  // namespace tenon::engine::device_copy_test
