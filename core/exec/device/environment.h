// SPDX-License-Identifier: Apache-2.0
// Environment: what a session lends its steps.
#ifndef TENON_CORE_EXEC_DEVICE_ENVIRONMENT_H_
#define TENON_CORE_EXEC_DEVICE_ENVIRONMENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/exec/device/compiler_entry.h"
#include "core/exec/device/device.h"
#include "core/exec/device/device_copy.h"
#include "tenon/kernel.h"

namespace tenon::graph {
class OpRegistry;
struct FunctionRef;
}

namespace tenon::exec {

class HostThreads;
class KernelRegistry;
class ResourceManager;
class SessionWorks;
class TuningCache;
class Unfinished;

// What a plugin brings for a device type under a capability id of its own ("tenon.collective/1"), for kernels.
struct CapabilityEntry {
  std::string plugin;
  std::string id, device_type;
  const void* table = nullptr;
  tenon_plugin_self* self = nullptr;
};

// Outlives the steps, and the plans made in it.
struct Environment {
  const graph::OpRegistry* ops = nullptr;
  const KernelRegistry* kernels = nullptr;
  BufferPool* pool = nullptr;            // of the host's memory
  ResourceManager* resources = nullptr;  // with the unnamed container
  ResourceManager* shared = nullptr;     // of the runtime: named containers
  HostThreads* threads = nullptr;
  std::vector<SessionDevice> devices;  // the first works on the host's memory, and runs what is not placed elsewhere
  IdVector<QueueId, SessionQueue> queues;
  std::vector<DevicePair> pairs;  // of different drivers, between which a plugin copies
  std::function<std::vector<CompilerEntry>()> compilers;  // of the plugins that are loaded by now; empty: none
  std::function<std::vector<LoopCompilerEntry>()> loop_compilers;
  // NOT_FOUND says which there are. Empty: none.
  std::function<Result<CapabilityEntry>(std::string_view id, std::string_view device_type)> capabilities;
  TuningCache* tuning = nullptr;  // what kernels found out; nullptr: nothing is kept
  // What works of the session share; nullptr: there are none.
  std::shared_ptr<SessionWorks> works;
  // A function of the graph, with a reference for the caller. device: of its nodes that name none. Empty: nothing calls
  // functions.
  std::function<Result<tenon_function*>(const graph::FunctionRef& function, std::string_view device)> functions;
  Unfinished* unfinished = nullptr;  // steps that have returned before devices were done; nullptr: none does
  // Lets go of what one of the session's prepared steps keeps for its next run, the one that was not run for longest.
  // Whether there was any. Empty: nothing is.
  std::function<bool()> give_up_idle;
  uint64_t seed = 0;
  uint32_t precision = 0;
  bool capture = true;  // queues may keep work that is the same in every step
  bool check_numerics = false;  // a kernel that makes a NaN or an infinity has failed
  bool watch = false;           // plans are such that steps may be watched

  // What copies between the two; nullptr: nobody does but by way of the host, or they are of one driver. By the
  // drivers' handles.
  const DeviceCopy* FindCopy(const tenon_device* source, const tenon_device* target) const {
    for (const DevicePair& pair : pairs)
      if (pair.source->handle == source && pair.target->handle == target) return pair.copy.get();
    return nullptr;
  }
  // Whether one copy brings a value from the one memory to the other.
  bool CopiesDirectly(const Device& source, const Device& target) const {
    return source.driver == target.driver || FindCopy(source.handle, target.handle) != nullptr;
  }
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_DEVICE_ENVIRONMENT_H_
