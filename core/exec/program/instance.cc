// SPDX-License-Identifier: Apache-2.0
#include "core/exec/program/instance.h"

#include <algorithm>
#include <cstring>

#include "core/base/clock.h"
#include "core/base/flush_denormals.h"
#include "core/base/guard.h"
#include "core/exec/device/environment.h"
#include "core/exec/device/pinned.h"
#include "core/exec/exchange/values.h"
#include "core/exec/kernel/kernel_instance.h"
#include "core/exec/threads/host_threads.h"
#include "core/graph/graph.h"
#include "core/graph/op_def.h"
#include "core/tensor/allowance.h"

namespace tenon::exec {
namespace {

// Of a fetch: what is smaller is copied as fast as it is moved.
constexpr uint64_t kLeastMoved = 4096;
constexpr uint64_t kLeastSent = 16 << 10;

bool HasStrings(const tenon_frame_context& context) {
  const std::vector<DType>& types = context.node->output_types;
  return std::find(types.begin(), types.end(), TENON_DT_STRING) != types.end();
}

// Where a queue's kernels have their workspace.
size_t MemoryOfQueue(const Program& program, QueueId queue) {
  return !queue ? 0 : program.plan().env().queues[queue].device;
}

}  // namespace

tenon_status* ProgramInstance::NameNode(tenon_status* bad, const Context& context) {
  return context.operation->kind == Operation::Kind::kRun && !context.names_itself
             ? Status(bad).Annotate(context.node->Describe()).release()
             : bad;
}

Result<std::unique_ptr<ProgramInstance>> ProgramInstance::Create(const Program* program) {
  std::unique_ptr<ProgramInstance> instance(new ProgramInstance(program));
  if (Status status = instance->MakeArenas(); !status.ok())
    return status.code() == Code::kResourceExhausted ? std::move(status).Annotate(program->DescribeLargest()) : status;
  instance->points_.resize(instance->code_.point_count);
  const Environment& env = program->plan().env();
  const IdVector<SlotId, Slot>& slots = instance->code_.slots;
  instance->views_.resize(slots.size());
  instance->borrows_ = !instance->code_.fetch_slots.empty();
  for (const SlotId i : slots.ids()) {
    const Slot& slot = slots[i];
    tenon_tensor_view& view = instance->views_[i];
    const Slot& home = instance->code_.root(i);
    void* data = nullptr;
    Buffer* buffer = nullptr;
    if (home.home == Home::kArena) data = instance->arenas_[home.memory] + home.offset;
    if (home.home == Home::kConstant) {
      data = home.constant.data();
      buffer = home.constant.buffer();
    }
    view = MakeView(slot.dtype, slot.shape.c(), data, slot.bytes, buffer);
    if (home.home == Home::kConstant) view.flags |= TENON_VIEW_READ_ONLY;
    if (slot.memory != 0) MarkDevice(&view, *env.devices[slot.memory].device);
    if (slot.home == Home::kFeed) {
      instance->feed_slots_.emplace_back(i, slot.feed);
      instance->borrows_ = instance->borrows_ || slot.memory != 0;
    }
    if (slot.home == Home::kAlias && home.home == Home::kFeed) instance->feed_aliases_.push_back(i);
    if (slot.home == Home::kBuffer) instance->buffer_slots_.push_back(i);
  }
  for (const Loop& loop : instance->code_.loops) {
    instance->loops_.push_back(std::make_unique<LoopState>());
    instance->loops_.back()->plan = &loop;
  }
  for (const Branch& branch : instance->code_.branches) {
    instance->branches_.push_back(std::make_unique<BranchState>());
    instance->branches_.back()->plan = &branch;
  }
  for (auto& branch : instance->branches_) instance->MakeBlock(branch->plan->block, &branch->block);
  for (auto& loop : instance->loops_) {
    instance->MakeBlock(loop->plan->condition_block, &loop->condition);
    instance->MakeBlock(loop->plan->body_block, &loop->body);
  }
  instance->MakeBlock(instance->code_.operations, &instance->block_);
  instance->FindMovable();
  instance->FindSent();
  return instance;
}

bool ProgramInstance::IsMovable(SlotId fetch, uint64_t least) const {
  const Slot& home = code_.root(fetch);
  return home.home == Home::kArena && home.memory == 0 && home.bytes >= least && home.bytes == code_.at(fetch).bytes &&
         IsPlain(home.dtype) && IsPlain(code_.at(fetch).dtype);
}

bool ProgramInstance::IsBroughtAlone(SlotId root) const {
  const auto is_root = [&](SlotId slot) { return slot && code_.RootOf(slot) == root; };
  bool brought = false, used = false;
  code_.ForEachBlock([&](const std::vector<Operation>& block) {
    for (const Operation& operation : block) {
      const bool makes = std::any_of(operation.outputs.begin(), operation.outputs.end(), is_root);
      const bool brings = makes && !brought && operation.kind == Operation::Kind::kTransfer &&
                          code_.at(operation.inputs[0]).memory != 0;
      used = used || (makes && !brings) || std::any_of(operation.inputs.begin(), operation.inputs.end(), is_root);
      brought = brought || brings;
    }
  });
  for (const Loop& loop : code_.loops)
    for (const Loop::Carried& carried : loop.carried)
      used = used || is_root(carried.initial) || is_root(carried.current) || is_root(carried.next) ||
             is_root(carried.temporary);
  return brought && !used;
}

void ProgramInstance::FindMovable() {
  brings_ = !code_.queues.empty();
  for (size_t index = 0; index < code_.fetch_slots.size(); ++index) {
    const SlotId fetch = code_.fetch_slots[index];
    const SlotId root = code_.RootOf(fetch);
    if (!IsMovable(fetch, brings_ ? 1 : kLeastMoved) || (brings_ && !IsBroughtAlone(root))) continue;
    const auto same =
        std::find_if(movable_.begin(), movable_.end(), [root](const Movable& other) { return other.root == root; });
    Movable& movable = same == movable_.end() ? movable_.emplace_back(Movable{root, {}, {}, {}}) : *same;
    movable.indices.push_back(index);
    if (std::find(movable.fetches.begin(), movable.fetches.end(), fetch) == movable.fetches.end())
      movable.fetches.push_back(fetch);
  }
  for (const SlotId slot : code_.slots.ids())
    for (Movable& movable : movable_)
      if (code_.RootOf(slot) == movable.root) movable.slots.push_back(slot);
}

// Of one process, where nobody sends, there are none; nor where devices' work is captured with its addresses.
void ProgramInstance::FindSent() {
  if (!code_.queues.empty()) return;
  for (const auto& context : contexts_) {
    const Operation& operation = *context->operation;
    if (operation.kind != Operation::Kind::kSend || !operation.around.empty()) continue;
    const SlotId slot = operation.inputs[0], root = code_.RootOf(slot);
    const Slot& home = code_.at(root);
    if (home.home != Home::kArena || home.memory != 0 || home.bytes < kLeastSent ||
        home.bytes != code_.at(slot).bytes || !IsPlain(home.dtype))
      continue;
    if (IsWrittenAfter(root, operation.position)) continue;
    if (std::any_of(movable_.begin(), movable_.end(), [root](const Movable& movable) { return movable.root == root; }))
      continue;
    const auto same =
        std::find_if(sent_.begin(), sent_.end(), [root](const Sent& other) { return other.root == root; });
    if (same == sent_.end()) sent_.push_back({root, {}, nullptr});
    context->sent = same == sent_.end() ? &sent_.back() : &*same;
  }
  for (const SlotId slot : code_.slots.ids())
    for (Sent& sent : sent_)
      if (code_.RootOf(slot) == sent.root) sent.slots.push_back(slot);
}

// By an operation behind the position, or by the turns of a loop.
bool ProgramInstance::IsWrittenAfter(SlotId root, int32_t position) const {
  const auto is_root = [&](SlotId slot) { return slot && code_.RootOf(slot) == root; };
  bool written = false;
  code_.ForEachBlock([&](const std::vector<Operation>& block) {
    for (const Operation& operation : block)
      written = written || (operation.position > position &&
                            std::any_of(operation.outputs.begin(), operation.outputs.end(), is_root));
  });
  for (const Loop& loop : code_.loops)
    for (const Loop::Carried& carried : loop.carried)
      written = written || is_root(carried.initial) || is_root(carried.current) || is_root(carried.next) ||
                is_root(carried.temporary);
  return written;
}

Status ProgramInstance::PlaceSent(BufferPool* pool) {
  for (Sent& sent : sent_) {
    if (sent.buffer != nullptr) continue;
    const Slot& root = code_.at(sent.root);
    TENON_ASSIGN_OR_RETURN(sent.buffer, pool->Allocate(root.bytes, root.shape.c()));
    for (const SlotId slot : sent.slots) views_[slot].dl.data = sent.buffer->data;
  }
  return Status::Ok();
}

// Where the caller wants one of its fetches: memory that kernels may take for the arena's. nullptr: nowhere.
void* ProgramInstance::PlaceOf(const Step& step, const Movable& movable) const {
  for (const size_t index : movable.indices) {
    const tenon_tensor_view* const place = step.places.empty() ? nullptr : step.places[index];
    if (place == nullptr || !SameTypeAndShape(*place, views_[code_.fetch_slots[index]])) continue;
    if (void* const data = DataOf(*place); reinterpret_cast<uintptr_t>(data) % 64 == 0) return data;
  }
  return nullptr;
}

void ProgramInstance::PlaceBrought(const Step& step) {
  if (step.places.empty()) return;
  for (Movable& movable : movable_) {
    void* const data = PlaceOf(step, movable);
    Buffer* const pinned = data == nullptr ? nullptr : RetainPinnedAround(data, code_.at(movable.root).bytes);
    if (pinned == nullptr) continue;
    Release(pinned);  // the copy holds it
    movable.moved = true;
    for (const SlotId slot : movable.slots) views_[slot].dl.data = data;
  }
}

// A buffer is the view's own when the step has run: until then it is memory that kernels write, as the arena is.
Status ProgramInstance::MoveFetches(const Step& step) {
  for (Movable& movable : movable_) {
    void* data = PlaceOf(step, movable);
    if (data == nullptr) {
      const tenon_tensor_view& view = views_[movable.fetches.front()];
      TENON_ASSIGN_OR_RETURN(movable.buffer, step.keeps->Allocate(view.byte_size, {view.dl.shape, view.dl.ndim, 0}));
      data = movable.buffer->data;
    }
    movable.moved = true;
    for (const SlotId slot : movable.slots) views_[slot].dl.data = data;
  }
  return Status::Ok();
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

// What is no value's and no workspace.
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
  work_.Close();
  for (const Sent& sent : sent_)
    if (sent.buffer != nullptr) Release(sent.buffer);
  if (work_.abandoned()) return;  // a device may use the arenas still
  const Environment& env = program_->plan().env();
  if (kGuards && !arenas_.empty() && arenas_[0] != nullptr) Permit(arenas_[0], code_.arena_bytes[0]);
  for (size_t memory = 0; memory < arenas_.size(); ++memory)
    if (arenas_[memory] != nullptr)
      (memory == 0 ? env.pool : env.devices[memory].pool)->FreeRaw(arenas_[memory], code_.arena_bytes[memory]);
}

void ProgramInstance::MakeBlock(const std::vector<Operation>& operations, Block* block) {
  const graph::Graph& graph = program_->plan().graph();
  Context* reader = nullptr;  // what stands before releases
  for (const Operation& operation : operations) {
    contexts_.push_back(std::make_unique<Context>());
    Context& context = *contexts_.back();
    context.node = &graph.node(operation.node);
    context.instance = this;
    context.operation = &operation;
    context.waits.reserve(operation.waits.size());
    for (SlotId slot : operation.inputs) context.inputs.push_back(&views_[slot]);
    for (SlotId slot : operation.outputs) context.outputs.push_back(&views_[slot]);
    const uint64_t workspace = operation.region != nullptr     ? operation.region->workspace_bytes()
                               : operation.prepared != nullptr ? operation.prepared->workspace_bytes
                                                               : 0;
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
    Instruction instruction{nullptr, nullptr, nullptr, &context.frame};
    if (operation.prepared != nullptr) {
      instruction.kernel = operation.prepared->kernel->state();
      instruction.prepared = operation.prepared->prepared;
      context.plugin = &operation.prepared->kernel->plugin();
    }
    if (operation.region != nullptr) context.plugin = &operation.region->plugin();
    switch (operation.kind) {
      case Operation::Kind::kRun:
        // What readers of strings believe is looked at; other outputs cost nothing here.
        if (HasStrings(context)) instruction.run = &RunGuarded;
        else instruction.run = operation.prepared->kernel->registration().run;
        context.names_itself = instruction.run == &RunGuarded;
        break;
      case Operation::Kind::kCompiled: instruction.run = &RunCompiled; break;
      case Operation::Kind::kGuarded: instruction.run = &RunGuarded; break;
      case Operation::Kind::kQueued: instruction.run = &RunQueued; break;
      case Operation::Kind::kTransfer: instruction.run = &RunTransfer; break;
      case Operation::Kind::kWait: instruction.run = &RunWait; break;
      case Operation::Kind::kDynamic: instruction.run = &RunDynamic; break;
      case Operation::Kind::kRead: instruction.run = &RunRead; break;
      case Operation::Kind::kView: instruction.run = &RunView; break;
      case Operation::Kind::kRelease: instruction.run = &RunRelease; break;
      case Operation::Kind::kLoop:
        instruction.run = &RunLoop;
        context.loop = loops_[operation.loop].get();
        break;
      case Operation::Kind::kBranch:
        instruction.run = &RunBranch;
        context.branch = branches_[operation.branch].get();
        break;
      case Operation::Kind::kSelect: instruction.run = &RunSelect; break;
      case Operation::Kind::kCheck: instruction.run = &RunCheck; break;
      case Operation::Kind::kSend: instruction.run = &RunSend; break;
      case Operation::Kind::kReceive: instruction.run = &RunReceive; break;
    }
    if (operation.queue) queued_.push_back(&context);
    SetPlace(context.place, *context.node, &context.frame);
    block->instructions.push_back(instruction);
    if (operation.kind == Operation::Kind::kRelease && reader != nullptr)
      reader->last_reads.push_back(context.outputs[0]);
    else
      reader = operation.kind == Operation::Kind::kCompiled || operation.kind == Operation::Kind::kGuarded ? &context
                                                                                                           : nullptr;
  }
  FindStretches(block);
}

Status ProgramInstance::Run(Step* step, const tenon_tensor_view* const* feeds) {
  const FlushDenormals flush;
  step_ = step;
  for (const auto& [slot, feed] : feed_slots_) {
    const tenon_tensor_view& given = *feeds[feed];
    tenon_tensor_view& view = views_[slot];
    view.dl.data = DataOf(given);
    view.buffer = given.buffer;
    view.flags = FeedFlags(given, code_.at(slot).memory == 0);
  }
  for (SlotId slot : feed_aliases_) {
    const tenon_tensor_view& target = views_[code_.at(slot).target];
    tenon_tensor_view& view = views_[slot];
    view.dl.data = target.dl.data;
    view.buffer = target.buffer;
    view.flags = target.flags;
  }
  if (step != bound_step_)
    for (const auto& context : contexts_) context->step = step;
  bound_step_ = step;
  if (!sent_.empty()) TENON_RETURN_IF_ERROR(PlaceSent(program_->plan().env().pool));
  if (step->keeps != nullptr && !movable_.empty() && !brings_) {
    TENON_RETURN_IF_ERROR(MoveFetches(*step));
    TENON_RETURN_IF_ERROR(Status(ExecuteAll()));
    for (const Movable& movable : movable_)
      for (const SlotId fetch : movable.fetches) views_[fetch].buffer = movable.buffer;
    return Status::Ok();
  }
  if (code_.queues.empty()) return Status(ExecuteAll());
  PlaceBrought(*step);
  // What is thrown must not leave before the devices are done.
  Status status = Guarded([&] {
    Status begun = BeginQueues(step);
    return begun.ok() ? Status(ExecuteAll()) : std::move(begun);
  });
  return work_.Complete(std::move(status), step->may_end_later && !borrows_);
}

Status ProgramInstance::BeginQueues(Step* step) {
  Status status = work_.Begin(step);
  // Also where this step ends here: the next one is to know.
  if (work_.begun()) points_are_new_ = work_.TakeRenewed() || points_are_new_;
  for (QueueId queue : code_.queues)
    if (status.ok()) status = work_.Use(queue);
  if (!status.ok() || !points_are_new_) return status;
  points_are_new_ = false;
  std::fill(points_.begin(), points_.end(), tenon_timeline_point{});
  for (Context* context : queued_) {
    const NodeRunner* runner = program_->plan().runner(context->operation->node).get();
    if (runner != nullptr && runner->queued_on() != nullptr)
      context->place = runner->PlaceFor(&work_, context->operation->queue);
    SetPlace(context->place, *context->node, &context->frame);
    if (context->operation->region != nullptr) context->frame.label = Span(context->operation->region->label());
  }
  return status;
}

std::span<const tenon_timeline_point> ProgramInstance::PointsOf(Context* context) {
  context->waits.clear();
  for (PointId wait : context->operation->waits) {
    const tenon_timeline_point& point = points_[wait];
    if (point.value == 0) continue;
    // The latest point of a timeline stands for those before it.
    const auto same =
        std::find_if(context->waits.begin(), context->waits.end(),
                     [&](const tenon_timeline_point& other) { return other.semaphore == point.semaphore; });
    if (same == context->waits.end()) context->waits.push_back(point);
    else same->value = std::max(same->value, point.value);
  }
  return context->waits;
}

Status ProgramInstance::BeforeWork(Context* context) {
  if (context->operation->waits.empty()) return Status::Ok();
  const auto points = PointsOf(context);
  return points.empty() ? Status::Ok() : work_.Wait(context->operation->queue, points);
}

Status ProgramInstance::AfterWork(Context* context) {
  if (!context->operation->signal) return Status::Ok();
  TENON_ASSIGN_OR_RETURN(points_[context->operation->signal],
                         work_.Signal(context->operation->queue, context->node->name));
  return Status::Ok();
}

const tenon_tensor_view& ProgramInstance::fetch(size_t i) const {
  return views_[code_.fetch_slots[i]];
}

bool ProgramInstance::fetch_is_own(size_t i) const {
  return std::any_of(movable_.begin(), movable_.end(), [i](const Movable& movable) {
    return movable.buffer != nullptr &&
           std::find(movable.indices.begin(), movable.indices.end(), i) != movable.indices.end();
  });
}

void ProgramInstance::Finish() {
  // Who got one may keep it, as a variable does, and write in it then.
  for (Sent& sent : sent_)
    if (sent.buffer != nullptr && !IsUnique(sent.buffer)) Release(std::exchange(sent.buffer, nullptr));
  for (SlotId slot : buffer_slots_) {
    tenon_tensor_view& view = views_[slot];
    ReleaseOutput(&view);
    view.dl.data = nullptr;
  }
  for (Movable& movable : movable_) {
    if (!std::exchange(movable.moved, false)) continue;
    for (const SlotId fetch : movable.fetches) views_[fetch].buffer = nullptr;
    for (const SlotId slot : movable.slots) views_[slot].dl.data = arenas_[0] + code_.at(movable.root).offset;
    if (movable.buffer != nullptr) Release(std::exchange(movable.buffer, nullptr));
  }
  step_ = nullptr;
}

tenon_status* ProgramInstance::ExecuteAll() {
  times_.clear();
  if (!program_->wants_times() || step_->trace != nullptr) return Execute(block_);
  times_.reserve(block_.instructions.size());
  return RunBlock<true>(block_, &times_);
}

template <bool kTimed>
tenon_status* ProgramInstance::RunBlock(const Block& block, std::vector<OperationTime>* times) {
  const Instruction* at = block.instructions.data();
  const Instruction* const end = at + block.instructions.size();
  std::atomic<const void*>& trail = ThisThreadsTrail().frame;
  tenon_status* bad = nullptr;
  try {
    for (; at != end; ++at) {
      tenon_frame* const frame = at->frame;  // read once: the store would have it read again
      trail.store(frame, std::memory_order_release);
      const uint64_t begin = kTimed ? NowNs() : 0, shared = kTimed ? HostThreads::SharedRuns() : 0;
      if (bad = at->run(at->kernel, at->prepared, frame); __builtin_expect(bad != nullptr, 0)) break;
      if constexpr (kTimed) times->push_back({NowNs() - begin, HostThreads::SharedRuns() != shared});
    }
  } catch (...) {
    bad = WasThrown(*at->frame);
  }
  trail.store(nullptr, std::memory_order_relaxed);
  return bad == nullptr ? nullptr : NameNode(bad, *ContextOf(at->frame));
}

template tenon_status* ProgramInstance::RunBlock<false>(const Block& block,
                                                        std::vector<OperationTime>* times);  // loops' bodies too

// What came out of an instruction, in a catch block: a kernel threw it, or the engine has no memory left.
tenon_status* ProgramInstance::WasThrown(const tenon_frame& frame) {
  const Context& context = *static_cast<const Context*>(frame.context);
  if (context.plugin == nullptr || context.operation->kind != Operation::Kind::kRun || context.names_itself)
    return EngineThrew().release();
  EndLostUpdates(frame);
  return Thrown(*context.plugin, "run").release();
}

// What a trace says of an instruction besides its name.
std::string ProgramInstance::Detail(const Context& context, bool went_well) {
  switch (context.operation->kind) {
    case Operation::Kind::kSend: return DescribeTransfer(*context.node, context.inputs[0]);
    case Operation::Kind::kReceive: return DescribeTransfer(*context.node, went_well ? context.outputs[0] : nullptr);
    default: return {};
  }
}

tenon_status* ProgramInstance::RunTraced(const Block& block, trace::Trace* trace) {
  for (const Instruction& instruction : block.instructions) {
    Context* context = ContextOf(instruction.frame);
    const uint64_t begin = trace::Trace::Now();
    ThisThreadsTrail().frame.store(instruction.frame, std::memory_order_release);
    tenon_status* bad = nullptr;
    try {
      bad = instruction.run(instruction.kernel, instruction.prepared, instruction.frame);
    } catch (...) {
      bad = WasThrown(*instruction.frame);
    }
    ThisThreadsTrail().frame.store(nullptr, std::memory_order_relaxed);
    if (context->operation->kind != Operation::Kind::kRelease && context->operation->kind != Operation::Kind::kCheck &&
        context->operation->kind != Operation::Kind::kBranch && context->stretch == nullptr)
      trace->Add(context->operation->region != nullptr ? context->operation->region->label() : context->node->name,
                 context->node->op->name, begin, trace::Trace::Now(), Detail(*context, bad == nullptr));
    if (bad != nullptr) return NameNode(bad, *context);
  }
  return nullptr;
}

}  // namespace tenon::exec
