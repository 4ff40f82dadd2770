// SPDX-License-Identifier: Apache-2.0
// Slots, and the operations of single nodes.
#include <algorithm>
#include <climits>

#include "core/exec/kernel/frame.h"
#include "core/exec/lower/emitter.h"
#include "core/exec/plan/step_times.h"
#include "core/graph/graph.h"
#include "core/place/cost_model.h"

namespace tenon::exec {

using graph::BranchAnalysis;
using graph::BranchMerge;
using graph::Edge;
using graph::Frame;
using graph::Node;
using graph::OutputFacts;

namespace {

constexpr int kDeepestOnQueues = 8;

}  // namespace

Emitter::Emitter(const Plan* plan, const Facts* facts, const BranchAnalysis* branches, ProgramCode* code)
    : plan_(*plan),
      graph_(plan->graph()),
      facts_(*facts),
      loops_(facts->loops()),
      branches_(*branches),
      code_(code),
      chooser_(plan->env()),
      slot_of_(graph_.size()) {
  code_->workspace_offset.resize(plan->env().queues.size() + 1);
}

Status Emitter::Run() {
  if (!Supported()) return Status::Ok();
  TENON_RETURN_IF_ERROR(EmitFrame(graph::kStep, Part::kAll, &code_->operations));
  return EmitFetches();
}

bool Emitter::Supported() {
  IdVector<graph::FrameId, bool> used(loops_.frames().size(), false);
  for (graph::NodeId id : facts_.order()) used[loops_.frame_of(id)] = true;
  for (const graph::FrameId i : used.ids())
    if (i != graph::kStep && used[i] && !loops_.frame(i).structured)
      GiveUp(StrCat("loop '", loops_.frame(i).name, "': ", loops_.frame(i).why_not));
  if (!branches_.why_not().empty()) GiveUp(branches_.why_not());
  // Waits of queues are found by walking each loop twice, and so those in it twice as often.
  for (const Frame& frame : loops_.frames())
    if (plan_.uses_queues() && frame.depth > kDeepestOnQueues)
      GiveUp(StrCat("loop '", frame.name, "' lies in ", frame.depth - 1, " others; where devices have queues, at most ",
                    kDeepestOnQueues - 1, " are run as one program"));
  for (const Edge& fetch : plan_.fetches())
    if (plan_.FeedOf(fetch) < 0 && branches_.RegionOf(fetch) != graph::kEverywhere)
      GiveUp(StrCat("fetch '", graph_.EdgeName(fetch), "' lies in a branch"));
  for (graph::NodeId id : facts_.order()) {
    const auto& runner = plan_.runner(id);
    if (runner != nullptr && runner->has(TENON_KERNEL_ASYNC))
      GiveUp(StrCat(graph_.node(id).Describe(), " is asynchronous"));
    if (plan_.ChannelOf(id)) CheckExchange(graph_.node(id));
  }
  return refusal_.text.empty();
}

// The other part waits for what is sent, and sends what is waited for, whether or not a branch is taken. Here it may
// not show: what is sent may be a known value of the branch.
void Emitter::CheckExchange(const Node& node) {
  if (plan_.MayBeDead(plan_.ChannelOf(node.id))) GiveUp(StrCat(node.Describe(), " may have a dead value"));
}

SlotId Emitter::NewSlot(DType dtype, Shape shape, Home home, int32_t memory) {
  Slot slot;
  slot.dtype = dtype;
  slot.memory = memory;
  slot.shape = std::move(shape);
  slot.home = home;
  if (slot.shape.fully_known())
    if (auto bytes = ByteSize(dtype, slot.shape); bytes.ok()) slot.bytes = static_cast<uint64_t>(*bytes);
  slot.first = position_;
  def_loop_.push_back(loop_stack_.empty() ? LoopId() : loop_stack_.back());
  return code_->slots.push_back(std::move(slot));
}

SlotId Emitter::ConstantSlot(Tensor tensor, int32_t memory) {
  const SlotId slot = NewSlot(tensor.dtype(), tensor.shape(), Home::kConstant, memory);
  code_->at(slot).constant = std::move(tensor);
  return slot;
}

// The slot of an edge; feeds and constants get theirs here.
Result<SlotId> Emitter::SlotOf(Edge edge) {
  if (!edge.node) return InvalidArgument("an input of a node is open");
  auto& slots = slot_of_[edge.node];
  if (slots.empty()) slots.resize(graph_.node(edge.node).output_types.size());
  SlotId& slot = slots[edge.index];
  if (slot) return slot;
  const Node& node = graph_.node(edge.node);
  if (const int feed = plan_.FeedOf(edge); feed >= 0) {
    slot = NewSlot(plan_.FeedType(feed), code_->feed_shapes[feed], Home::kFeed, plan_.MemoryOf(edge));
    code_->at(slot).feed = feed;
  } else if (node.has(TENON_OP_CONSTANT) && node.FindAttr("value") != nullptr) {
    slot = ConstantSlot(node.FindAttr("value")->tensor(), plan_.MemoryOf(edge));
  } else if (facts_.Known(edge)) {
    slot = ConstantSlot(facts_.of(edge).value, plan_.MemoryOf(edge));
  } else {
    return Internal(StrCat("output ", edge.index, " of ", node.Describe(), " is used before it is made"));
  }
  return slot;
}

void Emitter::SetSlot(Edge edge, SlotId slot) {
  auto& slots = slot_of_[edge.node];
  if (slots.empty()) slots.resize(graph_.node(edge.node).output_types.size());
  // A fed output keeps its feed.
  if (plan_.FeedOf(edge) < 0) slots[edge.index] = slot;
}

// Notes that the slot is read now. Inside a loop, what was made outside it is needed until the loop ends. What a select
// may show is used as long as the select is (ExtendSelected).
void Emitter::Use(SlotId slot) {
  const SlotId root = code_->RootOf(slot);
  code_->at(root).last = std::max(code_->at(root).last, position_);
  for (LoopId loop : loop_stack_) {
    if (DefinedWithin(root, loop)) continue;
    extend_[loop].push_back(root);
    break;
  }
}

bool Emitter::DefinedWithin(SlotId slot, LoopId loop) const {
  for (LoopId at = def_loop_[slot]; at; at = loop_parent_[at])
    if (at == loop) return true;
  return false;
}

Operation& Emitter::Push(std::vector<Operation>* block, Operation::Kind kind, graph::NodeId node) {
  Operation operation;
  operation.kind = kind;
  operation.node = node;
  operation.position = position_++;
  block->push_back(std::move(operation));
  return block->back();
}

Status Emitter::EmitNode(graph::NodeId id, std::vector<Operation>* block) {
  const Node& node = graph_.node(id);
  if (const int32_t claim = ClaimOf(id); claim >= 0) return EmitClaim(claim, block);
  constexpr uint64_t kForward = TENON_OP_IDENTITY | TENON_OP_LOOP_CONDITION | TENON_OP_NEXT_ITERATION;
  constexpr uint64_t kByLoop = TENON_OP_ENTER | TENON_OP_MERGE | TENON_OP_SWITCH | TENON_OP_EXIT;
  if (const BranchMerge* merge = branches_.FindMerge(id)) return EmitSelect(node, *merge, block);
  if (node.has(TENON_OP_SWITCH) && !IsVariableSwitch(id)) return EmitSwitch(node, block);
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
      TENON_ASSIGN_OR_RETURN(SlotId slot, SlotOf(node.inputs[k]));
      if (IsRef(code_->at(slot).dtype) && !IsRef(node.output_types[k])) {
        TENON_ASSIGN_OR_RETURN(slot, EmitRead(slot, node, node.inputs[k], block));
      }
      if (plan_.TransferFrom(id) >= 0) slot = EmitTransfer(slot, node, block);
      SetSlot({id, static_cast<int32_t>(k)}, slot);
    }
    return Status::Ok();
  }
  return EmitKernel(node, block);
}

// Reads the variable that a reference slot names.
Result<SlotId> Emitter::EmitRead(SlotId reference, const Node& node, Edge edge, std::vector<Operation>* block) {
  Use(reference);
  const int32_t memory = plan_.MemoryOf(edge);
  const SlotId slot = NewSlot(BaseType(code_->at(reference).dtype), facts_.of(edge).shape, Home::kBuffer, memory);
  Operation& operation = Push(block, Operation::Kind::kRead, node.id);
  operation.inputs = {reference};
  operation.outputs = {slot};
  if (memory != 0) operation.queue = DeviceOfMemory(memory).first_queue;
  return slot;
}

// A send or a receive. What comes has a buffer of its own, which the sender may share.
Status Emitter::EmitExchange(const Node& node, std::vector<Operation>* block) {
  std::vector<SlotId> inputs, outputs;
  if (node.has(TENON_OP_SEND)) {
    TENON_ASSIGN_OR_RETURN(SlotId slot, SlotOf(node.inputs[0]));
    if (IsRef(code_->at(slot).dtype)) {
      TENON_ASSIGN_OR_RETURN(slot, EmitRead(slot, node, node.inputs[0], block));
    }
    Use(slot);
    inputs.push_back(slot);
  } else {
    outputs.push_back(NewSlot(node.output_types[0], facts_.of({node.id, 0}).shape, Home::kBuffer));
    SetSlot({node.id, 0}, outputs[0]);
  }
  Operation& operation = Push(block, inputs.empty() ? Operation::Kind::kReceive : Operation::Kind::kSend, node.id);
  operation.inputs = std::move(inputs);
  operation.outputs = std::move(outputs);
  operation.around = loop_stack_;
  return Status::Ok();
}

// A value into the memory of the node's device. What the host's memory gives stays there until the step's end: the copy
// runs while the host goes on.
SlotId Emitter::EmitTransfer(SlotId from, const Node& node, std::vector<Operation>* block) {
  const int32_t memory = DeviceOfMemory(plan_.DeviceOf(node.id)).memory;
  const bool fixed = code_->at(from).shape.fully_known();
  const SlotId to = NewSlot(code_->at(from).dtype, code_->at(from).shape,
                            fixed && !plan_.IsKept(node.id) ? Home::kArena : Home::kBuffer, memory);
  Use(from);
  PushTransfer(from, to, node.id, block);
  return to;
}

// Buffers of pools are their device's main queue's, which alone knows when earlier work has done with them; copies of
// arenas have queues of their own.
void Emitter::PushTransfer(SlotId from, SlotId to, graph::NodeId node, std::vector<Operation>* block) {
  if (code_->at(from).memory == 0 || code_->root(from).home != Home::kArena) KeepToTheEnd(from);
  const SessionDevice& device =
      DeviceOfMemory(code_->at(from).memory == 0 ? code_->at(to).memory : code_->at(from).memory);
  Operation& operation = Push(block, Operation::Kind::kTransfer, node);
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
  chooser_.Submit(operation.queue, seconds, {code_->RootOf(from)}, {code_->RootOf(to)});
}

Status Emitter::EmitKernel(const Node& node, std::vector<Operation>* block) {
  const auto& runner = plan_.runner(node.id);
  std::vector<SlotId> inputs;
  std::vector<const OutputFacts*> facts;
  bool shapes_known = true,
       handles =
           HasFunctions(node) || TouchesState(node);  // such a kernel may hold something once it has run, and have work
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    TENON_ASSIGN_OR_RETURN(SlotId slot, SlotOf(node.inputs[i]));
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
  const QueueId queue = queued_on == nullptr ? QueueId() : ChooseQueue(node, *runner, kind, inputs);
  for (SlotId slot : inputs) Use(slot);
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
    out.push_back(NewSlot(dtype, std::move(shape), in_buffer ? Home::kBuffer : Home::kArena,
                          runner->host_output(k) ? 0 : queued_on->memory));
    SetSlot({node.id, static_cast<int32_t>(k)}, out.back());
  }
  Operation& operation = Push(block, kind, node.id);
  if (queue) chooser_.Submit(queue, SecondsOf(node, *queued_on), RootsOf(inputs), RootsOf(out));
  operation.inputs = std::move(inputs);
  operation.outputs = std::move(out);
  operation.prepared = std::move(prepared);
  operation.queue = queue;
  operation.guarded = handles || own_outputs;
  if ((position_ & 63) == 0 || runner->has(TENON_KERNEL_EXPENSIVE)) Push(block, Operation::Kind::kCheck, node.id);
  return Status::Ok();
}

// Variables and buffers of pools belong to the main queue; what another one reads of them stays until the step's end.
QueueId Emitter::ChooseQueue(const Node& node, const NodeRunner& runner, Operation::Kind kind,
                             const std::vector<SlotId>& inputs) {
  const SessionDevice& device = *runner.queued_on();
  const int32_t compute = device.compute_count();
  if (compute == 1 || runner.main_queue_only() || kind == Operation::Kind::kDynamic || node.input_types.empty())
    return device.first_queue;
  const QueueId queue = chooser_.Choose(device.first_queue, compute, RootsOf(inputs));
  KeepForQueue(queue, device, inputs);
  return queue;
}

void Emitter::KeepForQueue(QueueId queue, const SessionDevice& device, const std::vector<SlotId>& inputs) {
  if (queue == device.first_queue) return;
  for (SlotId slot : inputs)
    if (code_->at(slot).memory != 0 && code_->root(slot).home != Home::kArena) KeepToTheEnd(slot);
}

std::vector<SlotId> Emitter::RootsOf(std::vector<SlotId> slots) const {
  for (SlotId& slot : slots) slot = code_->RootOf(slot);
  return slots;
}

double Emitter::SecondsOf(const Node& node, const SessionDevice& device) const {
  if (device.compute_count() == 1) return 0;
  if (const StepTimes* times = plan_.options().times.get(); times != nullptr && times->SecondsOf(node.id) > 0)
    return times->SecondsOf(node.id);
  bool guessed = false;
  const auto cost = place::StaticCost(node, facts_.inference(), &guessed);
  const tenon_device_properties& own = device.device->properties;
  place::DeviceInfo info;
  info.flops = own.flops;
  info.bytes_per_second = own.bytes_per_second;
  info.launch_seconds = own.launch_seconds;
  return cost.ok() ? place::SecondsOn(*cost, info) : own.launch_seconds;
}

Status Emitter::EmitView(const Node& node, SlotId input, const OutputFacts& facts, std::vector<Operation>* block) {
  const SlotId slot = NewSlot(node.output_types[0], facts.shape, Home::kAlias, code_->at(input).memory);
  code_->at(slot).target = input;
  SetSlot({node.id, 0}, slot);
  if (code_->at(slot).bytes != code_->at(input).bytes)
    return InvalidArgument(StrCat(node.Describe(), ": a view of ", code_->at(input).shape.ToString(),
                                  " cannot have the shape ", code_->at(slot).shape.ToString()));
  if (code_->root(input).home != Home::kBuffer && code_->root(input).home != Home::kSelected) return Status::Ok();
  Operation& operation = Push(block, Operation::Kind::kView, node.id);
  operation.inputs = {input};
  operation.outputs = {slot};
  return Status::Ok();
}

Status Emitter::EmitFetches() {
  if (!refusal_.text.empty()) return Status::Ok();
  for (const Edge& fetch : plan_.fetches()) {
    TENON_ASSIGN_OR_RETURN(SlotId slot, SlotOf(fetch));
    if (IsRef(code_->at(slot).dtype)) {
      TENON_ASSIGN_OR_RETURN(slot, EmitRead(slot, graph_.node(fetch.node), fetch, &code_->operations));
    }
    KeepToTheEnd(slot);
    code_->fetch_slots.push_back(slot);
  }
  return Status::Ok();
}

void Emitter::KeepToTheEnd(SlotId slot) {
  code_->root(slot).last = INT_MAX;
}

}  // namespace tenon::exec
