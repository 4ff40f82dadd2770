// SPDX-License-Identifier: Apache-2.0
// Ops of vendors: names of theirs, versions of theirs, and a gradient that another package brings. Covers A11, K3.
#include <string>
#include <vector>

#include "tests/engine/engine.h"

namespace tenon::engine::vendor_op_test {
namespace {

Runtime With(std::vector<std::string> plugins) {
  RuntimeOptions options;
  options.plugins = std::move(plugins);
  auto runtime = Runtime::Create(options);
  EXPECT_TRUE(runtime.ok()) << runtime.status().message();
  return *std::move(runtime);
}

double GradientOf(Runtime& runtime) {
  Graph graph(runtime);
  const Output x = graph.Placeholder("x", DType::kFloat, {2});
  const auto dx = graph.Gradients({graph.Op("Test>Tripled", {x}, {{"scale", 5.0f}})}, {x});
  EXPECT_TRUE(graph.status().ok()) << graph.status().message();
  auto session = Session::Create(runtime, graph);
  EXPECT_TRUE(session.ok());
  auto values = session->Run({{x, TensorOf(DType::kFloat, {2}, {1, 2})}}, {dx[0].dense});
  EXPECT_TRUE(values.ok()) << values.status().message();
  return values.ok() ? DoublesOf((*values)[0])[1] : -1;
}

TEST(VendorOp, AnotherPackageMayBringItsGradient) {
  Runtime both = With({TENON_VENDOR_2, TENON_VENDOR_GRADIENT});
  EXPECT_EQ(GradientOf(both), 5);
  Runtime alone = With({TENON_VENDOR_2});
  Graph graph(alone);
  const Output x = graph.Placeholder("x", DType::kFloat, {2});
  (void)graph.Gradients({graph.Op("Test>Tripled", {x})}, {x});
  EXPECT_NE(graph.status().message().find("op 'Test>Tripled' of plugin 'tenon.test.vendor' has no gradient"),
            std::string::npos)
      << graph.status().message();
  ASSERT_TRUE(alone.LoadPlugin(TENON_VENDOR_GRADIENT).ok());
  EXPECT_EQ(GradientOf(alone), 5);
  ASSERT_TRUE(alone.UnloadPlugin("tenon.test.vendor_gradient").ok());
  Graph again(alone);
  const Output z = again.Placeholder("x", DType::kFloat, {2});
  (void)again.Gradients({again.Op("Test>Tripled", {z})}, {z});
  EXPECT_NE(again.status().message().find("has no gradient"), std::string::npos) << again.status().message();
}

std::string GraphOfVersion(const char* plugin) {
  Runtime runtime = With({plugin});
  Graph graph(runtime);
  const Output x = graph.Placeholder("x", DType::kFloat, {2});
  graph.Op("Test>Tripled", {x}, {}, "tripled");
  graph.Op("Neg", {x}, {}, "negated");
  auto bytes = graph.Export();
  EXPECT_TRUE(bytes.ok()) << bytes.status().message();
  return *bytes;
}

TEST(VendorOp, AnOlderNodeRunsAndANewerOneSaysWhatItNeeds) {
  const std::string older = GraphOfVersion(TENON_VENDOR_1), newer = GraphOfVersion(TENON_VENDOR_2);
  EXPECT_NE(older, newer);
  Runtime of_two = With({TENON_VENDOR_2}), of_one = With({TENON_VENDOR_1});
  for (const std::string& bytes : {older, newer}) {
    auto graph = Graph::Import(of_two, bytes);
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    EXPECT_EQ(*graph->Export(), bytes) << "a node keeps its version";
    auto session = Session::Create(of_two, *graph);
    auto values = session->Run({{"x", TensorOf(DType::kFloat, {2}, {1, 2})}}, {"tripled"});
    ASSERT_TRUE(values.ok()) << values.status().message();
    EXPECT_EQ(DoublesOf((*values)[0]), (std::vector<double>{3, 6}));
  }
  const auto graph = Graph::Import(of_one, newer);
  ASSERT_FALSE(graph.ok());
  EXPECT_NE(graph.status().message().find("node 'tripled' (Test>Tripled): it is of version 2 of the op; package "
                                          "'tenon.test.vendor' has version 1: load a newer one"),
            std::string::npos)
      << graph.status().message();
}

TEST(VendorOp, ANodeCannotSayThatItIsNewerThanItsOp) {
  Runtime runtime = With({TENON_VENDOR_1});
  for (const auto& [version, what] :
       std::vector<std::pair<int64_t, std::string>>{{2, "it is of version 2 of the op"}, {1, ""}, {0, ""}}) {
    Graph graph(runtime);
    graph.Op("Test>Tripled", {graph.Placeholder("x", DType::kFloat, {2})}, {{"_op_version", version}});
    EXPECT_NE(graph.status().message().find(what), std::string::npos) << graph.status().message();
    EXPECT_EQ(graph.status().ok(), what.empty());
  }
}

// A stranger's element-wise kernel runs in one pass with its neighbours, with the attributes of its node; one for
// another host runs by itself.
TEST(VendorOp, IsOneOfTheKernelsOfAPass) {
  for (const bool known : {true, false}) {
    Runtime runtime = With({known ? TENON_VENDOR_2 : TENON_VENDOR_1});
    Graph graph(runtime);
    const Output x = graph.Placeholder("x", DType::kFloat, {-1});
    const Output a = graph.Op("Test>Tripled", {graph.Op("Neg", {x})}),
                 y = graph.Op("Test>Tripled", {graph.Op("Square", {a})}, {{"scale", 0.5f}});
    ASSERT_TRUE(graph.status().ok()) << graph.status().message();
    auto session = Session::Create(runtime, graph);
    auto callable = session->Prepare({x}, {y});
    ASSERT_TRUE(callable.ok()) << callable.status().message();
    std::vector<double> numbers, wanted;
    for (int i = 0; i < 5000; ++i) {
      numbers.push_back(i % 50 - 20);
      wanted.push_back(0.5 * 9 * numbers.back() * numbers.back());
    }
    const Tensor given = TensorOf(DType::kFloat, {5000}, numbers);
    auto values = callable->Run({given});
    ASSERT_TRUE(values.ok()) << values.status().message();
    EXPECT_EQ(DoublesOf((*values)[0]), wanted);
    const std::string how = *callable->Explain();
    size_t tiled = 0;
    for (size_t at = how.find("\"tiled\""); at != std::string::npos; at = how.find("\"tiled\"", at + 1)) ++tiled;
    EXPECT_EQ(tiled, known ? 4u : 0u) << how;
  }
}

}  // namespace
}  // namespace tenon::engine::vendor_op_test
