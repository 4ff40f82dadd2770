// SPDX-License-Identifier: Apache-2.0
#include "core/session/runtime.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <thread>

#include "core/base/cancellation.h"
#include "core/base/live_objects.h"
#include "core/base/plugin_instance.h"
#include "core/exec/device/device_copy.h"
#include "core/exec/device/environment.h"
#include "core/exec/device/resources.h"
#include "core/exec/kernel/kernel_registry.h"
#include "core/exec/kernel/tuning_cache.h"
#include "core/exec/threads/event_loop.h"
#include "core/exec/threads/host_threads.h"
#include "core/files/mounts.h"
#include "core/graph/graph.h"
#include "core/graph/op_def.h"
#include "core/graph/op_registry.h"
#include "core/optimize/plugin_passes.h"
#include "core/session/device_list.h"
#include "core/session/plugin_tables.h"
#include "core/tensor/variant_types.h"
#include "tenon/ext/draft/graph_pass.h"
#include "tenon/bytes/near_miss.h"

namespace tenon::session {
namespace {

enum class Stage { kOps, kTables, kDevices };

Stage StageOf(std::string_view capability) {
  return capability == TENON_CAPABILITY_OPS      ? Stage::kOps
         : capability == TENON_CAPABILITY_DEVICE ? Stage::kDevices
                                                 : Stage::kTables;
}

uint32_t Cores() { return std::max(1u, std::thread::hardware_concurrency()); }

}  // namespace

struct Runtime::State {
  explicit State(uint32_t threads) : threads(threads == 0 ? Cores() : threads) {}

  graph::OpRegistry ops;
  exec::KernelRegistry kernels;
  exec::HostThreads threads;
  DeadlineWatcher deadlines;
  exec::EventLoop events;  // after the threads, so that it ends before them: its thread hands work to them
  exec::TuningCache tuning;
  exec::ResourceManager resources;
  variant::Types variant_types;
  std::mutex mutex;  // guards all below, but for the devices
  std::vector<exec::CompilerEntry> compilers;
  std::vector<exec::LoopCompilerEntry> loop_compilers;
  std::vector<exec::CapabilityEntry> capabilities;
  std::vector<std::shared_ptr<const exec::DeviceCopy>> device_copies;
  // Every plugin that was loaded, for ever: graphs have its ops still, and one that comes back is the same.
  std::map<std::string, std::shared_ptr<PluginInstance>, std::less<>> instances;
  std::map<std::string, Placer, std::less<>> placers;  // by plugin
  PassOpener pass_opener;
  std::multimap<std::string, optimize::PluginPass, std::less<>> passes;  // by plugin, those of one in its order
  struct TransportEntry {
    std::string plugin;
    Transport transport;
  };
  std::map<std::string, TransportEntry, std::less<>> transports;  // by scheme
  DeviceList devices;
};

Runtime::Runtime(uint32_t threads) : state_(std::make_unique<State>(threads)) {}

Runtime::~Runtime() {
  files::Mounts::The().RemoveAll(this);
  DropResources();  // while their devices are there
}

graph::OpRegistry& Runtime::ops() { return state_->ops; }
const graph::OpRegistry& Runtime::ops() const { return state_->ops; }
exec::KernelRegistry& Runtime::kernels() { return state_->kernels; }
const exec::KernelRegistry& Runtime::kernels() const { return state_->kernels; }
exec::HostThreads& Runtime::threads() { return state_->threads; }
DeadlineWatcher& Runtime::deadlines() { return state_->deadlines; }
exec::EventLoop& Runtime::events() { return state_->events; }
exec::TuningCache& Runtime::tuning() { return state_->tuning; }
exec::ResourceManager& Runtime::resources() { return state_->resources; }
variant::Types& Runtime::variant_types() const { return state_->variant_types; }

Result<Runtime::Counts> Runtime::RegisterPlugin(const tenon_plugin& plugin, tenon_plugin_self* self) {
  const std::string id(View(plugin.id));
  NotePluginVersion(id, View(plugin.version));
  const std::shared_ptr<PluginInstance> instance = InstanceOf(id, self);
  std::map<std::string, uint32_t, std::less<>> understood;
  for (uint64_t i = 0; i < plugin.understood_count; ++i)
    understood[std::string(View(plugin.understood[i].type))] |= plugin.understood[i].bits;
  instance->SetUnderstood(std::move(understood));
  Counts counts;
  const auto undo = [&](Status status) {
    UnregisterPlugin(id);
    return status;
  };
  // Ops first: what kernels say of them can be checked then. Devices last: nothing of a plugin that is refused is
  // opened.
  std::map<std::string, std::string> refused;
  for (const Stage stage : {Stage::kOps, Stage::kTables, Stage::kDevices})
    for (uint64_t i = 0; i < plugin.capability_count; ++i) {
      const tenon_capability& capability = plugin.capabilities[i];
      if (capability.table == nullptr)
        return undo(InvalidArgument(StrCat("capability '", View(capability.id), "' has no table")));
      if (StageOf(View(capability.id)) != stage) continue;
      if (Status status = RegisterTable(capability, instance, &refused, &counts); !status.ok())
        return undo(std::move(status));
    }
  for (const auto& [op, why] : refused) {
    counts.refused_ops.push_back(why);
    --counts.ops;
  }
  return counts;
}

std::shared_ptr<PluginInstance> Runtime::InstanceOf(const std::string& id, tenon_plugin_self* self) {
  std::lock_guard lock(state_->mutex);
  std::shared_ptr<PluginInstance>& instance = state_->instances[id];
  if (instance == nullptr) instance = std::make_shared<PluginInstance>(id);
  instance->Open(self);
  return instance;
}

bool Runtime::Retire(std::string_view id) {
  std::shared_ptr<PluginInstance> instance;
  {
    std::lock_guard lock(state_->mutex);
    if (const auto found = state_->instances.find(id); found != state_->instances.end()) instance = found->second;
  }
  if (instance == nullptr) return true;
  instance->Close();
  if (instance->calls() == 0 && LiveObjects(id) == 0) return true;
  instance->Open(instance->self());
  return false;
}

Status Runtime::RegisterTable(const tenon_capability& capability, const std::shared_ptr<PluginInstance>& plugin,
                              std::map<std::string, std::string>* refused, Counts* counts) {
  const std::string& id = plugin->id();
  tenon_plugin_self* const self = plugin->self();
  const std::string_view what = View(capability.id);
  if (what == TENON_CAPABILITY_OPS) {
    const auto& package = *static_cast<const tenon_op_package*>(capability.table);
    TENON_RETURN_IF_ERROR(state_->ops.Register(package, plugin, refused));
    counts->ops += static_cast<uint32_t>(package.count);
  } else if (what == TENON_CAPABILITY_GRADIENTS) {
    return state_->ops.RegisterGradients(*static_cast<const tenon_gradient_package*>(capability.table), plugin);
  } else if (what == TENON_CAPABILITY_KERNELS) {
    const auto& package = *static_cast<const tenon_kernel_package*>(capability.table);
    TENON_RETURN_IF_ERROR(state_->kernels.Register(package, plugin, *refused,
                                                   [this](std::string_view op) { return state_->ops.FindOpened(op); }));
    counts->kernels += static_cast<uint32_t>(package.count);
  } else if (what == TENON_CAPABILITY_DEVICE) {
    TENON_ASSIGN_OR_RETURN(const tenon_device_driver* driver,
                           AdoptDriver(static_cast<const tenon_device_driver*>(capability.table)));
    counts->devices += state_->devices.Open(*driver, self, id, task_);
  } else if (what == TENON_CAPABILITY_PLACER) {
    TENON_ASSIGN_OR_RETURN(const tenon_placer* placer, AdoptPlacer(static_cast<const tenon_placer*>(capability.table)));
    std::lock_guard lock(state_->mutex);
    state_->placers[id] = {placer, self};
  } else if (what == TENON_CAPABILITY_TRANSPORT) {
    TENON_ASSIGN_OR_RETURN(const tenon_transport* transport,
                           AdoptTransport(static_cast<const tenon_transport*>(capability.table)));
    std::lock_guard lock(state_->mutex);
    state_->transports.try_emplace(std::string(View(transport->scheme)), State::TransportEntry{id, {transport, self}});
  } else if (what == TENON_CAPABILITY_FILESYSTEM) {
    TENON_ASSIGN_OR_RETURN(const tenon_filesystem* filesystem,
                           AdoptFilesystem(static_cast<const tenon_filesystem*>(capability.table)));
    return files::Mounts::The().Add(this, id, filesystem, self);
  } else if (what == TENON_CAPABILITY_COMPILER) {
    TENON_ASSIGN_OR_RETURN(const tenon_compiler* compiler,
                           AdoptCompiler(static_cast<const tenon_compiler*>(capability.table)));
    std::lock_guard lock(state_->mutex);
    state_->compilers.push_back({id, compiler, self});
  } else if (what == TENON_CAPABILITY_LOOP_COMPILER) {
    TENON_ASSIGN_OR_RETURN(const tenon_loop_compiler* compiler,
                           AdoptLoopCompiler(static_cast<const tenon_loop_compiler*>(capability.table)));
    std::lock_guard lock(state_->mutex);
    state_->loop_compilers.push_back({id, compiler, self});
  } else if (what == TENON_CAPABILITY_COLLECTIVE) {
    TENON_ASSIGN_OR_RETURN(const tenon_collective* collective,
                           AdoptCollective(static_cast<const tenon_collective*>(capability.table)));
    std::lock_guard lock(state_->mutex);
    state_->capabilities.push_back(
        {id, std::string(what), std::string(View(collective->device_type)), collective, self});
  } else if (what == TENON_CAPABILITY_DEVICE_COPY) {
    TENON_ASSIGN_OR_RETURN(const tenon_device_copy* copy,
                           AdoptDeviceCopy(static_cast<const tenon_device_copy*>(capability.table)));
    std::lock_guard lock(state_->mutex);
    state_->device_copies.push_back(
        std::make_shared<const exec::DeviceCopy>(exec::DeviceCopy{std::string(id), copy, self}));
  } else if (what == TENON_CAPABILITY_GRAPH_PASS) {
    TENON_ASSIGN_OR_RETURN(optimize::PluginPass pass,
                           optimize::AdoptPass(static_cast<const tenon_graph_pass*>(capability.table), plugin));
    std::lock_guard lock(state_->mutex);
    state_->passes.emplace(id, std::move(pass));
  } else if (what == TENON_CAPABILITY_VARIANTS) {
    return state_->variant_types.Register(static_cast<const tenon_variant_package*>(capability.table), plugin);
  } else {
    counts->ignored.emplace_back(what);
  }
  return Status::Ok();
}

void Runtime::UnregisterPlugin(std::string_view id) {
  state_->ops.Unregister(id);
  state_->kernels.Unregister(id);
  state_->variant_types.Unregister(id);
  files::Mounts::The().Remove(this, id);
  state_->devices.CloseOf(id);
  std::lock_guard lock(state_->mutex);
  std::erase_if(state_->compilers, [&](const auto& compiler) { return compiler.plugin == id; });
  std::erase_if(state_->loop_compilers, [&](const auto& compiler) { return compiler.plugin == id; });
  std::erase_if(state_->device_copies, [&](const auto& copy) { return copy->plugin == id; });
  std::erase_if(state_->capabilities, [&](const auto& capability) { return capability.plugin == id; });
  if (const auto instance = state_->instances.find(id); instance != state_->instances.end())
    instance->second->Close();  // graphs have its ops still
  std::erase_if(state_->transports, [&](const auto& entry) { return entry.second.plugin == id; });
  if (const auto placer = state_->placers.find(id); placer != state_->placers.end()) state_->placers.erase(placer);
  std::erase_if(state_->passes, [&](const auto& pass) { return pass.first == id; });
}

Result<Runtime::Placer> Runtime::FindPlacer(std::string_view plugin) const {
  std::lock_guard lock(state_->mutex);
  if (const auto found = state_->placers.find(plugin); found != state_->placers.end()) return found->second;
  std::string known;
  for (const auto& [id, placer] : state_->placers) known += StrCat(known.empty() ? "" : ", ", id);
  return NotFound(StrCat("no plugin '", plugin, "' brings a placer; those that do: ", known.empty() ? "none" : known));
}

Result<Runtime::Transport> Runtime::FindTransport(std::string_view scheme) const {
  std::lock_guard lock(state_->mutex);
  if (const auto found = state_->transports.find(scheme); found != state_->transports.end())
    return found->second.transport;
  std::string known;
  sdk::NearMiss near(scheme);
  for (const auto& [name, entry] : state_->transports) {
    known += StrCat(known.empty() ? "" : ", ", name);
    near.Try(name);
  }
  return NotFound(StrCat("no plugin brings the transport '", scheme, "'", near.Hint(),
                         " (those that are there: ", known.empty() ? "none" : known, ")"));
}

int64_t Runtime::LiveObjects(std::string_view id) const {
  int64_t count = LiveKernels(id) + files::Mounts::The().OpenFiles(this, id);
  {
    std::lock_guard lock(state_->mutex);
    for (const auto& copy : state_->device_copies)
      if (copy->plugin == id) count += copy.use_count() - 1;  // sessions that use it
  }
  const bool has_host_device = state_->devices.HasOnHost(id);
  // Named variables outlive their sessions; their memory is the device's that made it.
  return count + state_->resources.CountHeld([&](const exec::Device* device) {
    return device == nullptr ? has_host_device : device->plugin == id;
  });
}

void Runtime::DropResources() { state_->resources.ClearAll(); }

void Runtime::KeepForEver(std::shared_ptr<const void> kept) {
  struct Kept {
    std::mutex mutex;
    std::vector<std::shared_ptr<const void>> all;
  };
  static Kept* const all = new Kept;
  keeps_for_ever_.store(true);
  std::lock_guard lock(all->mutex);
  all->all.push_back(std::move(kept));
}

bool Runtime::keeps_for_ever() const { return keeps_for_ever_.load() || state_->devices.stuck(); }

std::vector<exec::Device> Runtime::devices() const { return state_->devices.All(); }

Result<DeviceChoice> Runtime::ChooseDevices(std::string_view wish) const { return state_->devices.Choose(wish); }

std::vector<exec::LoopCompilerEntry> Runtime::loop_compilers() const {
  std::lock_guard lock(state_->mutex);
  return state_->loop_compilers;
}

std::vector<exec::CompilerEntry> Runtime::compilers() const {
  std::lock_guard lock(state_->mutex);
  return state_->compilers;
}

std::vector<std::shared_ptr<const exec::DeviceCopy>> Runtime::device_copies() const {
  std::lock_guard lock(state_->mutex);
  return state_->device_copies;
}

std::vector<optimize::PluginPass> Runtime::graph_passes() const {
  std::lock_guard lock(state_->mutex);
  std::vector<optimize::PluginPass> passes;
  for (const auto& [id, pass] : state_->passes) passes.push_back(pass);
  return passes;
}

std::vector<optimize::PluginPass> Runtime::PassesFor(const graph::Graph& graph) const {
  if (state_->pass_opener) {
    std::set<std::string_view> ops;
    for (const graph::NodeId id : graph.ids()) ops.insert(graph.node(id).op->name);
    state_->pass_opener(ops);
  }
  return graph_passes();
}

void Runtime::SetPassOpener(PassOpener opener) { state_->pass_opener = std::move(opener); }

Result<exec::CapabilityEntry> Runtime::FindCapability(std::string_view id, std::string_view device_type) const {
  std::lock_guard lock(state_->mutex);
  std::string known;
  for (const exec::CapabilityEntry& entry : state_->capabilities) {
    if (entry.id == id && entry.device_type == device_type) return entry;
    known += StrCat(known.empty() ? "" : ", ", entry.id, " of ", entry.plugin, " for ", entry.device_type);
  }
  return NotFound(StrCat("no loaded plugin brings the capability '", id, "' for devices of type ", device_type,
                         " to kernels; those that are there: ", known.empty() ? "none" : known));
}

}  // namespace tenon::session
