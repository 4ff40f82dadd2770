// SPDX-License-Identifier: Apache-2.0
// Filters of a GPU's convolutions by the vendor's library, which wants another layout: turned once for each value, and
// never an old one. Counted on the emulated GPU, with an emulated cuDNN; with TENON_TEST_GPU=tenon.cuda through the
// real plugin on the emulated driver. Covers D1, D3.
#include <dlfcn.h>

#include <atomic>
#include <filesystem>
#include <random>
#include <string_view>
#include <thread>

#include "devices/gpu/emulation/observer.h"
#include "tests/device/gpu.h"
#include "tests/engine/engine.h"

namespace tenon::engine::gpu_filter_test {
namespace {

const std::string kPlugins = TENON_TEST_BUILD_DIR "/tests/plugins/";

// Counts the kernels that turn.
class Turns final : public gpu::EmulatedObserver {
 public:
  uint32_t Call() override { return 0; }
  uint64_t Now() override { return 0; }
  void Ran(const gpu::EmulatedActivity& activity, uint32_t, uint64_t, uint64_t) override {
    const std::string_view name = activity.name == nullptr ? "" : activity.name;
    if (name.starts_with("Move") || name.starts_with("SwapTiles")) ++count_;
  }
  // Since the last time.
  int Take() { return count_.exchange(0); }

 private:
  std::atomic<int> count_{0};
};
Turns& TheTurns() {
  static auto* const turns = [] {
    auto* const made = new Turns;
    gpu::SetObserver(made);
    return made;
  }();
  return *turns;
}

Runtime MakeRuntime(const std::string& option = "", const std::string& value = "") {
  RuntimeOptions options = device_test::GpuOptions();
  if (device_test::GpuIsEmulated()) options.plugins = {kPlugins + "tenon_gpu_emulated_cuda.so"};
  if (device_test::GpuLibraries().empty())
    options.plugin_options.push_back({device_test::GpuPlugin(), "libraries", kPlugins + "libraries"});
  if (!option.empty()) options.plugin_options.push_back({device_test::GpuPlugin(), option, value});
  auto made = Runtime::Create(options);
  if (!made.ok()) {
    ADD_FAILURE() << made.status().message();
    std::abort();  // NOLINT: nothing can be tested without a runtime
  }
  return std::move(*made);
}
Runtime& Gpus() {
  static Runtime* const runtime = new Runtime(MakeRuntime());
  return *runtime;
}

constexpr int64_t kSide = 6, kChannels = 8;
constexpr int kLayers = 3;
const std::vector<int64_t> kImage{2, kSide, kSide, kChannels}, kFilter{3, 3, kChannels, kChannels};

// Few bits each, so that sums are exact whoever adds them up.
Tensor Numbers(const std::vector<int64_t>& dims, uint32_t seed) {
  int64_t count = 1;
  for (int64_t dim : dims) count *= dim;
  std::mt19937 random(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(static_cast<int>(random() % 5) - 2);
  return *Tensor::From(values, Shape(dims));
}
const std::vector<Attr>& Window() {
  static const auto* const window =
      new std::vector<Attr>{{"strides", std::vector<int64_t>{1, 1, 1, 1}}, {"padding", "SAME"}};
  return *window;
}

// Three convolutions, whose filters are variables, constants or fed; a step of training changes the variables.
struct Network {
  enum Filters { kVariables, kConstants, kFed };
  explicit Network(const Runtime& runtime, Filters filters = kVariables)
      : g(runtime), x(g.Placeholder("x", DType::kFloat, Shape(kImage))) {
    std::vector<Output> in, out;
    y = x;
    for (int i = 0; i < kLayers; ++i) {
      const std::string number = std::to_string(i);
      if (filters != kConstants) given.push_back(g.Placeholder("given" + number, DType::kFloat, Shape(kFilter)));
      if (filters == kVariables) {
        handles.push_back(
            g.Op("VarHandleOp", std::vector<Output>{},
                 {{"dtype", DType::kFloat}, {"shape", Shape(kFilter)}, {"shared_name", "filter" + number}}));
        assign.push_back(g.AddNode("AssignVariableOp", {handles.back(), given.back()}, {{"dtype", DType::kFloat}}));
      }
      values.push_back(filters == kVariables ? g.Op("ReadVariableOp", {handles.back()}, {{"dtype", DType::kFloat}})
                       : filters == kFed     ? given.back()
                                             : g.Const(Numbers(kFilter, 50 + static_cast<uint32_t>(i))));
      in.push_back(y);
      y = g.Op("Conv2D", {y, values.back()}, Window());
      out.push_back(y);
      y = g.Op("Sign", {y});
    }
    if (filters != kVariables) return;
    Output back = g.Op("Sign", {out.back()});
    for (int i = kLayers - 1; i >= 0; --i) {
      const auto at = static_cast<size_t>(i);
      const Output gradient = g.Op(
          "Conv2DBackpropFilter",
          {in[at], g.Const({3, 3, static_cast<int32_t>(kChannels), static_cast<int32_t>(kChannels)}), back}, Window());
      if (i > 0)
        back = g.Op("Sign", {g.Op("Conv2DBackpropInput",
                                  {g.Const({2, static_cast<int32_t>(kSide), static_cast<int32_t>(kSide),
                                            static_cast<int32_t>(kChannels)}),
                                   values[at], back},
                                  Window())});
      train.push_back(
          g.AddNode("ResourceApplyGradientDescent", {handles[at], g.Const(0.125f), g.Op("Sign", {gradient})}));
    }
  }
  Graph g;
  const Output x;
  Output y;
  std::vector<Output> given, values, handles;
  std::vector<Operation> assign, train;
};

class Model {
 public:
  Model(const Runtime& runtime, const char* device, bool capture = true, Network::Filters filters = Network::kVariables)
      : network_(runtime, filters), session_(Make(runtime, network_.g, device, capture)) {}

  Status Restore(uint32_t seed) const {
    std::vector<Feed> feeds;
    for (size_t i = 0; i < network_.given.size(); ++i)
      feeds.push_back({network_.given[i], Numbers(kFilter, seed + static_cast<uint32_t>(i))});
    return session_.Run(feeds, {}, std::vector<Name>(network_.assign.begin(), network_.assign.end())).status();
  }
  Status Train(const Tensor& x) const {
    return session_.Run({{network_.x, x}}, {}, std::vector<Name>(network_.train.begin(), network_.train.end()))
        .status();
  }
  Result<std::vector<float>> Infer(const Tensor& x) const {
    auto out = session_.Run({{network_.x, x}}, {network_.y});
    if (!out.ok()) return out.status();
    return Values<float>((*out)[0]);
  }
  std::vector<float> Y(const Tensor& x) const {
    auto y = Infer(x);
    EXPECT_TRUE(y.ok()) << y.status().message();
    return y.ok() ? *y : std::vector<float>();
  }
  std::vector<float> Filters() const {
    std::vector<float> all;
    auto out = session_.Run({}, std::vector<Name>(network_.values.begin(), network_.values.end()));
    EXPECT_TRUE(out.ok()) << out.status().message();
    if (!out.ok()) return all;
    for (const Tensor& each : *out) {
      const std::vector<float> values = Values<float>(each);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }
  uint64_t captured() const { return session_.Metrics()->captured_launches; }

 private:
  static Session Make(const Runtime& runtime, const Graph& graph, const char* device, bool capture) {
    SessionOptions options;
    options.device = device;
    options.capture = capture;
    options.compile = false;
    auto session = Session::Create(runtime, graph, options);
    if (!session.ok()) {
      ADD_FAILURE() << session.status().message();
      std::abort();  // NOLINT
    }
    return std::move(*session);
  }
  Network network_;
  Session session_;
};
constexpr char kCpu[] = "/device:CPU:0";

// Whether tenon.cuda has the driver whose GPUs are emulated.
bool HasEmulatedDriver() {
  void* const driver =
      device_test::GpuPlugin() == "tenon.cuda" ? dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) : nullptr;
  return driver != nullptr && dlsym(driver, "tenon_emulated_driver") != nullptr;
}

class GpuFilters : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kPlugins + "tenon_gpu_emulated_cuda.so"))
      GTEST_SKIP() << "there is no toolkit with cuDNN";
    if (!device_test::GpuIsEmulated() && !HasEmulatedDriver()) GTEST_SKIP() << "only emulated kernels are counted";
    TheTurns().Take();
  }
  const Tensor x_ = Numbers(kImage, 1), other_ = Numbers(kImage, 2);
};

TEST_F(GpuFilters, ThatAreConstantsAreTurnedOnce) {
  const Model cpu(Gpus(), kCpu, true, Network::kConstants);
  const std::vector<float> expected = cpu.Y(x_);
  for (bool capture : {true, false}) {
    const Model gpu(Gpus(), device_test::kGpu, capture, Network::kConstants);
    TheTurns().Take();
    for (int step = 0; step < 8; ++step) EXPECT_EQ(gpu.Y(x_), expected) << step;
    EXPECT_EQ(TheTurns().Take(), kLayers) << capture;
    if (capture) {
      EXPECT_GT(gpu.captured(), 0u);
    }
  }
}

TEST_F(GpuFilters, ThatAreVariablesAreTurnedOnceForEachRestore) {
  const Model gpu(Gpus(), device_test::kGpu), cpu(Gpus(), kCpu);
  for (uint32_t restore = 0; restore < 6; ++restore) {
    ASSERT_TRUE(gpu.Restore(10 * restore).ok() && cpu.Restore(10 * restore).ok());
    for (int step = 0; step < 3; ++step) EXPECT_EQ(gpu.Y(x_), cpu.Y(x_)) << restore << ' ' << step;
    if (restore > 0) {
      EXPECT_EQ(TheTurns().Take(), kLayers) << restore;
    }
    for (int step = 0; step < 80; ++step) (void)gpu.Y(x_);
    EXPECT_EQ(gpu.Y(other_), cpu.Y(other_)) << restore;
    // The first steps are not captured yet: they turn what may change soon.
    EXPECT_EQ(TheTurns().Take(), restore > 0 ? 0 : 3 * kLayers) << restore;
  }
}

// What the captured step itself changes: once for a forward pass and the gradients together.
TEST_F(GpuFilters, ThatAStepChangesAreTurnedOnceInIt) {
  const Model gpu(Gpus(), device_test::kGpu), cpu(Gpus(), kCpu);
  ASSERT_TRUE(gpu.Restore(0).ok() && cpu.Restore(0).ok());
  for (int step = 0; step < 12; ++step) {
    const Tensor& x = step % 2 == 0 ? x_ : other_;
    ASSERT_TRUE(gpu.Train(x).ok() && cpu.Train(x).ok());
    EXPECT_EQ(gpu.Filters(), cpu.Filters()) << step;
    // And the gradients of all filters come in the library's layout.
    EXPECT_EQ(TheTurns().Take(), step < 2 ? kLayers + kLayers - 1 + kLayers : 2 * kLayers) << step;
  }
  EXPECT_GT(gpu.captured(), 8u);
}

// In any order, captured and not.
TEST_F(GpuFilters, AreNeverOldOnesWhoeverWritesAndWhenever) {
  for (bool capture : {true, false}) {
    const Model gpu(Gpus(), device_test::kGpu, capture), cpu(Gpus(), kCpu);
    std::mt19937 random(7);
    ASSERT_TRUE(gpu.Restore(0).ok() && cpu.Restore(0).ok());
    for (int round = 0; round < 60; ++round) {
      const Tensor& x = round % 3 == 0 ? x_ : other_;
      const uint32_t what = random() % 4;
      for (uint32_t i = random() % (round % 20 == 0 ? 100 : 5); i > 0; --i) {
        if (what == 0) {
          ASSERT_TRUE(gpu.Train(x).ok() && cpu.Train(x).ok());
        }
        if (what == 1) {
          ASSERT_TRUE(gpu.Restore(i).ok() && cpu.Restore(i).ok());
        }
        if (what > 1) {
          ASSERT_EQ(gpu.Y(x), cpu.Y(x)) << capture << ' ' << round;
        }
      }
      ASSERT_EQ(gpu.Y(x), cpu.Y(x)) << capture << ' ' << round;
      if (round % 10 == 0) {
        ASSERT_EQ(gpu.Filters(), cpu.Filters()) << capture << ' ' << round;
      }
    }
  }
}

TEST_F(GpuFilters, OfTwoSessionsAndSeveralThreadsAreTheirOwn) {
  const Model cpu(Gpus(), kCpu);
  std::vector<std::unique_ptr<Model>> models;
  std::vector<std::vector<std::vector<float>>> expected;  // of each model and value
  for (uint32_t m = 0; m < 2; ++m) {
    models.push_back(std::make_unique<Model>(Gpus(), device_test::kGpu));
    expected.emplace_back();
    for (uint32_t value = 0; value < 2; ++value) {
      ASSERT_TRUE(cpu.Restore(100 * m + 10 * value).ok());
      expected.back().push_back(cpu.Y(x_));
    }
    ASSERT_TRUE(models.back()->Restore(100 * m).ok());
  }
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0}, steps{0};
  std::vector<std::thread> readers;
  for (size_t m = 0; m < 2; ++m)
    for (int t = 0; t < 2; ++t)
      readers.emplace_back([&, m] {
        while (!stop) {
          const auto y = models[m]->Infer(x_);
          // Filters are restored one after another: a step may see some of each.
          wrong += !y.ok();
          ++steps;
        }
      });
  for (uint32_t i = 1; i <= 20; ++i) {
    for (uint32_t m = 0; m < 2; ++m) ASSERT_TRUE(models[m]->Restore(100 * m + 10 * (i % 2)).ok());
    for (const int until = steps + static_cast<int>(i % 7) * 4; steps < until;) std::this_thread::yield();
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0) << "of " << steps;
  for (size_t m = 0; m < 2; ++m)
    for (int step = 0; step < 4; ++step) EXPECT_EQ(models[m]->Y(x_), expected[m][0]) << m;
}

// A tensor of the caller, who may write to it between steps, lies where it lay.
TEST_F(GpuFilters, ThatAreFedAreTurnedInEachStep) {
  const Network network(Gpus(), Network::kFed);
  const auto make = [&](const char* device) {
    SessionOptions options;
    options.device = device;
    options.compile = false;
    return *Session::Create(Gpus(), network.g, options);
  };
  const Session gpu = make(device_test::kGpu), cpu = make(kCpu);
  for (uint32_t step = 0; step < 10; ++step) {
    std::vector<Feed> feeds = {{network.x, x_}};
    for (size_t i = 0; i < kLayers; ++i)
      feeds.push_back({network.given[i], Numbers(kFilter, step + static_cast<uint32_t>(i))});
    TheTurns().Take();
    const auto one = gpu.Run(feeds, {network.y}), other = cpu.Run(feeds, {network.y});
    ASSERT_TRUE(one.ok() && other.ok());
    EXPECT_EQ(Values<float>((*one)[0]), Values<float>((*other)[0])) << step;
    EXPECT_EQ(TheTurns().Take(), kLayers) << step;
  }
}

constexpr int64_t kFilterBytes = 9 * kChannels * kChannels * int64_t{sizeof(float)};

// Memory that is not given back would be missing soon.
TEST_F(GpuFilters, AreFreedWithTheirSession) {
  const Runtime runtime = MakeRuntime("memory_limit", std::to_string(120 * kFilterBytes));
  const Model cpu(Gpus(), kCpu);
  for (uint32_t i = 0; i < 60; ++i) {
    const Model gpu(runtime, device_test::kGpu);
    ASSERT_TRUE(cpu.Restore(i).ok() && gpu.Restore(i).ok());
    for (int step = 0; step < 5; ++step) ASSERT_EQ(gpu.Y(x_), cpu.Y(x_)) << i;
    ASSERT_TRUE(cpu.Train(x_).ok() && gpu.Train(x_).ok());
    ASSERT_EQ(gpu.Y(x_), cpu.Y(x_)) << i;
  }
}

// From a limit under which nothing runs to one under which everything does: a step that runs is right.
TEST_F(GpuFilters, AreTurnedInEachLaunchWhereThereIsNoMemoryForThem) {
  const Model cpu(Gpus(), kCpu, true, Network::kConstants), changing(Gpus(), kCpu);
  const std::vector<float> expected = cpu.Y(x_);
  int without = 0, with = 0;
  for (int64_t limit = 2 * kFilterBytes; limit < 80 * kFilterBytes; limit += kFilterBytes) {
    const Runtime runtime = MakeRuntime("memory_limit", std::to_string(limit));
    const Model constants(runtime, device_test::kGpu, true, Network::kConstants);
    TheTurns().Take();
    bool ran = true;
    for (int step = 0; step < 6 && ran; ++step) {
      const auto y = constants.Infer(x_);
      ran = y.ok();
      if (ran) {
        EXPECT_EQ(*y, expected) << limit;
      }
    }
    if (ran) ++(TheTurns().Take() > kLayers ? without : with);
    const Model variables(runtime, device_test::kGpu);
    for (uint32_t step = 0; step < 6; ++step) {
      if (!variables.Restore(step / 3).ok()) break;
      ASSERT_TRUE(changing.Restore(step / 3).ok());
      if (const auto y = variables.Infer(x_); y.ok()) {
        EXPECT_EQ(*y, changing.Y(x_)) << limit;
      }
    }
  }
  EXPECT_GT(without, 0) << "no limit was between";
  EXPECT_GT(with, 0);
}

TEST_F(GpuFilters, OfALostGpuAreGivenUp) {
  if (!device_test::GpuIsEmulated()) GTEST_SKIP() << "only the emulated plugin has the option lose_after";
  for (int after = 20; after < 260; after += 7) {
    const Runtime runtime = MakeRuntime("lose_after", std::to_string(after));
    const Model gpu(runtime, device_test::kGpu);
    Status status = gpu.Restore(0);
    for (int step = 0; step < 40 && status.ok(); ++step)
      status = step % 4 == 3 ? gpu.Train(x_) : gpu.Infer(x_).status();
    EXPECT_EQ(status.code(), Code::kUnavailable) << after << ": " << status.message();
  }
}

}  // namespace
}  // namespace tenon::engine::gpu_filter_test
