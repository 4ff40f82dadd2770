// SPDX-License-Identifier: Apache-2.0
#include "net/cluster/cluster_plan.h"

#include <set>

#include "core/base/clock.h"
#include "core/base/json_escape.h"
#include "core/graph/graphdef/convert.h"
#include "core/graph/op_def.h"
#include "core/graph/shape_inference.h"
#include "core/partition/partition.h"
#include "core/place/device_name.h"
#include "net/cluster/cluster_goes.h"
#include "net/cluster/cluster_run.h"
#include "net/cluster/protocol.h"

namespace tenon::cluster {

namespace {

// Whether values of the part come back to it through other parts.
bool InCircle(const IdVector<partition::ChannelId, partition::Channel>& channels, int32_t part) {
  std::set<int32_t> reached;
  std::vector<int32_t> open{part};
  while (!open.empty()) {
    const int32_t from = open.back();
    open.pop_back();
    for (const partition::Channel& channel : channels)
      if (channel.from == from && reached.insert(channel.to).second) open.push_back(channel.to);
  }
  return reached.contains(part);
}

}  // namespace

std::unique_ptr<exec::Run> ClusterPlan::NewRun() {
  std::shared_ptr<const ClusterParts> parts(shared_from_this(), &parts_);  // which holds the plan
  if (in_goes_) return std::make_unique<ClusterGoes>(std::move(parts));
  return std::make_unique<ClusterRun>(std::move(parts));
}

std::string ClusterPlan::Explain() const {
  std::string out = "[";
  for (const graph::NodeId id : graph_.ids()) {
    const graph::Node& node = graph_.node(id);
    out += StrCat(id == graph::NodeId(0) ? "\n" : ",\n", "{\"name\":\"", JsonEscape(node.name), "\",\"op\":\"",
                  JsonEscape(node.op->name), "\",\"device\":\"", JsonEscape(node.device), "\",\"runs\":\"remote\"}");
  }
  return out + "\n]\n";
}

Status ClusterPlan::Make(std::vector<graph::Edge> feeds, std::vector<graph::Edge> fetches,
                         std::vector<graph::NodeId> targets, const exec::PlanOptions& options) {
  parts_.fetch_count = fetches.size();
  partition::PartitionRequest request;
  request.graph = &graph_;
  TENON_ASSIGN_OR_RETURN(request.order, graph_.TopologicalOrder());
  request.feeds = feeds;
  request.fetches = std::move(fetches);
  request.targets = std::move(targets);
  request.default_device = session_->devices()[0].name;
  request.part_of = [](const std::string& device) { return std::string(place::TaskOf(device)); };
  TENON_ASSIGN_OR_RETURN(partition::Partitioned parted, partition::Partition(request));
  std::vector<uint32_t> numbers;
  order_ = request.order;
  feeds_ = feeds;
  for (const partition::Channel& channel : parted.channels) {
    if (channel.value.index < 0) continue;
    const partition::Part &from = parted.parts[static_cast<size_t>(channel.from)],
                          &to = parted.parts[static_cast<size_t>(channel.to)];
    crossings_.push_back(
        {from.graph.node(channel.send).name, to.graph.node(channel.recv).name, from.device, to.device, channel.value});
  }
  if (!options.early_transfers && parted.parts.size() > 1) FindAsked(parted, request.order);
  IdVector<partition::ChannelId, graph::Edge> values;
  for (size_t i = 0; i < parted.parts.size(); ++i) numbers.push_back(session_->NewPartNumber());
  for (const partition::Channel& channel : parted.channels) values.push_back(channel.value);
  in_goes_ = options.part != nullptr;
  parts_.first_of_callers = parted.channels.next_id().number();
  if (!in_goes_)
    parts_.shapes = std::make_unique<exec::ChannelShapes>(exec::ChannelShapes::Question{
        &graph_, &env_, std::move(request.order), std::move(feeds), std::move(values), options.fold,
        [this](const graph::Node& node) { return HasOwnArithmetic(node); }});
  for (size_t i = 0; i < parted.parts.size(); ++i) {
    const size_t task = session_->tasks().Named(parted.parts[i].device);
    if (task == session_->tasks().size()) return NotFound(StrCat("the cluster has no task ", parted.parts[i].device));
    ClusterParts::Part& part = parts_.all.emplace_back();
    part.task = task;
    part.number = numbers[i];
    part.feed_numbers = parted.parts[i].feed_numbers;
    part.fetch_numbers = parted.parts[i].fetch_numbers;
    part.state = std::make_shared<const StepState>(StepState::Of(parted.parts[i].graph));
    parts_.state.Add(*part.state, task);
    for (const partition::ChannelId channel : parted.channels.ids())
      if (parted.channels[channel].to == static_cast<int32_t>(i)) part.channels.push_back(channel.number());
  }
  if (in_goes_) MeetCallers(*options.part, &parted);
  for (size_t i = 0; i < parted.parts.size(); ++i)
    TENON_RETURN_IF_ERROR(Register(&parted.parts[i], parted, numbers, options));
  return Status::Ok();
}

void ClusterPlan::MeetCallers(const exec::PartInfo& info, partition::Partitioned* parted) {
  callers_.resize(info.may_be_dead.size());
  for (size_t i = 0; i < parts_.all.size(); ++i) {
    partition::Part& part = parted->parts[i];
    for (const graph::NodeId id : part.graph.ids()) {
      const partition::ChannelId channel = part.origins[id] ? info.channels[part.origins[id]] : partition::ChannelId();
      if (!channel) continue;
      graph::Node& node = part.graph.mutable_node(id);
      part.channels[id] = partition::ChannelId(parts_.first_of_callers + channel.number());
      node.device.clear();
      (node.has(TENON_OP_RECV) ? parts_.all[i].fed : parts_.all[i].given).push_back(channel.number());
      callers_[static_cast<size_t>(channel.number())] = {static_cast<int32_t>(i), node.name};
    }
  }
}

// What a task gets of large values is asked for where it is more than the window. Inside of loops a channel has a value
// in each turn, and sizes may be unknown without the feeds: those come as they are made. A feed may be of another size
// than the graph says; then the window is of other bytes, and nothing else.
void ClusterPlan::FindAsked(const partition::Partitioned& parted, const std::vector<graph::NodeId>& order) {
  const uint64_t window = session_->receive_window(), large = std::max<uint64_t>(window / 64, 1);
  graph::ShapeInference inference(&graph_);
  if (!inference.Run(order).ok()) return;  // in a branch that is not taken, maybe
  std::vector<std::map<int32_t, uint64_t>> of_part(parted.parts.size());
  for (const partition::ChannelId id : parted.channels.ids()) {
    const partition::Channel& channel = parted.channels[id];
    if (channel.value.index < 0 || channel.depth > 0) continue;
    const DType type = graph_.node(channel.value.node).output_types[static_cast<size_t>(channel.value.index)];
    const Shape& shape = inference.facts(channel.value).shape;
    const auto bytes = IsPlain(type) && shape.fully_known() ? ByteSize(type, shape) : Result<int64_t>(0);
    if (bytes.ok() && static_cast<uint64_t>(*bytes) >= large)
      of_part[static_cast<size_t>(channel.to)].emplace(id.number(), *bytes);
  }
  for (const auto& values : of_part) {
    uint64_t all = 0;
    for (const auto& [channel, bytes] : values) all += bytes;
    if (all > window) asked_.insert(values.begin(), values.end());
  }
}

Status ClusterPlan::Register(partition::Part* part, const partition::Partitioned& all,
                             const std::vector<uint32_t>& numbers, const exec::PlanOptions& options) {
  const auto index = static_cast<size_t>(part - all.parts.data());
  const TaskTable& tasks = session_->tasks();
  graph::Graph& graph = part->graph;
  for (const graph::NodeId id : graph.ids())
    if (!part->origins[id] || part->repeats[id]) graph.mutable_node(id).device.clear();
  RegisterPart head;
  head.set_session(session_->number());
  head.set_part(numbers[index]);
  TENON_ASSIGN_OR_RETURN(*head.mutable_graph(), graph::ExportGraphDef(graph));
  // A GraphDef has its nodes in topological order, and their ids follow it when it is read.
  TENON_ASSIGN_OR_RETURN(const std::vector<graph::NodeId> order, graph.TopologicalOrder());
  graph::NodeMap<int32_t> id_of(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    const graph::NodeId node = order[i];
    id_of[node] = static_cast<int32_t>(i);
    head.add_node_channels(part->channels[node].number());
    head.add_nodes_may_be_dead(part->may_be_dead[node]);
  }
  for (size_t i = 0; i < all.parts.size(); ++i) {
    *head.add_tasks() = tasks.task(parts_.all[i].task);
    head.mutable_tasks(static_cast<int>(i))->set_incarnation(tasks.incarnation(parts_.all[i].task));
    head.add_parts(numbers[i]);
  }
  for (const partition::Channel& channel : all.channels) {
    Channel* out = head.add_channels();
    out->set_name(channel.name);
    out->set_may_be_dead(channel.may_be_dead);
    out->set_to(channel.to == static_cast<int32_t>(index) ? -1 : channel.to);
    out->set_from(channel.from);
  }
  for (const Caller& caller : callers_) {
    const int32_t owner = std::max(caller.part, 0);
    Channel* out = head.add_channels();
    out->set_name(caller.name);
    out->set_may_be_dead(true);
    out->set_to(owner == static_cast<int32_t>(index) ? -1 : owner);
    out->set_from(owner);
  }
  head.set_in_goes(in_goes_);
  for (const int32_t channel : parts_.all[index].fed) head.add_fed(parts_.first_of_callers + channel);
  for (const int32_t channel : parts_.all[index].given) head.add_given(parts_.first_of_callers + channel);
  for (const auto& [channel, bytes] : asked_) head.mutable_channels(channel)->set_asked_bytes(bytes);
  head.set_receive_window(session_->receive_window());
  const auto add = [&](const graph::Edge& edge, Edge* out) {
    out->set_node(id_of[edge.node]);
    out->set_index(edge.index);
  };
  for (const graph::Edge& edge : part->feeds) add(edge, head.add_feeds());
  for (const graph::Edge& edge : part->fetches) add(edge, head.add_fetches());
  for (graph::NodeId target : part->targets) head.add_targets(id_of[target]);
  head.set_transfer_precision(static_cast<uint32_t>(options.transfer_precision));
  head.set_in_circle(InCircle(all.channels, static_cast<int32_t>(index)));
  const size_t task = parts_.all[index].task;
  TENON_RETURN_IF_ERROR(tasks.lost(task));
  Status status = Ask(*tasks.connection(task), kMethodPart, head, NowNs() + 60'000'000'000, nullptr, tasks.gone(task));
  if (Status lost = tasks.lost(task); !status.ok() && !lost.ok()) return lost;
  return status.ok() ? std::move(status) : std::move(status).Annotate(tasks.Where(task));
}

}  // namespace tenon::cluster
