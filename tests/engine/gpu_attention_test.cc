// SPDX-License-Identifier: Apache-2.0
// Attention that a GPU's compiler makes one launch of gives what its kernels one by one give, and what the formula
// says; where scores or probabilities are read by others, or kernels do not have the shape, everything stays as it was.
// Covers N8, Q2, Q4.
#include <cmath>
#include <cstdio>

#include "tests/engine/gpu_attention.h"

namespace tenon::engine::gpu_attention_test {
namespace {

void ExpectOne(const Case& c, int nodes) {
  const Layer layer(c);
  const std::vector<Feed> feeds = layer.Feeds();
  const std::string what = std::to_string(c.s.batch) + "," + std::to_string(c.s.heads) + "," +
                           std::to_string(c.s.queries) + "," + std::to_string(c.s.keys) + "," +
                           std::to_string(c.s.depth) + " " + std::string(DTypeName(c.dtype));
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

TEST(GpuAttention, OfAnyLengthAndHeadIsOneLaunch) {
  for (const DType dtype : kTypes) {
    for (const Sizes& s :
         {Sizes{1, 1, 1, 1, 8, 8}, Sizes{2, 3, 5, 7, 16, 16}, Sizes{1, 2, 64, 64, 64, 64}, Sizes{2, 1, 65, 129, 64, 64},
          Sizes{1, 1, 70, 33, 128, 128}, Sizes{1, 2, 1, 200, 64, 64}, Sizes{1, 1, 130, 1, 32, 32},
          Sizes{1, 1, 33, 97, 80, 80}, Sizes{1, 2, 20, 40, 24, 104}, Sizes{3, 1, 17, 66, 96, 40}}) {
      ExpectOne({.s = s, .dtype = dtype}, 4);
    }
  }
}

TEST(GpuAttention, AddsMasksOfAnyBroadcast) {
  const Sizes s = {2, 3, 21, 70, 32, 32};
  for (const DType dtype : kTypes) {
    for (const std::vector<int64_t>& dims : {std::vector<int64_t>{2, 1, 1, 70},
                                             {2, 1, 21, 70},
                                             {21, 70},
                                             {1, 3, 21, 70},
                                             {2, 3, 21, 70},
                                             {70},
                                             {1, 1, 1, 70},
                                             {2, 1, 21, 1},
                                             {21, 1},
                                             {1}}) {
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
        const Answer alone = AnswerOf(layer.g, layer.Feeds(), {layer.y}, false),
                     together = AnswerOf(layer.g, layer.Feeds(), {layer.y}, true);
        ASSERT_EQ(alone.values[0].size(), together.values[0].size());
        for (size_t i = 0; i < alone.values[0].size(); ++i) {
          const float a = alone.values[0][i], b = together.values[0][i];
          ASSERT_EQ(std::isnan(a), std::isnan(b)) << where << " " << strange << " " << i;
          ASSERT_TRUE(std::isnan(a) || a == b || std::fabs(a - b) < 3 * BoundOf(dtype) * std::max(1.0f, std::fabs(a)))
              << where << " " << strange << " " << i;
        }
      }
    }
  }
}

TEST(GpuAttention, OfLengthsThatComeWithTheStepIsOneLaunchToo) {
  for (const DType dtype : kTypes) {
    ExpectOne({.s = {2, 3, 18, 35, 64, 64},
               .dtype = dtype,
               .mask_dims = {2, 1, 1, 35},
               .mask = Numbers({35 * 2}, 7),
               .unknown = true},
              5);
  }
}

TEST(GpuAttention, WithoutQueriesOrBatchesIsEmpty) {
  for (const Sizes& s : {Sizes{0, 2, 3, 4, 8, 8}, Sizes{1, 2, 0, 4, 8, 8}}) {
    const Layer layer({.s = s, .unknown = true});
    EXPECT_EQ(AnswerOf(layer.g, layer.Feeds(), {layer.y}, true).values, (std::vector<std::vector<float>>{{}}));
  }
  const Layer layer({.s = {1, 2, 3, 0, 8, 8}, .unknown = true});  // sums of nothing
  EXPECT_EQ(AnswerOf(layer.g, layer.Feeds(), {layer.y}, true).values,
            (std::vector<std::vector<float>>{std::vector<float>(1 * 2 * 3 * 8, 0)}));
}

// As Keras has it: heads stand between rows, and keys may be the first operand.
TEST(GpuAttention, OfEinsumsIsOneLaunch) {
  const int64_t batch = 2, heads = 3, queries = 19, keys = 70, depth = 40;
  const struct {
    const char *scores, *values;
    bool key_first;
  } forms[] = {{"BTNH,BSNH->BNTS", "BNTS,BSNH->BTNH", false},
               {"aecd,abcd->acbe", "acbe,aecd->abcd", true},
               {"...qnd,...knd->...nqk", "...nqk,...knd->...qnd", false}};
  for (const auto& form : forms) {
    Graph g(Gpus());
    const Output q = g.Placeholder("q", DType::kFloat, Shape{-1, queries, heads, depth}),
                 k = g.Placeholder("k", DType::kFloat, Shape{-1, keys, heads, depth});
    const Output v = g.Placeholder("v", DType::kFloat, Shape{-1, keys, heads, depth}),
                 mask = g.Placeholder("mask", DType::kFloat, Shape{-1, 1, 1, keys});
    const auto einsum = [&](const char* equation, const Output& a, const Output& b) {
      return g.Op("Einsum", {a, b}, {{"equation", equation}});
    };
    const Output scores = g.Op(
        "AddV2",
        {g.Op("Mul", {form.key_first ? einsum(form.scores, k, q) : einsum(form.scores, q, k), g.Const(0.25f)}), mask});
    const Output y = einsum(form.values, g.Op("Softmax", {scores}), v);
    const auto tensor = [](std::vector<int64_t> dims, uint32_t seed) {
      return *Tensor::From(Numbers(dims, seed), Shape(dims));
    };
    const std::vector<Feed> feeds = {{q, tensor({batch, queries, heads, depth}, 1)},
                                     {k, tensor({batch, keys, heads, depth}, 2)},
                                     {v, tensor({batch, keys, heads, depth}, 3)},
                                     {mask, tensor({batch, 1, 1, keys}, 4)}};
    const Answer alone = AnswerOf(g, feeds, {y}, false), together = AnswerOf(g, feeds, {y}, true);
    EXPECT_EQ(together.compiled, 5) << form.scores;
    ASSERT_EQ(together.values[0].size(), alone.values[0].size());
    for (size_t i = 0; i < alone.values[0].size(); ++i)
      ASSERT_NEAR(together.values[0][i], alone.values[0][i], 4e-6) << form.scores << " " << i;
  }
}

// Masks that a chain makes of zeros and ones stay a chain; what is subtracted counts as well.
TEST(GpuAttention, TakesWhatAChainMakesOfAMask) {
  Graph g(Gpus());
  const Output q = g.Placeholder("q", DType::kFloat, Shape{2, 2, 9, 16}),
               seen = g.Placeholder("seen", DType::kFloat, Shape{2, 1, 1, 9});
  const Output scores = g.Op("BatchMatMulV2", {q, q}, {{"adj_y", true}});
  const auto end = [&](const Output& x) { return g.Op("BatchMatMulV2", {g.Op("Softmax", {x}), q}); };
  std::vector<float> ones(18, 1);
  ones[3] = ones[8] = ones[12] = 0;
  const std::vector<Feed> feeds = {{q, *Tensor::From(Numbers({2, 2, 9, 16}, 5), Shape{2, 2, 9, 16})},
                                   {seen, *Tensor::From(ones, Shape{2, 1, 1, 9})}};
  const Output unseen = g.Op("Sub", {g.Const(1.0f), seen});
  const Output fetches[] = {
      end(g.Op("AddV2", {scores, g.Op("Mul", {unseen, g.Const(-1e9f)})})),
      end(g.Op("AddV2",
               {g.Op("Sub", {g.Op("BatchMatMulV2", {q, q}, {{"adj_y", true}}), g.Op("Mul", {unseen, g.Const(1e9f)})}),
                g.Const(1e-9f)}))};
  int compiled[] = {6, 7};
  for (int i = 0; i < 2; ++i) {
    const Answer alone = AnswerOf(g, feeds, {fetches[i]}, false), together = AnswerOf(g, feeds, {fetches[i]}, true);
    EXPECT_EQ(together.compiled, compiled[i]);
    for (size_t k = 0; k < alone.values[0].size(); ++k)
      ASSERT_NEAR(together.values[0][k], alone.values[0][k], 4e-6) << k;
  }
}

TEST(GpuAttention, ThatOthersReadGivesThemWhatTheyRead) {
  const Layer layer({.s = {1, 2, 12, 14, 16, 16}});
  for (const Output& read : {layer.probabilities, layer.scores}) {
    const Answer alone = AnswerOf(layer.g, layer.Feeds(), {layer.y, read}, false),
                 together = AnswerOf(layer.g, layer.Feeds(), {layer.y, read}, true);
    for (size_t k = 0; k < 2; ++k) {
      ASSERT_EQ(together.values[k].size(), alone.values[k].size());
      for (size_t i = 0; i < alone.values[k].size(); ++i)
        ASSERT_NEAR(together.values[k][i], alone.values[k][i], 1e-5) << k << " " << i;
    }
  }
  for (const bool of_scores : {false, true}) {
    Layer more({.s = {1, 2, 12, 14, 16, 16}});
    const Output other = more.g.Op("Cumsum", {of_scores ? more.scores : more.probabilities, more.g.Const(3)});
    const Answer alone = AnswerOf(more.g, more.Feeds(), {more.y, other}, false),
                 together = AnswerOf(more.g, more.Feeds(), {more.y, other}, true);
    EXPECT_EQ(together.compiled, 2);  // the scale and the softmax
    for (size_t k = 0; k < 2; ++k) {
      for (size_t i = 0; i < alone.values[k].size(); ++i)
        ASSERT_NEAR(together.values[k][i], alone.values[k][i], 1e-5) << k << " " << i;
    }
  }
}

// As it was: the scale and the softmax are a chain.
TEST(GpuAttention, OfOtherShapesStaysAsItWas) {
  const auto compiled = [](const Case& c) {
    const Layer layer(c);
    const Answer alone = AnswerOf(layer.g, layer.Feeds(), {layer.y}, false),
                 together = AnswerOf(layer.g, layer.Feeds(), {layer.y}, true);
    for (size_t i = 0; i < alone.values[0].size(); ++i)
      EXPECT_NEAR(together.values[0][i], alone.values[0][i], 1e-5) << i;
    return together.compiled;
  };
  EXPECT_EQ(compiled({.s = {1, 1, 9, 9, 12, 16}}), 2);
  EXPECT_EQ(compiled({.s = {1, 1, 9, 9, 16, 12}}), 2);
  EXPECT_EQ(compiled({.s = {1, 1, 9, 9, 136, 16}}), 2);
  EXPECT_EQ(compiled({.s = {1, 1, 9, 9, 4, 8}}), 2);
  EXPECT_EQ(compiled({.s = {1, 1, 9, 9, 16, 16}}), 4);
  Graph g(Gpus());  // keys as columns, and a mask that is larger than the scores
  const Output q = g.Placeholder("q", DType::kFloat, Shape{2, 16, 16}),
               mask = g.Placeholder("mask", DType::kFloat, Shape{3, 2, 16, 16});
  const std::vector<Feed> feeds = {{q, *Tensor::From(Numbers({2, 16, 16}, 1), Shape{2, 16, 16})},
                                   {mask, *Tensor::From(Numbers({3, 2, 16, 16}, 2), Shape{3, 2, 16, 16})}};
  const Output columns = g.Op("BatchMatMulV2", {g.Op("Softmax", {g.Op("Neg", {g.Op("BatchMatMulV2", {q, q})})}), q});
  const Output larger = g.Op(
      "BatchMatMulV2", {g.Op("Softmax", {g.Op("AddV2", {g.Op("BatchMatMulV2", {q, q}, {{"adj_y", true}}), mask})}), q});
  for (const Output& y : {columns, larger}) {
    const Answer alone = AnswerOf(g, feeds, {y}, false), together = AnswerOf(g, feeds, {y}, true);
    ASSERT_EQ(alone.values[0].size(), together.values[0].size());
    for (size_t i = 0; i < alone.values[0].size(); ++i)
      ASSERT_NEAR(together.values[0][i], alone.values[0][i], 1e-5) << i;
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
  const EmulatedDriverControls* const counts = DriverCounts();
  if (counts == nullptr) GTEST_SKIP() << "only the emulated driver counts";
  const BertLayer layer;
  const auto launches = [&](bool compile, bool others_read) {
    return LaunchesOf(*counts, layer.g, layer.Feeds(),
                      others_read ? std::vector<Name>{layer.y, layer.probabilities} : std::vector<Name>{layer.y},
                      compile);
  };
  const uint64_t alone = launches(false, false), read = launches(true, true), together = launches(true, false);
  std::printf(
      "launches of a layer: %llu kernel by kernel, %llu compiled where others read the probabilities, %llu compiled\n",
      static_cast<unsigned long long>(alone), static_cast<unsigned long long>(read),
      static_cast<unsigned long long>(together));
  EXPECT_EQ(together, alone - 4 - 4);  // five are one, and each of four products is one with its bias
  EXPECT_EQ(together, read - 2);
}

}  // namespace
}  // namespace tenon::engine::gpu_attention_test
