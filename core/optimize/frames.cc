// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <string>
#include <utility>

#include "core/graph/frame_id.h"
#include "core/graph/graph.h"
#include "core/optimize/optimize.h"

namespace tenon::optimize {
namespace {

using graph::Edge;
using graph::FrameId;
using graph::Graph;
using graph::kStep;
using graph::Node;

// Where a value stands, and the feed (its number) by which that is the step; -1: it is so without feeds.
struct Place {
  FrameId frame = kStep;
  int feed = -1;
};

// Follows values from feeds and sources into loops and out of them.
class Frames {
 public:
  Frames(const Graph& graph, const Request& request) : graph_(graph), request_(request), places_(graph.size()) {
    for (size_t i = 0; i < request.feeds.size(); ++i) fed_.emplace(request.feeds[i], static_cast<int>(i));
    loops_.push_back({});
  }

  Status Run() {
    for (const graph::NodeId id : graph_.ids()) TENON_RETURN_IF_ERROR(Visit(graph_.node(id)));
    for (const Edge& fetch : request_.fetches) {
      const FrameId frame = places_[fetch.node].frame;
      if (frame == kStep || fed_.contains(fetch)) continue;
      return InvalidArgument(
          StrCat("fetch '", graph_.EdgeName(fetch), "': ", graph_.node(fetch.node).Describe(), " is inside a loop ('",
                 loops_[frame].name,
                 "') and cannot be fetched, since it has a value in each turn; fetch what leaves the loop"));
    }
    return Status::Ok();
  }

 private:
  struct Loop {
    FrameId parent;
    std::string name;
  };

  // Values of one node's inputs that stand apart are left to the analysis of loops, unless a feed is why.
  Status Visit(const Node& node) {
    Place place;
    bool found = false;
    const auto meet = [&](const Place& other) -> Status {
      if (!found) place = other;
      found = true;
      if (other.frame != place.frame && (other.feed >= 0 || place.feed >= 0))
        return Refused(other.feed >= 0 ? other.feed : place.feed, other.feed >= 0 ? place.frame : other.frame);
      if (place.feed < 0) place.feed = other.feed;
      return Status::Ok();
    };
    for (const Edge& edge : node.inputs) {
      if (!edge.node) continue;
      if (const auto fed = fed_.find(edge); fed != fed_.end()) {
        const bool is_source = graph_.node(edge.node).has(TENON_OP_FEED);  // one that stands in no loop of its own
        TENON_RETURN_IF_ERROR(meet({kStep, is_source ? -1 : fed->second}));
      } else if (!IsBackEdge(graph_.node(edge.node), node)) {
        TENON_RETURN_IF_ERROR(meet(places_[edge.node]));
      }
    }
    for (const graph::NodeId control : node.controls) TENON_RETURN_IF_ERROR(meet(places_[control]));
    return Leave(node, place);
  }

  // To where the node's own values stand.
  Status Leave(const Node& node, Place place) {
    if (node.has(TENON_OP_ENTER)) place = {Entered(place.frame, node), -1};
    if (place.frame == kStep && place.feed >= 0 && node.has(TENON_OP_EXIT | TENON_OP_NEXT_ITERATION))
      return Refused(place.feed, kStep);
    if (node.has(TENON_OP_EXIT) && place.frame != kStep) place.frame = loops_[place.frame].parent;
    places_[node.id] = place;
    return Status::Ok();
  }

  FrameId Entered(FrameId around, const Node& enter) {
    const graph::AttrValue* value = enter.FindAttr("frame_name");
    const std::string& name = value != nullptr && value->kind() == TENON_ATTR_STRING ? value->s() : enter.name;
    const auto [at, is_new] = by_name_.emplace(std::make_pair(around, name), loops_.next_id());
    if (is_new) loops_.push_back({around, name});
    return at->second;
  }

  Status Refused(int feed, FrameId loop) const {
    const Edge edge = request_.feeds[static_cast<size_t>(feed)];
    return InvalidArgument(
        StrCat("feed '", graph_.EdgeName(edge), "': ", graph_.node(edge.node).Describe(), " is inside a loop",
               loop == kStep ? "" : StrCat(" ('", loops_[loop].name, "')"),
               ", where it has a value in each turn; feed the value that enters the loop, or what leaves it"));
  }

  const Graph& graph_;
  const Request& request_;
  std::map<Edge, int> fed_;
  std::map<std::pair<FrameId, std::string>, FrameId> by_name_;
  IdVector<FrameId, Loop> loops_;
  graph::NodeMap<Place> places_;
};

}  // namespace

Status CheckFrames(const Graph& graph, const Request& request) {
  constexpr uint64_t kLoop = TENON_OP_ENTER | TENON_OP_EXIT | TENON_OP_NEXT_ITERATION;
  for (const graph::NodeId id : graph.ids())
    if (graph.node(id).has(kLoop)) return Frames(graph, request).Run();
  return Status::Ok();
}

}  // namespace tenon::optimize
