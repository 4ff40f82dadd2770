// SPDX-License-Identifier: Apache-2.0
#include "core/exec/program/step_queues.h"

#include <algorithm>

#include "core/exec/device/environment.h"
#include "core/exec/program/instruction.h"

namespace tenon::exec::program {

StepQueues::StepQueues(const Program* program) : program_(*program), work_(&program->plan().env()) {
  points_.resize(program->code().point_count);
}

Status StepQueues::Begin(Step* step) {
  Status status = work_.Begin(step);
  // Also where this step ends here: the next one is to know.
  if (work_.begun()) points_are_new_ = work_.TakeRenewed() || points_are_new_;
  for (QueueId queue : program_.code().queues)
    if (status.ok()) status = work_.Use(queue);
  if (!status.ok() || !points_are_new_) return status;
  points_are_new_ = false;
  std::fill(points_.begin(), points_.end(), tenon_timeline_point{});
  for (Context* context : queued_) {
    const Operation& operation = *context->operation;
    const NodeRunner* runner = program_.plan().runner(operation.node).get();
    if (runner != nullptr && runner->queued_on() != nullptr)
      context->place = runner->PlaceFor(&work_, operation.queue);
    SetPlace(context->place, *context->node, &context->frame);
    if (operation.region != nullptr) context->frame.label = Span(operation.region->label());
  }
  return status;
}

std::span<const tenon_timeline_point> StepQueues::PointsOf(Context* context) const {
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

Status StepQueues::BeforeWork(Context* context) {
  if (context->operation->waits.empty()) return Status::Ok();
  const auto points = PointsOf(context);
  return points.empty() ? Status::Ok() : work_.Wait(context->operation->queue, points);
}

Status StepQueues::AfterWork(Context* context) {
  const Operation& operation = *context->operation;
  if (!operation.signal) return Status::Ok();
  TENON_ASSIGN_OR_RETURN(points_[operation.signal], work_.Signal(operation.queue, context->node->name));
  return Status::Ok();
}

}  // namespace tenon::exec::program
