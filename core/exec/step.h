// SPDX-License-Identifier: Apache-2.0
// What a step runs in: the environment of its session, the state of the step, and the context behind each kernel's frame.
#ifndef TENON_CORE_EXEC_STEP_H_
#define TENON_CORE_EXEC_STEP_H_

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/cancellation.h"
#include "core/base/plugin_call.h"
#include "core/exec/device.h"
#include "core/exec/host_threads.h"
#include "core/exec/kernel_registry.h"
#include "core/exec/queue_work.h"
#include "core/exec/resources.h"
#include "core/trace/trace.h"
#include "tenon/ext/draft/compile.h"

namespace tenon::exec {

class Rendezvous;

// A compiler of a device type.
struct CompilerEntry {
  std::string plugin;
  const tenon_compiler* table = nullptr;
  tenon_plugin_self* self = nullptr;
};

// What a session lends its steps. Outlives them.
struct Environment {
  const graph::OpRegistry* ops = nullptr;
  const KernelRegistry* kernels = nullptr;
  BufferPool* pool = nullptr;            // of the host's memory
  ResourceManager* resources = nullptr;  // of the session: the unnamed container
  ResourceManager* shared = nullptr;     // of the runtime: named containers
  HostThreads* threads = nullptr;
  std::vector<SessionDevice> devices;  // the first works on the host's memory, and runs what is not placed elsewhere
  std::vector<SessionQueue> queues;
  std::function<std::vector<CompilerEntry>()> compilers;  // of the plugins that are loaded by now; empty: none
  uint64_t seed = 0;
  uint32_t precision = 0;
  bool capture = true;  // queues may keep work that is the same in every step
};

// One run of a plan.
struct Step {
  const Environment* env = nullptr;
  Cancellation* cancellation = nullptr;
  trace::Trace* trace = nullptr;
  uint64_t id = 0;
  Rendezvous* rendezvous = nullptr;  // of a part: where it meets the others
  uint64_t host_waits = 0;  // for devices
  uint64_t captured_launches = 0;
  std::mutex mutex;  // guards local_resources
  std::vector<std::unique_ptr<Resource>> local_resources;
};

}  // namespace tenon::exec

namespace tenon::exec {

// Where a kernel's arguments lie and its work goes. On the host by default.
struct Place {
  const SessionDevice* device = nullptr;  // nullptr: the host's memory
  QueueWork* work = nullptr;
  int32_t queue = -1;           // of the session's
  uint64_t host_outputs = 0;    // bit k: output k lies in the host's memory; bit 63 stands for all from 63 on
  bool host_output(size_t k) const { return device == nullptr || ((host_outputs >> (k < 63 ? k : 63)) & 1u) != 0; }
};

}  // namespace tenon::exec

namespace tenon::exec {

// Updates of variables that kernels have begun and whose work is launched later: they stay open until then.
struct LateUpdates {
  struct Update {
    tenon_resource* resource;
    const void* frame;
    uint32_t outcome;  // as the kernel said
  };
  bool Has(const tenon_resource* resource) const {
    return std::any_of(updates.begin(), updates.end(), [&](const Update& each) { return each.resource == resource; });
  }
  std::vector<Update> updates;
  std::vector<tenon_resource*> written;       // as they end
  std::vector<const void*> addresses;         // old and new memory of each
  std::vector<const tenon_buffer*> dropped;   // held by the step, which has no more use for them before the update's work
};

}  // namespace tenon::exec

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
  tenon::exec::LateUpdates* late = nullptr;
};

namespace tenon::exec {

const tenon_frame_services* FrameServices();
// Releases what the kernel pinned.
void ReleasePins(tenon_frame_context* context);
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

// A kernel of one node. Shared by plans when it is stateful.
class KernelInstance {
 public:
  // device: that it will run on; NULL: none.
  static Result<std::shared_ptr<KernelInstance>> Create(const graph::Node& node, KernelEntry entry, const Environment& env,
                                                        tenon_device* device);
  ~KernelInstance();
  KernelInstance(const KernelInstance&) = delete;
  KernelInstance& operator=(const KernelInstance&) = delete;

  const tenon_kernel_registration& registration() const { return *entry_.registration; }
  const std::string& plugin() const { return entry_.plugin; }
  tenon_kernel* state() const { return state_; }
  bool has(uint32_t trait) const { return (entry_.registration->traits & trait) != 0; }
  // Whether the kernel allocates output k.
  bool dynamic_output(size_t k) const { return IsDynamicOutput(registration(), k); }

 private:
  KernelInstance(KernelEntry entry, tenon_kernel* state) : entry_(std::move(entry)), state_(state) {}
  KernelEntry entry_;
  tenon_kernel* state_;
};

// Runs the kernel. What it throws becomes a status, and updates of variables that it had begun end.
tenon_status* CallRun(const KernelInstance& kernel, const tenon_prepared* prepared, tenon_frame* frame);
// Updates that the frame's kernel left open have failed.
void EndLostUpdates(const tenon_frame& frame);

// What a kernel that did not set output k has done.
Status NotSet(const tenon_frame_context& context, size_t output);
// That the strings of a kernel's output lie in its memory: readers do not look. Costs nothing for other types.
Status CheckCellsOfStrings(const tenon_frame_context& context, size_t output, const tenon_tensor_view& view);
inline Status CheckCells(const tenon_frame_context& context, size_t output, const tenon_tensor_view& view) {
  return view.dtype == TENON_DT_STRING ? CheckCellsOfStrings(context, output, view) : Status::Ok();
}

// The pool of a kernel's output, and the mark of its memory.
BufferPool* PoolOf(const Step& step, const Place& place, size_t output);
void MarkOutput(const Place& place, size_t output, tenon_tensor_view* view);
// The device whose memory a kernel's variables lie in; nullptr: the host's.
inline const Device* MemoryOf(const Place& place) { return place.device == nullptr ? nullptr : place.device->device; }

// Something of a plugin lives while this does.
class LiveObject {
 public:
  explicit LiveObject(std::string plugin);
  ~LiveObject();
  LiveObject(const LiveObject&) = delete;
  LiveObject& operator=(const LiveObject&) = delete;

 private:
  std::string plugin_;
};
// Live kernels and executables of a plugin, so that unloading can be refused.
int64_t LiveKernels(std::string_view plugin);

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_STEP_H_
