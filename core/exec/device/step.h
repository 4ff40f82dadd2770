// SPDX-License-Identifier: Apache-2.0
// Step: one run of a plan.
#ifndef TENON_CORE_EXEC_DEVICE_STEP_H_
#define TENON_CORE_EXEC_DEVICE_STEP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_set>
#include <vector>

#include "core/exec/device/resources.h"

namespace tenon::trace {
class Trace;
}
namespace tenon::graph {
struct Node;
}

namespace tenon::exec {

class Rendezvous;
struct Environment;

// Is shown what a step's kernels make, in host memory, for the time of the call. Any thread, several at once; a failure
// fails the step.
class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual Status Look(const graph::Node& node, int32_t output, const tenon_tensor_view& value) = 0;
};

// Who goes on with a step that stands still.
class Resumer {
 public:
  virtual ~Resumer() = default;
  // Something has come that the step waited for. Any thread, also before the step's own has said that it stands still.
  virtual void Resume() noexcept = 0;
};

struct Step {
  Step() = default;
  ~Step() { End(); }
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  const Environment* env = nullptr;
  Cancellation* cancellation = nullptr;
  trace::Trace* trace = nullptr;
  uint64_t id = 0;
  Rendezvous* rendezvous = nullptr;  // of a part: where it meets the others
  // Of a step in several goes: whether it may stand still now, though what its kernels do elsewhere is not done.
  // Without kernels elsewhere it stands still wherever it waits for receives alone; what is traced or watched waits for
  // its kernels. Empty: it runs to its end.
  using Enough = std::function<bool()>;
  Enough enough;
  bool left_elsewhere = false;  // it stands still, and kernels of it run, which look at what is here
  // Of a step that no thread waits for: where it can do nothing before something comes from elsewhere it stands still,
  // and this is told, once, when it can go on, or is cancelled. nullptr: the step's thread waits.
  std::shared_ptr<Resumer> resumer;
  Watcher* watcher = nullptr;
  BufferPool* keeps =
      nullptr;  // whoever asked keeps what is fetched: it may be made in buffers of this pool right away
  std::span<const tenon_tensor_view* const>
      places;                  // none, or for each fetch nullptr or where it is made, if it is of that dtype and shape
  bool may_end_later = false;  // nobody waits for what it does on devices, or ends it after a time
  uint64_t host_waits = 0;  // for devices
  uint64_t captured_launches = 0;
  std::mutex mutex;  // guards local_resources, objects
  std::vector<std::unique_ptr<Resource>> local_resources;
  std::unordered_set<std::shared_ptr<PluginObject>> objects;  // that it asked for; a graph may have very many

  // The object stays until End().
  void Keep(const std::shared_ptr<PluginObject>& object) {
    if (object->asked_by_.load(std::memory_order_relaxed) == this) return;
    const std::lock_guard lock(mutex);
    objects.insert(object);
    object->asked_by_.store(this, std::memory_order_relaxed);
  }
  // Nothing of it runs any more.
  void End() {
    if (!local_resources.empty()) local_resources.clear();
    if (objects.empty()) return;
    for (const auto& object : objects) {
      const Step* last = this;
      object->asked_by_.compare_exchange_strong(last, nullptr, std::memory_order_relaxed);
    }
    objects.clear();
  }
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_DEVICE_STEP_H_
