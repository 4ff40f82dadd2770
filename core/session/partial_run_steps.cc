// SPDX-License-Identifier: Apache-2.0
#include "core/session/partial_run_steps.h"

#include <algorithm>
#include <set>

#include "core/graph/op_def.h"

namespace tenon::session {
namespace {

bool Has(const std::vector<graph::Edge>& edges, graph::Edge edge) { return std::find(edges.begin(), edges.end(), edge) != edges.end(); }
bool IsHandle(DType type) { return IsRef(type) || type == TENON_DT_RESOURCE; }

}  // namespace

Result<std::unique_ptr<PartialRun>> PartialRunSteps::Setup(std::shared_ptr<Session> session, const std::vector<std::string_view>& feeds,
                                                      const std::vector<std::string_view>& fetches,
                                                      const std::vector<std::string_view>& targets) {
  const Planning planning = session->StartPlanning({});
  TENON_ASSIGN_OR_RETURN(Session::Pruned pruned, session->Prune(feeds, fetches, targets));
  DeclaredEdges declared(pruned.graph, pruned.request);
  TENON_ASSIGN_OR_RETURN(pruned.graph, session->InlineCalls(std::move(pruned.graph), &pruned.request));
  std::unique_ptr<PartialRunSteps> partial(new PartialRunSteps(std::move(session), std::move(pruned.graph)));
  partial->declared_ = std::move(declared);
  partial->declared_feeds_ = pruned.request.feeds;
  partial->feeds_ = std::move(pruned.request.feeds);
  partial->fetches_ = std::move(pruned.request.fetches);
  partial->targets_ = std::move(pruned.request.targets);
  partial->executed_.assign(partial->graph_.size(), false);
  TENON_RETURN_IF_ERROR(partial->FindFlow());
  return std::unique_ptr<PartialRun>(std::move(partial));
}

Status PartialRunSteps::FindFlow() {
  const std::set<graph::Edge> fed(feeds_.begin(), feeds_.end());
  is_fed_ = [fed](graph::Edge edge) { return fed.contains(edge); };
  TENON_ASSIGN_OR_RETURN(const std::vector<graph::NodeId> order, graph_.TopologicalOrder());
  for (const graph::NodeId id : order) {
    const std::vector<graph::Edge>& inputs = graph_.node(id).inputs;
    if (std::all_of(inputs.begin(), inputs.end(), [](const graph::Edge& edge) { return static_cast<bool>(edge.node); })) running_.push_back(id);
  }
  TENON_ASSIGN_OR_RETURN(loops_, graph::LoopAnalysis::Run(graph_, running_));
  deadness_ = std::make_unique<partition::Deadness>(graph_, running_, loops_, is_fed_);
  return Status::Ok();
}

Status PartialRunSteps::CheckMayBeKept(graph::Edge edge) const {
  const graph::Node& node = graph_.node(edge.node);
  const auto refused = [&](const char* what) {
    return Unimplemented(StrCat("a partial run over a cluster cannot stop after ", node.Describe(), ", ", what, "; feed what it needs in one call, or make the run in one process"));
  };
  if (deadness_->FrameOf(edge) != graph::kStep) return refused("which is inside a loop");
  if (deadness_->MayBeDead(edge)) return refused("which lies in a branch");
  if (BaseType(graph_.TypeOf(edge)) == TENON_DT_VARIANT) return refused("which gives a variant");
  if (!IsHandle(graph_.TypeOf(edge))) return Status::Ok();
  if (node.has(TENON_OP_WRITES_STATE)) return refused("whose reference is used later");
  // A handle is made again, and names what it named; not one that is made of values and ends with the step.
  const bool is_made = graph_.TypeOf(edge) == TENON_DT_RESOURCE && !node.inputs.empty() && !node.has(TENON_OP_IDENTITY);
  return is_made ? refused("whose handle ends with the step") : Status::Ok();
}

// Feeds that were declared and are not there yet.
Status PartialRunSteps::TakeFeeds(const std::vector<std::string_view>& names, const tenon_tensor_view* const* feeds, Values* known,
                             std::vector<graph::Edge>* open) const {
  for (size_t i = 0; i < names.size(); ++i) {
    const int32_t number = declared_.FindFeed(names[i]);
    const graph::Edge edge = number < 0 ? graph::Edge() : declared_feeds_[static_cast<size_t>(number)];
    if (number < 0 || !Has(feeds_, edge)) return InvalidArgument(StrCat("'", names[i], "' was not declared as a feed of this partial run, or was fed before"));
    TENON_ASSIGN_OR_RETURN((*known)[edge], Tensor::CopyOf(session_->pool(), *feeds[i]));
  }
  std::erase_if(*open, [&](const graph::Edge& edge) { return known->contains(edge); });
  return Status::Ok();
}

Result<std::vector<graph::Edge>> PartialRunSteps::Edges(const std::vector<std::string_view>& fetch_names) const {
  std::vector<graph::Edge> edges;
  for (std::string_view name : fetch_names) {
    const int32_t number = declared_.FindFetch(name);
    if (number < 0) return InvalidArgument(StrCat("'", name, "' was not declared as a fetch of this partial run"));
    edges.push_back(fetches_[static_cast<size_t>(number)]);
  }
  return edges;
}

Result<graph::NodeMap<bool>> PartialRunSteps::FindNodes(const optimize::Request& request, const Values& known,
                                                const std::vector<graph::Edge>& open) const {
  graph::NodeMap<bool> runs(executed_.size(), false);
  std::vector<graph::NodeId> stack;
  const auto want = [&](graph::Edge edge) -> Status {
    if (known.contains(edge)) return Status::Ok();
    if (Has(open, edge))
      return FailedPrecondition(StrCat("'", graph_.EdgeName(edge), "' must be fed before what was asked for can be computed"));
    if (!runs[edge.node]) {
      runs[edge.node] = true;
      stack.push_back(edge.node);
    }
    return Status::Ok();
  };
  const auto after = [&](const std::vector<graph::NodeId>& nodes) -> Status {
    for (graph::NodeId node : nodes)
      if (!executed_[node]) TENON_RETURN_IF_ERROR(want({node, -1}));
    return Status::Ok();
  };
  for (const graph::Edge& edge : request.fetches) TENON_RETURN_IF_ERROR(want(edge));
  TENON_RETURN_IF_ERROR(after(request.targets));
  for (const graph::NodeId read : ReadsThatAreDue(known, open)) TENON_RETURN_IF_ERROR(want({read, 0}));
  while (!stack.empty()) {
    const graph::Node& node = graph_.node(stack.back());
    stack.pop_back();
    for (const graph::Edge& edge : node.inputs) TENON_RETURN_IF_ERROR(want(edge));
    TENON_RETURN_IF_ERROR(after(node.controls));
  }
  return runs;
}

std::vector<graph::NodeId> PartialRunSteps::StatesOf(const graph::Node& node) const {
  std::vector<graph::NodeId> states;
  for (graph::Edge edge : node.inputs) {
    if (!edge.node || !IsHandle(graph_.TypeOf(edge))) continue;
    while (graph_.node(edge.node).has(TENON_OP_IDENTITY | TENON_OP_SWITCH | TENON_OP_ENTER) && graph_.node(edge.node).inputs[0].node) edge = graph_.node(edge.node).inputs[0];
    states.push_back(edge.node);
  }
  return states;
}

bool PartialRunSteps::IsVariable(graph::NodeId state) const {
  const graph::Node& node = graph_.node(state);
  const std::vector<std::string>& roles = node.op->roles;
  return std::find(roles.begin(), roles.end(), "variable_handle") != roles.end() || std::any_of(node.output_types.begin(), node.output_types.end(), &IsRef);
}

std::vector<graph::NodeId> PartialRunSteps::ReadsThatAreDue(const Values& known, const std::vector<graph::Edge>& open) const {
  std::vector<graph::NodeId> due;
  graph::NodeMap<bool> ready(graph_.size(), false);
  for (const graph::NodeId id : running_) {
    const graph::Node& node = graph_.node(id);
    ready[id] = std::all_of(node.inputs.begin(), node.inputs.end(), [&](graph::Edge edge) { return known.contains(edge) || (!Has(open, edge) && ready[edge.node]); }) &&
                std::all_of(node.controls.begin(), node.controls.end(), [&](graph::NodeId control) { return executed_[control] || ready[control]; });
    if (!ready[id] || executed_[id] || node.output_types.empty() || node.has(TENON_OP_WRITES_STATE) || known.contains({id, 0})) continue;
    if (std::any_of(node.output_types.begin(), node.output_types.end(), &IsHandle)) continue;
    const std::vector<graph::NodeId> states = StatesOf(node);
    const bool reads = !states.empty() && std::all_of(states.begin(), states.end(), [this](graph::NodeId state) { return IsVariable(state); });
    if (reads && deadness_->FrameOf({id, 0}) == graph::kStep && !deadness_->MayBeDead({id, 0})) due.push_back(id);
  }
  return due;
}

Status PartialRunSteps::CheckStates(const graph::NodeMap<bool>& runs) {
  std::set<graph::NodeId> uses;
  for (const graph::NodeId id : runs.ids()) {
    const graph::Node& node = graph_.node(id);
    if (!runs[id] || node.has(TENON_OP_IDENTITY | TENON_OP_SWITCH | TENON_OP_ENTER)) continue;
    for (const graph::NodeId state : StatesOf(node)) {
      if (IsVariable(state)) continue;
      if (used_.contains(state))
        return Unimplemented(StrCat("a partial run over a cluster cannot use the state of ", graph_.node(state).Describe(), " in two calls, as ", node.Describe(),
                                    " would; feed what it needs in one call, or make the run in one process"));
      uses.insert(state);
    }
  }
  used_.insert(uses.begin(), uses.end());
  return Status::Ok();
}

// Handles are made again instead.
Result<std::vector<graph::Edge>> PartialRunSteps::FindKept(const graph::NodeMap<bool>& runs, const Values& known) const {
  std::vector<graph::Edge> kept;
  for (const graph::NodeId id : graph_.ids()) {
    if (runs[id]) continue;
    for (const graph::Edge& edge : graph_.node(id).inputs) {
      if (!edge.node || !runs[edge.node] || known.contains(edge) || Has(kept, edge)) continue;
      TENON_RETURN_IF_ERROR(CheckMayBeKept(edge));
      if (!IsHandle(graph_.TypeOf(edge))) kept.push_back(edge);
    }
  }
  return kept;
}

// Known values are feeds; nodes that ran are not waited for again.
Status PartialRunSteps::Run(const RunOptions& options, optimize::Request request, const Values& known, std::vector<Tensor>* out) {
  const auto ran = [this](graph::NodeId node) { return executed_[node]; };
  std::erase_if(request.targets, ran);
  if (request.fetches.empty() && request.targets.empty()) return Status::Ok();
  graph::Graph graph = graph_.Clone();
  for (const graph::NodeId id : graph.ids()) std::erase_if(graph.mutable_node(id).controls, ran);
  std::vector<tenon_tensor_view> views;
  for (const auto& [edge, tensor] : known) {
    request.feeds.push_back(edge);
    views.push_back(tensor.view());
  }
  std::vector<const tenon_tensor_view*> pointers;
  for (const auto& view : views) pointers.push_back(&view);
  TENON_ASSIGN_OR_RETURN(const std::shared_ptr<Callable> callable, session_->PrepareGraph(graph, std::move(request), options));
  return callable->Run(options, pointers.data(), out);
}

Status PartialRunSteps::Call(const RunOptions& options, const std::vector<std::string_view>& feed_names, const tenon_tensor_view* const* feeds,
                             const std::vector<std::string_view>& fetch_names, std::vector<Tensor>* out_fetches, bool* out_runs) {
  Values known = known_;
  std::vector<graph::Edge> open = feeds_;
  TENON_RETURN_IF_ERROR(TakeFeeds(feed_names, feeds, &known, &open));
  optimize::Request request;
  TENON_ASSIGN_OR_RETURN(request.fetches, Edges(fetch_names));
  const size_t asked = request.fetches.size();
  // Targets run with the call that brings the last feed.
  if (open.empty()) request.targets = targets_;
  TENON_ASSIGN_OR_RETURN(const graph::NodeMap<bool> runs, FindNodes(request, known, open));
  TENON_RETURN_IF_ERROR(CheckStates(runs));
  TENON_ASSIGN_OR_RETURN(const std::vector<graph::Edge> kept, FindKept(runs, known));
  request.fetches.insert(request.fetches.end(), kept.begin(), kept.end());
  std::vector<Tensor> fetched;
  *out_runs = true;
  TENON_RETURN_IF_ERROR(Run(options, std::move(request), known, &fetched));
  known_ = std::move(known);
  feeds_ = std::move(open);
  for (size_t i = 0; i < kept.size(); ++i) known_[kept[i]] = fetched[asked + i];
  for (const graph::NodeId id : graph_.ids()) {
    const std::vector<DType>& types = graph_.node(id).output_types;
    if (runs[id] && std::none_of(types.begin(), types.end(), &IsHandle)) executed_[id] = true;
  }
  fetched.resize(asked);
  *out_fetches = std::move(fetched);
  return Status::Ok();
}

}  // namespace tenon::session
