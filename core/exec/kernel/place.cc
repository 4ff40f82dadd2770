// SPDX-License-Identifier: Apache-2.0
#include "core/exec/kernel/place.h"

#include "core/exec/device/environment.h"
#include "core/exec/device/queue_work.h"
#include "core/exec/device/step.h"
#include "core/graph/graph.h"

namespace tenon::exec {

void SetPlace(const Place& place, const graph::Node& node, tenon_frame* frame) {
  frame->label = Span(node.name);
  if (place.device == nullptr) return;
  frame->device = place.device->device->handle;
  if (place.work == nullptr) return;
  frame->queue = place.work->queue(place.queue);
  frame->timeline = place.work->timeline(place.queue);
}

BufferPool* PoolOf(const Step& step, const Place& place, size_t output) {
  return place.host_output(output) ? step.env->pool : place.device->pool;
}

void MarkOutput(const Place& place, size_t output, tenon_tensor_view* view) {
  if (!place.host_output(output)) MarkDevice(view, *place.device->device);
}

const Device* MemoryOf(const Place& place) { return place.device == nullptr ? nullptr : place.device->device; }

}  // namespace tenon::exec
