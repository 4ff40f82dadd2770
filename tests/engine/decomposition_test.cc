// SPDX-License-Identifier: Apache-2.0
// Ops that are made of others. What fused ops compute stands in tests/golden, but for _FusedBatchNormEx, which TensorFlow's CPU does not have.
#include <string>
#include <vector>

#include "tests/engine/engine.h"

namespace tenon::engine {
namespace {

class Decomposition : public ::testing::Test {
 protected:
  Output Floats(const std::vector<float>& values, const Shape& shape) { return g_.Const(*Tensor::From(values, shape)); }
  Output Image() { return Floats({1, -2, 3, 4, -5, 6, 7, 8}, {1, 2, 2, 2}); }
  Operation Normalize(const char* op, Attrs more, std::vector<Output> side = {}) {
    std::vector<Output> inputs = {Image(), Floats({2, 3}, {2}), Floats({-1, 1}, {2}), Floats({0.5f, 1}, {2}), Floats({4, 9}, {2})};
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
  const Output plain = Output(Normalize("FusedBatchNormV3", {})), side = Floats({-9, 1, 1, 1, 1, 1, 1, -9}, {1, 2, 2, 2});
  const Output wanted = g_.Op("Relu", {g_.Op("AddV2", {plain, side})});
  const Output fused = Output(Normalize("_FusedBatchNormEx", {{"num_side_inputs", 1}, {"activation_mode", "Relu"}}, {side}));
  const auto values = RunOnce(g_, {}, {fused, wanted});
  ASSERT_EQ(values.size(), 2u);
  EXPECT_EQ(Values<float>(values[0]), Values<float>(values[1]));
}

TEST_F(Decomposition, HasTheGradientOfWhatItIsMadeOf) {
  const Output a = Floats({1, 2, 3, 4}, {2, 2}), b = Floats({0.5f, -1, 2, 1}, {2, 2}), bias = Floats({-4, 1}, {2});
  const Output fused = g_.Op("_FusedMatMul", {a, b, bias}, {{"num_args", 1}, {"fused_ops", std::vector<std::string>{"BiasAdd", "Relu"}}});
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
  const Status unknown = Refusal(g_.Op("_FusedMatMul", {a, a}, {{"num_args", 0}, {"fused_ops", std::vector<std::string>{"Fold"}}}, "product"));
  EXPECT_EQ(unknown.code(), Code::kUnimplemented) << unknown.message();
  EXPECT_NE(unknown.message().find("the decomposition of node 'product' (_FusedMatMul): fused_ops has 'Fold'; known are"), std::string::npos) << unknown.message();
  const Status few = Refusal(g_.Op("_FusedMatMul", {a, a}, {{"num_args", 0}, {"fused_ops", std::vector<std::string>{"BiasAdd"}}}));
  EXPECT_NE(few.message().find("fused_ops take more arguments than the 0 that there are"), std::string::npos) << few.message();
}

}  // namespace
}  // namespace tenon::engine
