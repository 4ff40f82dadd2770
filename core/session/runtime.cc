// SPDX-License-Identifier: Apache-2.0
#include "core/session/runtime.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "core/base/adopt.h"
#include "core/base/live_objects.h"
#include "core/base/log.h"
#include "core/base/table_check.h"
#include "core/files/mounts.h"
#include "tenon/ext/draft/collective.h"
#include "tenon/sdk/near_miss.h"

namespace tenon::session {
namespace {

uint32_t Cores() { return std::max(1u, std::thread::hardware_concurrency()); }

constexpr uint32_t kMostDevices = 1024;
constexpr uint32_t kMostMemoryKinds = 64;

// The driver as this host knows it, with all functions that it calls.
Result<const tenon_device_driver*> AdoptDriver(const tenon_device_driver* given) {
  using Driver = tenon_device_driver;
  TENON_RETURN_IF_ERROR(CheckHead(given, TENON_SIZE_UP_TO(Driver, device_type), TENON_CAPABILITY_DEVICE));
  const Driver* driver = Adopt(given);
  TENON_RETURN_IF_ERROR(CheckName(driver->device_type, "the device_type of a driver"));
  const std::string what = StrCat("the driver of ", View(driver->device_type));
  if (driver->reserved != 0) return Unimplemented(StrCat(what, " has ", driver->reserved, " in its reserved member, which this host knows as 0 alone"));
  static constexpr TableFunction kNeeded[] = {TENON_TABLE_FUNCTION(Driver, count),       TENON_TABLE_FUNCTION(Driver, open),
                                              TENON_TABLE_FUNCTION(Driver, properties),  TENON_TABLE_FUNCTION(Driver, memory_kind),
                                              TENON_TABLE_FUNCTION(Driver, allocate),    TENON_TABLE_FUNCTION(Driver, free)};
  TENON_RETURN_IF_ERROR(CheckFunctions(driver, given->struct_size, kNeeded, what));
  if (driver->queue_create == nullptr && driver->semaphore_create == nullptr) return driver;
  static constexpr TableFunction kOfQueues[] = {
      TENON_TABLE_FUNCTION(Driver, queue_create),     TENON_TABLE_FUNCTION(Driver, queue_destroy),     TENON_TABLE_FUNCTION(Driver, queue_copy),
      TENON_TABLE_FUNCTION(Driver, queue_barrier),    TENON_TABLE_FUNCTION(Driver, queue_host_call),   TENON_TABLE_FUNCTION(Driver, semaphore_create),
      TENON_TABLE_FUNCTION(Driver, semaphore_destroy), TENON_TABLE_FUNCTION(Driver, semaphore_query), TENON_TABLE_FUNCTION(Driver, semaphore_fail),
      TENON_TABLE_FUNCTION(Driver, semaphore_wait)};
  TENON_RETURN_IF_ERROR(CheckFunctions(driver, given->struct_size, kOfQueues, StrCat(what, ", which has queues,")));
  return driver;
}

Result<const tenon_transport*> AdoptTransport(const tenon_transport* given) {
  using Table = tenon_transport;
  TENON_RETURN_IF_ERROR(CheckHead(given, TENON_SIZE_UP_TO(Table, scheme), TENON_CAPABILITY_TRANSPORT));
  const Table* transport = Adopt(given);
  TENON_RETURN_IF_ERROR(CheckName(transport->scheme, "the scheme of a transport"));
  static constexpr TableFunction kNeeded[] = {
      TENON_TABLE_FUNCTION(Table, open),        TENON_TABLE_FUNCTION(Table, address),      TENON_TABLE_FUNCTION(Table, connect),
      TENON_TABLE_FUNCTION(Table, disconnect),  TENON_TABLE_FUNCTION(Table, peer_name),    TENON_TABLE_FUNCTION(Table, call),
      TENON_TABLE_FUNCTION(Table, cancel),      TENON_TABLE_FUNCTION(Table, respond),      TENON_TABLE_FUNCTION(Table, stream_open),
      TENON_TABLE_FUNCTION(Table, stream_write), TENON_TABLE_FUNCTION(Table, stream_close), TENON_TABLE_FUNCTION(Table, send),
      TENON_TABLE_FUNCTION(Table, drain),       TENON_TABLE_FUNCTION(Table, stop)};
  TENON_RETURN_IF_ERROR(CheckFunctions(transport, given->struct_size, kNeeded, StrCat("the transport '", View(transport->scheme), "'")));
  return transport;
}

Result<const tenon_filesystem*> AdoptFilesystem(const tenon_filesystem* given) {
  using Table = tenon_filesystem;
  TENON_RETURN_IF_ERROR(CheckHead(given, TENON_SIZE_UP_TO(Table, scheme), TENON_CAPABILITY_FILESYSTEM));
  const Table* filesystem = Adopt(given);
  TENON_RETURN_IF_ERROR(CheckName(filesystem->scheme, "the scheme of a file system"));
  static constexpr TableFunction kNeeded[] = {
      TENON_TABLE_FUNCTION(Table, open_read), TENON_TABLE_FUNCTION(Table, open_write), TENON_TABLE_FUNCTION(Table, open_append),
      TENON_TABLE_FUNCTION(Table, size),      TENON_TABLE_FUNCTION(Table, read_at),    TENON_TABLE_FUNCTION(Table, write),
      TENON_TABLE_FUNCTION(Table, sync),      TENON_TABLE_FUNCTION(Table, close),      TENON_TABLE_FUNCTION(Table, rename),
      TENON_TABLE_FUNCTION(Table, remove),    TENON_TABLE_FUNCTION(Table, make_directory), TENON_TABLE_FUNCTION(Table, sync_directory),
      TENON_TABLE_FUNCTION(Table, exists),    TENON_TABLE_FUNCTION(Table, list)};
  TENON_RETURN_IF_ERROR(CheckFunctions(filesystem, given->struct_size, kNeeded, StrCat("the file system '", View(filesystem->scheme), "'")));
  return filesystem;
}

Result<const tenon_placer*> AdoptPlacer(const tenon_placer* given) {
  TENON_RETURN_IF_ERROR(CheckHead(given, sizeof(uint32_t) * 2, TENON_CAPABILITY_PLACER));
  const tenon_placer* placer = Adopt(given);
  static constexpr TableFunction kNeeded[] = {TENON_TABLE_FUNCTION(tenon_placer, place)};
  TENON_RETURN_IF_ERROR(CheckFunctions(placer, given->struct_size, kNeeded, "a placer"));
  return placer;
}

Result<const tenon_compiler*> AdoptCompiler(const tenon_compiler* given) {
  TENON_RETURN_IF_ERROR(CheckHead(given, TENON_SIZE_UP_TO(tenon_compiler, device_type), TENON_CAPABILITY_COMPILER));
  const tenon_compiler* compiler = Adopt(given);
  TENON_RETURN_IF_ERROR(CheckName(compiler->device_type, "the device_type of a compiler"));
  static constexpr TableFunction kNeeded[] = {TENON_TABLE_FUNCTION(tenon_compiler, claim), TENON_TABLE_FUNCTION(tenon_compiler, compile),
                                              TENON_TABLE_FUNCTION(tenon_compiler, destroy), TENON_TABLE_FUNCTION(tenon_compiler, run)};
  TENON_RETURN_IF_ERROR(CheckFunctions(compiler, given->struct_size, kNeeded, StrCat("the compiler for ", View(compiler->device_type))));
  return compiler;
}

Result<const tenon_collective*> AdoptCollective(const tenon_collective* given) {
  using Table = tenon_collective;
  TENON_RETURN_IF_ERROR(CheckHead(given, TENON_SIZE_UP_TO(Table, device_type), TENON_CAPABILITY_COLLECTIVE));
  const Table* collective = Adopt(given);
  TENON_RETURN_IF_ERROR(CheckName(collective->device_type, "the device_type of collectives"));
  static constexpr TableFunction kNeeded[] = {TENON_TABLE_FUNCTION(Table, make_token), TENON_TABLE_FUNCTION(Table, join),
                                              TENON_TABLE_FUNCTION(Table, leave)};
  TENON_RETURN_IF_ERROR(CheckFunctions(collective, given->struct_size, kNeeded, StrCat("the collectives for ", View(collective->device_type))));
  return collective;
}

// That a driver's numbers are some that can be: who places nodes adds and compares them.
Status CheckProperties(const tenon_device_properties& properties) {
  const std::pair<const char*, double> numbers[] = {
      {"flops", properties.flops},
      {"bytes_per_second", properties.bytes_per_second},
      {"link_bytes_per_second", properties.link_bytes_per_second},
      {"peer_bytes_per_second", properties.peer_bytes_per_second},
      {"copy_seconds", properties.copy_seconds},
      {"launch_seconds", properties.launch_seconds}};
  for (const auto& [name, number] : numbers)
    if (!(number >= 0) || std::isinf(number)) return Internal(StrCat("its properties() gave ", name, " ", number, "; a number from 0 on is wanted, 0 where it is unknown"));
  if (properties.memory_kind_count > kMostMemoryKinds)
    return Internal(StrCat("its properties() gave memory_kind_count ", properties.memory_kind_count, "; at most ", kMostMemoryKinds, " can be"));
  return CheckText(properties.name, "the name that its properties() gave");
}

}  // namespace

Runtime::Runtime(uint32_t threads) : threads_(threads == 0 ? Cores() : threads) {}

Runtime::~Runtime() {
  files::Mounts::The().RemoveAll(this);
  DropResources();  // while their devices are there
  for (const auto& device : devices_) CloseDevice(device.get());
}

void Runtime::CloseDevice(exec::Device* device) {
  const auto stuck = device->queues == nullptr ? nullptr : device->queues->stuck();
  device->queues.reset();  // they are the device's
  if (stuck != nullptr && stuck->load()) {
    keeps_for_ever_.store(true);  // a thread is in the plugin
    return;
  }
  if (device->handle != nullptr && device->driver->close != nullptr)
    TellPlugin(device->plugin, "close", [device] { device->driver->close(device->handle); });
  device->handle = nullptr;
}

// What a device's driver says of it.
Status Runtime::Ask(exec::Device* device) {
  const tenon_device_driver& driver = *device->driver;
  tenon_device_properties properties{};
  properties.struct_size = sizeof properties;
  TENON_RETURN_IF_ERROR(CallPlugin(device->plugin, "properties", [&] { return driver.properties(device->handle, &properties); }));
  return Believe(properties, device).Annotate(DescribePlugin(device->plugin));
}

Status Runtime::Believe(const tenon_device_properties& properties, exec::Device* device) {
  const tenon_device_driver& driver = *device->driver;
  TENON_RETURN_IF_ERROR(CheckProperties(properties));
  device->model = View(properties.name);
  device->properties = properties;
  device->synchronous = properties.synchronous != 0;
  if (!device->synchronous && driver.queue_create == nullptr) return Internal("its properties() gave synchronous 0, and the driver has no queues");
  uint32_t flags = 0;
  for (uint32_t kind = 0; kind < std::max(1u, properties.memory_kind_count); ++kind) {
    tenon_memory_kind memory{};
    memory.struct_size = sizeof memory;
    if (!CallPlugin(device->plugin, "memory_kind", [&] { return driver.memory_kind(device->handle, kind, &memory); }).ok()) continue;
    TENON_RETURN_IF_ERROR(CheckText(memory.name, "the name that its memory_kind() gave"));
    if (kind == 0) device->memory_bytes = memory.total_bytes;
    if (kind == 0) flags = memory.flags;
    if (kind < properties.memory_kind_count) device->memory_kinds += StrCat(kind == 0 ? "" : ", ", View(memory.name));
  }
  if (!device->synchronous) return Status::Ok();
  if ((flags & TENON_MEMORY_HOST_VISIBLE) == 0)
    return Internal("its properties() gave synchronous 1, and its memory 0 is not TENON_MEMORY_HOST_VISIBLE");
  return TryMemory(*device);
}

// A synchronous device's memory is read and written by the host.
Status Runtime::TryMemory(const exec::Device& device) {
  constexpr uint64_t kBytes = 64;
  void* data = nullptr;
  TENON_RETURN_IF_ERROR(CallPlugin(device.plugin, "allocate", [&] { return device.driver->allocate(device.handle, 0, kBytes, 64, nullptr, &data); }));
  if (data == nullptr) return Internal("its allocate() gave success and no memory");
  const auto address = reinterpret_cast<uintptr_t>(data);
  const uintptr_t page = address & ~(static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)) - 1);
  unsigned char there = 0;
  const bool mapped = mincore(reinterpret_cast<void*>(page), 1, &there) == 0;
  TellPlugin(device.plugin, "free", [&] { device.driver->free(device.handle, 0, data, kBytes, nullptr); });
  if (!mapped) return Internal("its properties() gave synchronous 1, and its allocate() gives memory that is not the host's");
  if (address % 64 != 0) return Internal("its allocate() gave memory that is not aligned to 64 bytes");
  return Status::Ok();
}

void Runtime::AddDevice(exec::Device device) {
  std::lock_guard lock(mutex_);
  int index = 0;
  for (const auto& other : devices_)
    if (other->type == device.type && other->handle != nullptr) ++index;
  if (device.handle != nullptr) device.name = StrCat(task_, "/device:", device.type, ":", index);
  if (device.handle != nullptr && !device.synchronous) {
    auto queues = exec::DeviceQueues::Open(device);
    if (!queues.ok()) {
      device.problem = queues.status().message();
      Log(TENON_LOG_WARNING, StrCat("device ", device.name, " is not used: ", device.problem));
      CloseDevice(&device);
    } else {
      device.queues = *std::move(queues);
    }
  }
  devices_.push_back(std::make_unique<exec::Device>(std::move(device)));
}

Status Runtime::OpenDevices(const tenon_device_driver& driver, tenon_plugin_self* self, const std::string& plugin, uint32_t* count) {
  exec::Device like;
  like.type = View(driver.device_type);
  like.plugin = plugin;
  like.driver = &driver;
  like.self = self;
  const auto add_problem = [&](std::string problem) {
    exec::Device none = like;
    none.problem = std::move(problem);
    AddDevice(std::move(none));
  };
  uint32_t found = 0;
  Status counted = CallPlugin(plugin, "count", [&] { return driver.count(self, &found); });
  if (counted.ok() && found > kMostDevices)
    counted = Internal(StrCat(DescribePlugin(plugin), ": its count() gave ", found, " devices; at most ", kMostDevices, " can be"));
  // That there is no such device is usual; that its driver is wrong is not.
  if (counted.code() == Code::kInternal) Log(TENON_LOG_WARNING, StrCat("no device of type ", like.type, " is used: ", counted.message()));
  if (!counted.ok()) add_problem(std::string(counted.message()));
  else if (found == 0) add_problem("the driver found no device");
  for (uint32_t i = 0; counted.ok() && i < found; ++i) {
    exec::Device device = like;
    Status status = CallPlugin(plugin, "open", [&] { return driver.open(self, i, &device.handle); });
    if (!status.ok()) device.handle = nullptr;
    else if (device.handle == nullptr) status = Internal(StrCat(DescribePlugin(plugin), ": its open() gave success and no device"));
    else status = Ask(&device);
    if (status.ok()) {
      AddDevice(std::move(device));
      ++*count;
      continue;
    }
    CloseDevice(&device);
    Log(TENON_LOG_WARNING, StrCat("device ", i, " of type ", device.type, " is not used: ", status.message()));
    add_problem(std::string(status.message()));
  }
  return Status::Ok();
}

Result<Runtime::Counts> Runtime::RegisterPlugin(const tenon_plugin& plugin, tenon_plugin_self* self) {
  const std::string id(View(plugin.id));
  NotePluginVersion(id, View(plugin.version));
  const std::shared_ptr<PluginInstance> instance = InstanceOf(id, self);
  std::map<std::string, uint32_t, std::less<>> understood;
  for (uint64_t i = 0; i < plugin.understood_count; ++i) understood[std::string(View(plugin.understood[i].type))] |= plugin.understood[i].bits;
  instance->SetUnderstood(std::move(understood));
  Counts counts;
  const auto undo = [&](Status status) {
    UnregisterPlugin(id);
    return status;
  };
  // Ops first: what kernels say of them can be checked then. Devices last: nothing of a plugin that is refused is opened.
  std::map<std::string, std::string> refused;
  for (const Stage stage : {Stage::kOps, Stage::kTables, Stage::kDevices})
    for (uint64_t i = 0; i < plugin.capability_count; ++i) {
      const tenon_capability& capability = plugin.capabilities[i];
      if (capability.table == nullptr) return undo(InvalidArgument(StrCat("capability '", View(capability.id), "' has no table")));
      if (StageOf(View(capability.id)) != stage) continue;
      if (Status status = RegisterTable(capability, instance, &refused, &counts); !status.ok()) return undo(std::move(status));
    }
  for (const auto& [op, why] : refused) {
    counts.refused_ops.push_back(why);
    --counts.ops;
  }
  return counts;
}

Runtime::Stage Runtime::StageOf(std::string_view capability) {
  return capability == TENON_CAPABILITY_OPS ? Stage::kOps : capability == TENON_CAPABILITY_DEVICE ? Stage::kDevices : Stage::kTables;
}

std::shared_ptr<PluginInstance> Runtime::InstanceOf(const std::string& id, tenon_plugin_self* self) {
  std::lock_guard lock(mutex_);
  std::shared_ptr<PluginInstance>& instance = instances_[id];
  if (instance == nullptr) instance = std::make_shared<PluginInstance>(id);
  instance->Open(self);
  return instance;
}

bool Runtime::Retire(std::string_view id) {
  std::shared_ptr<PluginInstance> instance;
  {
    std::lock_guard lock(mutex_);
    if (const auto found = instances_.find(id); found != instances_.end()) instance = found->second;
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
    TENON_RETURN_IF_ERROR(ops_.Register(package, plugin, refused));
    counts->ops += static_cast<uint32_t>(package.count);
  } else if (what == TENON_CAPABILITY_GRADIENTS) {
    return ops_.RegisterGradients(*static_cast<const tenon_gradient_package*>(capability.table), plugin);
  } else if (what == TENON_CAPABILITY_KERNELS) {
    const auto& package = *static_cast<const tenon_kernel_package*>(capability.table);
    TENON_RETURN_IF_ERROR(kernels_.Register(package, plugin, *refused, [this](std::string_view op) { return ops_.FindOpened(op); }));
    counts->kernels += static_cast<uint32_t>(package.count);
  } else if (what == TENON_CAPABILITY_DEVICE) {
    TENON_ASSIGN_OR_RETURN(const tenon_device_driver* driver, AdoptDriver(static_cast<const tenon_device_driver*>(capability.table)));
    return OpenDevices(*driver, self, id, &counts->devices);
  } else if (what == TENON_CAPABILITY_PLACER) {
    TENON_ASSIGN_OR_RETURN(const tenon_placer* placer, AdoptPlacer(static_cast<const tenon_placer*>(capability.table)));
    std::lock_guard lock(mutex_);
    placers_[id] = {placer, self};
  } else if (what == TENON_CAPABILITY_TRANSPORT) {
    TENON_ASSIGN_OR_RETURN(const tenon_transport* transport, AdoptTransport(static_cast<const tenon_transport*>(capability.table)));
    std::lock_guard lock(mutex_);
    transports_.try_emplace(std::string(View(transport->scheme)), TransportEntry{id, {transport, self}});
  } else if (what == TENON_CAPABILITY_FILESYSTEM) {
    TENON_ASSIGN_OR_RETURN(const tenon_filesystem* filesystem, AdoptFilesystem(static_cast<const tenon_filesystem*>(capability.table)));
    return files::Mounts::The().Add(this, id, filesystem, self);
  } else if (what == TENON_CAPABILITY_COMPILER) {
    TENON_ASSIGN_OR_RETURN(const tenon_compiler* compiler, AdoptCompiler(static_cast<const tenon_compiler*>(capability.table)));
    std::lock_guard lock(mutex_);
    compilers_.push_back({id, compiler, self});
  } else if (what == TENON_CAPABILITY_COLLECTIVE) {
    TENON_ASSIGN_OR_RETURN(const tenon_collective* collective, AdoptCollective(static_cast<const tenon_collective*>(capability.table)));
    std::lock_guard lock(mutex_);
    capabilities_.push_back({id, std::string(what), std::string(View(collective->device_type)), collective, self});
  } else {
    counts->ignored.emplace_back(what);
  }
  return Status::Ok();
}

void Runtime::UnregisterPlugin(std::string_view id) {
  ops_.Unregister(id);
  kernels_.Unregister(id);
  files::Mounts::The().Remove(this, id);
  std::lock_guard lock(mutex_);
  for (auto& device : devices_)
    if (device->plugin == id) CloseDevice(device.get());
  std::erase_if(devices_, [&](const auto& device) { return device->plugin == id; });
  std::erase_if(compilers_, [&](const auto& compiler) { return compiler.plugin == id; });
  std::erase_if(capabilities_, [&](const auto& capability) { return capability.plugin == id; });
  if (const auto instance = instances_.find(id); instance != instances_.end()) instance->second->Close();  // graphs have its ops still
  std::erase_if(transports_, [&](const auto& entry) { return entry.second.plugin == id; });
  if (const auto placer = placers_.find(id); placer != placers_.end()) placers_.erase(placer);
}

Result<Runtime::Placer> Runtime::FindPlacer(std::string_view plugin) const {
  std::lock_guard lock(mutex_);
  if (const auto found = placers_.find(plugin); found != placers_.end()) return found->second;
  std::string known;
  for (const auto& [id, placer] : placers_) known += StrCat(known.empty() ? "" : ", ", id);
  return NotFound(StrCat("no plugin '", plugin, "' brings a placer; those that do: ", known.empty() ? "none" : known));
}

Result<Runtime::Transport> Runtime::FindTransport(std::string_view scheme) const {
  std::lock_guard lock(mutex_);
  if (const auto found = transports_.find(scheme); found != transports_.end()) return found->second.transport;
  std::string known;
  sdk::NearMiss near(scheme);
  for (const auto& [name, entry] : transports_) {
    known += StrCat(known.empty() ? "" : ", ", name);
    near.Try(name);
  }
  return NotFound(StrCat("no plugin brings the transport '", scheme, "'", near.Hint(),
                         " (those that are there: ", known.empty() ? "none" : known, ")"));
}

int64_t Runtime::LiveObjects(std::string_view id) const {
  int64_t count = LiveKernels(id) + files::Mounts::The().OpenFiles(this, id);
  bool has_host_device = false;
  {
    std::lock_guard lock(mutex_);
    for (const auto& device : devices_) has_host_device = has_host_device || (device->plugin == id && device->queues == nullptr);
  }
  // Named variables outlive their sessions; their memory is the device's that made it.
  return count + resources_.CountHeld([&](const exec::Device* device) { return device == nullptr ? has_host_device : device->plugin == id; });
}

void Runtime::DropResources() { resources_.ClearAll(); }

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

std::vector<exec::Device> Runtime::devices() const {
  std::lock_guard lock(mutex_);
  std::vector<exec::Device> out;
  for (const auto& device : devices_) out.push_back(*device);
  return out;
}

std::vector<exec::CompilerEntry> Runtime::compilers() const {
  std::lock_guard lock(mutex_);
  return compilers_;
}

Result<exec::CapabilityEntry> Runtime::FindCapability(std::string_view id, std::string_view device_type) const {
  std::lock_guard lock(mutex_);
  std::string known;
  for (const exec::CapabilityEntry& entry : capabilities_) {
    if (entry.id == id && entry.device_type == device_type) return entry;
    known += StrCat(known.empty() ? "" : ", ", entry.id, " of ", entry.plugin, " for ", entry.device_type);
  }
  return NotFound(StrCat("no loaded plugin brings the capability '", id, "' for devices of type ", device_type,
                         " to kernels; those that are there: ", known.empty() ? "none" : known));
}

Result<Runtime::Choice> Runtime::ChooseDevices(std::string_view wish) const {
  std::lock_guard lock(mutex_);
  Choice choice;
  std::string known;
  const exec::Device* wished = nullptr;
  const auto better = [](const exec::Device& device, const exec::Device* best) {
    return best == nullptr || device.driver->priority > best->driver->priority;
  };
  const exec::Device* host = nullptr;
  for (const auto& device : devices_) {
    known += StrCat(known.empty() ? "" : ", ", device->handle == nullptr ? StrCat(device->type, " (", device->problem, ")") : device->name);
    if (device->handle == nullptr) continue;
    choice.devices.push_back(device.get());
    const bool fits = !wish.empty() && (wish == device->name || wish == device->type || device->name.ends_with(wish));
    if (fits && better(*device, wished)) wished = device.get();
    if (device->synchronous && better(*device, host)) host = device.get();
  }
  if (wished != nullptr && wished->synchronous) host = wished;
  if (!wish.empty() && wished == nullptr)
    return NotFound(StrCat("there is no device '", wish, "'; there are: ", known.empty() ? "none" : known));
  if (host == nullptr)
    return NotFound(StrCat("there is no device that runs on the host's memory; load a plugin that brings one", known.empty() ? "" : " (found: ",
                           known, known.empty() ? "" : ")"));
  std::stable_partition(choice.devices.begin(), choice.devices.end(), [host](const exec::Device* device) { return device == host; });
  if (wished != nullptr)
    choice.wished = static_cast<size_t>(std::find(choice.devices.begin(), choice.devices.end(), wished) - choice.devices.begin());
  return choice;
}

}  // namespace tenon::session
