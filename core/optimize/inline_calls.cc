// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/grad/gradients.h"
#include "core/graph/effect.h"
#include "core/graph/graph.h"
#include "core/graph/function/inline_call.h"
#include "core/optimize/optimize.h"

namespace tenon::optimize {

using graph::Edge;
using graph::Graph;

namespace {

// What the functions of a call say is to run, as the ends of nodes' names.
std::vector<std::string> ControlReturnsOf(const Graph& graph, const graph::Node& call) {
  std::vector<std::string> ends;
  const auto add = [&](const std::string& function) {
    const auto at = graph.library().find(function);
    if (at == graph.library().end()) return;
    for (const auto& [output, node] : at->second->control_returns) ends.push_back(StrCat("/", node));
  };
  add(call.op->name);
  for (const auto& [name, value] : call.attrs)
    if ((value.kind() & ~TENON_ATTR_LIST) == TENON_ATTR_FUNCTION)
      for (size_t i = 0; i < value.size(); ++i) add(value.function(i).name);
  return ends;
}

// What a body waits for, from its control returns on backwards: of it what can be told to have run, as what takes from
// a queue, be it in a branch whose merge is the control return. TensorFlow's functions name reads of variables there
// too, which nobody can tell: a layer's body is left to passes.
void AddAwaited(const Graph& graph, graph::NodeId call, std::vector<graph::NodeId> ends,
                std::set<graph::NodeId>* awaited) {
  const std::string scope = StrCat(graph.node(call).name, "/");
  std::set<graph::NodeId> found(ends.begin(), ends.end());
  while (!ends.empty()) {
    const graph::Node& node = graph.node(ends.back());
    ends.pop_back();
    if (!graph::OnlyGives(node)) awaited->insert(node.id);
    const auto follow = [&](graph::NodeId id) {
      if (id && graph.node(id).name.starts_with(scope) && found.insert(id).second) ends.push_back(id);
    };
    for (const Edge& input : node.inputs) follow(input.node);
    for (const graph::NodeId control : node.controls) follow(control);
  }
}

// The scopes that have nodes which do something: bodies of calls, below the calls' names, whatever lies in them.
std::set<std::string_view> ScopesWithEffects(const Graph& graph, const std::set<graph::NodeId>& to_run) {
  std::set<std::string_view> scopes;
  for (const graph::NodeId id : graph.ids()) {
    if (!graph::HasEffect(graph.node(id)) && !to_run.contains(id)) continue;
    const std::string_view name = graph.node(id).name;
    for (size_t end = name.find('/'); end != name.npos; end = name.find('/', end + 1))
      scopes.insert(name.substr(0, end));
  }
  return scopes;
}

}  // namespace

Result<Graph> InlineCalls(Graph graph, Request* request, const HasKernel& has_kernel) {
  // Functions that call each other twice double with each level: a few kilobytes would take minutes and all memory.
  constexpr int kMostNodes = 1 << 18;
  const size_t before = graph.size();
  graph::NodeMap<int> depth(graph.size(), 0);
  std::vector<graph::NodeId> inlined;
  std::vector<std::vector<graph::NodeId>> waits_for;  // of each inlined call
  for (graph::NodeId id(0); graph.Has(id); ++id) {  // bodies, which come behind, have calls too
    const bool decomposed = graph::Decomposes(graph.node(id)) && has_kernel && !has_kernel(graph.node(id));
    if (!graph.node(id).has(graph::kCallsFunctions) && !decomposed) continue;
    // Where all that is wanted of a call is fed, it is there to name its feeds (prune.cc).
    const std::vector<Edge>& inputs = graph.node(id).inputs;
    if (std::any_of(inputs.begin(), inputs.end(), [](const Edge& input) { return !input.node; })) continue;
    if (depth[id] >= graph::kMaxCallDepth)
      return ResourceExhausted(StrCat(graph.node(id).Describe(), " is nested deeper than ", graph::kMaxCallDepth,
                                      " calls; a call becomes its function's nodes before a step, so a function that "
                                      "calls itself, in a branch too, has no end: write a loop"));
    if (graph.node(id).has(TENON_OP_GRADIENT)) TENON_RETURN_IF_ERROR(grad::MakeGradientCall(&graph, id).status());
    const std::vector<std::string> ends = ControlReturnsOf(graph, graph.node(id));
    const graph::NodeId first(static_cast<int32_t>(graph.size()));
    TENON_RETURN_IF_ERROR(graph::InlineCall(&graph, id).status());
    std::vector<graph::NodeId>& awaited = waits_for.emplace_back();
    for (graph::NodeId made = first; graph.Has(made) && !ends.empty(); ++made) {
      const auto is_end = [&](const std::string& end) { return graph.node(made).name.ends_with(end); };
      if (std::any_of(ends.begin(), ends.end(), is_end)) awaited.push_back(made);
    }
    inlined.push_back(id);
    depth.resize(graph.size(), depth[id] + 1);
    if (graph.size() - before > kMostNodes)
      return ResourceExhausted(
          StrCat("inlining calls made more than ", kMostNodes, " nodes; the last was ", graph.node(id).Describe()));
  }
  if (inlined.empty()) return graph;
  // Whose state it would be matters to no node without one, and would tell equal ones apart.
  for (const graph::NodeId id : graph.ids())
    if (graph::Node& node = graph.mutable_node(id); !node.has(TENON_OP_STATEFUL))
      if (const auto name = node.attrs.find(graph::kStateNameAttr); name != node.attrs.end()) node.attrs.erase(name);
  // Values pass the calls by, so that what a step does not need of a body is pruned; not where the body does something,
  // which it does whatever is read of it.
  std::set<graph::NodeId> to_run;
  for (size_t i = 0; i < inlined.size(); ++i) AddAwaited(graph, inlined[i], std::move(waits_for[i]), &to_run);
  const std::set<std::string_view> with_effects = ScopesWithEffects(graph, to_run);
  graph::NodeMap<bool> passed(graph.size(), false);
  for (graph::NodeId id : inlined) passed[id] = !with_effects.contains(graph.node(id).name);
  const std::set<Edge> fed(request->feeds.begin(), request->feeds.end());
  const auto pass = [&](Edge* edge) {
    while (edge->node && passed[edge->node] && !fed.contains(*edge))
      *edge = graph.node(edge->node).inputs[edge->index];
  };
  for (const graph::NodeId id : graph.ids())
    for (Edge& edge : graph.mutable_node(id).inputs) pass(&edge);
  for (Edge& fetch : request->fetches) pass(&fetch);
  return Prune(graph, request);
}

}  // namespace tenon::optimize
