// SPDX-License-Identifier: Apache-2.0
#include "api.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace tenon::gpu {
namespace {

// Newest first; the functions used here are the same in all.
constexpr const char* kLibraries[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"};

// What the kernel's driver for computing shows.
constexpr char kKernelDriver[] = "/dev/kfd";

}  // namespace

Outcome HipApi::Open() {
  void* library = nullptr;
  for (const char* name : kLibraries) {
    if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) {
    return Fault(TENON_NOT_FOUND, "there is no ROCm: ", kLibraries[0],
                 " and older ones were not found; install the HIP runtime (Debian: libamdhip64-5)");
  }
  const char* missing = nullptr;
#define TENON_HIP_TEXT(name) #name
#define TENON_HIP_FIND(name)                                                                \
  f_.name = reinterpret_cast<decltype(f_.name)>(dlsym(library, TENON_HIP_TEXT(name)));      \
  if (f_.name == nullptr && missing == nullptr) missing = TENON_HIP_TEXT(name);
  TENON_HIP_FUNCTIONS(TENON_HIP_FIND)
#undef TENON_HIP_FIND
#undef TENON_HIP_TEXT
  allocate_from_pool_ = reinterpret_cast<decltype(allocate_from_pool_)>(dlsym(library, "hipMallocFromPoolAsync"));
  host_allocate_ = reinterpret_cast<decltype(host_allocate_)>(dlsym(library, "hipHostMalloc"));
  if (allocate_from_pool_ == nullptr) missing = "hipMallocFromPoolAsync";
  if (host_allocate_ == nullptr) missing = "hipHostMalloc";
  if (missing != nullptr)
    return Fault(TENON_FAILED_PRECONDITION, "the HIP runtime is too old: it has no ", missing,
                 "; install ROCm 5.2 or newer");
  const Result begun = f_.hipInit(0);
  if (begun == hipErrorInsufficientDriver) {
    return Fault(TENON_FAILED_PRECONDITION,
                 "the kernel's amdgpu driver is too old for this HIP runtime: ", ErrorText(begun),
                 "; install a newer one");
  }
  if (begun == hipErrorNoDevice || begun == hipErrorInvalidDevice) {
    if (access(kKernelDriver, F_OK) != 0) {
      return Fault(TENON_NOT_FOUND, "there is no AMD GPU driver: ", kKernelDriver,
                   " does not exist; load the amdgpu module, and give a container the device");
    }
    if (access(kKernelDriver, R_OK | W_OK) != 0) {
      return Fault(TENON_PERMISSION_DENIED, kKernelDriver,
                   " may not be opened by this user; it is for the group render (or video)");
    }
    return Fault(
        TENON_NOT_FOUND,
        "the HIP runtime sees no AMD GPU: look at rocminfo, and at HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES");
  }
  return begun == hipSuccess ? Outcome()
                             : Fault(TENON_FAILED_PRECONDITION, "the HIP runtime does not start: ", ErrorText(begun));
}

bool HipApi::IsLost(Result result) {
  static constexpr std::array kLost = {hipErrorIllegalAddress,    hipErrorLaunchFailure, hipErrorLaunchTimeOut,
                                       hipErrorECCNotCorrectable, hipErrorAssert,        hipErrorContextIsDestroyed,
                                       hipErrorDeinitialized,     hipErrorUnknown};
  return std::find(kLost.begin(), kLost.end(), result) != kLost.end();
}

std::string HipApi::ErrorText(Result result) const {
  if (f_.hipGetErrorName == nullptr || f_.hipGetErrorString == nullptr)
    return sdk::Concat("HIP error ", static_cast<int>(result));
  return sdk::Concat(f_.hipGetErrorName(result), " (", f_.hipGetErrorString(result), ")");
}

HipApi::Result HipApi::TryWord(StreamHandle stream, uint64_t* word) const {
  __atomic_store_n(word, 1, __ATOMIC_RELEASE);
  Result result = WaitValue(stream, word, 1);  // is over at once
  if (result == hipSuccess) result = WriteValue(stream, word, 2);
  const Result ended = StreamSynchronize(stream);
  if (result == hipSuccess) result = ended;
  return result != hipSuccess || __atomic_load_n(word, __ATOMIC_ACQUIRE) == 2 ? result : hipErrorNotSupported;
}

Outcome HipApi::CheckWaits(StreamHandle stream, bool* out_signals) const {
  void* pinned = nullptr;
  Result of_pinned = HostAllocate(&pinned, sizeof(uint64_t)), of_signals = hipSuccess;
  if (of_pinned == hipSuccess) of_pinned = TryWord(stream, static_cast<uint64_t*>(pinned));
  if (pinned != nullptr) (void)HostFree(pinned);
  *out_signals = of_pinned != hipSuccess;
  if (of_pinned != hipSuccess && !IsLost(of_pinned)) {
    uint64_t* signal = nullptr;
    of_signals = SignalAllocate(&signal);
    if (of_signals == hipSuccess) of_signals = TryWord(stream, signal);
    if (signal != nullptr) (void)SignalFree(signal);
    if (of_signals == hipSuccess) return {};
  }
  if (of_pinned == hipSuccess) return {};
  const Result lost = IsLost(of_pinned) ? of_pinned : of_signals;
  if (IsLost(lost)) return Fault(TENON_UNAVAILABLE, "hipStreamWaitValue64: ", ErrorText(lost));
  return Fault(TENON_FAILED_PRECONDITION,
               "the HIP runtime's streams wait neither for words of pinned memory: ", ErrorText(of_pinned),
               ", nor of signal memory: ", ErrorText(of_signals), "; install a newer ROCm");
}

Outcome HipApi::Facts(DeviceHandle device, CardFacts* out) const {
  char name[256] = {};
  size_t bytes = 0;
  Result result = f_.hipDeviceGetName(name, sizeof name - 1, device);
  if (result == hipSuccess) result = f_.hipDeviceTotalMem(&bytes, device);
  const auto attribute = [&](hipDeviceAttribute_t which) {
    int value = 0;
    if (result == hipSuccess) result = f_.hipDeviceGetAttribute(&value, which, device);
    return value;
  };
  // What only estimates need.
  const auto hint = [&](hipDeviceAttribute_t which) {
    int value = 0;
    return f_.hipDeviceGetAttribute(&value, which, device) == hipSuccess ? value : 0;
  };
  out->name = name;
  out->memory_bytes = bytes;
  out->processors = attribute(hipDeviceAttributeMultiprocessorCount);
  out->warp = attribute(hipDeviceAttributeWarpSize);
  out->major = attribute(hipDeviceAttributeComputeCapabilityMajor);
  out->minor = attribute(hipDeviceAttributeComputeCapabilityMinor);
  out->most_shared_bytes = static_cast<uint64_t>(attribute(hipDeviceAttributeMaxSharedMemoryPerBlock));
  const double clock = hint(hipDeviceAttributeClockRate) * 1e3,
               memory_clock = hint(hipDeviceAttributeMemoryClockRate) * 1e3;
  out->flops = 2.0 * out->processors * 64 * clock;  // lanes of a compute unit
  out->bytes_per_second = 2.0 * memory_clock * hint(hipDeviceAttributeMemoryBusWidth) / 8;
  out->link_bytes_per_second = 25e9;  // PCI Express 4, sixteen lanes; the driver does not say
  const int words = attribute(hipDeviceAttributeCanUseStreamWaitValue),
            pools = attribute(hipDeviceAttributeMemoryPoolsSupported);
  if (result != hipSuccess) return Fault(TENON_INTERNAL, "what GPU this is: ", ErrorText(result));
  if (words == 0) return Fault(TENON_FAILED_PRECONDITION, name, ": its streams cannot wait for words of memory");
  if (pools == 0) return Fault(TENON_FAILED_PRECONDITION, name, ": its runtime has no memory pools");
  return {};
}

}  // namespace tenon::gpu
