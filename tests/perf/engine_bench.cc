// SPDX-License-Identifier: Apache-2.0
// What the engine costs beside its bounds, in one run: null nodes against a flat array of indirect calls into the same
// plugin, a prepared step of one op, and a loop's turn. One thread. Read the ratios; the machine is noisy.
#include <benchmark/benchmark.h>
#include <dlfcn.h>

#include <cstdlib>
#include <iostream>
#include <random>

#include "tenon/kernel.h"
#include "tenon/tenon.h"

namespace {

using namespace tenon::host;  // NOLINT: a program of its own

Runtime& TheRuntime() {
  static Runtime* const runtime = [] {
    RuntimeOptions options;
    options.plugins = {TENON_PERF_PLUGIN};
    options.threads = 1;
    auto made = Runtime::Create(options);
    if (!made.ok()) {
      std::cerr << made.status().message() << "\n";
      std::exit(1);
    }
    return new Runtime(std::move(*made));
  }();
  return *runtime;
}

// The plugin's own null kernel, called as the bound: an array of (function, arguments), nothing else.
using RunFunction = tenon_status* (*)(tenon_kernel*, const tenon_prepared*, tenon_frame*);
RunFunction NullKernel() {
  void* library = dlopen(TENON_PERF_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  auto query = reinterpret_cast<tenon_plugin_query_function>(dlsym(library, TENON_QUERY_SYMBOL));
  tenon_query_args args = {};
  args.struct_size = sizeof args;
  const tenon_plugin* plugin = query(&args);
  return static_cast<const tenon_kernel_package*>(plugin->capabilities[1].table)->registrations[0]->run;
}

void FlatCalls(benchmark::State& state) {
  struct Call {
    RunFunction run;
    tenon_kernel* kernel;
    const tenon_prepared* prepared;
    tenon_frame* frame;
  };
  tenon_frame frame = {};
  const std::vector<Call> calls(static_cast<size_t>(state.range(0)), Call{NullKernel(), nullptr, nullptr, &frame});
  for (auto _ : state)
    for (const Call& call : calls) benchmark::DoNotOptimize(call.run(call.kernel, call.prepared, call.frame));
  state.counters["ns/node"] = benchmark::Counter(static_cast<double>(state.iterations() * state.range(0)) * 1e-9,
                                                 benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(FlatCalls)->Arg(1)->Arg(1000)->Arg(10000);

struct Prepared {
  Session session;
  Callable callable;
};

Prepared Prepare(const Graph& graph, const Output& feed, const Output& fetch, uint32_t executor) {
  SessionOptions options;
  options.executor = executor;
  auto session = Session::Create(TheRuntime(), graph, options);
  if (!session.ok()) {
    std::cerr << session.status().message() << "\n";
    std::exit(1);
  }
  auto callable = session->Prepare({feed}, {fetch});
  if (!callable.ok()) {
    std::cerr << callable.status().message() << "\n";
    std::exit(1);
  }
  return {std::move(*session), std::move(*callable)};
}

void RunSteps(benchmark::State& state, const Prepared& prepared, int64_t nodes) {
  float in = 1, out = 0;
  const tenon_tensor_view feed = View(std::span<const float>(&in, 1), Shape()).c_view();
  const tenon_tensor_view fetch = View(std::span<const float>(&out, 1), Shape()).c_view();
  const tenon_tensor_view* feeds[] = {&feed};
  for (auto _ : state) {
    const Status status = prepared.callable.RunInto(feeds, &fetch);
    if (!status.ok()) {
      state.SkipWithError(status.message().data());
      return;
    }
  }
  state.counters["ns/node"] = benchmark::Counter(static_cast<double>(state.iterations() * nodes) * 1e-9,
                                                 benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void Chain(benchmark::State& state, uint32_t executor) {
  Graph graph(TheRuntime());
  const Output x = graph.Placeholder("x", DType::kFloat, Shape{});
  Output y = x;
  for (int64_t i = 0; i < state.range(0); ++i) y = graph.Op("PerfNull", {y});
  RunSteps(state, Prepare(graph, x, y, executor), state.range(0));
}
BENCHMARK_CAPTURE(Chain, straight, TENON_EXECUTOR_AUTO)->Arg(1)->Arg(1000);
BENCHMARK_CAPTURE(Chain, dynamic, TENON_EXECUTOR_DYNAMIC)->Arg(1)->Arg(1000);

void RandomGraph(benchmark::State& state, uint32_t executor) {
  Graph graph(TheRuntime());
  std::mt19937 random(1);
  const Output x = graph.Placeholder("x", DType::kFloat, Shape{});
  std::vector<Output> values = {x};
  while (static_cast<int64_t>(values.size()) <= state.range(0)) {
    const Output other = values[random() % values.size()];
    values.push_back(graph.Op("PerfNull2", {values.back(), other}));
  }
  RunSteps(state, Prepare(graph, x, values.back(), executor), state.range(0));
}
BENCHMARK_CAPTURE(RandomGraph, straight, TENON_EXECUTOR_AUTO)->Arg(10000);
BENCHMARK_CAPTURE(RandomGraph, dynamic, TENON_EXECUTOR_DYNAMIC)->Arg(10000);

// Three tiny ops and a comparison a turn; ns/node is ns a turn.
void LoopTurns(benchmark::State& state, uint32_t executor) {
  Graph graph(TheRuntime());
  const Output x = graph.Placeholder("x", DType::kFloat, Shape{});
  const Output limit = graph.Const(static_cast<float>(state.range(0)));
  const std::vector<Output> out =
      While(graph, {graph.Const(0.0f), x}, {limit, graph.Const(1.0f), graph.Const(0.5f)},
            [&](const auto& v) { return graph.Op("Less", {v[0], v[2]}); },
            [&](const auto& v) {
              return std::vector<Output>{graph.Op("AddV2", {v[0], v[3]}), graph.Op("AddV2", {graph.Op("Mul", {v[1], v[4]}), v[3]})};
            });
  RunSteps(state, Prepare(graph, x, out[1], executor), state.range(0));
}
BENCHMARK_CAPTURE(LoopTurns, straight, TENON_EXECUTOR_AUTO)->Arg(10000);
BENCHMARK_CAPTURE(LoopTurns, dynamic, TENON_EXECUTOR_DYNAMIC)->Arg(10000);

}  // namespace

BENCHMARK_MAIN();
