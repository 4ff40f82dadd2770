// SPDX-License-Identifier: Apache-2.0
// Passes over a graph before it is planned: pruning, inlining of calls, common subexpressions, work that is only waited
// for.
//
// Each gives a new graph and says where nodes went; names stay, so errors speak of the user's nodes.
#ifndef TENON_CORE_OPTIMIZE_OPTIMIZE_H_
#define TENON_CORE_OPTIMIZE_OPTIMIZE_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "core/base/status.h"
#include "core/graph/edge.h"

namespace tenon::optimize {

// What a step is asked for, as edges and nodes of a graph. Passes rewrite it along with the graph.
struct Request {
  std::vector<graph::Edge> feeds;
  std::vector<graph::Edge> fetches;
  std::vector<graph::NodeId> targets;
  // Where each feed lies and each fetch is wanted: 0 the host's memory, else the number of a device with queues. Empty:
  // 0.
  std::vector<int32_t> feed_memories{}, fetch_memories{};
};

// Keeps the ancestors of fetches and targets, cut at feeds. A fed node stays (its outputs are named by the feeds); its
// inputs are open then and nothing of it runs, unless another of its outputs is wanted, it is a target, or others wait
// for it. place: as of Graph::TopologicalOrder.
Result<graph::Graph> Prune(const graph::Graph& graph, Request* request,
                           const std::function<graph::NodeId(graph::NodeId)>& place = {});

// Of a pruned graph. INVALID_ARGUMENT: a fetch or a feed that stands inside a loop, where a value is many, by its name.
// A feed that cuts off all that ties its readers to their loop does not stand in one.
Status CheckFrames(const graph::Graph& graph, const Request& request);

// Whether one of the devices on which a node may run has a kernel for it.
using HasKernel = std::function<bool(const graph::Node&)>;

// Replaces calls of library functions, conditionals and loops over them by their bodies (inline_call.h), nested ones
// too; recursion deeper than 64 is refused. Of a call that is fed in a part the rest is computed. So it does with ops
// that are made of others and have no kernel (empty: keep them). Nodes of a body get the call's name as prefix.
Result<graph::Graph> InlineCalls(graph::Graph graph, Request* request, const HasKernel& has_kernel = {});

// Nodes with the same op, inputs, control inputs and attributes become one; never stateful ones. What only stopped
// gradients is read no more. Returns how many went.
int64_t MergeCommonSubexpressions(graph::Graph* graph, Request* request);

// Expensive nodes without effects whose values nobody reads, though others wait for them (the gradient of a network's
// input, which stands beside those of its weights), and such as hand their inputs on: those wait for what these wait
// for, so that pruning leaves these out. An error that such a node would have found is not found, as where nobody
// waited for it. Returns how many.
int64_t BypassUnread(graph::Graph* graph, const Request& request);

}  // namespace tenon::optimize

#endif  // TENON_CORE_OPTIMIZE_OPTIMIZE_H_
