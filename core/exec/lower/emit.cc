// SPDX-License-Identifier: Apache-2.0
// The operations of single nodes.
#include <algorithm>

#include "core/exec/kernel/frame.h"
#include "core/exec/lower/emitter.h"
#include "core/exec/plan/step_times.h"
#include "core/graph/graph.h"

namespace tenon::exec {

using graph::BranchAnalysis;
using graph::BranchMerge;
using graph::Edge;
using graph::Node;
using graph::OutputFacts;

namespace {

// Of a loop variable: its loop gives it its slots.
bool IsVariableSwitch(const graph::LoopAnalysis& loops, graph::NodeId id) {
  const auto& variables = loops.frame(loops.frame_of(id)).variables;
  return std::any_of(variables.begin(), variables.end(),
                     [id](const graph::LoopVariable& variable) { return variable.switch_node == id; });
}

}  // namespace

Emitter::Emitter(const Plan* plan, const Facts* facts, const BranchAnalysis* branches, ProgramCode* code)
    : plan_(*plan),
      graph_(plan->graph()),
      facts_(*facts),
      loops_(facts->loops()),
      branches_(*branches),
      code_(code),
      writer_(plan, facts, code),
      queues_(plan, facts, code, &writer_),
      claim_order_(plan, facts, branches),
      borders_(plan, facts) {
  code_->workspace_offset.resize(plan->env().queues.size() + 1);
}

Status Emitter::Run() {
  TENON_RETURN_IF_ERROR(EmitFrame(graph::kStep, Part::kAll, &code_->operations));
  return EmitFetches();
}

Status Emitter::EmitNode(graph::NodeId id, std::vector<Operation>* block) {
  const Node& node = graph_.node(id);
  if (const int32_t claim = claim_order_.ClaimOf(id); claim >= 0) return EmitClaim(claim, block);
  constexpr uint64_t kForward = TENON_OP_IDENTITY | TENON_OP_LOOP_CONDITION | TENON_OP_NEXT_ITERATION;
  constexpr uint64_t kByLoop = TENON_OP_ENTER | TENON_OP_MERGE | TENON_OP_SWITCH | TENON_OP_EXIT;
  if (const BranchMerge* merge = branches_.FindMerge(id)) return EmitSelect(node, *merge, block);
  if (node.has(TENON_OP_SWITCH) && !IsVariableSwitch(loops_, id)) return EmitSwitch(node, block);
  if (node.has(TENON_OP_NO_OP | TENON_OP_CONTROL_TRIGGER | TENON_OP_CONSTANT | kByLoop)) return Status::Ok();
  // Another node that is fed runs where others wait for it.
  if (node.has(TENON_OP_FEED | TENON_OP_ARGUMENT)) {
    if (plan_.FeedOf({id, 0}) >= 0) return Status::Ok();
    return InvalidArgument(
        StrCat(node.Describe(), " must be fed with a value of type ", TypeName(node.output_types[0])));
  }
  if (plan_.ChannelOf(id)) return EmitExchange(node, block);
  if (node.has(kForward)) {
    for (size_t k = 0; k < node.output_types.size(); ++k) {
      TENON_ASSIGN_OR_RETURN(SlotId slot, writer_.SlotOf(node.inputs[k]));
      if (IsRef(code_->at(slot).dtype) && !IsRef(node.output_types[k])) {
        TENON_ASSIGN_OR_RETURN(slot, EmitRead(slot, node, node.inputs[k], block));
      }
      if (plan_.TransferFrom(id) >= 0) slot = EmitTransfer(slot, node, block);
      writer_.SetSlot({id, static_cast<int32_t>(k)}, slot);
    }
    return Status::Ok();
  }
  return EmitKernel(node, block);
}

// Reads the variable that a reference slot names.
Result<SlotId> Emitter::EmitRead(SlotId reference, const Node& node, Edge edge, std::vector<Operation>* block) {
  writer_.Use(reference);
  const int32_t memory = plan_.MemoryOf(edge);
  const SlotId slot =
      writer_.NewSlot(BaseType(code_->at(reference).dtype), facts_.of(edge).shape, Home::kBuffer, memory);
  Operation& operation = writer_.Push(block, Operation::Kind::kRead, node.id);
  operation.inputs = {reference};
  operation.outputs = {slot};
  if (memory != 0) operation.queue = DeviceOfMemory(memory).first_queue;
  return slot;
}

// A send or a receive. What comes has a buffer of its own, which the sender may share.
Status Emitter::EmitExchange(const Node& node, std::vector<Operation>* block) {
  std::vector<SlotId> inputs, outputs;
  if (node.has(TENON_OP_SEND)) {
    TENON_ASSIGN_OR_RETURN(SlotId slot, writer_.SlotOf(node.inputs[0]));
    if (IsRef(code_->at(slot).dtype)) {
      TENON_ASSIGN_OR_RETURN(slot, EmitRead(slot, node, node.inputs[0], block));
    }
    writer_.Use(slot);
    inputs.push_back(slot);
  } else {
    outputs.push_back(writer_.NewSlot(node.output_types[0], facts_.of({node.id, 0}).shape, Home::kBuffer));
    writer_.SetSlot({node.id, 0}, outputs[0]);
  }
  const Operation::Kind kind = inputs.empty() ? Operation::Kind::kReceive : Operation::Kind::kSend;
  Operation& operation = writer_.Push(block, kind, node.id);
  operation.inputs = std::move(inputs);
  operation.outputs = std::move(outputs);
  operation.around = writer_.around();
  return Status::Ok();
}

// A value into the memory of the node's device. What the host's memory gives stays there until the step's end: the copy
// runs while the host goes on.
SlotId Emitter::EmitTransfer(SlotId from, const Node& node, std::vector<Operation>* block) {
  const int32_t memory = DeviceOfMemory(plan_.DeviceOf(node.id)).memory;
  const bool fixed = code_->at(from).shape.fully_known();
  const SlotId to = writer_.NewSlot(code_->at(from).dtype, code_->at(from).shape,
                            fixed && !plan_.IsKept(node.id) ? Home::kArena : Home::kBuffer, memory);
  writer_.Use(from);
  PushTransfer(from, to, node.id, block);
  return to;
}

// Buffers of pools are their device's main queue's, which alone knows when earlier work has done with them; copies of
// arenas have queues of their own.
void Emitter::PushTransfer(SlotId from, SlotId to, graph::NodeId node, std::vector<Operation>* block) {
  if (code_->at(from).memory == 0 || code_->root(from).home != Home::kArena) writer_.KeepToTheEnd(from);
  const SessionDevice& device =
      DeviceOfMemory(code_->at(from).memory == 0 ? code_->at(to).memory : code_->at(from).memory);
  Operation& operation = writer_.Push(block, Operation::Kind::kTransfer, node);
  operation.inputs = {from};
  operation.outputs = {to};
  if (code_->at(to).home == Home::kBuffer && code_->at(to).memory != 0)
    operation.queue = DeviceOfMemory(code_->at(to).memory).first_queue;
  else if (code_->at(from).memory == code_->at(to).memory || code_->at(to).home == Home::kBuffer)
    operation.queue = device.first_queue;
  else operation.queue = code_->at(from).memory == 0 ? device.copy_in() : device.copy_out();
  const double speed = device.device->properties.link_bytes_per_second;
  double seconds = speed > 0 ? static_cast<double>(code_->at(from).bytes) / speed : 0;
  if (const StepTimes* times = plan_.options().times.get(); times != nullptr && plan_.TransferFrom(node) >= 0) {
    if (const double predicted = times->Find(plan_.ValueOf(node), code_->at(to).memory).seconds; predicted > 0)
      seconds = predicted;
  }
  queues_.Submit(operation.queue, seconds, {from}, {to});
}

Status Emitter::EmitKernel(const Node& node, std::vector<Operation>* block) {
  const auto& runner = plan_.runner(node.id);
  std::vector<SlotId> inputs;
  std::vector<const OutputFacts*> facts;
  bool shapes_known = true,
       handles =
           HasFunctions(node) || TouchesState(node);  // such a kernel may hold something once it has run, and have work
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    TENON_ASSIGN_OR_RETURN(SlotId slot, writer_.SlotOf(node.inputs[i]));
    if (IsRef(code_->at(slot).dtype) && !IsRef(node.input_types[i])) {
      TENON_ASSIGN_OR_RETURN(slot, EmitRead(slot, node, node.inputs[i], block));
    }
    handles = handles || IsRef(code_->at(slot).dtype) || code_->at(slot).dtype == TENON_DT_RESOURCE;
    shapes_known = shapes_known && code_->at(slot).shape.fully_known();
    inputs.push_back(slot);
    facts.push_back(&facts_.of(node.inputs[i]));
  }
  std::vector<OutputFacts> outputs;
  bool own_outputs = false;
  for (size_t k = 0; k < node.output_types.size(); ++k) {
    outputs.push_back(facts_.of({node.id, static_cast<int32_t>(k)}));
    const bool dynamic = IsDynamicOutput(runner->registration(), k);
    own_outputs = own_outputs || dynamic;
    // A kernel allocates strings and variants because their bytes are its own affair; their shapes it takes from
    // inference.
    const bool inferred =
        !dynamic || node.output_types[k] == TENON_DT_STRING || node.output_types[k] == TENON_DT_VARIANT;
    if (inferred && !IsRef(node.output_types[k])) shapes_known = shapes_known && outputs.back().shape.fully_known();
  }
  const SessionDevice* queued_on = runner->queued_on();
  const Operation::Kind kind = !shapes_known              ? Operation::Kind::kDynamic
                               : queued_on != nullptr     ? Operation::Kind::kQueued
                               : handles || own_outputs ? Operation::Kind::kGuarded
                                                        : Operation::Kind::kRun;
  const QueueId queue = queued_on == nullptr ? QueueId() : queues_.ForKernel(node, *runner, kind, inputs);
  for (SlotId slot : inputs) writer_.Use(slot);
  if (shapes_known && runner->has(TENON_KERNEL_VIEW)) return EmitView(node, inputs[0], outputs[0], block);
  std::shared_ptr<const PreparedNode> prepared;
  if (shapes_known) {
    TENON_ASSIGN_OR_RETURN(prepared, runner->Prepare(facts, outputs));
    uint64_t& workspace = code_->workspace(queue);
    workspace = std::max(workspace, prepared->workspace_bytes);
  }
  std::vector<SlotId> out;
  for (size_t k = 0; k < node.output_types.size(); ++k) {
    const bool dynamic = IsDynamicOutput(runner->registration(), k);
    const DType dtype = node.output_types[k];
    Shape shape = IsRef(dtype) ? Shape() : outputs[k].shape;
    if (kind == Operation::Kind::kDynamic && !shape.fully_known()) shape = Shape::Unknown();
    const bool in_buffer = dynamic || kind == Operation::Kind::kDynamic;
    out.push_back(writer_.NewSlot(dtype, std::move(shape), in_buffer ? Home::kBuffer : Home::kArena,
                          runner->host_output(k) ? 0 : queued_on->memory));
    writer_.SetSlot({node.id, static_cast<int32_t>(k)}, out.back());
  }
  Operation& operation = writer_.Push(block, kind, node.id);
  if (queue) queues_.Submit(queue, queues_.SecondsOf(node, *queued_on), inputs, out);
  operation.inputs = std::move(inputs);
  operation.outputs = std::move(out);
  operation.prepared = std::move(prepared);
  operation.queue = queue;
  operation.guarded = handles || own_outputs;
  if ((writer_.position() & 63) == 0 || runner->has(TENON_KERNEL_EXPENSIVE))
    writer_.Push(block, Operation::Kind::kCheck, node.id);
  return Status::Ok();
}

Status Emitter::EmitView(const Node& node, SlotId input, const OutputFacts& facts, std::vector<Operation>* block) {
  const SlotId slot = writer_.NewSlot(node.output_types[0], facts.shape, Home::kAlias, code_->at(input).memory);
  code_->at(slot).target = input;
  writer_.SetSlot({node.id, 0}, slot);
  if (code_->at(slot).bytes != code_->at(input).bytes)
    return InvalidArgument(StrCat(node.Describe(), ": a view of ", code_->at(input).shape.ToString(),
                                  " cannot have the shape ", code_->at(slot).shape.ToString()));
  if (code_->root(input).home != Home::kBuffer && code_->root(input).home != Home::kSelected) return Status::Ok();
  Operation& operation = writer_.Push(block, Operation::Kind::kView, node.id);
  operation.inputs = {input};
  operation.outputs = {slot};
  return Status::Ok();
}

Status Emitter::EmitFetches() {
  if (!refusal_.text.empty()) return Status::Ok();
  for (const Edge& fetch : plan_.fetches()) {
    TENON_ASSIGN_OR_RETURN(SlotId slot, writer_.SlotOf(fetch));
    if (IsRef(code_->at(slot).dtype)) {
      TENON_ASSIGN_OR_RETURN(slot, EmitRead(slot, graph_.node(fetch.node), fetch, &code_->operations));
    }
    writer_.KeepToTheEnd(slot);
    code_->fetch_slots.push_back(slot);
  }
  return Status::Ok();
}

}  // namespace tenon::exec
