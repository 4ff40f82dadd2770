// SPDX-License-Identifier: Apache-2.0
// The null step of the OSDI'16 paper's Figure 7: a worker fetches parameters from so many parameter servers, and does
// next to nothing with them: a scalar from each, a whole model that lies in equal parts on them (10MB, 100MB), or 32
// random rows of a table that does (sparse_64MB, sparse_1GB). Beside it, bounds of the same run: a wake-up of another
// thread, as much over bare TCP, and memcpy. Layers: so many square matrices on a server, which 32 rows on the worker
// are multiplied by one after the other; all that is sent comes at once, or is asked for (the session option
// receive_window). NullStepInside: the worker is in the client's process. SubgraphRate: how many steps of nothing one
// task takes a second while so many clients' threads wait for it.
//
//   cluster_bench [--samples=FILE] [--benchmark_filter=shm]
//
// Clusters are started here, one process a task. FILE gets a line for each step: the benchmark's name, a tab,
// milliseconds.
#include <benchmark/benchmark.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <numeric>
#include <optional>
#include <thread>

#include "tenon/tenon.h"
#include "tests/cluster/processes.h"

namespace {

using namespace tenon::host;  // NOLINT: a benchmark of the face
using Clock = std::chrono::steady_clock;

constexpr int64_t kWidth = 256;  // floats a row: 1 KiB
constexpr int32_t kLookups = 32;

struct Case {
  const char* name;
  int64_t bytes;  // of all servers together; 0: a scalar on each
  bool sparse;
};
constexpr Case kCases[] = {{"scalar", 0, false},
                           {"10MB", 10 << 20, false},
                           {"100MB", 100 << 20, false},
                           {"sparse_64MB", 64 << 20, true},
                           {"sparse_1GB", 1 << 30, true}};

std::ofstream samples;

Runtime& TheRuntime() {
  static Runtime* const runtime = new Runtime(std::move(*Runtime::Create()));
  return *runtime;
}

double MillisecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

// Times `step`, which returns a Status, until `state` has enough; the mean.
template <class Step>
double Measure(benchmark::State& state, const std::string& name, Step step) {
  std::vector<double> took;
  for (auto _ : state) {
    const auto begin = Clock::now();
    if (Status done = step(); !done.ok()) {
      state.SkipWithError(done.message().c_str());
      break;
    }
    took.push_back(MillisecondsSince(begin));
  }
  if (samples.is_open())
    for (const double each : took) samples << name << '\t' << each << '\n';
  return std::accumulate(took.begin(), took.end(), 0.0) / static_cast<double>(std::max<size_t>(took.size(), 1));
}

// A thread that answers each byte with so many, over a socket.
class Answerer {
 public:
  Answerer(bool tcp, size_t bytes) : answer_(bytes, 1), received_(bytes) {
    ok_ = tcp ? ConnectTcp() : socketpair(AF_UNIX, SOCK_STREAM, 0, ends_) == 0;
    if (ok_) thread_ = std::thread([this] { Serve(); });
  }
  ~Answerer() {
    if (ends_[0] >= 0) shutdown(ends_[0], SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
    for (const int end : ends_)
      if (end >= 0) close(end);
  }
  Answerer(const Answerer&) = delete;
  Answerer& operator=(const Answerer&) = delete;

  Status Ask() {
    const char byte = 1;
    const auto bytes = static_cast<ssize_t>(received_.size());
    if (ok_ && write(ends_[0], &byte, 1) == 1 &&
        recv(ends_[0], received_.data(), received_.size(), MSG_WAITALL) == bytes)
      return Status();
    return Status(Code::kUnavailable, "no answer over a socket of this process: " + std::string(strerror(errno)));
  }

 private:
  void Serve() {
    for (char byte; read(ends_[1], &byte, 1) == 1;)
      for (size_t at = 0; at < answer_.size();) {
        const ssize_t wrote = send(ends_[1], answer_.data() + at, answer_.size() - at, MSG_NOSIGNAL);
        if (wrote <= 0) return;
        at += static_cast<size_t>(wrote);
      }
  }
  bool ConnectTcp() {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const general = reinterpret_cast<sockaddr*>(&address);
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    ends_[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, general, size) == 0 && listen(listener, 1) == 0 && getsockname(listener, general, &size) == 0 &&
        connect(ends_[0], general, size) == 0)
      ends_[1] = accept(listener, nullptr, nullptr);
    close(listener);
    for (const int end : ends_) {
      const int on = 1;
      setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    }
    return ends_[1] >= 0;
  }

  int ends_[2] = {-1, -1};
  bool ok_ = false;
  std::vector<char> answer_, received_;
  std::thread thread_;
};

void Bare(benchmark::State& state, const std::string& name, bool tcp, size_t bytes) {
  Answerer answerer(tcp, bytes);
  Measure(state, name, [&] { return answerer.Ask(); });
}

void Memcpy(benchmark::State& state, const std::string& name, size_t bytes) {
  std::vector<char> from(bytes, 1), to(bytes, 2);
  Measure(state, name, [&] {
    std::memcpy(to.data(), from.data(), bytes);
    benchmark::DoNotOptimize(to.data());
    return Status();
  });
}

double WakeUpMilliseconds() {
  Answerer answerer(false, 1);
  constexpr int kTimes = 2000;
  const auto begin = Clock::now();
  for (int i = 0; i < kTimes; ++i)
    if (!answerer.Ask().ok()) return 0;
  return MillisecondsSince(begin) / kTimes;
}

double CopyMilliseconds(size_t bytes) {
  std::vector<char> from(bytes, 1), to(bytes, 2);
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto begin = Clock::now();
    std::memcpy(to.data(), from.data(), bytes);
    benchmark::DoNotOptimize(to.data());
    best = std::min(best, MillisecondsSince(begin));
  }
  return best;
}

// Tasks that run, and one step prepared on them. Ends in the reverse order.
struct Cluster {
  Cluster(const char* scheme, int servers) : tasks(scheme, {{"worker", 1}, {"ps", servers}}) {}

  // Takes the worker into this process, which is its client too.
  Status TakeWorkerIn(int servers) {
    tasks.Kill(0);
    std::vector<ClusterTask> all{{"/job:worker/task:0", tasks.address(0)}};
    for (int i = 0; i < servers; ++i)
      all.push_back({"/job:ps/task:" + std::to_string(i), tasks.address(static_cast<size_t>(i) + 1)});
    RuntimeOptions options;
    options.task = all[0].name;
    options.threads = 1;
    TENON_TRY_ASSIGN(Runtime made, Runtime::Create(options));
    runtime = std::make_unique<Runtime>(std::move(made));
    TENON_TRY_ASSIGN(Worker started, Worker::Start(*runtime, all));
    worker.emplace(std::move(started));
    return Status();
  }
  Status Prepare(const std::vector<Name>& first, const std::vector<Name>& fetches, const std::vector<Name>& targets) {
    if (!tasks.ok()) return Status(Code::kUnavailable, "the tasks did not start");
    options.master = tasks.address(0);
    TENON_TRY_ASSIGN(Session made, Session::Create(TheRuntime(), graph, options));
    session.emplace(std::move(made));
    if (!first.empty()) TENON_TRY(session->RunTargets(first));
    TENON_TRY_ASSIGN(Callable prepared, session->Prepare({}, fetches, targets));
    step.emplace(std::move(prepared));
    for (int i = 0; i < 3; ++i) TENON_TRY(Run());
    return Status();
  }
  Status Run() const { return step->Run().status(); }

  tenon::engine::Processes tasks;
  std::unique_ptr<Runtime> runtime;  // of the worker that is in this process, when it is
  std::optional<Worker> worker;
  Graph graph{TheRuntime()};
  SessionOptions options;
  std::optional<Session> session;
  std::optional<Callable> step;
};

// The one that runs: Google Benchmark calls a case several times until it knows how many steps to time.
std::unique_ptr<Cluster> kept;
std::string kept_name;

// Server `i` holds its part of the table and gives the worker all of it, or rows that the worker draws. Its first
// element, on the worker.
Output FirstOf(Graph& g, const Case& of, int i, int servers, std::vector<Name>* assigns) {
  const std::string name = "v" + std::to_string(i);
  const Shape shape = of.bytes == 0 ? Shape{1, 1} : Shape{of.bytes / (kWidth * 4) / servers, kWidth};
  const std::string server = "/job:ps/task:" + std::to_string(i), worker = "/job:worker/task:0";
  Output ids, rows;
  if (of.sparse) {
    const auto on = g.Device(worker);
    const Output count = g.Const(std::vector<int32_t>{kLookups / servers}, {1}, name + "/count");
    const Output end = g.Const(static_cast<int32_t>(shape[0]), name + "/end");
    ids = g.Op("RandomUniformInt", {count, g.Const(int32_t{0}, name + "/begin"), end}, {}, name + "/ids");
  }
  {
    const auto on = g.Device(server);
    const Output v = g.Op("VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", shape}, {"shared_name", name}}, name);
    const Output dims = g.Const(std::vector<int64_t>{shape[0], shape[1]}, {2}, name + "/shape");
    const Output ones =
        g.Op("Fill", {dims, g.Const(1.0f, name + "/one")}, {{"index_type", DType::kInt64}}, name + "/ones");
    assigns->push_back(g.AddNode("AssignVariableOp", {v, ones}, {}, name + "/set"));
    rows = of.sparse ? g.Op("ResourceGather", {v, ids}, {{"dtype", DType::kFloat}}, name + "/rows")
                     : g.Op("ReadVariableOp", {v}, {{"dtype", DType::kFloat}}, name + "/read");
  }
  const auto on = g.Device(worker);
  const Output at = g.Const(std::vector<int32_t>{0, 0}, {2}, name + "/at"),
               size = g.Const(std::vector<int32_t>{1, 1}, {2}, name + "/size");
  return g.Op("Slice", {rows, at, size}, {}, name + "/first");
}

Status StartNullStep(const char* scheme, const Case& of, int servers, bool inside) {
  kept = std::make_unique<Cluster>(scheme, servers);
  if (inside) TENON_TRY(kept->TakeWorkerIn(servers));
  std::vector<Output> firsts;
  std::vector<Name> assigns;
  for (int i = 0; i < servers; ++i) firsts.push_back(FirstOf(kept->graph, of, i, servers, &assigns));
  const auto on = kept->graph.Device("/job:worker/task:0");
  return kept->Prepare(assigns, {kept->graph.Op("AddN", {firsts}, {}, "sum")}, {});
}

Status StartLayers(const char* scheme, int count, int32_t side, uint64_t window) {
  kept = std::make_unique<Cluster>(scheme, 1);
  kept->options.receive_window = window;
  Graph& g = kept->graph;
  std::vector<Output> weights;
  std::vector<Name> assigns;
  {
    const auto on = g.Device("/job:ps/task:0");
    for (int i = 0; i < count; ++i) {
      const std::string name = "w" + std::to_string(i);
      const Output v = g.Op("VarHandleOp", {},
                            {{"dtype", DType::kFloat}, {"shape", Shape{side, side}}, {"shared_name", name}}, name);
      assigns.push_back(g.AddNode(
          "AssignVariableOp", {v, g.Op("Fill", {g.Const({side, side}), g.Const(1.0f / static_cast<float>(side + i))})},
          {}, name + "/set"));
      weights.push_back(g.Op("ReadVariableOp", {v}, {{"dtype", DType::kFloat}}, name + "/read"));
    }
  }
  const auto on = g.Device("/job:worker/task:0");
  Output x = g.Op("Fill", {g.Const({32, side}), g.Const(1.0f)});
  for (const Output& weight : weights) x = g.Op("Relu", {g.Op("MatMul", {x, weight})});
  return kept->Prepare(assigns, {g.Op("Sum", {x, g.Const({0, 1})}, {}, "sum")}, {});
}

Status StartNull(const char* scheme) {
  kept = std::make_unique<Cluster>(scheme, 0);
  const auto on = kept->graph.Device("/job:worker/task:0");
  return kept->Prepare({}, {}, {kept->graph.AddNode("NoOp", {}, {}, "nothing")});
}

// Whether a step of `name` is ready, started by `start` when another's is.
template <class Start>
bool Ready(benchmark::State& state, const std::string& name, Start start) {
  if (kept_name == name) return true;
  kept.reset();
  kept_name.clear();
  if (Status started = start(); !started.ok()) {
    state.SkipWithError(started.message().c_str());
    return false;
  }
  kept_name = name;
  return true;
}

void NullStep(benchmark::State& state, const std::string& name, const char* scheme, const Case& of, int servers,
              bool inside) {
  if (!Ready(state, name, [&] { return StartNullStep(scheme, of, servers, inside); })) return;
  const double ms = Measure(state, name, [] { return kept->Run(); });
  // Client and worker, worker and server.
  if (of.bytes == 0 || of.sparse) state.counters["of_two_wake_ups"] = ms / (2 * WakeUpMilliseconds());
  else state.counters["of_memcpy"] = ms / CopyMilliseconds(static_cast<size_t>(of.bytes));
}

void Layers(benchmark::State& state, const std::string& name, const char* scheme, int count, int32_t side,
            uint64_t window) {
  if (!Ready(state, name, [&] { return StartLayers(scheme, count, side, window); })) return;
  (void)Measure(state, name, [] { return kept->Run(); });
}

// Each thread waits for its step: so many are in flight.
void SubgraphRate(benchmark::State& state, const std::string& name, const char* scheme) {
  if (state.thread_index() == 0) (void)Ready(state, name, [&] { return StartNull(scheme); });
  for (auto _ : state)
    if (Status done = kept->Run(); !done.ok()) state.SkipWithError(done.message().c_str());
  state.SetItemsProcessed(state.iterations());
}

template <class... Arguments>
benchmark::internal::Benchmark* Register(const std::string& name, Arguments... arguments) {
  return benchmark::RegisterBenchmark(name.c_str(), arguments...)->Unit(benchmark::kMillisecond)->UseRealTime();
}

void RegisterBounds() {
  const std::pair<const char*, size_t> sizes[] = {
      {"4B", 4}, {"32kB", 32 << 10}, {"10MB", 10 << 20}, {"100MB", 100 << 20}};
  for (const auto& [size, bytes] : sizes) {
    const std::string name = size;
    Register("Bound/tcp/" + name, Bare, "Bound/tcp/" + name, true, bytes);
    if (bytes >= 10 << 20) Register("Bound/memcpy/" + name, Memcpy, "Bound/memcpy/" + name, bytes);
  }
  Register("Bound/wake_up", Bare, "Bound/wake_up", false, 1);
}

void RegisterSteps(const char* scheme) {
  for (const Case& of : kCases)
    for (const int servers : {1, 2, 4, 8, 16}) {
      if (of.bytes > (100 << 20) && servers > 2) continue;
      const std::string name = std::string("NullStep/") + scheme + "/" + of.name + "/" + std::to_string(servers);
      Register(name, NullStep, name, scheme, of, servers, false);
    }
  for (const auto& [count, side] : {std::pair{40, 256}, std::pair{24, 768}, std::pair{12, 2048}})
    for (const auto& [how, window] : {std::pair{"at_once", UINT64_MAX}, std::pair{"asked_for", uint64_t{0}}}) {
      const std::string layers =
          std::string("Layers/") + scheme + "/" + std::to_string(count) + "x" + std::to_string(side) + "/" + how;
      Register(layers, Layers, layers, scheme, count, side, window);
    }
  const std::string inside = std::string("NullStepInside/") + scheme + "/scalar/1";
  Register(inside, NullStep, inside, scheme, kCases[0], 1, true);
  const std::string name = std::string("SubgraphRate/") + scheme;
  for (const int in_flight : {1, 8, 64}) Register(name, SubgraphRate, name, scheme)->Threads(in_flight);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const std::string flag = "--samples=";
  for (int i = 1; i < argc; ++i) {
    if (!std::string(argv[i]).starts_with(flag)) return std::fprintf(stderr, "cluster_bench knows no %s\n", argv[i]), 2;
    samples.open(argv[i] + flag.size(), std::ios::app);
    if (!samples) return std::fprintf(stderr, "cluster_bench cannot write %s\n", argv[i] + flag.size()), 2;
  }
  RegisterBounds();
  for (const char* scheme : {"shm", "grpc"}) RegisterSteps(scheme);
  benchmark::RunSpecifiedBenchmarks();
  kept.reset();
}
