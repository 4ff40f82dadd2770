// SPDX-License-Identifier: Apache-2.0
// How long placing and partitioning take: graphs from 1,000 to 300,000 nodes on a host and two accelerators.
//
// Nodes read one to three of the last 200; one in eight is bound to a device by name, one in ten is of a colocation
// class.
#include <benchmark/benchmark.h>

#include <memory>
#include <random>

#include "core/graph/graph.h"
#include "core/partition/partition.h"
#include "tests/fakes/place_request.h"

namespace tenon {
namespace {

std::unique_ptr<fakes::PlaceMaker> MakeGraph(int64_t count) {
  auto made = std::make_unique<fakes::PlaceMaker>();
  made->link = {5e-6, 1e10};
  std::mt19937 random(1);
  std::vector<graph::Edge> nodes;
  for (int64_t i = 0; i < count; ++i) {
    fakes::GraphMaker::Edges inputs;
    for (size_t k = 0; k < 1 + random() % 3 && !nodes.empty(); ++k)
      inputs.push_back(nodes[nodes.size() - 1 - random() % std::min<size_t>(nodes.size(), 200)]);
    nodes.push_back(made->Work(std::move(inputs), static_cast<float>(random() % 100),
                               {static_cast<int64_t>(random() % 4096)}, StrCat("n", i)));
    if (random() % 8 == 0) made->Pin(nodes.back(), random() % 2 == 0 ? "/host:0" : "/device:FAST:*");
    if (random() % 10 == 0)
      made->graph.mutable_node(nodes.back().node).attrs["_class"] =
          graph::AttrValue::Strings({StrCat("loc:@n", random() % nodes.size())});
  }
  made->request.fetches = {nodes.back()};
  made->request.soft_placement = true;
  made->Ask();
  return made;
}

void Place(benchmark::State& state) {
  const auto made = MakeGraph(state.range(0));
  for (auto _ : state) {
    auto placement = place::Place(made->request);
    if (!placement.ok()) state.SkipWithError(placement.status().ToString().c_str());
    benchmark::DoNotOptimize(placement);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.SetComplexityN(state.range(0));
}
BENCHMARK(Place)
    ->Arg(1000)
    ->Arg(3000)
    ->Arg(10000)
    ->Arg(36000)
    ->Arg(100000)
    ->Arg(300000)
    ->Unit(benchmark::kMillisecond)
    ->Complexity(benchmark::oN);

// Names, kernels, union-find.
void Groups(benchmark::State& state) {
  const auto made = MakeGraph(state.range(0));
  place::Positions positions(made->request.order.size());
  for (place::Position position : made->request.order.ids()) positions[made->request.order[position]] = position;
  for (auto _ : state) {
    place::DeviceSets sets(made->devices.size());
    auto constraints = place::FindConstraints(made->request, &sets);
    auto groups = place::FindGroups(made->request, positions, *constraints, &sets);
    benchmark::DoNotOptimize(groups);
  }
  state.SetComplexityN(state.range(0));
}
BENCHMARK(Groups)->Arg(1000)->Arg(36000)->Arg(300000)->Unit(benchmark::kMillisecond)->Complexity(benchmark::oN);

// Costs and shapes as well.
void Problem(benchmark::State& state) {
  const auto made = MakeGraph(state.range(0));
  for (auto _ : state) {
    const fakes::MadeProblem problem(made->request);
    benchmark::DoNotOptimize(problem.sequence.data());
  }
  state.SetComplexityN(state.range(0));
}
BENCHMARK(Problem)->Arg(1000)->Arg(36000)->Arg(300000)->Unit(benchmark::kMillisecond)->Complexity(benchmark::oN);

void Follow(fakes::PlaceMaker* made, const place::Placement& placement) {
  for (graph::NodeId id : made->request.order)
    made->graph.mutable_node(id).device = made->devices[placement.device_of_node[id]].name;
}

partition::PartitionRequest PartitionRequestOf(const fakes::PlaceMaker& made) {
  partition::PartitionRequest request;
  request.graph = &made.graph;
  request.order = made.request.order.list();
  request.fetches = made.request.fetches;
  return request;
}

// One graph a device, of a graph that was placed.
void Partition(benchmark::State& state) {
  const auto made = MakeGraph(state.range(0));
  Follow(made.get(), *place::Place(made->request));
  const partition::PartitionRequest request = PartitionRequestOf(*made);
  for (auto _ : state) {
    auto parted = partition::Partition(request);
    if (!parted.ok()) state.SkipWithError(parted.status().ToString().c_str());
    state.PauseTiming();  // what goes is not what it takes
    state.counters["channels"] = static_cast<double>(parted->channels.size());
    parted = Status(Code::kCancelled, "");
    state.ResumeTiming();
  }
  state.SetComplexityN(state.range(0));
}
BENCHMARK(Partition)
    ->Arg(1000)
    ->Arg(3000)
    ->Arg(10000)
    ->Arg(36000)
    ->Arg(100000)
    ->Arg(300000)
    ->Unit(benchmark::kMillisecond)
    ->Complexity(benchmark::oN);

void PlaceAndPartition(benchmark::State& state) {
  const auto made = MakeGraph(state.range(0));
  for (auto _ : state) {
    Follow(made.get(), *place::Place(made->request));
    auto parted = partition::Partition(PartitionRequestOf(*made));
    state.PauseTiming();
    parted = Status(Code::kCancelled, "");
    *made = std::move(*MakeGraph(state.range(0)));  // the wishes that it had
    made->Ask();
    state.ResumeTiming();
  }
  state.SetComplexityN(state.range(0));
}
BENCHMARK(PlaceAndPartition)
    ->Arg(1000)
    ->Arg(36000)
    ->Arg(300000)
    ->Unit(benchmark::kMillisecond)
    ->Complexity(benchmark::oN);

}  // namespace
}  // namespace tenon

BENCHMARK_MAIN();
