// SPDX-License-Identifier: Apache-2.0
#include "core/session/partial_run_plan.h"

#include <map>

#include "core/graph/op_registry.h"

namespace tenon::session {
namespace {

using graph::AttrMap;
using graph::AttrValue;
using graph::Edge;

class Meeting {
 public:
  Meeting(graph::Graph* graph, optimize::Request* request) : graph_(*graph), request_(*request) {}

  Status Run(const std::vector<int32_t>& fetch_channels) {
    TENON_ASSIGN_OR_RETURN(const graph::OpDef* receive, graph_.registry().FindRole("recv"));
    TENON_ASSIGN_OR_RETURN(const graph::OpDef* send, graph_.registry().FindRole("send"));
    for (size_t i = 0; i < request_.feeds.size(); ++i) {
      const Edge feed = request_.feeds[i];
      AttrMap attrs = AttrsOf(graph_.EdgeName(feed));
      attrs.emplace("tensor_type", AttrValue::Type(BaseType(graph_.TypeOf(feed))));
      TENON_ASSIGN_OR_RETURN(
          const graph::NodeId id,
          Add({receive, graph_.UniqueName("partial_run/feed"), {}, {}, std::move(attrs), {}}, static_cast<int32_t>(i)));
      received_.emplace(feed, Edge{id, 0});
    }
    for (const graph::NodeId id : graph_.ids()) {
      graph::Node& node = graph_.mutable_node(id);
      for (Edge& edge : node.inputs) edge = Here(edge);
      // To wait for a placeholder is to wait for its feed.
      for (graph::NodeId& control : node.controls)
        if (graph_.node(control).has(TENON_OP_FEED | TENON_OP_ARGUMENT)) control = Here({control, 0}).node;
    }
    std::map<int32_t, bool> sent;
    for (size_t i = 0; i < request_.fetches.size(); ++i) {
      if (!sent.emplace(fetch_channels[i], true).second) continue;
      const Edge fetch = request_.fetches[i];
      TENON_ASSIGN_OR_RETURN(
          const graph::NodeId id,
          Add({send, graph_.UniqueName("partial_run/fetch"), {Here(fetch)}, {}, AttrsOf(graph_.EdgeName(fetch)), {}},
              fetch_channels[i]));
      request_.targets.push_back(id);
    }
    request_.feeds.clear();
    request_.fetches.clear();
    return Status::Ok();
  }
  const std::map<std::string, int32_t>& channels() const { return channels_; }

 private:
  Edge Here(Edge edge) const {
    const auto at = received_.find(edge);
    return at == received_.end() ? edge : at->second;
  }
  static AttrMap AttrsOf(std::string value) {
    return {{"tensor_name", AttrValue::String(std::move(value))},
            {"send_device", AttrValue::String("")},
            {"send_device_incarnation", AttrValue::Int(1)},
            {"recv_device", AttrValue::String("")},
            {"client_terminated", AttrValue::Bool(true)}};
  }
  Result<graph::NodeId> Add(graph::NodeSpec spec, int32_t channel) {
    TENON_ASSIGN_OR_RETURN(const graph::NodeId id, graph_.Add(std::move(spec)));
    channels_.emplace(graph_.node(id).name, channel);
    return id;
  }

  graph::Graph& graph_;
  optimize::Request& request_;
  std::map<Edge, Edge> received_;
  std::map<std::string, int32_t> channels_;  // by the names of nodes, which pruning keeps
};

// A feed comes to where the first of its readers stands, a fetch goes from where it is made.
void Place(const exec::PartInfo& part, graph::Graph* graph) {
  for (const graph::NodeId id : graph->ids()) {
    graph::Node& node = graph->mutable_node(id);
    for (const Edge& edge : node.inputs) {
      if (!edge.node) continue;
      graph::Node& from = graph->mutable_node(edge.node);
      if (part.channels[id]) node.device = from.device;
      else if (part.channels[edge.node] && from.device.empty()) from.device = node.device;
    }
  }
}

}  // namespace

DeclaredEdges::DeclaredEdges(const graph::Graph& graph, const optimize::Request& request) {
  for (size_t i = 0; i < request.feeds.size(); ++i)
    feeds_.emplace(graph.EdgeName(request.feeds[i]), static_cast<int32_t>(i));
  for (size_t i = 0; i < request.fetches.size(); ++i)
    fetches_.emplace(graph.EdgeName(request.fetches[i]), static_cast<int32_t>(i));
}

int32_t DeclaredEdges::Find(const std::map<std::string, int32_t, std::less<>>& numbers, std::string_view name) {
  const auto at = name.find(':') == name.npos ? numbers.find(StrCat(name, ":0")) : numbers.find(name);
  return at == numbers.end() ? -1 : at->second;
}

Result<std::shared_ptr<const exec::PartInfo>> MeetCallers(const std::vector<int32_t>& fetch_channels,
                                                          int32_t channel_count, bool placed, graph::Graph* graph,
                                                          optimize::Request* request) {
  Meeting meeting(graph, request);
  TENON_RETURN_IF_ERROR(meeting.Run(fetch_channels));
  TENON_ASSIGN_OR_RETURN(*graph, optimize::Prune(*graph, request));
  auto part = std::make_shared<exec::PartInfo>();
  part->channels.resize(graph->size());
  part->nodes_may_be_dead.assign(graph->size(), true);
  part->may_be_dead.assign(static_cast<size_t>(channel_count), true);
  for (const auto& [name, channel] : meeting.channels())
    if (const graph::NodeId id = graph->Find(name); id) part->channels[id] = exec::ChannelId(channel);
  if (placed) Place(*part, graph);
  return std::shared_ptr<const exec::PartInfo>(std::move(part));
}

}  // namespace tenon::session
