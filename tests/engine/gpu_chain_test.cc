// SPDX-License-Identifier: Apache-2.0
// Chains of element-wise nodes that a GPU's compiler makes one kernel of give the bits that the nodes' own kernels
// give; what cannot be one kernel runs node by node. The emulated GPU's chains are compiled by this machine's compiler.
// Covers N8, Q2, Q4.
#include <dlfcn.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <future>
#include <limits>

#include "devices/cuda/emulation/driver_controls.h"
#include "tests/device/gpu.h"
#include "tests/engine/engine.h"

namespace tenon::engine::gpu_chain_test {
namespace {

const std::string& CacheFolder() {
  static const std::string folder = TENON_TEST_BUILD_DIR "/tests/gpu_chain_cache_" + std::to_string(getpid());
  return folder;
}

Runtime& Gpus() {
  static Runtime* const runtime = [] {
    RuntimeOptions options = device_test::GpuOptions();
    options.plugin_options.back().value = CacheFolder();
    return new Runtime(device_test::MakeRuntime(options));
  }();
  return *runtime;
}

size_t FilesInCache() {
  std::error_code none;
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(CacheFolder(), none))
    count += entry.is_regular_file() ? 1 : 0;
  return count;
}

struct Answer {
  std::string bytes, error;
  int compiled = 0;  // nodes that are no kernel of their own
};

Answer AnswerOf(const Graph& graph, const std::vector<Feed>& feeds, const Output& fetch, bool compile,
                const std::vector<Name>& targets = {}) {
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

// A library that refuses the bias and the rectifier is given the sums, and the rest is done to these. It adds up
// doubles: the bits say who did.
TEST(GpuChains, ProductsWhoseEndALibraryRefusesAreItsSumsAllTheSame) {
  const std::string plugins = TENON_TEST_BUILD_DIR "/tests/plugins/";
  if (!std::filesystem::exists(plugins + "tenon_gpu_emulated_cuda.so"))
    GTEST_SKIP() << "there is no toolkit with cuBLASLt";
  if (!device_test::GpuIsEmulated()) GTEST_SKIP() << "a real library takes what it likes";
  RuntimeOptions options;
  options.plugins = {plugins + "tenon_gpu_emulated_cuda.so"};
  options.plugin_options = {{"tenon.gpu_emulated", "devices", "1"},
                            {"tenon.gpu_emulated", "cache", "off"},
                            {"tenon.gpu_emulated", "libraries", plugins + "libraries"}};
  auto runtime = Runtime::Create(options);
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  constexpr int64_t kDepth = 5000, kColumns = 3;
  std::vector<float> left(2 * kDepth), right(kDepth * kColumns);
  for (size_t i = 0; i < left.size(); ++i) left[i] = 0.5f + static_cast<float>(i * 7919 % 1000) / 2000;
  for (size_t i = 0; i < right.size(); ++i) right[i] = 0.5f + static_cast<float>(i * 104729 % 1000) / 2000;
  const std::vector<float> bias = {0.25f, -4000.0f, 1.5f};
  Graph g(*runtime);
  const Output x = g.Placeholder("x", DType::kFloat, Shape{2, kDepth}),
               w = g.Placeholder("w", DType::kFloat, Shape{kDepth, kColumns});
  const Output b = g.Placeholder("b", DType::kFloat, Shape{kColumns});
  const Output y = g.Op("Relu", {g.Op("BiasAdd", {g.Op("MatMul", {x, w}), b})});
  SessionOptions session_options;
  session_options.device = device_test::kGpu;
  auto session = Session::Create(*runtime, g, session_options);
  ASSERT_TRUE(session.ok()) << session.status().message();
  auto out = session->Run({{x, *Tensor::From(left, Shape{2, kDepth})},
                           {w, *Tensor::From(right, Shape{kDepth, kColumns})},
                           {b, *Tensor::From(bias, Shape{kColumns})}},
                          {y});
  ASSERT_TRUE(out.ok()) << out.status().message();
  const std::vector<float> got = Values<float>((*out)[0]);
  ASSERT_EQ(got.size(), 2u * kColumns);
  for (size_t i = 0; i < got.size(); ++i) {
    double sum = 0;
    for (size_t k = 0; k < kDepth; ++k)
      sum += double{left[i / kColumns * kDepth + k]} * double{right[k * kColumns + i % kColumns]};
    const float expected = static_cast<float>(sum) + bias[i % kColumns];
    EXPECT_EQ(got[i], std::max(expected, 0.0f)) << i;
  }
}

// As passes of precision write it. All numbers are exact.
TEST(GpuChains, SumsOfHalvesTakeTheirBiasAlong) {
  for (const bool one : {true, false}) {  // matrix, or several
    Graph g(Gpus());
    const Output x = g.Placeholder("x", DType::kFloat, one ? Shape{5, 24} : Shape{2, 5, 24}),
                 w = g.Placeholder("w", DType::kFloat, Shape{6, 24}), b = g.Placeholder("b", DType::kFloat, Shape{6});
    const auto half = [&](const Output& of) { return g.Op("Cast", {of}, {{"DstT", DType::kBfloat16}}); };
    const Output sums = g.Op("BatchMatMulV3", {half(x), half(w)}, {{"adj_y", true}, {"Tout", DType::kFloat}});
    const Output y = g.Op("Relu", {g.Op("BiasAdd", {sums, b})});
    std::vector<float> left(one ? 120 : 240), right(144), bias = {0.5f, -300, 2, -1, 0, 70};
    for (size_t i = 0; i < left.size(); ++i) left[i] = static_cast<float>(i * 37 % 41) - 20;
    for (size_t i = 0; i < right.size(); ++i) right[i] = static_cast<float>(i * 29 % 31) - 15;
    const std::vector<Feed> feeds = {
        {x, View(left, x.shape())}, {w, View(right, w.shape())}, {b, View(bias, b.shape())}};
    const Answer alone = AnswerOf(g, feeds, y, false), joined = AnswerOf(g, feeds, y, true);
    EXPECT_EQ(alone.error, "");
    EXPECT_EQ(joined.error, "");
    EXPECT_EQ(joined.bytes, alone.bytes);
    EXPECT_EQ(joined.compiled, one ? 3 : 2) << "the product with its end, or the end alone";
    const auto* const found = reinterpret_cast<const float*>(joined.bytes.data());
    for (size_t i = 0; i < joined.bytes.size() / sizeof(float); ++i) {
      float sum = bias[i % 6];
      for (size_t k = 0; k < 24; ++k) sum += left[i / 6 * 24 + k] * right[i % 6 * 24 + k];
      EXPECT_EQ(found[i], std::max(sum, 0.0f)) << i;
    }
  }
}

// Compiling takes long: others find and launch their kernels meanwhile. The emulated driver's compiler waits until it
// is told to go on.
TEST(GpuChains, AreCompiledWhileOthersLaunch) {
  (void)Gpus();  // which open it
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  auto* const get = driver == nullptr
                        ? nullptr
                        : reinterpret_cast<EmulatedDriverControls* (*)()>(dlsym(driver, "tenon_emulated_driver"));
  if (get == nullptr) GTEST_SKIP() << "only the emulated driver can be told to wait";
  EmulatedDriverControls& controls = *get();
  Graph chain(Gpus()), alone(Gpus());
  const Output x = chain.Placeholder("x", DType::kFloat, Shape{7}),
               z = alone.Placeholder("z", DType::kDouble, Shape{2});
  const Output y = chain.Op("Tanh", {chain.Op("Square", {chain.Op("Neg", {chain.Op("Mul", {x, x})})})});
  const Output atan = alone.Op("Atan", {z});
  controls.holds_compiler = true;
  auto compiling = std::async(std::launch::async, [&] {
    return AnswerOf(chain, {{x, *Tensor::From(std::vector<float>(7, 1), Shape{7})}}, y, true);
  });
  while (controls.compiling == 0 && compiling.wait_for(std::chrono::milliseconds(1)) == std::future_status::timeout) {
  }
  EXPECT_EQ(controls.compiling, 1);
  auto launching = std::async(std::launch::async, [&] {
    return AnswerOf(alone, {{z, *Tensor::From(std::vector<double>(2, 0), Shape{2})}}, atan, false);
  });
  EXPECT_EQ(launching.wait_for(std::chrono::seconds(30)), std::future_status::ready)
      << "a kernel was not found while a chain was compiled";
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
  ExpectSame(g,
             {{x, Ramp(Shape{2, 3, 4}, 0.25f, -3)},
              {row, Ramp(Shape{4}, 1, -1)},
              {middle, Ramp(Shape{3, 1}, 2, 0)},
              {one, Ramp(Shape{}, 0, 0.5f)}},
             y, 1);
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
  const Output b = g.Op("Cumsum", {a, g.Const(1)});  // none of the chain's functions
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
  const Output y =
      g.Op("Tanh", {g.Op("BiasAdd", {x, g.Const(std::vector<float>{1, 2, 3}, Shape{3})}, {{"data_format", "NCHW"}})});
  ExpectSame(g, {{x, Ramp(Shape{1, 3, 2, 2}, 0.21f, -0.4f)}}, y, 0);
}

struct Layer {
  explicit Layer(bool turned = false) : g(Gpus()) {
    x = g.Placeholder("x", DType::kFloat, turned ? Shape{70, 5} : Shape{5, 70});
    weights = g.Placeholder("weights", DType::kFloat, turned ? Shape{66, 70} : Shape{70, 66});
    bias = g.Placeholder("bias", DType::kFloat, Shape{66});
    product = g.Op("MatMul", {x, weights}, {{"transpose_a", turned}, {"transpose_b", turned}}, "product");
    sum = g.Op("BiasAdd", {product, bias});
    feeds = {{x, Ramp(turned ? Shape{70, 5} : Shape{5, 70}, 0.011f, -1)},
             {weights, Ramp(turned ? Shape{66, 70} : Shape{70, 66}, 0.0007f, -1.5f)},
             {bias, Ramp(Shape{66}, 0.1f, -3)}};
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
  layer.Expect(layer.g.Op("AddV2", {layer.product, layer.g.Op("Relu", {layer.sum})}),
               3);  // a chain of what is behind it
}
TEST(GpuProduct, ByItself) {
  Layer layer;
  layer.Expect(layer.product, 0);
}

// ---- Chains with sums along rows ----

// What the nodes' own kernels give, up to the order of sums, which is theirs where a row is one group's; and how many
// nodes are one.
void ExpectClose(const Graph& graph, const std::vector<Feed>& feeds, const Output& fetch, int compiled, double close,
                 DType dtype = DType::kFloat) {
  const Answer alone = AnswerOf(graph, feeds, fetch, false), together = AnswerOf(graph, feeds, fetch, true);
  EXPECT_EQ(alone.error, "");
  EXPECT_EQ(together.error, "");
  EXPECT_EQ(together.compiled, compiled);
  ASSERT_EQ(together.bytes.size(), alone.bytes.size());
  const auto values = [&](const std::string& bytes) {
    std::vector<double> out;
    const size_t size = dtype == DType::kDouble ? 8 : dtype == DType::kFloat ? 4 : 2;
    for (size_t at = 0; at < bytes.size(); at += size) {
      const auto read = [&](auto value) {
        std::memcpy(&value, bytes.data() + at, sizeof value);
        return value;
      };
      if (dtype == DType::kDouble) {
        out.push_back(read(0.0));
      } else if (dtype == DType::kFloat) {
        out.push_back(double{read(0.0f)});
      } else if (const uint16_t bits = read(uint16_t{0}); dtype == DType::kBfloat16) {
        out.push_back(double{std::bit_cast<float>(static_cast<uint32_t>(bits) << 16)});
      } else {
        const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
        const double size = exponent == 31
                                ? (mantissa != 0 ? NAN : INFINITY)
                                : std::ldexp(exponent == 0 ? mantissa : mantissa + 1024, std::max(exponent, 1) - 25);
        out.push_back(bits >> 15 != 0 ? -size : size);
      }
    }
    return out;
  };
  const std::vector<double> a = values(alone.bytes), b = values(together.bytes);
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    ASSERT_NEAR(b[i], a[i], close * std::max(1.0, std::fabs(a[i]))) << "element " << i;
  }
}

Tensor Waves(const Shape& shape, float step, float height = 1, float above = 0) {
  size_t count = 1;
  for (int64_t dim : shape.dims()) count *= static_cast<size_t>(dim);
  std::vector<float> values(count);
  for (size_t i = 0; i < values.size(); ++i) values[i] = above + height * std::sin(step * static_cast<float>(i));
  return *Tensor::From(values, shape);
}

Output MeanOf(Graph& g, const Output& x, int32_t axis = -1) {
  return g.Op("Mean", {x, g.Const(std::vector<int32_t>{axis}, Shape{1})}, {{"keep_dims", true}});
}

// As tf.nn.moments and tf.nn.batch_normalization write it.
struct LayerNorm {
  LayerNorm(Graph& g, const Output& x, const Output& gamma, const Output& beta) {
    mean = MeanOf(g, x);
    variance = MeanOf(g, g.Op("SquaredDifference", {x, g.Op("StopGradient", {mean})}));
    inverse = g.Op("Rsqrt", {g.Op("AddV2", {variance, g.Const(1e-5f)})});
    const Output factor = g.Op("Mul", {inverse, gamma});
    y = g.Op("AddV2", {g.Op("Mul", {x, factor}), g.Op("Sub", {beta, g.Op("Mul", {mean, factor})})});
  }
  Output mean, variance, inverse, y;
};

TEST(GpuRows, ANormalisationOfLayersIsOneLaunch) {
  // A few threads for a row, a warp, a block; rows that begin at multiples of 16 bytes and anywhere; more than
  // registers hold.
  for (const int64_t width : {2, 7, 129, 768, 1021, 4096, 16384}) {
    Graph g(Gpus());
    const Output x = g.Placeholder("x", DType::kFloat, Shape{-1, 3, width}),
                 gamma = g.Placeholder("gamma", DType::kFloat, Shape{width}),
                 beta = g.Placeholder("beta", DType::kFloat, Shape{width});
    const LayerNorm norm(g, x, gamma, beta);
    const std::vector<Feed> feeds = {{x, Waves(Shape{2, 3, width}, 0.37f, 3, 5)},
                                     {gamma, Waves(Shape{width}, 0.1f, 1, 2)},
                                     {beta, Waves(Shape{width}, 0.7f)}};
    SCOPED_TRACE(width);
    ExpectClose(g, feeds, norm.y, 10, 2e-6);
  }
}

TEST(GpuRows, OneKernelServesAnyNumberOfRows) {
  Graph g(Gpus());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{-1, 40});
  const LayerNorm norm(g, x, g.Const(2.0f), g.Const(0.5f));
  const size_t before = FilesInCache();
  for (const int64_t rows : {3, 700, 0}) ExpectClose(g, {{x, Waves(Shape{rows, 40}, 0.37f)}}, norm.y, 10, 2e-6);
  EXPECT_EQ(FilesInCache(), before + 1);
  ExpectClose(g, {{x, Waves(Shape{1, 40}, 0.37f)}}, norm.y, 10, 2e-6);
}

// A residual, a bias and an activation before it, another behind; what gradients want of it: all one launch.
TEST(GpuRows, TakeWhatStandsBeforeAndBehind) {
  Graph g(Gpus());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{4, 5, 48}),
               residual = g.Placeholder("residual", DType::kFloat, Shape{4, 5, 48});
  const Output bias = g.Placeholder("bias", DType::kFloat, Shape{48}),
               scale = g.Placeholder("scale", DType::kFloat, Shape{4, 1, 1});
  const Output in = g.Op("AddV2", {g.Op("Tanh", {g.Op("AddV2", {x, bias})}), g.Op("Mul", {residual, scale})});
  const LayerNorm norm(g, in, bias, g.Const(0.5f));
  const Output y = g.Op("Relu", {norm.y});
  const std::vector<Feed> feeds = {{x, Waves(Shape{4, 5, 48}, 0.37f)},
                                   {residual, Waves(Shape{4, 5, 48}, 0.11f, 2)},
                                   {bias, Waves(Shape{48}, 0.9f, 1, 2)},
                                   {scale, Waves(Shape{4, 1, 1}, 1)}};
  ExpectClose(g, feeds, y, 15, 2e-6);
  ExpectClose(g, feeds, norm.inverse, 9, 2e-6);
  SessionOptions options;
  options.device = device_test::kGpu;
  auto session = Session::Create(Gpus(), g, options);
  ASSERT_TRUE(session.ok());
  auto all = session->Run(feeds, {y, in, norm.mean, norm.inverse});
  ASSERT_TRUE(all.ok()) << all.status();
  options.compile = false;
  auto plain = Session::Create(Gpus(), g, options);
  auto expected = plain->Run(feeds, {y, in, norm.mean, norm.inverse});
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (size_t k = 0; k < 4; ++k) {
    const std::vector<float> a = Values<float>((*all)[k]), b = Values<float>((*expected)[k]);
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 2e-6 * std::max(1.0f, std::fabs(b[i]))) << k;
  }
}

TEST(GpuRows, OfRootMeanSquaresAndHalves) {
  for (const DType dtype : {DType::kHalf, DType::kBfloat16, DType::kDouble}) {
    Graph g(Gpus());
    const Output fed = g.Placeholder("x", DType::kFloat, Shape{6, 200});
    const Output x = g.Op("Identity", {g.Op("Cast", {fed}, {{"DstT", dtype}})}),
                 gamma = g.Op("Cast", {g.Const(std::vector<float>(200, 1.5f), Shape{200})}, {{"DstT", dtype}});
    const Output squares = MeanOf(g, g.Op("Mul", {x, x}), 1);
    const Output small = g.Op("Cast", {g.Const(1e-3f)}, {{"DstT", dtype}});
    const Output y = g.Op("Mul", {g.Op("Mul", {x, g.Op("Rsqrt", {g.Op("AddV2", {squares, small})})}), gamma});
    SCOPED_TRACE(DTypeName(dtype));
    ExpectClose(g, {{fed, Waves(Shape{6, 200}, 0.37f, 2)}}, y, 6,
                dtype == DType::kDouble ? 1e-14
                : dtype == DType::kHalf ? 2e-3
                                        : 1.6e-2,
                dtype);
  }
}

// Scores of attention: scaled, masked, and normalised; and what the gradient makes of them.
TEST(GpuRows, OfSoftmaxWithWhatStandsBeforeAndBehind) {
  for (const DType dtype : {DType::kFloat, DType::kHalf, DType::kBfloat16, DType::kDouble}) {
    for (const int64_t length : {200, 5, 64, 1500}) {
      if (length != 200 && dtype != DType::kFloat) continue;
      Graph g(Gpus());
      const Shape shape{2, 3, 4, length};
      const Output fed = g.Placeholder("x", DType::kFloat, shape),
                   mask = g.Placeholder("mask", DType::kFloat, Shape{2, 1, 1, length});
      const auto cast = [&](const Output& x) { return g.Op("Cast", {x}, {{"DstT", dtype}}); };
      const Output scores = g.Op("AddV2", {g.Op("Mul", {cast(fed), cast(g.Const(0.125f))}), cast(mask)});
      std::vector<float> hidden(static_cast<size_t>(2 * length), 0);
      for (size_t i = 0; i < hidden.size(); i += 3) hidden[i] = -10000;
      const std::vector<Feed> feeds = {{fed, Waves(shape, 0.37f, 20)},
                                       {mask, *Tensor::From(hidden, Shape{2, 1, 1, length})}};
      SCOPED_TRACE(DTypeName(dtype) + " " + std::to_string(length));
      const double close = dtype == DType::kDouble  ? 1e-14
                           : dtype == DType::kFloat ? 1e-6
                           : dtype == DType::kHalf  ? 1e-3
                                                    : 8e-3;
      const Output y = g.Op("Softmax", {scores});
      ExpectClose(g, feeds, y, 4, close, dtype);
      ExpectClose(g, feeds, g.Op("LogSoftmax", {scores}), 4, 4 * close, dtype);
      const Output dy = cast(fed), product = g.Op("Mul", {dy, y});
      const Output sum = g.Op("Sum", {product, g.Const(std::vector<int32_t>{-1}, Shape{1})}, {{"keep_dims", true}});
      ExpectClose(g, feeds, g.Op("Mul", {g.Op("Sub", {dy, sum}), y}), 8, 20 * close, dtype);
    }
  }
}
TEST(GpuRows, SoftmaxAloneIsItsOwnKernel) {
  Graph g(Gpus());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{4, 9});
  ExpectClose(g, {{x, Waves(Shape{4, 9}, 0.5f)}}, g.Op("Softmax", {x}), 0, 0);
}

TEST(GpuRows, GiveWhatIsNotANumberToItsRowAlone) {
  Graph g(Gpus());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{3, 9});
  const LayerNorm norm(g, x, g.Const(1.0f), g.Const(0.0f));
  std::vector<float> values(27, 1);
  values[4] = std::numeric_limits<float>::quiet_NaN();
  values[13] = std::numeric_limits<float>::infinity();
  values[20] = 4;
  ExpectClose(g, {{x, *Tensor::From(values, Shape{3, 9})}}, norm.y, 10, 2e-6);
  ExpectClose(g, {{x, *Tensor::From(values, Shape{3, 9})}}, g.Op("Softmax", {g.Op("Neg", {x})}), 2, 2e-6);
}

// Sums of anything but floats along the last dim, or without that dim, are their own kernels', as are those whose axes
// are fed.
TEST(GpuRows, LeaveOtherSumsAlone) {
  const auto compiled_of = [](const std::function<Output(Graph&, const Output&)>& make, DType dtype = DType::kFloat,
                              const Shape& shape = Shape{4, 8}) {
    Graph g(Gpus());
    const Output fed = g.Placeholder("x", DType::kFloat, shape),
                 x = g.Op("Cast", {g.Op("Neg", {fed})}, {{"DstT", dtype}});
    const Output y = g.Op("Sub", {x, make(g, x)});
    const Answer alone = AnswerOf(g, {{fed, Waves(shape, 0.3f, 9)}}, y, false),
                 together = AnswerOf(g, {{fed, Waves(shape, 0.3f, 9)}}, y, true);
    EXPECT_EQ(alone.error, "");
    EXPECT_EQ(together.error, "");
    EXPECT_EQ(together.bytes, alone.bytes);
    return together.compiled;
  };
  EXPECT_EQ(compiled_of([](Graph& g, const Output& x) { return MeanOf(g, x); }), 4);
  EXPECT_EQ(compiled_of([](Graph& g, const Output& x) { return MeanOf(g, x, 1); }), 4);
  EXPECT_EQ(compiled_of([](Graph& g, const Output& x) { return MeanOf(g, x, 0); }), 2);
  EXPECT_EQ(compiled_of([](Graph& g, const Output& x) {
              return g.Op("Sum", {x, g.Const(1)}, {{"keep_dims", true}});
            }),
            4);
  EXPECT_EQ(compiled_of([](Graph& g, const Output& x) {
              return g.Op("Sum", {x, g.Const(std::vector<int32_t>{0, 1}, Shape{2})}, {{"keep_dims", true}});
            }),
            2);
  EXPECT_EQ(compiled_of([](Graph& g, const Output& x) {
              return g.Op("ExpandDims", {g.Op("Sum", {x, g.Const(1)}), g.Const(1)});
            }),
            2);
  EXPECT_EQ(compiled_of(
                [](Graph& g, const Output& x) {
                  return g.Op("Sum", {x, g.Const(1)}, {{"keep_dims", true}});
                },
                DType::kInt32),
            2);
  EXPECT_EQ(compiled_of([](Graph& g, const Output& x) { return MeanOf(g, x); }, DType::kFloat, Shape{4, 1}), 2);
  EXPECT_EQ(compiled_of([](Graph& g, const Output& x) { return MeanOf(g, x); }, DType::kFloat, Shape{2, 16388}), 2);
}

// Where all dims are known the gradient's sums along rows are part of it too; those over rows are reductions.
TEST(GpuRows, TakeTheGradientOfANormalisationOfLayers) {
  Graph g(Gpus());
  const Shape shape{6, 5, 72};
  const Output x = g.Placeholder("x", DType::kFloat, shape), dy = g.Placeholder("dy", DType::kFloat, shape);
  const Output gamma = g.Placeholder("gamma", DType::kFloat, Shape{72}),
               beta = g.Placeholder("beta", DType::kFloat, Shape{72});
  const LayerNorm norm(g, x, gamma, beta);
  const auto gradients = g.Gradients({norm.y}, {x, gamma, beta}, {dy});
  ASSERT_EQ(gradients.size(), 3u);
  const std::vector<Feed> feeds = {{x, Waves(shape, 0.37f, 2, 1)},
                                   {dy, Waves(shape, 0.23f)},
                                   {gamma, Waves(Shape{72}, 0.3f, 1, 2)},
                                   {beta, Waves(Shape{72}, 0.6f)}};
  std::vector<std::vector<float>> of[2];
  std::string how;
  for (const bool compile : {false, true}) {
    SessionOptions options;
    options.device = device_test::kGpu;
    options.compile = compile;
    auto session = Session::Create(Gpus(), g, options);
    ASSERT_TRUE(session.ok());
    std::vector<Name> names;
    std::vector<View> views;
    for (const Feed& feed : feeds) {
      names.push_back(feed.name);
      views.push_back(feed.value);
    }
    auto callable = session->Prepare(names, {norm.y, gradients[0].dense, gradients[1].dense, gradients[2].dense});
    ASSERT_TRUE(callable.ok()) << callable.status();
    auto out = callable->Run(views);
    ASSERT_TRUE(out.ok()) << out.status();
    for (const Tensor& each : *out) of[compile ? 1 : 0].push_back(Values<float>(each));
    how = *callable->Explain();
  }
  for (size_t k = 0; k < 4; ++k) {
    ASSERT_EQ(of[0][k].size(), of[1][k].size());
    for (size_t i = 0; i < of[0][k].size(); ++i)
      ASSERT_NEAR(of[1][k][i], of[0][k][i], 4e-6 * std::max(1.0f, std::fabs(of[0][k][i]))) << k << " " << i;
  }
  size_t compiled = 0, kernels = 0;
  for (size_t at = 0; (at = how.find("\"runs\":\"compiled\"", at)) != std::string::npos; ++at) ++compiled;
  for (size_t at = 0; (at = how.find("\"runs\":\"kernel\"", at)) != std::string::npos; ++at) ++kernels;
  EXPECT_GE(compiled, 20u) << how;
  EXPECT_LE(kernels, 4u) << how;
}

// ---- Batch normalisation and what stands behind it ----

TEST(GpuBatchNorm, IsOneWithWhatIsAddedAndTheRectifier) {
  for (const bool training : {true, false}) {
    for (const DType dtype : {DType::kFloat, DType::kHalf, DType::kBfloat16}) {
      Graph g(Gpus());
      const Output fed = g.Placeholder("x", DType::kFloat, Shape{3, 4, 5, 8}),
                   more = g.Placeholder("more", DType::kFloat, Shape{3, 4, 5, 8});
      const auto vector = [&](float step) { return g.Const(Values<float>(Waves(Shape{8}, step, 0.4f, 1)), Shape{8}); };
      const Output x = g.Op("Cumsum", {g.Op("Cast", {fed}, {{"DstT", dtype}}), g.Const(3)}),
                   residual = g.Op("Cumsum", {g.Op("Cast", {more}, {{"DstT", dtype}}), g.Const(3)});
      const auto norm = [&](const Output& of) {
        return g.Op("FusedBatchNormV3", {of, vector(0.3f), vector(2), vector(3), vector(4)},
                    {{"is_training", training}, {"epsilon", 0.001f}});
      };
      const std::vector<Feed> feeds = {{fed, Waves(Shape{3, 4, 5, 8}, 0.37f, 3)},
                                       {more, Waves(Shape{3, 4, 5, 8}, 0.21f, 2)}};
      const auto expect = [&](const Output& fetch, int compiled) {
        const Answer alone = AnswerOf(g, feeds, fetch, false), together = AnswerOf(g, feeds, fetch, true);
        EXPECT_EQ(alone.error, "");
        EXPECT_EQ(together.error, "");
        EXPECT_EQ(together.compiled, compiled) << training << DTypeName(dtype);
        EXPECT_FALSE(alone.bytes.empty());
        EXPECT_EQ(together.bytes, alone.bytes) << training << DTypeName(dtype);
      };
      expect(g.Op("Relu", {norm(x)}), 2);
      expect(g.Op("Relu", {g.Op("AddV2", {norm(x), residual})}), 3);
      expect(g.Op("Relu", {g.Op("AddV2", {residual, norm(x)})}), 3);
      expect(g.Op("AddV2", {norm(x), residual}), 2);
      expect(g.Op("Relu", {g.Op("AddV2", {norm(x), norm(residual)})}), 3);
      const Output read = norm(x);
      expect(g.Op("Cumsum", {g.Op("AddV2", {g.Op("Relu", {read}), read}), g.Const(3)}), 2);  // a chain behind it
      expect(
          g.Op("AddV2", {norm(x), g.Op("Cast", {g.Const(std::vector<float>(8, 0.25f), Shape{8})}, {{"DstT", dtype}})}),
          0);
    }
  }
}

TEST(GpuBatchNorm, GivesItsStatisticsBesideItsEnd) {
  Graph g(Gpus());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{2, 3, 3, 4}),
               one = g.Const(std::vector<float>(4, 1), Shape{4}), none = g.Const(std::vector<float>(), Shape{0});
  const Operation norm = g.AddNode("FusedBatchNormV3", {x, one, one, none, none}, {{"epsilon", 0.001f}});
  const Output y = g.Op("Relu", {norm.output(0)});
  std::vector<std::vector<float>> of[2];
  for (const bool compile : {false, true}) {
    SessionOptions options;
    options.device = device_test::kGpu;
    options.compile = compile;
    auto session = Session::Create(Gpus(), g, options);
    ASSERT_TRUE(session.ok());
    auto out = session->Run({{x, Waves(Shape{2, 3, 3, 4}, 0.4f, 3)}}, {y, norm.output(1), norm.output(4)});
    ASSERT_TRUE(out.ok()) << out.status();
    for (const Tensor& each : *out) of[compile ? 1 : 0].push_back(Values<float>(each));
  }
  EXPECT_EQ(of[0], of[1]);
}

}  // namespace
}  // namespace tenon::engine::gpu_chain_test
