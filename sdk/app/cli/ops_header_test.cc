// SPDX-License-Identifier: Apache-2.0
// A program over the generated wrappers: that this compiles is half of the test.
#include <gtest/gtest.h>

#include <vector>

#include "tenon/ops.h"

namespace tenon::ops_header_test {
namespace {

using host::DType;
using host::Graph;
using host::Output;
using host::Result;
using host::Runtime;
using host::Session;
using host::Tensor;

std::vector<float> Evaluate(const Runtime& runtime, const Graph& graph, const Output& output) {
  Result<Session> session = Session::Create(runtime, graph);
  EXPECT_TRUE(session.ok()) << session.status();
  if (!session.ok()) return {};
  Result<std::vector<Tensor>> values = session->Run({}, {output});
  EXPECT_TRUE(values.ok()) << values.status();
  if (!values.ok()) return {};
  return std::vector<float>((*values)[0].data<float>().begin(), (*values)[0].data<float>().end());
}

class OpsHeader : public testing::Test {
 protected:
  OpsHeader() : runtime_(Runtime::Create()) {}
  void SetUp() override { ASSERT_TRUE(runtime_.ok()) << runtime_.status(); }
  Result<Runtime> runtime_;
};

TEST_F(OpsHeader, TakesInputsAndOptions) {
  Graph graph(*runtime_);
  Output a = graph.Const(std::vector<float>{1, 2, 3, 4}, {2, 2});
  ops::MatMulOptions transposed;
  transposed.transpose_b = true;
  EXPECT_EQ((std::vector<float>{5, 11, 11, 25}), Evaluate(*runtime_, graph, ops::MatMul(graph, a, a, transposed)));
}

TEST_F(OpsHeader, TakesListsAndAttributesWithoutDefault) {
  Graph graph(*runtime_);
  Output a = graph.Const({1.0f}), b = graph.Const({2.0f}),
         image = graph.Const(std::vector<float>{1, 2, 3, 4}, {1, 2, 2, 1});
  Output joined = ops::ConcatV2(graph, {a, b, a}, graph.Const(0));
  EXPECT_EQ((std::vector<float>{1, 2, 1}), Evaluate(*runtime_, graph, joined));
  Output pooled = ops::MaxPool(graph, image, {1, 2, 2, 1}, {1, 2, 2, 1}, "VALID");
  EXPECT_EQ((std::vector<float>{4}), Evaluate(*runtime_, graph, pooled));
}

TEST_F(OpsHeader, GivesSeveralOutputsByName) {
  Graph graph(*runtime_);
  Output logits = graph.Const(std::vector<float>{0, 0}, {1, 2}), labels = graph.Const(std::vector<float>{1, 0}, {1, 2});
  const ops::SoftmaxCrossEntropyWithLogitsOutputs both = ops::SoftmaxCrossEntropyWithLogits(graph, logits, labels);
  EXPECT_EQ((std::vector<float>{-0.5f, 0.5f}), Evaluate(*runtime_, graph, both.backprop));
  const std::vector<Output> halves =
      ops::Split(graph, graph.Const(1), graph.Const(std::vector<float>{5, 6}, {1, 2}), 2);
  ASSERT_EQ(2u, halves.size());
  EXPECT_EQ((std::vector<float>{6}), Evaluate(*runtime_, graph, halves[1]));
}

TEST_F(OpsHeader, LeavesFailuresOnTheGraph) {
  Graph graph(*runtime_);
  Output wrong = ops::Relu(graph, ops::MatMul(graph, graph.Const(1.0f), graph.Const({1.0f})));
  EXPECT_FALSE(wrong.valid());
  EXPECT_FALSE(graph.status().ok());
  EXPECT_NE(std::string::npos, graph.status().message().find("MatMul")) << graph.status();
}

}  // namespace
}  // namespace tenon::ops_header_test
