// SPDX-License-Identifier: Apache-2.0
// The template of a device with queues, built out of tree, runs a part of a graph. Covers E2, E3, O5.
#include <cmath>

#include "tests/engine/engine.h"

namespace tenon::engine {
namespace {

// "": built against the headers of today; "/longer": against those of a later minor version, whose structs are longer
// than the host's.
class AsyncDevice : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Headers, AsyncDevice, testing::Values("", "/longer"),
                         [](const auto& info) { return *info.param == 0 ? "OfToday" : "Longer"; });

std::string Built(const std::string& name) {
  return std::string(TENON_CONSUME_FOLDER) + AsyncDevice::GetParam() + "/" + name;
}

Runtime MakeRuntime(std::vector<std::string> more = {}) {
  RuntimeOptions options;
  options.plugins = std::move(more);
  options.plugins.push_back(Built("async_device/lib/tenon/plugins/tenon_async_device.so"));
  auto made = Runtime::Create(options);
  if (!made.ok()) {
    ADD_FAILURE() << made.status().message();
    std::abort();  // NOLINT: nothing can be tested without a runtime
  }
  return std::move(*made);
}

TEST_P(AsyncDevice, IsListedWithItsPlugin) {
  const Runtime runtime = MakeRuntime();
  bool found = false;
  for (const tenon_device_info& device : runtime.Devices())
    found = found || (Text(device.name) == "/job:localhost/replica:0/task:0/device:ASYNC:0" &&
                      Text(device.plugin) == "example.async_device");
  EXPECT_TRUE(found);
}

TEST_P(AsyncDevice, RunsItsKernelBetweenThoseOfTheHost) {
  Runtime runtime = MakeRuntime();
  Graph graph(runtime);
  const Output x = graph.Placeholder("x", DType::kFloat, {3});
  Output y = graph.Op("AddV2", {x, x});
  {
    const auto device = graph.Device("/device:ASYNC:0");
    y = graph.Op("Square", {graph.Op("Square", {y})});
  }
  y = graph.Op("Neg", {y});
  ASSERT_TRUE(graph.status().ok()) << graph.status().message();
  for (const uint32_t executor : {TENON_EXECUTOR_AUTO, TENON_EXECUTOR_DYNAMIC}) {
    SessionOptions options;
    options.executor = executor;
    auto session = Session::Create(runtime, graph, options);
    ASSERT_TRUE(session.ok());
    for (int step = 0; step < 100; ++step) {
      auto values = session->Run({{x, TensorOf(DType::kFloat, {3}, {1, -2, 0.5 * (step % 10)})}}, {y});
      ASSERT_TRUE(values.ok()) << values.status().message();
      EXPECT_EQ(DoublesOf((*values)[0]), (std::vector<double>{-16, -256, -std::pow(step % 10, 4.0)}));
    }
  }
}

TEST_P(AsyncDevice, ANodeWithoutAKernelThereIsRefusedWithoutSoftPlacement) {
  Runtime runtime = MakeRuntime();
  Graph graph(runtime);
  const Output x = graph.Placeholder("x", DType::kFloat, {3});
  const auto device = graph.Device("/device:ASYNC:0");
  const Output y = graph.Op("Neg", {x});
  SessionOptions options;
  options.soft_placement = false;
  auto session = Session::Create(runtime, graph, options);
  ASSERT_TRUE(session.ok());
  const auto values = session->Run({{x, TensorOf(DType::kFloat, {3}, {1, 2, 3})}}, {y});
  ASSERT_FALSE(values.ok());
  EXPECT_NE(values.status().message().find("Neg"), std::string::npos) << values.status().message();
  EXPECT_NE(values.status().message().find("ASYNC"), std::string::npos) << values.status().message();
}

// A kernel of a package that is neither the device's nor the op's.
TEST_P(AsyncDevice, RunsAKernelThatSomebodyElseBringsForIt) {
  Runtime runtime = MakeRuntime({Built("kernel_plugin/lib/tenon/plugins/tenon_neg_on_async.so")});
  Graph graph(runtime);
  const Output x = graph.Placeholder("x", DType::kFloat, {3});
  Output y;
  {
    const auto device = graph.Device("/device:ASYNC:0");
    y = graph.Op("Neg", {graph.Op("Square", {x})}, {}, "negated");
  }
  SessionOptions options;
  options.soft_placement = false;
  auto session = Session::Create(runtime, graph, options);
  ASSERT_TRUE(session.ok());
  for (int step = 0; step < 100; ++step) {
    auto values = session->Run({{x, TensorOf(DType::kFloat, {3}, {1, -2, 0.5 * (step % 10)})}}, {y});
    ASSERT_TRUE(values.ok()) << values.status().message();
    EXPECT_EQ(DoublesOf((*values)[0]), (std::vector<double>{-1, -4, -std::pow(0.5 * (step % 10), 2.0)}));
  }
  // While the session has its device, and the kernel its driver's table.
  EXPECT_FALSE(runtime.UnloadPlugin("example.async_device").ok());
  EXPECT_FALSE(runtime.UnloadPlugin("example.neg_on_async").ok());
}

}  // namespace
}  // namespace tenon::engine
