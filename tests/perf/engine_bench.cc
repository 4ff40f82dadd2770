// SPDX-License-Identifier: Apache-2.0
// What the engine costs beside its bounds, in one run: null nodes against a flat array of indirect calls into the same
// plugin, a prepared step of one op, and a loop's turn; and beside a peer, oneTBB's flow graph with the same nodes that
// make the same calls. One thread. Read the ratios ("x_bound"); the machine is noisy.
#include <benchmark/benchmark.h>
#include <dlfcn.h>
#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/global_control.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tenon/kernel.h"
#include "tenon/tenon.h"

namespace {

using namespace tenon::host;  // NOLINT: a program of its own

Runtime* MakeRuntime(std::vector<std::string> plugins) {
  RuntimeOptions options;
  options.plugins = std::move(plugins);
  options.threads = 1;
  auto made = Runtime::Create(options);
  if (!made.ok()) {
    std::cerr << made.status().message() << "\n";
    std::exit(1);
  }
  return new Runtime(std::move(*made));
}

Runtime& TheRuntime() {
  static Runtime* const runtime = MakeRuntime({TENON_PERF_PLUGIN});
  return *runtime;
}
// With a device whose queues do all at once.
Runtime& QueueRuntime() {
  static Runtime* const runtime = MakeRuntime({TENON_PERF_PLUGIN, TENON_PERF_QUEUE_PLUGIN});
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

class Calls {
 public:
  explicit Calls(int64_t count) : calls_(static_cast<size_t>(count), Call{NullKernel(), nullptr, nullptr, &frame_}) {}
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;
  // One piece of code for all who call it: the loop's alignment alone makes a fifth.
  [[gnu::noinline]] void Run() const {
    for (const Call& call : calls_) benchmark::DoNotOptimize(call.run(call.kernel, call.prepared, call.frame));
  }

 private:
  struct Call {
    RunFunction run;
    tenon_kernel* kernel;
    const tenon_prepared* prepared;
    tenon_frame* frame;
  };
  tenon_frame frame_ = {};
  std::vector<Call> calls_;
};

// Nanoseconds that this thread ran: neighbours of a busy machine take less part in it.
double Now() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

// Nanoseconds of one flat call in an array of `count`: the fastest of rounds of about 200 us. A lone call is measured
// in an array too, so that it is not the loop around it that is measured.
double Bound(int64_t count) {
  count = std::max<int64_t>(count, 1000);
  const Calls calls(count);
  const int64_t repeat = std::max<int64_t>(1, 100000 / count);
  double fastest = 1e9;
  for (int round = 0; round < 40; ++round) {
    const double begin = Now();
    for (int64_t i = 0; i < repeat; ++i) calls.Run();
    fastest = std::min(fastest, (Now() - begin) / static_cast<double>(repeat * count));
  }
  return fastest;
}

// Times the loop of a benchmark itself, for the ratio to the bound of `calls` flat calls, which is
// measured before and after.
class Report {
 public:
  Report(benchmark::State& state, int64_t units, int64_t calls)
      : state_(state), units_(units), calls_(calls), bound_(Bound(calls)), begin_(Now()) {}
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;
  ~Report() {
    const double unit = (Now() - begin_) / static_cast<double>(state_.iterations() * units_);
    const double bound = std::min(bound_, Bound(calls_));
    state_.counters["ns/node"] = unit;
    state_.counters["ns/call"] = bound;
    state_.counters["x_bound"] = unit / bound;
  }

 private:
  benchmark::State& state_;
  int64_t units_, calls_;
  double bound_;
  double begin_;
};

void FlatCalls(benchmark::State& state) {
  const Calls calls(state.range(0));
  const Report report(state, state.range(0), state.range(0));
  for (auto _ : state) calls.Run();
}
BENCHMARK(FlatCalls)->Arg(1000)->Arg(10000);

// For each node of the random graph, the second node that it reads; the first is the one before it. Node 0 is the feed.
std::vector<size_t> SecondInputs(int64_t nodes) {
  std::mt19937 random(1);
  std::vector<size_t> others;
  for (size_t node = 1; node <= static_cast<size_t>(nodes); ++node) others.push_back(random() % node);
  return others;
}

// The peer: the same graph as nodes of oneTBB, each of which makes the same call.
class FlowGraph {
 public:
  using Message = tbb::flow::continue_msg;
  explicit FlowGraph(int64_t nodes) : one_thread_(tbb::global_control::max_allowed_parallelism, 1) {
    static const RunFunction run = NullKernel();
    for (int64_t i = 0; i <= nodes; ++i) {
      nodes_.push_back(std::make_unique<tbb::flow::continue_node<Message>>(
          graph_, [this](const Message&) { benchmark::DoNotOptimize(run(nullptr, nullptr, &frame_)); }));
    }
  }
  void Edge(size_t from, size_t to) { tbb::flow::make_edge(*nodes_[from], *nodes_[to]); }
  void Run() {
    nodes_[0]->try_put(Message());
    graph_.wait_for_all();
  }

 private:
  tbb::global_control one_thread_;
  tbb::flow::graph graph_;
  tenon_frame frame_ = {};
  std::vector<std::unique_ptr<tbb::flow::continue_node<Message>>> nodes_;
};

void TbbChain(benchmark::State& state) {
  FlowGraph graph(state.range(0));
  for (size_t i = 0; i < static_cast<size_t>(state.range(0)); ++i) graph.Edge(i, i + 1);
  const Report report(state, state.range(0), state.range(0));
  for (auto _ : state) graph.Run();
}
BENCHMARK(TbbChain)->Arg(1)->Arg(1000);

void TbbRandomGraph(benchmark::State& state) {
  FlowGraph graph(state.range(0));
  const std::vector<size_t> others = SecondInputs(state.range(0));
  for (size_t i = 0; i < others.size(); ++i) {
    graph.Edge(i, i + 1);
    graph.Edge(others[i], i + 1);
  }
  const Report report(state, state.range(0), state.range(0));
  for (auto _ : state) graph.Run();
}
BENCHMARK(TbbRandomGraph)->Arg(10000);

struct Prepared {
  Session session;
  Callable callable;
};

Prepared Prepare(const Graph& graph, const Output& feed, const Output& fetch, uint32_t executor,
                 Runtime& runtime = TheRuntime()) {
  SessionOptions options;
  options.executor = executor;
  auto session = Session::Create(runtime, graph, options);
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

// units: that a step is divided by (nodes, turns); calls: how many flat calls the bound is measured with.
void RunSteps(benchmark::State& state, const Prepared& prepared, int64_t units, int64_t calls) {
  float in = 1, out = 0;
  const tenon_tensor_view feed = View(std::span<const float>(&in, 1), Shape()).c_view();
  const tenon_tensor_view fetch = View(std::span<const float>(&out, 1), Shape()).c_view();
  const tenon_tensor_view* feeds[] = {&feed};
  const Report report(state, units, calls);
  for (auto _ : state) {
    const Status status = prepared.callable.RunInto(feeds, &fetch);
    if (!status.ok()) {
      state.SkipWithError(status.message().data());
      return;
    }
  }
}

void Chain(benchmark::State& state, uint32_t executor) {
  Graph graph(TheRuntime());
  const Output x = graph.Placeholder("x", DType::kFloat, Shape{});
  Output y = x;
  for (int64_t i = 0; i < state.range(0); ++i) y = graph.Op("PerfNull", {y});
  RunSteps(state, Prepare(graph, x, y, executor), state.range(0), state.range(0));
}
BENCHMARK_CAPTURE(Chain, straight, TENON_EXECUTOR_AUTO)->Arg(1)->Arg(1000);
BENCHMARK_CAPTURE(Chain, dynamic, TENON_EXECUTOR_DYNAMIC)->Arg(1)->Arg(1000);

// The host's part of work that goes to a queue: null kernels of a device whose queues do all at once.
void QueuedChain(benchmark::State& state, uint32_t executor) {
  Graph graph(QueueRuntime());
  const Output x = graph.Placeholder("x", DType::kFloat, Shape{});
  Output y = x;
  {
    const auto device = graph.Device("/device:QUEUE:0");
    for (int64_t i = 0; i < state.range(0); ++i) y = graph.Op("PerfNull", {y});
  }
  RunSteps(state, Prepare(graph, x, y, executor, QueueRuntime()), state.range(0), state.range(0));
}
BENCHMARK_CAPTURE(QueuedChain, straight, TENON_EXECUTOR_AUTO)->Arg(1)->Arg(1000);
BENCHMARK_CAPTURE(QueuedChain, dynamic, TENON_EXECUTOR_DYNAMIC)->Arg(1000);

void RandomGraph(benchmark::State& state, uint32_t executor) {
  Graph graph(TheRuntime());
  const Output x = graph.Placeholder("x", DType::kFloat, Shape{});
  std::vector<Output> values = {x};
  for (const size_t other : SecondInputs(state.range(0))) {
    values.push_back(graph.Op("PerfNull2", {values.back(), values[other]}));
  }
  RunSteps(state, Prepare(graph, x, values.back(), executor), state.range(0), state.range(0));
}
BENCHMARK_CAPTURE(RandomGraph, straight, TENON_EXECUTOR_AUTO)->Arg(10000);
BENCHMARK_CAPTURE(RandomGraph, dynamic, TENON_EXECUTOR_DYNAMIC)->Arg(10000);

// Three tiny ops and a comparison a turn; ns/node is ns a turn.
void LoopTurns(benchmark::State& state, uint32_t executor) {
  Graph graph(TheRuntime());
  const Output x = graph.Placeholder("x", DType::kFloat, Shape{});
  const Output limit = graph.Const(static_cast<float>(state.range(0)));
  const std::vector<Output> out = While(
      graph, {graph.Const(0.0f), x}, {limit, graph.Const(1.0f), graph.Const(0.5f)},
      [&](const auto& v) {
        return graph.Op("Less", {v[0], v[2]});
      },
      [&](const auto& v) {
        return std::vector<Output>{graph.Op("AddV2", {v[0], v[3]}),
                                   graph.Op("AddV2", {graph.Op("Mul", {v[1], v[4]}), v[3]})};
      });
  RunSteps(state, Prepare(graph, x, out[1], executor), state.range(0), 1000);
}
BENCHMARK_CAPTURE(LoopTurns, straight, TENON_EXECUTOR_AUTO)->Arg(10000);
BENCHMARK_CAPTURE(LoopTurns, dynamic, TENON_EXECUTOR_DYNAMIC)->Arg(10000);

}  // namespace

BENCHMARK_MAIN();
