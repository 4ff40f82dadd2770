// SPDX-License-Identifier: Apache-2.0
#include "core/session/device_list.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/base/log.h"
#include "core/base/plugin_call.h"
#include "core/base/table_check.h"
#include "core/place/device_name.h"

namespace tenon::session {
namespace {

constexpr uint32_t kMostDevices = 1024;
constexpr uint32_t kMostMemoryKinds = 64;

// Whether a wish is a device's name in one of the spellings that graphs have: "cpu:0", "/gpu:0", "/device:GPU:*".
bool Means(std::string_view wish, const std::string& device) {
  const auto wanted = place::DeviceName::Parse(wish), own = place::DeviceName::Parse(device);
  return wanted.ok() && own.ok() && !wanted->empty() && wanted->Matches(*own);
}

// That a driver's numbers are some that can be: who places nodes adds and compares them.
Status CheckProperties(const tenon_device_properties& properties) {
  const std::pair<const char*, double> numbers[] = {{"flops", properties.flops},
                                                    {"bytes_per_second", properties.bytes_per_second},
                                                    {"link_bytes_per_second", properties.link_bytes_per_second},
                                                    {"peer_bytes_per_second", properties.peer_bytes_per_second},
                                                    {"copy_seconds", properties.copy_seconds},
                                                    {"launch_seconds", properties.launch_seconds}};
  for (const auto& [name, number] : numbers)
    if (!IsMeasure(number)) return Internal(StrCat("its properties() gave ", name, " ", number, kWantedMeasure));
  if (properties.memory_kind_count > kMostMemoryKinds)
    return Internal(StrCat("its properties() gave memory_kind_count ", properties.memory_kind_count, "; at most ",
                           kMostMemoryKinds, " can be"));
  return CheckText(properties.name, "the name that its properties() gave");
}

// A synchronous device's memory is read and written by the host.
Status TryMemory(const exec::Device& device) {
  constexpr uint64_t kBytes = 64;
  void* data = nullptr;
  TENON_RETURN_IF_ERROR(CallPlugin(device.plugin, "allocate", [&] {
    return device.driver->allocate(device.handle, 0, kBytes, 64, nullptr, &data);
  }));
  if (data == nullptr) return Internal("its allocate() gave success and no memory");
  const auto address = reinterpret_cast<uintptr_t>(data);
  const uintptr_t page = address & ~(static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)) - 1);
  unsigned char there = 0;
  const bool mapped = mincore(reinterpret_cast<void*>(page), 1, &there) == 0;
  TellPlugin(device.plugin, "free", [&] { device.driver->free(device.handle, 0, data, kBytes, nullptr); });
  if (!mapped)
    return Internal("its properties() gave synchronous 1, and its allocate() gives memory that is not the host's");
  if (address % 64 != 0) return Internal("its allocate() gave memory that is not aligned to 64 bytes");
  return Status::Ok();
}

Status Believe(const tenon_device_properties& properties, exec::Device* device) {
  const tenon_device_driver& driver = *device->driver;
  TENON_RETURN_IF_ERROR(CheckProperties(properties));
  device->model = View(properties.name);
  device->properties = properties;
  device->synchronous = properties.synchronous != 0;
  if (!device->synchronous && driver.queue_create == nullptr)
    return Internal("its properties() gave synchronous 0, and the driver has no queues");
  uint32_t flags = 0;
  for (uint32_t kind = 0; kind < std::max(1u, properties.memory_kind_count); ++kind) {
    tenon_memory_kind memory{};
    memory.struct_size = sizeof memory;
    if (!CallPlugin(device->plugin, "memory_kind", [&] {
           return driver.memory_kind(device->handle, kind, &memory);
         }).ok())
      continue;
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

// What a device's driver says of it.
Status Ask(exec::Device* device) {
  const tenon_device_driver& driver = *device->driver;
  tenon_device_properties properties{};
  properties.struct_size = sizeof properties;
  TENON_RETURN_IF_ERROR(
      CallPlugin(device->plugin, "properties", [&] { return driver.properties(device->handle, &properties); }));
  return Believe(properties, device).Annotate(DescribePlugin(device->plugin));
}

}  // namespace

DeviceList::~DeviceList() {
  for (const auto& device : devices_) Close(device.get());
}

void DeviceList::Close(exec::Device* device) {
  const auto stuck = device->queues == nullptr ? nullptr : device->queues->stuck();
  device->queues.reset();  // they are the device's
  if (stuck != nullptr && stuck->load()) {
    stuck_.store(true);  // a thread is in the plugin
    return;
  }
  if (device->handle != nullptr && device->driver->close != nullptr)
    TellPlugin(device->plugin, "close", [device] { device->driver->close(device->handle); });
  device->handle = nullptr;
}

void DeviceList::Add(exec::Device device, std::string_view task) {
  std::lock_guard lock(mutex_);
  int index = 0;
  for (const auto& other : devices_)
    if (other->type == device.type && other->handle != nullptr) ++index;
  if (device.handle != nullptr) device.name = StrCat(task, "/device:", device.type, ":", index);
  if (device.handle != nullptr && !device.synchronous) {
    auto queues = exec::DeviceQueues::Open(device);
    if (!queues.ok()) {
      device.problem = queues.status().message();
      Log(TENON_LOG_WARNING, StrCat("device ", device.name, " is not used: ", device.problem));
      Close(&device);
    } else {
      device.queues = *std::move(queues);
    }
  }
  devices_.push_back(std::make_unique<exec::Device>(std::move(device)));
}

uint32_t DeviceList::Open(const tenon_device_driver& driver, tenon_plugin_self* self, const std::string& plugin,
                          std::string_view task) {
  exec::Device like;
  like.type = View(driver.device_type);
  like.plugin = plugin;
  like.driver = &driver;
  like.self = self;
  const auto add_problem = [&](std::string problem) {
    exec::Device none = like;
    none.problem = std::move(problem);
    Add(std::move(none), task);
  };
  uint32_t found = 0, opened = 0;
  Status counted = CallPlugin(plugin, "count", [&] { return driver.count(self, &found); });
  if (counted.ok() && found > kMostDevices)
    counted = Internal(
        StrCat(DescribePlugin(plugin), ": its count() gave ", found, " devices; at most ", kMostDevices, " can be"));
  // That there is no such device is usual; that its driver is wrong is not.
  if (counted.code() == Code::kInternal)
    Log(TENON_LOG_WARNING, StrCat("no device of type ", like.type, " is used: ", counted.message()));
  if (!counted.ok())
    add_problem(std::string(counted.message()));
  else if (found == 0)
    add_problem("the driver found no device");
  for (uint32_t i = 0; counted.ok() && i < found; ++i) {
    exec::Device device = like;
    Status status = CallPlugin(plugin, "open", [&] { return driver.open(self, i, &device.handle); });
    if (!status.ok())
      device.handle = nullptr;
    else if (device.handle == nullptr)
      status = Internal(StrCat(DescribePlugin(plugin), ": its open() gave success and no device"));
    else
      status = Ask(&device);
    if (status.ok()) {
      Add(std::move(device), task);
      ++opened;
      continue;
    }
    Close(&device);
    Log(TENON_LOG_WARNING, StrCat("device ", i, " of type ", device.type, " is not used: ", status.message()));
    add_problem(std::string(status.message()));
  }
  return opened;
}

void DeviceList::CloseOf(std::string_view plugin) {
  std::lock_guard lock(mutex_);
  for (auto& device : devices_)
    if (device->plugin == plugin) Close(device.get());
  std::erase_if(devices_, [&](const auto& device) { return device->plugin == plugin; });
}

bool DeviceList::HasOnHost(std::string_view plugin) const {
  std::lock_guard lock(mutex_);
  return std::any_of(devices_.begin(), devices_.end(),
                     [&](const auto& device) { return device->plugin == plugin && device->queues == nullptr; });
}

std::vector<exec::Device> DeviceList::All() const {
  std::lock_guard lock(mutex_);
  std::vector<exec::Device> out;
  for (const auto& device : devices_) out.push_back(*device);
  return out;
}

Result<DeviceChoice> DeviceList::Choose(std::string_view wish) const {
  std::lock_guard lock(mutex_);
  DeviceChoice choice;
  std::string known;
  const exec::Device* wished = nullptr;
  const auto better = [](const exec::Device& device, const exec::Device* best) {
    return best == nullptr || device.driver->priority > best->driver->priority;
  };
  const exec::Device* host = nullptr;
  for (const auto& device : devices_) {
    known += StrCat(known.empty() ? "" : ", ",
                    device->handle == nullptr ? StrCat(device->type, " (", device->problem, ")") : device->name);
    if (device->handle == nullptr) continue;
    choice.devices.push_back(device.get());
    const bool fits = !wish.empty() && (wish == device->name || wish == device->type || device->name.ends_with(wish) ||
                                        Means(wish, device->name));
    if (fits && better(*device, wished)) wished = device.get();
    if (device->synchronous && better(*device, host)) host = device.get();
  }
  if (wished != nullptr && wished->synchronous) host = wished;
  if (!wish.empty() && wished == nullptr)
    return NotFound(StrCat("there is no device '", wish, "'; there are: ", known.empty() ? "none" : known));
  if (host == nullptr)
    return NotFound(StrCat("there is no device that runs on the host's memory; load a plugin that brings one",
                           known.empty() ? "" : " (found: ", known, known.empty() ? "" : ")"));
  std::stable_partition(choice.devices.begin(), choice.devices.end(),
                        [host](const exec::Device* device) { return device == host; });
  if (wished != nullptr)
    choice.wished =
        static_cast<size_t>(std::find(choice.devices.begin(), choice.devices.end(), wished) - choice.devices.begin());
  return choice;
}

}  // namespace tenon::session
