// SPDX-License-Identifier: Apache-2.0
// A libamdhip64.so.7 with one GPU that can be opened and computes nothing: for what devices/rocm/api.h asks of a runtime before there is work.
//
// TENON_EMULATED_HIP_WAITS: what memory streams wait for, as releases of the real one have it: "any" that the runtime has allocated, or "signal"
// memory alone, which else is an invalid value.
#include <hip/hip_runtime_api.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string_view>

namespace {

// What it has allocated.
struct Memory {
  std::mutex mutex;
  std::set<void*> pinned, signals;
  hipError_t Allocate(std::set<void*>* kind, void** out, size_t bytes) {
    const std::lock_guard lock(mutex);
    *out = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    kind->insert(*out);
    return hipSuccess;
  }
  hipError_t Free(std::set<void*>* kind, void* data) {
    const std::lock_guard lock(mutex);
    if (kind->erase(data) == 0) return hipErrorInvalidValue;
    std::free(data);
    return hipSuccess;
  }
};
Memory& TheMemory() {
  static auto* const memory = new Memory;  // NOLINT: as long as the process
  return *memory;
}
template <class Handle>
hipError_t Give(Handle* out) {
  static char place;
  *out = reinterpret_cast<Handle>(&place);
  return hipSuccess;
}

}  // namespace

extern "C" {

hipError_t hipGetDeviceCount(int* count) {
  *count = 1;
  return hipSuccess;
}
hipError_t hipDeviceGet(hipDevice_t* device, int ordinal) {
  *device = ordinal;
  return ordinal == 0 ? hipSuccess : hipErrorInvalidDevice;
}
hipError_t hipDeviceGetName(char* name, int bytes, hipDevice_t) {
  std::strncpy(name, "Emulated AMD GPU", static_cast<size_t>(bytes));
  return hipSuccess;
}
hipError_t hipDeviceTotalMem(size_t* bytes, hipDevice_t) {
  *bytes = size_t{1} << 30;
  return hipSuccess;
}
hipError_t hipDeviceGetAttribute(int* value, hipDeviceAttribute_t, int) {
  *value = 64;
  return hipSuccess;
}
const char* hipGetErrorName(hipError_t error) { return error == hipErrorInvalidValue ? "hipErrorInvalidValue" : "another error"; }
const char* hipGetErrorString(hipError_t) { return "said by the emulated runtime"; }

hipError_t hipMemPoolCreate(hipMemPool_t* pool, const hipMemPoolProps*) { return Give(pool); }
hipError_t hipStreamCreateWithPriority(hipStream_t* stream, unsigned int, int) { return Give(stream); }
hipError_t hipHostMalloc(void** out, size_t bytes, unsigned int) { return TheMemory().Allocate(&TheMemory().pinned, out, bytes); }
hipError_t hipHostFree(void* data) { return TheMemory().Free(&TheMemory().pinned, data); }
hipError_t hipExtMallocWithFlags(void** out, size_t bytes, unsigned int flags) {
  if (flags != hipMallocSignalMemory || bytes != 8) return hipErrorInvalidValue;
  return TheMemory().Allocate(&TheMemory().signals, out, bytes);
}
hipError_t hipFree(void* data) { return TheMemory().Free(&TheMemory().signals, data); }
hipError_t hipStreamWaitValue64(hipStream_t, void* word, uint64_t value, unsigned int flags, uint64_t) {
  const char* const waits = std::getenv("TENON_EMULATED_HIP_WAITS");
  const std::lock_guard lock(TheMemory().mutex);
  const bool any = waits != nullptr && std::string_view(waits) == "any";
  if (!TheMemory().signals.contains(word) && !(any && TheMemory().pinned.contains(word))) return hipErrorInvalidValue;
  // There is no stream that could wait.
  return flags == hipStreamWaitValueGte && *static_cast<uint64_t*>(word) >= value ? hipSuccess : hipErrorNotSupported;
}

// Found, and not asked for anything here.
#define TENON_EMULATED_HIP(name) \
  __attribute__((visibility("default"))) hipError_t tenon_##name() __asm__(#name); \
  hipError_t tenon_##name() { return hipSuccess; }
#define TENON_EMULATED_HIP_REST(X)                                                                                                             \
  X(hipInit) X(hipDriverGetVersion) X(hipSetDevice) X(hipMemPoolDestroy) X(hipMemPoolSetAttribute) X(hipMemPoolTrimTo) X(hipMemPoolSetAccess)   \
  X(hipMallocFromPoolAsync) X(hipFreeAsync) X(hipMemGetInfo) X(hipDeviceCanAccessPeer) X(hipDeviceEnablePeerAccess) X(hipStreamDestroy)         \
  X(hipStreamSynchronize) X(hipStreamQuery) X(hipMemcpyAsync) X(hipMemcpyPeerAsync) X(hipMemsetD8Async) X(hipMemsetD16Async) X(hipMemsetD32Async) \
  X(hipStreamWriteValue64) X(hipStreamAddCallback) X(hipModuleLoadData) X(hipModuleUnload) X(hipModuleGetFunction) X(hipModuleLaunchKernel)     \
  X(hipEventCreate) X(hipEventDestroy) X(hipEventRecord) X(hipEventQuery) X(hipStreamWaitEvent) X(hipPointerGetAttribute) X(hipEventElapsedTime) \
  X(hipStreamBeginCapture) X(hipStreamEndCapture) X(hipGraphGetNodes) X(hipGraphInstantiate) X(hipGraphDestroy) X(hipGraphLaunch) X(hipGraphExecDestroy)
TENON_EMULATED_HIP_REST(TENON_EMULATED_HIP)

}  // extern "C"
