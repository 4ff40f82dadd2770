// SPDX-License-Identifier: Apache-2.0
#include "device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "tenon/sdk/device/device.h"

namespace tenon::cpu {
namespace {

// Float operations a cycle of one core: two fused multiply-adds of the widest vector this library was built for.
#if defined(__AVX512F__)
constexpr double kFlopsPerCycle = 64;
#elif defined(__AVX2__)
constexpr double kFlopsPerCycle = 32;
#else
constexpr double kFlopsPerCycle = 8;
#endif
// Not measured: what the cost model needs is the order of magnitude. A clock; between a server's main memory (20e9 for
// a few cores) and its caches (300e9), where most tensors are; a call through two tables.
constexpr double kCyclesPerSecond = 3e9;
constexpr double kBytesPerSecond = 60e9;
constexpr double kLaunchSeconds = 100e-9;

std::string ModelName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

uint32_t DeviceCount(const tenon_plugin_self* self) { return self == nullptr ? 1 : self->devices; }

// The first touch of a fresh page costs microseconds; it is paid here. One call where the kernel has it (Linux 5.14).
// Of large blocks the beginning only: a gigabyte takes a second and more, in which nobody could end the step; kernels
// share what is left, and can be ended.
void Prefault(void* data, uint64_t bytes) {
#if defined(MADV_HUGEPAGE)
  madvise(data, bytes, MADV_HUGEPAGE);
#endif
  constexpr uint64_t kMost = uint64_t{64} << 20;
  bytes = std::min(bytes, kMost);
#if defined(MADV_POPULATE_WRITE)
  if (madvise(data, bytes, MADV_POPULATE_WRITE) == 0) return;
#endif
  auto* byte = static_cast<volatile char*>(data);
  for (uint64_t i = 0; i < bytes; i += 4096) byte[i] = 0;
}

struct Device : sdk::Handled<Device, tenon_device> {
  std::string name;
  uint32_t index = 0;
  double flops = 0;
  double bytes_per_second = 0;
};

struct Driver {
  static constexpr tenon_span kDeviceType = TENON_SPAN("CPU");
  static constexpr int32_t kPriority = 0;
  static constexpr std::string_view kMemoryKinds[] = {"host"};
  static constexpr uint64_t kMostAlignment = kLargeBlock;
  using Device = cpu::Device;

  static void Count(const tenon_plugin_self* self, uint32_t* out_count) { *out_count = DeviceCount(self); }

  static tenon_status* Open(const tenon_plugin_self* self, uint32_t index, std::shared_ptr<Device>* out_device) {
    const uint32_t count = DeviceCount(self);
    if (index >= count)
      return sdk::Failure(TENON_NOT_FOUND, "CPU device ", index, "; there are ", count, ", from number 0");
    auto device = std::make_shared<Device>();
    device->name = ModelName();
    device->index = index;
    // They share the machine.
    device->flops = std::max(1u, std::thread::hardware_concurrency()) * kFlopsPerCycle * kCyclesPerSecond / count;
    device->bytes_per_second = kBytesPerSecond / count;
    *out_device = std::move(device);
    return nullptr;
  }

  static void Properties(const Device& device, tenon_device_properties* out) {
    out->name = sdk::ToSpan(device.name);
    out->dl_device_type = 1;  // kDLCPU
    out->dl_device_id = static_cast<int32_t>(device.index);
    out->flops = device.flops;
    out->bytes_per_second = device.bytes_per_second;
    out->launch_seconds = kLaunchSeconds;
  }

  static void MemoryKind(const Device&, uint32_t, tenon_memory_kind* out) {
    const int64_t pages = sysconf(_SC_PHYS_PAGES);
    const int64_t page = sysconf(_SC_PAGESIZE);
    out->alignment = kAlignment;
    out->total_bytes = pages > 0 && page > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page) : 0;
    out->flags = TENON_MEMORY_HOST_VISIBLE;
  }

  static tenon_status* Allocate(const Device&, uint32_t, uint64_t bytes, uint64_t alignment, sdk::Memory* out) {
    const bool large = bytes >= kLargeBlock;
    alignment = large ? kLargeBlock : std::max(alignment, kAlignment);
    if (posix_memalign(&out->handle, alignment, std::max<uint64_t>(bytes, 1)) != 0) {
      return sdk::Failure(TENON_RESOURCE_EXHAUSTED, "no ", bytes, " bytes of host memory");
    }
    if (large) Prefault(out->handle, bytes);
    return nullptr;
  }
  static void Free(const Device&, uint32_t, sdk::Memory memory, uint64_t) { free(sdk::AddressOf(memory)); }
  static void Map(const Device&, uint32_t, sdk::Memory memory, uint64_t, void** out_address) {
    *out_address = sdk::AddressOf(memory);
  }
};

}  // namespace

constinit const tenon_option_declaration kOptionDeclarations[kOptionCount] = {
    {TENON_SPAN("devices"), TENON_SPAN("1"),
     TENON_SPAN("how many CPU devices there are, 1 to 64; all are this machine, and nothing is faster by them"),
     TENON_OPTION_INT, 0}};

tenon_status* OnLoad(const tenon_load_args* args, tenon_plugin_self** out_self) {
  return sdk::Guard([&]() -> tenon_status* {
    auto self = std::make_unique<tenon_plugin_self>();
    for (uint64_t i = 0; i < args->option_count; ++i) {
      const std::string_view value(args->options[i].value.data, args->options[i].value.size);
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), self->devices);
      if (error != std::errc() || end != value.data() + value.size() || self->devices < 1 || self->devices > 64)
        return sdk::Failure(TENON_INVALID_ARGUMENT, "option devices is '", value,
                            "'; it may be a whole number from 1 to 64");
    }
    *out_self = self.release();
    return nullptr;
  });
}

void OnUnload(tenon_plugin_self* self) { delete self; }

constinit const tenon_device_driver kDeviceDriver = sdk::kDeviceTable<Driver>;

}  // namespace tenon::cpu
