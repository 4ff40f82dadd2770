// SPDX-License-Identifier: Apache-2.0
// The null step of the OSDI'16 paper's Figure 7: a worker fetches parameters from so many parameter servers, and does next to
// nothing with them. Each case is timed beside bounds of the same run: a wake-up between two processes, and memcpy of the bytes.
//
//   cluster_bench [--benchmark_filter=shm]        TF_CONFIG-like clusters are started here, one process a task.
#include <benchmark/benchmark.h>
#include <sys/socket.h>

#include <cstring>
#include <memory>
#include <thread>

#include "tenon/tenon.h"
#include "tests/cluster/processes.h"

namespace {

using namespace tenon::host;  // NOLINT: a benchmark of the face

Runtime& TheRuntime() {
  static Runtime* const runtime = new Runtime(std::move(*Runtime::Create()));
  return *runtime;
}

// Microseconds of a round trip of one byte between two threads that sleep, over a socket pair.
double WakeUpRoundTrip() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 0;
  std::thread echo([&] {
    for (char byte; read(ends[1], &byte, 1) == 1;)
      if (write(ends[1], &byte, 1) != 1) return;
  });
  constexpr int kTimes = 2000;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kTimes; ++i) {
    char byte = 1;
    if (write(ends[0], &byte, 1) != 1 || read(ends[0], &byte, 1) != 1) break;
  }
  const double took = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / kTimes;
  shutdown(ends[0], SHUT_RDWR);
  echo.join();
  close(ends[0]);
  close(ends[1]);
  return took;
}

double CopyMilliseconds(size_t bytes) {
  std::vector<char> from(bytes, 1), to(bytes, 2);
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    std::memcpy(to.data(), from.data(), bytes);
    benchmark::DoNotOptimize(to.data());
    best = std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

// `servers` hold `floats` each; the worker takes them all and gives back their first elements' sum.
void NullStep(benchmark::State& state, const char* scheme, int64_t floats) {
  const auto servers = static_cast<int>(state.range(0));
  const tenon::engine::Processes tasks(scheme, {{"ps", servers}, {"worker", 1}});
  if (!tasks.ok()) return state.SkipWithError("the tasks did not start");
  Graph g(TheRuntime());
  std::vector<Output> firsts;
  std::vector<std::string> targets;
  for (int i = 0; i < servers; ++i) {
    const std::string name = "v" + std::to_string(i);
    Output read;
    {
      const auto on = g.Device("/job:ps/task:" + std::to_string(i));
      const Output v = g.Op("VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", Shape{floats}}, {"shared_name", name}}, name);
      const Output shape = g.Const(std::vector<int64_t>{floats}, {1}, name + "/shape");
      targets.push_back(g.AddNode("AssignVariableOp", {v, g.Op("Fill", {shape, g.Const(1.0f, name + "/one")}, {{"index_type", DType::kInt64}})}, {}, name + "/set").name());
      read = g.Op("ReadVariableOp", {v}, {{"dtype", DType::kFloat}}, name + "/read");
    }
    const auto on = g.Device("/job:worker/task:0");
    firsts.push_back(g.Op("Slice", {read, g.Const(std::vector<int32_t>{0}, {1}, name + "/at"), g.Const(std::vector<int32_t>{1}, {1}, name + "/size")}, {}, name + "/first"));
  }
  {
    const auto on = g.Device("/job:worker/task:0");
    g.Op("AddN", {firsts}, {}, "sum");
  }
  SessionOptions options;
  options.master = tasks.address(0);
  auto session = Session::Create(TheRuntime(), g, options);
  if (!session.ok()) return state.SkipWithError(session.status().message().c_str());
  std::vector<Name> names(targets.begin(), targets.end());
  if (Status set = session->RunTargets(names); !set.ok()) return state.SkipWithError(set.message().c_str());
  auto step = session->Prepare({}, {"sum"});
  if (!step.ok()) return state.SkipWithError(step.status().message().c_str());
  for (int i = 0; i < 3; ++i) (void)step->Run();
  uint64_t steps = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (auto _ : state) {
    auto sum = step->Run();
    if (!sum.ok()) return state.SkipWithError(sum.status().message().c_str());
    ++steps;
  }
  const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count() / static_cast<double>(std::max<uint64_t>(steps, 1));
  const auto bytes = static_cast<size_t>(servers) * static_cast<size_t>(floats) * sizeof(float);
  if (bytes < 1 << 16) state.counters["of_two_wake_ups"] = ms * 1000 / (2 * WakeUpRoundTrip());  // client and worker, worker and server
  else state.counters["of_memcpy"] = ms / CopyMilliseconds(bytes);
}

void Register() {
  for (const char* scheme : {"shm", "grpc"})
    for (const auto& [name, floats] : {std::pair<const char*, int64_t>{"scalar", 1}, {"10MB", 10 << 18}, {"100MB", 100 << 18}}) {
      auto* made = benchmark::RegisterBenchmark((std::string("NullStep/") + scheme + "/" + name).c_str(), NullStep, scheme, floats);
      made->Unit(benchmark::kMillisecond)->UseRealTime()->Arg(1)->Arg(2);
      if (floats == 1) made->Arg(4)->Arg(8)->Arg(16);
    }
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  Register();
  benchmark::RunSpecifiedBenchmarks();
}
