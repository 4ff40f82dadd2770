// SPDX-License-Identifier: Apache-2.0
#include "core/exec/plan/late_reads.h"

#include <algorithm>

#include "core/exec/device/resources.h"

namespace tenon::exec {

using graph::Edge;
using graph::Node;

namespace {

bool IsLate(DType type) { return IsRef(type) && !IsWrittenInPlace(BaseType(type)); }

bool IsInvariantEnter(const Node& node) {
  const graph::AttrValue* value = node.has(TENON_OP_ENTER) ? node.FindAttr("is_constant") : nullptr;
  return value != nullptr && value->kind() == TENON_ATTR_BOOL && value->b();
}

bool PassesOn(const Node& node) {
  return (node.has(TENON_OP_IDENTITY | TENON_OP_SWITCH) && !node.has(TENON_OP_LOOP_CONDITION)) ||
         IsInvariantEnter(node);
}

// Whether input `input` of a node may be a reference where a value is wanted: it reads it, or passes it on.
bool ReadsLate(const Node& node, size_t input) {
  if (node.has(TENON_OP_SWITCH)) return input == 0;
  return !node.has(TENON_OP_MERGE | TENON_OP_NEXT_ITERATION | TENON_OP_EXIT | TENON_OP_LOOP_CONDITION);
}

}  // namespace

void ReadWhenUsed(graph::Graph* graph, const std::vector<graph::NodeId>& order, const LateReads& plan) {
  const auto writes = [&](const Node& node) {
    return plan.runs_kernel(node) && std::any_of(node.input_types.begin(), node.input_types.end(), IsLate);
  };
  if (std::none_of(order.begin(), order.end(), [&](graph::NodeId id) { return writes(graph->node(id)); })) return;
  graph::NodeMap<bool> wanted_now(graph->size(), false);
  for (graph::NodeId id : order) {
    const Node& node = graph->node(id);
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (node.inputs[i].node && !ReadsLate(node, i)) wanted_now[node.inputs[i].node] = true;
  }
  for (graph::NodeId id : order) {
    const Node& node = graph->node(id);
    if (!PassesOn(node) || wanted_now[id] || node.inputs.empty()) continue;
    const size_t values = node.has(TENON_OP_SWITCH) ? 1 : std::min(node.inputs.size(), node.output_types.size());
    for (size_t i = 0; i < values; ++i) {
      const Edge from = node.inputs[i];
      if (!from.node || plan.is_fed(from) || IsRef(node.input_types[i]) || !IsLate(graph->TypeOf(from)) ||
          !plan.stays(node, from))
        continue;
      const size_t first = node.has(TENON_OP_SWITCH) ? 0 : i,
                   last = node.has(TENON_OP_SWITCH) ? node.output_types.size() : i + 1;
      bool any_fed = false;
      for (size_t k = first; k < last; ++k) any_fed = any_fed || plan.is_fed({id, static_cast<int32_t>(k)});
      if (any_fed) continue;
      const DType reference = graph->TypeOf(from);
      Node& passes = graph->mutable_node(id);
      passes.input_types[i] = reference;
      for (size_t k = first; k < last; ++k) passes.output_types[k] = reference;
    }
  }
}

}  // namespace tenon::exec
