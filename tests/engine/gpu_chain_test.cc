// SPDX-License-Identifier: Apache-2.0
// Chains of element-wise nodes that a GPU's compiler makes one kernel of give the bits that the nodes' own kernels give; what cannot be
// one kernel runs node by node. The emulated GPU's chains are compiled by
// this machine's compiler. Covers N8, Q2, Q4.
#include <dlfcn.h>

#include <chrono>
#include <filesystem>
#include <future>

#include "devices/cuda/emulation/driver_controls.h"
#include "tests/device/gpu.h"
#include "tests/engine/engine.h"

namespace tenon::engine {
namespace {

const std::string& CacheFolder() {
  static const std::string folder = TENON_TEST_BUILD_DIR "/tests/gpu_chain_cache_" + std::to_string(getpid());
  return folder;
}

Runtime& Gpus() {
  static Runtime* const runtime = [] {
    RuntimeOptions options = device_test::GpuOptions();
    options.plugin_options.back().value = CacheFolder();
    auto made = Runtime::Create(options);
    if (!made.ok()) {
      ADD_FAILURE() << made.status().message();
      std::abort();  // NOLINT: nothing can be tested without a runtime
    }
    return new Runtime(std::move(*made));
  }();
  return *runtime;
}

size_t FilesInCache() {
  std::error_code none;
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(CacheFolder(), none)) count += entry.is_regular_file() ? 1 : 0;
  return count;
}

struct Answer {
  std::string bytes, error;
  int compiled = 0;  // nodes that are no kernel of their own
};

Answer AnswerOf(const Graph& graph, const std::vector<Feed>& feeds, const Output& fetch, bool compile, const std::vector<Name>& targets = {}) {
  SessionOptions options;
  options.device = device_test::kGpu;
  options.compile = compile;
  Answer answer;
  auto session = Session::Create(Gpus(), graph, options);
  if (!session.ok()) return {"", std::string(session.status().message())};
  std::vector<Name> names;
  std::vector<View> views;
  for (const Feed& feed : feeds) {
    names.push_back(feed.name);
    views.push_back(feed.value);
  }
  auto callable = session->Prepare(names, {fetch}, targets);
  if (!callable.ok()) return {"", std::string(callable.status().message())};
  auto values = callable->Run(views);
  if (!values.ok()) return {"", std::string(values.status().message())};
  const auto bytes = (*values)[0].bytes();
  answer.bytes.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::string how = *callable->Explain();
  for (size_t at = 0; (at = how.find("\"runs\":\"compiled\"", at)) != std::string::npos; ++at) ++answer.compiled;
  return answer;
}

// A library that refuses the bias and the rectifier is given the sums, and the rest is done to these. It adds up doubles: the bits say who did.
TEST(GpuChains, ProductsWhoseEndALibraryRefusesAreItsSumsAllTheSame) {
  const std::string plugins = TENON_TEST_BUILD_DIR "/tests/plugins/";
  if (!std::filesystem::exists(plugins + "tenon_gpu_emulated_cuda.so")) GTEST_SKIP() << "there is no toolkit with cuBLASLt";
  if (!device_test::GpuIsEmulated()) GTEST_SKIP() << "a real library takes what it likes";
  RuntimeOptions options;
  options.plugins = {plugins + "tenon_gpu_emulated_cuda.so"};
  options.plugin_options = {{"tenon.gpu_emulated", "devices", "1"}, {"tenon.gpu_emulated", "cache", "off"}, {"tenon.gpu_emulated", "libraries", plugins + "libraries"}};
  auto runtime = Runtime::Create(options);
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  constexpr int64_t kDepth = 5000, kColumns = 3;
  std::vector<float> left(2 * kDepth), right(kDepth * kColumns);
  for (size_t i = 0; i < left.size(); ++i) left[i] = 0.5f + static_cast<float>(i * 7919 % 1000) / 2000;
  for (size_t i = 0; i < right.size(); ++i) right[i] = 0.5f + static_cast<float>(i * 104729 % 1000) / 2000;
  const std::vector<float> bias = {0.25f, -4000.0f, 1.5f};
  Graph g(*runtime);
  const Output x = g.Placeholder("x", DType::kFloat, Shape{2, kDepth}), w = g.Placeholder("w", DType::kFloat, Shape{kDepth, kColumns});
  const Output b = g.Placeholder("b", DType::kFloat, Shape{kColumns});
  const Output y = g.Op("Relu", {g.Op("BiasAdd", {g.Op("MatMul", {x, w}), b})});
  SessionOptions session_options;
  session_options.device = device_test::kGpu;
  auto session = Session::Create(*runtime, g, session_options);
  ASSERT_TRUE(session.ok()) << session.status().message();
  auto out = session->Run({{x, *Tensor::From(left, Shape{2, kDepth})}, {w, *Tensor::From(right, Shape{kDepth, kColumns})}, {b, *Tensor::From(bias, Shape{kColumns})}}, {y});
  ASSERT_TRUE(out.ok()) << out.status().message();
  const std::vector<float> got = Values<float>((*out)[0]);
  ASSERT_EQ(got.size(), 2u * kColumns);
  for (size_t i = 0; i < got.size(); ++i) {
    double sum = 0;
    for (size_t k = 0; k < kDepth; ++k) sum += double{left[i / kColumns * kDepth + k]} * double{right[k * kColumns + i % kColumns]};
    const float expected = static_cast<float>(sum) + bias[i % kColumns];
    EXPECT_EQ(got[i], std::max(expected, 0.0f)) << i;
  }
}

// Compiling takes long: others find and launch their kernels meanwhile. The emulated driver's compiler waits until it is told to go on.
TEST(GpuChains, AreCompiledWhileOthersLaunch) {
  (void)Gpus();  // which open it
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  auto* const get = driver == nullptr ? nullptr : reinterpret_cast<EmulatedDriverControls* (*)()>(dlsym(driver, "tenon_emulated_driver"));
  if (get == nullptr) GTEST_SKIP() << "only the emulated driver can be told to wait";
  EmulatedDriverControls& controls = *get();
  Graph chain(Gpus()), alone(Gpus());
  const Output x = chain.Placeholder("x", DType::kFloat, Shape{7}), z = alone.Placeholder("z", DType::kDouble, Shape{2});
  const Output y = chain.Op("Tanh", {chain.Op("Square", {chain.Op("Neg", {chain.Op("Mul", {x, x})})})});
  const Output atan = alone.Op("Atan", {z});
  controls.holds_compiler = true;
  auto compiling = std::async(std::launch::async, [&] { return AnswerOf(chain, {{x, *Tensor::From(std::vector<float>(7, 1), Shape{7})}}, y, true); });
  while (controls.compiling == 0 && compiling.wait_for(std::chrono::milliseconds(1)) == std::future_status::timeout) {
  }
  EXPECT_EQ(controls.compiling, 1);
  auto launching = std::async(std::launch::async, [&] { return AnswerOf(alone, {{z, *Tensor::From(std::vector<double>(2, 0), Shape{2})}}, atan, false); });
  EXPECT_EQ(launching.wait_for(std::chrono::seconds(30)), std::future_status::ready) << "a kernel was not found while a chain was compiled";
  controls.holds_compiler = false;
  EXPECT_EQ(launching.get().error, "");
  EXPECT_EQ(compiling.get().error, "");
}

// Compiles once (the cache tells), and gives the same bits.
void ExpectSame(const Graph& graph, const std::vector<Feed>& feeds, const Output& fetch, size_t compiled) {
  const size_t before = FilesInCache();
  const Answer alone = AnswerOf(graph, feeds, fetch, false);
  EXPECT_EQ(FilesInCache(), before);
  const Answer chain = AnswerOf(graph, feeds, fetch, true);
  EXPECT_EQ(FilesInCache(), before + compiled);
  EXPECT_EQ(alone.error, "");
  EXPECT_EQ(chain.error, "");
  EXPECT_FALSE(alone.bytes.empty());
  EXPECT_EQ(chain.bytes, alone.bytes);
}

Tensor Ramp(const Shape& shape, float step, float begin) {
  size_t count = 1;
  for (int64_t dim : shape.dims()) count *= static_cast<size_t>(dim);
  std::vector<float> values(count);
  for (size_t i = 0; i < values.size(); ++i) values[i] = begin + step * static_cast<float>(i);
  return *Tensor::From(values, shape);
}

TEST(GpuChain, OfOneShapeIsOneKernelForAllShapes) {
  Graph g(Gpus());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{-1, 5});
  const Output y = g.Op("Mul", {g.Op("Tanh", {x}), g.Op("Sigmoid", {g.Op("AddV2", {x, g.Op("Square", {x})})})});
  ExpectSame(g, {{x, Ramp(Shape{3, 5}, 0.1f, -0.7f)}}, y, 1);
  ExpectSame(g, {{x, Ramp(Shape{4, 5}, 0.1f, -0.7f)}}, y, 0);  // other numbers, the same kernel
  ExpectSame(g, {{x, Ramp(Shape{1, 5}, 0.3f, 2)}}, y, 0);
}

TEST(GpuChain, BroadcastsWhatComesFromOutside) {
  Graph g(Gpus());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{2, 3, 4});
  const Output row = g.Placeholder("row", DType::kFloat, Shape{4});
  const Output middle = g.Placeholder("middle", DType::kFloat, Shape{3, 1});
  const Output one = g.Placeholder("one", DType::kFloat, Shape{});
  const Output y = g.Op("Maximum", {g.Op("AddV2", {g.Op("Mul", {x, row}), middle}), one});
  ExpectSame(g, {{x, Ramp(Shape{2, 3, 4}, 0.25f, -3)}, {row, Ramp(Shape{4}, 1, -1)}, {middle, Ramp(Shape{3, 1}, 2, 0)}, {one, Ramp(Shape{}, 0, 0.5f)}}, y, 1);
}

TEST(GpuChain, GoesThroughCastsQuestionsAndChoices) {
  Graph g(Gpus());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{7});
  const Output small = g.Op("Cast", {x}, {{"DstT", DType::kHalf}});
  const Output wide = g.Op("Cast", {g.Op("Mul", {small, small})}, {{"DstT", DType::kFloat}});
  const Output y = g.Op("SelectV2", {g.Op("Less", {wide, x}), wide, g.Op("Neg", {x})});
  ExpectSame(g, {{x, Ramp(Shape{7}, 0.37f, -1.1f)}}, y, 1);
}

// A sum between two chains; a product and a sum, which stay two roundings.
TEST(GpuChain, EndsWhereItWouldBeACircle) {
  Graph g(Gpus());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{2, 3});
  const Output a = g.Op("Exp", {g.Op("Neg", {x})});
  const Output b = g.Op("Softmax", {a});  // none of the chain's functions
  const Output y = g.Op("AddV2", {g.Op("Mul", {a, x}), g.Op("Sqrt", {b})});
  ExpectSame(g, {{x, Ramp(Shape{2, 3}, 0.21f, -0.4f)}}, y, 2);
}

TEST(GpuChain, LeavesDivisionOfIntegersToItsKernel) {
  Graph g(Gpus());
  const Output x = g.Placeholder("x", DType::kInt32, Shape{3});
  const Output y = g.Op("FloorDiv", {g.Op("Square", {g.Op("Neg", {x})}), x}, {}, "quotient");
  const Answer chain = AnswerOf(g, {{x, *Tensor::From(std::vector<int32_t>{3, 0, 2}, Shape{3})}}, y, true);
  EXPECT_NE(chain.error.find("Integer division by zero (element 1)"), std::string::npos) << chain.error;
}

TEST(GpuChain, TakesTheBiasAlongTheLastDim) {
  Graph g(Gpus());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{2, 2, 3});
  const Output y = g.Op("Tanh", {g.Op("BiasAdd", {x, g.Const(std::vector<float>{1, 2, 3}, Shape{3})})});
  ExpectSame(g, {{x, Ramp(Shape{2, 2, 3}, 0.21f, -0.4f)}}, y, 1);
}
TEST(GpuChain, LeavesTheBiasOfOtherChannelsToItsKernel) {
  Graph g(Gpus());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{1, 3, 2, 2});
  const Output y = g.Op("Tanh", {g.Op("BiasAdd", {x, g.Const(std::vector<float>{1, 2, 3}, Shape{3})}, {{"data_format", "NCHW"}})});
  ExpectSame(g, {{x, Ramp(Shape{1, 3, 2, 2}, 0.21f, -0.4f)}}, y, 0);
}

struct Layer {
  explicit Layer(bool turned = false) : g(Gpus()) {
    x = g.Placeholder("x", DType::kFloat, turned ? Shape{70, 5} : Shape{5, 70});
    weights = g.Placeholder("weights", DType::kFloat, turned ? Shape{66, 70} : Shape{70, 66});
    bias = g.Placeholder("bias", DType::kFloat, Shape{66});
    product = g.Op("MatMul", {x, weights}, {{"transpose_a", turned}, {"transpose_b", turned}}, "product");
    sum = g.Op("BiasAdd", {product, bias});
    feeds = {{x, Ramp(turned ? Shape{70, 5} : Shape{5, 70}, 0.011f, -1)}, {weights, Ramp(turned ? Shape{66, 70} : Shape{70, 66}, 0.0007f, -1.5f)}, {bias, Ramp(Shape{66}, 0.1f, -3)}};
  }
  // compiled: of the nodes, those that are one.
  void Expect(const Output& fetch, int compiled, const std::vector<Name>& targets = {}) {
    const Answer alone = AnswerOf(g, feeds, fetch, false, targets), together = AnswerOf(g, feeds, fetch, true, targets);
    EXPECT_EQ(alone.error, "");
    EXPECT_EQ(together.error, "");
    EXPECT_EQ(alone.compiled, 0);
    EXPECT_EQ(together.compiled, compiled);
    EXPECT_FALSE(alone.bytes.empty());
    EXPECT_EQ(together.bytes, alone.bytes);
  }
  Graph g;
  Output x, weights, bias, product, sum;
  std::vector<Feed> feeds;
};

TEST(GpuProduct, IsOneWithItsBiasAndRectifier) {
  for (const bool turned : {false, true}) {
    Layer layer(turned);
    layer.Expect(layer.g.Op("Relu", {layer.sum}), 3);
  }
  Layer layer;
  layer.Expect(layer.sum, 2);
}
TEST(GpuProduct, OfARectifierThatIsReadTwiceIsOneWithIt) {
  Layer layer;
  const Output y = layer.g.Op("Relu", {layer.sum});
  layer.Expect(layer.g.Op("Softmax", {layer.g.Op("MatMul", {y, y}, {{"transpose_b", true}})}), 3);
}
TEST(GpuProduct, ThatSomebodyElseReadsStaysAlone) {
  Layer layer;
  layer.Expect(layer.g.Op("AddV2", {layer.product, layer.g.Op("Relu", {layer.sum})}), 3);  // a chain of what is behind it
}
TEST(GpuProduct, ByItself) {
  Layer layer;
  layer.Expect(layer.product, 0);
}

}  // namespace
}  // namespace tenon::engine
