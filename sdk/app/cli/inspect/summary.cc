// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/inspect/summary.h"

#include <algorithm>
#include <unordered_set>

#include "tenon/model/coverage.h"

namespace tenon::cli {
namespace {

using data::NodeView;
using host::DType;
using host::Shape;
using Nodes = std::vector<const NodeView*>;

bool IsVariable(const NodeView& node) {
  return node.op == "VarHandleOp" || node.op == "VariableV2" || node.op == "Variable";
}

// What nodes of one variable have in common.
std::string VariableName(const NodeView& node) {
  const std::string_view shared = node.StringAttr("shared_name");
  return std::string(node.StringAttr("container")) + '\0' + std::string(shared.empty() ? node.name : shared);
}

Nodes AllOf(const model::GraphIndex& index) {
  Nodes nodes;
  for (const NodeView& node : index.graph().nodes) nodes.push_back(&node);
  for (const data::FunctionView& function : index.functions())
    for (const NodeView& node : function.nodes) nodes.push_back(&node);
  return nodes;
}

// An input is a node that asks to be fed; an output is a node with inputs whose values nobody takes.
void FindEnds(const model::GraphIndex& index, Summary& summary) {
  std::unordered_set<std::string_view> consumed;
  for (const NodeView& node : index.graph().nodes)
    for (std::string_view input : node.inputs) consumed.insert(data::NodeOfInput(input));
  for (const NodeView& node : index.graph().nodes) {
    if (IsVariable(node) || node.op == "Const") continue;
    if (node.op == "Placeholder" || node.op == "PlaceholderWithDefault")
      summary.inputs.push_back(&node);
    else if (!node.inputs.empty() && !consumed.contains(node.name))
      summary.outputs.push_back(&node);
  }
}

}  // namespace

void Size::Add(DType dtype, const Shape& shape) {
  const int64_t count = std::max<int64_t>(shape.element_count(), 0);
  int64_t more = 0;
  const bool fits = !__builtin_mul_overflow(count, static_cast<int64_t>(host::DTypeSize(dtype)), &more) &&
                    !__builtin_add_overflow(bytes, more, &bytes);
  if (!fits || __builtin_add_overflow(elements, count, &elements))
    *this = {INT64_MAX, INT64_MAX};  // a stranger's shapes
}

Parameters Parameters::Of(const Nodes& nodes) {
  Parameters found;
  std::unordered_set<std::string> seen;
  for (const NodeView* node : nodes) {
    if (IsVariable(*node)) {
      if (seen.insert(VariableName(*node)).second)
        found.variables.Add(node->TypeAttr("dtype"), node->ShapeAttr("shape"));
    } else if (node->op == "Const") {
      const auto [dtype, shape] = node->TensorAttr("value");
      found.constants.Add(dtype, shape);
    }
  }
  return found;
}

Summary Summarize(const model::GraphIndex& index, const Nodes& reached, bool narrow) {
  Summary summary;
  const Nodes all = AllOf(index), with_bodies = model::WithFunctions(index, reached);
  for (const NodeView* node : narrow ? with_bodies : all)
    if (index.FindFunction(node->op) == nullptr) ++summary.ops[std::string(node->op)];
  summary.reached = Parameters::Of(with_bodies);
  summary.whole = Parameters::Of(all);
  FindEnds(index, summary);
  return summary;
}

}  // namespace tenon::cli
