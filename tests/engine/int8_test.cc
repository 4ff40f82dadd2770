// SPDX-License-Identifier: Apache-2.0
// Sessions of precision int8 as a user of the C++ API has them: a calibration by looking on, how far the results are
// from floats, what stays in floats and why, and what is refused. Covers N6.
#include <cmath>
#include <random>

#include "tests/engine/engine.h"
#include "tenon/host/calibration.h"

namespace tenon::engine::int8_test {
namespace {

std::vector<float> RandomValues(size_t count, float low, float high, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> between(low, high);
  std::vector<float> values(count);
  for (float& value : values) value = between(random);
  return values;
}

Output Weights(Graph& g, const Shape& shape, uint32_t seed) {
  const auto count = static_cast<size_t>(shape.element_count());
  return g.Const(RandomValues(count, -0.3f, 0.3f, seed), shape);
}

// A small network with all that a pass may meet: biases, a normalisation, a sum of two branches, a pooling between
// layers, a depthwise convolution, and a classifier.
struct Network {
  explicit Network(Runtime& runtime) : g(runtime) {
    x = g.Placeholder("x", DType::kFloat, {2, 16, 16, 3});
    const Output stem =
        g.Op("Relu", {g.Op("BiasAdd", {Conv(x, 3, 3, 16, 1, "stem"), Weights(g, {16}, 2)}, {}, "stem_bias")}, {},
             "stem_relu");
    const Output pool = g.Op("MaxPool", {stem},
                             {{"ksize", std::vector<int64_t>{1, 2, 2, 1}},
                              {"strides", std::vector<int64_t>{1, 2, 2, 1}},
                              {"padding", "SAME"}},
                             "pool");
    const Output one = g.Op("Relu6", {Norm(Conv(pool, 3, 16, 16, 3, "one"), 16, 4)}, {}, "one_relu");
    const Output two = Norm(Conv(one, 1, 16, 16, 5, "two"), 16, 6);
    const Output shortcut = Norm(Conv(pool, 1, 16, 16, 20, "shortcut"), 16, 21);
    const Output sum = g.Op("Relu", {g.Op("AddV2", {two, shortcut}, {}, "sum")}, {}, "sum_relu");
    const Output deep = g.Op("DepthwiseConv2dNative",
                             {g.Op("Pad", {sum, g.Const(std::vector<int32_t>{0, 0, 1, 1, 1, 1, 0, 0}, {4, 2})}),
                              Weights(g, {3, 3, 16, 1}, 7)},
                             {{"strides", std::vector<int64_t>{1, 1, 1, 1}}, {"padding", "VALID"}}, "deep");
    const Output three = g.Op("Tanh", {Conv(deep, 1, 16, 8, 8, "three")}, {}, "tanh");
    const Output flat = g.Op("Reshape", {three, g.Const({2, 8 * 8 * 8})}, {}, "flat");
    logits = g.Op("Add", {g.Op("MatMul", {flat, Weights(g, {8 * 8 * 8, 10}, 9)}, {}, "dense"), Weights(g, {10}, 10)},
                  {}, "logits");
  }
  Output Conv(const Output& in, int64_t size, int64_t from, int64_t to, uint32_t seed, const char* name) {
    return g.Op("Conv2D", {in, Weights(g, {size, size, from, to}, seed)},
                {{"strides", std::vector<int64_t>{1, 1, 1, 1}}, {"padding", "SAME"}}, name);
  }
  Output Norm(const Output& in, int64_t channels, uint32_t seed) {
    const auto count = static_cast<size_t>(channels);
    return g.Op("FusedBatchNormV3",
                {in, g.Const(RandomValues(count, 0.5f, 1.5f, seed), {channels}), Weights(g, {channels}, seed + 50),
                 Weights(g, {channels}, seed + 60), g.Const(RandomValues(count, 0.5f, 2, seed + 70), {channels})},
                {{"is_training", false}, {"epsilon", 0.001f}});
  }
  std::vector<float> Batch(uint32_t seed) const { return RandomValues(2 * 16 * 16 * 3, -1, 1, seed); }

  Graph g;
  Output x, logits;
};

// The ranges of some batches.
host::Calibrator Calibrated(Runtime& runtime, const Network& network) {
  host::Calibrator calibrator;
  SessionOptions options;
  options.optimize = false;
  options.watch = true;
  const auto session = Session::Create(runtime, network.g, options);
  EXPECT_TRUE(session.ok()) << session.status();
  for (uint32_t seed = 100; session.ok() && seed < 104; ++seed) {
    const std::vector<float> batch = network.Batch(seed);
    calibrator.Feed("x", View(batch, {2, 16, 16, 3}));
    host::RunOptions run;
    run.watch = calibrator.Watch();
    const auto done = session->Run({{network.x, View(batch, {2, 16, 16, 3})}}, {network.logits}, {}, run);
    EXPECT_TRUE(done.ok()) << done.status();
  }
  return calibrator;
}

SessionOptions Int8(std::string calibration) {
  SessionOptions options;
  options.precision = host::Precision::kInt8;
  options.calibration = std::move(calibration);
  return options;
}

std::string TextOf(const Result<std::string>& text) {
  EXPECT_TRUE(text.ok()) << text.status();
  return text.ok() ? *text : "";
}

std::vector<float> Logits(Runtime& runtime, const Network& network, const SessionOptions& options,
                          std::string* explanation = nullptr) {
  const auto session = Session::Create(runtime, network.g, options);
  EXPECT_TRUE(session.ok()) << session.status();
  if (!session.ok()) return {};
  const std::vector<float> batch = network.Batch(101);
  const auto callable = session->Prepare({network.x}, {network.logits});
  EXPECT_TRUE(callable.ok()) << callable.status();
  if (!callable.ok()) return {};
  const auto values = callable->Run({View(batch, {2, 16, 16, 3})});
  EXPECT_TRUE(values.ok()) << values.status();
  if (explanation != nullptr) *explanation = TextOf(callable->Explain());
  if (!values.ok()) return {};
  const auto data = (*values)[0].data<float>();
  return {data.begin(), data.end()};
}

TEST(Int8, ANetworkIsCloseToItsFloats) {
  const Network network(TheRuntime());
  ASSERT_TRUE(network.g.status().ok()) << network.g.status();
  const std::string calibration = Calibrated(TheRuntime(), network).Text("a remark\nof two lines");
  ASSERT_TRUE(calibration.starts_with("tenon calibration 1\n# a remark\n# of two lines\n")) << calibration;
  const std::vector<float> exact = Logits(TheRuntime(), network, {});
  std::string explanation;
  const std::vector<float> reduced = Logits(TheRuntime(), network, Int8(calibration), &explanation);
  ASSERT_EQ(reduced.size(), exact.size());
  double difference = 0, size = 0;
  for (size_t i = 0; i < exact.size(); ++i)
    difference += std::pow(exact[i] - reduced[i], 2), size += std::pow(exact[i], 2);
  EXPECT_LT(std::sqrt(difference / size), 0.05) << "further than eight bits explain";
  EXPECT_GT(difference, 0) << "nothing ran in 8-bit integers";
  // All seven, and the images between the first six are bytes; nothing is quantized but what comes in, and what follows
  // a tanh.
  const auto count = [&](const std::string& part) {
    size_t found = 0;
    for (size_t at = explanation.find(part); at != std::string::npos; at = explanation.find(part, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("\"note\":\"in 8-bit integers: "), 7u) << explanation;
  EXPECT_EQ(count("which goes on as bytes"), 5u) << explanation;
  EXPECT_EQ(count("\"op\":\"Tenon>Int8Quantize\""), 2u) << explanation;
  EXPECT_EQ(count("\"op\":\"Tenon>Int8Dequantize\""), 0u) << explanation;
  EXPECT_EQ(count("\"op\":\"Conv2D\""), 0u) << explanation;
}

TEST(Int8, ExecutorsAndThePlainKernelsAgree) {
  const Network network(TheRuntime());
  const std::string calibration = Calibrated(TheRuntime(), network).Text();
  const std::vector<float> wanted = Logits(TheRuntime(), network, Int8(calibration));
  SessionOptions dynamic = Int8(calibration), unoptimized = Int8(calibration), parts = Int8(calibration);
  dynamic.executor = TENON_EXECUTOR_DYNAMIC;
  unoptimized.optimize = false;
  parts.debug.partition = true;
  for (const SessionOptions& options : {dynamic, unoptimized, parts}) {
    const std::vector<float> got = Logits(TheRuntime(), network, options);
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 0.02f) << i;
  }
}

TEST(Int8, WhatElseReadsABytesImageGetsWhatTheBytesStandFor) {
  Network network(TheRuntime());
  const std::string calibration = Calibrated(TheRuntime(), network).Text();
  const auto session = Session::Create(TheRuntime(), network.g, Int8(calibration));
  ASSERT_TRUE(session.ok()) << session.status();
  const std::vector<float> batch = network.Batch(102);
  const auto values =
      session->Run({{network.x, View(batch, {2, 16, 16, 3})}}, {network.logits, "sum_relu:0", "stem:0"});
  ASSERT_TRUE(values.ok()) << values.status();
  const auto exact = Session::Create(TheRuntime(), network.g);
  const auto wanted = exact->Run({{network.x, View(batch, {2, 16, 16, 3})}}, {network.logits, "sum_relu:0", "stem:0"});
  ASSERT_TRUE(wanted.ok()) << wanted.status();
  for (size_t k = 1; k < 3; ++k) {
    const auto a = (*values)[k].data<float>(), b = (*wanted)[k].data<float>();
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 0.1f) << k << " at " << i;
  }
}

// A line of the calibration in another's place.
std::string With(std::string text, const std::string& tensor, const std::string& line) {
  const size_t at = text.find("\n" + tensor + " ") + 1, end = text.find('\n', at);
  EXPECT_NE(at, 0u) << tensor;
  return text.replace(at, end - at + 1, line.empty() ? "" : line + "\n");
}

TEST(Int8, WithoutARangeItStaysInFloats) {
  const Network network(TheRuntime());
  const std::string calibration = Calibrated(TheRuntime(), network).Text();
  std::string explanation;
  (void)Logits(TheRuntime(), network, Int8(With(calibration, "tanh:0", "")), &explanation);
  EXPECT_NE(explanation.find("\"note\":\"stays in floats: the calibration has no range of 'flat:0', which it reads\""),
            std::string::npos)
      << explanation;
  (void)Logits(TheRuntime(), network, Int8(With(calibration, "tanh:0", "tanh:0 Tanh 0 0")), &explanation);
  EXPECT_NE(explanation.find("'flat:0' was 0 everywhere in the calibration"), std::string::npos) << explanation;
}

TEST(Int8, WrongCalibrationsAreNamed) {
  const Network network(TheRuntime());
  const std::string calibration = Calibrated(TheRuntime(), network).Text();
  const auto refused = [&](const std::string& text, Code code, const std::string& part) {
    const auto session = Session::Create(TheRuntime(), network.g, Int8(text));
    Status status = session.ok() ? session->Prepare({network.x}, {network.logits}).status() : session.status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_NE(status.message().find(part), std::string::npos) << status << "\nlacks: " << part;
  };
  SessionOptions strict;
  strict.calibration = calibration;
  EXPECT_NE(Session::Create(TheRuntime(), network.g, strict)
                .status()
                .message()
                .find("the session option 'calibration' is for precision int8"),
            std::string::npos);
  refused("", Code::kInvalidArgument, "the session option 'precision' is int8, and 'calibration' is empty");
  refused("what", Code::kInvalidArgument, "does not begin with 'tenon calibration 1'");
  refused("tenon calibration 1\nx:0 -\n", Code::kInvalidArgument, "line 2 of the calibration is 'x:0 -'");
  refused(calibration + "x:0 - 1 2\n", Code::kInvalidArgument, "has 'x:0' a second time");
  refused("tenon calibration 1\nother:0 Relu 0 1\n", Code::kInvalidArgument,
          "of another graph: of the 1 tensors that it names this one's step has none");
  refused(With(calibration, "sum_relu:0", "sum_relu:0 Elu 0 1"), Code::kInvalidArgument,
          "of another graph: its node 'sum_relu' is of op Elu, and the graph's of op Relu");
  refused(With(calibration, "x:0", "x:0 - -inf 1"), Code::kInvalidArgument,
          "the range of 'x:0' in the calibration is -inf to 1, and Conv2D 'stem' reads it");
  refused(With(calibration, "x:0", "x:0 - nan nan"), Code::kInvalidArgument,
          "the range of 'x:0' in the calibration is nan to nan");
  refused(With(calibration, "x:0", "x:0 - inf -inf"), Code::kInvalidArgument,
          "there were none; calibrate with batches that are not empty");
}

TEST(Int8, InputsThatAreNoNumbersAreNamed) {
  const Network network(TheRuntime());
  const auto session = Session::Create(TheRuntime(), network.g, Int8(Calibrated(TheRuntime(), network).Text()));
  ASSERT_TRUE(session.ok()) << session.status();
  std::vector<float> batch = network.Batch(1);
  batch[5] = std::nanf("");
  const Status status = session->Run({{network.x, View(batch, {2, 16, 16, 3})}}, {network.logits}).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("element 5 is nan, which 8-bit integers cannot hold"), std::string::npos) << status;
}

// Weights that are variables are read in every step.
TEST(Int8, VariablesMayChange) {
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, {4, 32});
  const Output handle = g.Op("VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", Shape{32, 16}}}, "weights");
  const Output value = g.Placeholder("value", DType::kFloat, {32, 16});
  g.Op("AssignVariableOp", {handle, value}, {}, "assign");
  const Output read = g.Op("ReadVariableOp", {handle}, {{"dtype", DType::kFloat}}, "read");
  const Output y = g.Op("MatMul", {x, read}, {}, "y");
  ASSERT_TRUE(g.status().ok()) << g.status();
  const auto session = Session::Create(TheRuntime(), g, Int8("tenon calibration 1\nx:0 - -1 1\n"));
  ASSERT_TRUE(session.ok()) << session.status();
  const std::vector<float> in = RandomValues(4 * 32, -1, 1, 3);
  for (uint32_t seed = 1; seed < 4; ++seed) {
    const std::vector<float> weights = RandomValues(32 * 16, -1, 1, seed);
    ASSERT_TRUE(session->Run({{value, View(weights, {32, 16})}}, {}, {"assign"}).ok());
    const auto values = session->Run({{x, View(in, {4, 32})}}, {y});
    ASSERT_TRUE(values.ok()) << values.status();
    for (size_t row = 0; row < 4; ++row)
      for (size_t column = 0; column < 16; ++column) {
        float wanted = 0;
        for (size_t k = 0; k < 32; ++k) wanted += in[row * 32 + k] * weights[k * 16 + column];
        EXPECT_NEAR((*values)[0].data<float>()[row * 16 + column], wanted, 0.15f);
      }
  }
}

// A graph may be as deep as it likes: twenty thousand layers, and weights that are reached in 2^60 ways.
TEST(Int8, DeepGraphsArePlanned) {
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, {1, 1});
  Output weight = g.Const(std::vector<float>{1}, {1, 1});
  for (int i = 0; i < 60; ++i) weight = g.Op("Mul", {weight, weight});
  std::string calibration = "tenon calibration 1\nx:0 - 0 1\n";
  Output y = x;
  for (int i = 0; i < 20000; ++i) {
    y = g.Op("MatMul", {y, weight});
    if (i % 4 == 0) y = g.Op("Reshape", {y, g.Const({1, 1})});
    calibration += y.name() + ":0 " + Operation(y).op() + " 0 1\n";
  }
  for (int i = 0; i < 20000; ++i) y = g.Op("Identity", {y});
  y = g.Op("MatMul", {y, weight});
  ASSERT_TRUE(g.status().ok()) << g.status();
  SessionOptions options = Int8(calibration);
  options.optimize = false;  // the weight stays what it is made of
  const auto session = Session::Create(TheRuntime(), g, options);
  ASSERT_TRUE(session.ok()) << session.status();
  const auto values = session->Run({{x, View(std::vector<float>{1}, {1, 1})}}, {y});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_NEAR((*values)[0].data<float>()[0], 1, 0.01f);
}

// Two images whose batches may differ are added as floats would be; those of one batch in the product.
TEST(Int8, ASumThatMayBroadcastIsLeftAlone) {
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, {-1, 8}), one = g.Placeholder("one", DType::kFloat, {-1, 8});
  uint32_t seed = 1;
  const auto layers = [&](const Output& other, const std::string& name) {
    const Output weights = g.Const(RandomValues(64, -1, 1, ++seed), {8, 8});
    const Output sum = g.Op("AddV2", {g.Op("MatMul", {x, weights}, {}, name + "_first"), other}, {}, name);
    return g.Op("MatMul", {sum, weights}, {}, name + "_second");
  };
  const Output apart = layers(one, "apart"), together = layers(g.Op("Relu", {x}), "together");
  ASSERT_TRUE(g.status().ok()) << g.status();
  const auto session = Session::Create(TheRuntime(), g,
                                       Int8("tenon calibration 1\nx:0 - -1 1\none:0 - -1 1\nRelu:0 Relu 0 1\napart:0 "
                                            "AddV2 -5 5\ntogether:0 AddV2 -5 5\n"));
  ASSERT_TRUE(session.ok()) << session.status();
  const auto callable = session->Prepare({x, one}, {apart, together});
  ASSERT_TRUE(callable.ok()) << callable.status();
  const std::string explanation = TextOf(callable->Explain());
  EXPECT_NE(explanation.find("'together_first' to 'together', which goes on as bytes"), std::string::npos)
      << explanation;
  EXPECT_EQ(explanation.find("'apart_first' to"), std::string::npos) << explanation;
  const std::vector<float> in = RandomValues(24, -1, 1, 3), row = RandomValues(8, -1, 1, 4);
  const auto values = callable->Run({View(in, {3, 8}), View(row, {1, 8})});
  ASSERT_TRUE(values.ok()) << values.status();
  const auto exact = Session::Create(TheRuntime(), g);
  const auto wanted = exact->Run({{x, View(in, {3, 8})}, {one, View(row, {1, 8})}}, {apart, together});
  ASSERT_TRUE(wanted.ok()) << wanted.status();
  for (size_t k = 0; k < 2; ++k)
    for (size_t i = 0; i < 24; ++i)
      EXPECT_NEAR((*values)[k].data<float>()[i], (*wanted)[k].data<float>()[i], 0.25f) << k << " at " << i;
}

// Products of two values of the step, doubles, and first matrices that are transposed.
TEST(Int8, WhatIsNoProductWithWeightsStaysAsItWas) {
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, {8, 8});
  const Output both = g.Op("MatMul", {x, g.Op("Relu", {x})}, {}, "both");
  const Output turned =
      g.Op("MatMul", {x, g.Const(std::vector<float>(64, 1), {8, 8})}, {{"transpose_a", true}}, "turned");
  const Output wide =
      g.Op("MatMul", {g.Op("Cast", {x}, {{"DstT", DType::kDouble}}), g.Const(std::vector<double>(64, 1), {8, 8})}, {},
           "wide");
  ASSERT_TRUE(g.status().ok()) << g.status();
  const auto session = Session::Create(TheRuntime(), g, Int8("tenon calibration 1\nx:0 - -1 1\n"));
  ASSERT_TRUE(session.ok()) << session.status();
  const auto callable = session->Prepare({x}, {both, turned, wide});
  ASSERT_TRUE(callable.ok()) << callable.status();
  const std::string explanation = TextOf(callable->Explain());
  for (const char* part :
       {"is no weight, but computed in the step", "its first matrix is transposed", "its numbers are no float32"})
    EXPECT_NE(explanation.find(part), std::string::npos) << part << " is not in " << explanation;
  const std::vector<float> in = RandomValues(64, -1, 1, 3);
  const auto values = callable->Run({View(in, {8, 8})});
  const auto exact = Session::Create(TheRuntime(), g);
  const auto wanted = exact->Run({{x, View(in, {8, 8})}}, {both, turned, wide});
  ASSERT_TRUE(values.ok() && wanted.ok());
  for (size_t k = 0; k < 2; ++k)
    for (size_t i = 0; i < 64; ++i) EXPECT_FLOAT_EQ((*values)[k].data<float>()[i], (*wanted)[k].data<float>()[i]);
}

}  // namespace
}  // namespace tenon::engine::int8_test
