// SPDX-License-Identifier: Apache-2.0
// Gradients of attention that a GPU's compiler makes two launches of give what their kernels one by one give, and what
// the formula says; the forward pass is one launch beside them. Where others read scores or probabilities, or kernels
// do not have the shape, everything stays as it was. Covers N8, Q2, Q4.
#include <cmath>
#include <cstdio>
#include <random>

#include "tests/engine/gpu_attention.h"

namespace tenon::engine::gpu_attention_gradient_test {
namespace {

// The layer, a loss of its result, and the gradients of queries, keys and values.
struct Trained : Layer {
  explicit Trained(const Case& c)
      : Layer(c), incoming(Numbers({c.s.batch, c.s.heads, c.s.queries, c.s.value_depth}, 11)) {
    const Output factors = Input("incoming", {c.s.batch, c.s.heads, c.s.queries, c.s.value_depth});
    loss =
        g.Op("Sum", {g.Op("Mul", {Floats(out), Floats(factors)}), g.Const(std::vector<int32_t>{0, 1, 2, 3}, Shape{4})});
    for (const Gradient& gradient : g.Gradients({loss}, {q, k, v})) gradients.push_back(Floats(gradient.dense));
  }
  std::vector<Feed> Feeds() const {
    std::vector<Feed> feeds = Layer::Feeds();
    const Sizes& s = what.s;
    feeds.push_back({"incoming", *Tensor::From(incoming, Shape{s.batch, s.heads, s.queries, s.value_depth})});
    return feeds;
  }
  std::vector<Name> Fetches() const { return {y, gradients[0], gradients[1], gradients[2]}; }

  // In double, by what the gradients are of.
  std::vector<std::vector<double>> GradientFormula() const {
    const Sizes& s = what.s;
    std::vector<std::vector<double>> of = {std::vector<double>(query.size()), std::vector<double>(key.size()),
                                           std::vector<double>(value.size())};
    for (int64_t b = 0; b < s.batch * s.heads; ++b) {
      for (int64_t i = 0; i < s.queries; ++i) AddRow(b, i, &of);
    }
    return of;
  }
  void AddRow(int64_t b, int64_t i, std::vector<std::vector<double>>* of) const {
    const Sizes& s = what.s;
    const auto at = [](auto& rows, int64_t row, int64_t width, int64_t d) -> auto& {
      return rows[static_cast<size_t>(row * width + d)];
    };
    const int64_t row = b * s.queries + i;
    std::vector<double> weights, products;
    double most = -kInfinity, sum = 0, dot = 0;
    for (int64_t j = 0; j < s.keys; ++j) {
      double score = 0, product = 0;
      for (int64_t d = 0; d < s.depth; ++d)
        score += double{at(query, row, s.depth, d)} * double{at(key, b * s.keys + j, s.depth, d)};
      for (int64_t d = 0; d < s.value_depth; ++d)
        product += double{at(incoming, row, s.value_depth, d)} * double{at(value, b * s.keys + j, s.value_depth, d)};
      weights.push_back(score * double{what.scale} + MaskAt(b / s.heads, b % s.heads, i, j));
      products.push_back(product);
      most = std::max(most, weights.back());
    }
    for (double& weight : weights) sum += weight = std::exp(weight - most);
    for (size_t j = 0; j < weights.size(); ++j) dot += (weights[j] /= sum) * products[j];
    for (int64_t j = 0; j < s.keys; ++j) {
      const double weight = weights[static_cast<size_t>(j)],
                   of_score = weight * (products[static_cast<size_t>(j)] - dot) * double{what.scale};
      for (int64_t d = 0; d < s.depth; ++d) {
        at((*of)[0], row, s.depth, d) += of_score * double{at(key, b * s.keys + j, s.depth, d)};
        at((*of)[1], b * s.keys + j, s.depth, d) += of_score * double{at(query, row, s.depth, d)};
      }
      for (int64_t d = 0; d < s.value_depth; ++d)
        at((*of)[2], b * s.keys + j, s.value_depth, d) += weight * double{at(incoming, row, s.value_depth, d)};
    }
  }

  std::vector<float> incoming;
  Output loss;
  std::vector<Output> gradients;
};

std::string TextOf(const Case& c) {
  std::string text(DTypeName(c.dtype));
  for (const int64_t size : {c.s.batch, c.s.heads, c.s.queries, c.s.keys, c.s.depth, c.s.value_depth})
    text += " " + std::to_string(size);
  for (const int64_t dim : c.mask_dims) text += " m" + std::to_string(dim);
  return text;
}

double LargestOf(const std::vector<double>& values) {
  double most = 0;
  for (const double each : values) most = std::isfinite(each) ? std::max(most, std::fabs(each)) : most;
  return most;
}

// Of the largest element; nodes one by one round halves many times.
double GradientBound(DType dtype, bool together) {
  return dtype == DType::kFloat ? 1e-5 : dtype == DType::kHalf ? (together ? 2e-3 : 1e-2) : together ? 1.2e-2 : 8e-2;
}

// What nodes give together, one by one, and the formula. fused: the forward pass's two products and the gradients' five
// are part of launches.
void ExpectGradients(const Case& c, bool fused = true) {
  const Trained layer(c);
  const std::string text = TextOf(c);
  const Answer alone = AnswerOf(layer.g, layer.Feeds(), layer.Fetches(), false),
               together = AnswerOf(layer.g, layer.Feeds(), layer.Fetches(), true);
  EXPECT_EQ(together.products, fused ? 7 : 0) << text;
  ASSERT_EQ(together.values.size(), 4u) << text;
  ASSERT_EQ(alone.values.size(), 4u) << text;
  const std::vector<std::vector<double>> formula = layer.GradientFormula();
  for (size_t k = 0; k < 3; ++k) {
    const std::vector<float>&a = alone.values[k + 1], &b = together.values[k + 1];
    ASSERT_EQ(b.size(), formula[k].size()) << text;
    ASSERT_EQ(a.size(), formula[k].size()) << text;
    const double most = std::max(1.0, LargestOf(formula[k]));
    for (size_t i = 0; i < b.size(); ++i) {
      ASSERT_EQ(std::isnan(b[i]), std::isnan(a[i])) << text << " gradient " << k << " element " << i;
      ASSERT_EQ(std::isnan(b[i]), std::isnan(formula[k][i])) << text << " gradient " << k << " element " << i;
      if (std::isnan(b[i])) continue;
      ASSERT_NEAR(b[i], formula[k][i], GradientBound(c.dtype, true) * most)
          << text << " gradient " << k << " element " << i;
      ASSERT_NEAR(a[i], formula[k][i], GradientBound(c.dtype, false) * most)
          << text << " gradient " << k << " element " << i;
    }
  }
}

TEST(GpuAttentionGradient, OfAnyLengthAndHeadIsTwoLaunches) {
  for (const DType dtype : kTypes) {
    for (const Sizes& s :
         {Sizes{1, 1, 1, 1, 8, 8}, Sizes{2, 3, 5, 7, 16, 16}, Sizes{1, 2, 64, 64, 64, 64}, Sizes{2, 1, 65, 129, 64, 64},
          Sizes{1, 1, 70, 33, 128, 128}, Sizes{1, 2, 1, 200, 64, 64}, Sizes{1, 1, 130, 1, 32, 32},
          Sizes{1, 1, 33, 97, 80, 80}, Sizes{1, 2, 20, 40, 24, 104}, Sizes{3, 1, 17, 66, 96, 40}}) {
      ExpectGradients({.s = s, .dtype = dtype});
    }
  }
}

TEST(GpuAttentionGradient, SeesMasksOfAnyBroadcast) {
  const Sizes s = {2, 2, 19, 40, 16, 16};
  for (const DType dtype : kTypes) {
    for (const std::vector<int64_t>& dims : {std::vector<int64_t>{2, 1, 1, 40},
                                             {2, 1, 19, 40},
                                             {19, 40},
                                             {1, 2, 19, 40},
                                             {2, 2, 19, 40},
                                             {40},
                                             {1, 1, 1, 40},
                                             {2, 1, 19, 1},
                                             {19, 1},
                                             {1}}) {
      Case c = {.s = s, .dtype = dtype, .mask_dims = dims, .mask = Numbers(dims, 4, 0.125f)};
      c.divides = c.mask_first = dims.size() % 2 == 0;
      ExpectGradients(c);
    }
  }
}

// As of a network whose batch is fed: what a gradient would be summed up along is known nevertheless, where one input
// has the batch.
TEST(GpuAttentionGradient, OfAnUnknownBatchIsTwoLaunches) {
  for (const bool masked : {false, true}) {
    Graph g(Gpus());
    const Output x = g.Placeholder("x", DType::kFloat, Shape{-1, 20, 32});
    std::vector<Output> weights;
    const auto shaped = [&](const Output& of, const std::vector<int32_t>& dims) {
      return g.Op("Reshape", {of, g.Const(dims, Shape{static_cast<int64_t>(dims.size())})});
    };
    const auto heads = [&](uint32_t seed) {
      weights.push_back(g.Const(Numbers({32, 32}, seed, 1.0f / 128), Shape{32, 32}));
      const Output rows = g.Op("MatMul", {shaped(x, {-1, 32}), weights.back()});
      return g.Op("Transpose", {shaped(rows, {-1, 20, 2, 16}), g.Const(std::vector<int32_t>{0, 2, 1, 3}, Shape{4})});
    };
    const Output query = heads(3), key = heads(4), value = heads(5);
    Output scores = g.Op("Mul", {g.Op("BatchMatMulV2", {query, key}, {{"adj_y", true}}), g.Const(0.25f)});
    if (masked)
      scores = g.Op("AddV2",
                    {scores, shaped(g.Op("Mul", {g.Op("Mean", {x, g.Const(-1)}), g.Const(-2.0f)}), {-1, 1, 1, 20})});
    const Output y = g.Op("BatchMatMulV2", {g.Op("Softmax", {scores}), value});
    const Output loss = g.Op("Sum", {g.Op("Square", {y}), g.Const(std::vector<int32_t>{0, 1, 2, 3}, Shape{4})});
    std::vector<Name> fetches = {y};
    for (const Gradient& gradient : g.Gradients({loss}, weights)) fetches.push_back(gradient.dense);
    for (const int64_t rows : {3, 1, 0}) {
      const std::vector<Feed> feeds = {{x, *Tensor::From(Numbers({rows, 20, 32}, 1, 1.0f / 64), Shape{rows, 20, 32})}};
      const Answer alone = AnswerOf(g, feeds, fetches, false), together = AnswerOf(g, feeds, fetches, true);
      EXPECT_EQ(together.products, 7) << masked;
      for (size_t n = 0; n < fetches.size(); ++n) {
        ASSERT_EQ(together.values[n].size(), alone.values[n].size());
        for (size_t i = 0; i < alone.values[n].size(); ++i)
          ASSERT_NEAR(together.values[n][i], alone.values[n][i], 1e-4) << masked << " " << n << " " << i;
      }
    }
  }
}

// Rows without a key that counts make all that they reach no number; so do those that see one.
TEST(GpuAttentionGradient, OfRowsThatAreMaskedOrNoNumbersIsAsItsKernelsGive) {
  const Sizes s = {2, 1, 70, 90, 32, 32};
  for (const DType dtype : kTypes) {
    for (const int where : {0, 1, 2}) {
      Case c = {.s = s, .dtype = dtype, .mask_dims = {2, 1, 70, 90}, .mask = Numbers({2, 1, 70, 90}, 4, 0.0625f)};
      for (size_t j = 0; j < 90; ++j) {
        if (j < 89) c.mask[4 * 90 + j] = -kInfinity;   // all but the last
        if (j < 64) c.mask[5 * 90 + j] = -kInfinity;    // the first steps'
        if (j >= 64) c.mask[20 * 90 + j] = -kInfinity;  // the last steps'
        if (j % 2 == 0) c.mask[66 * 90 + j] = -8192;
        if (where == 0) c.mask[3 * 90 + j] = -kInfinity;
      }
      if (where == 1) c.mask[7 * 90 + 89] = kNan;
      if (where == 2) c.mask[9 * 90 + 80] = kInfinity;
      ExpectGradients(c);
    }
  }
}

// As masks by a large number have it, where both launches have to make the same score to the bit.
TEST(GpuAttentionGradient, OfRowsThatAreMaskedByALargeNumberIsFinite) {
  for (const std::vector<int64_t>& dims : {std::vector<int64_t>{1, 1, 40, 50}, {1, 1, 1, 50}}) {
    Case c = {.s = {1, 2, 40, 50, 64, 64},
              .mask_dims = dims,
              .mask = std::vector<float>(static_cast<size_t>(CountOf(dims)), -1e9f)};
    const Trained layer(c);
    const Answer alone = AnswerOf(layer.g, layer.Feeds(), layer.Fetches(), false),
                 together = AnswerOf(layer.g, layer.Feeds(), layer.Fetches(), true);
    EXPECT_EQ(together.products, 7);
    for (size_t k = 0; k < 4; ++k) {
      for (size_t i = 0; i < alone.values[k].size(); ++i)
        ASSERT_NEAR(together.values[k][i], alone.values[k][i], 2e-4) << k << " " << i;
    }
  }
}

// What numbers beyond all make, where kernels one by one give it too.
TEST(GpuAttentionGradient, HandsOnWhatIsNotFinite) {
  for (const DType dtype : kTypes) {
    for (const float strange : {kNan, kInfinity, -kInfinity}) {
      for (int where = 0; where < 4; ++where) {
        Trained layer({.s = {1, 2, 20, 80, 16, 16}, .dtype = dtype});
        (where == 0   ? layer.query
         : where == 1 ? layer.key
         : where == 2 ? layer.value
                      : layer.incoming)[5 * 16 + 3] = strange;
        const Answer alone = AnswerOf(layer.g, layer.Feeds(), layer.Fetches(), false),
                     together = AnswerOf(layer.g, layer.Feeds(), layer.Fetches(), true);
        for (size_t k = 0; k < 4; ++k) {
          ASSERT_EQ(alone.values[k].size(), together.values[k].size());
          for (size_t i = 0; i < alone.values[k].size(); ++i) {
            ASSERT_EQ(std::isfinite(alone.values[k][i]), std::isfinite(together.values[k][i]))
                << where << " " << strange << " " << k << " " << i;
          }
        }
      }
    }
  }
}

TEST(GpuAttentionGradient, WithoutQueriesOrBatchesIsZeroOrEmpty) {
  for (const Sizes& s : {Sizes{0, 2, 3, 4, 8, 8}, Sizes{1, 2, 0, 4, 8, 8}, Sizes{1, 2, 3, 0, 8, 8}}) {
    const Trained layer({.s = s});
    const Answer together = AnswerOf(layer.g, layer.Feeds(), layer.Fetches(), true);
    ASSERT_EQ(together.values.size(), 4u);
    EXPECT_EQ(together.values[1], std::vector<float>(layer.query.size(), 0));
    EXPECT_EQ(together.values[2], std::vector<float>(layer.key.size(), 0));
    EXPECT_EQ(together.values[3], std::vector<float>(layer.value.size(), 0));
  }
}

// Sizes, masks and types as they come.
TEST(GpuAttentionGradient, OfShapesByChanceIsTheFormula) {
  std::mt19937 random(20);
  const auto upto = [&](int64_t most) { return std::uniform_int_distribution<int64_t>(1, most)(random); };
  for (int round = 0; round < 12; ++round) {
    Case c = {.s = {upto(2), upto(2), upto(70), upto(70), 8 * upto(16), 8 * upto(16)}, .dtype = kTypes[round % 3]};
    c.divides = upto(2) == 1;
    if (upto(3) > 1) {
      c.mask_dims = {c.s.batch, c.s.heads, c.s.queries, c.s.keys};
      for (int64_t& dim : c.mask_dims) dim = upto(2) == 1 ? 1 : dim;
      c.mask_dims.erase(c.mask_dims.begin(), c.mask_dims.begin() + upto(4) - 1);
      c.mask = Numbers(c.mask_dims, 5, 0.125f);
    }
    ExpectGradients(c);
  }
}

// As Keras has it: heads stand between rows, and keys may be the first operand.
TEST(GpuAttentionGradient, OfEinsumsIsTwoLaunches) {
  const int64_t batch = 2, heads = 3, queries = 19, keys = 70, depth = 40;
  const struct {
    const char *scores, *values;
    bool key_first;
  } forms[] = {{"BTNH,BSNH->BNTS", "BNTS,BSNH->BTNH", false}, {"aecd,abcd->acbe", "acbe,aecd->abcd", true}};
  for (const auto& form : forms) {
    Graph g(Gpus());
    const Output q = g.Placeholder("q", DType::kFloat, Shape{batch, queries, heads, depth}),
                 k = g.Placeholder("k", DType::kFloat, Shape{batch, keys, heads, depth});
    const Output v = g.Placeholder("v", DType::kFloat, Shape{batch, keys, heads, depth}),
                 mask = g.Placeholder("mask", DType::kFloat, Shape{batch, 1, 1, keys});
    const auto einsum = [&](const char* equation, const Output& a, const Output& b) {
      return g.Op("Einsum", {a, b}, {{"equation", equation}});
    };
    const Output scores = g.Op(
        "AddV2",
        {g.Op("Mul", {form.key_first ? einsum(form.scores, k, q) : einsum(form.scores, q, k), g.Const(0.25f)}), mask});
    const Output y = einsum(form.values, g.Op("Softmax", {scores}), v);
    const Output loss = g.Op("Sum", {g.Op("Mul", {y, q}), g.Const(std::vector<int32_t>{0, 1, 2, 3}, Shape{4})});
    std::vector<Name> fetches = {y};
    for (const Gradient& gradient : g.Gradients({loss}, {q, k, v})) fetches.push_back(gradient.dense);
    const auto tensor = [](std::vector<int64_t> dims, uint32_t seed) {
      return *Tensor::From(Numbers(dims, seed), Shape(dims));
    };
    const std::vector<Feed> feeds = {{q, tensor({batch, queries, heads, depth}, 1)},
                                     {k, tensor({batch, keys, heads, depth}, 2)},
                                     {v, tensor({batch, keys, heads, depth}, 3)},
                                     {mask, tensor({batch, 1, 1, keys}, 4)}};
    const Answer alone = AnswerOf(g, feeds, fetches, false), together = AnswerOf(g, feeds, fetches, true);
    EXPECT_EQ(together.products, 7) << form.scores;
    for (size_t n = 0; n < 4; ++n) {
      ASSERT_EQ(together.values[n].size(), alone.values[n].size());
      for (size_t i = 0; i < alone.values[n].size(); ++i)
        ASSERT_NEAR(together.values[n][i], alone.values[n][i], 1e-4) << form.scores << " " << n << " " << i;
    }
  }
}

// Keys and values that all heads have in common are summed up behind.
TEST(GpuAttentionGradient, OfKeysThatBatchesShareIsSummedUp) {
  Graph g(Gpus());
  const Output q = g.Placeholder("q", DType::kFloat, Shape{3, 2, 20, 16}),
               k = g.Placeholder("k", DType::kFloat, Shape{3, 1, 30, 16}),
               v = g.Placeholder("v", DType::kFloat, Shape{30, 24});
  const Output scores = g.Op("Mul", {g.Op("BatchMatMulV2", {q, k}, {{"adj_y", true}}), g.Const(0.25f)});
  const Output y = g.Op("BatchMatMulV2", {g.Op("Softmax", {scores}), v});
  const Output loss = g.Op("Sum", {g.Op("Square", {y}), g.Const(std::vector<int32_t>{0, 1, 2, 3}, Shape{4})});
  std::vector<Name> fetches = {y};
  for (const Gradient& gradient : g.Gradients({loss}, {q, k, v})) fetches.push_back(gradient.dense);
  const auto tensor = [](std::vector<int64_t> dims, uint32_t seed) {
    return *Tensor::From(Numbers(dims, seed), Shape(dims));
  };
  const std::vector<Feed> feeds = {
      {q, tensor({3, 2, 20, 16}, 1)}, {k, tensor({3, 1, 30, 16}, 2)}, {v, tensor({30, 24}, 3)}};
  const Answer alone = AnswerOf(g, feeds, fetches, false), together = AnswerOf(g, feeds, fetches, true);
  EXPECT_EQ(together.products, 7);
  for (size_t n = 0; n < 4; ++n) {
    ASSERT_EQ(together.values[n].size(), alone.values[n].size());
    for (size_t i = 0; i < alone.values[n].size(); ++i)
      ASSERT_NEAR(together.values[n][i], alone.values[n][i], 2e-4) << n << " " << i;
  }
}

// Whoever asks for one or two of them has the others not computed.
TEST(GpuAttentionGradient, OfWhatIsAskedForAlone) {
  const Trained layer({.s = {1, 2, 40, 50, 32, 64}});
  const Answer all = AnswerOf(layer.g, layer.Feeds(), layer.Fetches(), false);
  for (const std::vector<size_t>& asked : {std::vector<size_t>{0}, {1}, {0, 1}, {0, 2}, {1, 2}}) {
    std::vector<Name> fetches;
    for (const size_t k : asked) fetches.push_back(layer.gradients[k]);
    const Answer some = AnswerOf(layer.g, layer.Feeds(), fetches, true);
    EXPECT_EQ(some.products, 4 + static_cast<int>(asked.size()));
    for (size_t n = 0; n < asked.size(); ++n) {
      ASSERT_EQ(some.values[n].size(), all.values[asked[n] + 1].size());
      for (size_t i = 0; i < some.values[n].size(); ++i)
        ASSERT_NEAR(some.values[n][i], all.values[asked[n] + 1][i], 1e-4) << asked[n] << " " << i;
    }
  }
  const Answer of_values = AnswerOf(layer.g, layer.Feeds(), {layer.gradients[2]}, true);  // needs no gradient of scores
  for (size_t i = 0; i < all.values[3].size(); ++i) ASSERT_NEAR(of_values.values[0][i], all.values[3][i], 1e-4) << i;
}

TEST(GpuAttentionGradient, ThatOthersReadGivesThemWhatTheyRead) {
  Trained layer({.s = {1, 2, 12, 14, 16, 16}});
  const Output of_probabilities = layer.g.Gradients({layer.loss}, {layer.probabilities})[0].dense;
  const Output sorted = layer.g.Op("Cumsum", {layer.probabilities, layer.g.Const(3)}),
               of_scores = layer.g.Op("Cumsum", {layer.scores, layer.g.Const(3)});
  for (const Output& read : {layer.probabilities, layer.scores, of_probabilities, sorted, of_scores}) {
    std::vector<Name> fetches = layer.Fetches();
    fetches.push_back(read);
    const Answer alone = AnswerOf(layer.g, layer.Feeds(), fetches, false),
                 together = AnswerOf(layer.g, layer.Feeds(), fetches, true);
    for (size_t k = 0; k < 5; ++k) {
      ASSERT_EQ(together.values[k].size(), alone.values[k].size());
      for (size_t i = 0; i < alone.values[k].size(); ++i)
        ASSERT_NEAR(together.values[k][i], alone.values[k][i], 5e-5) << k << " " << i;
    }
  }
}

TEST(GpuAttentionGradient, MakesScoresTwiceOnlyWhereTheyAreFused) {
  const Trained layer({.s = {1, 2, 12, 14, 16, 16}}), other({.s = {1, 2, 12, 14, 12, 16}});
  EXPECT_EQ(AnswerOf(layer.g, layer.Feeds(), layer.Fetches(), true).softmaxes, 2);
  EXPECT_EQ(AnswerOf(layer.g, layer.Feeds(), layer.Fetches(), false).softmaxes, 1);
  EXPECT_EQ(AnswerOf(layer.g, layer.Feeds(), {layer.y}, true).softmaxes, 1);
  EXPECT_EQ(AnswerOf(other.g, other.Feeds(), other.Fetches(), true).softmaxes, 1);
}

// A value that is fed is the one that counts.
TEST(GpuAttentionGradient, OfScoresThatAreFedReadsThese) {
  const Trained layer({.s = {1, 2, 12, 14, 16, 16}});
  for (const Output& fed : {layer.scores, layer.probabilities}) {
    std::vector<Feed> feeds = layer.Feeds();
    feeds.push_back({fed, *Tensor::From(Numbers({1, 2, 12, 14}, 21), Shape{1, 2, 12, 14})});
    const std::vector<Name> fetches = {layer.y, layer.gradients[2]};
    const Answer alone = AnswerOf(layer.g, feeds, fetches, false), together = AnswerOf(layer.g, feeds, fetches, true);
    for (size_t k = 0; k < 2; ++k) {
      ASSERT_EQ(together.values[k].size(), alone.values[k].size());
      for (size_t i = 0; i < alone.values[k].size(); ++i)
        ASSERT_NEAR(together.values[k][i], alone.values[k][i], 5e-5) << k << " " << i;
    }
  }
}

TEST(GpuAttentionGradient, OfOtherShapesStaysAsItWas) {
  ExpectGradients({.s = {1, 1, 9, 9, 12, 16}}, false);
  ExpectGradients({.s = {1, 1, 9, 9, 16, 12}}, false);
  ExpectGradients({.s = {1, 1, 9, 9, 136, 16}}, false);
  // A mask that is trained, and what drops probabilities.
  Graph g(Gpus());
  const Output q = g.Placeholder("q", DType::kFloat, Shape{2, 16, 16}),
               mask = g.Placeholder("mask", DType::kFloat, Shape{16, 16}),
               kept = g.Placeholder("kept", DType::kFloat, Shape{2, 16, 16});
  const Output probabilities =
      g.Op("Softmax", {g.Op("AddV2", {g.Op("BatchMatMulV2", {q, q}, {{"adj_y", true}}), mask})});
  const std::vector<Feed> feeds = {{q, *Tensor::From(Numbers({2, 16, 16}, 1), Shape{2, 16, 16})},
                                   {mask, *Tensor::From(Numbers({16, 16}, 2), Shape{16, 16})},
                                   {kept, *Tensor::From(std::vector<float>(512, 1), Shape{2, 16, 16})}};
  for (const bool drops : {false, true}) {
    const Output y = g.Op("BatchMatMulV2", {drops ? g.Op("Mul", {probabilities, kept}) : probabilities, q});
    const Output loss = g.Op("Sum", {g.Op("Square", {y}), g.Const(std::vector<int32_t>{0, 1, 2}, Shape{3})});
    std::vector<Name> fetches = {y};
    for (const Gradient& gradient : g.Gradients({loss}, drops ? std::vector<Output>{q} : std::vector<Output>{q, mask}))
      fetches.push_back(gradient.dense);
    const Answer alone = AnswerOf(g, feeds, fetches, false), together = AnswerOf(g, feeds, fetches, true);
    EXPECT_EQ(together.products, 0) << drops;
    for (size_t k = 0; k < fetches.size(); ++k) {
      ASSERT_EQ(alone.values[k].size(), together.values[k].size());
      for (size_t i = 0; i < alone.values[k].size(); ++i)
        ASSERT_NEAR(together.values[k][i], alone.values[k][i], 1e-4 * std::max(1.0f, std::fabs(alone.values[k][i])))
            << k << " " << i;
    }
  }
}

// Step after step, in captured pieces and with memory that is used again.
TEST(GpuAttentionGradient, GivesTheSameInEveryStep) {
  Graph g(Gpus());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{2, 30, 16});
  Output y = x;
  for (int layer = 0; layer < 3; ++layer) {
    const Output scores = g.Op("Mul", {g.Op("BatchMatMulV2", {y, y}, {{"adj_y", true}}), g.Const(0.25f)});
    y = g.Op("AddV2", {y, g.Op("BatchMatMulV2", {g.Op("Softmax", {scores}), g.Op("Tanh", {y})})});
  }
  const Output loss = g.Op("Mean", {g.Op("Square", {y}), g.Const(std::vector<int32_t>{0, 1, 2}, Shape{3})});
  const std::vector<Name> fetches = {y, g.Gradients({loss}, {x})[0].dense};
  const std::vector<Feed> feeds = {{x, *Tensor::From(Numbers({2, 30, 16}, 9), Shape{2, 30, 16})}};
  const Answer alone = AnswerOf(g, feeds, fetches, false), together = AnswerOf(g, feeds, fetches, true, 8);
  EXPECT_EQ(together.products, 21);
  for (size_t k = 0; k < 2; ++k) {
    for (size_t i = 0; i < alone.values[k].size(); ++i)
      ASSERT_NEAR(together.values[k][i], alone.values[k][i], 5e-5) << k << " " << i;
  }
}

// A layer's training step as BERT has it, without what changes the weights: what it asks of the driver.
TEST(GpuAttentionGradient, OfALayerIsThreeLaunchesOfTheDriver) {
  const EmulatedDriverControls* const counts = DriverCounts();
  if (counts == nullptr) GTEST_SKIP() << "only the emulated driver counts";
  BertLayer layer;
  const Output loss =
      layer.g.Op("Mean", {layer.g.Op("Square", {layer.y}), layer.g.Const(std::vector<int32_t>{0, 1}, Shape{2})});
  std::vector<Output> of = layer.weights;
  of.push_back(layer.x);
  std::vector<Name> fetches = {loss};
  for (const Gradient& gradient : layer.g.Gradients({loss}, of)) fetches.push_back(gradient.dense);
  const uint64_t alone = LaunchesOf(*counts, layer.g, layer.Feeds(), fetches, false),
                 together = LaunchesOf(*counts, layer.g, layer.Feeds(), fetches, true);
  const Answer one_by_one = AnswerOf(layer.g, layer.Feeds(), fetches, false),
               at_once = AnswerOf(layer.g, layer.Feeds(), fetches, true);
  EXPECT_EQ(at_once.products, 7);
  for (size_t k = 0; k < fetches.size(); ++k) {
    for (size_t i = 0; i < one_by_one.values[k].size(); ++i)
      ASSERT_NEAR(at_once.values[k][i], one_by_one.values[k][i], 1e-5) << k << " " << i;
  }
  std::printf("launches of a layer's training step: %llu kernel by kernel, %llu compiled\n",
              static_cast<unsigned long long>(alone), static_cast<unsigned long long>(together));
  EXPECT_EQ(together, alone - 17);  // fourteen are three; the others are chains, and products with their biases
}

}  // namespace
}  // namespace tenon::engine::gpu_attention_gradient_test
