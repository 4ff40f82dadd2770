// SPDX-License-Identifier: Apache-2.0
// Placement through the C++ face, on several CPU devices. Covers G2, G5, G7, G9 to G11.
#include "tests/engine/engine.h"

namespace tenon::engine::placement_test {
namespace {

Runtime RuntimeOf(const std::string& devices, const std::vector<std::string>& plugins = {}) {
  RuntimeOptions options;
  options.plugin_options = {{"tenon.cpu", "devices", devices}};
  options.plugins = plugins;
  auto made = Runtime::Create(options);
  if (!made.ok()) {
    ADD_FAILURE() << made.status().message();
    std::abort();  // NOLINT: nothing can be tested without a runtime
  }
  return std::move(*made);
}

Placement Placed(const Session& session, const std::vector<Name>& fetches, const std::vector<Name>& targets = {}) {
  auto placed = session.Place({}, fetches, targets);
  EXPECT_TRUE(placed.ok()) << placed.status().message();
  return placed.ok() ? *placed : Placement();
}

// "CPU:2" for a node, as its placement file says.
std::string DeviceOf(const Placement& placement, const std::string& node) {
  const size_t at = placement.file.find("\n" + node + "\t");
  if (at == std::string::npos) return "";
  const size_t device = placement.file.find("/device:", at) + 8;
  return placement.file.substr(device, placement.file.find('\n', at + 1) - device);
}

// A variable w that `init` sets; `used` reads it through a node bound to CPU:2.
void BuildVariable(Graph& graph) {
  const Output w = graph.Op("VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", Shape{2}}}, "w");
  graph.AddNode("AssignVariableOp", {w, graph.Const(std::vector<float>{3, 4}, {2})}, {{"dtype", DType::kFloat}},
                "init");
  const auto on = graph.Device("/device:CPU:2");
  graph.Op("ReadVariableOp", {w}, {{"dtype", DType::kFloat}}, "used");
}

TEST(Placement, StateIsWhereTheWholeGraphWantsItThoughAPlanKnowsAPartAlone) {
  const Runtime runtime = RuntimeOf("3");
  Graph graph(runtime);
  BuildVariable(graph);
  auto session = Session::Create(runtime, graph);
  ASSERT_TRUE(session.ok()) << session.status().message();
  EXPECT_EQ(DeviceOf(Placed(*session, {}, {"init"}), "w"), "CPU:2") << "init says nothing of CPU:2";
  ASSERT_TRUE(session->RunTargets({"init"}).ok());
  auto values = session->Run({}, {"used"});
  ASSERT_TRUE(values.ok()) << values.status().message();
  EXPECT_EQ(Values<float>((*values)[0]), (std::vector<float>{3, 4}));
}

TEST(Placement, AVariableStaysWhereItIsWhenTheGraphGrows) {
  const Runtime runtime = RuntimeOf("3");
  Graph graph(runtime);
  const Output w = graph.Op("VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", Shape{}}}, "w");
  graph.AddNode("AssignVariableOp", {w, graph.Const(5.0f)}, {{"dtype", DType::kFloat}}, "init");
  auto session = Session::Create(runtime, graph);
  ASSERT_TRUE(session.ok());
  ASSERT_TRUE(session->RunTargets({"init"}).ok());
  const std::string home = DeviceOf(Placed(*session, {}, {"init"}), "w");
  {
    const auto on = graph.Device(home == "CPU:1" ? "/cpu:2" : "/cpu:1");
    graph.Op("ReadVariableOp", {w}, {{"dtype", DType::kFloat}}, "read");
  }
  ASSERT_TRUE(session->Extend(graph).ok());
  const Placement placed = Placed(*session, {"read"});
  EXPECT_EQ(DeviceOf(placed, "read"), home);
  EXPECT_NE(placed.json.find("its device name is not followed"), std::string::npos);
  auto values = session->Run({}, {"read"});
  ASSERT_TRUE(values.ok()) << values.status().message();
  EXPECT_EQ(Values<float>((*values)[0]), std::vector<float>{5});
}

TEST(Placement, AFileMovesNodesAndTheValuesStay) {
  const Runtime runtime = RuntimeOf("3");
  Graph graph(runtime);
  const Output a = graph.Const(2.0f);
  graph.Op("Neg", {graph.Op("Square", {a}, {}, "square")}, {}, "negative");
  SessionOptions options;
  options.placement = "square /cpu:1\nneg* /cpu:2\n";
  options.optimize = false;
  auto session = Session::Create(runtime, graph, options);
  ASSERT_TRUE(session.ok()) << session.status().message();
  const Placement placed = Placed(*session, {"negative"});
  EXPECT_EQ(DeviceOf(placed, "square"), "CPU:1");
  EXPECT_EQ(DeviceOf(placed, "negative"), "CPU:2");
  EXPECT_EQ(Values<float>((*session->Run({}, {"negative"}))[0]), std::vector<float>{-4});
}

TEST(Placement, ABadFileIsRefusedAtOnceAndARuleForNoNodeByTheStep) {
  const Runtime runtime = RuntimeOf("1");
  Graph graph(runtime);
  graph.Op("Neg", {graph.Const(1.0f)}, {}, "negative");
  SessionOptions options;
  options.placement = "negative\n";
  options.placement_source = "p.txt";
  EXPECT_EQ(Session::Create(runtime, graph, options).status().message(),
            "p.txt:1: 'negative' has no device; a line is a node's name, a blank, a device name");
  options.placement = "negatives /cpu:0\n";
  auto session = Session::Create(runtime, graph, options);
  ASSERT_TRUE(session.ok());
  const Status status = session->Run({}, {"negative"}).status();
  EXPECT_TRUE(status.message().starts_with("p.txt:1: ")) << status.message();
  EXPECT_NE(status.message().find("'negative'"), std::string::npos) << status.message();
}

TEST(Placement, APluginPlacesWhenItIsAsked) {
  const Runtime runtime = RuntimeOf("3", {TENON_TEST_SEARCH_PLACER});
  Graph graph(runtime);
  Output at = graph.Placeholder("x", DType::kFloat, {64, 64});
  for (int i = 0; i < 6; ++i) at = graph.Op("MatMul", {at, at}, {}, "product" + std::to_string(i));
  SessionOptions options;
  options.placer = "tenon.test.search_placer";
  auto session = Session::Create(runtime, graph, options);
  ASSERT_TRUE(session.ok()) << session.status().message();
  auto placed = session->Place({"x"}, {"product5"});
  ASSERT_TRUE(placed.ok()) << placed.status().message();
  EXPECT_NE(placed->json.find("placer 'tenon.test.search_placer' chose it"), std::string::npos) << placed->json;
  const Tensor zeros = TensorOf(DType::kFloat, {64, 64}, std::vector<double>(64 * 64, 0));
  EXPECT_TRUE(session->Run({{"x", View(zeros)}}, {"product5"}).ok());
  options.placer = "tenon.test.nobody";
  auto without = Session::Create(runtime, graph, options);
  ASSERT_TRUE(without.ok());
  EXPECT_EQ(without->Place({"x"}, {"product5"}).status().message(),
            "no plugin 'tenon.test.nobody' brings a placer; those that do: tenon.test.search_placer");
}

TEST(Placement, CostsOfTracedStepsServeTheNextSession) {
  const Runtime runtime = RuntimeOf("1");
  Graph graph(runtime);
  graph.Op("MatMul", {graph.Placeholder("x", DType::kFloat, {-1, 8}), graph.Const(std::vector<float>(64, 1), {8, 8})},
           {}, "product");
  SessionOptions options;
  options.record_costs = true;
  auto session = Session::Create(runtime, graph, options);
  ASSERT_TRUE(session.ok());
  const Tensor x = TensorOf(DType::kFloat, {3, 8}, std::vector<double>(24, 1));
  std::string trace;
  RunOptions run;
  run.trace = &trace;
  ASSERT_TRUE(session->Run({{"x", View(x)}}, {"product"}, {}, run).ok());
  options.costs = *session->Costs();
  EXPECT_NE(options.costs.find("\tproduct\tMatMul\tCPU\t[3,8];[8,8]\n"), std::string::npos) << options.costs;
  auto next = Session::Create(runtime, graph, options);
  ASSERT_TRUE(next.ok()) << next.status().message();
  EXPECT_NE(next->Place({"x"}, {"product"})->json.find("{\"op\":\"MatMul\",\"nodes\":1,"), std::string::npos);
}

TEST(Placement, TheCpuHasAsManyNamesAsItsOptionSays) {
  const auto count = [](const Runtime& runtime) {
    size_t devices = 0;
    for (const auto& device : runtime.Devices())
      devices += Text(device.name).find("/device:CPU:") != std::string_view::npos;
    return devices;
  };
  EXPECT_EQ(count(RuntimeOf("1")), 1u);
  EXPECT_EQ(count(RuntimeOf("64")), 64u);
  for (const char* bad : {"65", "0", "two"}) {
    RuntimeOptions options;
    options.plugin_options = {{"tenon.cpu", "devices", bad}};
    const auto runtime = Runtime::Create(options);
    EXPECT_FALSE(runtime.ok()) << bad;
    EXPECT_NE(std::string(runtime.status().message()).find("tenon.cpu.devices=" + std::string(bad)), std::string::npos)
        << runtime.status();
  }
}

}  // namespace
}  // namespace tenon::engine::placement_test
