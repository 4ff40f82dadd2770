// SPDX-License-Identifier: Apache-2.0
// Runtime: the registries, devices and threads that sessions share. Plugins are registered here once loaded.
#ifndef TENON_CORE_SESSION_RUNTIME_H_
#define TENON_CORE_SESSION_RUNTIME_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "tenon/abi.h"

struct tenon_placer;
struct tenon_transport;

namespace tenon {
class DeadlineWatcher;
class PluginInstance;
namespace exec {
class EventLoop;
class HostThreads;
class KernelRegistry;
class ResourceManager;
class TuningCache;
struct CapabilityEntry;
struct CompilerEntry;
struct LoopCompilerEntry;
struct Device;
struct DeviceCopy;
}  // namespace exec
namespace graph {
class Graph;
class OpRegistry;
}
namespace optimize {
struct PluginPass;
}
namespace variant {
class Types;
}
}  // namespace tenon

namespace tenon::session {

// The table that plugins get; one for the process.
const tenon_host* HostTable();

struct DeviceChoice;

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
  // No call of a plugin's functions begins any more. False, and they may be called again: something of it lives, or one
  // is being called.
  bool Retire(std::string_view id);
  // Objects of the plugin that live (kernels, open files, named variables in its devices' memory); 0 when it may be
  // unloaded.
  int64_t LiveObjects(std::string_view id) const;
  // What named containers hold.
  void DropResources();
  // Something that a plugin may still use, at any time, and that must not be freed; nor may this runtime.
  void KeepForEver(std::shared_ptr<const void> kept);
  bool keeps_for_ever() const;

  graph::OpRegistry& ops();
  const graph::OpRegistry& ops() const;
  exec::KernelRegistry& kernels();
  const exec::KernelRegistry& kernels() const;
  exec::HostThreads& threads();
  DeadlineWatcher& deadlines();
  exec::EventLoop& events();
  exec::TuningCache& tuning();
  // Resources of named containers, shared by sessions.
  exec::ResourceManager& resources();
  // Devices found, those with a problem too.
  std::vector<exec::Device> devices() const;
  // Compilers of device types, as they were registered.
  std::vector<exec::CompilerEntry> compilers() const;
  std::vector<exec::LoopCompilerEntry> loop_compilers() const;
  // Copies between devices of different drivers, in the order in which they were registered.
  std::vector<std::shared_ptr<const exec::DeviceCopy>> device_copies() const;
  // Passes over the graphs of steps, by the ids of their plugins.
  std::vector<optimize::PluginPass> graph_passes() const;
  // Those, once what is about the graph's ops has been opened.
  std::vector<optimize::PluginPass> PassesFor(const graph::Graph& graph) const;
  // Who opens packages whose passes are about one of these ops, said before the first session.
  using PassOpener = std::function<void(const std::set<std::string_view>& ops)>;
  void SetPassOpener(PassOpener opener);
  // Types of variants that may leave their process.
  variant::Types& variant_types() const;
  // What a plugin brought for a device type under a capability id of its own; NOT_FOUND says which there are.
  Result<exec::CapabilityEntry> FindCapability(std::string_view id, std::string_view device_type) const;
  // DeviceList::Choose.
  Result<DeviceChoice> ChooseDevices(std::string_view wish) const;
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

  // The task that this process is ("/job:worker/replica:0/task:1"), which its devices are named by. Before any device
  // is opened.
  void set_task(std::string task) { task_ = std::move(task); }
  const std::string& task() const { return task_; }

 private:
  std::shared_ptr<PluginInstance> InstanceOf(const std::string& id, tenon_plugin_self* self);
  Status RegisterTable(const tenon_capability& capability, const std::shared_ptr<PluginInstance>& plugin,
                       std::map<std::string, std::string>* refused, Counts* counts);

  struct State;
  const std::unique_ptr<State> state_;
  std::atomic<bool> keeps_for_ever_{false};
  std::string task_ = "/job:localhost/replica:0/task:0";
};

}  // namespace tenon::session

#endif  // TENON_CORE_SESSION_RUNTIME_H_
