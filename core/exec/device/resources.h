// SPDX-License-Identifier: Apache-2.0
// Resources: variables and objects of plugins, behind handles with a container, a name and a type.
//
// Invariants. A handle lives as long as its manager; what it holds may come and go. A variable's value is a buffer; a
// reader retains it, a writer of a resource variable that finds other holders writes into a spare buffer and swaps, and
// a reader that finds a writer in the value itself waits for it, so a value once read never changes. Reference
// variables of floating types are written in place, under their readers' eyes; those of other types, whose elements may
// be indices, sizes or texts, are treated as resource variables, so that what a kernel has checked is what it uses (who
// reads them reads late: plan/late_reads.h). An update holds a reference to what it writes. A step that asked for a
// plugin's object keeps it until it ends, so that one that is destroyed or reset meanwhile goes with the last of them.
// A variable that is not written in place has one update at a time; updates in place exclude each other only when they
// ask for the variable's lock.
#ifndef TENON_CORE_EXEC_DEVICE_RESOURCES_H_
#define TENON_CORE_EXEC_DEVICE_RESOURCES_H_

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/base/cancellation.h"
#include "core/base/live_objects.h"
#include "core/exec/device/write_point.h"
#include "core/tensor/pool_charge.h"
#include "core/tensor/tensor.h"

namespace tenon::trace {
class Trace;
}

namespace tenon::exec {

struct Device;
struct Step;

// What a plugin's kernels keep behind a handle.
class PluginObject {
 public:
  PluginObject(std::string_view type, std::string_view plugin) : type_(type), plugin_(std::string(plugin)) {}
  ~PluginObject() {
    if (destroy_ != nullptr) destroy_(data_);
  }
  PluginObject(const PluginObject&) = delete;
  PluginObject& operator=(const PluginObject&) = delete;

  // Once, before others see it.
  void Hold(void* data, void (*destroy)(void* data)) {
    data_ = data;
    destroy_ = destroy;
  }
  void* data() const { return data_; }
  const std::string& type() const { return type_; }  // who understands it

 private:
  friend struct Step;
  void* data_ = nullptr;
  const std::string type_;
  void (*destroy_)(void* data) = nullptr;
  const LiveObject plugin_;  // whose code it is, which goes after it
  std::atomic<const Step*> asked_by_{nullptr};  // a step that keeps it, the last one that asked
};

}  // namespace tenon::exec

// The C ABI's opaque handle.
struct tenon_resource {
  std::string container;
  std::string name;
  std::string type;
  bool of_step = false;       // it ends with the step that made it
  tenon::PoolCharge charge;   // of such a one, which a loop makes again and again
  std::mutex mutex;           // guards all below; held for moments
  std::condition_variable changed;  // an update ended
  // A variable.
  tenon::DType dtype = TENON_DT_INVALID;
  tenon_buffer* value = nullptr;
  tenon_buffer* spare = nullptr;
  struct Update {
    const void* frame;
    tenon_buffer* target;  // out_new
    uint64_t bytes, extra;
  };
  std::vector<Update> updates;  // that run: several of a reference variable, without its lock
  bool poisoned = false;
  const void* updater = nullptr;  // whose update runs, when there can be one only
  const void* locker = nullptr;   // who holds the variable's lock (use_locking)
  uint64_t value_bytes = 0;  // of the elements
  uint64_t value_extra = 0;  // of strings, after their cells
  const tenon::exec::Device* device = nullptr;  // in whose memory the value lies; nullptr: the host's
  tenon::exec::WritePoint written;  // of a device's value, until the step that wrote it ends
  // Instead of a value: a plugin's.
  std::shared_ptr<tenon::exec::PluginObject> object;
  std::vector<std::shared_ptr<tenon::exec::PluginObject>>
      dropped;  // of a step's own handle: its kernels may use them until the step ends

  ~tenon_resource();
};

namespace tenon::exec {

using Resource = tenon_resource;

class ResourceManager {
 public:
  ResourceManager() = default;
  ~ResourceManager() = default;

  // The handle; made when it is new. FAILED_PRECONDITION when it exists with another type.
  Result<Resource*> Get(std::string_view container, std::string_view name, std::string_view type);
  // Drops the values and objects of one container; handles stay. How many there were.
  int64_t Clear(std::string_view container);
  // The same for all.
  void ClearAll();
  // Variables with a value, and objects, in the memory of the devices that `in` says; nullptr is the host's.
  int64_t CountHeld(const std::function<bool(const Device*)>& in) const;
  // All handles, for reports.
  std::vector<const Resource*> All() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, std::unique_ptr<Resource>> resources_;  // by container and name
};

// Whether a tensor may be kept beyond its step: FAILED_PRECONDITION for handles of resources that end with that. The
// step runs.
Status CheckMayOutliveStep(const tenon_tensor_view& view);

// Whether reference updates write a variable of that type under its readers' eyes.
inline bool IsWrittenInPlace(DType dtype) { return IsFloating(dtype); }

// Reads a variable: the view holds a reference to its buffer, which the caller releases. device: in whose memory the
// reader works (nullptr: the host's), where the value must lie. frame: the kernel's that reads, which does not wait for
// an update of its own. cancellation: ends the wait for an update; nullptr: nothing but time does. trace: that the wait
// is written to, or nullptr.
Status ReadVariable(Resource* resource, const Device* device, tenon_tensor_view* out_view, const void* frame = nullptr,
                    const Cancellation* cancellation = nullptr, trace::Trace* trace = nullptr);
bool IsInitialized(Resource* resource);
// Who updates: a kernel's frame, within a step.
struct Updater {
  const void* frame;
  const Cancellation* cancellation;
  BufferPool* pool;
  bool in_place;  // a reference variable: written in place, if its type allows it
  const Device* device = nullptr;  // in whose memory it works; nullptr: the host's
  // Copies within the device's memory, in the order of its main queue.
  std::function<Status(const void* source, void* target, uint64_t bytes)> copy{};
  std::span<const tenon_buffer* const>
      dropped{};         // references to buffers that do not count: their holder is done with them before
  bool may_wait = true;  // for other updates of the variable; false: ABORTED, for who holds others open
  trace::Trace* trace = nullptr;                   // that the wait is written to
};
// See tenon_frame_services.variable_begin_update.
Status BeginUpdate(Resource* resource, const Updater& updater, uint32_t flags, DType dtype, tenon_shape shape,
                   uint64_t extra_bytes, tenon_tensor_view* out_old, tenon_tensor_view* out_new);
void EndUpdate(Resource* resource, const void* frame, uint32_t outcome);
// Drops the value or the object; whether there was one.
bool Drop(Resource* resource);

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_DEVICE_RESOURCES_H_
