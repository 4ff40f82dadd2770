// SPDX-License-Identifier: Apache-2.0
// One plugin in two runtimes with other options; which of its kernels take a node, and what is said of those that do
// not.
#include <string>
#include <thread>

#include "tests/engine/engine.h"

namespace tenon::engine::plugin_instance_test {
namespace {

Runtime With(const std::string& factor, const std::string& ready = "false") {
  RuntimeOptions options;
  options.plugins = {TENON_TEST_SETTINGS_PLUGIN};
  options.plugin_options = {{"tenon.test.settings", "factor", factor}, {"tenon.test.settings", "ready", ready}};
  auto runtime = Runtime::Create(options);
  EXPECT_TRUE(runtime.ok()) << runtime.status().message();
  return *std::move(runtime);
}

// y, dx, the number of ones, and x repeated, of x = 3.
std::vector<double> Answers(Runtime& runtime) {
  Graph graph(runtime);
  const Output x = graph.Placeholder("x", DType::kFloat, {1});
  const Operation scaled = graph.AddNode("TestScaled", {x});
  const Output repeated = graph.Op("TestRepeated", {x});
  const auto dx = graph.Gradients({scaled.output(0)}, {x});
  EXPECT_TRUE(graph.status().ok()) << graph.status().message();
  auto session = Session::Create(runtime, graph);
  if (!session.ok()) return {};
  auto values = session->Run({{x, TensorOf(DType::kFloat, {1}, {3})}},
                             {scaled.output(0), dx[0].dense, scaled.output(1), repeated});
  if (!values.ok()) {
    ADD_FAILURE() << values.status().message();
    return {};
  }
  return {DoublesOf((*values)[0])[0], DoublesOf((*values)[1])[0], static_cast<double>(DoublesOf((*values)[2]).size()),
          DoublesOf((*values)[3])[0]};
}

TEST(PluginInstance, TwoRuntimesWithOtherOptionsStayApart) {
  Runtime two = With("2"), five = With("5");
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(Answers(two), (std::vector<double>{6, 2, 2, 6}));
    EXPECT_EQ(Answers(five), (std::vector<double>{15, 5, 5, 15}));
  }
  std::thread other([&] { EXPECT_EQ(Answers(five), (std::vector<double>{15, 5, 5, 15})); });
  EXPECT_EQ(Answers(two), (std::vector<double>{6, 2, 2, 6}));
  other.join();
}

TEST(PluginInstance, AGraphOfAPluginThatIsGoneIsRefusedByName) {
  Runtime runtime = With("4");
  Graph graph(runtime);
  const Output x = graph.Placeholder("x", DType::kFloat, {1});
  const Operation scaled = graph.AddNode("TestScaled", {x});
  ASSERT_TRUE(graph.status().ok()) << graph.status().message();
  ASSERT_TRUE(runtime.UnloadPlugin("tenon.test.settings").ok());
  const auto dx = graph.Gradients({scaled.output(0)}, {x});
  EXPECT_NE(graph.status().message().find(
                "plugin 'tenon.test.settings' 0.1.0 was unloaded: its gradient() cannot be called; load it again"),
            std::string::npos)
      << graph.status().message();
}

int32_t WhichRan(Session& session, const Output& x, const Output& which, std::vector<int64_t> dims) {
  int64_t count = 1;
  for (int64_t dim : dims) count *= dim;
  auto values = session.Run({{x, TensorOf(DType::kFloat, Shape(dims), std::vector<double>(count, 1))}}, {which});
  if (!values.ok()) {
    ADD_FAILURE() << values.status().message();
    return -1;
  }
  return Values<int32_t>((*values)[0])[0];
}

TEST(PluginInstance, TheFirstKernelThatTakesTheNodeRuns) {
  for (const bool ready : {false, true})
    for (const uint32_t executor : {TENON_EXECUTOR_AUTO, TENON_EXECUTOR_DYNAMIC}) {
      Runtime runtime = With("1", ready ? "true" : "false");
      Graph graph(runtime);
      const Output x = graph.Placeholder("x", DType::kFloat, Shape::Unknown());
      const Output which = graph.Op("TestPicky", {x});
      SessionOptions options;
      options.executor = executor;
      auto session = Session::Create(runtime, graph, options);
      ASSERT_TRUE(session.ok()) << session.status().message();
      const int32_t other = ready ? 1 : 0;
      for (int round = 0; round < 2; ++round) {
        EXPECT_EQ(WhichRan(*session, x, which, {3}), 2);
        EXPECT_EQ(WhichRan(*session, x, which, {2, 2}), other);
        EXPECT_EQ(WhichRan(*session, x, which, {}), other);
      }
    }
}

TEST(PluginInstance, WhatAKernelSaidIsInTheExplanation) {
  Runtime runtime = With("1");
  Graph graph(runtime);
  const Output x = graph.Placeholder("x", DType::kFloat, {2, 2});
  const Output which = graph.Op("TestPicky", {x});
  auto session = Session::Create(runtime, graph);
  ASSERT_TRUE(session.ok());
  auto callable = session->Prepare({x}, {which});
  ASSERT_TRUE(callable.ok()) << callable.status().message();
  ASSERT_TRUE(callable->Run({View(TensorOf(DType::kFloat, {2, 2}, {1, 1, 1, 1}))}).ok());
  const auto told = callable->Explain();
  ASSERT_TRUE(told.ok());
  const std::string& explained = *told;
  EXPECT_NE(
      explained.find("\"refused\":[{\"plugin\":\"tenon.test.settings\",\"reason\":\"vectors alone, found rank 2\"},"
                     "{\"plugin\":\"tenon.test.settings\",\"reason\":\"not ready\"}]"),
      std::string::npos)
      << explained;
}

TEST(PluginInstance, AKernelThatFailsToAnswerFailsThePlan) {
  Runtime runtime = With("1");
  Graph graph(runtime);
  const Output x = graph.Placeholder("x", DType::kFloat, {2});
  const Output which = graph.Op("TestPicky", {x}, {{"fail", true}});
  ASSERT_TRUE(graph.status().ok()) << graph.status().message();
  auto session = Session::Create(runtime, graph);
  ASSERT_TRUE(session.ok());
  auto values = session->Run({{x, TensorOf(DType::kFloat, {2}, {1, 1})}}, {which});
  ASSERT_FALSE(values.ok());
  EXPECT_EQ(values.status().code(), Code::kDataLoss);
  EXPECT_NE(values.status().message().find("the disk with the tables is broken"), std::string::npos)
      << values.status().message();
}

// What placing is told of a node: its kernel's word goes before its op's.
TEST(PluginInstance, AKernelSaysWhatItCosts) {
  const auto finish = [](const std::string& factor) {
    Runtime runtime = With(factor);
    Graph graph(runtime);
    const Output x = graph.Placeholder("x", DType::kFloat, {1});
    const Operation scaled = graph.AddNode("TestScaled", {x});
    auto session = Session::Create(runtime, graph);
    EXPECT_TRUE(session.ok());
    auto placed = session->Place({"x"}, {scaled.output(0).name()});
    EXPECT_TRUE(placed.ok()) << placed.status().message();
    return placed.ok() ? placed->json : "";
  };
  EXPECT_NE(finish("3").find("\"finish\":3,"), std::string::npos) << finish("3");
  testing::internal::CaptureStderr();
  const std::string by_its_op = finish("7");
  EXPECT_EQ(by_its_op.find("nan"), std::string::npos) << by_its_op;
  EXPECT_NE(testing::internal::GetCapturedStderr().find("its cost() said that a run takes nan seconds"),
            std::string::npos);
}

}  // namespace
}  // namespace tenon::engine::plugin_instance_test
