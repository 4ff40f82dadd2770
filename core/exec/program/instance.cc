// SPDX-License-Identifier: Apache-2.0
#include "core/exec/program/instance.h"

#include <algorithm>
#include <cstring>

#include "core/base/flush_denormals.h"
#include "core/base/guard.h"
#include "core/exec/device/environment.h"
#include "core/exec/device/step.h"
#include "core/exec/kernel/kernel_instance.h"
#include "core/exec/program/capture.h"
#include "core/exec/program/operations.h"
#include "core/graph/graph.h"
#include "core/tensor/allowance.h"

namespace tenon::exec {
namespace {

// Where a queue's kernels have their workspace.
size_t MemoryOfQueue(const Program& program, QueueId queue) {
  return !queue ? 0 : program.plan().env().queues[queue].device;
}

uint64_t WorkspaceOf(const Operation& operation) {
  if (operation.region != nullptr) return operation.region->workspace_bytes();
  return operation.prepared != nullptr ? operation.prepared->workspace_bytes : 0;
}

}  // namespace

// ---- Making it ----

Result<std::unique_ptr<ProgramInstance>> ProgramInstance::Create(const Program* program) {
  std::unique_ptr<ProgramInstance> instance(new ProgramInstance(program));
  if (Status status = instance->MakeArenas(); !status.ok())
    return status.code() == Code::kResourceExhausted ? std::move(status).Annotate(program->DescribeLargest()) : status;
  instance->MakeViews();
  instance->MakeBlocks();
  instance->fetches_.emplace(&instance->machine_);
  instance->sent_.emplace(&instance->machine_, *instance->fetches_);
  return instance;
}

Status ProgramInstance::MakeArenas() {
  const Environment& env = program_->plan().env();
  arenas_.resize(std::max<size_t>(1, env.devices.size()));
  for (size_t memory = 0; memory < arenas_.size(); ++memory) {
    const uint64_t bytes = code_.arena_bytes[memory];
    if (bytes == 0) continue;
    BufferPool* pool = memory == 0 ? env.pool : env.devices[memory].pool;
    TENON_ASSIGN_OR_RETURN(void* arena, pool->AllocateRaw(bytes));
    arenas_[memory] = static_cast<char*>(arena);
    // Touched now, so that steps have no page faults; a piece at a time, for gigabytes take seconds.
    constexpr uint64_t kPiece = 32 << 20;
    for (uint64_t at = 0; memory == 0 && at < bytes; at += kPiece) {
      TENON_RETURN_IF_ERROR(CheckAllowance());
      std::memset(arenas_[0] + at, 0, std::min(kPiece, bytes - at));
    }
    if (kGuards && memory == 0) GuardArena();
  }
  return Status::Ok();
}

void ProgramInstance::GuardArena() {
  const char* arena = arenas_[0];
  uint64_t workspaces = code_.arena_bytes[0];
  for (size_t q = 0; q < code_.workspace_offset.size(); ++q)
    if ((q == 0 ? 0 : MemoryOfQueue(*program_, QueueId(q - 1))) == 0)
      workspaces = std::min(workspaces, code_.workspace_offset[q]);
  Forbid(arena, workspaces);
  for (const SlotId i : code_.slots.ids())
    if (const Slot& slot = code_.slots[i]; slot.home == Home::kArena && slot.memory == 0)
      Permit(arena + slot.offset, slot.bytes);
}

ProgramInstance::~ProgramInstance() {
  machine_.queues.work().Close();
  sent_.reset();
  if (abandoned()) return;  // a device may use the arenas still
  const Environment& env = program_->plan().env();
  if (kGuards && !arenas_.empty() && arenas_[0] != nullptr) Permit(arenas_[0], code_.arena_bytes[0]);
  for (size_t memory = 0; memory < arenas_.size(); ++memory)
    if (arenas_[memory] != nullptr)
      (memory == 0 ? env.pool : env.devices[memory].pool)->FreeRaw(arenas_[memory], code_.arena_bytes[memory]);
}

void ProgramInstance::MakeViews() {
  machine_.views.resize(code_.slots.size());
  borrows_ = !code_.fetch_slots.empty();
  for (const SlotId id : code_.slots.ids()) MakeView(id);
}

void ProgramInstance::MakeView(SlotId id) {
  const Slot& slot = code_.at(id);
  const Slot& home = code_.root(id);
  void* data = nullptr;
  Buffer* buffer = nullptr;
  if (home.home == Home::kArena) data = arenas_[home.memory] + home.offset;
  if (home.home == Home::kConstant) {
    data = home.constant.data();
    buffer = home.constant.buffer();
  }
  tenon_tensor_view& view = machine_.views[id];
  view = tenon::MakeView(slot.dtype, slot.shape.c(), data, slot.bytes, buffer);
  if (home.home == Home::kConstant) view.flags |= TENON_VIEW_READ_ONLY;
  if (slot.memory != 0) MarkDevice(&view, *program_->plan().env().devices[slot.memory].device);
  if (slot.home == Home::kFeed) {
    feed_slots_.emplace_back(id, slot.feed);
    borrows_ = borrows_ || slot.memory != 0;
  }
  if (slot.home == Home::kAlias && home.home == Home::kFeed) feed_aliases_.push_back(id);
  if (slot.home == Home::kBuffer) buffer_slots_.push_back(id);
}

void ProgramInstance::MakeBlocks() {
  for (const Loop& loop : code_.loops)
    machine_.loops.push_back(std::make_unique<program::LoopState>(program::LoopState{&loop, {}, {}}));
  for (const Branch& branch : code_.branches)
    machine_.branches.push_back(std::make_unique<program::BranchState>(program::BranchState{&branch, {}}));
  for (auto& branch : machine_.branches) MakeBlock(branch->plan->block, &branch->block);
  for (auto& loop : machine_.loops) {
    MakeBlock(loop->plan->condition_block, &loop->condition);
    MakeBlock(loop->plan->body_block, &loop->body);
  }
  MakeBlock(code_.operations, &block_);
}

void ProgramInstance::MakeBlock(const std::vector<Operation>& operations, program::Block* block) {
  program::Context* reader = nullptr;  // what stands before releases
  for (const Operation& operation : operations) {
    program::Context* const context = MakeContext(operation);
    block->instructions.push_back(MakeInstruction(context));
    if (operation.queue) machine_.queues.Add(context);
    SetPlace(context->place, *context->node, &context->frame);
    const bool may_drop = operation.kind == Operation::Kind::kCompiled || operation.kind == Operation::Kind::kGuarded;
    if (operation.kind == Operation::Kind::kRelease && reader != nullptr)
      reader->last_reads.push_back(context->outputs[0]);
    else
      reader = may_drop ? context : nullptr;
  }
  program::FindStretches(&machine_, block);
}

program::Context* ProgramInstance::MakeContext(const Operation& operation) {
  program::Context& context = *machine_.contexts.emplace_back(std::make_unique<program::Context>());
  context.node = &program_->plan().graph().node(operation.node);
  context.machine = &machine_;
  context.operation = &operation;
  context.waits.reserve(operation.waits.size());
  for (SlotId slot : operation.inputs) context.inputs.push_back(&machine_.views[slot]);
  for (SlotId slot : operation.outputs) context.outputs.push_back(&machine_.views[slot]);
  if (operation.kind == Operation::Kind::kLoop) context.loop = machine_.loops[operation.loop].get();
  if (operation.kind == Operation::Kind::kBranch) context.branch = machine_.branches[operation.branch].get();
  const uint64_t workspace = WorkspaceOf(operation);
  context.frame = {TENON_HEAD(tenon_frame),
                   context.inputs.data(),
                   context.outputs.data(),
                   static_cast<int32_t>(context.inputs.size()),
                   static_cast<int32_t>(context.outputs.size()),
                   workspace == 0
                       ? nullptr
                       : arenas_[MemoryOfQueue(*program_, operation.queue)] + code_.workspace(operation.queue),
                   workspace,
                   nullptr,
                   nullptr,
                   nullptr,
                   {nullptr, 0},
                   FrameServices(),
                   &context};
  return &context;
}

program::Instruction ProgramInstance::MakeInstruction(program::Context* context) {
  const Operation& operation = *context->operation;
  program::Instruction instruction{program::RunOf(operation, *context->node), nullptr, nullptr, &context->frame};
  if (operation.prepared != nullptr) {
    instruction.kernel = operation.prepared->kernel->state();
    instruction.prepared = operation.prepared->prepared;
    context->plugin = &operation.prepared->kernel->plugin();
  }
  if (operation.region != nullptr) context->plugin = &operation.region->plugin();
  context->names_itself = operation.kind == Operation::Kind::kRun && program::NamesItself(instruction);
  return instruction;
}

// ---- A step ----

void ProgramInstance::BindFeeds(const tenon_tensor_view* const* feeds) {
  for (const auto& [slot, feed] : feed_slots_) {
    const tenon_tensor_view& given = *feeds[feed];
    tenon_tensor_view& view = machine_.views[slot];
    view.dl.data = DataOf(given);
    view.buffer = given.buffer;
    view.flags = FeedFlags(given, code_.at(slot).memory == 0);
  }
  for (SlotId slot : feed_aliases_) {
    const tenon_tensor_view& target = machine_.views[code_.at(slot).target];
    tenon_tensor_view& view = machine_.views[slot];
    view.dl.data = target.dl.data;
    view.buffer = target.buffer;
    view.flags = target.flags;
  }
}

Status ProgramInstance::Run(Step* step, const tenon_tensor_view* const* feeds) {
  const FlushDenormals flush;
  machine_.step = step;
  BindFeeds(feeds);
  if (step != bound_step_)
    for (const auto& context : machine_.contexts) context->step = step;
  bound_step_ = step;
  TENON_RETURN_IF_ERROR(sent_->Place());
  if (step->keeps != nullptr && fetches_->MayMove()) {
    TENON_RETURN_IF_ERROR(fetches_->Move(*step));
    TENON_RETURN_IF_ERROR(Status(ExecuteAll()));
    fetches_->Give();
    return Status::Ok();
  }
  return code_.queues.empty() ? Status(ExecuteAll()) : RunWithQueues(step);
}

Status ProgramInstance::RunWithQueues(Step* step) {
  fetches_->PlaceBrought(*step);
  // What is thrown must not leave before the devices are done.
  Status status = Guarded([&] {
    Status begun = machine_.queues.Begin(step);
    return begun.ok() ? Status(ExecuteAll()) : std::move(begun);
  });
  return machine_.queues.work().Complete(std::move(status), step->may_end_later && !borrows_);
}

tenon_status* ProgramInstance::ExecuteAll() {
  times_.clear();
  if (!program_->wants_times() || machine_.step->trace != nullptr) return machine_.Execute(block_);
  times_.reserve(block_.instructions.size());
  return program::ExecuteTimed(block_, &times_);
}

void ProgramInstance::Finish() {
  sent_->LetGo();
  for (SlotId slot : buffer_slots_) {
    tenon_tensor_view& view = machine_.views[slot];
    ReleaseOutput(&view);
    view.dl.data = nullptr;
  }
  fetches_->Restore(arenas_[0]);
  machine_.step = nullptr;
}

}  // namespace tenon::exec
