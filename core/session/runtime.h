// SPDX-License-Identifier: Apache-2.0
// Runtime: the registries, devices and threads that sessions share. Plugins are registered here once loaded.
#ifndef TENON_CORE_SESSION_RUNTIME_H_
#define TENON_CORE_SESSION_RUNTIME_H_

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/exec/device/environment.h"
#include "core/exec/device/resources.h"
#include "core/exec/kernel/kernel_registry.h"
#include "core/exec/kernel/tuning_cache.h"
#include "core/exec/threads/event_loop.h"
#include "core/exec/threads/host_threads.h"
#include "core/graph/op_registry.h"
#include "tenon/ext/draft/place.h"
#include "tenon/ext/draft/transport.h"

namespace tenon::session {

// The table that plugins get; one for the process.
const tenon_host* HostTable();

class Runtime {
 public:
  // threads: of a step, the caller's included; 0: as many as cores.
  explicit Runtime(uint32_t threads);
  ~Runtime();

  // Registers what a loaded plugin provides, or nothing. Counts what it brought.
  struct Counts {
    uint32_t ops = 0, kernels = 0, devices = 0;
    std::vector<std::string> ignored;  // capability ids that this host does not know
    std::vector<std::string> refused_ops;  // which another plugin's ops of the same names are in the way of; why
  };
  Result<Counts> RegisterPlugin(const tenon_plugin& plugin, tenon_plugin_self* self);
  void UnregisterPlugin(std::string_view id);
  // No call of a plugin's functions begins any more. False, and they may be called again: something of it lives, or one is being called.
  bool Retire(std::string_view id);
  // Objects of the plugin that live (kernels, open files, named variables in its devices' memory); 0 when it may be unloaded.
  int64_t LiveObjects(std::string_view id) const;
  // What named containers hold.
  void DropResources();
  // Something that a plugin may still use, at any time, and that must not be freed; nor may this runtime.
  void KeepForEver(std::shared_ptr<const void> kept);
  bool keeps_for_ever() const { return keeps_for_ever_.load(); }

  graph::OpRegistry& ops() { return ops_; }
  const graph::OpRegistry& ops() const { return ops_; }
  exec::KernelRegistry& kernels() { return kernels_; }
  const exec::KernelRegistry& kernels() const { return kernels_; }
  exec::HostThreads& threads() { return threads_; }
  DeadlineWatcher& deadlines() { return deadlines_; }
  exec::EventLoop& events() { return events_; }
  exec::TuningCache& tuning() { return tuning_; }
  // Resources of named containers, shared by sessions.
  exec::ResourceManager& resources() { return resources_; }
  // Devices found, those with a problem too.
  std::vector<exec::Device> devices() const;
  // Compilers of device types, as they were registered.
  std::vector<exec::CompilerEntry> compilers() const;
  // What a plugin brought for a device type under a capability id of its own; NOT_FOUND says which there are.
  Result<exec::CapabilityEntry> FindCapability(std::string_view id, std::string_view device_type) const;
  // The devices of a session. wish: a name, a type, or part of a name, or nothing.
  struct Choice {
    std::vector<const exec::Device*> devices;  // the first runs on the host's memory; the others may not
    size_t wished = 0;                         // the one that was asked for
  };
  Result<Choice> ChooseDevices(std::string_view wish) const;
  // The placer that a plugin brought; NOT_FOUND names those that there are.
  struct Placer {
    const tenon_placer* table = nullptr;
    tenon_plugin_self* self = nullptr;
  };
  Result<Placer> FindPlacer(std::string_view plugin) const;
  // The transport of a scheme that a plugin brought; NOT_FOUND names those that there are.
  struct Transport {
    const tenon_transport* table = nullptr;
    tenon_plugin_self* self = nullptr;
  };
  Result<Transport> FindTransport(std::string_view scheme) const;

  // The task that this process is ("/job:worker/replica:0/task:1"), which its devices are named by. Before any device is opened.
  void set_task(std::string task) { task_ = std::move(task); }
  const std::string& task() const { return task_; }

 private:
  void CloseDevice(exec::Device* device);
  std::shared_ptr<PluginInstance> InstanceOf(const std::string& id, tenon_plugin_self* self);
  enum class Stage { kOps, kTables, kDevices };
  static Stage StageOf(std::string_view capability);
  Status RegisterTable(const tenon_capability& capability, const std::shared_ptr<PluginInstance>& plugin,
                       std::map<std::string, std::string>* refused, Counts* counts);
  static Status Ask(exec::Device* device);
  // What a synchronous device allocates must be memory of the host.
  static Status Believe(const tenon_device_properties& properties, exec::Device* device);
  static Status TryMemory(const exec::Device& device);
  void AddDevice(exec::Device device);
  Status OpenDevices(const tenon_device_driver& driver, tenon_plugin_self* self, const std::string& plugin, uint32_t* count);

  graph::OpRegistry ops_;
  exec::KernelRegistry kernels_;
  exec::HostThreads threads_;
  DeadlineWatcher deadlines_;
  exec::EventLoop events_;  // after the threads, so that it ends before them: its thread hands work to them
  exec::TuningCache tuning_;
  exec::ResourceManager resources_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<exec::Device>> devices_;
  std::vector<exec::CompilerEntry> compilers_;
  std::vector<exec::CapabilityEntry> capabilities_;
  // Every plugin that was loaded, for ever: graphs have its ops still, and one that comes back is the same.
  std::map<std::string, std::shared_ptr<PluginInstance>, std::less<>> instances_;
  std::map<std::string, Placer, std::less<>> placers_;  // by plugin
  struct TransportEntry {
    std::string plugin;
    Transport transport;
  };
  std::map<std::string, TransportEntry, std::less<>> transports_;  // by scheme
  std::atomic<bool> keeps_for_ever_{false};
  std::string task_ = "/job:localhost/replica:0/task:0";
};

}  // namespace tenon::session

#endif  // TENON_CORE_SESSION_RUNTIME_H_
