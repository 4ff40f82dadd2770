// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
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

// What the functions of a call say is to run, as the ends of nodes' names, each from a '/' on.
using NameEnds = std::set<std::string, std::less<>>;
NameEnds ControlReturnsOf(const Graph& graph, const graph::Node& call) {
  NameEnds ends;
  const auto add = [&](const std::string& function) {
    const auto at = graph.library().find(function);
    if (at == graph.library().end()) return;
    for (const auto& [output, node] : at->second->control_returns) ends.insert(StrCat("/", node));
  };
  add(call.op->name);
  for (const auto& [name, value] : call.attrs)
    if ((value.kind() & ~TENON_ATTR_LIST) == TENON_ATTR_FUNCTION)
      for (size_t i = 0; i < value.size(); ++i) add(value.function(i).name);
  return ends;
}

bool EndsAs(const NameEnds& ends, std::string_view name) {
  for (size_t at = name.find('/'); at != name.npos; at = name.find('/', at + 1))
    if (ends.contains(name.substr(at))) return true;
  return false;
}

// What a body waits for, from its control returns on backwards: of it what can be told to have run, as what takes from
// a queue, be it in a branch whose merge is the control return. TensorFlow's functions name reads of variables there
// too, which nobody can tell: a layer's body is left to passes.
class AwaitedNodes {
 public:
  explicit AwaitedNodes(const Graph& graph) : graph_(graph), seen_(graph.size(), false) {}
  // Calls come before those in their bodies, so that what was seen is not looked at again.
  void Add(graph::NodeId call, const std::vector<graph::NodeId>& control_returns) {
    const std::string scope = StrCat(graph_.node(call).name, "/");
    std::vector<graph::NodeId> left;
    const auto follow = [&](graph::NodeId id) {
      if (id && !seen_[id] && graph_.node(id).name.starts_with(scope)) seen_[id] = true, left.push_back(id);
    };
    for (const graph::NodeId end : control_returns) follow(end);
    while (!left.empty()) {
      const graph::Node& node = graph_.node(left.back());
      left.pop_back();
      if (!graph::OnlyGives(node)) to_run_.push_back(node.id);
      for (const Edge& input : node.inputs) follow(input.node);
      for (const graph::NodeId control : node.controls) follow(control);
    }
  }
  const std::vector<graph::NodeId>& to_run() const { return to_run_; }

 private:
  const Graph& graph_;
  graph::NodeMap<bool> seen_;
  std::vector<graph::NodeId> to_run_;
};

// The scopes that have nodes which do something: bodies of calls, below the calls' names, whatever lies in them.
std::set<std::string_view> ScopesWithEffects(const Graph& graph, const std::vector<graph::NodeId>& to_run) {
  std::set<std::string_view> scopes;
  const auto add = [&](const graph::Node& node) {
    const std::string_view name = node.name;
    for (size_t end = name.find('/'); end != name.npos; end = name.find('/', end + 1))
      scopes.insert(name.substr(0, end));
  };
  for (const graph::NodeId id : graph.ids())
    if (graph::HasEffect(graph.node(id))) add(graph.node(id));
  for (const graph::NodeId id : to_run) add(graph.node(id));
  return scopes;
}

}  // namespace

Result<Graph> InlineCalls(Graph graph, Request* request, const HasKernel& has_kernel) {
  // Functions that call each other twice double with each level: a few kilobytes would take minutes and all memory.
  constexpr int kMostNodes = 1 << 18;
  const size_t before = graph.size();
  graph::NodeMap<int> depth(graph.size(), 0);
  std::vector<graph::NodeId> inlined;
  std::vector<std::vector<graph::NodeId>> control_returns;  // of each inlined call
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
    const NameEnds ends = ControlReturnsOf(graph, graph.node(id));
    const graph::NodeId first(static_cast<int32_t>(graph.size()));
    TENON_RETURN_IF_ERROR(graph::InlineCall(&graph, id).status());
    std::vector<graph::NodeId>& returns = control_returns.emplace_back();
    for (graph::NodeId made = first; graph.Has(made) && !ends.empty(); ++made)
      if (EndsAs(ends, graph.node(made).name)) returns.push_back(made);
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
  AwaitedNodes awaited(graph);
  for (size_t i = 0; i < inlined.size(); ++i) awaited.Add(inlined[i], control_returns[i]);
  const std::set<std::string_view> with_effects = ScopesWithEffects(graph, awaited.to_run());
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
