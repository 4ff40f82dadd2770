// SPDX-License-Identifier: Apache-2.0
#include "core/exec/dynamic_executor.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/exec/async_calls.h"

namespace tenon::exec {
namespace {

// Results up to this many bytes live in their iteration's own memory.
constexpr uint64_t kSmallBytes = 1024;
constexpr uint64_t kAlignment = 64;

uint64_t RoundUp(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// The status with the node's name, if there is memory for it.
Status At(const graph::Node& node, Status status) noexcept {
  if (status.ok()) return status;
  (void)Guarded([&] { status = std::move(status).Annotate(node.Describe()); });
  return status;
}

}  // namespace

DynamicInstance::DynamicInstance(const DynamicPlan* plan)
    : plan_(plan), pool_(plan->plan().env().pool), work_(&plan->plan().env()), shuffled_(plan->plan().options().schedule_seed != 0), ready_(64),
      fetched_(plan->fetches().size()), spare_iterations_(plan->frames().size()), spare_frames_(plan->frames().size()) {
  root_.info = &plan->frames()[0];
  root_iteration_ = MakeIteration(0);
  root_iteration_->frame = &root_;
  root_.iterations.push_back(root_iteration_);
}

DynamicInstance::~DynamicInstance() {
  Finish();
  for (const auto& iteration : iterations_)
    for (const auto& [data, bytes] : iteration->chunks) pool_->FreeRaw(data, bytes);
  if (workspace_ != nullptr) pool_->FreeRaw(workspace_, workspace_bytes_);
}

// ---- Frames and iterations ----

DynamicInstance::Iteration* DynamicInstance::MakeIteration(int frame) {
  const FrameInfo& info = plan_->frames()[static_cast<size_t>(frame)];
  auto made = std::make_unique<Iteration>();
  Iteration* const iteration = made.get();
  iteration->info = &info;
  iteration->states.resize(info.nodes.size());
  iteration->slots.resize(info.slots.size());
  iteration->child_frames.resize(info.children.size());
  iteration->calls = std::make_unique<Call[]>(info.kernels.size());
  for (size_t i = 0; i < info.slots.size(); ++i) {
    if (info.slots[i].constant == nullptr) continue;
    iteration->slots[i].view = info.slots[i].constant->view();
    iteration->slots[i].view.flags |= TENON_VIEW_READ_ONLY;
    if (info.slots[i].memory != 0)
      MarkDevice(&iteration->slots[i].view, *plan_->plan().env().devices[static_cast<size_t>(info.slots[i].memory)].device);
    iteration->slots[i].shape_id = NewShapeIds();
  }
  size_t inputs = 0, outputs = 0;
  for (int32_t local : info.kernels) {
    inputs += static_cast<size_t>(info.nodes[static_cast<size_t>(local)].input_count);
    outputs += static_cast<size_t>(info.nodes[static_cast<size_t>(local)].output_count);
  }
  iteration->seen.resize(inputs);
  iteration->input_views.reserve(inputs);
  iteration->output_views.reserve(outputs);
  for (int32_t local : info.kernels) {
    const NodeInfo& node = info.nodes[static_cast<size_t>(local)];
    Call& call = iteration->calls[static_cast<size_t>(node.call)];
    call.seen = iteration->seen.data() + iteration->input_views.size();
    call.node = node.node;
    call.instance = this;
    call.iteration = iteration;
    if (const SessionDevice* device = node.runner->queued_on(); device != nullptr)
      call.place = node.runner->PlaceFor(&work_, device->first_queue);
    call.info = &node;
    const tenon_tensor_view* const* in = iteration->input_views.data() + iteration->input_views.size();
    tenon_tensor_view* const* out = iteration->output_views.data() + iteration->output_views.size();
    for (int32_t i = 0; i < node.input_count; ++i) iteration->input_views.push_back(&Input(node, i, iteration).view);
    for (int32_t k = 0; k < node.output_count; ++k)
      iteration->output_views.push_back(&iteration->slots[static_cast<size_t>(node.first_output + k)].view);
    call.frame = {TENON_HEAD(tenon_frame), in, out, node.input_count, node.output_count, nullptr, 0, nullptr, nullptr, nullptr, {nullptr, 0}, FrameServices(), &call};
  }
  iterations_.push_back(std::move(made));
  return iteration;
}

DynamicInstance::Iteration* DynamicInstance::NewIteration(FrameInstance* frame) {
  Iteration*& spare = spare_iterations_[static_cast<size_t>(frame->frame)];
  Iteration* const iteration = spare == nullptr ? MakeIteration(frame->frame) : std::exchange(spare, spare->next_spare);
  std::copy(frame->info->initial.begin(), frame->info->initial.end(), iteration->states.begin());
  iteration->frame = frame;
  iteration->number = frame->first_number + static_cast<int64_t>(frame->iterations.size());
  frame->iterations.push_back(iteration);
  // Loop invariants are there in every iteration. The frame holds their buffers.
  ++iteration->running;
  for (const FrameInstance::Invariant& invariant : frame->invariants) {
    if (!invariant.dead) Lend(invariant.value, iteration, invariant.enter->first_output);
    WakeAll(*invariant.enter, iteration, invariant.dead, true);
  }
  --iteration->running;
  return iteration;
}

// Takes an iteration whose nodes are done out of use.
void DynamicInstance::Recycle(Iteration* iteration) {
  for (FrameInstance*& child : iteration->child_frames)
    if (child != nullptr) Abandon(std::exchange(child, nullptr));
  ReleaseSlots(iteration);
}

void DynamicInstance::ReleaseSlots(Iteration* iteration) {
  if (iteration->owned > 0)
    for (Slot& slot : iteration->slots)
      if (slot.owned) {
        ReleaseOutput(&slot.view);
        slot.owned = false;
      }
  iteration->owned = 0;
  iteration->running = 0;
  iteration->children = 0;
}

void DynamicInstance::Spare(Iteration* iteration) {
  iteration->next_spare = std::exchange(spare_iterations_[static_cast<size_t>(iteration->info - plan_->frames().data())], iteration);
}

void DynamicInstance::Abandon(FrameInstance* frame) {
  for (Iteration* iteration : frame->iterations) {
    Recycle(iteration);
    Spare(iteration);
  }
  frame->iterations.clear();
  Retire(frame);
}

// A frame whose iterations have gone.
void DynamicInstance::Retire(FrameInstance* frame) {
  for (FrameInstance::Invariant& invariant : frame->invariants)
    if (invariant.value.owned) ReleaseOutput(&invariant.value.view);
  frame->invariants.clear();
  frame->waiting.clear();
  frame->next_spare = std::exchange(spare_frames_[static_cast<size_t>(frame->frame)], frame);
}

// After a step that failed, wherever it was: all is as it was made.
void DynamicInstance::RecycleAll() {
  std::fill(spare_iterations_.begin(), spare_iterations_.end(), nullptr);
  std::fill(spare_frames_.begin(), spare_frames_.end(), nullptr);
  for (const auto& iteration : iterations_) {
    std::fill(iteration->child_frames.begin(), iteration->child_frames.end(), nullptr);
    ReleaseSlots(iteration.get());
    if (iteration.get() != root_iteration_) Spare(iteration.get());
  }
  for (const auto& frame : frames_) {
    frame->iterations.clear();
    Retire(frame.get());
  }
}

DynamicInstance::FrameInstance* DynamicInstance::ChildFrame(Iteration* iteration, const NodeInfo& enter) {
  FrameInstance*& child = iteration->child_frames[static_cast<size_t>(enter.entered)];
  if (child != nullptr) return child;
  const int frame = iteration->info->children[static_cast<size_t>(enter.entered)];
  FrameInstance*& spare = spare_frames_[static_cast<size_t>(frame)];
  if (spare == nullptr) {
    frames_.push_back(std::make_unique<FrameInstance>());
    child = frames_.back().get();
    child->frame = frame;
    child->info = &plan_->frames()[static_cast<size_t>(frame)];
  } else {
    child = std::exchange(spare, spare->next_spare);
  }
  child->parent = iteration;
  child->pending_enters = child->info->enters;
  child->first_number = 0;
  child->exits.assign(child->info->exits.size(), FrameInstance::ExitState::kNone);
  ++iteration->children;
  FrameInstance* made = child;
  NewIteration(made);
  return made;
}

// Called when something of the frame ended: drops finished iterations, and the frame when all are.
void DynamicInstance::Settle(FrameInstance* frame) {
  while (frame != &root_) {
    while (!frame->iterations.empty()) {
      Iteration* oldest = frame->iterations.front();
      if (oldest->running != 0 || oldest->children != 0 || (frame->first_number == 0 && frame->pending_enters != 0)) return;
      const bool newest = frame->iterations.size() == 1;
      Iteration* from = frame->iterations.back();
      frame->iterations.pop_front();
      ++frame->first_number;
      if (!frame->waiting.empty()) {
        // Before the old iteration goes: what waits may stand in its memory.
        held_.swap(frame->waiting);
        Iteration* next = NewIteration(frame);
        ++next->running;
        for (const NodeInfo* held : held_) {
          Slot& value = Input(*held, 0, from);
          if (Status status = Carry(value, *from, next, held->first_output); !status.ok()) Fail(std::move(status).Annotate(held->node->Describe()));
          else WakeAll(*held, next, false);
          if (!newest) Use(from, &value);
        }
        --next->running;
        held_.clear();
      }
      Recycle(oldest);
      Spare(oldest);
    }
    Iteration* parent = frame->parent;
    EndFrame(frame);
    frame = parent->frame;
  }
}

void DynamicInstance::EndFrame(FrameInstance* frame) {
  Iteration* parent = frame->parent;
  ++parent->running;
  for (size_t i = 0; i < frame->exits.size(); ++i)
    if (frame->exits[i] == FrameInstance::ExitState::kDead)
      WakeAll(frame->info->nodes[static_cast<size_t>(frame->info->exits[i])], parent, true);
  --parent->running;
  --parent->children;
  parent->child_frames[static_cast<size_t>(frame->info->child)] = nullptr;
  Abandon(frame);
}

// ---- Values on their way ----

void DynamicInstance::Push(int32_t node, Iteration* iteration, bool dead) {
  ++iteration->running;
  if (ready_tail_ - ready_head_ == ready_.size()) {
    std::vector<Ready> larger(ready_.size() * 2);
    for (uint64_t at = ready_head_; at != ready_tail_; ++at) larger[at & (larger.size() - 1)] = ready_[at & (ready_.size() - 1)];
    ready_ = std::move(larger);
  }
  ready_[ready_tail_++ & (ready_.size() - 1)] = {node, dead, iteration};
}

inline void DynamicInstance::Deliver(const Target& target, Iteration* iteration, bool dead, bool from_enter) {
  if (target.input != Target::kPlain) return DeliverToMerge(target, iteration, dead, from_enter);
  NodeState& state = iteration->states[static_cast<size_t>(target.node)];
  state.dead |= static_cast<int32_t>(dead);
  if (--state.pending == 0) Push(target.node, iteration, state.dead != 0);
}

void DynamicInstance::DeliverToMerge(const Target& target, Iteration* iteration, bool dead, bool from_enter) {
  NodeState& state = iteration->states[static_cast<size_t>(target.node)];
  const NodeInfo& info = iteration->info->nodes[static_cast<size_t>(target.node)];
  if (target.input == Target::kMergeControl) {
    --state.pending;
  } else if (dead) {
    // A dead Enter means that the loop never turns: its other input will not come.
    state.dead = from_enter ? info.input_count : state.dead + 1;
  } else if (state.live < 0) {
    state.live = target.input;
  } else {
    Use(iteration, &Input(info, target.input, iteration));  // the first live input won
  }
  if (state.pending != 0 || state.started != 0 || (state.live < 0 && state.dead < info.input_count)) return;
  state.started = 1;
  Push(target.node, iteration, state.live < 0);
}

inline void DynamicInstance::Wake(const NodeInfo& info, int32_t first_range, int32_t last_range, Iteration* iteration, bool dead,
                                  bool from_enter) {
  const int32_t begin = ranges()[static_cast<size_t>(info.first_range + first_range)];
  const int32_t end = ranges()[static_cast<size_t>(info.first_range + last_range)];
  for (int32_t at = begin; at != end; ++at) Deliver(plan_->targets()[static_cast<size_t>(at)], iteration, dead, from_enter);
}

inline void DynamicInstance::Own(Iteration* iteration, Slot* slot, int32_t uses) {
  slot->owned = true;
  slot->uses = uses;
  ++iteration->owned;
}

// One consumer less.
inline void DynamicInstance::Use(Iteration* iteration, Slot* slot) {
  if (!slot->owned || --slot->uses > 0) return;
  ReleaseOutput(&slot->view);
  slot->owned = false;
  --iteration->owned;
}

// The same memory under another name; somebody else keeps it.
inline DynamicInstance::Slot& DynamicInstance::Lend(const Slot& from, Iteration* iteration, int32_t to) {
  Slot& slot = iteration->slots[static_cast<size_t>(to)];
  slot.view = from.view;
  slot.shape_id = from.shape_id;
  slot.depth = from.depth;
  return slot;
}

// The same within an iteration, with a reference of its own.
inline void DynamicInstance::Forward(const Slot& from, Iteration* iteration, int32_t to) {
  Slot& slot = Lend(from, iteration, to);
  if (slot.view.buffer == nullptr) return;
  Retain(slot.view.buffer);
  Own(iteration, &slot, iteration->info->slots[static_cast<size_t>(to)].uses);
}

// Into another iteration: what stands in memory that the source iteration will use again is copied.
Status DynamicInstance::Carry(const Slot& from, const Iteration& source, Iteration* iteration, int32_t to) {
  Slot& slot = iteration->slots[static_cast<size_t>(to)];
  slot.shape_id = from.shape_id;
  slot.depth = from.depth;
  const tenon_tensor_view& view = from.view;
  const bool stays = from.depth < source.info->depth || iteration->info->depth > source.info->depth;
  if (view.buffer != nullptr) {
    Buffer* buffer = view.buffer;
    if (stays || view.dl.shape == buffer->dims || view.dl.ndim == 0) Retain(buffer);
    else buffer = pool_->Alias(buffer, {view.dl.shape, view.dl.ndim, 0});
    slot.view = view;
    slot.view.buffer = buffer;
    if (!stays) slot.view.dl.shape = buffer->dims;
    Own(iteration, &slot, iteration->info->slots[static_cast<size_t>(to)].uses);
    return Status::Ok();
  }
  if (stays) {
    slot.view = view;
    return Status::Ok();
  }
  const uint64_t bytes = RoundUp(view.byte_size);
  TENON_ASSIGN_OR_RETURN(char* memory, MemoryOf(iteration, &slot, bytes + sizeof(int64_t) * static_cast<uint64_t>(view.dl.ndim)));
  if (view.byte_size == 4) std::memcpy(memory, DataOf(view), 4);
  else std::memcpy(memory, DataOf(view), view.byte_size);
  slot.view = view;
  slot.view.dl.data = memory;
  slot.view.dl.byte_offset = 0;
  slot.view.dl.shape = reinterpret_cast<int64_t*>(memory + bytes);
  for (int32_t i = 0; i < view.dl.ndim; ++i) slot.view.dl.shape[i] = view.dl.shape[i];
  slot.depth = iteration->info->depth;
  return Status::Ok();
}

// The slot's own memory, grown when it must be; old memory stays with the iteration.
Result<char*> DynamicInstance::MemoryOf(Iteration* iteration, Slot* slot, uint64_t bytes) {
  if (bytes <= slot->capacity) return slot->memory;
  const uint64_t wanted = std::bit_ceil(std::max(bytes, kAlignment));
  if (iteration->chunks.empty() || iteration->chunk_used + wanted > iteration->chunks.back().second) {
    // As much as all slots of a frame need when they are scalars, within bounds.
    const uint64_t chunk = std::max(wanted, std::clamp<uint64_t>(iteration->slots.size() * kAlignment, 512, 65536));
    iteration->chunks.reserve(iteration->chunks.size() + 1);  // rarely more than a few
    TENON_ASSIGN_OR_RETURN(void* data, pool_->AllocateRaw(chunk));
    iteration->chunks.emplace_back(static_cast<char*>(data), chunk);
    iteration->chunk_used = 0;
  }
  slot->memory = iteration->chunks.back().first + iteration->chunk_used;
  slot->capacity = static_cast<uint32_t>(wanted);
  iteration->chunk_used += wanted;
  return slot->memory;
}

// The node's values are there: keeps what is fetched, lets go what nobody consumes.
void DynamicInstance::Publish(const NodeInfo& info, Iteration* outputs) {
  if (info.fetch_count != 0) NoteFetches(info, outputs);
  for (int32_t k = 0; k < info.output_count; ++k) {
    Slot& slot = outputs->slots[static_cast<size_t>(info.first_output + k)];
    if (slot.owned && slot.uses == 0) Use(outputs, &slot);
  }
}

// Outputs that were put into their slots, with buffers that are the slots' own; or none.
void DynamicInstance::Emit(const NodeInfo& info, Iteration* iteration, bool dead) {
  if (!dead) {
    for (int32_t k = 0; k < info.output_count; ++k) {
      const auto at = static_cast<size_t>(info.first_output + k);
      Own(iteration, &iteration->slots[at], iteration->info->slots[at].uses);
    }
    Publish(info, iteration);
  }
  WakeAll(info, iteration, dead);
}

void DynamicInstance::NoteFetches(const NodeInfo& info, Iteration* outputs) {
  for (int32_t i = 0; i < info.fetch_count; ++i) {
    const auto at = static_cast<size_t>(plan_->fetch_order()[static_cast<size_t>(info.first_fetch + i)]);
    const Slot& slot = outputs->slots[static_cast<size_t>(plan_->fetches()[at].slot)];
    Fetched& fetched = fetched_[at];
    fetched.view = slot.view;
    if (IsRef(slot.view.dtype)) {
      if (Status status = ReadVariable(*static_cast<Resource**>(DataOf(slot.view)), nullptr, &fetched.view, nullptr, step_->cancellation); !status.ok())
        return Fail(std::move(status).Annotate(info.node->Describe()));
      fetched.owned = true;
    } else if (slot.view.buffer != nullptr) {
      Retain(slot.view.buffer);
      fetched.owned = true;
    }
    fetched.present = true;
  }
}

// ---- The step ----

Status DynamicInstance::Run(Step* step, const tenon_tensor_view* const* feeds) {
  step_ = step;
  error_ = Status::Ok();
  failed_ = false;
  const auto guarded = [this](auto part) {
    Status thrown = Guarded(part);
    if (thrown.ok()) return true;
    Fail(std::move(thrown));
    return false;
  };
  guarded([&] { Begin(feeds); });
  // What is thrown ends the step, but not before what runs elsewhere has come back.
  while (!guarded([&] { Loop(); })) continue;
  Status status = std::move(error_);
  if (work_.begun()) status = work_.Complete(std::move(status));
  for (size_t i = 0; i < fetched_.size() && status.ok(); ++i)
    if (!fetched_[i].present) status = NoValue(i);
  return status;
}

void DynamicInstance::Begin(const tenon_tensor_view* const* feeds) {
  if (shuffled_) random_.seed(plan_->plan().options().schedule_seed);
  const FrameInfo& info = plan_->frames()[0];
  std::copy(info.initial.begin(), info.initial.end(), root_iteration_->states.begin());
  for (size_t i = 0; i < plan_->plan().feeds().size(); ++i) {
    // Feeds have the first slots.
    tenon_tensor_view& view = root_iteration_->slots[i].view;
    view = *feeds[i];
    view.flags = FeedFlags(*feeds[i], plan_->plan().MemoryOf(plan_->plan().feeds()[i]) == 0);
  }
  for (size_t i = 0; i < fetched_.size(); ++i)
    if (plan_->fetches()[i].is_static) fetched_[i] = {root_iteration_->slots[static_cast<size_t>(plan_->fetches()[i].slot)].view, true, false};
  for (const Target& target : plan_->fed_merges()) Deliver(target, root_iteration_, false);
  for (int32_t source : info.sources) Push(source, root_iteration_, false);
  if (!plan_->plan().uses_queues()) return;
  if (Status status = BeginQueues(); !status.ok()) Fail(std::move(status));
}

Status DynamicInstance::NoValue(size_t fetch) const {
  const Plan& plan = plan_->plan();
  return Internal(StrCat("fetch '", plan.graph().EdgeName(plan.fetches()[fetch]),
                         "' has no value: it lies in a branch that was not taken"));
}

void DynamicInstance::Finish() {
  if (abandoned()) {
    for (Fetched& fetched : fetched_) fetched = {};
    return;
  }
  for (Fetched& fetched : fetched_) {
    if (fetched.owned) ReleaseOutput(&fetched.view);
    fetched = {};
  }
  if (failed_) RecycleAll();
  else Recycle(root_iteration_);
  ready_head_ = ready_tail_ = 0;
  step_ = nullptr;
}

void DynamicInstance::Fail(Status status) noexcept {
  if (!error_.ok()) return;
  failed_ = true;
  error_ = std::move(status);
  if (!step_->cancellation->cancelled()) step_->cancellation->Cancel(Status::Of(Code::kCancelled, "another node of the step failed: ", error_.message()));
}

void DynamicInstance::Loop() {
  for (;;) {
    if (step_->cancellation->cancelled() && error_.ok()) Fail(step_->cancellation->reason());
    if (!error_.ok()) {
      ready_head_ = ready_tail_;
      if (outstanding_ == 0) return;
      if (abandoned_) return Abandon();
    }
    const bool idle = ready_head_ == ready_tail_;
    if (outstanding_ > 0) TakeInbox(idle);
    else if (idle) return;
    if (ready_head_ != ready_tail_ && error_.ok()) Process(TakeReady());
  }
}

DynamicInstance::Ready DynamicInstance::TakeReady() {
  const uint64_t mask = ready_.size() - 1;
  if (shuffled_) std::swap(ready_[ready_head_ & mask], ready_[(ready_head_ + random_() % (ready_tail_ - ready_head_)) & mask]);
  return ready_[ready_head_++ & mask];
}

void DynamicInstance::Finished(const NodeInfo& info, Iteration* iteration) {
  for (int32_t i = 0; i < info.input_count; ++i) Use(iteration, &Input(info, i, iteration));
  for (int32_t i = 0; i < info.dereference_count; ++i) {
    const auto& dereference = iteration->info->dereferences[static_cast<size_t>(info.first_dereference + i)];
    Use(iteration, &iteration->slots[static_cast<size_t>(dereference.from)]);
  }
  Leave(iteration);
}

// A node of the iteration is done; a loop may be with it.
void DynamicInstance::Leave(Iteration* iteration) {
  if (--iteration->running == 0 && iteration->frame != &root_) Settle(iteration->frame);
}

// ---- Nodes ----

void DynamicInstance::Process(const Ready& ready) {
  Iteration* iteration = ready.iteration;
  const NodeInfo& info = iteration->info->nodes[static_cast<size_t>(ready.node)];
  if (ready.dead && !info.runs_when_dead) return ProcessDead(info, iteration);
  switch (info.kind) {
    case Kind::kKernel: return ProcessKernel(info, iteration);
    case Kind::kForward: ProcessForward(info, iteration); break;
    case Kind::kTransfer: ProcessTransfer(info, iteration); break;
    case Kind::kSend: ProcessSend(info, iteration, false); break;
    case Kind::kReceive: return ProcessReceive(info, iteration);
    case Kind::kSwitch: ProcessSwitch(info, iteration); break;
    case Kind::kMerge: return ProcessMerge(info, iteration);
    case Kind::kEnter: ProcessEnter(info, iteration, false); break;
    case Kind::kExit: ProcessExit(info, iteration); break;
    case Kind::kNextIteration:
      if (!ProcessNext(info, iteration)) return Leave(iteration);
      break;
    case Kind::kConstant:
      Publish(info, iteration);
      WakeAll(info, iteration, false);
      break;
    case Kind::kTrigger: WakeAll(info, iteration, false); break;
    case Kind::kUnfed:
      for (int32_t k = 0; k < info.output_count; ++k)
        if (plan_->plan().FeedOf({info.id, k}) < 0)
          Fail(InvalidArgument(StrCat(info.node->Describe(), " must be fed with a value of type ",
                                      TypeName(info.node->output_types[static_cast<size_t>(k)]))));
      WakeAll(info, iteration, false);
      break;
  }
  Finished(info, iteration);
}

void DynamicInstance::ProcessDead(const NodeInfo& info, Iteration* iteration) {
  if (info.kind == Kind::kEnter) {
    ProcessEnter(info, iteration, true);
  } else if (info.kind == Kind::kExit) {
    // The frame's end says it, unless another iteration brings a value.
    auto& state = iteration->frame->exits[static_cast<size_t>(info.exit)];
    if (state == FrameInstance::ExitState::kNone) state = FrameInstance::ExitState::kDead;
  } else if (info.kind == Kind::kSend) {
    ProcessSend(info, iteration, true);
  } else if (info.kind != Kind::kNextIteration) {
    WakeAll(info, iteration, true);
  }
  if (info.kind == Kind::kMerge) return Leave(iteration);
  Finished(info, iteration);
}

void DynamicInstance::ProcessForward(const NodeInfo& info, Iteration* iteration) {
  if (Status status = ReadReferences(info, iteration); !status.ok()) return Fail(std::move(status));
  for (int32_t k = 0; k < info.output_count; ++k) Forward(Input(info, k, iteration), iteration, info.first_output + k);
  Publish(info, iteration);
  WakeAll(info, iteration, false);
}

void DynamicInstance::ProcessSwitch(const NodeInfo& info, Iteration* iteration) {
  if (Status status = ReadReferences(info, iteration); !status.ok()) return Fail(std::move(status));
  const tenon_tensor_view& predicate = Input(info, 1, iteration).view;
  if (predicate.dl.ndim != 0)
    return Fail(InvalidArgument(StrCat(info.node->Describe(), ": its predicate must be a scalar, found the shape ", ShapeOf(predicate).ToString())));
  const int32_t taken = *static_cast<const uint8_t*>(DataOf(predicate)) != 0 ? 1 : 0;
  Forward(Input(info, 0, iteration), iteration, info.first_output + taken);
  if (info.fetch_count != 0) {
    for (int32_t i = 0; i < info.fetch_count; ++i) {
      const auto at = static_cast<size_t>(plan_->fetch_order()[static_cast<size_t>(info.first_fetch + i)]);
      if (plan_->fetches()[at].slot != info.first_output + taken)
        return Fail(NoValue(at));
    }
  }
  Publish(info, iteration);
  Wake(info, 0, 1, iteration, taken == 1);
  Wake(info, 1, 2, iteration, taken == 0);
  Wake(info, 2, 3, iteration, false);
}

void DynamicInstance::ProcessMerge(const NodeInfo& info, Iteration* iteration) {
  const int32_t live = iteration->states[static_cast<size_t>(info.local)].live;
  if (Status status = ReadReferences(info, iteration); !status.ok()) {
    Fail(std::move(status));
    return Leave(iteration);
  }
  Slot& value = Input(info, live, iteration);
  Forward(value, iteration, info.first_output);
  if (info.output_count > 1) {
    Slot& which = iteration->slots[static_cast<size_t>(info.first_output + 1)];
    auto memory = MemoryOf(iteration, &which, sizeof live);
    if (memory.ok()) {
      std::memcpy(*memory, &live, sizeof live);
      which.view = MakeView(TENON_DT_INT32, {nullptr, 0, 0}, *memory, sizeof live, nullptr);
      which.depth = iteration->info->depth;
      which.shape_id = 0;
    } else {
      Fail(Status(memory.status()).Annotate(info.node->Describe()));
    }
  }
  Publish(info, iteration);
  WakeAll(info, iteration, false);
  Use(iteration, &value);
  Leave(iteration);
}

void DynamicInstance::ProcessEnter(const NodeInfo& info, Iteration* iteration, bool dead) {
  if (!dead)
    if (Status status = ReadReferences(info, iteration); !status.ok()) return Fail(std::move(status));
  FrameInstance* child = ChildFrame(iteration, info);
  const Slot* value = dead ? nullptr : &Input(info, 0, iteration);
  if (info.constant_enter) {
    FrameInstance::Invariant& invariant = child->invariants.emplace_back(FrameInstance::Invariant{&info, dead, {}});
    if (!dead) {
      invariant.value = *value;
      invariant.value.owned = value->view.buffer != nullptr;
      if (invariant.value.owned) Retain(value->view.buffer);
    }
  }
  for (Iteration* each : child->iterations) {
    ++each->running;
    if (!dead) {
      if (info.constant_enter) {
        Lend(*value, each, info.first_output);
      } else if (Status status = Carry(*value, *iteration, each, info.first_output); !status.ok()) {
        Fail(std::move(status).Annotate(info.node->Describe()));
      }
    }
    WakeAll(info, each, dead, true);
    --each->running;
    if (!info.constant_enter) break;  // the first one alone
  }
  --child->pending_enters;
  Settle(child);
}

void DynamicInstance::ProcessExit(const NodeInfo& info, Iteration* iteration) {
  if (Status status = ReadReferences(info, iteration); !status.ok()) return Fail(std::move(status));
  auto& state = iteration->frame->exits[static_cast<size_t>(info.exit)];
  if (state == FrameInstance::ExitState::kLive)
    return Fail(InvalidArgument(StrCat(info.node->Describe(), " brings a second value out of its loop; it must take the side of a "
                                       "Switch that the loop's last turn alone takes")));
  state = FrameInstance::ExitState::kLive;
  Iteration* parent = iteration->frame->parent;
  if (Status status = Carry(Input(info, 0, iteration), *iteration, parent, info.first_output); !status.ok())
    return Fail(std::move(status).Annotate(info.node->Describe()));
  Publish(info, parent);
  WakeAll(info, parent, false);
}

// Whether the value went on; false: it waits until an iteration ends.
bool DynamicInstance::ProcessNext(const NodeInfo& info, Iteration* iteration) {
  if (Status status = ReadReferences(info, iteration); !status.ok()) {
    Fail(std::move(status));
    return true;
  }
  FrameInstance* frame = iteration->frame;
  const auto next = static_cast<size_t>(iteration->number + 1 - frame->first_number);
  if (next == frame->iterations.size()) {
    if (static_cast<int64_t>(frame->iterations.size()) >= frame->info->parallel_iterations) {
      frame->waiting.push_back(&info);
      return false;
    }
    NewIteration(frame);
  }
  Status status = Carry(Input(info, 0, iteration), *iteration, frame->iterations[next], info.first_output);
  if (!status.ok()) Fail(std::move(status).Annotate(info.node->Describe()));
  else WakeAll(info, frame->iterations[next], false);
  return true;
}

// ---- Kernels ----

// Reads the variables whose values the node wants.
Status DynamicInstance::ReadReferences(const NodeInfo& info, Iteration* iteration) {
  for (int32_t i = 0; i < info.dereference_count; ++i) {
    const auto& dereference = iteration->info->dereferences[static_cast<size_t>(info.first_dereference + i)];
    const Slot& from = iteration->slots[static_cast<size_t>(dereference.from)];
    Slot& to = iteration->slots[static_cast<size_t>(dereference.to)];
    if (info.kind == Kind::kMerge && dereference.input != iteration->states[static_cast<size_t>(info.local)].live) continue;
    Resource* resource = *static_cast<Resource**>(DataOf(from.view));
    const Device* device = nullptr;
    Status status;
    if (dereference.memory != 0) {
      const SessionDevice& owner = plan_->plan().env().devices[static_cast<size_t>(dereference.memory)];
      device = owner.device;
      status = work_.AwaitWrite(owner.first_queue, resource);
    }
    if (status.ok()) status = ReadVariable(resource, device, &to.view, nullptr, step_->cancellation);
    if (!status.ok()) return std::move(status).Annotate(StrCat(info.node->Describe(), ", input ", dereference.input));
    to.shape_id = 0;
    to.depth = iteration->info->depth;
    Own(iteration, &to, 1);
  }
  return Status::Ok();
}

void DynamicInstance::ProcessKernel(const NodeInfo& info, Iteration* iteration) {
  Call& call = iteration->calls[static_cast<size_t>(info.call)];
  Status status;
  if (info.dereference_count != 0) status = ReadReferences(info, iteration);
  if (status.ok()) status = Resolve(info, &call, iteration);
  if (status.ok()) status = MakeOutputs(info, &call, iteration);
  if (!status.ok()) {
    Fail(std::move(status));
    return Finished(info, iteration);
  }
  const tenon_kernel_registration& kernel = call.last->kernel->registration();
  call.step = step_;
  if (info.follows_queues) {
    status = call.place.device == nullptr ? work_.CatchUp() : work_.Follow(call.place.queue);
    if (!status.ok()) return Conclude(info, &call, std::move(status));
  }
  const bool may_run_elsewhere =
      (kernel.traits & (TENON_KERNEL_ASYNC | TENON_KERNEL_BLOCKING | TENON_KERNEL_EXPENSIVE)) != 0 && call.place.device == nullptr;
  if (may_run_elsewhere && RunsElsewhere(*call.last)) return StartElsewhere(&call);
  if ((kernel.traits & TENON_KERNEL_VIEW) != 0) {
    status = RunView(info, &call, iteration);
  } else if (call.place.device != nullptr) {
    status = RunQueued(&call);
  } else {
    if (call.last->workspace_bytes > 0) {
      status = Workspace(call.last->workspace_bytes);
      call.frame.workspace = workspace_;
    }
    const uint64_t begin = may_run_elsewhere ? NowNs() : 0;
    if (status.ok()) status = RunPrepared(*call.last, &call.frame);
    if (may_run_elsewhere) call.last->took_ns.store(NowNs() - begin, std::memory_order_relaxed);
  }
  Conclude(info, &call, std::move(status));
}

// ---- Devices with queues ----

Status DynamicInstance::BeginQueues() {
  TENON_RETURN_IF_ERROR(work_.Begin(step_));
  (void)work_.TakeRenewed();  // frames take their timeline at every run
  for (const SessionDevice& device : plan_->plan().env().devices)
    if (device.queued()) TENON_RETURN_IF_ERROR(work_.Use(device.first_queue));
  return Status::Ok();
}

// All on the main queue, in the order of the host's calls: so memory may go back to the pool as soon as its last user has
// been submitted.
Status DynamicInstance::RunQueued(Call* call) {
  SetPlace(call->place, *call->node, &call->frame);
  Buffer* workspace = nullptr;
  if (call->last->workspace_bytes > 0) {
    TENON_ASSIGN_OR_RETURN(workspace, call->place.device->pool->Allocate(call->last->workspace_bytes, {nullptr, 0, 0}));
    call->frame.workspace = workspace->data;
  }
  Status status = RunPrepared(*call->last, &call->frame);
  if (workspace != nullptr) Release(workspace);
  return status;
}

void DynamicInstance::ProcessTransfer(const NodeInfo& info, Iteration* iteration) {
  const Plan& plan = plan_->plan();
  Slot& target = iteration->slots[static_cast<size_t>(info.first_output)];
  Status status = ReadReferences(info, iteration);
  const bool fed = plan.FeedOf(info.node->inputs[0]) >= 0;
  if (status.ok()) status = TransferTo(plan.DeviceOf(info.id), plan.TransferFrom(info.id), Input(info, 0, iteration), fed, info, &target);
  if (!status.ok()) return Fail(std::move(status).Annotate(info.node->Describe()));
  target.made_for = nullptr;
  target.depth = iteration->info->depth;
  Own(iteration, &target, iteration->info->slots[static_cast<size_t>(info.first_output)].uses);
  Publish(info, iteration);
  WakeAll(info, iteration, false);
}

// A host value that stays as it is while its copy waits in a queue.
Result<const void*> DynamicInstance::KeepForCopy(const tenon_tensor_view& view, bool fed) {
  constexpr uint64_t kMostHeld = uint64_t{256} << 20;
  if (work_.held_bytes() > kMostHeld) TENON_RETURN_IF_ERROR(work_.CatchUp());
  if (fed) return DataOf(view);
  if (view.buffer != nullptr) {
    Retain(view.buffer);
    work_.Hold(view.buffer);
    return DataOf(view);
  }
  TENON_ASSIGN_OR_RETURN(Buffer * kept, pool_->Allocate(view.byte_size, {nullptr, 0, 0}));
  if (view.byte_size > 0) std::memcpy(kept->data, DataOf(view), view.byte_size);
  work_.Hold(kept);
  return kept->data;
}

Status DynamicInstance::TransferTo(int32_t memory, int32_t from, const Slot& source, bool fed, const NodeInfo& info, Slot* target) {
  const std::vector<SessionDevice>& devices = plan_->plan().env().devices;
  const SessionDevice& to = devices[static_cast<size_t>(memory)];
  const SessionDevice& worker = devices[static_cast<size_t>(from == 0 ? memory : from)];
  const tenon_tensor_view& view = source.view;
  TENON_ASSIGN_OR_RETURN(Buffer * buffer, (memory == 0 ? pool_ : to.pool)->Allocate(view.byte_size, {view.dl.shape, view.dl.ndim, 0}));
  target->view = MakeView(view.dtype, {buffer->dims, buffer->rank, 0}, buffer->data, view.byte_size, buffer);
  target->shape_id = source.shape_id;
  if (memory != 0) MarkDevice(&target->view, *to.device);
  const auto handle = [&](int32_t at) { return at == 0 ? nullptr : devices[static_cast<size_t>(at)].device->handle; };
  tenon_copy_args args{TENON_HEAD(tenon_copy_args), DataOf(view), buffer->data, view.byte_size, handle(from), handle(memory)};
  const auto copy = [&]() -> Status {
    if (from == 0) {
      TENON_ASSIGN_OR_RETURN(args.source, KeepForCopy(view, fed));
      return work_.Copy(worker.first_queue, args, {}, info.node->name, nullptr);
    }
    if (from == memory) return work_.Copy(worker.first_queue, args, {}, info.node->name, nullptr);
    tenon_timeline_point done{};
    if (memory == 0) {
      TENON_RETURN_IF_ERROR(work_.Copy(worker.first_queue, args, {}, info.node->name, &done));
      return work_.HostWait(done);
    }
    // The memory was the target's; its earlier users there come first.
    TENON_ASSIGN_OR_RETURN(const tenon_timeline_point free, work_.Signal(to.first_queue, info.node->name));
    TENON_RETURN_IF_ERROR(work_.Copy(worker.first_queue, args, {&free, 1}, info.node->name, &done));
    return work_.Wait(to.first_queue, {&done, 1});
  };
  Status status = copy();
  if (!status.ok()) work_.Hold(buffer);  // a copy may still write to it
  return status;
}

// A kernel has run, well or not.
void DynamicInstance::Conclude(const NodeInfo& info, Call* call, Status status) {
  Iteration* iteration = call->iteration;
  Status taken = TakeOutputs(info, call, iteration, status.ok());
  if (status.ok()) status = std::move(taken);
  if (!status.ok()) {
    Fail(std::move(status));
  } else if (error_.ok()) {
    Publish(info, iteration);
    WakeAll(info, iteration, false);
  }
  Finished(info, iteration);
}

bool DynamicInstance::RunsElsewhere(const PreparedNode& prepared) const {
  constexpr uint64_t kWorthAThread = 50000;  // ns; to hand work over and back takes some tens of microseconds
  const tenon_kernel_registration& kernel = prepared.kernel->registration();
  if ((kernel.traits & TENON_KERNEL_VIEW) != 0) return false;
  if ((kernel.traits & TENON_KERNEL_ASYNC) != 0 && kernel.run_async != nullptr) return true;
  if ((kernel.traits & TENON_KERNEL_BLOCKING) != 0) return true;
  // A kernel worth a thread goes to one when there is other work for this one, unless it was seen to be short. What a schedule's
  // seed decides no clock does.
  const uint64_t took = prepared.took_ns.load(std::memory_order_relaxed);
  return (shuffled_ || took == 0 || took >= kWorthAThread) && ready_head_ != ready_tail_ && step_->env->threads->threads() > 1;
}

Status DynamicInstance::Resolve(const NodeInfo& info, Call* call, Iteration* iteration) {
  const auto slot = [call](int32_t i) { return reinterpret_cast<const Slot*>(call->frame.inputs[i]); };
  static_assert(offsetof(Slot, view) == 0);
  bool same = call->last != nullptr;
  for (int32_t i = 0; i < info.input_count && same; ++i) same = call->seen[i] != 0 && call->seen[i] == slot(i)->shape_id;
  if (same) return Status::Ok();
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<const PreparedNode> prepared,
                         info.runner->Resolve({call->frame.inputs, static_cast<size_t>(info.input_count)}, call->last));
  if (prepared != call->last) {
    for (int32_t k = 0; k < info.output_count; ++k) iteration->slots[static_cast<size_t>(info.first_output + k)].made_for = nullptr;
    call->last = std::move(prepared);
    call->frame.workspace_bytes = call->last->workspace_bytes;
  }
  // What depends on values is asked each time.
  const bool values = info.runner->value_dependent();
  for (int32_t i = 0; i < info.input_count; ++i) call->seen[i] = values ? 0 : slot(i)->shape_id;
  return Status::Ok();
}

Status DynamicInstance::MakeOutputs(const NodeInfo& info, Call* call, Iteration* iteration) {
  const PreparedNode* prepared = call->last.get();
  for (int32_t k = 0; k < info.output_count; ++k)
    if (iteration->slots[static_cast<size_t>(info.first_output + k)].made_for != prepared)
      TENON_RETURN_IF_ERROR(MakeOutput(info, k, *prepared, iteration));
  return Status::Ok();
}

Status DynamicInstance::MakeOutput(const NodeInfo& info, int32_t k, const PreparedNode& prepared, Iteration* iteration) {
  const auto at = static_cast<size_t>(info.first_output + k);
  Slot& slot = iteration->slots[at];
  const DType dtype = info.node->output_types[static_cast<size_t>(k)];
  slot.depth = iteration->info->depth;
  slot.shape_id = 0;
  if (prepared.kernel->dynamic_output(static_cast<size_t>(k)) || (k == 0 && prepared.kernel->has(TENON_KERNEL_VIEW))) {
    slot.view = {};
    return Status::Ok();
  }
  const Shape shape = IsRef(dtype) ? Shape() : prepared.outputs[static_cast<size_t>(k)].shape;
  if (!shape.fully_known())
    return Internal(StrCat(info.node->Describe(), ": the shape of output ", k, " is not known, and its kernel does not allocate it"));
  const uint64_t bytes = IsRef(dtype) ? sizeof(Resource*) : prepared.output_bytes[static_cast<size_t>(k)];
  const Place& place = iteration->calls[static_cast<size_t>(info.call)].place;
  const bool on_device = !place.host_output(static_cast<size_t>(k));
  if (bytes > kSmallBytes || on_device || !(IsPlain(dtype) || IsRef(dtype) || dtype == TENON_DT_RESOURCE)) {
    auto buffer = PoolOf(*step_, place, static_cast<size_t>(k))->Allocate(bytes, shape.c());
    if (!buffer.ok()) return Status(buffer.status()).Annotate(StrCat(info.node->Describe(), ", output ", k));
    slot.view = MakeView(dtype, {(*buffer)->dims, (*buffer)->rank, 0}, (*buffer)->data, bytes, *buffer);
    MarkOutput(place, static_cast<size_t>(k), &slot.view);
    Own(iteration, &slot, iteration->info->slots[at].uses);
    return Status::Ok();
  }
  auto memory = MemoryOf(iteration, &slot, std::max<uint64_t>(bytes, 1));
  if (!memory.ok()) return Status(memory.status()).Annotate(StrCat(info.node->Describe(), ", output ", k));
  const tenon_shape dims = IsRef(dtype) ? tenon_shape{nullptr, 0, 0} : prepared.outputs[static_cast<size_t>(k)].shape.c();
  slot.view = MakeView(dtype, dims, *memory, bytes, nullptr);
  slot.made_for = &prepared;
  slot.shape_id = k < kShapeIds ? prepared.shape_ids + static_cast<uint64_t>(k) : 0;
  return Status::Ok();
}

// After the kernel: what it allocated or shared belongs to the slots, also when it failed.
Status DynamicInstance::TakeOutputs(const NodeInfo& info, Call* call, Iteration* iteration, bool ran_well) {
  for (int32_t k = 0; k < info.output_count; ++k) {
    const auto at = static_cast<size_t>(info.first_output + k);
    Slot& slot = iteration->slots[at];
    if (slot.view.buffer == nullptr) continue;
    slot.made_for = nullptr;
    slot.shape_id = 0;
    if (!slot.owned) Own(iteration, &slot, iteration->info->slots[at].uses);
  }
  for (int32_t k = 0; ran_well && k < info.output_count; ++k) {
    const tenon_tensor_view& view = iteration->slots[static_cast<size_t>(info.first_output + k)].view;
    if (view.buffer == nullptr && view.dl.data == nullptr && call->last->kernel->dynamic_output(static_cast<size_t>(k)))
      return NotSet(*call, static_cast<size_t>(k));
    TENON_RETURN_IF_ERROR(CheckCells(*call, static_cast<size_t>(k), view));
  }
  return Status::Ok();
}

// The result is the input's memory under other dims.
Status DynamicInstance::RunView(const NodeInfo& info, Call* call, Iteration* iteration) {
  const Shape& shape = call->last->outputs[0].shape;
  if (!shape.fully_known()) return Internal(StrCat(info.node->Describe(), ": the shape of its result is not known"));
  const Slot& from = Input(info, 0, iteration);
  Slot& slot = iteration->slots[static_cast<size_t>(info.first_output)];
  Forward(from, iteration, info.first_output);
  slot.view.dl.ndim = shape.rank();
  slot.view.dl.shape = const_cast<int64_t*>(shape.dims().data());
  slot.shape_id = call->last->shape_ids;
  return Status::Ok();
}

Status DynamicInstance::Workspace(uint64_t bytes) {
  if (bytes <= workspace_bytes_) return Status::Ok();
  if (workspace_ != nullptr) pool_->FreeRaw(std::exchange(workspace_, nullptr), std::exchange(workspace_bytes_, 0));
  TENON_ASSIGN_OR_RETURN(workspace_, pool_->AllocateRaw(bytes));
  workspace_bytes_ = bytes;
  return Status::Ok();
}

// ---- Kernels that run elsewhere ----

void DynamicInstance::StartElsewhere(Call* call) {
  ++outstanding_;
  call->elsewhere = true;
  call->number = nullptr;
  call->plugin = &call->last->kernel->plugin();
  call->function = "run";
  call->status = Status::Ok();
  call->begin_ns = step_->trace != nullptr ? trace::Trace::Now() : 0;
  // What could not be begun comes back as what has failed.
  Status refused = Guarded([&] { return StartThere(call); });
  if (refused.ok()) return;
  call->status = At(*call->node, std::move(refused));
  Post(call);
}

// OK: the call will be posted, or was.
Status DynamicInstance::StartThere(Call* call) {
  if (call->last->workspace_bytes > 0) {
    auto workspace = pool_->Allocate(call->last->workspace_bytes, {nullptr, 0, 0});
    if (!workspace.ok()) return std::move(workspace).status().Annotate("its workspace");
    call->workspace = *workspace;
    call->frame.workspace = call->workspace->data;
  }
  const tenon_kernel_registration& kernel = call->last->kernel->registration();
  if ((kernel.traits & TENON_KERNEL_ASYNC) != 0 && kernel.run_async != nullptr) {
    call->function = "run_async";
    TENON_ASSIGN_OR_RETURN(void* const number, AsyncCalls::The().Open(call, {*call->plugin, "run_async() of node", call->node->name}));
    call->number = number;
    tenon_status* refused = StartAsync(*call->last->kernel, call->last->prepared, &call->frame, number);
    if (refused != nullptr) CallDone(number, refused);
    return Status::Ok();
  }
  const auto run = [call] { RunThere(call); };
  if ((kernel.traits & TENON_KERNEL_BLOCKING) != 0) return step_->env->threads->ScheduleWaiting(run);
  if (!step_->env->threads->Schedule(run).ok()) run();
  return Status::Ok();
}

void DynamicInstance::RunThere(Call* call) {
  const uint64_t begin = NowNs();
  call->status = Guarded([&] { return RunPrepared(*call->last, &call->frame); });
  call->last->took_ns.store(NowNs() - begin, std::memory_order_relaxed);
  call->instance->Post(call);
}

tenon_status* DynamicInstance::StartAsync(const KernelInstance& kernel, const tenon_prepared* prepared, tenon_frame* frame, void* number) {
  const KernelCall mark(frame);
  try {
    return kernel.registration().run_async(kernel.state(), prepared, frame, &CallDone, number);
  } catch (...) {
    EndLostUpdates(*frame);
    return Thrown(kernel.plugin(), "run_async").release();
  }
}

void DynamicInstance::CallDone(void* argument, tenon_status* status) {
  auto* call = static_cast<Call*>(AsyncCalls::The().Close(argument));
  if (call == nullptr) return ReleaseStatus(status);
  if (call->step->trace != nullptr) call->end_ns = trace::Trace::Now();
  call->status = At(*call->node, Status(status));
  ReleasePins(call);
  call->instance->Post(call);
}

void DynamicInstance::Post(Call* call) {
  std::lock_guard lock(inbox_mutex_);
  inbox_.Put(call);
  inbox_wake_.notify_one();
}

// Until something has come, or the step is cancelled. One that is cancelled already waits so long as kernels have patience for.
void DynamicInstance::AwaitInbox() {
  const auto has_come = [this] { return !inbox_.empty() || !arrived_.empty(); };
  if (step_->cancellation->cancelled()) {
    std::unique_lock lock(inbox_mutex_);
    const std::chrono::seconds patience = Patience();
    if (patience.count() == 0) inbox_wake_.wait(lock, has_come);
    else if (!inbox_wake_.wait_for(lock, patience, has_come)) abandoned_ = true;
    return;
  }
  bool cancelled = false;
  const Subscription subscription(step_->cancellation, [&](const Status&) {
    std::lock_guard lock(inbox_mutex_);
    cancelled = true;
    inbox_wake_.notify_one();
  });
  std::unique_lock lock(inbox_mutex_);
  inbox_wake_.wait(lock, [&] { return cancelled || has_come(); });
}

// How long a step that is cancelled waits for what runs elsewhere: a thread of ours does come back, if the kernel's work is not endless.
// 0: for ever, since it is receives alone, which end when their rendezvous does.
std::chrono::seconds DynamicInstance::Patience() const {
  constexpr std::chrono::seconds kForDone(5), kForThreads(30);
  std::chrono::seconds patience(0);
  for (const auto& iteration : iterations_)
    for (size_t i = 0; i < iteration->info->kernels.size(); ++i)
      if (iteration->calls[i].elsewhere) patience = std::max(patience, iteration->calls[i].number == nullptr ? kForThreads : kForDone);
  return patience;
}

// What runs still may use all that the step has, whenever it ends: nothing of it is used or freed any more.
void DynamicInstance::Abandon() {
  std::string who;
  const auto note = [&](const Call& call) {
    who += StrCat(who.empty() ? "" : "; ", call.node->Describe(), ": ", DescribePlugin(*call.plugin), ": its ", call.function, "() has not ",
                  call.number != nullptr ? "called done" : "returned");
  };
  for (const auto& iteration : iterations_)
    for (size_t i = 0; i < iteration->info->kernels.size(); ++i) {
      const Call& call = iteration->calls[i];
      if (!call.elsewhere) continue;
      if (call.number != nullptr) AsyncCalls::The().GiveUp(call.number);
      (void)Guarded([&] { note(call); });  // without memory for a name it goes without
    }
  for (const auto& slot : root_iteration_->slots)
    if (slot.view.buffer != nullptr) Retain(slot.view.buffer);
  error_ = std::move(error_).Annotate(who);
  Log(TENON_LOG_ERROR, Status::Of(Code::kInternal, who, " since the step was ended; what the step has is kept for it until the process ends").message());
}

void DynamicInstance::TakeInbox(bool wait) {
  if (wait) AwaitInbox();
  // One after the other: what is thrown on the way leaves the others where they are.
  const auto take = [this](auto& from) {
    std::lock_guard lock(inbox_mutex_);
    return from.Take();
  };
  while (Receipt* receipt = take(arrived_)) Conclude(receipt);
  while (Call* call = take(inbox_)) {
    --outstanding_;
    call->elsewhere = false;
    if (call->workspace != nullptr) Release(std::exchange(call->workspace, nullptr));
    if (call->end_ns != 0) step_->trace->Add(call->node->name, call->node->op->name, call->begin_ns, std::exchange(call->end_ns, 0));
    Conclude(*call->info, call, std::move(call->status));
  }
}

}  // namespace tenon::exec
