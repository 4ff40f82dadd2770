// SPDX-License-Identifier: Apache-2.0
// Choosing devices, against the best of all choices. Covers G3, G8.
#include "core/place/choose.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>

#include "core/graph/graph.h"
#include "core/place/cost_model.h"
#include "core/place/look_ahead.h"
#include "tests/fakes/place_request.h"

namespace tenon::place::choose_test {
namespace {

using fakes::MadeProblem;
using fakes::MakeDevice;
using fakes::PlaceMaker;
using graph::Edge;

constexpr double kNever = std::numeric_limits<double>::infinity();

// The rule of schedule.h once more, in few words and with copies of its state: the best of all assignments of nodes.
class Exhaustive {
 public:
  Exhaustive(const Problem& problem, const Sequence& sequence)
      : problem_(problem),
        sequence_(sequence),
        devices_(problem.device_count()),
        home_(problem.values.size(), problem.host) {}

  double Best() {
    Extend(0, {ByDevice(devices_), std::vector<double>(devices_ * devices_),
               IdVector<ValueId, ByDevice>(problem_.values.size()), 0});
    return best_;
  }

 private:
  using ByDevice = IdVector<DeviceId, double>;
  struct State {
    ByDevice queue;
    std::vector<double> link;
    IdVector<ValueId, ByDevice> there;  // negative: not there. Empty: not made
    double end;
  };

  double Bring(State& state, ValueId value, DeviceId to) const {
    ByDevice& there = state.there[value];
    if (there.empty()) {
      there.assign(devices_, -1);
      there[problem_.host] = 0;  // fed
    }
    if (there[to] >= 0) return there[to];
    const DeviceId from = home_[value];
    const Link& link = problem_.link(from, to);
    double& free = state.link[from.index() * devices_ + to.index()];
    free = std::max(free, there[from]) + problem_.values[value].bytes / link.bytes_per_second;
    return there[to] = free + link.latency_seconds;
  }

  void Extend(size_t depth, const State& state) {
    if (state.end >= best_) return;
    if (depth == sequence_.size()) {
      best_ = std::min(best_, state.end);
      return;
    }
    const Position position = sequence_[depth];
    for (DeviceId device : problem_.devices_of(problem_.groups.group_of[position])) {
      State next = state;
      double start = next.queue[device];
      for (ValueId v : problem_.inputs_of(position)) start = std::max(start, Bring(next, v, device));
      next.queue[device] = start + problem_.SecondsOf(position, device);
      next.end = std::max(next.end, next.queue[device]);
      for (ValueId v : problem_.values.ids()) {
        if (problem_.values[v].producer != position) continue;
        next.there[v].assign(devices_, -1);
        next.there[v][device] = next.queue[device];
        home_[v] = device;
        if (std::find(problem_.fetched.begin(), problem_.fetched.end(), v) != problem_.fetched.end())
          next.end = std::max(next.end, Bring(next, v, problem_.host));
      }
      Extend(depth + 1, next);
    }
  }

  const Problem& problem_;
  const Sequence& sequence_;
  size_t devices_;
  IdVector<ValueId, DeviceId> home_;
  double best_ = kNever;
};

// A graph of two to twelve nodes, with costs from the op or measured by device, some nodes bound to a device.
struct RandomCase : PlaceMaker {
  CostModel costs;

  RandomCase(uint32_t seed, size_t device_count) {
    std::mt19937 random(seed);
    const auto between = [&random](double low, double high) {  // even in the logarithm
      return low * std::pow(high / low, std::uniform_real_distribution<>(0, 1)(random));
    };
    devices = {MakeDevice("HOST", 0, between(0.3, 3), true)};
    const double speed = between(0.5, 10);
    for (size_t i = 1; i < device_count; ++i) devices.push_back(MakeDevice("FAST", static_cast<int>(i) - 1, speed));
    const double share = between(0.03, 3);  // of transfers to work
    link = {0.1 * share, 1e6 / share};
    const size_t count = 2 + random() % 11;
    const bool measured = random() % 2 == 0;
    std::vector<Edge> nodes;
    for (size_t i = 0; i < count; ++i) {
      Edges inputs;
      for (size_t k = nodes.size() - std::min<size_t>(nodes.size(), 5); k < nodes.size(); ++k)
        if (random() % 3 == 0) inputs.push_back(nodes[k]);
      const std::string name = StrCat("n", i);
      nodes.push_back(Seconds(inputs, between(0.1, 3), static_cast<int64_t>(between(4e4, 4e6)) / 4 * 4, name));
      for (const char* type : {"HOST", "FAST"})
        if (measured) {
          std::vector<Shape> input_shapes;
          for (Edge input : inputs) input_shapes.push_back(graph.node(input.node).FindAttr("shape")->shape());
          costs.Record(name, "Work", type, input_shapes, between(0.1, 3));
        }
      if (random() % 8 == 0) Pin(nodes.back(), random() % 2 == 0 ? "/host:*" : "/fast:*");
    }
    request.fetches = {nodes.back()};
    request.costs = &costs;
  }
};

// A step that is given up since what is behind a node would take too long would have been too long; no other one is.
TEST(LookAhead, IsNeverMoreThanTheRestOfTheStep) {
  std::mt19937 random(1);
  int sooner = 0;
  for (uint32_t seed = 0; seed < 500; ++seed) {
    RandomCase made(seed, seed % 2 == 0 ? 2 : 3);
    const MadeProblem problem(made.Ask());
    const Problem& p = problem.problem;
    GroupDevices devices(p.groups.size());
    for (GroupId group : p.groups.ids()) devices[group] = p.devices_of(group)[random() % p.devices_of(group).size()];
    Schedule schedule(&p);
    const LookAhead ahead(p);
    const double seconds = Simulate(p, problem.sequence, devices, &schedule, kNever);
    EXPECT_EQ(Simulate(p, problem.sequence, devices, &schedule, seconds, &ahead), seconds) << seed;
    EXPECT_EQ(Simulate(p, problem.sequence, devices, &schedule, seconds * 0.99, &ahead), kNever) << seed;
    for (Position position : p.positions()) sooner += schedule.taken(position) ? 0 : 1;
  }
  EXPECT_GT(sooner, 300) << "it sees some of them sooner";
}

// TENON_PLACED_GRAPHS=3000 tries more.
TEST(Choose, StaysNearTheBestOfAllAssignments) {
  double sum = 0, worst = 0, greedy_sum = 0, greedy_worst = 0;
  int optimal = 0, beyond = 0;
  const char* const wished = std::getenv("TENON_PLACED_GRAPHS");
  const int graphs = wished == nullptr ? 1000 : std::atoi(wished);
  for (int seed = 0; seed < graphs; ++seed) {
    RandomCase made(static_cast<uint32_t>(seed), seed % 2 == 0 ? 2 : 3);
    const MadeProblem problem(made.Ask());
    double greedy = 0;
    const auto chosen = Choose(problem.problem, problem.sequence, &greedy);
    ASSERT_TRUE(chosen.ok()) << chosen.status().ToString();
    const double best = Exhaustive(problem.problem, problem.sequence).Best();
    ASSERT_GE(chosen->seconds, best * (1 - 1e-9)) << seed << ": nothing is better than the best";
    const double ratio = chosen->seconds / best;
    sum += ratio;
    worst = std::max(worst, ratio);
    greedy_sum += greedy / best;
    greedy_worst = std::max(greedy_worst, greedy / best);
    optimal += ratio < 1 + 1e-9;
    beyond += ratio > 1.1;
  }
  std::printf(
      "to the best: mean %.4f, worst %.3f, beyond 1.1 %d, optimal %d of %d; before the search: mean %.4f, worst %.3f\n",
      sum / graphs, worst, beyond, optimal, graphs, greedy_sum / graphs, greedy_worst);
  EXPECT_LE(sum / graphs, 1.001);
  EXPECT_LE(worst, 1.1);
}

TEST(Choose, TheSimulationIsTheRuleThatTheTestWritesOut) {
  for (uint32_t seed = 1000; seed < 1040; ++seed) {
    RandomCase made(seed, 3);
    std::mt19937 random(seed);
    // Every node on one device: one assignment is left for the exhaustive search.
    for (const graph::NodeId id : made.graph.ids())
      made.graph.mutable_node(id).device = made.devices[DeviceId(random() % 3)].name;
    const MadeProblem problem(made.Ask());
    const auto chosen = Choose(problem.problem, problem.sequence);
    ASSERT_TRUE(chosen.ok());
    EXPECT_NEAR(chosen->seconds, Exhaustive(problem.problem, problem.sequence).Best(), 1e-9 * chosen->seconds) << seed;
  }
}

TEST(Choose, OneTransferServesAllReadersOnADevice) {
  PlaceMaker g;
  const Edge a = g.Seconds({}, 1, 4000);
  g.Pin(a, "/host:0");
  for (int i = 0; i < 5; ++i) g.Pin(g.Seconds({a}, 1), "/device:FAST:1");
  const Placement placement = g.Placed();
  EXPECT_EQ(placement.transfers, 1);
  EXPECT_EQ(placement.transfer_bytes, 4000);
  EXPECT_NEAR(placement.seconds, 1 + (1e-3 + 4e-3) + 5 * 0.1, 1e-9)
      << "the work, latency and bytes, five times on the fast one";
}

TEST(Choose, ParallelWorkIsSpread) {
  PlaceMaker g;
  g.link = {1e-6, 1e12};
  std::vector<Edge> chains;
  for (int i = 0; i < 2; ++i) {
    Edge at = g.Seconds({}, 1);
    for (int k = 0; k < 5; ++k) at = g.Seconds({at}, 1);
    chains.push_back(at);
  }
  const Placement placement = g.Placed();
  const DeviceId first = placement.device_of_node[chains[0].node], second = placement.device_of_node[chains[1].node];
  EXPECT_EQ((std::set<DeviceId>{first, second}), (std::set<DeviceId>{DeviceId(1), DeviceId(2)}));
  EXPECT_EQ(placement.transfers, 0);
  EXPECT_NEAR(placement.seconds, 0.6, 1e-9);
}

TEST(Choose, WorkThatIsNotWorthATransferStays) {
  PlaceMaker g;
  g.link = {10, 1e3};
  const Edge feed = g.Feed(TENON_DT_FLOAT, {1000}), a = g.Seconds({feed}, 1), b = g.Seconds({a}, 1);
  g.request.feeds = {feed};
  g.request.fetches = {b};
  const Placement placement = g.Placed();
  EXPECT_EQ(placement.device_of_node[a.node], DeviceId(0));
  EXPECT_EQ(placement.device_of_node[b.node], DeviceId(0));
}

TEST(Choose, SplitsWhatFitsOnlyWhenItIsSplit) {
  PlaceMaker g;
  g.devices = {MakeDevice("HOST", 0, 0.001, true), MakeDevice("FAST", 0, 10), MakeDevice("FAST", 1, 10)};
  for (DeviceInfo& device : g.devices) device.memory_bytes = 1e6;
  g.link = {1, 1e9};
  // Six live values of 0.3 MB: no device takes more than three.
  std::vector<Edge> values;
  for (int i = 0; i < 6; ++i) values.push_back(g.Seconds({}, 0.01, 300000, StrCat("v", i)));
  for (int i = 0; i < 6; ++i) g.Seconds({values[i]}, 0.01);
  for (Edge value : values) g.request.fetches.push_back(value);
  g.devices[DeviceId(0)].memory_bytes = 10e6;
  const Placement placement = g.Placed();
  for (DeviceId d : g.devices.ids()) EXPECT_LE(placement.peak_bytes[d], g.devices[d].memory_bytes) << g.devices[d].name;
  std::set<DeviceId> used;
  for (Edge value : values) used.insert(placement.device_of_node[value.node]);
  EXPECT_GT(used.size(), 1u);
}

TEST(Choose, VariablesAreSplitOverDevicesThatHoldOneEach) {
  PlaceMaker g;
  g.devices = {MakeDevice("FAST", 0, 10), MakeDevice("FAST", 1, 10)};
  for (DeviceInfo& device : g.devices) device.memory_bytes = 1000;
  std::vector<Edge> constants;
  for (int i = 0; i < 2; ++i)
    constants.push_back(g.ValueOf(fakes::TensorOf<float>(TENON_DT_FLOAT, {200}, std::vector<float>(200, 1))));
  for (Edge constant : constants) g.Work({constant}, 1e6f, {});
  const Placement placement = g.Placed();
  EXPECT_NE(placement.device_of_node[constants[0].node], placement.device_of_node[constants[1].node]);
}

TEST(Choose, WhatFitsNowhereSaysWhichNodeAndWhatThereIs) {
  PlaceMaker g;
  for (DeviceInfo& device : g.devices) device.memory_bytes = 1000;
  g.Seconds({}, 1, 4000, "large");
  const Status status = g.Error();
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_NE(status.message().find("node 'large' (Work) found no room; /job:localhost/replica:0/task:0/device:HOST:0 "
                                  "had 0 bytes in use of 1000"),
            std::string::npos)
      << status.ToString();
}

TEST(Choose, MemoryIsFreeAgainAfterTheLastReader) {
  PlaceMaker g;
  g.devices = {MakeDevice("HOST", 0, 1, true)};
  g.devices[DeviceId(0)].memory_bytes = 9000;
  g.request.explain = true;
  Edge at = g.Seconds({}, 1, 4000);
  for (int i = 0; i < 10; ++i) at = g.Seconds({at}, 1, 4000);
  EXPECT_EQ(g.Placed().peak_bytes[DeviceId(0)], 8000);
}

TEST(Choose, WhatIsForwardedKeepsTheMemoryAndTakesNone) {
  PlaceMaker g;
  g.devices = {MakeDevice("HOST", 0, 1, true)};
  g.request.explain = true;
  const Edge copy = g.Add("Copy", {g.Seconds({}, 1, 4000)}), other = g.Seconds({}, 1, 4000);
  g.Seconds({copy, other}, 1, 4);
  EXPECT_EQ(g.Placed().peak_bytes[DeviceId(0)], 8004);
}

TEST(Choose, WhatAKernelTakesAndGivesOnTheHostIsTransferredNeitherWay) {
  PlaceMaker g;
  const Edge size = g.Seconds({}, 1, 40000), large = g.Seconds({}, 1, 40000), work = g.Seconds({large, size}, 1, 40000),
             after = g.Seconds({work}, 1);
  g.Pin(size, "/host:0");
  g.Pin(large, "/fast:1");
  g.Pin(work, "/fast:1");
  g.Pin(after, "/host:0");
  g.request.host_input = [](const graph::Node&, DeviceId, int input) { return input == 1; };
  EXPECT_EQ(g.Placed().transfers, 1) << "the result alone";
  g.request.host_output = [work](const graph::Node& node, DeviceId, int) { return node.id == work.node; };
  EXPECT_EQ(g.Placed().transfers, 0);
}

TEST(Choose, TurnsOfALoopCountManyTimes) {
  PlaceMaker g;
  g.devices.resize(2);
  g.link = {0.5, 1e9};
  const auto loop = g.While("loop", {g.Value(0)}, [&](const auto& v) { return g.Add("Below", {v[0], v[0]}); },
                            [&](const auto& v) { return std::vector{g.Work({v[0]}, 1e6f, {})}; });
  g.Pin(loop.merges[0], "/host:0");
  g.request.fetches = {loop.exits[0]};
  const Placement placement = g.Placed();
  EXPECT_NEAR(placement.seconds, kGuessedTurns, 0.1)
      << "ten turns on the slow device, which ten transfers there and back would not pay";
}

}  // namespace
}  // namespace tenon::place::choose_test
