// SPDX-License-Identifier: Apache-2.0
// Place: where a kernel's arguments lie and its work goes.
#ifndef TENON_CORE_EXEC_KERNEL_PLACE_H_
#define TENON_CORE_EXEC_KERNEL_PLACE_H_

#include "core/exec/device/queue_id.h"
#include "core/tensor/buffer.h"
#include "tenon/kernel.h"

namespace tenon::graph {
struct Node;
}

namespace tenon::exec {

class QueueWork;
struct Device;
struct SessionDevice;
struct Step;

// On the host by default.
struct Place {
  const SessionDevice* device = nullptr;  // nullptr: the host's memory
  QueueWork* work = nullptr;
  QueueId queue;           // of the session's
  uint64_t host_outputs = 0;    // bit k: output k lies in the host's memory; bit 63 stands for all from 63 on
  bool host_output(size_t k) const { return device == nullptr || ((host_outputs >> (k < 63 ? k : 63)) & 1u) != 0; }
};

// What a frame has of its place: device, queue, timeline.
void SetPlace(const Place& place, const graph::Node& node, tenon_frame* frame);
// The pool of a kernel's output, and the mark of its memory.
BufferPool* PoolOf(const Step& step, const Place& place, size_t output);
void MarkOutput(const Place& place, size_t output, tenon_tensor_view* view);
// The device whose memory a kernel's variables lie in; nullptr: the host's.
const Device* MemoryOf(const Place& place);

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_KERNEL_PLACE_H_
