// SPDX-License-Identifier: Apache-2.0
// Attention that a GPU's compiler makes one launch of gives what its kernels one by one give, and what the formula says; where scores or
// probabilities are read by others, or kernels do not have the shape, everything stays as it was. Covers N8, Q2, Q4.
#include <dlfcn.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>

#include "devices/cuda/emulation/driver_controls.h"
#include "tests/device/gpu.h"
#include "tests/engine/engine.h"

namespace tenon::engine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

Runtime& Gpus() {
  static Runtime* const runtime = [] {
    auto made = Runtime::Create(device_test::GpuOptions());
    if (!made.ok()) {
      ADD_FAILURE() << made.status().message();
      std::abort();  // NOLINT: nothing can be tested without a runtime
    }
    return new Runtime(std::move(*made));
  }();
  return *runtime;
}

struct Answer {
  std::vector<std::vector<float>> values;
  int compiled = 0;  // nodes that are no kernel of their own
};
Answer AnswerOf(const Graph& graph, const std::vector<Feed>& feeds, const std::vector<Name>& fetches, bool compile, int steps = 1) {
  SessionOptions options;
  options.device = device_test::kGpu;
  options.compile = compile;
  auto session = Session::Create(Gpus(), graph, options);
  Answer answer;
  const auto failed = [&](const auto& result) {
    if (!result.ok()) ADD_FAILURE() << result.status();
    return !result.ok();
  };
  if (failed(session)) return answer;
  std::vector<Name> names;
  std::vector<View> views;
  for (const Feed& feed : feeds) {
    names.push_back(feed.name);
    views.push_back(feed.value);
  }
  auto callable = session->Prepare(names, fetches);
  if (failed(callable)) return answer;
  for (int step = 0; step < steps; ++step) {
    auto values = callable->Run(views);
    if (failed(values)) return answer;
    const std::vector<std::vector<float>> before = std::move(answer.values);
    answer.values.clear();
    for (const Tensor& each : *values) answer.values.push_back(Values<float>(each));
    for (size_t k = 0; k < before.size(); ++k) {
      for (size_t i = 0; i < before[k].size(); ++i) EXPECT_TRUE(before[k][i] == answer.values[k][i] || std::isnan(before[k][i])) << "step " << step;
    }
  }
  const std::string how = *callable->Explain();
  for (size_t at = 0; (at = how.find("\"runs\":\"compiled\"", at)) != std::string::npos; ++at) ++answer.compiled;
  return answer;
}

int64_t CountOf(const std::vector<int64_t>& dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return count;
}
// Numbers that every type has, in no order that one sees.
std::vector<float> Numbers(const std::vector<int64_t>& dims, uint32_t seed, float unit = 1.0f / 32) {
  std::vector<float> numbers(static_cast<size_t>(CountOf(dims)));
  for (float& each : numbers) {
    seed = seed * 1664525 + 1013904223;
    each = static_cast<float>(static_cast<int>(seed >> 8) % 64) * unit * ((seed & 128) != 0 ? -1 : 1);
  }
  return numbers;
}

struct Sizes {
  int64_t batch, heads, queries, keys, depth, value_depth;
};
struct Case {
  Sizes s;
  DType dtype = DType::kFloat;
  std::vector<int64_t> mask_dims{};  // empty: no mask
  std::vector<float> mask{};
  float scale = 0.125f;
  bool divides = false;  // by 1 / scale
  bool mask_first = false;  // the sum's first operand
  bool unknown = false;  // batch and lengths
};

struct Layer {
  explicit Layer(const Case& c) : g(Gpus()), what(c), query(Numbers({c.s.batch, c.s.heads, c.s.queries, c.s.depth}, 1)),
        key(Numbers({c.s.batch, c.s.heads, c.s.keys, c.s.depth}, 2)), value(Numbers({c.s.batch, c.s.heads, c.s.keys, c.s.value_depth}, 3)) {
    q = Input("query", {c.s.batch, c.s.heads, c.s.queries, c.s.depth});
    k = Input("key", {c.s.batch, c.s.heads, c.s.keys, c.s.depth});
    v = Input("value", {c.s.batch, c.s.heads, c.s.keys, c.s.value_depth});
    scores = g.Op("BatchMatMulV2", {q, k}, {{"adj_y", true}});
    Output x = c.divides ? g.Op("RealDiv", {scores, Number(1 / c.scale)}) : g.Op("Mul", {scores, Number(c.scale)});
    if (!c.mask_dims.empty()) {
      mask = Input("mask", c.mask_dims);
      x = c.mask_first ? g.Op("AddV2", {mask, x}) : g.Op("AddV2", {x, mask});
    }
    probabilities = g.Op("Softmax", {x});
    out = g.Op("BatchMatMulV2", {probabilities, v});
    y = Floats(out);
  }
  Output Input(const char* name, std::vector<int64_t> dims) {
    if (what.unknown) {
      for (size_t d = 0; d + 1 < dims.size(); ++d) dims[d] = d == 1 || dims[d] == 1 ? dims[d] : -1;
    }
    const Output fed = g.Placeholder(name, DType::kFloat, Shape(dims));
    return what.dtype == DType::kFloat ? fed : g.Op("Cast", {fed}, {{"DstT", what.dtype}});
  }
  Output Number(float number) { return what.dtype == DType::kFloat ? g.Const(number) : g.Op("Cast", {g.Const(number)}, {{"DstT", what.dtype}}); }
  Output Floats(const Output& of) { return what.dtype == DType::kFloat ? of : g.Op("Cast", {of}, {{"DstT", DType::kFloat}}); }

  std::vector<Feed> Feeds() const {
    const auto tensor = [](const std::vector<float>& values, const std::vector<int64_t>& dims) { return *Tensor::From(values, Shape(dims)); };
    const Sizes& s = what.s;
    std::vector<Feed> feeds = {{"query", tensor(query, {s.batch, s.heads, s.queries, s.depth})}, {"key", tensor(key, {s.batch, s.heads, s.keys, s.depth})},
                               {"value", tensor(value, {s.batch, s.heads, s.keys, s.value_depth})}};
    if (!what.mask_dims.empty()) feeds.push_back({"mask", tensor(what.mask, what.mask_dims)});
    return feeds;
  }

  // The formula, in double.
  std::vector<double> Formula() const {
    const Sizes& s = what.s;
    std::vector<double> result;
    for (int64_t b = 0; b < s.batch * s.heads; ++b) {
      for (int64_t i = 0; i < s.queries; ++i) {
        std::vector<double> weights;
        double most = -kInfinity, sum = 0;
        for (int64_t j = 0; j < s.keys; ++j) {
          double dot = 0;
          for (int64_t d = 0; d < s.depth; ++d) dot += double{query[static_cast<size_t>((b * s.queries + i) * s.depth + d)]} * double{key[static_cast<size_t>((b * s.keys + j) * s.depth + d)]};
          weights.push_back(dot * double{what.scale} + MaskAt(b / s.heads, b % s.heads, i, j));
          most = std::max(most, weights.back());
        }
        for (double& weight : weights) sum += weight = std::exp(weight - most);
        for (int64_t d = 0; d < s.value_depth; ++d) {
          double total = 0;
          for (int64_t j = 0; j < s.keys; ++j) total += weights[static_cast<size_t>(j)] / sum * double{value[static_cast<size_t>((b * s.keys + j) * s.value_depth + d)]};
          result.push_back(total);
        }
      }
    }
    return result;
  }
  double MaskAt(int64_t b, int64_t h, int64_t i, int64_t j) const {
    if (what.mask_dims.empty()) return 0;
    const int64_t at[] = {b, h, i, j};
    int64_t place = 0;
    for (size_t d = 0; d < what.mask_dims.size(); ++d) {
      const int64_t dim = what.mask_dims[d];
      place = place * dim + (dim == 1 ? 0 : at[4 - what.mask_dims.size() + d]);
    }
    return double{what.mask[static_cast<size_t>(place)]};
  }

  Graph g;
  const Case what;
  std::vector<float> query, key, value;
  Output q, k, v, mask, scores, probabilities, out, y;
};

// One rounding of the output beside those of the probabilities.
double BoundOf(DType dtype) { return dtype == DType::kFloat ? 3e-6 : dtype == DType::kHalf ? 2e-3 : 1.6e-2; }

void ExpectOne(const Case& c, int nodes) {
  const Layer layer(c);
  const std::vector<Feed> feeds = layer.Feeds();
  const std::string what = std::to_string(c.s.batch) + "," + std::to_string(c.s.heads) + "," + std::to_string(c.s.queries) + "," + std::to_string(c.s.keys) + "," + std::to_string(c.s.depth) +
                           " " + std::string(DTypeName(c.dtype));
  const Answer alone = AnswerOf(layer.g, feeds, {layer.y}, false), together = AnswerOf(layer.g, feeds, {layer.y}, true);
  EXPECT_EQ(together.compiled, nodes) << what;
  ASSERT_EQ(together.values.size(), 1u);
  ASSERT_EQ(alone.values.size(), 1u);
  const std::vector<double> formula = layer.Formula();
  ASSERT_EQ(together.values[0].size(), formula.size());
  ASSERT_EQ(alone.values[0].size(), formula.size());
  for (size_t i = 0; i < formula.size(); ++i) {
    ASSERT_EQ(std::isnan(together.values[0][i]), std::isnan(alone.values[0][i])) << what << " element " << i;
    ASSERT_EQ(std::isnan(together.values[0][i]), std::isnan(formula[i])) << what << " element " << i;
    if (std::isnan(formula[i])) continue;
    const double bound = BoundOf(c.dtype) * std::max(1.0, std::fabs(formula[i]));
    ASSERT_NEAR(together.values[0][i], formula[i], bound) << what << " element " << i;
    ASSERT_NEAR(together.values[0][i], alone.values[0][i], 3 * bound) << what << " element " << i;
  }
}

constexpr DType kTypes[] = {DType::kFloat, DType::kHalf, DType::kBfloat16};

TEST(GpuAttention, OfAnyLengthAndHeadIsOneLaunch) {
  for (const DType dtype : kTypes) {
    for (const Sizes& s : {Sizes{1, 1, 1, 1, 8, 8}, Sizes{2, 3, 5, 7, 16, 16}, Sizes{1, 2, 64, 64, 64, 64}, Sizes{2, 1, 65, 129, 64, 64}, Sizes{1, 1, 70, 33, 128, 128},
                           Sizes{1, 2, 1, 200, 64, 64}, Sizes{1, 1, 130, 1, 32, 32}, Sizes{1, 1, 33, 97, 80, 80}, Sizes{1, 2, 20, 40, 24, 104}, Sizes{3, 1, 17, 66, 96, 40}}) {
      ExpectOne({.s = s, .dtype = dtype}, 4);
    }
  }
}

TEST(GpuAttention, AddsMasksOfAnyBroadcast) {
  const Sizes s = {2, 3, 21, 70, 32, 32};
  for (const DType dtype : kTypes) {
    for (const std::vector<int64_t>& dims : {std::vector<int64_t>{2, 1, 1, 70}, {2, 1, 21, 70}, {21, 70}, {1, 3, 21, 70}, {2, 3, 21, 70}, {70}, {1, 1, 1, 70}, {2, 1, 21, 1}, {21, 1}, {1}}) {
      Case c = {.s = s, .dtype = dtype, .mask_dims = dims, .mask = Numbers(dims, 4, 0.125f)};
      ExpectOne(c, 5);
      c.divides = c.mask_first = true;
      ExpectOne(c, 5);
    }
  }
}

// Rows without a key that counts are no numbers; so are those that see one.
TEST(GpuAttention, OfRowsThatAreMaskedOrNoNumbersIsAsItsKernelsGive) {
  const Sizes s = {1, 1, 70, 150, 64, 64};
  for (const DType dtype : kTypes) {
    Case c = {.s = s, .dtype = dtype, .mask_dims = {70, 150}, .mask = Numbers({70, 150}, 4, 0.0625f)};
    for (size_t j = 0; j < 150; ++j) {
      c.mask[3 * 150 + j] = -kInfinity;                    // all
      if (j < 149) c.mask[4 * 150 + j] = -kInfinity;       // all but the last
      if (j < 64) c.mask[5 * 150 + j] = -kInfinity;        // the first steps'
      if (j >= 64) c.mask[20 * 150 + j] = -kInfinity;      // the last steps'
      if (j % 2 == 0) c.mask[66 * 150 + j] = -8192;
    }
    c.mask[7 * 150 + 149] = kNan;
    c.mask[8 * 150] = kNan;
    c.mask[9 * 150 + 100] = kInfinity;
    ExpectOne(c, 5);
  }
}

// What numbers beyond all make, where kernels one by one give it too.
TEST(GpuAttention, HandsOnWhatIsNotFinite) {
  for (const DType dtype : kTypes) {
    for (const float strange : {kNan, kInfinity, -kInfinity}) {
      for (int where = 0; where < 3; ++where) {
        Layer layer({.s = {1, 2, 20, 80, 16, 16}, .dtype = dtype});
        (where == 0 ? layer.query : where == 1 ? layer.key : layer.value)[5 * 16 + 3] = strange;
        const Answer alone = AnswerOf(layer.g, layer.Feeds(), {layer.y}, false), together = AnswerOf(layer.g, layer.Feeds(), {layer.y}, true);
        ASSERT_EQ(alone.values[0].size(), together.values[0].size());
        for (size_t i = 0; i < alone.values[0].size(); ++i) {
          const float a = alone.values[0][i], b = together.values[0][i];
          ASSERT_EQ(std::isnan(a), std::isnan(b)) << where << " " << strange << " " << i;
          ASSERT_TRUE(std::isnan(a) || a == b || std::fabs(a - b) < 3 * BoundOf(dtype) * std::max(1.0f, std::fabs(a))) << where << " " << strange << " " << i;
        }
      }
    }
  }
}

TEST(GpuAttention, OfLengthsThatComeWithTheStepIsOneLaunchToo) {
  for (const DType dtype : kTypes) {
    ExpectOne({.s = {2, 3, 18, 35, 64, 64}, .dtype = dtype, .mask_dims = {2, 1, 1, 35}, .mask = Numbers({35 * 2}, 7), .unknown = true}, 5);
  }
}

TEST(GpuAttention, WithoutQueriesOrBatchesIsEmpty) {
  for (const Sizes& s : {Sizes{0, 2, 3, 4, 8, 8}, Sizes{1, 2, 0, 4, 8, 8}}) {
    const Layer layer({.s = s, .unknown = true});
    EXPECT_EQ(AnswerOf(layer.g, layer.Feeds(), {layer.y}, true).values, (std::vector<std::vector<float>>{{}}));
  }
  const Layer layer({.s = {1, 2, 3, 0, 8, 8}, .unknown = true});  // sums of nothing
  EXPECT_EQ(AnswerOf(layer.g, layer.Feeds(), {layer.y}, true).values, (std::vector<std::vector<float>>{std::vector<float>(1 * 2 * 3 * 8, 0)}));
}

// As Keras has it: heads stand between rows, and keys may be the first operand.
TEST(GpuAttention, OfEinsumsIsOneLaunch) {
  const int64_t batch = 2, heads = 3, queries = 19, keys = 70, depth = 40;
  const struct {
    const char *scores, *values;
    bool key_first;
  } forms[] = {{"BTNH,BSNH->BNTS", "BNTS,BSNH->BTNH", false}, {"aecd,abcd->acbe", "acbe,aecd->abcd", true}, {"...qnd,...knd->...nqk", "...nqk,...knd->...qnd", false}};
  for (const auto& form : forms) {
    Graph g(Gpus());
    const Output q = g.Placeholder("q", DType::kFloat, Shape{-1, queries, heads, depth}), k = g.Placeholder("k", DType::kFloat, Shape{-1, keys, heads, depth});
    const Output v = g.Placeholder("v", DType::kFloat, Shape{-1, keys, heads, depth}), mask = g.Placeholder("mask", DType::kFloat, Shape{-1, 1, 1, keys});
    const auto einsum = [&](const char* equation, const Output& a, const Output& b) { return g.Op("Einsum", {a, b}, {{"equation", equation}}); };
    const Output scores = g.Op("AddV2", {g.Op("Mul", {form.key_first ? einsum(form.scores, k, q) : einsum(form.scores, q, k), g.Const(0.25f)}), mask});
    const Output y = einsum(form.values, g.Op("Softmax", {scores}), v);
    const auto tensor = [](std::vector<int64_t> dims, uint32_t seed) { return *Tensor::From(Numbers(dims, seed), Shape(dims)); };
    const std::vector<Feed> feeds = {{q, tensor({batch, queries, heads, depth}, 1)}, {k, tensor({batch, keys, heads, depth}, 2)}, {v, tensor({batch, keys, heads, depth}, 3)},
                                     {mask, tensor({batch, 1, 1, keys}, 4)}};
    const Answer alone = AnswerOf(g, feeds, {y}, false), together = AnswerOf(g, feeds, {y}, true);
    EXPECT_EQ(together.compiled, 5) << form.scores;
    ASSERT_EQ(together.values[0].size(), alone.values[0].size());
    for (size_t i = 0; i < alone.values[0].size(); ++i) ASSERT_NEAR(together.values[0][i], alone.values[0][i], 4e-6) << form.scores << " " << i;
  }
}

// Masks that a chain makes of zeros and ones stay a chain; what is subtracted counts as well.
TEST(GpuAttention, TakesWhatAChainMakesOfAMask) {
  Graph g(Gpus());
  const Output q = g.Placeholder("q", DType::kFloat, Shape{2, 2, 9, 16}), seen = g.Placeholder("seen", DType::kFloat, Shape{2, 1, 1, 9});
  const Output scores = g.Op("BatchMatMulV2", {q, q}, {{"adj_y", true}});
  const auto end = [&](const Output& x) { return g.Op("BatchMatMulV2", {g.Op("Softmax", {x}), q}); };
  std::vector<float> ones(18, 1);
  ones[3] = ones[8] = ones[12] = 0;
  const std::vector<Feed> feeds = {{q, *Tensor::From(Numbers({2, 2, 9, 16}, 5), Shape{2, 2, 9, 16})}, {seen, *Tensor::From(ones, Shape{2, 1, 1, 9})}};
  const Output unseen = g.Op("Sub", {g.Const(1.0f), seen});
  const Output fetches[] = {end(g.Op("AddV2", {scores, g.Op("Mul", {unseen, g.Const(-1e9f)})})),
                            end(g.Op("AddV2", {g.Op("Sub", {g.Op("BatchMatMulV2", {q, q}, {{"adj_y", true}}), g.Op("Mul", {unseen, g.Const(1e9f)})}), g.Const(1e-9f)}))};
  int compiled[] = {6, 7};
  for (int i = 0; i < 2; ++i) {
    const Answer alone = AnswerOf(g, feeds, {fetches[i]}, false), together = AnswerOf(g, feeds, {fetches[i]}, true);
    EXPECT_EQ(together.compiled, compiled[i]);
    for (size_t k = 0; k < alone.values[0].size(); ++k) ASSERT_NEAR(together.values[0][k], alone.values[0][k], 4e-6) << k;
  }
}

TEST(GpuAttention, ThatOthersReadGivesThemWhatTheyRead) {
  const Layer layer({.s = {1, 2, 12, 14, 16, 16}});
  for (const Output& read : {layer.probabilities, layer.scores}) {
    const Answer alone = AnswerOf(layer.g, layer.Feeds(), {layer.y, read}, false), together = AnswerOf(layer.g, layer.Feeds(), {layer.y, read}, true);
    for (size_t k = 0; k < 2; ++k) {
      ASSERT_EQ(together.values[k].size(), alone.values[k].size());
      for (size_t i = 0; i < alone.values[k].size(); ++i) ASSERT_NEAR(together.values[k][i], alone.values[k][i], 1e-5) << k << " " << i;
    }
  }
  for (const bool of_scores : {false, true}) {
    Layer more({.s = {1, 2, 12, 14, 16, 16}});
    const Output other = more.g.Op("Cumsum", {of_scores ? more.scores : more.probabilities, more.g.Const(3)});
    const Answer alone = AnswerOf(more.g, more.Feeds(), {more.y, other}, false), together = AnswerOf(more.g, more.Feeds(), {more.y, other}, true);
    EXPECT_EQ(together.compiled, 2);  // the scale and the softmax
    for (size_t k = 0; k < 2; ++k) {
      for (size_t i = 0; i < alone.values[k].size(); ++i) ASSERT_NEAR(together.values[k][i], alone.values[k][i], 1e-5) << k << " " << i;
    }
  }
}

// As it was: the scale and the softmax are a chain.
TEST(GpuAttention, OfOtherShapesStaysAsItWas) {
  const auto compiled = [](const Case& c) {
    const Layer layer(c);
    const Answer alone = AnswerOf(layer.g, layer.Feeds(), {layer.y}, false), together = AnswerOf(layer.g, layer.Feeds(), {layer.y}, true);
    for (size_t i = 0; i < alone.values[0].size(); ++i) EXPECT_NEAR(together.values[0][i], alone.values[0][i], 1e-5) << i;
    return together.compiled;
  };
  EXPECT_EQ(compiled({.s = {1, 1, 9, 9, 12, 16}}), 2);
  EXPECT_EQ(compiled({.s = {1, 1, 9, 9, 16, 12}}), 2);
  EXPECT_EQ(compiled({.s = {1, 1, 9, 9, 136, 16}}), 2);
  EXPECT_EQ(compiled({.s = {1, 1, 9, 9, 4, 8}}), 2);
  EXPECT_EQ(compiled({.s = {1, 1, 9, 9, 16, 16}}), 4);
  Graph g(Gpus());  // keys as columns, and a mask that is larger than the scores
  const Output q = g.Placeholder("q", DType::kFloat, Shape{2, 16, 16}), mask = g.Placeholder("mask", DType::kFloat, Shape{3, 2, 16, 16});
  const std::vector<Feed> feeds = {{q, *Tensor::From(Numbers({2, 16, 16}, 1), Shape{2, 16, 16})}, {mask, *Tensor::From(Numbers({3, 2, 16, 16}, 2), Shape{3, 2, 16, 16})}};
  const Output columns = g.Op("BatchMatMulV2", {g.Op("Softmax", {g.Op("Neg", {g.Op("BatchMatMulV2", {q, q})})}), q});
  const Output larger = g.Op("BatchMatMulV2", {g.Op("Softmax", {g.Op("AddV2", {g.Op("BatchMatMulV2", {q, q}, {{"adj_y", true}}), mask})}), q});
  for (const Output& y : {columns, larger}) {
    const Answer alone = AnswerOf(g, feeds, {y}, false), together = AnswerOf(g, feeds, {y}, true);
    ASSERT_EQ(alone.values[0].size(), together.values[0].size());
    for (size_t i = 0; i < alone.values[0].size(); ++i) ASSERT_NEAR(together.values[0][i], alone.values[0][i], 1e-5) << i;
  }
}

// Step after step, in captured pieces and with memory that is used again.
TEST(GpuAttention, GivesTheSameInEveryStep) {
  Graph g(Gpus());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{2, 30, 16});
  Output y = x;
  for (int layer = 0; layer < 3; ++layer) {
    const Output scores = g.Op("Mul", {g.Op("BatchMatMulV2", {y, y}, {{"adj_y", true}}), g.Const(0.25f)});
    y = g.Op("AddV2", {y, g.Op("BatchMatMulV2", {g.Op("Softmax", {scores}), g.Op("Tanh", {y})})});
  }
  const std::vector<Feed> feeds = {{x, *Tensor::From(Numbers({2, 30, 16}, 9), Shape{2, 30, 16})}};
  const Answer alone = AnswerOf(g, feeds, {y}, false), together = AnswerOf(g, feeds, {y}, true, 8);
  EXPECT_GE(together.compiled, 12);
  for (size_t i = 0; i < alone.values[0].size(); ++i) ASSERT_NEAR(together.values[0][i], alone.values[0][i], 2e-5) << i;
}

// A layer's forward pass as BERT has it: what a step asks of the driver.
TEST(GpuAttention, OfALayerIsOneLaunchOfTheDriver) {
  (void)Gpus();  // which open it
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  auto* const get = driver == nullptr ? nullptr : reinterpret_cast<EmulatedDriverControls* (*)()>(dlsym(driver, "tenon_emulated_driver"));
  if (get == nullptr) GTEST_SKIP() << "only the emulated driver counts";
  constexpr int64_t kBatch = 2, kSteps = 12, kHeads = 2, kWidth = 64 * kHeads;
  Graph g(Gpus());
  const auto weight = [&](int64_t rows, uint32_t seed) { return g.Const(Numbers({rows, kWidth}, seed, 1.0f / 512), Shape{rows, kWidth}); };
  const Output x = g.Placeholder("x", DType::kFloat, Shape{kBatch * kSteps, kWidth}), mask = g.Placeholder("mask", DType::kFloat, Shape{kBatch, 1, 1, kSteps});
  const auto dense = [&](const Output& of, uint32_t seed) { return g.Op("BiasAdd", {g.Op("MatMul", {of, weight(kWidth, seed)}), g.Const(Numbers({kWidth}, seed), Shape{kWidth})}); };
  const auto turned = [&](const Output& of) { return g.Op("Transpose", {of, g.Const(std::vector<int32_t>{0, 2, 1, 3}, Shape{4})}); };
  const auto shaped = [&](const Output& of, std::vector<int32_t> dims) {
    const auto rank = static_cast<int64_t>(dims.size());
    return g.Op("Reshape", {of, g.Const(dims, Shape{rank})});
  };
  const auto heads = [&](uint32_t seed) { return turned(shaped(dense(x, seed), {kBatch, kSteps, kHeads, 64})); };
  const Output scores = g.Op("AddV2", {g.Op("Mul", {g.Op("BatchMatMulV2", {heads(1), heads(2)}, {{"adj_y", true}}), g.Const(0.125f)}), mask});
  const Output probabilities = g.Op("Softmax", {scores});
  const Output seen = g.Op("BatchMatMulV2", {probabilities, heads(3)});
  const Output y = dense(shaped(turned(seen), {kBatch * kSteps, kWidth}), 4);
  const std::vector<Feed> feeds = {{x, *Tensor::From(Numbers({kBatch * kSteps, kWidth}, 5), Shape{kBatch * kSteps, kWidth})},
                                   {mask, *Tensor::From(Numbers({kBatch, 1, 1, kSteps}, 6), Shape{kBatch, 1, 1, kSteps})}};
  const auto launches = [&](bool compile, bool others_read) {
    SessionOptions options;
    options.device = device_test::kGpu;
    options.compile = compile;
    auto session = Session::Create(Gpus(), g, options);
    EXPECT_TRUE(session.ok());
    std::vector<Name> names;
    std::vector<View> views;
    for (const Feed& feed : feeds) {
      names.push_back(feed.name);
      views.push_back(feed.value);
    }
    auto callable = session->Prepare(names, others_read ? std::vector<Name>{y, probabilities} : std::vector<Name>{y});
    EXPECT_TRUE(callable.ok());
    for (int step = 0; step < 8; ++step) EXPECT_TRUE(callable->Run(views).ok());
    const EmulatedDriverControls& counts = *get();
    const uint64_t before = counts.launches + counts.graph_nodes;
    EXPECT_TRUE(callable->Run(views).ok());
    return counts.launches + counts.graph_nodes - before;
  };
  const uint64_t alone = launches(false, false), read = launches(true, true), together = launches(true, false);
  std::printf("launches of a layer: %llu kernel by kernel, %llu compiled where others read the probabilities, %llu compiled\n", static_cast<unsigned long long>(alone),
              static_cast<unsigned long long>(read), static_cast<unsigned long long>(together));
  EXPECT_EQ(together, alone - 4 - 4);  // five are one, and each of four products is one with its bias
  EXPECT_EQ(together, read - 2);
}

}  // namespace
}  // namespace tenon::engine
