// SPDX-License-Identifier: Apache-2.0
// A kernel's frame as the engine sees it: the context behind it, its services, and what is looked at once the kernel
// has run.
#ifndef TENON_CORE_EXEC_KERNEL_FRAME_H_
#define TENON_CORE_EXEC_KERNEL_FRAME_H_

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "core/exec/kernel/place.h"
#include "core/graph/node.h"
#include "tenon/kernel.h"

namespace tenon::exec {
struct LateUpdates;
}

// Behind tenon_frame.context. Pins are buffers that a kernel read from variables; they are released after its run.
struct tenon_frame_context {
  tenon::exec::Step* step = nullptr;
  const tenon::graph::Node* node = nullptr;
  const std::string* plugin = nullptr;  // whose kernel runs with the frame; nullptr: it is the engine's own work
  const char* function = "run";         // of the kernel
  tenon::exec::Place place;
  uint32_t pin_count = 0;
  std::array<tenon_buffer*, 4> pins{};
  std::vector<tenon_buffer*> more_pins;
  std::vector<const tenon_tensor_view*> last_reads;  // inputs whose buffers are dropped when it has run
  tenon::exec::LateUpdates* late = nullptr;
  tenon_work* work = nullptr;  // of the run, once it was asked for; kept until ReleasePins

  // Whether ReleasePins has something to do.
  bool holds() const { return pin_count != 0 || work != nullptr; }
};

namespace tenon::exec {

const tenon_frame_services* FrameServices();
// A tensor in a buffer of its own, of which the view holds the reference.
Result<tenon_tensor_view> NewTensor(BufferPool* pool, DType dtype, tenon_shape shape, uint64_t extra_bytes);
// A reference to the view's buffer whose dims are the view's.
Buffer* ShareBuffer(BufferPool* pool, const tenon_tensor_view& view);
// A view of host memory as a value that may be kept: with a reference to its buffer, or to a copy in a buffer of the
// pool.
Result<tenon_tensor_view> KeepView(BufferPool* pool, const tenon_tensor_view& view);
// Whether the node has state or functions, so that its kernel may hold something when it has run.
bool TouchesState(const graph::Node& node);
bool HasFunctions(const graph::Node& node);
// Releases what the kernel pinned, and ends its work.
void ReleasePins(tenon_frame_context* context);
// Updates that the frame's kernel left open have failed.
void EndLostUpdates(const tenon_frame& frame);
// Releases the buffer that an output slot holds.
inline void ReleaseOutput(tenon_tensor_view* view) {
  if (view->buffer != nullptr) {
    Release(view->buffer);
    view->buffer = nullptr;
  }
}

// Flags of the view that a step has of a feed.
inline uint32_t FeedFlags(const tenon_tensor_view& feed, bool on_host) {
  return (on_host ? TENON_VIEW_HOST_VISIBLE : 0u) | TENON_VIEW_READ_ONLY |
         ((reinterpret_cast<uintptr_t>(DataOf(feed)) & 63u) == 0 ? TENON_VIEW_ALIGNED64 : 0u);
}

// What a kernel that did not set output k has done.
Status NotSet(const tenon_frame_context& context, size_t output);
// That the strings of a kernel's output lie in its memory: readers do not look. Costs nothing for other types.
Status CheckCellsOfStrings(const tenon_frame_context& context, size_t output, const tenon_tensor_view& view);
inline Status CheckCells(const tenon_frame_context& context, size_t output, const tenon_tensor_view& view) {
  return view.dtype == TENON_DT_STRING ? CheckCellsOfStrings(context, output, view) : Status::Ok();
}

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_KERNEL_FRAME_H_
