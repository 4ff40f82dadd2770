// SPDX-License-Identifier: Apache-2.0
#include "net/cluster/worker_part.h"

#include <algorithm>

#include "core/exec/exchange/transfer_precision.h"
#include "core/exec/plan/plan.h"
#include "core/graph/graphdef/convert.h"
#include "net/cluster/protocol.h"

namespace tenon::cluster {
namespace {

template <typename Edges>
Status ReadEdges(const graph::Graph& graph, const Edges& from, std::vector<graph::Edge>* out) {
  for (const Edge& edge : from) {
    const graph::NodeId node(edge.node());
    if (!graph.Has(node) || edge.index() < 0 ||
        static_cast<size_t>(edge.index()) >= graph.node(node).output_types.size())
      return InvalidArgument(StrCat("a part names output ", edge.index(), " of node ", edge.node()));
    out->push_back({node, edge.index()});
  }
  return Status::Ok();
}

}  // namespace

bool WorkerPart::Receives(int32_t channel) const {
  return std::find(receives.begin(), receives.end(), channel) != receives.end();
}

bool WorkerPart::IsAskedFor(int32_t channel) const {
  return channel >= 0 && static_cast<size_t>(channel) < asked_bytes.size() && asked_bytes[channel] > 0 &&
         to[channel] >= 0;
}

Result<PartPlan> PartPlan::Read(const RegisterPart& asked, const graph::OpRegistry& ops, std::string_view own,
                                WorkerMetrics* metrics) {
  PartPlan plan(ops);
  plan.part->number = asked.part();
  TENON_RETURN_IF_ERROR(plan.ReadGraph(asked));
  TENON_RETURN_IF_ERROR(plan.ReadNodes(asked));
  for (const Channel& channel : asked.channels()) TENON_RETURN_IF_ERROR(plan.ReadChannel(asked, channel, own));
  plan.info_->precision = static_cast<exec::TransferPrecision>(std::min<uint32_t>(asked.transfer_precision(), 2));
  plan.part->tasks.assign(asked.tasks().begin(), asked.tasks().end());
  plan.part->parts.assign(asked.parts().begin(), asked.parts().end());
  for (const Task& task : plan.part->tasks) plan.part->peer_numbers.push_back(metrics->PeerOf(task.name()));
  TENON_RETURN_IF_ERROR(plan.ReadEnds(asked));
  return plan;
}

Status PartPlan::ReadGraph(const RegisterPart& asked) {
  TENON_RETURN_IF_ERROR(graph::ImportGraphDef(asked.graph(), &graph_, graph::Unknown::kRefuse, graph::Of::kPart));
  const auto count = graph_.size();
  if (static_cast<size_t>(asked.node_channels_size()) != count ||
      static_cast<size_t>(asked.nodes_may_be_dead_size()) != count || asked.tasks_size() != asked.parts_size())
    return InvalidArgument("the lists of a part do not fit its graph");
  return Status::Ok();
}

Status PartPlan::ReadNodes(const RegisterPart& asked) {
  for (int32_t channel : asked.node_channels()) {
    if (channel >= asked.channels_size())
      return InvalidArgument(StrCat("a node names channel ", channel, " of ", asked.channels_size()));
    info_->channels.push_back(partition::ChannelId(std::max(channel, -1)));
  }
  for (bool dead : asked.nodes_may_be_dead()) info_->nodes_may_be_dead.push_back(dead);
  return Status::Ok();
}

Status PartPlan::ReadChannel(const RegisterPart& asked, const Channel& channel, std::string_view own) {
  if (channel.to() >= asked.tasks_size())
    return InvalidArgument(StrCat("channel '", channel.name(), "' goes to no task"));
  if (channel.from() < 0 || channel.from() >= asked.tasks_size())
    return InvalidArgument(StrCat("channel '", channel.name(), "' comes from no task"));
  info_->may_be_dead.push_back(channel.may_be_dead());
  part->names.push_back(channel.name());
  part->to.push_back(channel.to());
  part->from.push_back(channel.from());
  part->asked_bytes.push_back(channel.asked_bytes());
  const bool is_ours = asked.tasks(channel.from()).name() == own;
  for (int32_t end : {channel.from(), channel.to()})
    if (end >= 0 && (channel.to() < 0 || is_ours) && asked.tasks(end).name() != own)
      part->peers.emplace(asked.tasks(end).address(), asked.tasks(end));
  if (channel.to() >= 0 && is_ours) part->targets.insert(WithScheme(asked.tasks(channel.to()).address()));
  return Status::Ok();
}

Status PartPlan::ReadEnds(const RegisterPart& asked) {
  TENON_RETURN_IF_ERROR(ReadEdges(graph_, asked.feeds(), &feeds_));
  TENON_RETURN_IF_ERROR(ReadEdges(graph_, asked.fetches(), &fetches_));
  part->in_goes = asked.in_goes();
  if (asked.in_goes() && asked.feeds_size() + asked.fetches_size() > 0)
    return InvalidArgument("a part in goes has feeds or fetches that are no channels");
  for (const auto& [channels, out] : {std::pair(&asked.fed(), &part->fed), std::pair(&asked.given(), &part->given)}) {
    for (const int32_t channel : *channels)
      if (channel < 0 || channel >= asked.channels_size() || asked.channels(channel).to() >= 0)
        return InvalidArgument(StrCat("a part meets its callers on channel ", channel));
    out->assign(channels->begin(), channels->end());
  }
  for (int32_t target : asked.targets())
    if (!graph_.Has(graph::NodeId(target))) return InvalidArgument(StrCat("a part has the target ", target));
  return Status::Ok();
}

Status PartPlan::Prepare(session::Session* session, const RegisterPart& asked) {
  const graph::NodeMap<partition::ChannelId> channels = info_->channels;
  std::vector<graph::NodeId> targets;
  for (int32_t target : asked.targets()) targets.emplace_back(target);
  TENON_ASSIGN_OR_RETURN(part->callable, session->PreparePart(std::move(graph_), std::move(feeds_), std::move(fetches_),
                                                              std::move(targets), std::move(info_), asked.in_goes()));
  part->receive_window = asked.receive_window();
  for (graph::NodeId node : part->callable->plan()->receives()) {
    const int32_t channel = channels[node].number();
    part->receives.push_back(channel);
    if (part->callable->plan()->graph().node(node).output_types[0] == TENON_DT_VARIANT)
      part->of_variants.insert(channel);
    if (part->asked_bytes[channel] > 0) part->asks.push_back({channel, part->asked_bytes[channel]});
  }
  // Not where it asks for values while it runs: they are not there before.
  part->runs_through =
      !asked.in_goes() && !asked.in_circle() && part->asks.empty() && part->callable->plan()->RunsThrough();
  return Status::Ok();
}

}  // namespace tenon::cluster
