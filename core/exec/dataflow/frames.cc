// SPDX-License-Identifier: Apache-2.0
#include "core/exec/dataflow/frames.h"

#include <algorithm>

#include "core/exec/device/environment.h"

namespace tenon::exec::dataflow {

Frames::Frames(const DynamicPlan* plan, QueueWork* work, Elsewhere* home)
    : plan_(*plan),
      work_(work),
      home_(home),
      spare_iterations_(plan->frames().size()),
      spare_frames_(plan->frames().size()) {
  root_.info = &plan_.frames()[graph::kStep];
  root_iteration_ = Make(graph::kStep);
  root_iteration_->frame = &root_;
  root_.iterations.push_back(root_iteration_);
}

Frames::~Frames() {
  for (const auto& iteration : iterations_) iteration->FreeMemory();
}

Iteration* Frames::Take(FrameId frame) {
  Iteration*& spare = spare_iterations_[frame];
  return spare == nullptr ? Make(frame) : std::exchange(spare, spare->next_spare);
}

FrameInstance* Frames::TakeFrame(FrameId frame) {
  FrameInstance*& spare = spare_frames_[frame];
  if (spare != nullptr) return std::exchange(spare, spare->next_spare);
  FrameInstance* const made = frames_.emplace_back(std::make_unique<FrameInstance>()).get();
  made->frame = frame;
  made->info = &plan_.frames()[frame];
  return made;
}

Iteration* Frames::Make(FrameId frame) {
  const FrameInfo& info = plan_.frames()[frame];
  auto made = std::make_unique<Iteration>();
  Iteration* const iteration = made.get();
  iteration->info = &info;
  iteration->pool = plan_.plan().env().pool;
  iteration->states.resize(info.nodes.size());
  iteration->ready.resize(info.nodes.size() / 64 + 1);
  iteration->ready_dead.resize(iteration->ready.size());
  iteration->slots.resize(info.slots.size());
  iteration->child_frames.resize(info.children.size());
  for (size_t i = 0; i < info.slots.size(); ++i) {
    if (info.slots[i].constant == nullptr) continue;
    iteration->slots[i].view = info.slots[i].constant->view();
    iteration->slots[i].view.flags |= TENON_VIEW_READ_ONLY;
    if (info.slots[i].memory != 0)
      MarkDevice(&iteration->slots[i].view, *plan_.plan().env().devices[info.slots[i].memory].device);
    iteration->slots[i].shape_id = NewShapeIds();
  }
  MakeCalls(iteration);
  iterations_.push_back(std::move(made));
  return iteration;
}

void Frames::MakeCalls(Iteration* iteration) {
  const FrameInfo& info = *iteration->info;
  iteration->calls = std::make_unique<Call[]>(info.kernels.size());
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
    call.home = home_;
    call.iteration = iteration;
    if (const SessionDevice* device = node.runner->queued_on(); device != nullptr)
      call.place = node.runner->PlaceFor(work_, device->first_queue);
    call.info = &node;
    const tenon_tensor_view* const* in = iteration->input_views.data() + iteration->input_views.size();
    tenon_tensor_view* const* out = iteration->output_views.data() + iteration->output_views.size();
    for (int32_t i = 0; i < node.input_count; ++i) iteration->input_views.push_back(&iteration->Input(node, i).view);
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
}

void Frames::Recycle(Iteration* iteration) {
  for (FrameInstance*& child : iteration->child_frames)
    if (child != nullptr) Abandon(std::exchange(child, nullptr));
  iteration->ReleaseSlots();
}

void Frames::Spare(Iteration* iteration) {
  iteration->next_spare =
      std::exchange(spare_iterations_[FrameId(iteration->info - &plan_.frames().front())], iteration);
}

void Frames::Abandon(FrameInstance* frame) {
  for (Iteration* iteration : frame->iterations) {
    Recycle(iteration);
    Spare(iteration);
  }
  frame->iterations.clear();
  Retire(frame);
}

void Frames::Retire(FrameInstance* frame) {
  for (FrameInstance::Invariant& invariant : frame->invariants)
    if (invariant.value.owned) ReleaseOutput(&invariant.value.view);
  frame->invariants.clear();
  frame->waiting.clear();
  frame->next_spare = std::exchange(spare_frames_[frame->frame], frame);
}

void Frames::RecycleAll() {
  std::fill(spare_iterations_.begin(), spare_iterations_.end(), nullptr);
  std::fill(spare_frames_.begin(), spare_frames_.end(), nullptr);
  for (const auto& iteration : iterations_) {
    std::fill(iteration->child_frames.begin(), iteration->child_frames.end(), nullptr);
    iteration->ReleaseSlots();
    if (iteration.get() != root_iteration_) Spare(iteration.get());
  }
  for (const auto& frame : frames_) {
    frame->iterations.clear();
    Retire(frame.get());
  }
}

}  // namespace tenon::exec::dataflow
