// SPDX-License-Identifier: Apache-2.0
// Ops that are made of others. What fused ops compute stands in tests/golden, but for those that TensorFlow's CPU does
// not have, or only in graphs of old.
#include <limits>
#include <string>
#include <vector>

#include "tests/engine/engine.h"

namespace tenon::engine::decomposition_test {
namespace {

class Decomposition : public ::testing::Test {
 protected:
  Output Floats(const std::vector<float>& values, const Shape& shape) { return g_.Const(*Tensor::From(values, shape)); }
  Output Image() { return Floats({1, -2, 3, 4, -5, 6, 7, 8}, {1, 2, 2, 2}); }
  Operation Normalize(const char* op, Attrs more, std::vector<Output> side = {}) {
    std::vector<Output> inputs = {Image(), Floats({2, 3}, {2}), Floats({-1, 1}, {2}), Floats({0.5f, 1}, {2}),
                                  Floats({4, 9}, {2})};
    inputs.insert(inputs.end(), side.begin(), side.end());
    more.emplace_back("is_training", false);
    return g_.AddNode(op, inputs, more);
  }
  Status Refusal(const Output& fetch) {
    auto session = Session::Create(TheRuntime(), g_);
    return session.ok() ? session->Run({}, {fetch}).status() : session.status();
  }

  Graph g_{TheRuntime()};
};

TEST_F(Decomposition, GivesANormalizationWithASideInputAndARectifier) {
  const Output plain = Output(Normalize("FusedBatchNormV3", {})),
               side = Floats({-9, 1, 1, 1, 1, 1, 1, -9}, {1, 2, 2, 2});
  const Output wanted = g_.Op("Relu", {g_.Op("AddV2", {plain, side})});
  const Output fused =
      Output(Normalize("_FusedBatchNormEx", {{"num_side_inputs", 1}, {"activation_mode", "Relu"}}, {side}));
  const auto values = RunOnce(g_, {}, {fused, wanted});
  ASSERT_EQ(values.size(), 2u);
  EXPECT_EQ(Values<float>(values[0]), Values<float>(values[1]));
}

// TensorFlow takes this op in graphs of producers before 9 alone; the numbers are its formula's.
TEST_F(Decomposition, GivesTheNormalizationOfOldGraphsAndItsGradient) {
  const Output mean = Floats({0.5f, 1}, {2}), variance = Floats({4, 9}, {2}), offset = Floats({-1, 1}, {2}),
               scale = Floats({2, 3}, {2});
  for (const bool scaled : {false, true}) {
    const Attrs attrs = {{"variance_epsilon", 0.0f}, {"scale_after_normalization", scaled}};
    const Output y = g_.Op("BatchNormWithGlobalNormalization", {Image(), mean, variance, offset, scale}, attrs);
    const Operation dy =
        g_.AddNode("BatchNormWithGlobalNormalizationGrad",
                   {Image(), mean, variance, scale, Floats({1, 0, 0, 0, 0, 2, 0, 0}, {1, 2, 2, 2})}, attrs);
    const auto values = RunOnce(g_, {}, {y, dy.output(0), dy.output(1), dy.output(2), dy.output(3), dy.output(4)});
    ASSERT_EQ(values.size(), 6u);
    const float by = scaled ? 1 : 0.5f, by_second = scaled ? 1 : 1 / 3.0f;  // scale over deviation
    const std::vector<std::vector<float>> wanted = {
        {0.5f * by - 1, -3 * by_second + 1, 2.5f * by - 1, 3 * by_second + 1, -5.5f * by - 1, 5 * by_second + 1,
         6.5f * by - 1, 7 * by_second + 1},
        {by, 0, 0, 0, 0, 2 * by_second, 0, 0},
        {-by, -2 * by_second},
        {0.5f * by * -0.5f / 4, 10 * by_second * -0.5f / 9},
        {1, 2},
        {scaled ? 0.25f : 0, scaled ? 10 / 3.0f : 0}};
    for (size_t i = 0; i < wanted.size(); ++i) {
      const std::vector<float> found = Values<float>(values[i]);
      ASSERT_EQ(found.size(), wanted[i].size());
      for (size_t k = 0; k < found.size(); ++k)
        EXPECT_NEAR(found[k], wanted[i][k], 1e-6) << "output " << i << ", element " << k << ", scaled " << scaled;
    }
  }
}

// Only TensorFlow's compiler has these.
TEST_F(Decomposition, GivesSortedSegmentsWhoseNumberIsTold) {
  const Output data = Floats({1, 2, 3, 4}, {4}), ids = g_.Const(*Tensor::From(std::vector<int32_t>{0, 0, 2, 2}, {4})),
               count = g_.Const(4);
  const auto of = [&](const char* op) { return g_.Op(op, {data, ids, count}); };
  const auto values =
      RunOnce(g_, {}, {of("SegmentSumV2"), of("SegmentProdV2"), of("SegmentMaxV2"), of("SegmentMinV2")});
  ASSERT_EQ(values.size(), 4u);
  constexpr float kMost = std::numeric_limits<float>::max();
  EXPECT_EQ(Values<float>(values[0]), (std::vector<float>{3, 0, 7, 0}));
  EXPECT_EQ(Values<float>(values[1]), (std::vector<float>{2, 1, 12, 1}));
  EXPECT_EQ(Values<float>(values[2]), (std::vector<float>{2, -kMost, 4, -kMost}));
  EXPECT_EQ(Values<float>(values[3]), (std::vector<float>{1, kMost, 3, kMost}));
}

TEST_F(Decomposition, HasTheGradientOfWhatItIsMadeOf) {
  const Output a = Floats({1, 2, 3, 4}, {2, 2}), b = Floats({0.5f, -1, 2, 1}, {2, 2}), bias = Floats({-4, 1}, {2});
  const Output fused = g_.Op("_FusedMatMul", {a, b, bias},
                             {{"num_args", 1}, {"fused_ops", std::vector<std::string>{"BiasAdd", "Relu"}}});
  const Output parts = g_.Op("Relu", {g_.Op("BiasAdd", {g_.Op("MatMul", {a, b}), bias})});
  std::vector<Name> fetches = {fused, parts};
  for (const Output& y : {fused, parts})
    for (const Gradient& gradient : g_.Gradients({y}, {a, b, bias})) fetches.push_back(gradient.dense);
  ASSERT_TRUE(g_.status().ok()) << g_.status().message();
  const auto values = RunOnce(g_, {}, fetches);
  ASSERT_EQ(values.size(), 8u);
  EXPECT_EQ(Values<float>(values[0]), Values<float>(values[1]));
  for (size_t i = 2; i < 5; ++i) EXPECT_EQ(Values<float>(values[i]), Values<float>(values[i + 3]));
}

TEST_F(Decomposition, SaysWhatItCannotBeMadeOf) {
  const Output a = Floats({1, 2, 3, 4}, {2, 2});
  const Status unknown = Refusal(
      g_.Op("_FusedMatMul", {a, a}, {{"num_args", 0}, {"fused_ops", std::vector<std::string>{"Fold"}}}, "product"));
  EXPECT_EQ(unknown.code(), Code::kUnimplemented) << unknown.message();
  EXPECT_NE(
      unknown.message().find("the decomposition of node 'product' (_FusedMatMul): fused_ops has 'Fold'; known are"),
      std::string::npos)
      << unknown.message();
  const Status few =
      Refusal(g_.Op("_FusedMatMul", {a, a}, {{"num_args", 0}, {"fused_ops", std::vector<std::string>{"BiasAdd"}}}));
  EXPECT_NE(few.message().find("fused_ops take more arguments than the 0 that there are"), std::string::npos)
      << few.message();
}

}  // namespace
}  // namespace tenon::engine::decomposition_test
