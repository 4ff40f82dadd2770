// SPDX-License-Identifier: Apache-2.0
// The HIP runtime's functions, found by name in libamdhip64 when they are first wanted, under the names that DriverCard
// uses.
//
// Nothing links the runtime, so that the plugin loads where there is none; types are checked against its headers. HIP's
// contexts are its devices.
#ifndef TENON_DEVICES_ROCM_API_H_
#define TENON_DEVICES_ROCM_API_H_

#include <hip/hip_runtime_api.h>

#include "hiprtc_compiler.h"
#include "host_calls.h"
#include "runtime.h"

namespace tenon::gpu {

#define TENON_HIP_FUNCTIONS(X)                                                                                        \
  X(hipInit)                                                                                                          \
  X(hipDriverGetVersion) X(hipGetErrorName) X(hipGetErrorString) X(hipGetDeviceCount) X(hipDeviceGet)                 \
      X(hipDeviceGetName) X(hipDeviceTotalMem) X(hipDeviceGetAttribute) X(hipSetDevice) X(hipMemPoolCreate)           \
          X(hipMemPoolDestroy) X(hipMemPoolSetAttribute) X(hipMemPoolTrimTo) X(hipMemPoolSetAccess) X(hipFreeAsync)   \
              X(hipHostFree) X(hipExtMallocWithFlags) X(hipFree) X(hipMemGetInfo) X(hipDeviceCanAccessPeer)           \
                  X(hipDeviceEnablePeerAccess) X(hipStreamCreateWithPriority) X(hipStreamDestroy)                     \
                      X(hipStreamSynchronize) X(hipStreamQuery) X(hipMemcpyAsync) X(hipMemcpyPeerAsync)               \
                          X(hipMemsetD8Async) X(hipMemsetD16Async) X(hipMemsetD32Async) X(hipStreamWriteValue64)      \
                              X(hipStreamWaitValue64) X(hipStreamAddCallback) X(hipModuleLoadData) X(hipModuleUnload) \
                                  X(hipModuleGetFunction) X(hipModuleLaunchKernel) X(hipEventCreate)                  \
                                      X(hipEventDestroy) X(hipEventRecord) X(hipEventQuery) X(hipStreamWaitEvent)     \
                                          X(hipPointerGetAttribute) X(hipEventElapsedTime) X(hipStreamBeginCapture)   \
                                              X(hipStreamEndCapture) X(hipGraphGetNodes) X(hipGraphInstantiate)       \
                                                  X(hipGraphDestroy) X(hipGraphLaunch) X(hipGraphExecDestroy)

class HipApi {
 public:
  using Result = hipError_t;
  using DeviceHandle = hipDevice_t;
  using ContextHandle = void*;  // none: a device's number, and one
  using PoolHandle = hipMemPool_t;
  using StreamHandle = hipStream_t;
  using ModuleHandle = hipModule_t;
  using FunctionHandle = hipFunction_t;
  using EventHandle = hipEvent_t;
  using GraphHandle = hipGraph_t;
  using ExecutableHandle = hipGraphExec_t;
  static constexpr Result kSuccess = hipSuccess, kNotReady = hipErrorNotReady, kNotFound = hipErrorNotFound;
  static constexpr int32_t kDlDeviceType = 10;

  // Opens the runtime. Says which of these it is: no runtime, no kernel driver, a driver that is too old, no GPU.
  Outcome Open();

  static bool IsLost(Result result);
  static bool IsOutOfMemory(Result result) { return result == hipErrorOutOfMemory; }
  std::string ErrorText(Result result) const;

  Result DeviceCount(int* out) const { return f_.hipGetDeviceCount(out); }
  Result DeviceGet(DeviceHandle* out, int index) const { return f_.hipDeviceGet(out, index); }
  Outcome Facts(DeviceHandle device, CardFacts* out) const;
  Result RetainContext(DeviceHandle device, ContextHandle* out) const {
    *out = reinterpret_cast<void*>(static_cast<intptr_t>(device) + 1);
    return f_.hipSetDevice(device);
  }
  void ReleaseContext(DeviceHandle) const {}
  Result SetCurrent(ContextHandle, DeviceHandle device) const { return f_.hipSetDevice(device); }

  Result CreatePool(DeviceHandle device, PoolHandle* out) const {
    hipMemPoolProps properties = {};
    properties.allocType = hipMemAllocationTypePinned;
    properties.location.type = hipMemLocationTypeDevice;
    properties.location.id = device;
    return f_.hipMemPoolCreate(out, &properties);
  }
  Result DestroyPool(PoolHandle pool) const { return f_.hipMemPoolDestroy(pool); }
  // No stream may wait for another one's free, which may itself wait for the first (devices/cuda/api.h). Not all
  // releases know of that.
  Result KeepPool(PoolHandle pool) const {
    uint64_t all = UINT64_MAX;
    int no = 0;
    (void)f_.hipMemPoolSetAttribute(pool, hipMemPoolReuseAllowInternalDependencies, &no);
    return f_.hipMemPoolSetAttribute(pool, hipMemPoolAttrReleaseThreshold, &all);
  }
  Result ShareDevicePool(PoolHandle pool, DeviceHandle with) const {
    hipMemAccessDesc access = {};
    access.location.type = hipMemLocationTypeDevice;
    access.location.id = with;
    access.flags = hipMemAccessFlagsProtReadWrite;
    return f_.hipMemPoolSetAccess(pool, &access, 1);
  }
  Result AllocateFromPool(void** out, size_t bytes, PoolHandle pool, StreamHandle stream) const {
    return allocate_from_pool_(out, bytes, pool, stream);
  }
  Result TrimPool(PoolHandle pool) const { return f_.hipMemPoolTrimTo(pool, 0); }
  Result FreeToPool(void* data, StreamHandle stream) const { return f_.hipFreeAsync(data, stream); }
  Result HostAllocate(void** out, size_t bytes) const {
    return host_allocate_(out, bytes, hipHostMallocPortable | hipHostMallocMapped | hipHostMallocCoherent);
  }
  Result HostFree(void* data) const { return f_.hipHostFree(data); }
  // The value of a signal, which the host reads and writes as well.
  Result SignalAllocate(uint64_t** out) const {
    return f_.hipExtMallocWithFlags(reinterpret_cast<void**>(out), sizeof **out, hipMallocSignalMemory);
  }
  Result SignalFree(uint64_t* word) const { return f_.hipFree(word); }
  Result MemoryInfo(size_t* free, size_t* total) const { return f_.hipMemGetInfo(free, total); }
  bool CanAccess(DeviceHandle from, DeviceHandle to) const {
    int can = 0;
    return f_.hipDeviceCanAccessPeer(&can, from, to) == hipSuccess && can != 0;
  }
  Result EnablePeer(ContextHandle, DeviceHandle device) const { return f_.hipDeviceEnablePeerAccess(device, 0); }

  Result StreamCreate(StreamHandle* out, int32_t priority) const {
    return f_.hipStreamCreateWithPriority(out, hipStreamNonBlocking, -priority);
  }
  Result StreamDestroy(StreamHandle stream) const { return f_.hipStreamDestroy(stream); }
  Result StreamSynchronize(StreamHandle stream) const { return f_.hipStreamSynchronize(stream); }
  Result StreamQuery(StreamHandle stream) const { return f_.hipStreamQuery(stream); }
  Result Copy(void* to, const void* from, size_t bytes, StreamHandle stream) const {
    return f_.hipMemcpyAsync(to, from, bytes, hipMemcpyDefault, stream);
  }
  Result CopyPeer(void* to, ContextHandle, DeviceHandle to_device, const void* from, ContextHandle,
                  DeviceHandle from_device, size_t bytes, StreamHandle stream) const {
    return f_.hipMemcpyPeerAsync(to, to_device, from, from_device, bytes, stream);
  }
  Result Fill(void* to, uint32_t value, uint32_t unit, size_t count, StreamHandle stream) const {
    switch (unit) {
      case 1: return f_.hipMemsetD8Async(to, static_cast<unsigned char>(value), count, stream);
      case 2: return f_.hipMemsetD16Async(to, static_cast<unsigned short>(value), count, stream);
      default: return f_.hipMemsetD32Async(to, static_cast<int>(value), count, stream);
    }
  }
  Result WriteValue(StreamHandle stream, uint64_t* word, uint64_t value) const {
    return f_.hipStreamWriteValue64(stream, word, value, 0);
  }
  Result WaitValue(StreamHandle stream, uint64_t* word, uint64_t at_least) const {
    return f_.hipStreamWaitValue64(stream, word, at_least, hipStreamWaitValueGte, UINT64_MAX);
  }
  // Whether streams wait for words of pinned memory, or of signal memory alone, as is documented: newer runtimes take
  // any memory that they know, older ones, and all with GPU_STREAMOPS_CP_WAIT set, refuse the call. Both are tried; a
  // status says that neither serves.
  Outcome CheckWaits(StreamHandle stream, bool* out_signals) const;
  // hipLaunchHostFunc is declared from 5.2 on, and there from 5.3 on.
  Result CallHost(StreamHandle stream, uint64_t call) const {
    const auto run = [](hipStream_t, hipError_t, void* number) { HostCalls::Run(reinterpret_cast<uint64_t>(number)); };
    return f_.hipStreamAddCallback(stream, run, reinterpret_cast<void*>(call), 0);
  }

  Result ModuleLoad(ModuleHandle* out, const void* image) const { return f_.hipModuleLoadData(out, image); }
  Result ModuleUnload(ModuleHandle module) const { return f_.hipModuleUnload(module); }
  Result LoadFunction(FunctionHandle) const { return hipSuccess; }  // it came with the module
  Result ModuleFunction(FunctionHandle* out, ModuleHandle module, const char* name) const {
    return f_.hipModuleGetFunction(out, module, name);
  }
  Result Launch(FunctionHandle function, const uint32_t* blocks, uint32_t threads, StreamHandle stream,
                void** params) const {
    return f_.hipModuleLaunchKernel(function, blocks[0], blocks[1], blocks[2], threads, 1, 1, 0, stream, params,
                                    nullptr);
  }

  Result EventCreate(EventHandle* out) const { return f_.hipEventCreate(out); }
  Result EventDestroy(EventHandle event) const { return f_.hipEventDestroy(event); }
  Result EventRecord(EventHandle event, StreamHandle stream) const { return f_.hipEventRecord(event, stream); }
  Result StreamWaitEvent(StreamHandle stream, EventHandle event) const {
    return f_.hipStreamWaitEvent(stream, event, 0);
  }
  // The kind of memory has other numbers in each release; what is the host's is known by then.
  bool IsMemoryOf(DeviceHandle device, const void* address) const {
    int ordinal = -1;
    return f_.hipPointerGetAttribute(&ordinal, HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL, const_cast<void*>(address)) ==
               hipSuccess &&
           ordinal == device;
  }
  Result EventQuery(EventHandle event) const { return f_.hipEventQuery(event); }
  Result EventElapsed(float* out, EventHandle begin, EventHandle end) const {
    return f_.hipEventElapsedTime(out, begin, end);
  }

  Result CaptureBegin(StreamHandle stream) const {
    return f_.hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal);
  }
  Result CaptureEnd(StreamHandle stream, GraphHandle* out) const { return f_.hipStreamEndCapture(stream, out); }
  Result GraphNodes(GraphHandle graph, size_t* out) const { return f_.hipGraphGetNodes(graph, nullptr, out); }
  Result GraphInstantiate(ExecutableHandle* out, GraphHandle graph) const {
    return f_.hipGraphInstantiate(out, graph, nullptr, nullptr, 0);
  }
  Result GraphDestroy(GraphHandle graph) const { return f_.hipGraphDestroy(graph); }
  Result GraphLaunch(ExecutableHandle executable, StreamHandle stream) const {
    return f_.hipGraphLaunch(executable, stream);
  }
  Result ExecutableDestroy(ExecutableHandle executable) const { return f_.hipGraphExecDestroy(executable); }

  std::string CompilerName(const CardFacts& facts) const {
    return sdk::Concat(Hiprtc::The().version(), " ", facts.name);
  }
  Outcome Compile(const CardFacts&, const std::string& source, std::vector<char>* out_image) const {
    return Hiprtc::The().Compile("", source, out_image);
  }

 private:
  // What a stream does with a word of ours: writes, waits for it, and lets the host see it and change it.
  Result TryWord(StreamHandle stream, uint64_t* word) const;
  struct Functions {
#define TENON_HIP_MEMBER(name) decltype(&::name) name;
    TENON_HIP_FUNCTIONS(TENON_HIP_MEMBER)
#undef TENON_HIP_MEMBER
  };
  Functions f_ = {};
  // The header has C++ functions of the same names beside these.
  hipError_t (*allocate_from_pool_)(void**, size_t, hipMemPool_t, hipStream_t) = nullptr;
  hipError_t (*host_allocate_)(void**, size_t, unsigned int) = nullptr;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_ROCM_API_H_
