// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/model/restored_variables.h"

#include <charconv>
#include <map>
#include <string_view>

#include "tenon/bytes/wire.h"

namespace tenon::model {
namespace {

using data::FunctionView;
using data::NodeView;

constexpr int kMostHops = 16;  // of Identity and its like between an output of RestoreV2 and the assignment

// The elements of a constant of strings.
std::vector<std::string> StringsOf(const NodeView* constant) {
  constexpr uint32_t kAttrTensor = 8, kTensorStrings = 8;
  std::vector<std::string> strings;
  for (size_t i = 0; constant != nullptr && i < constant->attrs.size(); ++i) {
    if (constant->attrs[i].first != "value") continue;
    sdk::WireReader reader(sdk::FindBytes(constant->attrs[i].second, kAttrTensor));
    while (reader.Next()) {
      if (reader.field() == kTensorStrings && reader.is_bytes()) strings.emplace_back(reader.bytes());
    }
  }
  return strings;
}

// Nodes of a graph, or of a function of it, by the names of their outputs: "node:1" in one, "node:tensors:1" in the
// other.
class Walk {
 public:
  explicit Walk(const std::vector<const NodeView*>& nodes) {
    for (const NodeView* node : nodes) by_name_.emplace(node->name, node);
  }

  const NodeView* Find(std::string_view input) const {
    const auto found = by_name_.find(input.substr(0, input.find(':')));
    return found == by_name_.end() ? nullptr : found->second;
  }
  // Past nodes that hand on what they get.
  std::string_view Origin(std::string_view input) const {
    for (int i = 0; i < kMostHops; ++i) {
      const NodeView* node = Find(input);
      if (node == nullptr || node->op != "Identity" || node->inputs.empty()) break;
      input = node->inputs[0];
    }
    return input;
  }

  // visit(what is assigned to, key, slice)
  template <typename Visit>
  void ForEachAssignment(Visit&& visit) const {
    for (const auto& [name, node] : by_name_) {
      const bool assigns = node->op == "Assign" || node->op == "AssignVariableOp";
      if (!assigns || node->inputs.size() < 2) continue;
      const std::string_view value = Origin(node->inputs[1]);
      const NodeView* restore = Find(value);
      if (restore == nullptr || restore->op != "RestoreV2" || restore->inputs.size() < 3) continue;
      const std::vector<std::string> keys = StringsOf(Find(restore->inputs[1])),
                                     slices = StringsOf(Find(restore->inputs[2]));
      const size_t colon = value.rfind(':');
      size_t index = 0;
      if (colon != std::string_view::npos)
        std::from_chars(value.data() + colon + 1, value.data() + value.size(), index);
      if (index < keys.size())
        visit(Origin(node->inputs[0]), keys[index], slices.size() == keys.size() ? slices[index] : std::string());
    }
  }

 private:
  std::map<std::string_view, const NodeView*> by_name_;
};

bool IsVariable(const NodeView* node) {
  return node != nullptr && (node->op == "VarHandleOp" || node->op == "VariableV2" || node->op == "Variable");
}

}  // namespace

std::vector<RestoredVariable> FindRestoredVariables(const GraphIndex& graph, const std::string& restore_op) {
  std::vector<RestoredVariable> found;
  const auto reached = graph.Reach({}, {restore_op});
  if (restore_op.empty() || !reached.ok()) return found;
  const Walk outside(*reached);
  const auto add = [&](std::string_view target, const std::string& key, const std::string& slice) {
    if (const NodeView* node = outside.Find(outside.Origin(target)); IsVariable(node))
      found.push_back({std::string(node->name), key, slice});
  };
  outside.ForEachAssignment(add);
  for (const NodeView* call : *reached) {
    for (const FunctionView* function : graph.FunctionsOf(*call)) {
      if (function->has_list_arguments) continue;
      std::vector<const NodeView*> nodes;
      for (const NodeView& node : function->nodes) nodes.push_back(&node);
      Walk(nodes).ForEachAssignment([&](std::string_view target, const std::string& key, const std::string& slice) {
        for (size_t i = 0; i < function->arguments.size() && i < call->inputs.size(); ++i) {
          if (function->arguments[i] == target) add(call->inputs[i], key, slice);
        }
      });
    }
  }
  return found;
}

}  // namespace tenon::model
