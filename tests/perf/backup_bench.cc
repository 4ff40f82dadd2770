// SPDX-License-Identifier: Apache-2.0
// Synchronous training with backup workers, some of which straggle: the step's time over the number of backups
// (OSDI'16, Figure 8c).
//
// A step takes the first m of m + b replicas. How long a replica takes is drawn, from the seed, from a distribution
// with a heavy tail (Pareto), and slept; what it does besides is real: it reads the weights from the servers, and sends
// its gradients there, so that each backup costs the servers and the cores something. The numbers of backups take turns
// in several rounds, so that what else the machine does meets them alike. Prints a table and the same as TSV.
//
//   bin/backup_bench [STEPS [WANTED [MOST_BACKUPS]]]     STEPS: of a round
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <random>
#include <thread>

#include "tenon/train/replicas.h"
#include "tests/cluster/processes.h"

namespace tenon {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kElements = 1 << 19;  // of each of two weights
constexpr double kLeastMs = 10, kTail = 1.4;
constexpr int kWarmUp = 5, kRounds = 5;

void Check(const host::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  std::exit(1);
}
template <typename T>
T Take(host::Result<T> result) {
  Check(result.status());
  return std::move(*result);
}

struct Client {
  Client(const host::Runtime& runtime, const train::ReplicaOptions& options, int64_t number, const std::string& master)
      : g(runtime),
        model(g, 1),
        graph(Build(options, number)),
        session(Take(host::Session::Create(runtime, OptionsOf(master)))) {
    Check(g.status());
  }
  static host::SessionOptions OptionsOf(const std::string& master) {
    host::SessionOptions options;
    options.master = master;
    return options;
  }
  train::ReplicaGraph Build(const train::ReplicaOptions& options, int64_t number) {
    model.set_variable_devices({"/job:ps/task:0", "/job:ps/task:1"});
    const auto on = g.Device("/job:worker/task:" + std::to_string(number % 2));
    std::vector<host::Output> losses;
    for (const char* name : {"a", "b"})
      losses.push_back(g.Op(
          "Mean",
          {g.Op("Square", {model.Weight(name, {kElements}, train::Initializer::Constant(1)).value}), g.Const({0})}));
    train::OptimizerOptions sgd;
    sgd.kind = train::OptimizerOptions::Kind::kGradientDescent;
    return train::ReplicaGraph(model, g.Op("AddN", losses), g.Const(0.01f), sgd, options, number);
  }
  host::Graph g;
  train::Model model;
  train::ReplicaGraph graph;
  host::Session session;
};

// Milliseconds between the applications of one step and the next.
std::vector<double> StepTimes(const host::Runtime& runtime, const engine::Processes& tasks, int64_t wanted,
                              int64_t backups, int64_t steps, int round) {
  train::ReplicaOptions options;
  options.replicas = wanted + backups;
  options.backups = backups;
  options.name = "backup_" + std::to_string(backups);
  options.device = "/job:ps/task:0";
  const std::string& master = tasks.address(2);
  Client leader(runtime, options, 0, master);
  const std::unique_ptr<train::ReplicaChief> chief = Take(train::ReplicaChief::Begin(leader.session, leader.graph));
  std::vector<Clock::time_point> applied;
  chief->on_event = [&applied](const train::ReplicaEvent& event) {
    if (event.kind == train::ReplicaEvent::Kind::kApplied) applied.push_back(Clock::now());
  };
  std::vector<std::thread> replicas;
  for (int64_t i = 0; i < options.replicas; ++i)
    replicas.emplace_back([&, i] {
      Client client(runtime, options, i, master);
      const std::unique_ptr<train::ReplicaClient> replica =
          Take(train::ReplicaClient::Begin(client.session, client.graph, {}));
      std::mt19937 random(static_cast<unsigned>(1000 * i + round));
      std::uniform_real_distribution<double> uniform(0, 1);
      while (Take(replica->Next()) < steps) {
        const double ms = kLeastMs * std::pow(1 - uniform(random), -1 / kTail);
        std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(std::min(ms, 100 * kLeastMs)));
        Take(replica->Step({}));
      }
    });
  Check(chief->Run(steps));
  for (std::thread& replica : replicas) replica.join();
  std::vector<double> times;
  for (size_t i = kWarmUp; i < applied.size(); ++i)
    times.push_back(std::chrono::duration<double, std::milli>(applied[i] - applied[i - 1]).count());
  return times;
}

int Main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? std::atoll(argv[1]) : 60, wanted = argc > 2 ? std::atoll(argv[2]) : 8,
                most = argc > 3 ? std::atoll(argv[3]) : 8;
  if (steps <= kWarmUp || wanted < 1 || most < 0) {
    std::fprintf(stderr, "backup_bench [STEPS [WANTED [MOST_BACKUPS]]]: at least %d steps, 1, 0\n", kWarmUp + 1);
    return 1;
  }
  const host::Runtime runtime = Take(host::Runtime::Create({}));
  const engine::Processes tasks("shm", {{"ps", 2}, {"worker", 2}});
  if (!tasks.ok()) {
    std::fprintf(stderr, "the tasks did not start\n");
    return 1;
  }
  std::printf(
      "%d rounds of %lld steps, the first %lld replicas count; each sleeps at least %.0f ms (Pareto, tail %.1f), and "
      "moves %.0f MB\n\n",
      kRounds, static_cast<long long>(steps), static_cast<long long>(wanted), kLeastMs, kTail,
      2 * 2 * kElements * 4 / 1e6);
  std::fflush(stdout);
  std::printf("backups  median ms  90th percentile ms  speed-up  a replica's share of it\n");
  std::string tsv = "backups\tmedian_ms\tp90_ms\tspeedup\tnormalised\n";
  std::vector<std::vector<double>> all(static_cast<size_t>(most) + 1);
  for (int round = 0; round < kRounds; ++round)
    for (int64_t backups = 0; backups <= most; ++backups) {
      const std::vector<double> times = StepTimes(runtime, tasks, wanted, backups, steps, round);
      std::vector<double>& own = all[static_cast<size_t>(backups)];
      own.insert(own.end(), times.begin(), times.end());
    }
  double first = 0;
  for (int64_t backups = 0; backups <= most; ++backups) {
    std::vector<double>& times = all[static_cast<size_t>(backups)];
    std::sort(times.begin(), times.end());
    const double median = times[times.size() / 2], high = times[times.size() * 9 / 10];
    if (backups == 0) first = median;
    const double speedup = first / median,
                 share = speedup * static_cast<double>(wanted) / static_cast<double>(wanted + backups);
    std::printf("%7lld  %9.1f  %18.1f  %8.2f  %23.2f\n", static_cast<long long>(backups), median, high, speedup, share);
    std::fflush(stdout);
    char line[128];
    std::snprintf(line, sizeof(line), "%lld\t%.2f\t%.2f\t%.3f\t%.3f\n", static_cast<long long>(backups), median, high,
                  speedup, share);
    tsv += line;
  }
  std::printf("\n%s", tsv.c_str());
  return 0;
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) { return tenon::Main(argc, argv); }
