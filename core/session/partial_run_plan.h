// SPDX-License-Identifier: Apache-2.0
// PartialRunPlan: what partial runs of the same feeds, fetches and targets share. Immutable.
#ifndef TENON_CORE_SESSION_PARTIAL_RUN_PLAN_H_
#define TENON_CORE_SESSION_PARTIAL_RUN_PLAN_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/exec/plan/plan_options.h"
#include "core/graph/graph.h"
#include "core/optimize/optimize.h"
#include "core/session/callable.h"

namespace tenon::session {

// What a partial run was set up with, by the names that callers say: a call of a function, whose body stands for it in
// the step, keeps its own.
class DeclaredEdges {
 public:
  DeclaredEdges() = default;
  // The graph as it was asked for.
  DeclaredEdges(const graph::Graph& graph, const optimize::Request& request);
  // Its number; -1: it was not declared.
  int32_t FindFeed(std::string_view name) const { return Find(feeds_, name); }
  int32_t FindFetch(std::string_view name) const { return Find(fetches_, name); }

 private:
  static int32_t Find(const std::map<std::string, int32_t, std::less<>>& numbers, std::string_view name);

  std::map<std::string, int32_t, std::less<>> feeds_, fetches_;
};

struct PartialRunPlan {
  explicit PartialRunPlan(graph::Graph cut) : graph(std::move(cut)) {}
  // With its calls inlined, feeds and fetches as they were asked for: what needs what.
  graph::Graph graph;
  optimize::Request request;
  DeclaredEdges declared;
  // Feed i comes on channel i; fetch i goes on channel fetch_channels[i], which is one for all that are of one edge.
  std::vector<Callable::Feed> feeds;
  std::vector<int32_t> fetch_channels;
  int32_t channel_count = 0;
  std::shared_ptr<Callable> callable;
};

// Makes receives of a graph's feeds and sends of its fetches, and targets of those: a step that is fed and fetched
// while it runs. The request has targets alone then. placed: these nodes get devices too, next to theirs.
Result<std::shared_ptr<const exec::PartInfo>> MeetCallers(const std::vector<int32_t>& fetch_channels,
                                                          int32_t channel_count, bool placed, graph::Graph* graph,
                                                          optimize::Request* request);

}  // namespace tenon::session

#endif  // TENON_CORE_SESSION_PARTIAL_RUN_PLAN_H_
