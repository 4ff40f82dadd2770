// SPDX-License-Identifier: Apache-2.0
// What devices' queues bring: the simulated time of a step with all of them against the same step on one queue. Read
// "x_one_queue". Time is the simulator's own clock, which stands in for hardware; the host's time is in engine_bench.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tenon/tenon.h"

namespace {

using namespace tenon::host;  // NOLINT: a program of its own

[[noreturn]] void Stop(const Status& status) {
  std::cerr << status.message() << "\n";
  std::exit(1);
}

Runtime& TheRuntime() {
  static Runtime* const runtime = [] {
    RuntimeOptions options;
    options.plugin_options = {{"tenon.tpu_sim", "devices", "1"}, {"tenon.tpu_sim", "cores", "2"}};
    auto made = Runtime::Create(options);
    if (!made.ok()) Stop(made.status());
    return new Runtime(std::move(*made));
  }();
  return *runtime;
}

// Seconds from the first to the last span by the devices' own clock.
double OwnSeconds(const std::string& trace) {
  const auto json = nlohmann::json::parse(trace);
  std::vector<int64_t> own;
  double begin = 1e300, end = 0;
  for (const auto& event : json["traceEvents"])
    if (event["ph"] == "M" && event["name"] == "process_name" &&
        std::string(event["args"]["name"]).ends_with("its own clock"))
      own.push_back(event["pid"]);
  for (const auto& event : json["traceEvents"]) {
    if (event["ph"] != "X" || event["cat"] == "wait" ||
        std::find(own.begin(), own.end(), int64_t{event["pid"]}) == own.end())
      continue;
    begin = std::min(begin, double{event["ts"]});
    end = std::max(end, double{event["ts"]} + double{event["dur"]});
  }
  return (end - begin) * 1e-6;
}

double StepSeconds(const Graph& graph, const std::vector<Feed>& feeds, const std::vector<Name>& fetches,
                   bool one_queue) {
  SessionOptions options;
  options.debug.one_queue = one_queue;
  options.compile = false;  // node by node: what queues do, not what a compiler does
  auto session = Session::Create(TheRuntime(), graph, options);
  if (!session.ok()) Stop(session.status());
  std::string trace;
  RunOptions run;
  run.trace = &trace;
  double fastest = 1e300;
  for (int step = 0; step < 3; ++step) {
    trace.clear();
    auto values = session->Run(feeds, fetches, {}, run);
    if (!values.ok()) Stop(values.status());
    fastest = std::min(fastest, OwnSeconds(trace));
  }
  return fastest;
}

void Compare(benchmark::State& state, const Graph& graph, const std::vector<Feed>& feeds,
             const std::vector<Name>& fetches) {
  double one = 0, all = 0;
  for (auto _ : state) {
    one = StepSeconds(graph, feeds, fetches, true);
    all = StepSeconds(graph, feeds, fetches, false);
  }
  state.counters["us_one_queue"] = one * 1e6;
  state.counters["us_all_queues"] = all * 1e6;
  state.counters["x_one_queue"] = one / all;
}

// Two chains of products that do not need each other.
void TwoChains(benchmark::State& state) {
  const Shape shape{256, 256};
  Graph graph(TheRuntime());
  const Output x = graph.Placeholder("x", DType::kFloat, shape);
  const auto device = graph.Device("/device:TPU:0");
  std::vector<Name> ends;
  for (const char* chain : {"a", "b"}) {
    Output y = graph.Op("Mul", {x, graph.Const(chain[0] == 'a' ? 0.5f : 0.25f)});
    for (int i = 0; i < 16; ++i) y = graph.Op("MatMul", {y, x});
    // The ends are small: what crosses to the host is not what is measured.
    ends.push_back(graph.Op("Max", {y, graph.Const({0, 1})}));
  }
  Compare(state, graph, {{x, *Tensor::Zeros(DType::kFloat, shape)}}, ends);
}
BENCHMARK(TwoChains)->Iterations(1)->Unit(benchmark::kMillisecond);

// Eight inputs that are copied to the device, each for a product of its own that takes about as long as the copy.
void CopiesBesideProducts(benchmark::State& state) {
  const Shape shape{512, 512};
  Graph graph(TheRuntime());
  std::vector<Feed> feeds;
  std::vector<Name> ends;
  const auto device = graph.Device("/device:TPU:0");
  for (int i = 0; i < 8; ++i) {
    const Output x = graph.Placeholder("x" + std::to_string(i), DType::kFloat, shape);
    feeds.push_back({x, *Tensor::Zeros(DType::kFloat, shape)});
    Output y = x;
    for (int k = 0; k < static_cast<int>(state.range(0)); ++k) y = graph.Op("MatMul", {y, x});
    ends.push_back(graph.Op("Max", {y, graph.Const({0, 1})}));
  }
  Compare(state, graph, feeds, ends);
}
BENCHMARK(CopiesBesideProducts)->Arg(1)->Arg(2)->Arg(4)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
