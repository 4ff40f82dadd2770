// SPDX-License-Identifier: Apache-2.0
// Functions that call functions, as TensorFlow wrote them, against what TensorFlow computed: values, and gradients
// through the calls. Covers Q1.
#include <nlohmann/json.hpp>

#include "tests/engine/engine.h"
#include "tests/golden/read_file.h"

namespace tenon::engine {
namespace {

class Functions : public ::testing::Test {
 protected:
  Functions() : golden_(nlohmann::json::parse(ReadFile("functions.json"))), bytes_(ReadFile("functions.pb")) {}

  void SetUp() override {
    for (const auto& [name, values] : golden_["feeds"].items()) {
      auto tensor =
          Tensor::From(values.get<std::vector<double>>(), Shape(golden_["shapes"][name].get<std::vector<int64_t>>()));
      ASSERT_TRUE(tensor.ok()) << tensor.status().message();
      tensors_.push_back(std::move(*tensor));
      names_.push_back(name);
    }
  }

  std::vector<Feed> Feeds() const {
    std::vector<Feed> feeds;
    for (size_t i = 0; i < names_.size(); ++i) feeds.push_back({names_[i] + ":0", tensors_[i]});
    return feeds;
  }
  // The first output of a node.
  static Output Of(const Graph& graph, const std::string& name) {
    auto node = graph.Find(name);
    EXPECT_TRUE(node.ok()) << node.status().message();
    return Output(*node);
  }

  nlohmann::json golden_;
  std::string bytes_;
  std::vector<std::string> names_;
  std::vector<Tensor> tensors_;
};

TEST_F(Functions, GiveTensorFlowsValue) {
  auto graph = Graph::Import(TheRuntime(), bytes_);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  const auto values = RunOnce(*graph, Feeds(), {"y:0"});
  ASSERT_EQ(values.size(), 1u);
  EXPECT_NEAR(Values<double>(values[0])[0], golden_["y"].get<double>(), 1e-12);
}

TEST_F(Functions, HaveTensorFlowsGradients) {
  auto graph = Graph::Import(TheRuntime(), bytes_);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  std::vector<Output> xs;
  for (const std::string& name : names_) xs.push_back(Of(*graph, name));
  const auto gradients = graph->Gradients({Of(*graph, "y")}, xs);
  ASSERT_TRUE(graph->status().ok()) << graph->status().message();
  std::vector<Name> fetches = {"y:0"};
  for (const auto& gradient : gradients) fetches.push_back(gradient.dense);
  const auto values = RunOnce(*graph, Feeds(), fetches);
  ASSERT_EQ(values.size(), fetches.size());
  EXPECT_NEAR(Values<double>(values[0])[0], golden_["y"].get<double>(), 1e-12);
  for (size_t x = 0; x < names_.size(); ++x) {
    const auto want = golden_["gradients"][names_[x]].get<std::vector<double>>();
    const auto got = Values<double>(values[x + 1]);
    ASSERT_EQ(got.size(), want.size()) << names_[x];
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-11) << names_[x] << "[" << i << "]";
  }
}

}  // namespace
}  // namespace tenon::engine
