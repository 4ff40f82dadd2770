// SPDX-License-Identifier: Apache-2.0
// Kernels of staging areas. Each node finds its area by name; whoever comes first says its bounds. Those that may wait
// are asynchronous.
#include "handle.h"
#include "stage.h"

namespace tenon::ops {
using namespace sdk;

namespace {

constexpr tenon_span kStageType = TENON_SPAN("tenon.Stage/1");
constexpr tenon_span kMapStageType = TENON_SPAN("tenon.MapStage/1");

// What all their nodes are.
template <class Area>
struct StageNode {
  static constexpr bool kIsMap = std::is_same_v<Area, MapStage>;
  explicit StageNode(CreateContext& c)
      : named(c, !kIsMap                         ? "stage"
                 : c.op().starts_with("Ordered") ? "ordered_map_stage"
                                                 : "map_stage"),
        types(c.Types("dtypes")) {
    options = {kIsMap ? (c.op().starts_with("Ordered") ? "OrderedMapStage" : "MapStage") : "Stage", named.name,
               c.Int("capacity"), c.Int("memory_limit")};
    if (options.capacity < 0) c.Fail(TENON_INVALID_ARGUMENT, "capacity is ", options.capacity, "; 0 is no bound");
    if (options.memory_limit < 0)
      c.Fail(TENON_INVALID_ARGUMENT, "memory_limit is ", options.memory_limit, "; 0 is no bound");
  }
  std::shared_ptr<Area> AreaOf(const RunContext& c) const {
    return PlaceOf<Area>(c, named.handle, kIsMap ? kMapStageType : kStageType, options);
  }
  NamedHandle named;
  StageOptions options;
  std::vector<uint32_t> types;
};

Element InputsFrom(const RunContext& c, int32_t first) {
  Element element;
  for (int32_t i = first; i < c.input_count(); ++i) element.emplace_back(KeptTensor::OfInput(c, i));
  return element;
}

struct StageKernel : StageNode<QueueStage> {
  using StageNode::StageNode;
  void RunAsync(RunContext c, Done done) const { AreaOf(c)->Put(c, done, InputsFrom(c, 0)); }
};
struct UnstageKernel : StageNode<QueueStage> {
  using StageNode::StageNode;
  void RunAsync(RunContext c, Done done) const { AreaOf(c)->Take(c, done, types); }
};
struct StagePeekKernel : StageNode<QueueStage> {
  using StageNode::StageNode;
  void RunAsync(RunContext c, Done done) const {
    const int32_t index = *c.input<int32_t>(0);
    if (index < 0) Fail(TENON_INVALID_ARGUMENT, "index is ", index, "; elements are counted from 0");
    AreaOf(c)->Peek(c, done, types, index);
  }
};

template <class Area>
struct SizeOf : StageNode<Area> {
  using StageNode<Area>::StageNode;
  void Run(RunContext c) const { *c.output<int32_t>(0) = static_cast<int32_t>(this->AreaOf(c)->Size()); }
};
struct IncompleteSizeOf : StageNode<MapStage> {
  using StageNode::StageNode;
  void Run(RunContext c) const { *c.output<int32_t>(0) = static_cast<int32_t>(AreaOf(c)->IncompleteSize()); }
};
template <class Area>
struct ClearKernel : StageNode<Area> {
  using StageNode<Area>::StageNode;
  void Run(RunContext c) const { this->AreaOf(c)->Clear(); }
};

// Which values of an element input `input` says; `count` of them are given or asked for.
std::vector<int64_t> PlacesOf(const RunContext& c, int32_t input, size_t count) {
  std::vector<int64_t> places = IndicesOf(c, input);
  if (places.empty()) Fail(TENON_INVALID_ARGUMENT, "indices are empty; they say which values of an element are meant");
  if (places.size() != count) Fail(TENON_INVALID_ARGUMENT, places.size(), " indices are given for ", count, " values");
  for (size_t i = 1; i < places.size(); ++i)
    if (places[i] <= places[i - 1])
      Fail(TENON_INVALID_ARGUMENT, "indices must grow; ", places[i], " comes after ", places[i - 1]);
  return places;
}

struct MapStageKernel : StageNode<MapStage> {
  using StageNode::StageNode;
  void RunAsync(RunContext c, Done done) const {
    std::vector<int64_t> places = PlacesOf(c, 1, static_cast<size_t>(c.input_count() - 2));
    AreaOf(c)->Put(c, done, *c.input<int64_t>(0), std::move(places), InputsFrom(c, 2), types.size());
  }
};
template <bool kTakes>
struct MapGetKernel : StageNode<MapStage> {
  using StageNode::StageNode;
  void RunAsync(RunContext c, Done done) const {
    std::vector<int64_t> places = PlacesOf(c, 1, types.size());
    const int64_t key = *c.input<int64_t>(0);
    if constexpr (kTakes) AreaOf(c)->Take(c, done, key, std::move(places), types);
    else AreaOf(c)->Peek(c, done, key, std::move(places), types);
  }
};
struct MapUnstageNoKeyKernel : StageNode<MapStage> {
  using StageNode::StageNode;
  void RunAsync(RunContext c, Done done) const { AreaOf(c)->TakeAny(c, done, PlacesOf(c, 0, types.size()), types); }
};

constexpr Traits kStagesPut = {.flags = TENON_KERNEL_STATEFUL, .retained_inputs = TENON_DYNAMIC_ALL};
constexpr Traits kStagesGive = {.flags = TENON_KERNEL_STATEFUL, .dynamic_outputs = TENON_DYNAMIC_ALL};
constexpr Traits kStages = {.flags = TENON_KERNEL_STATEFUL};

}  // namespace

TENON_KERNEL(kStageKernel) = Registration<StageKernel>("Stage", kStagesPut);
TENON_KERNEL(kUnstageKernel) = Registration<UnstageKernel>("Unstage", kStagesGive);
TENON_KERNEL(kStagePeekKernel) = Registration<StagePeekKernel>("StagePeek", kStagesGive);
TENON_KERNEL(kStageSizeKernel) = Registration<SizeOf<QueueStage>>("StageSize", kStages);
TENON_KERNEL(kStageClearKernel) = Registration<ClearKernel<QueueStage>>("StageClear", kStages);
TENON_KERNEL(kMapStageKernel) = Registration<MapStageKernel>("MapStage", kStagesPut);
TENON_KERNEL(kMapUnstageKernel) = Registration<MapGetKernel<true>>("MapUnstage", kStagesGive);
TENON_KERNEL(kMapPeekKernel) = Registration<MapGetKernel<false>>("MapPeek", kStagesGive);
TENON_KERNEL(kMapUnstageNoKeyKernel) = Registration<MapUnstageNoKeyKernel>("MapUnstageNoKey", kStagesGive);
TENON_KERNEL(kMapSizeKernel) = Registration<SizeOf<MapStage>>("MapSize", kStages);
TENON_KERNEL(kMapIncompleteSizeKernel) = Registration<IncompleteSizeOf>("MapIncompleteSize", kStages);
TENON_KERNEL(kMapClearKernel) = Registration<ClearKernel<MapStage>>("MapClear", kStages);
TENON_KERNEL(kOrderedMapStageKernel) = Registration<MapStageKernel>("OrderedMapStage", kStagesPut);
TENON_KERNEL(kOrderedMapUnstageKernel) = Registration<MapGetKernel<true>>("OrderedMapUnstage", kStagesGive);
TENON_KERNEL(kOrderedMapPeekKernel) = Registration<MapGetKernel<false>>("OrderedMapPeek", kStagesGive);
TENON_KERNEL(kOrderedMapUnstageNoKeyKernel) = Registration<MapUnstageNoKeyKernel>("OrderedMapUnstageNoKey",
                                                                                  kStagesGive);
TENON_KERNEL(kOrderedMapSizeKernel) = Registration<SizeOf<MapStage>>("OrderedMapSize", kStages);
TENON_KERNEL(kOrderedMapIncompleteSizeKernel) = Registration<IncompleteSizeOf>("OrderedMapIncompleteSize", kStages);
TENON_KERNEL(kOrderedMapClearKernel) = Registration<ClearKernel<MapStage>>("OrderedMapClear", kStages);

}  // namespace tenon::ops
