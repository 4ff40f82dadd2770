// SPDX-License-Identifier: Apache-2.0
// All-reduce between processes of this machine: each task holds a tensor of so many bytes, and after a step each has
// the mean of all of them. By every way that the package has, over shm and gRPC. tests/perf/collectives.py runs it
// beside gloo and bounds.
//
//   collective_bench [--samples=FILE] [--benchmark_filter=shm/100MB/2/direct]
//
// FILE gets a line for each step: the benchmark's name, a tab, milliseconds.
#include <benchmark/benchmark.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include "tenon/tenon.h"
#include "tests/cluster/processes.h"

namespace {

using namespace tenon::host;  // NOLINT: a benchmark of the face
using Clock = std::chrono::steady_clock;

std::ofstream samples;

Runtime& TheRuntime() {
  static Runtime* const runtime = new Runtime(std::move(*Runtime::Create()));
  return *runtime;
}

struct Group {
  Group(const char* scheme, int tasks) : processes(scheme, {{"worker", tasks}}) {}
  tenon::engine::Processes processes;
  Graph graph{TheRuntime()};
  std::optional<Session> session;
  std::optional<Callable> step;
};

std::unique_ptr<Group> kept;
std::string kept_name;

Status Start(const char* scheme, int64_t bytes, int tasks, const std::string& way) {
  kept = std::make_unique<Group>(scheme, tasks);
  if (!kept->processes.ok()) return Status(Code::kUnavailable, "the tasks did not start");
  Graph& g = kept->graph;
  const Shape shape = {bytes / 4};
  std::vector<Name> assigns, targets;
  for (int i = 0; i < tasks; ++i) {
    const auto on = g.Device("/job:worker/task:" + std::to_string(i));
    const std::string name = "v" + std::to_string(i);
    const Output v = g.Op("VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", shape}, {"shared_name", name}}, name);
    const Output ones =
        g.Op("Fill", {g.Const(std::vector<int64_t>{shape[0]}, {1}), g.Const(1.0f + static_cast<float>(i))},
             {{"index_type", DType::kInt64}});
    assigns.emplace_back(g.AddNode("AssignVariableOp", {v, ones}, {}, name + "/set"));
    const Output read = g.Op("ReadVariableOp", {v}, {{"dtype", DType::kFloat}}, name + "/read");
    const Output sum = g.Op("CollectiveReduce", {read},
                            {{"group_size", int64_t{tasks}},
                             {"group_key", int64_t{1}},
                             {"instance_key", int64_t{1}},
                             {"merge_op", "Add"},
                             {"final_op", "Div"},
                             {"subdiv_offsets", std::vector<int64_t>{}},
                             {"communication_hint", way}},
                            name + "/mean");
    const Output first =
        g.Op("Slice", {sum, g.Const(std::vector<int32_t>{0}, {1}), g.Const(std::vector<int32_t>{1}, {1})}, {},
             name + "/first");
    targets.emplace_back(Operation(first.graph(), first.node()));
  }
  SessionOptions options;
  options.master = kept->processes.address(0);
  TENON_TRY_ASSIGN(Session made, Session::Create(TheRuntime(), g, options));
  kept->session.emplace(std::move(made));
  TENON_TRY(kept->session->RunTargets(assigns));
  TENON_TRY_ASSIGN(Callable prepared, kept->session->Prepare({}, {}, targets));
  kept->step.emplace(std::move(prepared));
  for (int i = 0; i < 3; ++i) TENON_TRY(kept->step->Run().status());
  return Status();
}

void Reduce(benchmark::State& state, const std::string& name, const char* scheme, int64_t bytes, int tasks,
            const std::string& way) {
  if (kept_name != name) {
    kept.reset();
    kept_name.clear();
    if (Status started = Start(scheme, bytes, tasks, way); !started.ok())
      return state.SkipWithError(started.message().c_str());
    kept_name = name;
  }
  for (auto _ : state) {
    const auto begin = Clock::now();
    if (Status done = kept->step->Run().status(); !done.ok()) {
      state.SkipWithError(done.message().c_str());
      break;
    }
    if (samples.is_open())
      samples << name << '\t' << std::chrono::duration<double, std::milli>(Clock::now() - begin).count() << '\n';
  }
  state.SetBytesProcessed(state.iterations() * bytes);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const std::string flag = "--samples=";
  for (int i = 1; i < argc; ++i) {
    if (!std::string(argv[i]).starts_with(flag))
      return std::fprintf(stderr, "collective_bench knows no %s\n", argv[i]), 2;
    samples.open(argv[i] + flag.size(), std::ios::app);
    if (!samples) return std::fprintf(stderr, "collective_bench cannot write %s\n", argv[i] + flag.size()), 2;
  }
  const std::pair<const char*, int64_t> sizes[] = {{"4kB", 4 << 10}, {"1MB", 1 << 20}, {"100MB", 100 << 20}};
  for (const char* scheme : {"shm", "grpc"})
    for (const auto& [size, bytes] : sizes)
      for (const int tasks : {2, 4})
        for (const char* way : {"direct", "ring", "tree"}) {
          const std::string name = std::string(scheme) + "/" + size + "/" + std::to_string(tasks) + "/" + way;
          benchmark::RegisterBenchmark(name.c_str(), Reduce, name, scheme, bytes, tasks, way)
              ->Unit(benchmark::kMillisecond)
              ->UseRealTime();
        }
  benchmark::RunSpecifiedBenchmarks();
  kept.reset();
}
