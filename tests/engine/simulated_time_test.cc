// SPDX-License-Identifier: Apache-2.0
// What kernels take by the clock of simulated devices is what placement thought that they would. Covers G1.
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/engine/engine.h"

namespace tenon::engine {
namespace {

Runtime NewRuntime() {
  RuntimeOptions options;
  options.plugin_options = {{"tenon.tpu_sim", "devices", "1"}};
  auto made = Runtime::Create(options);
  if (!made.ok()) {
    ADD_FAILURE() << made.status().message();
    std::abort();  // NOLINT: nothing can be tested without a runtime
  }
  return std::move(*made);
}

struct Work {
  std::string name;
  double begin, end;
};

// What the devices did by their own clock, in microseconds.
std::vector<Work> OwnWork(const std::string& trace) {
  const auto json = nlohmann::json::parse(trace);
  std::map<int64_t, std::string> own;
  for (const auto& event : json["traceEvents"])
    if (event["ph"] == "M" && event["name"] == "process_name" && std::string(event["args"]["name"]).ends_with("its own clock"))
      own[event["pid"]] = event["args"]["name"];
  std::vector<Work> works;
  for (const auto& event : json["traceEvents"]) {
    if (event["ph"] != "X" || event["cat"] == "wait" || !own.contains(event["pid"])) continue;
    works.push_back({event["name"], event["ts"], double{event["ts"]} + double{event["dur"]}});
  }
  return works;
}

// By name, seconds that the placement predicts for each node; "" for the step.
std::map<std::string, double> PredictedSeconds(Session& session, const std::vector<Name>& feeds, const std::vector<Name>& fetches) {
  const auto placed = session.Place(feeds, fetches);
  EXPECT_TRUE(placed.ok()) << placed.status().message();
  const auto json = nlohmann::json::parse(placed->json);
  std::map<std::string, double> seconds = {{"", json["seconds"]}};
  for (const auto& node : json["nodes"]) seconds[node["name"]] = double{node["finish"]} - double{node["start"]};
  return seconds;
}

TEST(SimulatedTime, OfAKernelIsWhatThePlacementPredicts) {
  Runtime runtime = NewRuntime();
  Graph g(runtime);
  const auto device = g.Device("/device:TPU:0");
  const auto input = [&](const char* name, const Shape& shape) { return g.Placeholder(name, DType::kFloat, shape); };
  const Shape left{100, 130}, right{130, 260}, images{2, 9, 9, 5}, filter{3, 3, 5, 7}, results{2, 9, 9, 7};
  const Output a = input("a", left), b = input("b", right), stack = input("stack", {3, 100, 130}), x = input("x", images), w = input("w", filter), y = input("y", results);
  const std::vector<Feed> feeds = {{a, *Tensor::Zeros(DType::kFloat, left)},     {b, *Tensor::Zeros(DType::kFloat, right)},  {stack, *Tensor::Zeros(DType::kFloat, {3, 100, 130})},
                                   {x, *Tensor::Zeros(DType::kFloat, images)}, {w, *Tensor::Zeros(DType::kFloat, filter)}, {y, *Tensor::Zeros(DType::kFloat, results)}};
  const Attrs window = {{"strides", {1, 1, 1, 1}}, {"padding", "SAME"}};
  const std::vector<Name> fetches = {
      g.Op("MatMul", {a, b}, {}, "product"),
      g.Op("MatMul", {a, a}, {{"transpose_b", true}}, "square"),
      g.Op("BatchMatMulV2", {stack, b}, {}, "batch"),
      g.Op("Conv2D", {x, w}, window, "conv"),
      g.Op("Conv2DBackpropInput", {g.Const({2, 9, 9, 5}), w, y}, window, "to_input"),
      g.Op("Conv2DBackpropFilter", {x, g.Const({3, 3, 5, 7}), y}, window, "to_filter"),
      g.Op("Softmax", {a}, {}, "softmax"),
      g.Op("Sum", {a, g.Const({1})}, {}, "sum"),
  };
  SessionOptions options;
  options.compile = false;
  auto session = Session::Create(runtime, g, options);
  ASSERT_TRUE(session.ok()) << session.status().message();
  const auto predicted = PredictedSeconds(*session, {a, b, stack, x, w, y}, fetches);
  std::string trace;
  RunOptions run;
  run.trace = &trace;
  const auto values = session->Run(feeds, fetches, {}, run);
  ASSERT_TRUE(values.ok()) << values.status().message();
  std::set<std::string> seen;
  for (const Work& work : OwnWork(trace)) {
    if (!predicted.contains(work.name)) continue;  // a copy
    seen.insert(work.name);
    EXPECT_NEAR(work.end - work.begin, predicted.at(work.name) * 1e6, 0.003) << work.name;
  }
  EXPECT_EQ(seen, (std::set<std::string>{"product", "square", "batch", "conv", "to_input", "to_filter", "softmax", "sum"}));
}

}  // namespace
}  // namespace tenon::engine
