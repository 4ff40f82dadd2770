// SPDX-License-Identifier: Apache-2.0
#include "core/session/runtime.h"

#include <algorithm>
#include <thread>

#include "core/base/adopt.h"
#include "core/session/mounts.h"

namespace tenon::session {
namespace {

uint32_t Cores() { return std::max(1u, std::thread::hardware_concurrency()); }

// The driver as this host knows it.
Result<const tenon_device_driver*> AdoptDriver(const tenon_device_driver* given) {
  if (given->must_understand != 0) return Unimplemented("a device driver needs a feature of a newer host");
  const tenon_device_driver* driver = Adopt(given);
  if (driver->count == nullptr || driver->open == nullptr || driver->properties == nullptr || driver->allocate == nullptr ||
      driver->free == nullptr || driver->memory_kind == nullptr)
    return InvalidArgument("a device driver lacks one of count, open, properties, memory_kind, allocate, free");
  const bool some = driver->queue_create != nullptr || driver->semaphore_create != nullptr;
  const bool all = driver->queue_create != nullptr && driver->queue_destroy != nullptr && driver->queue_copy != nullptr &&
                   driver->queue_barrier != nullptr && driver->queue_host_call != nullptr && driver->semaphore_create != nullptr &&
                   driver->semaphore_destroy != nullptr && driver->semaphore_query != nullptr && driver->semaphore_fail != nullptr &&
                   driver->semaphore_wait != nullptr;
  if (some && !all)
    return InvalidArgument("a device driver with queues lacks one of queue_create, queue_destroy, queue_copy, queue_barrier, "
                           "queue_host_call, semaphore_create, semaphore_destroy, semaphore_query, semaphore_fail, semaphore_wait");
  return driver;
}

}  // namespace

Runtime::Runtime(uint32_t threads) : threads_(threads == 0 ? Cores() : threads) {}

Runtime::~Runtime() {
  Mounts::The().RemoveAll(this);
  DropResources();  // while their devices are there
  for (const auto& device : devices_) CloseDevice(device.get());
}

void Runtime::CloseDevice(exec::Device* device) {
  device->queues.reset();  // they are the device's
  if (device->handle != nullptr && device->driver->close != nullptr) device->driver->close(device->handle);
  device->handle = nullptr;
}

Status Runtime::OpenDevices(const tenon_device_driver& driver, tenon_plugin_self* self, const std::string& plugin, uint32_t* count) {
  uint32_t found = 0;
  Status status(driver.count(self, &found));
  const auto add = [&](exec::Device device) {
    device.type = View(driver.device_type);
    device.plugin = plugin;
    device.self = self;
    std::lock_guard lock(mutex_);
    int index = 0;
    for (const auto& other : devices_)
      if (other->type == device.type && other->handle != nullptr) ++index;
    if (device.handle != nullptr) device.name = StrCat(task_, "/device:", device.type, ":", index);
    device.driver = &driver;
    if (device.handle != nullptr && !device.synchronous) {
      auto queues = exec::DeviceQueues::Open(device);
      if (!queues.ok()) {
        device.problem = queues.status().message();
        if (driver.close != nullptr) driver.close(std::exchange(device.handle, nullptr));
      } else {
        device.queues = *std::move(queues);
      }
    }
    devices_.push_back(std::make_unique<exec::Device>(std::move(device)));
  };
  if (!status.ok() || found == 0) {
    exec::Device none;
    none.problem = status.ok() ? "the driver found no device" : std::string(status.message());
    add(std::move(none));
    return Status::Ok();
  }
  for (uint32_t i = 0; i < found; ++i) {
    exec::Device device;
    Status opened(driver.open(self, i, &device.handle));
    if (!opened.ok()) {
      device.handle = nullptr;
      device.problem = opened.message();
      add(std::move(device));
      continue;
    }
    tenon_device_properties properties{};
    properties.struct_size = sizeof properties;
    tenon_memory_kind memory{};
    memory.struct_size = sizeof memory;
    if (Status s(driver.properties(device.handle, &properties)); s.ok()) {
      device.model = View(properties.name);
      device.properties = properties;
      device.synchronous = properties.synchronous != 0;
    }
    if (Status s(driver.memory_kind(device.handle, 0, &memory)); s.ok()) device.memory_bytes = memory.total_bytes;
    for (uint32_t kind = 0; kind < properties.memory_kind_count; ++kind)
      if (Status s(driver.memory_kind(device.handle, kind, &memory)); s.ok()) device.memory_kinds += StrCat(kind == 0 ? "" : ", ", View(memory.name));
    add(std::move(device));
    ++*count;
  }
  return Status::Ok();
}

Result<Runtime::Counts> Runtime::RegisterPlugin(const tenon_plugin& plugin, tenon_plugin_self* self) {
  const std::string id(View(plugin.id));
  Counts counts;
  const auto undo = [&](Status status) {
    UnregisterPlugin(id);
    return status;
  };
  for (uint64_t i = 0; i < plugin.capability_count; ++i) {
    const tenon_capability& capability = plugin.capabilities[i];
    const std::string_view what = View(capability.id);
    if (capability.table == nullptr) return undo(InvalidArgument(StrCat("capability '", what, "' has no table")));
    if (what == TENON_CAPABILITY_OPS) {
      const auto& package = *static_cast<const tenon_op_package*>(capability.table);
      if (Status status = ops_.Register(package, id); !status.ok()) return undo(std::move(status));
      counts.ops += static_cast<uint32_t>(package.count);
    } else if (what == TENON_CAPABILITY_KERNELS) {
      const auto& package = *static_cast<const tenon_kernel_package*>(capability.table);
      if (Status status = kernels_.Register(package, id); !status.ok()) return undo(std::move(status));
      counts.kernels += static_cast<uint32_t>(package.count);
    } else if (what == TENON_CAPABILITY_DEVICE) {
      auto driver = AdoptDriver(static_cast<const tenon_device_driver*>(capability.table));
      if (!driver.ok()) return undo(driver.status());
      if (Status status = OpenDevices(**driver, self, id, &counts.devices); !status.ok()) return undo(std::move(status));
    } else if (what == TENON_CAPABILITY_PLACER) {
      const auto* placer = static_cast<const tenon_placer*>(capability.table);
      if (placer->must_understand != 0) return undo(Unimplemented("a placer needs a feature of a newer host"));
      std::lock_guard lock(mutex_);
      placers_[id] = {Adopt(placer), self};
    } else if (what == TENON_CAPABILITY_TRANSPORT) {
      const auto* transport = static_cast<const tenon_transport*>(capability.table);
      if (transport->must_understand != 0) return undo(Unimplemented("a transport needs a feature of a newer host"));
      std::lock_guard lock(mutex_);
      transports_.try_emplace(std::string(View(transport->scheme)), TransportEntry{id, {Adopt(transport), self}});
    } else if (what == TENON_CAPABILITY_FILESYSTEM) {
      const auto* filesystem = static_cast<const tenon_filesystem*>(capability.table);
      if (filesystem->must_understand != 0) return undo(Unimplemented("a file system needs a feature of a newer host"));
      if (Status status = Mounts::The().Add(this, id, Adopt(filesystem), self); !status.ok()) return undo(std::move(status));
    } else if (what == TENON_CAPABILITY_COMPILER) {
      const auto* compiler = Adopt(static_cast<const tenon_compiler*>(capability.table));
      if (compiler->must_understand != 0) return undo(Unimplemented("a compiler needs a feature of a newer host"));
      if (compiler->claim == nullptr || compiler->compile == nullptr || compiler->destroy == nullptr || compiler->run == nullptr)
        return undo(InvalidArgument("a compiler lacks one of claim, compile, destroy, run"));
      std::lock_guard lock(mutex_);
      compilers_.push_back({id, compiler, self});
    } else {
      counts.ignored.emplace_back(what);
    }
  }
  return counts;
}

void Runtime::UnregisterPlugin(std::string_view id) {
  ops_.Unregister(id);
  kernels_.Unregister(id);
  Mounts::The().Remove(this, id);
  std::lock_guard lock(mutex_);
  for (auto& device : devices_)
    if (device->plugin == id) CloseDevice(device.get());
  std::erase_if(devices_, [&](const auto& device) { return device->plugin == id; });
  std::erase_if(compilers_, [&](const auto& compiler) { return compiler.plugin == id; });
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
  for (const auto& [name, entry] : transports_) known += StrCat(known.empty() ? "" : ", ", name);
  return NotFound(StrCat("no loaded plugin brings the transport '", scheme, "'; those that are there: ", known.empty() ? "none" : known));
}

int64_t Runtime::LiveObjects(std::string_view id) const {
  int64_t count = exec::LiveKernels(id) + Mounts::The().OpenFiles(this, id);
  bool has_host_device = false;
  {
    std::lock_guard lock(mutex_);
    for (const auto& device : devices_) has_host_device = has_host_device || (device->plugin == id && device->queues == nullptr);
  }
  // Named variables outlive their sessions; their memory is the device's that made it.
  return count + resources_.CountHeld([&](const exec::Device* device) { return device == nullptr ? has_host_device : device->plugin == id; });
}

void Runtime::DropResources() { resources_.ClearAll(); }

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
