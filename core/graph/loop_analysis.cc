// SPDX-License-Identifier: Apache-2.0
#include "core/graph/loop_analysis.h"

#include <algorithm>
#include <functional>
#include <queue>

#include "core/graph/graph.h"

namespace tenon::graph {
namespace {

std::string FrameName(const Node& enter) {
  const AttrValue* name = enter.FindAttr("frame_name");
  return name != nullptr && name->kind() == TENON_ATTR_STRING ? name->s() : enter.name;
}

}  // namespace

bool IsConstantEnter(const Node& node) {
  const AttrValue* value = node.has(TENON_OP_ENTER) ? node.FindAttr("is_constant") : nullptr;
  return value != nullptr && value->kind() == TENON_ATTR_BOOL && value->b();
}

Result<LoopAnalysis> LoopAnalysis::Run(const Graph& graph, const std::vector<NodeId>& order) {
  LoopAnalysis out;
  out.frames_.emplace_back();
  out.frame_of_.assign(graph.size(), FrameId());
  std::map<std::pair<FrameId, std::string>, FrameId> by_name;
  for (NodeId id : order) {
    TENON_RETURN_IF_ERROR(CheckAllowance());
    const Node& node = graph.node(id);
    FrameId frame = kStep;
    bool found = false;
    const auto visit = [&](NodeId from) -> Status {
      if (!from || !out.frame_of_[from]) return Status::Ok();
      const Node& source = graph.node(from);
      if (IsBackEdge(source, node)) return Status::Ok();
      FrameId of_source = out.frame_of_[from];
      if (source.has(TENON_OP_EXIT)) of_source = out.frames_[of_source].parent;
      if (!found) frame = of_source;
      found = true;
      if (of_source == frame) return Status::Ok();
      return InvalidArgument(
          StrCat(node.Describe(), ": its inputs come from different loops ('", out.frames_[of_source].name, "' and '",
                 out.frames_[frame].name,
                 "', '' being none); a value enters a loop through an Enter and leaves it through an Exit"));
    };
    for (const Edge& edge : node.inputs) TENON_RETURN_IF_ERROR(visit(edge.node));
    for (NodeId control : node.controls) TENON_RETURN_IF_ERROR(visit(control));
    if (node.has(TENON_OP_ENTER)) {
      const auto key = std::make_pair(frame, FrameName(node));
      auto it = by_name.find(key);
      if (it == by_name.end()) {
        if (key.second.empty())
          return InvalidArgument(StrCat(node.Describe(), ": its attribute 'frame_name' is empty"));
        if (out.frames_[frame].depth == kDeepestLoop)
          return ResourceExhausted(
              StrCat(node.Describe(), " enters a loop in ", kDeepestLoop, " others; there may be no more around one"));
        it = by_name.emplace(key, out.frames_.next_id()).first;
        Frame child;
        child.parent = frame;
        child.depth = out.frames_[frame].depth + 1;
        child.name = key.second;
        out.frames_.push_back(std::move(child));
        out.frames_[frame].children.push_back(it->second);
      }
      frame = it->second;
      out.frames_[frame].enters.push_back(id);
    }
    if (node.has(TENON_OP_EXIT | TENON_OP_NEXT_ITERATION) && frame == kStep)
      return InvalidArgument(StrCat(node.Describe(), " is not in a loop"));
    out.frame_of_[id] = frame;
    out.frames_[frame].nodes.push_back(id);
  }
  // What goes back must stay in its loop.
  for (NodeId id : order)
    for (const Edge& edge : graph.node(id).inputs) {
      if (!edge.node || !IsBackEdge(graph.node(edge.node), graph.node(id))) continue;
      const FrameId from = out.frame_of_[edge.node];
      if (from && from != out.frame_of(id))
        return InvalidArgument(StrCat(graph.node(id).Describe(), ": its next value comes from another loop (",
                                      graph.node(edge.node).Describe(), ")"));
    }
  for (size_t frame = out.frames_.size(); frame-- > 1;) {
    TENON_RETURN_IF_ERROR(CheckAllowance());
    out.Structure(graph, order, FrameId(frame));
  }
  return out;
}

bool LoopAnalysis::IsWithin(FrameId inner, FrameId outer) const {
  for (FrameId at = inner; at; at = frames_[at].parent)
    if (at == outer) return true;
  return false;
}

Result<std::vector<LoopAnalysis::Item>> LoopAnalysis::Items(const Graph& graph, const std::vector<NodeId>& order,
                                                            FrameId frame) const {
  TENON_RETURN_IF_ERROR(CheckAllowance());
  std::vector<Item> items;
  std::map<FrameId, size_t> item_of_child;
  NodeMap<int> item_of(graph.size(), -1);
  for (NodeId id : order) {
    FrameId of_node = frame_of(id);
    if (!of_node || !IsWithin(of_node, frame)) continue;
    if (of_node == frame) {
      item_of[id] = static_cast<int>(items.size());
      items.push_back({id, FrameId()});
      continue;
    }
    while (frames_[of_node].parent != frame) of_node = frames_[of_node].parent;
    const auto [it, fresh] = item_of_child.emplace(of_node, items.size());
    if (fresh) items.push_back({NodeId(), of_node});
    item_of[id] = static_cast<int>(it->second);
  }
  std::vector<int> pending(items.size(), 0);
  std::vector<std::vector<size_t>> users(items.size());
  for (NodeId id : order) {
    const int to = item_of[id];
    if (to < 0) continue;
    const auto depend = [&](NodeId from_node) {
      if (!from_node) return;
      const int from = item_of[from_node];
      if (from < 0 || from == to || IsBackEdge(graph.node(from_node), graph.node(id))) return;
      ++pending[to];
      users[from].push_back(to);
    };
    for (const Edge& edge : graph.node(id).inputs) depend(edge.node);
    for (NodeId control : graph.node(id).controls) depend(control);
  }
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t i = 0; i < items.size(); ++i)
    if (pending[i] == 0) ready.push(i);
  std::vector<Item> sorted;
  while (!ready.empty()) {
    const size_t i = ready.top();
    ready.pop();
    sorted.push_back(items[i]);
    for (size_t user : users[i])
      if (--pending[user] == 0) ready.push(user);
  }
  if (sorted.size() != items.size())
    return InvalidArgument(StrCat("a loop in '", frames_[frame].name, "' depends on itself from outside"));
  return sorted;
}

// A frame is structured when it is a while loop: merges of (enter, next iteration), one condition, switches of the loop
// variables on it, exits of those switches' false sides; and all its child frames are structured. Other merges and
// switches belong to conditionals in a turn.
void LoopAnalysis::Structure(const Graph& graph, const std::vector<NodeId>& order, FrameId index) {
  Frame& frame = frames_[index];
  const auto refuse = [&frame](std::string why) { frame.why_not = std::move(why); };
  for (FrameId child : frame.children)
    if (!frames_[child].structured) return refuse("a loop in it is not structured");
  std::map<NodeId, size_t> variable_of_merge;
  NodeMap<bool> in_body(graph.size(), false), turn_switch(in_body);
  for (NodeId id : frame.nodes) {
    const Node& node = graph.node(id);
    if (node.has(TENON_OP_LOOP_CONDITION)) {
      if (frame.condition) return refuse("it has two loop conditions");
      frame.condition = id;
    }
    if (IsConstantEnter(node)) frame.invariants.push_back(id);
    const auto is_next = [&graph](const Edge& edge) {
      return edge.node && graph.node(edge.node).has(TENON_OP_NEXT_ITERATION);
    };
    if (!node.has(TENON_OP_MERGE) || std::none_of(node.inputs.begin(), node.inputs.end(), is_next)) continue;
    if (node.inputs.size() != 2) return refuse("it has a merge that is no loop variable");
    LoopVariable variable;
    variable.merge = id;
    for (const Edge& edge : node.inputs) {
      const Node& source = graph.node(edge.node);
      if (source.has(TENON_OP_ENTER) && frame_of_[edge.node] == index) variable.enter = edge.node;
      if (source.has(TENON_OP_NEXT_ITERATION)) variable.next = edge.node;
    }
    if (!variable.enter || !variable.next || frame_of_[variable.next] != index ||
        graph.node(variable.next).inputs[0].node == NodeId())
      return refuse("it has a merge that is no loop variable");
    variable_of_merge[id] = frame.variables.size();
    frame.variables.push_back(variable);
  }
  if (!frame.condition) return refuse("it has no loop condition");
  // What depends on a switch is the body. Nodes come in topological order, and child frames belong to where they enter.
  for (NodeId id : order) {
    const FrameId of_node = frame_of_[id];
    bool inside = false;
    for (FrameId at = of_node; at; at = frames_[at].parent) inside = inside || at == index;
    if (!inside) continue;
    const Node& node = graph.node(id);
    const bool own = of_node == index;
    if (own && node.has(TENON_OP_SWITCH) && node.inputs[1].node == frame.condition) {
      const auto merge = variable_of_merge.find(node.inputs[0].node);
      turn_switch[id] = true;
      if (merge == variable_of_merge.end() || node.inputs[0].index != 0 || frame.variables[merge->second].switch_node)
        frame.gates.push_back(id);
      else
        frame.variables[merge->second].switch_node = id;
    }
    bool body = false;
    for (const Edge& edge : node.inputs) {
      if (!edge.node || !frame_of_[edge.node]) continue;
      const Node& source = graph.node(edge.node);
      if (IsBackEdge(source, node)) continue;
      const bool source_own = frame_of_[edge.node] == index;
      if (source_own && turn_switch[edge.node]) {
        const bool gate = std::find(frame.gates.begin(), frame.gates.end(), edge.node) != frame.gates.end();
        if (edge.index == 0 && (gate || !node.has(TENON_OP_EXIT)))
          return refuse("a value is used after the condition failed");
        if (edge.index == 0) {
          for (LoopVariable& variable : frame.variables)
            if (variable.switch_node == edge.node) {
              if (variable.exit) return refuse("a loop variable leaves twice");
              variable.exit = id;
            }
          continue;
        }
        body = true;
      }
      if (source_own && variable_of_merge.contains(edge.node) && edge.index != 0)
        return refuse("a loop variable's merge index is used");
      body = body || in_body[edge.node];
    }
    for (NodeId control : node.controls) {
      const Node& source = graph.node(control);
      if (source.has(TENON_OP_EXIT) && frame_of_[control] == index && own)
        return refuse("a node waits for an exit of its own loop");
      if (frame_of_[control]) body = body || in_body[control];
    }
    if (node.has(TENON_OP_EXIT) && own) {
      if (!turn_switch[node.inputs[0].node] || node.inputs[0].index != 0)
        return refuse("an exit does not leave from a loop variable's switch");
      continue;
    }
    in_body[id] = body;
  }
  if (in_body[frame.condition]) return refuse("its condition depends on its body");
  for (const NodeId id : in_body.ids())
    if (in_body[id]) frame.body.insert(id);
  frame.structured = true;
}

}  // namespace tenon::graph
