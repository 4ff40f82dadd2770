// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "compiler.h"
#include "kernels/kernel.h"
#include "tenon/extras/device/regions.h"

namespace tenon::tpu_sim {
namespace {

using sdk::IsOneOf;
using sdk::RegionGraph;
using sdk::Regions;


struct Refusal {
  uint32_t reason = 0;  // 0: none
  std::string text;
};

// Whether the kernel's type constraints hold for the node; gives the attribute that does not.
Refusal CheckTypes(const RegionGraph& graph, int64_t id, const tenon_kernel_registration& kernel) {
  for (uint64_t i = 0; i < kernel.constraint_count; ++i) {
    const tenon_type_constraint& constraint = kernel.constraints[i];
    tenon_attr_value value = {};
    sdk::Check(graph.services().attr(graph.at(id).node, constraint.attr, &value));
    const uint32_t dtype = value.kind == TENON_ATTR_TYPE ? *static_cast<const uint32_t*>(value.data) : TENON_DT_INVALID;
    if (std::find(constraint.dtypes, constraint.dtypes + constraint.count, dtype) ==
        constraint.dtypes + constraint.count) {
      return {TENON_REFUSE_DTYPE, sdk::Concat("the TPU has no ", sdk::TypeName(dtype), " for ", graph.at(id).op)};
    }
  }
  return {};
}

// Whether the arguments that stay on the host are known from shapes and constants.
Refusal CheckHostArguments(const RegionGraph& graph, int64_t id, const tenon_span* names, uint64_t count) {
  const RegionGraph::Node& n = graph.at(id);
  for (uint64_t i = 0; i < count; ++i) {
    int32_t begin = 0, inputs = 0;
    sdk::Check(graph.services().input_range(n.node, names[i], &begin, &inputs));
    for (int32_t k = begin; k < begin + inputs; ++k) {
      const int64_t source = n.inputs[static_cast<size_t>(k)].node;
      if (source < 0 || source > id || !graph.at(source).known) {
        return {TENON_REFUSE_SHAPE, sdk::Concat("its argument ", names[i], " is known only when it runs")};
      }
    }
  }
  return {};
}

Refusal CheckNode(const RegionGraph& graph, int64_t id) {
  const std::string_view op = graph.at(id).op;
  if (IsAlias(op)) {
    const tenon_span shape = TENON_SPAN("shape");
    return op == "Reshape" ? CheckHostArguments(graph, id, &shape, 1) : Refusal();
  }
  const tenon_kernel_registration* kernel = PlannedKernel(op);
  if (kernel == nullptr)
    return {TENON_REFUSE_OP, sdk::Concat(op, " is not compiled: it keeps state, moves control, or has no TPU kernel")};
  Refusal refusal = CheckTypes(graph, id, *kernel);
  return refusal.reason != 0 ? refusal
                             : CheckHostArguments(graph, id, kernel->host_memory_args, kernel->host_memory_count);
}

}  // namespace

bool IsAlias(std::string_view op) {
  return IsOneOf(op, {"Identity", "StopGradient", "PreventGradient", "Reshape", "ExpandDims", "Squeeze"});
}

void ClaimRegions(const tenon_graph_cursor& cursor, std::span<const int64_t> ids, const sdk::Claims& claims) {
  const RegionGraph graph(cursor);
  std::vector<bool> ours(graph.size(), false);
  for (int64_t id : ids) ours[static_cast<size_t>(id)] = true;
  Regions regions(graph);
  const auto refuse = [&](int64_t id, const Refusal& why) { claims.Refuse(id, why.reason, why.text); };
  for (int64_t id = 0; id < static_cast<int64_t>(graph.size()); ++id) {
    const Refusal refusal = ours[static_cast<size_t>(id)] ? CheckNode(graph, id) : Refusal{TENON_REFUSE_OTHER, ""};
    refusal.reason == 0 ? regions.Place(id, [](size_t) { return true; }) : regions.Pass(id);
    if (refusal.reason != 0 && ours[static_cast<size_t>(id)]) refuse(id, refusal);
  }
  std::map<size_t, std::vector<int64_t>> members;
  for (int64_t id = 0; id < static_cast<int64_t>(graph.size()); ++id) {
    if (regions.Of(id) != Regions::kNone) members[regions.Of(id)].push_back(id);
  }
  for (const auto& [region, nodes] : members) {
    const auto works = std::count_if(nodes.begin(), nodes.end(), [&](int64_t id) { return !IsAlias(graph.at(id).op); });
    if (works >= 2) {
      claims.Claim(nodes);
      continue;
    }
    for (int64_t id : nodes) refuse(id, {TENON_REFUSE_COST, "it stands alone: nothing is saved"});
  }
}

}  // namespace tenon::tpu_sim
