// SPDX-License-Identifier: Apache-2.0
#include "core/exec/program.h"

#include <cstring>

namespace tenon::exec {
namespace {

// Only a plain kernel's own status lacks the node's name; the host's functions put it there themselves.
tenon_status* NameNode(tenon_status* bad, Operation::Kind kind, const graph::Node& node) {
  return kind == Operation::Kind::kRun ? Status(bad).Annotate(node.Describe()).release() : bad;
}

}  // namespace

Program::~Program() = default;

bool AreShapes(const tenon_tensor_view* const* feeds, const std::vector<Shape>& shapes) {
  for (size_t i = 0; i < shapes.size(); ++i) {
    const std::vector<int64_t>& dims = shapes[i].dims();
    const tenon_dl_tensor& dl = feeds[i]->dl;
    if (static_cast<size_t>(dl.ndim) != dims.size()) return false;
    for (size_t d = 0; d < dims.size(); ++d)
      if (dl.shape[d] != dims[d]) return false;
  }
  return true;
}

std::string Program::DescribeLargest() const {
  uint64_t largest = 0;
  std::string text = "the memory of a step";
  const auto look = [&](const std::vector<Operation>& block) {
    for (const Operation& operation : block)
      for (int32_t slot : operation.outputs)
        if (slots_[static_cast<size_t>(slot)].bytes > largest) {
          largest = slots_[static_cast<size_t>(slot)].bytes;
          text = StrCat("the memory of a step, of which ", plan_->graph().node(operation.node).Describe(), " takes ", largest, " bytes");
        }
  };
  look(operations_);
  for (const Branch& branch : branches_) look(branch.block);
  for (const Loop& loop : loops_) {
    look(loop.condition_block);
    look(loop.body_block);
  }
  return text;
}

Result<ProgramInstance*> Program::Acquire() {
  ProgramInstance* instance = idle_.Take();
  if (instance != nullptr) return instance;
  return ProgramInstance::Create(this);
}

Result<ProgramInstance*> ProgramInstance::Create(Program* program) {
  std::unique_ptr<ProgramInstance> instance(new ProgramInstance(program));
  BufferPool* pool = program->plan().env().pool;
  if (program->arena_bytes() > 0) {
    auto arena = pool->AllocateRaw(program->arena_bytes());
    if (!arena.ok()) return Status(arena.status()).Annotate(program->DescribeLargest());
    instance->arena_ = static_cast<char*>(*arena);
    // Touched now, so that steps have no page faults.
    std::memset(instance->arena_, 0, program->arena_bytes());
  }
  const std::vector<Slot>& slots = program->slots();
  instance->views_.resize(slots.size());
  for (size_t i = 0; i < slots.size(); ++i) {
    const Slot& slot = slots[i];
    tenon_tensor_view& view = instance->views_[i];
    size_t root = i;
    while (slots[root].home == Home::kAlias) root = static_cast<size_t>(slots[root].target);
    const Slot& home = slots[root];
    void* data = nullptr;
    Buffer* buffer = nullptr;
    if (home.home == Home::kArena) data = instance->arena_ + home.offset;
    if (home.home == Home::kConstant) {
      data = home.constant.data();
      buffer = home.constant.buffer();
    }
    view = MakeView(slot.dtype, slot.shape.c(), data, slot.bytes, buffer);
    if (home.home == Home::kConstant) view.flags |= TENON_VIEW_READ_ONLY;
    if (slot.home == Home::kFeed) instance->feed_slots_.emplace_back(static_cast<int32_t>(i), slot.target);
    if (slot.home == Home::kAlias && home.home == Home::kFeed) instance->feed_aliases_.push_back(static_cast<int32_t>(i));
    if (slot.home == Home::kBuffer) instance->buffer_slots_.push_back(static_cast<int32_t>(i));
  }
  for (const Loop& loop : program->loops()) {
    instance->loops_.push_back(std::make_unique<LoopState>());
    instance->loops_.back()->plan = &loop;
  }
  for (const Branch& branch : program->branches()) {
    instance->branches_.push_back(std::make_unique<BranchState>());
    instance->branches_.back()->plan = &branch;
  }
  for (auto& branch : instance->branches_) instance->MakeBlock(branch->plan->block, &branch->block);
  for (auto& loop : instance->loops_) {
    instance->MakeBlock(loop->plan->condition_block, &loop->condition);
    instance->MakeBlock(loop->plan->body_block, &loop->body);
  }
  instance->MakeBlock(program->operations(), &instance->block_);
  return instance.release();
}

ProgramInstance::~ProgramInstance() { program_->plan().env().pool->FreeRaw(arena_, program_->arena_bytes()); }

void ProgramInstance::MakeBlock(const std::vector<Operation>& operations, Block* block) {
  const graph::Graph& graph = program_->plan().graph();
  for (const Operation& operation : operations) {
    contexts_.push_back(std::make_unique<Context>());
    Context& context = *contexts_.back();
    context.node = &graph.node(operation.node);
    context.instance = this;
    context.operation = &operation;
    for (int32_t slot : operation.inputs) context.inputs.push_back(&views_[static_cast<size_t>(slot)]);
    for (int32_t slot : operation.outputs) context.outputs.push_back(&views_[static_cast<size_t>(slot)]);
    const uint64_t workspace = operation.prepared == nullptr ? 0 : operation.prepared->workspace_bytes;
    context.frame = {TENON_HEAD(tenon_frame),
                     context.inputs.data(),
                     context.outputs.data(),
                     static_cast<int32_t>(context.inputs.size()),
                     static_cast<int32_t>(context.outputs.size()),
                     workspace == 0 ? nullptr : arena_ + program_->workspace_offset(),
                     workspace,
                     nullptr,
                     nullptr,
                     nullptr,
                     {nullptr, 0},
                     FrameServices(),
                     &context};
    Instruction instruction{nullptr, nullptr, nullptr, &context.frame};
    if (operation.prepared != nullptr) {
      instruction.kernel = operation.prepared->kernel->state();
      instruction.prepared = operation.prepared->prepared;
    }
    switch (operation.kind) {
      case Operation::Kind::kRun: instruction.run = operation.prepared->kernel->registration().run; break;
      case Operation::Kind::kGuarded: instruction.run = &RunGuarded; break;
      case Operation::Kind::kDynamic: instruction.run = &RunDynamic; break;
      case Operation::Kind::kRead: instruction.run = &RunRead; break;
      case Operation::Kind::kView: instruction.run = &RunView; break;
      case Operation::Kind::kRelease: instruction.run = &RunRelease; break;
      case Operation::Kind::kLoop:
        instruction.run = &RunLoop;
        context.loop = loops_[static_cast<size_t>(operation.loop)].get();
        break;
      case Operation::Kind::kBranch:
        instruction.run = &RunBranch;
        context.branch = branches_[static_cast<size_t>(operation.branch)].get();
        break;
      case Operation::Kind::kSelect: instruction.run = &RunSelect; break;
      case Operation::Kind::kCheck: instruction.run = &RunCheck; break;
    }
    block->instructions.push_back(instruction);
  }
}

Status ProgramInstance::Run(Step* step, const tenon_tensor_view* const* feeds) {
  step_ = step;
  for (const auto& [slot, feed] : feed_slots_) {
    const tenon_tensor_view& given = *feeds[feed];
    tenon_tensor_view& view = views_[static_cast<size_t>(slot)];
    view.dl.data = DataOf(given);
    view.buffer = given.buffer;
    view.flags = FeedFlags(given);
  }
  for (int32_t slot : feed_aliases_) {
    const tenon_tensor_view& target = views_[static_cast<size_t>(program_->slots()[static_cast<size_t>(slot)].target)];
    tenon_tensor_view& view = views_[static_cast<size_t>(slot)];
    view.dl.data = target.dl.data;
    view.buffer = target.buffer;
    view.flags = target.flags;
  }
  if (step != bound_step_)
    for (const auto& context : contexts_) context->step = step;
  bound_step_ = step;
  return Status(Execute(block_));
}

const tenon_tensor_view& ProgramInstance::fetch(size_t i) const {
  return views_[static_cast<size_t>(program_->fetch_slots()[i])];
}

void ProgramInstance::Finish() {
  for (int32_t slot : buffer_slots_) {
    tenon_tensor_view& view = views_[static_cast<size_t>(slot)];
    ReleaseOutput(&view);
    view.dl.data = nullptr;
  }
  step_ = nullptr;
}

tenon_status* ProgramInstance::RunBlock(const Block& block) {
  const Instruction* at = block.instructions.data();
  const Instruction* const end = at + block.instructions.size();
  for (; at != end; ++at)
    if (tenon_status* bad = at->run(at->kernel, at->prepared, at->frame); __builtin_expect(bad != nullptr, 0)) {
      return NameNode(bad, ContextOf(at->frame)->operation->kind, *ContextOf(at->frame)->node);
    }
  return nullptr;
}

tenon_status* ProgramInstance::RunTraced(const Block& block, trace::Trace* trace) {
  for (const Instruction& instruction : block.instructions) {
    Context* context = ContextOf(instruction.frame);
    const uint64_t begin = trace::Trace::Now();
    tenon_status* bad = instruction.run(instruction.kernel, instruction.prepared, instruction.frame);
    if (context->operation->kind != Operation::Kind::kRelease && context->operation->kind != Operation::Kind::kCheck &&
        context->operation->kind != Operation::Kind::kBranch)
      trace->Add(context->node->name, context->node->op->name, begin, trace::Trace::Now());
    if (bad != nullptr) return NameNode(bad, context->operation->kind, *context->node);
  }
  return nullptr;
}

tenon_status* ProgramInstance::RunCheck(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  if (!context->step->cancellation->cancelled()) return nullptr;
  return context->step->cancellation->reason().Annotate(StrCat("before ", context->node->Describe())).release();
}

tenon_status* ProgramInstance::RunGuarded(tenon_kernel* kernel, const tenon_prepared* prepared, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  const KernelInstance& instance = *context->operation->prepared->kernel;
  tenon_status* bad = instance.registration().run(kernel, prepared, frame);
  if (context->pin_count != 0) ReleasePins(context);
  if (bad != nullptr) return Status(bad).Annotate(context->node->Describe()).release();
  const std::vector<Slot>& slots = context->instance->program_->slots();
  for (size_t k = 0; k < context->outputs.size(); ++k) {
    const Slot& slot = slots[static_cast<size_t>(context->operation->outputs[k])];
    if (slot.home != Home::kBuffer) continue;
    const tenon_tensor_view& view = *context->outputs[k];
    if (view.buffer == nullptr)
      return Internal(StrCat(context->node->Describe(), ": its kernel did not set output ", k)).release();
    const std::vector<int64_t>& dims = slot.shape.dims();
    if (slot.shape.fully_known() &&
        (static_cast<size_t>(view.dl.ndim) != dims.size() ||
         (!dims.empty() && std::memcmp(view.dl.shape, dims.data(), dims.size() * sizeof(int64_t)) != 0)))
      return FailedPrecondition(StrCat(context->node->Describe(), ": output ", k, " was planned as ", slot.shape.ToString(),
                                       ", found ", ShapeOf(view).ToString())).release();
  }
  return nullptr;
}

tenon_status* ProgramInstance::RunDynamic(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  const auto& runner = context->instance->program_->plan().runner(context->operation->node);
  auto prepared = runner->Resolve(context->inputs, context->last);
  if (!prepared.ok()) return Status(prepared.status()).release();
  context->last = *prepared;
  for (tenon_tensor_view* output : context->outputs) ReleaseOutput(output);
  return RunNode(context->step, *context->last, *context->node, context->inputs, context->outputs).release();
}

tenon_status* ProgramInstance::RunRead(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  tenon_tensor_view* output = context->outputs[0];
  ReleaseOutput(output);
  Resource* resource = *static_cast<Resource**>(DataOf(*context->inputs[0]));
  Status status = ReadVariable(resource, output);
  if (!status.ok()) return std::move(status).Annotate(context->node->Describe()).release();
  const Shape& planned =
      context->instance->program_->slots()[static_cast<size_t>(context->operation->outputs[0])].shape;
  if (planned.fully_known() && !(ShapeOf(*output) == planned))
    return FailedPrecondition(StrCat(context->node->Describe(), ": variable '", resource->name, "' has the shape ",
                                     ShapeOf(*output).ToString(), ", the graph says ", planned.ToString())).release();
  return nullptr;
}

tenon_status* ProgramInstance::RunView(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  context->outputs[0]->dl.data = DataOf(*context->inputs[0]);
  context->outputs[0]->buffer = context->inputs[0]->buffer;
  context->outputs[0]->flags = context->inputs[0]->flags;
  return nullptr;
}

tenon_status* ProgramInstance::RunRelease(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  ReleaseOutput(ContextOf(frame)->outputs[0]);
  return nullptr;
}

tenon_status* ProgramInstance::RunBranch(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  const BranchState& state = *context->branch;
  const bool taken = *static_cast<const uint8_t*>(DataOf(*context->inputs[0])) != 0;
  return taken == (state.plan->side != 0) ? context->instance->Execute(state.block) : nullptr;
}

tenon_status* ProgramInstance::RunSelect(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  const int side = *static_cast<const uint8_t*>(DataOf(*context->inputs[0])) != 0 ? 1 : 0;
  *context->outputs[0] = *context->inputs[1 + side];
  if (context->outputs.size() > 1)
    *static_cast<int32_t*>(DataOf(*context->outputs[1])) = context->operation->input_of_side[side];
  return nullptr;
}

tenon_status* ProgramInstance::RunLoop(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  ProgramInstance* self = context->instance;
  const LoopState& state = *context->loop;
  const Loop& loop = *state.plan;
  const auto view = [self](int32_t slot) -> tenon_tensor_view& { return self->views_[static_cast<size_t>(slot)]; };
  const auto copy = [&](int32_t from, int32_t to) {
    const tenon_tensor_view& source = view(from);
    const tenon_tensor_view& target = view(to);
    // Small carried values are the common case; a fixed size lets the compiler leave memcpy's call out.
    if (target.byte_size == 4) std::memcpy(target.dl.data, DataOf(source), 4);
    else if (target.byte_size == 8) std::memcpy(target.dl.data, DataOf(source), 8);
    else std::memcpy(target.dl.data, DataOf(source), target.byte_size);
  };
  for (const Loop::Carried& carried : loop.carried) copy(carried.initial, carried.current);
  const tenon_tensor_view& condition = view(loop.condition);
  Cancellation* cancellation = context->step->cancellation;
  for (;;) {
    if (cancellation->cancelled())
      return cancellation->reason().Annotate(StrCat("in the loop of ", context->node->Describe())).release();
    if (tenon_status* bad = self->Execute(state.condition)) return bad;
    if (*static_cast<const uint8_t*>(DataOf(condition)) == 0) return nullptr;
    if (tenon_status* bad = self->Execute(state.body)) return bad;
    for (const Loop::Carried& carried : loop.carried)
      if (carried.through_temporary) copy(carried.next, carried.temporary);
    for (const Loop::Carried& carried : loop.carried)
      copy(carried.through_temporary ? carried.temporary : carried.next, carried.current);
  }
}

}  // namespace tenon::exec
