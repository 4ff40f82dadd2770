// SPDX-License-Identifier: Apache-2.0
#include "core/grad/gradients.h"

#include <set>

#include "core/grad/differentiator.h"
#include "core/grad/own_gradient.h"
#include "core/graph/graph.h"
#include "core/graph/function/inline_call.h"

namespace tenon::grad {
namespace {

using graph::Builder;
using graph::Edge;
using graph::Graph;
using graph::Node;
using graph::NodeId;

// Calls on the way, and what has no gradient but is made of ops that do; their bodies must be in the graph before it is
// differentiated.
Result<std::vector<NodeId>> CallsBetween(const Graph& graph, const OwnGradients& own, const std::vector<Edge>& ys,
                                         const std::vector<Edge>& xs) {
  const Between between(graph, Stacks(&graph), ys, xs);
  std::vector<NodeId> calls;
  for (const NodeId id : between.ids()) {
    const Node& node = graph.node(id);
    const bool made_of_others = graph::Decomposes(node) && node.op->c->gradient == nullptr;
    if (!between.Has(id) || (!node.has(graph::kCallsFunctions) && !made_of_others)) continue;
    TENON_ASSIGN_OR_RETURN(const std::string gradient, own.Of(node));
    if (gradient.empty()) calls.push_back(id);
  }
  return calls;
}

// Puts the bodies of calls on the way into the graph, nested ones too; `replaced` holds the calls as they were.
Status InlineOnTheWay(Builder* builder, const OwnGradients& own, const std::vector<Edge>& ys,
                      const std::vector<Edge>& xs, std::vector<std::unique_ptr<Node>>* replaced) {
  for (int depth = 0; depth <= graph::kMaxCallDepth; ++depth) {
    TENON_ASSIGN_OR_RETURN(const std::vector<NodeId> calls, CallsBetween(builder->graph(), own, ys, xs));
    if (calls.empty()) return Status::Ok();
    for (NodeId call : calls) {
      if (builder->graph().node(call).has(TENON_OP_GRADIENT)) {
        TENON_ASSIGN_OR_RETURN(std::unique_ptr<Node> gradient, MakeGradientCall(&builder->graph(), call));
        replaced->push_back(std::move(gradient));
      }
      TENON_ASSIGN_OR_RETURN(std::unique_ptr<Node> old, graph::InlineCall(&builder->graph(), call));
      replaced->push_back(std::move(old));
    }
    builder->Forget();
  }
  return ResourceExhausted(StrCat("calls between the ys and the xs are nested deeper than ", graph::kMaxCallDepth));
}

// The wish, or the wish with a number, that no node's name begins with.
std::string FreeScope(const Graph& graph, const std::string& wish) {
  std::set<std::string, std::less<>> taken;
  for (const NodeId id : graph.ids()) {
    const std::string_view name = graph.node(id).name;
    if (!name.starts_with(wish)) continue;
    if (const size_t end = name.find('/', wish.size()); end != name.npos) taken.emplace(name.substr(0, end));
  }
  std::string scope = wish;
  for (int i = 1; taken.contains(scope); ++i) scope = StrCat(wish, "_", i);
  return scope;
}

}  // namespace

Result<std::vector<tenon_gradient>> AddGradients(Builder* builder, const std::vector<Edge>& ys,
                                                 const std::vector<Edge>& xs, const std::vector<Edge>& initial) {
  if (ys.empty() || xs.empty()) return InvalidArgument("gradients need at least one y and one x");
  if (!initial.empty() && initial.size() != ys.size())
    return InvalidArgument(StrCat("there are ", ys.size(), " ys and ", initial.size(), " initial gradients"));
  Graph& graph = builder->graph();
  const size_t size = graph.size();
  const std::string scope = builder->scope();
  const std::vector<NodeId> controls = builder->controls();
  builder->set_scope(FreeScope(graph, scope.empty() ? "gradients" : scope + "/gradients"));
  builder->set_controls({});
  std::vector<std::unique_ptr<Node>> replaced;
  const auto differentiate = [&]() -> Result<std::vector<tenon_gradient>> {
    const OwnGradients own(&graph);
    TENON_RETURN_IF_ERROR(InlineOnTheWay(builder, own, ys, xs, &replaced));
    TENON_ASSIGN_OR_RETURN(ForwardGraph forward, ForwardGraph::Of(&graph));
    return Differentiator(builder, &forward, &own, ys, xs).Run(initial);
  };
  auto gradients = differentiate();
  builder->set_scope(scope);
  builder->set_controls(controls);
  if (!gradients.ok()) {
    for (; !replaced.empty(); replaced.pop_back()) {
      // A body's own calls go with it.
      if (replaced.back()->id.index() < size) graph.Restore(std::move(replaced.back()));
    }
    graph.Truncate(size);
  }
  builder->Forget();
  return gradients;
}

}  // namespace tenon::grad
