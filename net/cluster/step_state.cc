// SPDX-License-Identifier: Apache-2.0
#include "net/cluster/step_state.h"

#include <algorithm>
#include <string_view>

#include "core/base/status.h"
#include "core/graph/function/function_def.h"
#include "core/graph/graph.h"
#include "core/graph/op_registry.h"

namespace tenon::cluster {
namespace {

bool IsHandle(DType type) { return IsRef(type) || type == TENON_DT_RESOURCE; }
bool AnyIsHandle(const std::vector<DType>& types) { return std::any_of(types.begin(), types.end(), &IsHandle); }

constexpr uint64_t kState = TENON_OP_STATEFUL | TENON_OP_WRITES_STATE | TENON_OP_IO;

std::string_view TextOf(const graph::Node& node, std::string_view name) {
  const graph::AttrValue* text = node.FindAttr(name);
  return text == nullptr || text->kind() != TENON_ATTR_STRING ? std::string_view() : text->s();
}

// What makes a resource has it by its shared name, else by the node's; another node's state is its own by its name too.
std::string NameOf(const graph::Node& node) {
  const std::string_view shared = TextOf(node, "shared_name");
  return StrCat(TextOf(node, "container"), "/", shared.empty() ? std::string_view(node.name) : shared);
}

// Whether functions that kernels of the graph call have state. Which, they may have from arguments, or make it.
bool HasStatefulFunctions(const graph::Graph& graph) {
  for (const auto& [name, function] : graph.library()) {
    for (const auto& node : function->nodes) {
      const auto op = graph.registry().Find(node.op);
      if (op.ok() && ((*op)->traits & kState) != 0) return true;
    }
  }
  return false;
}

}  // namespace

StepState StepState::Of(const graph::Graph& graph) {
  StepState state;
  state.own_.any = HasStatefulFunctions(graph);
  for (const graph::NodeId id : graph.ids()) {
    const graph::Node& node = graph.node(id);
    const bool makes_handle = AnyIsHandle(node.output_types);
    if (node.has(TENON_OP_SEND) || (node.has(TENON_OP_RECV) && !makes_handle)) continue;
    if (node.has(TENON_OP_RECV)) state.own_.any = true;  // a handle that was fed is of whatever there is
    if (node.has(TENON_OP_IO)) state.own_.all.insert("files");
    // What takes a handle has the state of the node that made it, which is in the same part.
    if (!AnyIsHandle(node.input_types) && (makes_handle || node.has(TENON_OP_STATEFUL)))
      state.own_.all.insert(NameOf(node));
  }
  return state;
}

StepState StepState::Everything() {
  StepState state;
  state.everything_ = true;
  return state;
}

void StepState::Add(const StepState& part, size_t task) {
  Names& names = of_tasks_[task];
  names.any = names.any || part.own_.any;
  names.all.insert(part.own_.all.begin(), part.own_.all.end());
}

bool StepState::Shares(const StepState& part, size_t task) const {
  if (everything_) return !part.empty();
  const auto own = of_tasks_.find(task);
  if (part.empty() || own == of_tasks_.end() || (!own->second.any && own->second.all.empty())) return false;
  if (part.own_.any || own->second.any) return true;
  return std::any_of(part.own_.all.begin(), part.own_.all.end(),
                     [&](const std::string& name) { return own->second.all.contains(name); });
}

}  // namespace tenon::cluster
