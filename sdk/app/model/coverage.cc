// SPDX-License-Identifier: Apache-2.0
#include "tenon/model/coverage.h"

#include <map>
#include <set>

namespace tenon::model {
namespace {

using data::FunctionView;
using data::NodeView;

constexpr size_t kMostPlaces = 5;

class Counter {
 public:
  Counter(const Runtime& runtime, const GraphIndex& graph) : runtime_(runtime), graph_(graph) {}

  std::vector<OpUse> Run(const std::vector<const NodeView*>& nodes) {
    for (const NodeView* node : nodes) Count(*node, "");
    while (!left_.empty()) {
      const FunctionView& function = *left_.back();
      left_.pop_back();
      const auto has_effect = [this](const NodeView& node) { return HasEffect(node); };
      for (const NodeView* node : ReachInFunction(function, has_effect)) Count(*node, function.name);
    }
    std::vector<OpUse> uses;
    for (auto& [op, use] : uses_) uses.push_back(std::move(use));
    return uses;
  }

 private:
  void Count(const NodeView& node, std::string_view function) {
    for (const FunctionView* called : graph_.FunctionsOf(node)) {
      if (seen_.insert(called).second) left_.push_back(called);
    }
    if (graph_.FindFunction(node.op) != nullptr) return;
    OpUse& use = Find(node.op);
    ++use.nodes;
    if (use.package.empty() && use.places.size() < kMostPlaces)
      use.places.push_back({std::string(node.name), std::string(function)});
  }

  OpUse& Find(std::string_view op) {
    const auto found = uses_.find(op);
    if (found != uses_.end()) return found->second;
    OpUse use;
    use.op = op;
    const Result<tenon_op_info> info = runtime_.FindOp(op);
    if (info.ok()) use.package = host::Text(info->plugin);
    else use.why = info.status().message();
    if (info.ok() && (info->traits & TENON_OP_STATEFUL) != 0) stateful_.insert(std::string(op));
    return uses_.emplace(op, std::move(use)).first->second;
  }

  // A node that runs though nobody reads it. It is looked up without being counted.
  bool HasEffect(const NodeView& node) {
    if (graph_.FindFunction(node.op) != nullptr) return true;
    if (stateful_.contains(node.op)) return true;
    if (uses_.contains(node.op)) return false;
    const Result<tenon_op_info> info = runtime_.FindOp(node.op);
    return info.ok() && (info->traits & TENON_OP_STATEFUL) != 0;
  }

  const Runtime& runtime_;
  const GraphIndex& graph_;
  std::map<std::string, OpUse, std::less<>> uses_;
  std::set<std::string, std::less<>> stateful_;
  std::set<const FunctionView*> seen_;
  std::vector<const FunctionView*> left_;
};

}  // namespace

std::vector<OpUse> FindCoverage(const Runtime& runtime, const GraphIndex& graph,
                                const std::vector<const NodeView*>& nodes) {
  return Counter(runtime, graph).Run(nodes);
}

namespace {

std::vector<const NodeView*> AllNodes(const GraphIndex& graph) {
  std::vector<const NodeView*> all;
  for (const NodeView& node : graph.graph().nodes) all.push_back(&node);
  return all;
}

// The tensors that calls of one signature, or (nullptr) of all, ask for.
std::vector<std::string> OutputsOf(const MetaGraph& meta, const Signature* signature) {
  std::vector<std::string> targets;
  for (const Signature& each : meta.signatures) {
    if (signature != nullptr && signature != &each) continue;
    for (const TensorInfo& output : each.outputs) {
      if (output.kind == TensorInfo::Kind::kDense) targets.push_back(output.tensor);
      else targets.insert(targets.end(), output.parts.begin(), output.parts.end());
    }
  }
  return targets;
}

}  // namespace

Result<std::vector<const NodeView*>> ReachOfModel(const ModelFile& file, const GraphIndex& graph,
                                                  const Signature* signature) {
  const MetaGraph& meta = file.meta();
  if (meta.signatures.empty()) return AllNodes(graph);
  std::vector<std::string> targets = OutputsOf(meta, signature);
  if (!file.checkpoint().empty() && !meta.saver.restore_op.empty()) targets.push_back(meta.saver.restore_op);
  if (!meta.main_op.empty()) targets.push_back(meta.main_op);
  return graph.Reach({}, targets);
}

Result<std::vector<const NodeView*>> ReachOfCall(const ModelFile& file, const GraphIndex& graph,
                                                 const Signature* signature) {
  if (file.meta().signatures.empty()) return AllNodes(graph);
  return graph.Reach({}, OutputsOf(file.meta(), signature));
}

std::vector<const NodeView*> WithFunctions(const GraphIndex& graph, const std::vector<const NodeView*>& nodes) {
  std::vector<const NodeView*> all = nodes;
  std::set<const FunctionView*> seen;
  for (size_t i = 0; i < all.size(); ++i) {
    for (const FunctionView* function : graph.FunctionsOf(*all[i])) {
      if (!seen.insert(function).second) continue;
      for (const NodeView& node : function->nodes) all.push_back(&node);
    }
  }
  return all;
}

}  // namespace tenon::model
