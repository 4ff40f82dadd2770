// SPDX-License-Identifier: Apache-2.0
// The kernels through their registrations: numbers as the CPU's kernels give them, products as the array sums them,
// cycles, and that run() only gives work to the queue.
#include <limits>

#include "model/cycle_model.h"
#include "tests/device/tested.h"

namespace tenon::device_test {
const Settings kBenchSettings = {{"precision", "exact"}};
}  // namespace tenon::device_test

namespace tenon::device_test::kernels_test {

using namespace tpu_sim;  // NOLINT(google-build-using-namespace)

namespace {

constexpr double kClose = 1e-6;
constexpr double kExact = 0;

std::vector<float> Random(size_t count, uint32_t seed = 5, float low = -1, float high = 1) {
  return Values<float>(RandomFloatsOf({static_cast<int64_t>(count)}, seed, low, high));
}
// The same numbers as another type.
template <class T>
Tensor Scaled(const Tensor& floats, double scale) {
  std::vector<T> values;
  for (double x : Numbers(floats)) values.push_back(static_cast<T>(static_cast<float>(x * scale)));
  return Make<T>(floats.dims, values);
}
Tensor As(uint32_t dtype, const Tensor& floats) {
  switch (dtype) {
    case TENON_DT_DOUBLE: return Scaled<double>(floats, 1);
    case TENON_DT_INT32: return Scaled<int32_t>(floats, 100);
    case TENON_DT_INT64: return Scaled<int64_t>(floats, 100);
    case TENON_DT_BFLOAT16: return Scaled<sdk::Bfloat16>(floats, 1);
    default: return floats;
  }
}
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr uint32_t kNumberTypes[] = {TENON_DT_FLOAT, TENON_DT_DOUBLE, TENON_DT_INT32, TENON_DT_INT64,
                                     TENON_DT_BFLOAT16};

// ---- Element-wise ----

TEST(Elementwise, FunctionsOfOneTensorAreTheCpus) {
  Bench bench;
  for (const char* op :
       {"Neg", "Abs",  "Sign", "Square",  "Reciprocal", "Floor", "Ceil", "Round",    "Exp",      "Expm1", "Sin",
        "Cos", "Tanh", "Erf",  "Sigmoid", "Relu",       "Relu6", "Elu",  "Softplus", "IsFinite", "IsNan"}) {
    Tensor x = RandomFloatsOf({7, 13}, 3, -4, 8);
    const float special[] = {0, -0.0f, kNan, kInfinity, -kInfinity, 40, -40};
    std::memcpy(x.bytes.data(), special, sizeof special);
    const uint32_t result = op[0] == 'I' ? TENON_DT_BOOL : TENON_DT_FLOAT;
    EXPECT_EQ(Compare(bench, {op, {}, {x}, {{result, {7, 13}}}}, kClose), "");
    EXPECT_EQ(Compare(bench, {op, {}, {Floats({0, 3}, {})}, {{result, {0, 3}}}}, kExact), "");
  }
  for (const char* op : {"Sqrt", "Rsqrt", "Log", "Log1p"}) {
    EXPECT_EQ(Compare(bench, {op, {}, {RandomFloatsOf({101}, 4, 0.01f, 9)}, {{TENON_DT_FLOAT, {101}}}}, kClose), "");
  }
  EXPECT_EQ(Compare(bench, {"LeakyRelu", {{"alpha", 0.25f}}, {RandomFloatsOf({9})}, {{TENON_DT_FLOAT, {9}}}}, kExact),
            "");
  for (uint32_t dtype : kNumberTypes) {
    for (const char* op : {"Neg", "Abs", "Square", "Relu"}) {
      EXPECT_EQ(Compare(bench, {op, {}, {As(dtype, RandomFloatsOf({33}))}, {{dtype, {33}}}}, kExact), "") << dtype;
    }
  }
  EXPECT_EQ(Compare(bench, {"LogicalNot", {}, {Bools({3}, {0, 1, 0})}, {{TENON_DT_BOOL, {3}}}}, kExact), "");
}

TEST(Elementwise, FunctionsOfTwoTensorsAreTheCpusWithBroadcasting) {
  Bench bench;
  const Dimensions shapes[][3] = {{{5, 7}, {5, 7}, {5, 7}},
                                  {{}, {3, 2}, {3, 2}},
                                  {{4, 1, 3}, {2, 1}, {4, 2, 3}},
                                  {{3}, {2, 3}, {2, 3}},
                                  {{2, 3}, {}, {2, 3}},
                                  {{1}, {1}, {1}},
                                  {{}, {}, {}},
                                  {{0, 3}, {3}, {0, 3}},
                                  {{2, 3, 1, 5}, {4, 1}, {2, 3, 4, 5}}};
  for (const char* op : {"Add", "AddV2", "Sub", "Mul", "Maximum", "Minimum", "SquaredDifference", "RealDiv", "Div",
                         "FloorDiv", "FloorMod"}) {
    for (uint32_t dtype : kNumberTypes) {
      for (const auto& [a, b, out] : shapes) {
        const Tensor x = As(dtype, RandomFloatsOf(a, 1, -2, 2)), y = As(dtype, RandomFloatsOf(b, 2, 0.5f, 2));
        EXPECT_EQ(Compare(bench, {op, {}, {x, y}, {{dtype, out}}}, kClose), "") << dtype;
        EXPECT_EQ(Compare(bench, {op, {}, {y, x}, {{dtype, out}}}, kClose), "") << dtype;
        if (op[0] != 'R' && op[0] != 'D') continue;
        break;  // quotients of whole numbers: any divisor may be 0 but y's
      }
      if (std::string_view(op).starts_with("Floor")) break;
    }
  }
  for (const char* op : {"Less", "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual"}) {
    const Tensor x = Floats({2, 3}, {1, 2, 3, kNan, 5, 6}), y = Floats({3}, {1, 5, kNan});
    EXPECT_EQ(Compare(bench, {op, {}, {x, y}, {{TENON_DT_BOOL, {2, 3}}}}, kExact), "");
    EXPECT_EQ(Compare(bench, {op, {}, {Ints({1, 2, 3}), Ints({1, 3, 2})}, {{TENON_DT_BOOL, {3}}}}, kExact), "");
  }
  for (const char* op : {"LogicalAnd", "LogicalOr"}) {
    EXPECT_EQ(Compare(bench, {op, {}, {Bools({2, 2}, {0, 1, 0, 1}), Bools({2, 1}, {0, 1})}, {{TENON_DT_BOOL, {2, 2}}}},
                      kExact),
              "");
  }
  const Tensor x = RandomFloatsOf({17}, 1, 0.1f, 3), y = RandomFloatsOf({17}, 2, -2, 2);
  for (const char* op : {"Pow", "DivNoNan", "TanhGrad", "SigmoidGrad", "SqrtGrad", "RsqrtGrad", "ReciprocalGrad",
                         "ReluGrad", "Relu6Grad", "EluGrad", "SoftplusGrad"}) {
    EXPECT_EQ(Compare(bench, {op, {}, {x, y}, {{TENON_DT_FLOAT, {17}}}}, kClose), "");
  }
  EXPECT_EQ(Compare(bench, {"LeakyReluGrad", {{"alpha", 0.5f}}, {x, y}, {{TENON_DT_FLOAT, {17}}}}, kExact), "");
}

TEST(Elementwise, QuestionsOfOperandsWithoutAnAnswerFailLateAndSayWhere) {
  Bench bench;
  std::vector<Tensor> out;
  EXPECT_EQ(bench.OnDevice({"FloorMod", {}, {Ints({1, 2}), Ints({3, 0})}, {{TENON_DT_INT32, {2}}}}, &out),
            "INVALID_ARGUMENT: FloorMod 'node' on TPU:0: Integer division by zero");
  EXPECT_EQ(bench.OnDevice(
                {"AddV2", {}, {Floats({2, 3}, Random(6)), Floats({2}, Random(2))}, {{TENON_DT_FLOAT, {2, 3}}}}, &out),
            "INVALID_ARGUMENT: shape [2] does not broadcast to [2,3]");
}

TEST(Elementwise, CastsChoicesAndSumsOfManyAreTheCpus) {
  Bench bench;
  const Tensor x = Floats({6}, {-1.5f, 0, 2.7f, 300, -7.9f, kNan});
  for (uint32_t to : {TENON_DT_FLOAT, TENON_DT_DOUBLE, TENON_DT_INT32, TENON_DT_INT64, TENON_DT_BFLOAT16, TENON_DT_BOOL,
                      TENON_DT_UINT8}) {
    const Attributes types = {{"SrcT", Type{TENON_DT_FLOAT}}, {"DstT", Type{to}}};
    EXPECT_EQ(Compare(bench, {"Cast", types, {x}, {{to, {6}}}}, kExact), "") << to;
  }
  EXPECT_EQ(Compare(bench, {"Cast", {}, {Bools({2}, {1, 0})}, {{TENON_DT_FLOAT, {2}}}}, kExact), "");
  const Tensor yes = RandomFloatsOf({2, 3}, 1), no = RandomFloatsOf({2, 3}, 2);
  for (const Tensor& condition : {Bools({2, 3}, {1, 0, 0, 1, 1, 0}), Bools({2}, {0, 1}), Bools({}, {1})}) {
    EXPECT_EQ(
        Compare(bench, {"Select", {{"T", Type{TENON_DT_FLOAT}}}, {condition, yes, no}, {{TENON_DT_FLOAT, {2, 3}}}},
                kExact),
        "");
  }
  EXPECT_EQ(Compare(bench,
                    {"SelectV2",
                     {{"T", Type{TENON_DT_FLOAT}}},
                     {Bools({2, 1}, {1, 0}), yes, Floats({3}, {7, 8, 9})},
                     {{TENON_DT_FLOAT, {2, 3}}}},
                    kExact),
            "");
  std::vector<Tensor> many;
  for (uint32_t i = 0; i < 20; ++i) many.push_back(RandomFloatsOf({5}, i));
  for (size_t n : {1u, 2u, 3u, 20u}) {
    EXPECT_EQ(
        Compare(bench, {"AddN", {}, {many.begin(), many.begin() + static_cast<int64_t>(n)}, {{TENON_DT_FLOAT, {5}}}},
                kExact),
        "");
  }
  for (const char* format : {"NHWC", "NCHW"}) {
    const Attributes attributes = {{"data_format", std::string(format)}};
    EXPECT_EQ(Compare(bench,
                      {"BiasAdd",
                       attributes,
                       {RandomFloatsOf({2, 3, 4, 3}), RandomFloatsOf({3})},
                       {{TENON_DT_FLOAT, {2, 3, 4, 3}}}},
                      kExact),
              "");
    EXPECT_EQ(
        Compare(bench, {"BiasAddGrad", attributes, {RandomFloatsOf({2, 3, 4, 3})}, {{TENON_DT_FLOAT, {3}}}}, kClose),
        "");
  }
}

// ---- Reductions ----

TEST(Reductions, AreTheCpusOverAnyAxes) {
  Bench bench;
  const struct {
    Dimensions in;
    std::vector<int32_t> axes;
    Dimensions out;
  } shapes[] = {{{4, 5, 6}, {1}, {4, 6}},   {{4, 5, 6}, {0, 2}, {5}}, {{4, 5, 6}, {-1}, {4, 5}},
                {{4, 5, 6}, {}, {4, 5, 6}}, {{4, 5}, {0, 1}, {}},     {{3, 1, 2}, {1}, {3, 1, 2}},
                {{0, 3}, {0}, {3}},         {{1000}, {0}, {}}};
  for (const char* op : {"Sum", "Mean", "Prod", "Max", "Min"}) {
    for (const auto& [in, axes, out] : shapes) {
      for (const bool constant : {true, false}) {
        DeviceCase c = {op, {}, {RandomFloatsOf(in, 7, 0.5f, 1.4f), Ints(axes)}, {{TENON_DT_FLOAT, out}}, {1}};
        c.constant = constant;
        EXPECT_EQ(Compare(bench, c, kClose), "") << in.size() << axes.size();
      }
    }
    EXPECT_EQ(
        Compare(bench, {op, {}, {As(TENON_DT_INT32, RandomFloatsOf({3, 4})), Ints({0})}, {{TENON_DT_INT32, {4}}}, {1}},
                kExact),
        "");
  }
  EXPECT_EQ(Compare(bench, {"Max", {}, {Floats({4}, {1, kNan, 3, -kInfinity}), Ints({0})}, {{TENON_DT_FLOAT, {}}}, {1}},
                    kExact),
            "");
  for (const char* op : {"All", "Any"}) {
    EXPECT_EQ(Compare(bench, {op, {}, {Bools({2, 2}, {0, 1, 1, 1}), Ints({1})}, {{TENON_DT_BOOL, {2}}}, {1}}, kExact),
              "");
  }
  for (const char* op : {"ArgMax", "ArgMin"}) {
    for (int32_t axis : {0, 1, -1}) {
      const Dimensions out = axis == 0 ? Dimensions{5} : Dimensions{3};
      EXPECT_EQ(Compare(bench, {op, {}, {RandomFloatsOf({3, 5}), Int(axis)}, {{TENON_DT_INT64, out}}, {1}}, kExact),
                "");
    }
    for (const std::vector<float>& row : {std::vector<float>{kNan, 2, 1},
                                          {1, kNan, 3},
                                          {3, 2, kNan},
                                          {kNan, -kInfinity, kNan},
                                          {kNan, kNan, kInfinity}})
      EXPECT_EQ(Compare(bench, {op, {}, {Floats({3}, row), Int(0)}, {{TENON_DT_INT64, {}}}, {1}}, kExact), "");
  }
  EXPECT_EQ(Compare(bench, {"L2Loss", {}, {RandomFloatsOf({31, 3})}, {{TENON_DT_FLOAT, {}}}}, kClose), "");
  std::vector<Tensor> out;
  EXPECT_EQ(bench.OnDevice({"Sum", {}, {RandomFloatsOf({2}), Ints({3})}, {{TENON_DT_FLOAT, {}}}, {1}}, &out),
            "INVALID_ARGUMENT: axis 3 of a reduction of shape [2] is outside [-1, 1)");
}

// ---- Softmax and losses ----

TEST(Softmax, AndTheLossesAreTheCpus) {
  Bench bench;
  for (const Dimensions& dims :
       {Dimensions{5, 10}, Dimensions{3, 1}, Dimensions{2, 2, 70}, Dimensions{7}, Dimensions{0, 4}}) {
    for (const char* op : {"Softmax", "LogSoftmax"}) {
      EXPECT_EQ(Compare(bench, {op, {}, {RandomFloatsOf(dims, 8, -9, 9)}, {{TENON_DT_FLOAT, dims}}}, kClose), "");
    }
  }
  const std::vector<Tensor> outputs = {{TENON_DT_FLOAT, {5}}, {TENON_DT_FLOAT, {5, 10}}};
  const Tensor logits = RandomFloatsOf({5, 10}, 8, -9, 9);
  const char* dense = "SoftmaxCrossEntropyWithLogits";
  EXPECT_EQ(Compare(bench, {dense, {}, {logits, RandomFloatsOf({5, 10}, 9, 0, 1)}, outputs}, kClose), "");
  EXPECT_EQ(Compare(bench, {dense, {}, {logits, RandomFloatsOf({1, 10}, 9, 0, 1)}, outputs}, kClose), "");
  EXPECT_EQ(Compare(bench, {dense, {}, {RandomFloatsOf({5, 1}), RandomFloatsOf({5, 10}, 9, 0, 1)}, outputs}, kClose),
            "");
  const char* sparse = "SparseSoftmaxCrossEntropyWithLogits";
  EXPECT_EQ(Compare(bench, {sparse, {}, {logits, Ints({0, 9, 3, 3, 1})}, outputs}, kClose), "");
  EXPECT_EQ(Compare(bench, {sparse, {}, {logits, Make<int64_t>({5}, {0, 9, 3, 3, 1})}, outputs}, kClose), "");
  std::vector<Tensor> out;
  EXPECT_EQ(
      bench.OnDevice({sparse, {}, {logits, Ints({0, 9, 3, 10, 1})}, outputs}, &out),
      "INVALID_ARGUMENT: SparseSoftmaxCrossEntropyWithLogits 'node' on TPU:0: Received a label value of 10 which is "
      "outside the valid range of [0, 10); it is label 3");
}

// ---- Products ----

// Rounded to 8 bits of mantissa in decimal arithmetic, not by its bits.
float Rounded(float value) {
  if (value == 0) return value;
  int exponent = 0;
  const double mantissa = std::frexp(static_cast<double>(value), &exponent);
  return static_cast<float>(std::ldexp(std::nearbyint(std::ldexp(mantissa, 8)), exponent - 8));
}

struct Sizes {
  int64_t m, n, k;
  bool transpose_a, transpose_b;
};

// The product as the array of `rows` rows sums it: each fold from its first row on, the folds in order.
std::vector<float> ByFolds(const Sizes& s, int64_t rows, std::vector<float> a, std::vector<float> b, bool round) {
  if (round) {
    for (float& x : a) x = Rounded(x);
    for (float& x : b) x = Rounded(x);
  }
  std::vector<float> out;
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < s.n; ++j) {
      float total = 0;
      for (int64_t fold = 0; fold < s.k; fold += rows) {
        float sum = 0;
        for (int64_t k = fold; k < std::min(fold + rows, s.k); ++k) {
          const float left = a[static_cast<size_t>(s.transpose_a ? k * s.m + i : i * s.k + k)];
          const float right = b[static_cast<size_t>(s.transpose_b ? j * s.k + k : k * s.n + j)];
          volatile float product = left * right;  // rounded by itself
          sum += product;
        }
        total += sum;
      }
      out.push_back(total);
    }
  }
  return out;
}

class MatMul : public ::testing::TestWithParam<Sizes> {};

DeviceCase ProductCase(const Sizes& s, const std::vector<float>& a, const std::vector<float>& b) {
  const Dimensions left = s.transpose_a ? Dimensions{s.k, s.m} : Dimensions{s.m, s.k};
  const Dimensions right = s.transpose_b ? Dimensions{s.n, s.k} : Dimensions{s.k, s.n};
  return {"MatMul",
          {{"transpose_a", s.transpose_a}, {"transpose_b", s.transpose_b}},
          {Floats(left, a), Floats(right, b)},
          {{TENON_DT_FLOAT, {s.m, s.n}}}};
}
// The profile's span of the latest kernel.
tenon_profile_span LatestKernel(const Bench& bench) {
  tenon_profile_span latest = {};
  for (const tenon_profile_span& span : bench.device.Profile()) {
    if (std::string_view(span.kind) == "kernel") latest = span;
  }
  return latest;
}

TEST_P(MatMul, GivesTheSumsOfTheArrayBitForBit) {
  const Sizes s = GetParam();
  const auto a = Random(static_cast<size_t>(s.m * s.k), 5), b = Random(static_cast<size_t>(s.k * s.n), 6);
  for (const bool round : {false, true}) {
    Bench bench({{"rows", "8"}, {"columns", "8"}, {"precision", round ? "bfloat16" : "exact"}});
    std::vector<Tensor> got;
    EXPECT_EQ(bench.OnDevice(ProductCase(s, a, b), &got), "");
    EXPECT_EQ(Values<float>(got[0]), ByFolds(s, 8, a, b, round));
    // And what it took is what the model says.
    Machine machine;
    machine.rows = machine.columns = 8;
    Product product;
    product.m = s.m;
    product.n = s.n;
    product.k = s.k;
    product.input_bytes = 4;
    product.passes = round ? 1 : kFloatPasses;
    const Cycles cycles = MatrixCycles(machine, product);
    const tenon_profile_span span = LatestKernel(bench);
    EXPECT_STREQ(span.name, "node");
    EXPECT_EQ(span.end_tick - span.begin_tick, static_cast<uint64_t>(cycles.total() + 700));  // and the launch
    const std::string matrix = cycles.matrix == 0 ? "" : "matrix " + std::to_string(cycles.matrix) + ",";
    EXPECT_TRUE(std::string_view(span.detail).starts_with(matrix)) << span.detail;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, MatMul,
                         ::testing::Values(Sizes{5, 7, 3, false, false}, Sizes{9, 20, 33, true, false},
                                           Sizes{16, 8, 40, false, true}, Sizes{1, 1, 100, true, true},
                                           Sizes{7, 37, 21, true, true}, Sizes{4, 3, 0, false, false},
                                           Sizes{0, 2, 3, false, false}));

TEST(Products, AreTheCpusInExactMode) {
  Bench bench;
  const Sizes s = {37, 65, 300, false, true};
  EXPECT_EQ(Compare(bench, ProductCase(s, Random(37 * 300, 1), Random(300 * 65, 2)), kClose), "");
  const Attributes plain = {{"adj_x", false}, {"adj_y", false}}, adjoint = {{"adj_x", true}, {"adj_y", true}};
  EXPECT_EQ(Compare(bench,
                    {"BatchMatMulV2",
                     plain,
                     {RandomFloatsOf({2, 3, 4, 5}), RandomFloatsOf({3, 5, 6})},
                     {{TENON_DT_FLOAT, {2, 3, 4, 6}}}},
                    kClose),
            "");
  EXPECT_EQ(Compare(bench,
                    {"BatchMatMulV2",
                     adjoint,
                     {RandomFloatsOf({2, 5, 4}), RandomFloatsOf({1, 6, 5})},
                     {{TENON_DT_FLOAT, {2, 4, 6}}}},
                    kClose),
            "");
  EXPECT_EQ(
      Compare(bench,
              {"BatchMatMulV2", plain, {Floats({0, 4, 5}, {}), RandomFloatsOf({5, 6})}, {{TENON_DT_FLOAT, {0, 4, 6}}}},
              kClose),
      "");
}

TEST(Products, RoundWhenTheStepAllowsIt) {
  Bench bench({{"precision", "policy"}});
  const Sizes s = {2, 2, 2, false, false};
  DeviceCase c = ProductCase(s, {1.001f, 0, 0, 1}, {1, 0, 0, 1});
  std::vector<Tensor> strict, allowed;
  EXPECT_EQ(bench.OnDevice(c, &strict), "");
  c.precision = TENON_PRECISION_ALLOW_BFLOAT16;
  EXPECT_EQ(bench.OnDevice(c, &allowed), "");
  EXPECT_EQ(Values<float>(strict[0])[0], 1.001f);
  EXPECT_EQ(Values<float>(allowed[0])[0], 1.0f);
}

TEST(Products, OfBfloat16RoundTheirOutputOnce) {
  Bench bench;
  const auto half = [](const std::vector<float>& values) {
    std::vector<sdk::Bfloat16> out;
    for (float v : values) out.push_back(sdk::Bfloat16(v));
    return out;
  };
  std::vector<Tensor> got;
  // 256 + 1 + 1 is 258; had every sum been rounded to 8 bits it would be 256.
  EXPECT_EQ(bench.OnDevice({"MatMul", {{"transpose_a", false}, {"transpose_b", false}},
                         {Make<sdk::Bfloat16>({1, 3}, half({256, 1, 1})), Make<sdk::Bfloat16>({3, 1}, half({1, 1, 1}))},
                         {{TENON_DT_BFLOAT16, {1, 1}}}},
                        &got),
            "");
  EXPECT_EQ(Numbers(got[0])[0], 258);
}

TEST(Products, RefuseShapesThatDoNotFit) {
  Bench bench;
  std::vector<Tensor> out;
  const Attributes plain = {{"transpose_a", false}, {"transpose_b", false}};
  EXPECT_EQ(bench.OnDevice(
                {"MatMul", plain, {RandomFloatsOf({2, 3}), RandomFloatsOf({4, 2})}, {{TENON_DT_FLOAT, {2, 2}}}}, &out),
            "INVALID_ARGUMENT: the inner dims of [2,3] and [4,2] differ");
  EXPECT_EQ(bench.OnDevice({"MatMul", plain, {RandomFloatsOf({2, 3}), RandomFloatsOf({3})}, {{TENON_DT_FLOAT, {2, 2}}}},
                           &out),
            "INVALID_ARGUMENT: matrices have 2 dims; the shapes are [2,3] and [3]");
}

// ---- Convolution and pooling ----

struct Window {
  Dimensions image, filter, result;
  int64_t stride, dilation;
  const char* padding;
  const char* format = "NHWC";
};

Attributes WindowAttributes(const Window& w, bool pool) {
  const bool first = std::string_view(w.format) == "NCHW";
  const auto spatial = [&](int64_t a, int64_t b) {
    return first ? std::vector<int64_t>{1, 1, a, b} : std::vector<int64_t>{1, a, b, 1};
  };
  Attributes out = {
      {"data_format", std::string(w.format)}, {"padding", std::string(w.padding)}, {"T", Type{TENON_DT_FLOAT}}};
  out["strides"] = spatial(w.stride, w.stride);
  if (pool) out["ksize"] = spatial(w.filter[0], w.filter[1]);
  if (!pool) out["dilations"] = spatial(w.dilation, w.dilation);
  return out;
}

TEST(Convolution, AndItsGradientsAreTheCpus) {
  Bench bench;
  const Window windows[] = {{{2, 8, 8, 3}, {3, 3, 3, 5}, {2, 8, 8, 5}, 1, 1, "SAME"},
                            {{1, 9, 7, 2}, {3, 2, 2, 4}, {1, 4, 3, 4}, 2, 1, "VALID"},
                            {{3, 5, 5, 1}, {1, 1, 1, 2}, {3, 5, 5, 2}, 1, 1, "VALID"},
                            {{2, 9, 9, 4}, {3, 3, 2, 6}, {2, 5, 5, 6}, 2, 1, "SAME"},     // two groups
                            {{1, 9, 9, 2}, {3, 3, 2, 3}, {1, 5, 5, 3}, 1, 2, "VALID"},    // dilated
                            {{2, 3, 6, 7}, {3, 3, 3, 2}, {2, 2, 6, 7}, 1, 1, "SAME", "NCHW"},
                            {{40, 8, 8, 2}, {3, 3, 2, 3}, {40, 8, 8, 3}, 1, 1, "SAME"},   // several blocks
                            {{0, 8, 8, 2}, {3, 3, 2, 3}, {0, 8, 8, 3}, 1, 1, "SAME"}};
  for (const Window& w : windows) {
    const Attributes attributes = WindowAttributes(w, false);
    const Tensor image = RandomFloatsOf(w.image, 1), filter = RandomFloatsOf(w.filter, 2),
                 result = RandomFloatsOf(w.result, 3);
    const auto sizes = [](const Dimensions& dims) { return Ints({dims.begin(), dims.end()}); };
    EXPECT_EQ(Compare(bench, {"Conv2D", attributes, {image, filter}, {{TENON_DT_FLOAT, w.result}}}, kClose), "");
    EXPECT_EQ(
        Compare(bench,
                {"Conv2DBackpropInput", attributes, {sizes(w.image), filter, result}, {{TENON_DT_FLOAT, w.image}}, {0}},
                kClose),
        "");
    EXPECT_EQ(
        Compare(
            bench,
            {"Conv2DBackpropFilter", attributes, {image, sizes(w.filter), result}, {{TENON_DT_FLOAT, w.filter}}, {1}},
            kClose),
        "");
  }
}

TEST(Convolution, InBfloat16RoundsWhatGoesIn) {
  Bench bench({{"precision", "bfloat16"}});
  const Window w = {{2, 8, 8, 3}, {3, 3, 3, 5}, {2, 8, 8, 5}, 1, 1, "SAME"};
  Tensor image = RandomFloatsOf(w.image, 1), filter = RandomFloatsOf(w.filter, 2);
  const auto rounded = [](const Tensor& value) {
    std::vector<float> out;
    for (float x : Values<float>(value)) out.push_back(Rounded(x));
    return Floats(value.dims, out);
  };
  std::vector<Tensor> got, want;
  EXPECT_EQ(bench.OnDevice({"Conv2D", WindowAttributes(w, false), {image, filter}, {{TENON_DT_FLOAT, w.result}}}, &got),
            "");
  EXPECT_EQ(bench.OnCpu(
                {"Conv2D", WindowAttributes(w, false), {rounded(image), rounded(filter)}, {{TENON_DT_FLOAT, w.result}}},
                &want),
            "");
  EXPECT_EQ(Difference(got, want, kClose), "");
}

TEST(Pooling, AndItsGradientsAreTheCpus) {
  Bench bench;
  const Window windows[] = {{{2, 8, 8, 3}, {2, 2}, {2, 4, 4, 3}, 2, 1, "VALID"},
                            {{1, 7, 5, 2}, {3, 3}, {1, 4, 3, 2}, 2, 1, "SAME"},
                            {{2, 3, 6, 6}, {2, 2}, {2, 3, 5, 5}, 1, 1, "VALID", "NCHW"}};
  for (const Window& w : windows) {
    const Attributes attributes = WindowAttributes(w, true);
    const Tensor image = RandomFloatsOf(w.image, 1), gradient = RandomFloatsOf(w.result, 3);
    std::vector<Tensor> result;
    EXPECT_EQ(Compare(bench, {"MaxPool", attributes, {image}, {{TENON_DT_FLOAT, w.result}}}, kExact), "");
    EXPECT_EQ(bench.OnCpu({"MaxPool", attributes, {image}, {{TENON_DT_FLOAT, w.result}}}, &result), "");
    EXPECT_EQ(
        Compare(bench, {"MaxPoolGrad", attributes, {image, result[0], gradient}, {{TENON_DT_FLOAT, w.image}}}, kClose),
        "");
    EXPECT_EQ(Compare(bench, {"AvgPool", attributes, {image}, {{TENON_DT_FLOAT, w.result}}}, kClose), "");
    const Tensor shape = Ints({w.image.begin(), w.image.end()});
    EXPECT_EQ(Compare(bench, {"AvgPoolGrad", attributes, {shape, gradient}, {{TENON_DT_FLOAT, w.image}}, {0}}, kClose),
              "");
  }
}

// ---- Moves ----

TEST(Moves, AreTheCpus) {
  Bench bench;
  const Tensor x = RandomFloatsOf({4, 5, 6}, 1), y = RandomFloatsOf({4, 2, 6}, 2);
  const Attributes none = {}, no_masks = {{"begin_mask", int64_t{0}},
                                          {"end_mask", int64_t{0}},
                                          {"ellipsis_mask", int64_t{0}},
                                          {"new_axis_mask", int64_t{0}},
                                          {"shrink_axis_mask", int64_t{0}}};
  Attributes masks = no_masks;
  masks["end_mask"] = int64_t{2};
  masks["shrink_axis_mask"] = int64_t{1};
  const auto out = [](Dimensions dims) { return std::vector<Tensor>{{TENON_DT_FLOAT, std::move(dims)}}; };
  const DeviceCase cases[] = {
      {"Slice", none, {x, Ints({1, 0, 2}), Ints({2, -1, 3})}, out({2, 5, 3}), {1, 2}},
      {"Slice", none, {x, Ints({1, 0, 2}), Ints({0, 5, 3})}, out({0, 5, 3}), {1, 2}},
      {"StridedSlice", no_masks, {x, Ints({3, 0, 0}), Ints({0, 5, 6}), Ints({-2, 2, 1})}, out({2, 3, 6}), {1, 2, 3}},
      {"StridedSlice", masks, {x, Ints({2, 1}), Ints({0, 0}), Ints({1, 2})}, out({2, 6}), {1, 2, 3}},
      {"StridedSliceGrad",
       no_masks,
       {Ints({4, 5, 6}), Ints({3, 0, 0}), Ints({0, 5, 6}), Ints({-2, 2, 1}), RandomFloatsOf({2, 3, 6})},
       out({4, 5, 6}),
       {0, 1, 2, 3}},
      {"XlaDynamicSlice", none, {x, Ints({3, -1, 2}), Ints({2, 5, 3})}, out({2, 5, 3}), {1, 2}},
      {"XlaDynamicUpdateSlice", none, {x, y, Ints({0, 4, -7})}, out({4, 5, 6}), {2}},
      {"XlaDynamicUpdateSlice", none, {x, RandomFloatsOf({1, 0, 6}), Ints({0, 1, 0})}, out({4, 5, 6}), {2}},
      {"ReverseV2", none, {x, Ints({0, -1})}, out({4, 5, 6}), {1}},
      {"Transpose", none, {x, Ints({2, 0, 1})}, out({6, 4, 5}), {1}},
      {"Transpose", none, {Floats({0, 3}, {}), Ints({1, 0})}, out({3, 0}), {1}},
      {"Tile", none, {y, Ints({2, 1, 3})}, out({8, 2, 18}), {1}},
      {"BroadcastTo", none, {RandomFloatsOf({5, 1}), Ints({4, 5, 6})}, out({4, 5, 6}), {1}},
      {"BroadcastTo", none, {Floats({}, {3}), Ints({2, 2})}, out({2, 2}), {1}},
      {"Pad", none, {y, Make<int32_t>({3, 2}, {1, 0, 0, 2, 3, 1})}, out({5, 4, 10}), {1}},
      {"PadV2", none, {y, Make<int32_t>({3, 2}, {1, 0, 0, 2, 3, 1}), Floats({}, {7})}, out({5, 4, 10}), {1}},
      {"ConcatV2", none, {x, y, x, Int(1)}, out({4, 12, 6}), {3}},
      {"ConcatV2", none, {Floats({0}, {}), RandomFloatsOf({3}), Int(-1)}, out({3}), {2}},
      {"Pack", {{"axis", int64_t{1}}}, {y, y, y}, out({4, 3, 2, 6})},
      {"Pack", {{"axis", int64_t{0}}}, {Floats({}, {1}), Floats({}, {2})}, out({2})},
      {"Unpack", {{"axis", int64_t{1}}}, {y}, {{TENON_DT_FLOAT, {4, 6}}, {TENON_DT_FLOAT, {4, 6}}}},
      {"Split", none, {Int(2), x}, {{TENON_DT_FLOAT, {4, 5, 3}}, {TENON_DT_FLOAT, {4, 5, 3}}}, {0}},
      {"SplitV", none, {x, Ints({1, 4}), Int(1)}, {{TENON_DT_FLOAT, {4, 1, 6}}, {TENON_DT_FLOAT, {4, 4, 6}}}, {1, 2}},
      {"Fill", none, {Ints({2, 3}), Floats({}, {4})}, out({2, 3}), {0}},
      {"ZerosLike", none, {x}, out({4, 5, 6})},
      {"OnesLike", none, {x}, out({4, 5, 6})},
      {"Gather", none, {x, Ints({3, 0, 0})}, out({3, 5, 6})},
      {"GatherV2", none, {x, Ints({4, 0}), Int(1)}, out({4, 2, 6}), {2}},
      {"GatherV2",
       {{"batch_dims", int64_t{1}}},
       {x, Make<int64_t>({4, 2}, {0, 1, 2, 3, 4, 0, 1, 2}), Int(1)},
       out({4, 2, 6}),
       {2}},
      {"OneHot",
       {{"axis", int64_t{-1}}},
       {Make<int64_t>({3}, {1, -1, 0}), Int(3), Floats({}, {5}), Floats({}, {-1})},
       out({3, 3}),
       {1}},
      {"OneHot",
       {{"axis", int64_t{0}}},
       {Make<int64_t>({3}, {1, 7, 0}), Int(2), Floats({}, {5}), Floats({}, {-1})},
       out({2, 3}),
       {1}},
      {"UnsortedSegmentSum", none, {RandomFloatsOf({5, 2}), Ints({2, 0, 2, -1, 1}), Int(4)}, out({4, 2}), {2}},
  };
  for (DeviceCase c : cases) {
    c.attributes["T"] = c.attributes["Tparams"] = Type{TENON_DT_FLOAT};
    for (const bool constant : {true, false}) {
      c.constant = constant;
      EXPECT_EQ(Compare(bench, c, kExact), "");
    }
  }
  EXPECT_EQ(
      Compare(bench, {"Transpose", {}, {Bools({2, 2}, {1, 0, 0, 0}), Ints({1, 0})}, {{TENON_DT_BOOL, {2, 2}}}, {1}},
              kExact),
      "");
  EXPECT_EQ(Compare(bench, {"ReverseV2", {}, {Make<int64_t>({3}, {1, 2, 3}), Ints({0})}, {{TENON_DT_INT64, {3}}}, {1}},
                    kExact),
            "");
}

TEST(Moves, ByAnIndexThatIsNoneFailLate) {
  Bench bench;
  std::vector<Tensor> out;
  EXPECT_EQ(bench.OnDevice({"GatherV2",
                            {{"Tparams", Type{TENON_DT_FLOAT}}},
                            {RandomFloatsOf({3}), Ints({1, 3}), Int(0)},
                            {{TENON_DT_FLOAT, {2}}},
                            {2}},
                           &out),
            "INVALID_ARGUMENT: GatherV2 'node' on TPU:0: indices[1] = 3 is not in [0, 3)");
}

TEST(Shapes, AreToldOnTheHostWithoutWork) {
  Bench bench;
  const Tensor x = RandomFloatsOf({4, 5}, 1);
  const struct {
    const char* op;
    Tensor out;
    std::vector<double> want;
  } cases[] = {{"Shape", {TENON_DT_INT32, {2}}, {4, 5}},
               {"Size", {TENON_DT_INT64, {}}, {20}},
               {"Rank", {TENON_DT_INT32, {}}, {2}}};
  for (const auto& [op, out, want] : cases) {
    std::vector<Tensor> got;
    EXPECT_EQ(bench.OnDevice({op, {}, {x}, {out}, {}, {0}}, &got), "");
    EXPECT_EQ(Numbers(got[0]), want);
  }
  EXPECT_EQ(LatestKernel(bench).code, 0u);
  EXPECT_STREQ(LatestKernel(bench).kind, "");  // no kernel's work at all
}

// ---- Variables ----

// The value of a variable on the device.
std::vector<float> ValueOf(Bench& bench, const tenon_resource& r) {
  return Values<float>(bench.Downloaded(r.value));
}

TEST(Variables, AreAssignedReadAndAddedTo) {
  Bench bench;
  tenon_resource r;
  std::vector<Tensor> out;
  const DeviceCase read = {"ReadVariableOp", {}, {VariableInput()}, {{TENON_DT_FLOAT, {3}}}};
  EXPECT_EQ(bench.OnDevice(read, &out, {&r}), "FAILED_PRECONDITION: the variable has no value");
  EXPECT_EQ(bench.OnDevice({"AssignVariableOp", {}, {VariableInput(), Floats({3}, {1, 2, 3})}, {}}, &out, {&r}), "");
  EXPECT_EQ(bench.OnDevice({"AssignAddVariableOp", {}, {VariableInput(), Floats({3}, {10, 20, 30})}, {}}, &out, {&r}),
            "");
  EXPECT_EQ(bench.OnDevice({"AssignSubVariableOp", {}, {VariableInput(), Floats({3}, {1, 1, 1})}, {}}, &out, {&r}), "");
  const size_t spans = bench.device.Profile().size();
  EXPECT_EQ(bench.OnDevice(read, &out, {&r}), "");
  EXPECT_EQ(Values<float>(out[0]), (std::vector<float>{10, 21, 32}));
  EXPECT_EQ(bench.device.Profile().size(), spans + 1);  // the test's own download: a read submits nothing
  EXPECT_EQ(r.updates, 3);
  EXPECT_EQ(r.commits, 3);
}

TEST(Variables, OfReferencesAreGivenOn) {
  Bench bench;
  tenon_resource r;
  std::vector<Tensor> out;
  // A reference output is a resource in the host's memory.
  const auto run = [&](const char* op, const Tensor& value) {
    Tensor reference = {TENON_DT_INT64, {1}};  // as large as the handle
    const std::string text = bench.OnDevice(
        {op, {{"validate_shape", true}, {"T", Type{TENON_DT_FLOAT}}}, {VariableInput(), value}, {reference}, {}, {0}},
        &out, {&r});
    EXPECT_EQ(reinterpret_cast<tenon_resource*>(Values<int64_t>(out[0])[0]), &r);
    return text;
  };
  EXPECT_EQ(run("Assign", Floats({2}, {1, 2})), "");
  EXPECT_EQ(run("AssignAdd", Floats({2}, {1, 2})), "");
  EXPECT_EQ(run("AssignSub", Floats({2}, {0, 5})), "");
  EXPECT_EQ(ValueOf(bench, r), (std::vector<float>{2, -1}));
  EXPECT_EQ(run("Assign", Floats({3}, {1, 2, 3})),
            "INVALID_ARGUMENT: Assign requires shapes of both tensors to match. lhs shape= [2] rhs shape= [3]");
}

TEST(Variables, UpdatesThatFailBeforeTheirWorkIsSubmittedLeaveThemAsTheyAre) {
  Bench bench;
  Twin v(bench, Floats({2}, {1, 2}));
  std::vector<Tensor> out;
  EXPECT_EQ(
      bench.OnDevice({"AssignAddVariableOp", {}, {VariableInput(), Floats({3}, {1, 2, 3})}, {}}, &out, {&v.on_device}),
      "INVALID_ARGUMENT: the variable has another shape or dtype");
  EXPECT_EQ(v.on_device.commits, 0);
  EXPECT_EQ(ValueOf(bench, v.on_device), (std::vector<float>{1, 2}));
}

TEST(Optimizers, StepAsTheCpusDo) {
  Bench bench;
  const Tensor rate = Floats({}, {0.1f}), gradient = RandomFloatsOf({19}, 3);
  const auto scalar = [](float x) { return Floats({}, {x}); };
  const struct {
    const char* op;
    size_t variables;
    std::vector<Tensor> others;  // after the variables
    Attributes attributes;
  } cases[] = {
      {"ResourceApplyGradientDescent", 1, {rate, gradient}, {}},
      {"ResourceApplyMomentum", 2, {rate, gradient, scalar(0.9f)}, {{"use_nesterov", false}}},
      {"ResourceApplyMomentum", 2, {rate, gradient, scalar(0.9f)}, {{"use_nesterov", true}}},
      {"ResourceApplyAdagrad", 2, {rate, gradient}, {{"update_slots", true}}},
      {"ResourceApplyAdam",
       3,
       {scalar(0.9f), scalar(0.99f), rate, scalar(0.9f), scalar(0.99f), scalar(1e-3f), gradient},
       {}},
      {"ResourceApplyAdam",
       3,
       {scalar(0.9f), scalar(0.99f), rate, scalar(0.9f), scalar(0.99f), scalar(1e-3f), gradient},
       {{"use_nesterov", true}}},
  };
  for (const auto& c : cases) {
    std::vector<std::unique_ptr<Twin>> twins;
    std::vector<tenon_resource*> on_tpu, on_cpu;
    DeviceCase given = {c.op, c.attributes, {}, {}};
    given.attributes["T"] = Type{TENON_DT_FLOAT};
    for (size_t i = 0; i < c.variables; ++i) {
      twins.push_back(std::make_unique<Twin>(bench, Vector(Random(19, static_cast<uint32_t>(20 + i), 0.1f, 1))));
      on_tpu.push_back(&twins.back()->on_device);
      on_cpu.push_back(&twins.back()->on_cpu);
      given.inputs.push_back(VariableInput());
    }
    given.inputs.insert(given.inputs.end(), c.others.begin(), c.others.end());
    std::vector<Tensor> out;
    for (int step = 0; step < 3; ++step) {
      EXPECT_EQ(bench.OnDevice(given, &out, on_tpu), "") << c.op;
      EXPECT_EQ(bench.OnCpu(given, &out, on_cpu), "") << c.op;
    }
    for (size_t i = 0; i < c.variables; ++i) {
      const auto want = Values<float>(on_cpu[i]->value);
      const auto got = ValueOf(bench, *on_tpu[i]);
      for (size_t k = 0; k < got.size(); ++k) EXPECT_NEAR(got[k], want[k], 1e-6) << c.op << " variable " << i;
      EXPECT_EQ(on_tpu[i]->commits, 3);
    }
  }
}

// ---- Random numbers ----

TEST(RandomOps, GiveTheCpusStreamToTheBit) {
  Bench bench;
  const Attributes seeds = {{"seed", int64_t{7}}, {"seed2", int64_t{9}}, {"dtype", Type{TENON_DT_FLOAT}}};
  for (const char* op : {"RandomUniform", "RandomStandardNormal", "TruncatedNormal"}) {
    for (const Dimensions& dims : {Dimensions{3}, Dimensions{5, 21}, Dimensions{0}}) {
      std::vector<int32_t> shape(dims.begin(), dims.end());
      EXPECT_EQ(Compare(bench, {op, seeds, {Ints(shape)}, {{TENON_DT_FLOAT, dims}}, {0}}, kExact), "");
    }
  }
  const Attributes whole = {{"seed", int64_t{7}}, {"seed2", int64_t{9}}, {"Tout", Type{TENON_DT_INT32}}};
  EXPECT_EQ(
      Compare(bench, {"RandomUniformInt", whole, {Ints({11}), Int(-5), Int(100)}, {{TENON_DT_INT32, {11}}}, {0, 1, 2}},
              kExact),
      "");
}

// ---- On the queue ----

TEST(Kernels, ReturnBeforeTheirWorkIsDoneAndAreTheirTimelinesWork) {
  Bench bench({{"fail_late", "AddV2:2"}});
  const DeviceCase add = {"AddV2", {}, {Floats({2}, {1, 2}), Floats({2}, {3, 4})}, {{TENON_DT_FLOAT, {2}}}};
  std::vector<Tensor> out;
  EXPECT_EQ(bench.OnDevice(add, &out), "");
  EXPECT_EQ(bench.OnDevice(add, &out), "INTERNAL: AddV2 'node' failed on TPU:0 (option fail_late=AddV2:2)");
  EXPECT_EQ(bench.OnDevice(add, &out), "");
  EXPECT_EQ(Values<float>(out[0]), (std::vector<float>{4, 6}));
}

TEST(Kernels, RefuseMemoryThatIsNotTheirDevices) {
  Bench bench;
  std::vector<Tensor> out;
  DeviceCase add = {"AddV2", {}, {Floats({2}, {1, 2}), Floats({2}, {3, 4})}, {{TENON_DT_FLOAT, {2}}}, {1}};
  EXPECT_EQ(bench.OnDevice(add, &out),
            "INVALID_ARGUMENT: input 1 of a kernel on TPU:0, of 8 bytes, is no device memory");
  add.host = {};
  add.host_outputs = {0};
  EXPECT_EQ(bench.OnDevice(add, &out),
            "INVALID_ARGUMENT: output 0 of a kernel on TPU:0, of 8 bytes, is no device memory");
}

TEST(Kernels, AreAllRegisteredForTheDeviceTypeOnce) {
  std::map<std::string, int> seen;
  const auto& package = *Tested().Capability<tenon_kernel_package>(TENON_CAPABILITY_KERNELS);
  for (uint64_t i = 0; i < package.count; ++i) {
    const tenon_kernel_registration& r = *package.registrations[i];
    EXPECT_EQ(std::string_view(r.device_type.data, r.device_type.size), "TPU");
    EXPECT_EQ(r.traits & TENON_KERNEL_ASYNC, 0u);
    EXPECT_EQ(++seen[std::string(r.op.data, r.op.size)], 1);
  }
  EXPECT_GE(seen.size(), 125u);
}

}  // namespace
}  // namespace tenon::device_test::kernels_test
