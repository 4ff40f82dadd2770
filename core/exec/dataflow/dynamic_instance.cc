// SPDX-License-Identifier: Apache-2.0
#include "core/exec/dataflow/dynamic_instance.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

#include "core/base/checked.h"
#include "core/base/clock.h"
#include "core/base/flush_denormals.h"
#include "core/base/guard.h"
#include "core/exec/device/environment.h"
#include "core/exec/device/step.h"
#include "core/exec/device/transfer.h"
#include "core/exec/kernel/outputs.h"
#include "core/exec/threads/host_threads.h"
#include "core/graph/graph.h"

namespace tenon::exec {
namespace {

// Results up to this many bytes live in their iteration's own memory.
constexpr uint64_t kSmallBytes = 1024;
constexpr uint64_t kAlignment = 64;
// Of so many choices between turns of loops, or the step itself, one is not by their order. And so many nodes run
// before what the host waits for, and no more.
constexpr uint32_t kOrderly = 64, kPatience = 100'000;

}  // namespace

Result<std::unique_ptr<DynamicInstance>> DynamicInstance::Create(const DynamicPlan* plan) {
  return std::unique_ptr<DynamicInstance>(new DynamicInstance(plan));
}

DynamicInstance::DynamicInstance(const DynamicPlan* plan)
    : plan_(plan),
      pool_(plan->plan().env().pool),
      work_(&plan->plan().env()),
      shuffled_(plan->plan().options().schedule_seed != 0),
      fetched_(plan->fetches().size()),
      spare_iterations_(plan->frames().size()),
      spare_frames_(plan->frames().size()) {
  root_.info = &plan->frames()[graph::kStep];
  root_iteration_ = MakeIteration(graph::kStep);
  root_iteration_->frame = &root_;
  root_.iterations.push_back(root_iteration_);
  if (shuffled_) random_.seed(plan_->plan().options().schedule_seed);  // each step goes on from there, in another order
}

DynamicInstance::~DynamicInstance() {
  Finish();
  for (const auto& iteration : iterations_)
    for (const auto& [data, bytes] : iteration->chunks) {
      Permit(data, bytes);
      pool_->FreeRaw(data, bytes);
    }
  if (workspace_ != nullptr) pool_->FreeRaw(workspace_, workspace_bytes_);
}

// ---- The step ----

Status DynamicInstance::Run(Step* step, const tenon_tensor_view* const* feeds) {
  step_ = step;
  turns_ = 0;
  error_ = Status::Ok();
  failed_ = false;
  return Drive([&] { Begin(feeds); });
}

Status DynamicInstance::GoOn() {
  unpark_.End();
  return Drive([] {});
}

template <typename First>
Status DynamicInstance::Drive(First first) {
  const FlushDenormals flush;
  stands_still_ = false;
  const auto guarded = [this](auto part) {
    Status thrown = Guarded(part);
    if (thrown.ok()) return true;
    Fail(std::move(thrown));
    return false;
  };
  guarded(first);
  // What is thrown ends the step, but not before what runs elsewhere has come back.
  while (!guarded([&] { Loop(); })) continue;
  if (stands_still_) return Status::Ok();
  Status status = std::move(error_);
  if (work_.begun()) status = work_.Complete(std::move(status));
  for (size_t i = 0; i < fetched_.size() && status.ok(); ++i)
    status = fetched_[i].present ? ReadFetched(i) : NoValue(i);
  return status;
}

// A reference is fetched as the step leaves its variable, as straight code does.
Status DynamicInstance::ReadFetched(size_t fetch) {
  Fetched& fetched = fetched_[fetch];
  if (fetched.variable == nullptr) return Status::Ok();
  const graph::Edge& edge = plan_->plan().fetches()[fetch];
  Status status = Dereference(fetched.variable, BaseType(plan_->plan().graph().TypeOf(edge)), nullptr, &work_,
                              QueueId(), step_->cancellation, &fetched.view);
  if (!status.ok()) return std::move(status).Annotate(plan_->plan().graph().node(edge.node).Describe());
  fetched.owned = true;
  return Status::Ok();
}

void DynamicInstance::Begin(const tenon_tensor_view* const* feeds) {
  const FrameInfo& info = plan_->frames()[graph::kStep];
  std::copy(info.initial.begin(), info.initial.end(), root_iteration_->states.begin());
  for (size_t i = 0; i < plan_->plan().feeds().size(); ++i) {
    // Feeds have the first slots.
    tenon_tensor_view& view = root_iteration_->slots[i].view;
    view = *feeds[i];
    view.flags = FeedFlags(*feeds[i], plan_->plan().MemoryOf(plan_->plan().feeds()[i]) == 0);
  }
  for (size_t i = 0; i < fetched_.size(); ++i)
    if (plan_->fetches()[i].is_static)
      fetched_[i] = {root_iteration_->slots[plan_->fetches()[i].slot].view, true, false};
  for (const Target& target : plan_->fed_merges()) Deliver(target, root_iteration_, false);
  for (LocalId source : info.sources) Push(source, root_iteration_, false);
  if (!plan_->plan().uses_queues()) return;
  if (Status status = BeginQueues(); !status.ok()) Fail(std::move(status));
}

Status DynamicInstance::NoValue(size_t fetch) const {
  const Plan& plan = plan_->plan();
  return InvalidArgument(StrCat("fetch '", plan.graph().EdgeName(plan.fetches()[fetch]),
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
  ForgetReady();
  step_ = nullptr;
}

void DynamicInstance::Fail(Status status) noexcept {
  if (!error_.ok()) return;
  failed_ = true;
  error_ = std::move(status);
  if (!step_->cancellation->cancelled())
    step_->cancellation->Cancel(Status::Of(Code::kCancelled, "another node of the step failed: ", error_.message()));
}

void DynamicInstance::Loop() {
  for (;;) {
    if (step_->cancellation->cancelled() && error_.ok()) Fail(step_->cancellation->reason());
    if (!error_.ok()) {
      ForgetReady();
      if (outstanding_ == 0) return;
      if (abandoned_) return Abandon();
    }
    const bool idle = active_.empty() && put_off_.empty();
    if (idle && step_->enough && error_.ok() && MayStandStill()) {
      stands_still_ = true;
      return;
    }
    if (idle && outstanding_ > 0 && step_->resumer != nullptr && error_.ok() && Park()) {
      stands_still_ = true;
      return;
    }
    if (outstanding_ > 0) TakeInbox(idle);
    else if (idle) return;
    if (!error_.ok()) continue;
    const bool its_turn = !put_off_.empty() && (active_.empty() || ++passed_over_ > kPatience);
    if (its_turn) Process(TakePutOff(), true);
    else if (!active_.empty()) Process(TakeReady());
  }
}

// Nothing has come that is not looked at, and something will.
bool DynamicInstance::MayStandStill() {
  {
    std::lock_guard lock(inbox_mutex_);
    if (outstanding_ == 0 || !inbox_.empty() || !arrived_.empty()) return false;
  }
  const auto receives = static_cast<int64_t>(receipts_.size() - spare_receipts_.size());
  step_->left_elsewhere = receives != outstanding_;
  return !step_->left_elsewhere || (step_->trace == nullptr && step_->watcher == nullptr && step_->enough());
}

DynamicInstance::Ready DynamicInstance::TakePutOff() {
  passed_over_ = 0;
  const Ready ready = put_off_[put_off_begin_];
  if (++put_off_begin_ == put_off_.size()) {
    put_off_.clear();
    put_off_begin_ = 0;
  }
  return ready;
}

// Which has the node that comes first; there are several.
DynamicInstance::Iteration* DynamicInstance::FirstActive() {
  if (++chosen_ % kOrderly == 0) return active_[chosen_ / kOrderly % active_.size()];
  const auto turn_of = [](Iteration* iteration) {
    if (iteration->turn != 0) return iteration->turn;
    while (iteration->ready[iteration->first_ready] == 0) ++iteration->first_ready;
    const auto first = static_cast<int32_t>(
        iteration->first_ready * 64 + static_cast<size_t>(std::countr_zero(iteration->ready[iteration->first_ready])));
    return static_cast<uint64_t>(iteration->info->nodes[LocalId(first)].rank) << 32;
  };
  Iteration* first = active_[0];
  uint64_t turn = turn_of(first);
  for (size_t i = 1; i < active_.size(); ++i)
    if (const uint64_t other = turn_of(active_[i]); other < turn) {
      first = active_[i];
      turn = other;
    }
  return first;
}

DynamicInstance::Ready DynamicInstance::TakeReady() {
  Iteration* const iteration = shuffled_             ? active_[random_() % active_.size()]
                               : active_.size() == 1 ? active_[0]
                                                     : FirstActive();
  uint64_t* const ready = iteration->ready.data();
  size_t word = iteration->first_ready;
  int bit = 0;
  if (shuffled_) {
    word = random_() % iteration->ready.size();
    while (ready[word] == 0) word = (word + 1) % iteration->ready.size();
    const int turned = static_cast<int>(random_() % 64);
    bit = (std::countr_zero(std::rotr(ready[word], turned)) + turned) % 64;
  } else {
    while (ready[word] == 0) ++word;
    iteration->first_ready = word;
    bit = std::countr_zero(ready[word]);
  }
  ready[word] ^= uint64_t{1} << bit;
  bool dead = false;
  if (iteration->dead_count != 0) {
    uint64_t& dead_word = iteration->ready_dead[word];
    dead = (dead_word >> bit & 1) != 0;
    dead_word &= ~(uint64_t{1} << bit);
    iteration->dead_count -= static_cast<size_t>(dead);
  }
  if (--iteration->ready_count == 0) {
    active_[iteration->active_at] = active_.back();
    active_.back()->active_at = iteration->active_at;
    active_.pop_back();
  }
  return {LocalId(static_cast<int32_t>(word * 64) + bit), dead, iteration};
}

void DynamicInstance::ForgetReady() {
  for (Iteration* iteration : active_) {
    std::fill(iteration->ready.begin(), iteration->ready.end(), 0);
    std::fill(iteration->ready_dead.begin(), iteration->ready_dead.end(), 0);
    iteration->ready_count = iteration->dead_count = 0;
  }
  active_.clear();
  put_off_.clear();
  put_off_begin_ = 0;
}

void DynamicInstance::Finished(const NodeInfo& info, Iteration* iteration) {
  for (int32_t i = 0; i < info.input_count; ++i) Use(iteration, &Input(info, i, iteration));
  for (int32_t i = 0; i < info.dereference_count; ++i) {
    const auto& dereference = iteration->info->dereferences[info.first_dereference + i];
    Use(iteration, &iteration->slots[dereference.from]);
  }
  Leave(iteration);
}

// A node of the iteration is done; a loop may be with it.
void DynamicInstance::Leave(Iteration* iteration) {
  if (--iteration->running == 0 && iteration->frame != &root_) Settle(iteration->frame);
}

// ---- Nodes ----

// now: though others are ready that the host would keep waiting.
void DynamicInstance::Process(const Ready& ready, bool now) {
  Iteration* iteration = ready.iteration;
  const NodeInfo& info = iteration->info->nodes[ready.node];
  if (ready.dead && !info.runs_when_dead) return ProcessDead(info, iteration);
  if (info.host_waits && !now && !active_.empty()) {
    put_off_.push_back(ready);
    return;
  }
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
                                      TypeName(info.node->output_types[k]))));
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
    auto& state = iteration->frame->exits[info.exit];
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
    return Fail(InvalidArgument(StrCat(info.node->Describe(), ": its predicate must be a scalar, found the shape ",
                                       ShapeOf(predicate).ToString())));
  const int32_t taken = *static_cast<const uint8_t*>(DataOf(predicate)) != 0 ? 1 : 0;
  Forward(Input(info, 0, iteration), iteration, info.first_output + taken);
  if (info.fetch_count != 0) {
    for (int32_t i = 0; i < info.fetch_count; ++i) {
      const size_t at = plan_->fetch_order()[info.first_fetch + i];
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
  const int32_t live = iteration->states[info.local].live;
  if (Status status = ReadReferences(info, iteration); !status.ok()) {
    Fail(std::move(status));
    return Leave(iteration);
  }
  Slot& value = Input(info, live, iteration);
  Forward(value, iteration, info.first_output);
  if (info.output_count > 1) {
    Slot& which = iteration->slots[info.first_output + 1];
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
  auto& state = iteration->frame->exits[info.exit];
  if (state == FrameInstance::ExitState::kLive)
    return Fail(InvalidArgument(StrCat(info.node->Describe(),
                                       " brings a second value out of its loop; it must take the side of a "
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
  const size_t next = iteration->number + 1 - frame->first_number;
  if (next == frame->iterations.size()) {
    const bool is_bound = frame->pending_enters == 0 || !plan_->plan().options().turns_while_entered;
    if (is_bound && static_cast<int64_t>(frame->iterations.size()) >= frame->info->parallel_iterations) {
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

// ---- Values on their way ----

void DynamicInstance::Push(LocalId node, Iteration* iteration, bool dead) {
  ++iteration->running;
  const auto at = static_cast<size_t>(node.number());
  if (iteration->ready_count == 0) {
    iteration->active_at = active_.size();
    active_.push_back(iteration);
    iteration->first_ready = at / 64;
  } else if (at / 64 < iteration->first_ready) {
    iteration->first_ready = at / 64;
  }
  ++iteration->ready_count;
  const uint64_t mask = uint64_t{1} << (at % 64);
  iteration->ready[at / 64] |= mask;
  if (!dead) return;
  iteration->ready_dead[at / 64] |= mask;
  ++iteration->dead_count;
}

void DynamicInstance::DeliverToMerge(const Target& target, Iteration* iteration, bool dead, bool from_enter) {
  NodeState& state = iteration->states[target.node];
  const NodeInfo& info = iteration->info->nodes[target.node];
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

// Into another iteration: what stands in memory that the source iteration will use again is copied.
Status DynamicInstance::Carry(const Slot& from, const Iteration& source, Iteration* iteration, int32_t to) {
  Slot& slot = iteration->slots[to];
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
    Own(iteration, &slot, iteration->info->slots[to].uses);
    return Status::Ok();
  }
  if (stays) {
    slot.view = view;
    return Status::Ok();
  }
  const uint64_t bytes = RoundUp(view.byte_size, kAlignment);
  TENON_ASSIGN_OR_RETURN(char* memory,
                         MemoryOf(iteration, &slot, bytes + sizeof(int64_t) * static_cast<uint64_t>(view.dl.ndim)));
  if (view.byte_size == 4) std::memcpy(memory, DataOf(view), 4);
  else std::memcpy(memory, DataOf(view), view.byte_size);
  slot.view = view;
  slot.view.dl.data = memory;
  slot.view.dl.byte_offset = 0;
  Forbid(memory + view.byte_size, bytes - view.byte_size);
  slot.view.dl.shape = reinterpret_cast<int64_t*>(memory + bytes);
  for (int32_t i = 0; i < view.dl.ndim; ++i) slot.view.dl.shape[i] = view.dl.shape[i];
  slot.depth = iteration->info->depth;
  return Status::Ok();
}

// The slot's own memory, grown when it must be; old memory stays with the iteration.
Result<char*> DynamicInstance::MemoryOf(Iteration* iteration, Slot* slot, uint64_t bytes) {
  if (bytes + kGuardBytes <= slot->capacity) {
    PermitOnly(slot->memory, bytes, slot->capacity);
    return slot->memory;
  }
  const uint64_t wanted = std::bit_ceil(std::max(bytes, kAlignment)) + kGuardBytes;
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
  PermitOnly(slot->memory, bytes, wanted);
  return slot->memory;
}

// The node's values are there: keeps what is fetched, lets go what nobody consumes.
void DynamicInstance::Publish(const NodeInfo& info, Iteration* outputs) {
  if (info.fetch_count != 0) NoteFetches(info, outputs);
  for (int32_t k = 0; k < info.output_count; ++k) {
    Slot& slot = outputs->slots[info.first_output + k];
    if (slot.owned && slot.uses == 0) Use(outputs, &slot);
  }
}

// Outputs that were put into their slots, with buffers that are the slots' own; or none.
void DynamicInstance::Emit(const NodeInfo& info, Iteration* iteration, bool dead) {
  if (!dead) {
    for (int32_t k = 0; k < info.output_count; ++k) {
      const int32_t at = info.first_output + k;
      Own(iteration, &iteration->slots[at], iteration->info->slots[at].uses);
    }
    Publish(info, iteration);
  }
  WakeAll(info, iteration, dead);
}

void DynamicInstance::NoteFetches(const NodeInfo& info, Iteration* outputs) {
  for (int32_t i = 0; i < info.fetch_count; ++i) {
    const size_t at = plan_->fetch_order()[info.first_fetch + i];
    const Slot& slot = outputs->slots[plan_->fetches()[at].slot];
    Fetched& fetched = fetched_[at];
    fetched.view = slot.view;
    if (IsRef(slot.view.dtype)) {
      fetched.variable = *static_cast<Resource**>(DataOf(slot.view));
    } else if (slot.view.buffer != nullptr) {
      Retain(slot.view.buffer);
      fetched.owned = true;
    }
    fetched.present = true;
  }
}

// ---- Kernels ----

// Reads the variables whose values the node wants.
Status DynamicInstance::ReadReferences(const NodeInfo& info, Iteration* iteration) {
  for (int32_t i = 0; i < info.dereference_count; ++i) {
    const auto& dereference = iteration->info->dereferences[info.first_dereference + i];
    const Slot& from = iteration->slots[dereference.from];
    Slot& to = iteration->slots[dereference.to];
    if (info.kind == Kind::kMerge && dereference.input != iteration->states[info.local].live) continue;
    Resource* resource = *static_cast<Resource**>(DataOf(from.view));
    const SessionDevice* owner = dereference.memory == 0 ? nullptr : &plan_->plan().env().devices[dereference.memory];
    Status status = Dereference(resource, dereference.dtype, owner == nullptr ? nullptr : owner->device, &work_,
                                owner == nullptr ? QueueId() : owner->first_queue, step_->cancellation, &to.view);
    if (!status.ok()) return std::move(status).Annotate(StrCat(info.node->Describe(), ", input ", dereference.input));
    to.shape_id = 0;
    to.depth = iteration->info->depth;
    Own(iteration, &to, 1);
  }
  return Status::Ok();
}

// Whether a kernel may run on another thread: one that says that it is worth it, and any other whose outputs alone tell
// that it has run, until it was seen to be short. Such are timed.
inline bool DynamicInstance::MayLeave(const NodeInfo& info, const Call& call, uint32_t traits) {
  if ((traits & TENON_KERNEL_VIEW) != 0) return false;
  if ((traits & (TENON_KERNEL_ASYNC | TENON_KERNEL_BLOCKING | TENON_KERNEL_EXPENSIVE)) != 0) return true;
  if (!info.may_run_beside) return false;
  const uint64_t took = call.last->took_ns.load(std::memory_order_relaxed);
  return took == 0 || took >= kWorthAThreadNs;
}

void DynamicInstance::ProcessKernel(const NodeInfo& info, Iteration* iteration) {
  Call& call = iteration->calls[info.call];
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
  const bool timed = call.place.device == nullptr && MayLeave(info, call, kernel.traits);
  if (timed && RunsElsewhere(call, kernel)) return StartElsewhere(&call);
  if ((kernel.traits & TENON_KERNEL_VIEW) != 0) {
    status = RunView(info, &call, iteration);
  } else if (call.place.device != nullptr) {
    status = RunQueued(&call);
  } else {
    if (call.last->workspace_bytes > 0) {
      status = Workspace(call.last->workspace_bytes);
      call.frame.workspace = workspace_;
    }
    if (status.ok()) status = timed ? RunTimed(*call.last, &call.frame) : RunPrepared(*call.last, &call.frame);
  }
  Conclude(info, &call, std::move(status));
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

bool DynamicInstance::RunsElsewhere(const Call& call, const tenon_kernel_registration& kernel) const {
  if ((kernel.traits & TENON_KERNEL_ASYNC) != 0 && kernel.run_async != nullptr) return true;
  if ((kernel.traits & TENON_KERNEL_BLOCKING) != 0) return true;
  // One goes where there is other work for this thread, and to no more threads than a step has, each of which may be in
  // a branch of its own, with its values. What a schedule's seed decides no clock does.
  if (active_.empty() || computing_ + 1 >= step_->env->threads->threads()) return false;
  const PreparedNode& prepared = *call.last;
  const uint64_t took = prepared.took_ns.load(std::memory_order_relaxed);
  if ((kernel.traits & TENON_KERNEL_EXPENSIVE) != 0) return shuffled_ || took == 0 || took >= kWorthAThreadNs;
  return took != 0 && !shuffled_ && !prepared.shares.load(std::memory_order_relaxed);
}

Status DynamicInstance::RunTimed(const PreparedNode& prepared, tenon_frame* frame) {
  const uint64_t shared = HostThreads::SharedRuns(), begin = NowNs();
  Status status = RunPrepared(prepared, frame);
  prepared.took_ns.store(NowNs() - begin, std::memory_order_relaxed);
  prepared.shares.store(HostThreads::SharedRuns() != shared, std::memory_order_relaxed);
  return status;
}

Status DynamicInstance::Resolve(const NodeInfo& info, Call* call, Iteration* iteration) {
  const auto slot = [call](int32_t i) { return reinterpret_cast<const Slot*>(call->frame.inputs[i]); };
  static_assert(offsetof(Slot, view) == 0);
  bool same = call->last != nullptr;
  for (int32_t i = 0; i < info.input_count && same; ++i)
    same = call->seen[i] != 0 && call->seen[i] == slot(i)->shape_id;
  if (same) return Status::Ok();
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<const PreparedNode> prepared,
                         info.runner->Resolve({call->frame.inputs, static_cast<size_t>(info.input_count)}, call->last));
  if (prepared != call->last) {
    for (int32_t k = 0; k < info.output_count; ++k) iteration->slots[info.first_output + k].made_for = nullptr;
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
    if (iteration->slots[info.first_output + k].made_for != prepared)
      TENON_RETURN_IF_ERROR(MakeOutput(info, k, *prepared, iteration));
  return Status::Ok();
}

Status DynamicInstance::MakeOutput(const NodeInfo& info, int32_t k, const PreparedNode& prepared,
                                   Iteration* iteration) {
  const int32_t at = info.first_output + k;
  Slot& slot = iteration->slots[at];
  const DType dtype = info.node->output_types[k];
  slot.depth = iteration->info->depth;
  slot.shape_id = 0;
  if (prepared.kernel->dynamic_output(k) || (k == 0 && prepared.kernel->has(TENON_KERNEL_VIEW))) {
    slot.view = {};
    return Status::Ok();
  }
  if (!IsRef(dtype) && !prepared.outputs[k].shape.fully_known()) return NoShape(*info.node, k);
  const uint64_t bytes = IsRef(dtype) ? sizeof(Resource*) : prepared.output_bytes[k];
  const Place& place = iteration->calls[info.call].place;
  const bool on_device = !place.host_output(k);
  if (bytes > kSmallBytes || on_device || !(IsPlain(dtype) || IsRef(dtype) || dtype == TENON_DT_RESOURCE)) {
    TENON_ASSIGN_OR_RETURN(slot.view, AllocateOutput(*step_, place, *info.node, prepared, k));
    Own(iteration, &slot, iteration->info->slots[at].uses);
    return Status::Ok();
  }
  auto memory = MemoryOf(iteration, &slot, std::max<uint64_t>(bytes, 1));
  if (!memory.ok()) return Status(memory.status()).Annotate(StrCat(info.node->Describe(), ", output ", k));
  const tenon_shape dims = IsRef(dtype) ? tenon_shape{nullptr, 0, 0} : prepared.outputs[k].shape.c();
  slot.view = MakeView(dtype, dims, *memory, bytes, nullptr);
  slot.made_for = &prepared;
  slot.shape_id = k < kShapeIds ? prepared.shape_ids + static_cast<uint64_t>(k) : 0;
  return Status::Ok();
}

// After the kernel: what it allocated or shared belongs to the slots, also when it failed.
Status DynamicInstance::TakeOutputs(const NodeInfo& info, Call* call, Iteration* iteration, bool ran_well) {
  for (int32_t k = 0; k < info.output_count; ++k) {
    const int32_t at = info.first_output + k;
    Slot& slot = iteration->slots[at];
    if (slot.view.buffer == nullptr) continue;
    slot.made_for = nullptr;
    slot.shape_id = 0;
    if (!slot.owned) Own(iteration, &slot, iteration->info->slots[at].uses);
  }
  // Of a view output 0 is its input, which was looked at, and may be memory of the caller's, in no buffer.
  for (int32_t k = call->last->kernel->has(TENON_KERNEL_VIEW) ? 1 : 0; ran_well && k < info.output_count; ++k) {
    const tenon_tensor_view& view = iteration->slots[info.first_output + k].view;
    TENON_RETURN_IF_ERROR(CheckOutput(*call, *call->last, k, view));
  }
  return Status::Ok();
}

// The result is the input's memory under other dims.
Status DynamicInstance::RunView(const NodeInfo& info, Call* call, Iteration* iteration) {
  const Shape& shape = call->last->outputs[0].shape;
  if (!shape.fully_known()) return Internal(StrCat(info.node->Describe(), ": the shape of its result is not known"));
  const Slot& from = Input(info, 0, iteration);
  Slot& slot = iteration->slots[info.first_output];
  Forward(from, iteration, info.first_output);
  slot.shape_id = call->last->shape_ids;
  return ShowAs(*info.node, shape, &slot.view);
}

Status DynamicInstance::Workspace(uint64_t bytes) {
  if (bytes <= workspace_bytes_) return Status::Ok();
  if (workspace_ != nullptr) pool_->FreeRaw(std::exchange(workspace_, nullptr), std::exchange(workspace_bytes_, 0));
  TENON_ASSIGN_OR_RETURN(workspace_, pool_->AllocateRaw(bytes));
  workspace_bytes_ = bytes;
  return Status::Ok();
}

}  // namespace tenon::exec
