// SPDX-License-Identifier: Apache-2.0
// Frames and their iterations: made, used again, and let go.
#include "core/exec/dataflow/dynamic_instance.h"

#include <algorithm>

#include "core/exec/device/environment.h"

namespace tenon::exec {

DynamicInstance::Iteration* DynamicInstance::MakeIteration(FrameId frame) {
  const FrameInfo& info = plan_->frames()[frame];
  auto made = std::make_unique<Iteration>();
  Iteration* const iteration = made.get();
  iteration->info = &info;
  iteration->states.resize(info.nodes.size());
  iteration->ready.resize(info.nodes.size() / 64 + 1);
  iteration->ready_dead.resize(iteration->ready.size());
  iteration->slots.resize(info.slots.size());
  iteration->child_frames.resize(info.children.size());
  iteration->calls = std::make_unique<Call[]>(info.kernels.size());
  for (size_t i = 0; i < info.slots.size(); ++i) {
    if (info.slots[i].constant == nullptr) continue;
    iteration->slots[i].view = info.slots[i].constant->view();
    iteration->slots[i].view.flags |= TENON_VIEW_READ_ONLY;
    if (info.slots[i].memory != 0)
      MarkDevice(&iteration->slots[i].view, *plan_->plan().env().devices[info.slots[i].memory].device);
    iteration->slots[i].shape_id = NewShapeIds();
  }
  size_t inputs = 0, outputs = 0;
  for (LocalId local : info.kernels) {
    inputs += info.nodes[local].input_count;
    outputs += info.nodes[local].output_count;
  }
  iteration->seen.resize(inputs);
  iteration->input_views.reserve(inputs);
  iteration->output_views.reserve(outputs);
  for (LocalId local : info.kernels) {
    const NodeInfo& node = info.nodes[local];
    Call& call = iteration->calls[node.call];
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
      iteration->output_views.push_back(&iteration->slots[node.first_output + k].view);
    call.frame = {TENON_HEAD(tenon_frame),
                  in,
                  out,
                  node.input_count,
                  node.output_count,
                  nullptr,
                  0,
                  nullptr,
                  nullptr,
                  nullptr,
                  {nullptr, 0},
                  FrameServices(),
                  &call};
  }
  iterations_.push_back(std::move(made));
  return iteration;
}

DynamicInstance::Iteration* DynamicInstance::NewIteration(FrameInstance* frame) {
  Iteration*& spare = spare_iterations_[frame->frame];
  Iteration* const iteration = spare == nullptr ? MakeIteration(frame->frame) : std::exchange(spare, spare->next_spare);
  std::copy(frame->info->initial.begin(), frame->info->initial.end(), iteration->states.begin());
  iteration->frame = frame;
  iteration->number = frame->first_number + static_cast<int64_t>(frame->iterations.size());
  iteration->turn = static_cast<uint64_t>(frame->info->rank) << 32 | ++turns_;
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
  iteration->next_spare =
      std::exchange(spare_iterations_[FrameId(iteration->info - &plan_->frames().front())], iteration);
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
  frame->next_spare = std::exchange(spare_frames_[frame->frame], frame);
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
  FrameInstance*& child = iteration->child_frames[enter.entered];
  if (child != nullptr) return child;
  const FrameId frame = iteration->info->children[enter.entered];
  FrameInstance*& spare = spare_frames_[frame];
  if (spare == nullptr) {
    frames_.push_back(std::make_unique<FrameInstance>());
    child = frames_.back().get();
    child->frame = frame;
    child->info = &plan_->frames()[frame];
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
      if (oldest->running != 0 || oldest->children != 0 || (frame->first_number == 0 && frame->pending_enters != 0))
        return;
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
          if (Status status = Carry(value, *from, next, held->first_output); !status.ok())
            Fail(std::move(status).Annotate(held->node->Describe()));
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
      WakeAll(frame->info->nodes[frame->info->exits[i]], parent, true);
  --parent->running;
  --parent->children;
  parent->child_frames[frame->info->child] = nullptr;
  Abandon(frame);
}

}  // namespace tenon::exec
