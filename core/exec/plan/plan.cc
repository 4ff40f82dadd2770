// SPDX-License-Identifier: Apache-2.0
#include "core/exec/plan/plan.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <string_view>
#include <utility>

#include "core/exec/device/environment.h"
#include "core/exec/kernel/node_runner.h"
#include "core/exec/plan/late_reads.h"
#include "core/exec/plan/step_times.h"
#include "core/graph/graph.h"
#include "core/partition/transfers.h"

namespace tenon::exec {
bool NeedsKernel(const graph::Node& node) {
  constexpr uint64_t kByEngine = TENON_OP_NO_OP | TENON_OP_CONTROL_TRIGGER | TENON_OP_CONSTANT | TENON_OP_SWITCH |
                                 TENON_OP_MERGE | TENON_OP_ENTER | TENON_OP_EXIT | TENON_OP_NEXT_ITERATION |
                                 TENON_OP_LOOP_CONDITION | TENON_OP_IDENTITY | TENON_OP_FEED | TENON_OP_ARGUMENT |
                                 TENON_OP_SEND | TENON_OP_RECV;
  return !node.has(kByEngine);
}

namespace {

// Straight code submits and waits in a plan's order: what begins first by the prediction comes first, so that neither
// the host nor a queue waits for one device with what another could do. Topological again, and of equals as before.
std::vector<graph::NodeId> SortedByStart(const graph::Graph& graph, const std::vector<graph::NodeId>& order,
                                         const graph::NodeMap<double>& starts) {
  graph::NodeMap<int32_t> pending(graph.size(), -1);
  graph::NodeMap<std::vector<graph::NodeId>> readers(graph.size());
  using Next = std::pair<double, size_t>;
  std::priority_queue<Next, std::vector<Next>, std::greater<>> ready;
  graph::NodeMap<size_t> place(graph.size(), 0);
  const auto add = [&](graph::NodeId id) { ready.emplace(starts.Get(id, 0), place[id]); };
  for (size_t i = 0; i < order.size(); ++i) {
    const graph::Node& node = graph.node(order[i]);
    place[node.id] = i;
    pending[node.id] = 0;
    const auto after = [&](graph::NodeId source) {
      if (!source || pending[source] < 0) return;
      readers[source].push_back(node.id);
      ++pending[node.id];
    };
    for (const graph::Edge& edge : node.inputs) after(edge.node);
    for (graph::NodeId control : node.controls) after(control);
    if (pending[node.id] == 0) add(node.id);
  }
  std::vector<graph::NodeId> sorted;
  while (!ready.empty()) {
    const graph::NodeId id = order[ready.top().second];
    ready.pop();
    sorted.push_back(id);
    for (graph::NodeId reader : readers[id])
      if (--pending[reader] == 0) add(reader);
  }
  return sorted;
}

}  // namespace

Plan::Plan(graph::Graph graph, const Environment& env)
    : graph_(std::move(graph)), env_(std::make_shared<const Environment>(env)) {}

Result<std::shared_ptr<Plan>> Plan::Create(graph::Graph graph, std::vector<graph::Edge> feeds,
                                           std::vector<graph::Edge> fetches, std::vector<graph::NodeId> targets,
                                           const Environment& env, KernelStore* store, Options options) {
  std::shared_ptr<Plan> plan(new Plan(std::move(graph), env));
  plan->feeds_ = std::move(feeds);
  for (size_t i = 0; i < plan->feeds_.size(); ++i) plan->feed_of_.emplace(plan->feeds_[i], static_cast<int>(i));
  plan->fetches_ = std::move(fetches);
  plan->targets_ = std::move(targets);
  plan->options_ = std::move(options);
  TENON_RETURN_IF_ERROR(plan->FindOrder());
  TENON_RETURN_IF_ERROR(plan->MakeRunners(store));
  plan->FindLateReads();
  if (plan->uses_queues_) TENON_RETURN_IF_ERROR(plan->AddTransfers());
  plan->FindReceives();
  return plan;
}

void Plan::FindLateReads() {
  ReadWhenUsed(&graph_, order_, {
      .is_fed = [this](graph::Edge edge) { return FeedOf(edge) >= 0; },
      .runs_kernel = [this](const graph::Node& node) { return runner(node.id) != nullptr; },
      .stays = [this](const graph::Node& node, graph::Edge from) { return MemoryOfDevice(node.id) == MemoryOf(from); },
  });
}

void Plan::SetOrder(std::vector<graph::NodeId> order, std::unordered_map<graph::NodeId, graph::NodeId> waits) {
  order_ = std::move(order);
  waits_ = std::move(waits);
  FindReceives();
}

void Plan::FindReceives() {
  receives_.clear();
  for (graph::NodeId id : order_)
    if (graph_.node(id).has(TENON_OP_RECV)) receives_.push_back(id);
}

graph::Edge Plan::ValueOf(graph::NodeId transfer) const {
  graph::Edge value{transfer, 0};
  while (value.node && TransferFrom(value.node) >= 0) value = graph_.node(value.node).inputs[0];
  return value;
}

bool Plan::HasControlFlow() const {
  constexpr uint64_t kControlFlow = TENON_OP_ENTER | TENON_OP_SWITCH | TENON_OP_MERGE;
  return std::any_of(order_.begin(), order_.end(),
                     [this](graph::NodeId id) { return graph_.node(id).has(kControlFlow); });
}

bool Plan::RunsThrough() const {
  return !uses_queues_ && std::none_of(order_.begin(), order_.end(), [this](graph::NodeId id) {
    return graph_.node(id).has(TENON_OP_ENTER) ||
           (runner(id) != nullptr && runner(id)->has(TENON_KERNEL_ASYNC | TENON_KERNEL_BLOCKING));
  });
}

namespace {

bool IsOpen(const graph::Node& node) {
  return std::any_of(node.inputs.begin(), node.inputs.end(), [](const graph::Edge& edge) { return !edge.node; });
}

}  // namespace

// Nodes with feeds of which nothing else is wanted: nothing of them runs.
graph::NodeMap<bool> Plan::FindNamesOfFeeds() const {
  graph::NodeMap<bool> only_names(graph_.size(), false);
  for (const graph::Edge& feed : feeds_) only_names[feed.node] = true;
  const auto want = [&](const graph::Edge& edge) {
    if (edge.node && FeedOf(edge) < 0) only_names[edge.node] = false;
  };
  for (const graph::Edge& fetch : fetches_) want(fetch);
  for (graph::NodeId target : targets_) only_names[target] = false;
  if (feeds_.empty()) return only_names;
  for (const graph::NodeId id : graph_.ids()) {
    for (const graph::Edge& edge : graph_.node(id).inputs) want(edge);
    for (graph::NodeId control : graph_.node(id).controls) only_names[control] = false;
  }
  return only_names;
}

Status Plan::FindOrder() {
  order_.clear();
  TENON_ASSIGN_OR_RETURN(const std::vector<graph::NodeId> all, graph_.TopologicalOrder());
  const graph::NodeMap<bool> only_names = FindNamesOfFeeds();
  for (graph::NodeId id : all) {
    const graph::Node& node = graph_.node(id);
    const bool is_fed = node.has(TENON_OP_FEED | TENON_OP_ARGUMENT | TENON_OP_RECV) && FeedOf({id, 0}) >= 0;
    if (!IsOpen(node) && !only_names[id] && !is_fed) order_.push_back(id);
  }
  const bool starts_known = options_.times != nullptr && !options_.times->node_starts.empty();
  // Loops and conditionals keep their order; a part has that of all parts.
  if (starts_known && options_.part == nullptr && !HasControlFlow())
    order_ = SortedByStart(graph_, order_, options_.times->node_starts);
  return Status::Ok();
}

Status Plan::MakeRunners(KernelStore* store) {
  runners_.resize(graph_.size());
  device_of_.assign(graph_.size(), 0);
  transfer_from_.assign(graph_.size(), -1);
  const auto on_device = [](int32_t memory) { return memory != 0; };
  uses_queues_ = std::any_of(options_.feed_memories.begin(), options_.feed_memories.end(), on_device) ||
                 std::any_of(options_.fetch_memories.begin(), options_.fetch_memories.end(), on_device);
  std::map<std::string_view, int32_t> devices;
  for (const SessionDevice& device : env_->devices) devices.emplace(device.device->name, device.index);
  for (graph::NodeId id : order_) {
    const graph::Node& node = graph_.node(id);
    if (const auto it = devices.find(node.device); it != devices.end()) device_of_[id] = it->second;
    uses_queues_ = uses_queues_ || MemoryOfDevice(id) != 0;
    if (node.has(TENON_OP_CONSTANT) &&
        (node.FindAttr("value") == nullptr || node.FindAttr("value")->kind() != TENON_ATTR_TENSOR))
      return InvalidArgument(StrCat(node.Describe(), " is a constant without a tensor in its attribute 'value'"));
    if (node.has(TENON_OP_SEND | TENON_OP_RECV) && !ChannelOf(id))
      return Unimplemented(StrCat(
          node.Describe(), ": sends and receives run in the parts of a graph that the engine itself has partitioned"));
    if (!NeedsKernel(node)) continue;
    TENON_ASSIGN_OR_RETURN(runners_[id], NodeRunner::Create(node, *env_, store, DeviceOf(id)));
    TENON_RETURN_IF_ERROR(runners_[id]->KnowHandles(graph_));
  }
  return Status::Ok();
}

int32_t Plan::MemoryOfDevice(graph::NodeId node) const {
  return env_->devices.empty() ? 0 : env_->devices[DeviceOf(node)].memory;
}

int32_t Plan::MemoryOf(graph::Edge edge) const {
  if (const int feed = FeedOf(edge); feed >= 0)
    return options_.feed_memories.empty() ? 0 : options_.feed_memories[feed];
  const graph::Node& node = graph_.node(edge.node);
  const DType type = node.output_types[edge.index];
  if (!IsPlain(BaseType(type)) || node.has(TENON_OP_LOOP_CONDITION) || (node.has(TENON_OP_MERGE) && edge.index > 0))
    return 0;
  const NodeRunner* runner = runners_[edge.node].get();
  if (runner == nullptr || IsRef(type)) return MemoryOfDevice(edge.node);
  return runner->host_output(edge.index) ? 0 : runner->queued_on()->memory;
}

int32_t Plan::MemoryWanted(const graph::Node& node, int32_t input) const {
  if (!IsPlain(node.input_types[input])) return 0;
  if (node.has(TENON_OP_LOOP_CONDITION) || (node.has(TENON_OP_SWITCH) && input == 1)) return 0;
  const NodeRunner* runner = runners_[node.id].get();
  if (runner == nullptr) return MemoryOfDevice(node.id);
  return runner->host_input(input) ? 0 : runner->queued_on()->memory;
}

Status Plan::AddTransfers() {
  const auto device = [this](int32_t memory) -> const SessionDevice& { return env_->devices[memory]; };
  partition::Memories memories;
  memories.of = [this](graph::Edge edge) { return MemoryOf(edge); };
  memories.wanted = [this](const graph::Node& node, int32_t input) { return MemoryWanted(node, input); };
  memories.direct = [&](int32_t from, int32_t to) {
    return env_->CopiesDirectly(*device(from).device, *device(to).device);
  };
  memories.name = [&](int32_t memory) { return device(memory).device->name; };
  std::vector<graph::Edge> fetches = fetches_;
  std::vector<int32_t> fetch_memories = options_.fetch_memories;
  fetch_memories.resize(fetches.size());
  // Nodes are added while oracles are asked about old ones alone.
  TENON_ASSIGN_OR_RETURN(const std::vector<partition::AddedNode> added,
                         partition::AddTransfers(&graph_, order_, feeds_, &fetches, fetch_memories, memories));
  fetches_ = std::move(fetches);
  kept_.resize(graph_.size());
  for (size_t i = 0; i < fetches_.size(); ++i)
    if (fetch_memories[i] != 0) kept_[fetches_[i].node] = true;
  runners_.resize(graph_.size());
  device_of_.resize(graph_.size(), 0);
  transfer_from_.resize(graph_.size(), -1);
  for (const partition::AddedNode& node : added) {
    device_of_[node.node] = node.memory;
    transfer_from_[node.node] = node.from;
  }
  return Status::Ok();
}

int Plan::FeedOf(graph::Edge edge) const {
  const auto found = feed_of_.find(edge);
  return found == feed_of_.end() ? -1 : found->second;
}

}  // namespace tenon::exec
