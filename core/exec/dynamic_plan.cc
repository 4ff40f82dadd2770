// SPDX-License-Identifier: Apache-2.0
#include "core/exec/dynamic_executor.h"

namespace tenon::exec {

Result<std::unique_ptr<DynamicPlan>> DynamicPlan::Create(const Plan& plan) {
  std::unique_ptr<DynamicPlan> dynamic(new DynamicPlan(&plan));
  TENON_RETURN_IF_ERROR(dynamic->Fill());
  return dynamic;
}

Status DynamicPlan::Fill() {
  const graph::Graph& graph = plan_->graph();
  TENON_ASSIGN_OR_RETURN(const graph::LoopAnalysis loops, graph::LoopAnalysis::Run(graph, plan_->order()));
  frames_.resize(loops.frames().size());
  for (size_t i = 0; i < frames_.size(); ++i) {
    frames_[i].parent = loops.frames()[i].parent;
    frames_[i].enters = static_cast<int32_t>(loops.frames()[i].enters.size());
    if (!loops.frames()[i].enters.empty()) {
      const graph::AttrValue* parallel = graph.node(loops.frames()[i].enters[0]).FindAttr("parallel_iterations");
      if (parallel != nullptr && parallel->kind() == TENON_ATTR_INT) frames_[i].parallel_iterations = std::max<int64_t>(1, parallel->i());
    }
  }
  nodes_.resize(static_cast<size_t>(graph.size()));
  feeds_.resize(plan_->feeds().size());
  for (int32_t id : plan_->order()) {
    NodeInfo& info = nodes_[static_cast<size_t>(id)];
    info.node = &graph.node(id);
    info.runner = plan_->runner(id).get();
    info.frame = loops.frame_of(id);
    if (info.node->has(TENON_OP_ENTER)) {
      info.entered_frame = info.frame;
      info.frame = loops.frames()[static_cast<size_t>(info.frame)].parent;
      const graph::AttrValue* constant = info.node->FindAttr("is_constant");
      info.is_constant_enter = constant != nullptr && constant->kind() == TENON_ATTR_BOOL && constant->b();
    }
    FrameInfo& frame = frames_[static_cast<size_t>(info.frame)];
    info.local = static_cast<int32_t>(frame.nodes.size());
    frame.nodes.push_back(id);
    info.first_input = frame.input_values;
    info.data_inputs = static_cast<int32_t>(info.node->inputs.size());
    frame.input_values += info.data_inputs;
    info.outputs.resize(info.node->output_types.size());
  }
  for (int32_t id : plan_->order()) {
    NodeInfo& info = nodes_[static_cast<size_t>(id)];
    // A node whose outputs are all fed does not look at its inputs.
    for (int32_t i = 0; i < info.data_inputs; ++i) {
      const graph::Edge edge = info.node->inputs[static_cast<size_t>(i)];
      if (const int feed = plan_->FeedOf(edge); feed >= 0) {
        if (info.frame != 0)
          return Unimplemented(StrCat(info.node->Describe(), ": input ", i, " is fed inside a loop; feed the value that enters the loop"));
        feeds_[static_cast<size_t>(feed)].targets.push_back({id, i});
      } else if (edge.node >= 0 && nodes_[static_cast<size_t>(edge.node)].node != nullptr) {
        nodes_[static_cast<size_t>(edge.node)].outputs[static_cast<size_t>(edge.index)].push_back({id, i});
      } else {
        return Internal(StrCat(info.node->Describe(), ": input ", i, " has no producer in the plan"));
      }
    }
    for (int32_t control : info.node->controls) {
      if (nodes_[static_cast<size_t>(control)].node == nullptr) continue;
      nodes_[static_cast<size_t>(control)].controls.push_back({id, -1});
      ++info.control_inputs;
    }
  }
  for (size_t i = 0; i < plan_->fetches().size(); ++i) {
    const graph::Edge edge = plan_->fetches()[i];
    if (plan_->FeedOf(edge) >= 0) continue;
    NodeInfo& info = nodes_[static_cast<size_t>(edge.node)];
    const int frame = info.node->has(TENON_OP_EXIT) ? frames_[static_cast<size_t>(info.frame)].parent : info.frame;
    if (frame != 0 || info.node->has(TENON_OP_ENTER))
      return InvalidArgument(StrCat(info.node->Describe(), " is inside a loop and cannot be fetched; fetch what leaves the loop"));
    info.fetches.push_back(edge.index);
    info.fetches.push_back(static_cast<int32_t>(i));
  }
  return Status::Ok();
}

}  // namespace tenon::exec
