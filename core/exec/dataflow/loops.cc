// SPDX-License-Identifier: Apache-2.0
#include "core/exec/dataflow/loops.h"

#include <algorithm>

namespace tenon::exec::dataflow {

void Loops::Enter(const NodeInfo& info, Iteration* iteration, bool dead) {
  FrameInstance* child = ChildFrame(iteration, info);
  const Slot* value = dead ? nullptr : &iteration->Input(info, 0);
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
        each->Lend(*value, info.first_output);
      } else if (Status status = each->Carry(*value, *iteration, info.first_output); !status.ok()) {
        error_.Fail(std::move(status).Annotate(info.node->Describe()));
      }
    }
    deliveries_.WakeAll(info, each, dead, true);
    --each->running;
    if (!info.constant_enter) break;  // the first one alone
  }
  --child->pending_enters;
  Settle(child);
}

void Loops::Exit(const NodeInfo& info, Iteration* iteration) {
  auto& state = iteration->frame->exits[info.exit];
  if (state == FrameInstance::ExitState::kLive)
    return error_.Fail(InvalidArgument(StrCat(info.node->Describe(),
                                              " brings a second value out of its loop; it must take the side of a "
                                              "Switch that the loop's last turn alone takes")));
  state = FrameInstance::ExitState::kLive;
  Iteration* parent = iteration->frame->parent;
  if (Status status = parent->Carry(iteration->Input(info, 0), *iteration, info.first_output); !status.ok())
    return error_.Fail(std::move(status).Annotate(info.node->Describe()));
  deliveries_.Publish(info, parent);
  deliveries_.WakeAll(info, parent, false);
}

void Loops::ExitDead(const NodeInfo& info, Iteration* iteration) {
  auto& state = iteration->frame->exits[info.exit];
  if (state == FrameInstance::ExitState::kNone) state = FrameInstance::ExitState::kDead;
}

bool Loops::Next(const NodeInfo& info, Iteration* iteration) {
  FrameInstance* frame = iteration->frame;
  const size_t next = iteration->number + 1 - frame->first_number;
  if (next == frame->iterations.size()) {
    const bool is_bound = frame->pending_enters == 0 || !plan_.plan().options().turns_while_entered;
    if (is_bound && static_cast<int64_t>(frame->iterations.size()) >= frame->info->parallel_iterations) {
      frame->waiting.push_back(&info);
      return false;
    }
    NewIteration(frame);
  }
  Iteration* const to = frame->iterations[next];
  Status status = to->Carry(iteration->Input(info, 0), *iteration, info.first_output);
  if (!status.ok()) error_.Fail(std::move(status).Annotate(info.node->Describe()));
  else deliveries_.WakeAll(info, to, false);
  return true;
}

FrameInstance* Loops::ChildFrame(Iteration* iteration, const NodeInfo& enter) {
  FrameInstance*& child = iteration->child_frames[enter.entered];
  if (child != nullptr) return child;
  FrameInstance* const made = frames_.TakeFrame(iteration->info->children[enter.entered]);
  child = made;
  made->parent = iteration;
  made->pending_enters = made->info->enters;
  made->first_number = 0;
  made->exits.assign(made->info->exits.size(), FrameInstance::ExitState::kNone);
  ++iteration->children;
  NewIteration(made);
  return made;
}

Iteration* Loops::NewIteration(FrameInstance* frame) {
  Iteration* const iteration = frames_.Take(frame->frame);
  std::copy(frame->info->initial.begin(), frame->info->initial.end(), iteration->states.begin());
  iteration->frame = frame;
  iteration->number = frame->first_number + static_cast<int64_t>(frame->iterations.size());
  iteration->turn = static_cast<uint64_t>(frame->info->rank) << 32 | ++turns_;
  frame->iterations.push_back(iteration);
  // Loop invariants are there in every iteration. The frame holds their buffers.
  ++iteration->running;
  for (const FrameInstance::Invariant& invariant : frame->invariants) {
    if (!invariant.dead) iteration->Lend(invariant.value, invariant.enter->first_output);
    deliveries_.WakeAll(*invariant.enter, iteration, invariant.dead, true);
  }
  --iteration->running;
  return iteration;
}

void Loops::Settle(FrameInstance* frame) {
  while (frame != frames_.root()) {
    while (!frame->iterations.empty()) {
      Iteration* oldest = frame->iterations.front();
      if (oldest->running != 0 || oldest->children != 0 || (frame->first_number == 0 && frame->pending_enters != 0))
        return;
      const bool newest = frame->iterations.size() == 1;
      Iteration* from = frame->iterations.back();
      frame->iterations.pop_front();
      ++frame->first_number;
      // Before the old iteration goes: what waits may stand in its memory.
      if (!frame->waiting.empty()) LetOn(frame, from, !newest);
      frames_.Recycle(oldest);
      frames_.Spare(oldest);
    }
    Iteration* parent = frame->parent;
    EndFrame(frame);
    frame = parent->frame;
  }
}

void Loops::LetOn(FrameInstance* frame, Iteration* from, bool from_stays) {
  held_.swap(frame->waiting);
  Iteration* next = NewIteration(frame);
  ++next->running;
  for (const NodeInfo* held : held_) {
    Slot& value = from->Input(*held, 0);
    if (Status status = next->Carry(value, *from, held->first_output); !status.ok())
      error_.Fail(std::move(status).Annotate(held->node->Describe()));
    else deliveries_.WakeAll(*held, next, false);
    if (from_stays) from->Use(&value);
  }
  --next->running;
  held_.clear();
}

void Loops::EndFrame(FrameInstance* frame) {
  Iteration* parent = frame->parent;
  ++parent->running;
  for (size_t i = 0; i < frame->exits.size(); ++i)
    if (frame->exits[i] == FrameInstance::ExitState::kDead)
      deliveries_.WakeAll(frame->info->nodes[frame->info->exits[i]], parent, true);
  --parent->running;
  --parent->children;
  parent->child_frames[frame->info->child] = nullptr;
  frames_.Abandon(frame);
}

}  // namespace tenon::exec::dataflow
