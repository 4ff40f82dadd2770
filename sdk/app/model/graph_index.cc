// SPDX-License-Identifier: Apache-2.0
#include "tenon/model/graph_index.h"

#include <algorithm>
#include <unordered_set>

namespace tenon::model {

using data::FunctionView;
using data::NodeView;

std::string_view ShortName(std::string_view tensor) {
  return tensor.ends_with(":0") ? tensor.substr(0, tensor.size() - 2) : tensor;
}

Result<GraphIndex> GraphIndex::Build(std::string_view graph_def) {
  GraphIndex index;
  TENON_TRY_ASSIGN(index.graph_, data::ParseGraphDef(graph_def));
  TENON_TRY_ASSIGN(index.functions_, data::ParseFunctions(index.graph_));
  for (size_t i = 0; i < index.graph_.nodes.size(); ++i) index.nodes_by_name_.emplace(index.graph_.nodes[i].name, i);
  for (size_t i = 0; i < index.functions_.size(); ++i) index.functions_by_name_.emplace(index.functions_[i].name, i);
  return index;
}

const NodeView* GraphIndex::FindNode(std::string_view name) const {
  const auto found = nodes_by_name_.find(name);
  return found == nodes_by_name_.end() ? nullptr : &graph_.nodes[found->second];
}

const FunctionView* GraphIndex::FindFunction(std::string_view name) const {
  const auto found = functions_by_name_.find(name);
  return found == functions_by_name_.end() ? nullptr : &functions_[found->second];
}

Result<std::vector<const NodeView*>> GraphIndex::Reach(const std::vector<std::string>& feeds,
                                                       const std::vector<std::string>& targets) const {
  std::unordered_set<std::string_view> fed, seen;
  for (const std::string& feed : feeds) fed.insert(ShortName(feed));
  std::vector<std::string_view> left;
  for (const std::string& target : targets) {
    const std::string_view name = data::NodeOfInput(target);
    if (FindNode(name) == nullptr) return Status(Code::kNotFound, "the graph has no node '" + std::string(name) + "'");
    if (!fed.contains(ShortName(target))) left.push_back(name);
  }
  std::vector<const NodeView*> reached;
  while (!left.empty()) {
    const NodeView* node = FindNode(left.back());
    left.pop_back();
    if (node == nullptr || !seen.insert(node->name).second) continue;
    reached.push_back(node);
    for (std::string_view input : node->inputs) {
      if (!fed.contains(ShortName(input))) left.push_back(data::NodeOfInput(input));
    }
  }
  return reached;
}

std::vector<const FunctionView*> GraphIndex::FunctionsOf(const NodeView& node) const {
  std::vector<std::string_view> names = node.Functions();
  names.push_back(node.op);
  std::vector<const FunctionView*> functions;
  for (std::string_view name : names) {
    const FunctionView* function = FindFunction(name);
    if (function != nullptr && std::find(functions.begin(), functions.end(), function) == functions.end())
      functions.push_back(function);
  }
  return functions;
}

std::vector<const NodeView*> ReachInFunction(const FunctionView& function,
                                             const std::function<bool(const NodeView&)>& has_effect) {
  // "node:output:0", "^node", "argument"
  const auto node_of = [](std::string_view input) {
    return input.starts_with('^') ? input.substr(1) : input.substr(0, input.find(':'));
  };
  std::unordered_map<std::string_view, const NodeView*> by_name;
  std::vector<std::string_view> left;
  for (const NodeView& node : function.nodes) {
    by_name.emplace(node.name, &node);
    if (has_effect(node)) left.push_back(node.name);
  }
  for (std::string_view value : function.returns) left.push_back(node_of(value));
  for (std::string_view name : function.control_returns) left.push_back(name);
  std::unordered_set<std::string_view> seen;
  std::vector<const NodeView*> reached;
  while (!left.empty()) {
    const std::string_view name = left.back();
    left.pop_back();
    const auto node = by_name.find(name);
    if (node == by_name.end() || !seen.insert(name).second) continue;
    reached.push_back(node->second);
    for (std::string_view input : node->second->inputs) left.push_back(node_of(input));
  }
  return reached;
}

}  // namespace tenon::model
