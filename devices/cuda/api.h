// SPDX-License-Identifier: Apache-2.0
// The CUDA driver's functions, found by name in libcuda.so.1 when they are first wanted, under the names that
// DriverCard uses.
//
// Nothing links the driver or the runtime library, so that the plugin loads where neither is. The names carry the
// versions of the cuda.h that this is built with (cuMemAlloc is cuMemAlloc_v2), and types are checked against it.
#ifndef TENON_DEVICES_CUDA_API_H_
#define TENON_DEVICES_CUDA_API_H_

#include <cuda.h>

#include "host_calls.h"
#include "nvrtc_compiler.h"
#include "runtime.h"

namespace tenon::gpu {

#define TENON_CUDA_FUNCTIONS(X)                                                                                        \
  X(cuInit)                                                                                                            \
  X(cuDriverGetVersion) X(cuGetErrorName) X(cuGetErrorString) X(cuDeviceGetCount) X(cuDeviceGet) X(cuDeviceGetName)    \
      X(cuDeviceTotalMem) X(cuDeviceGetAttribute) X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease)             \
          X(cuCtxSetCurrent) X(cuMemPoolCreate) X(cuMemPoolDestroy) X(cuMemPoolSetAttribute) X(cuMemPoolTrimTo)        \
              X(cuMemPoolSetAccess) X(cuMemAllocFromPoolAsync) X(cuMemFreeAsync) X(cuMemHostAlloc) X(cuMemFreeHost)    \
                  X(cuMemGetInfo) X(cuDeviceCanAccessPeer) X(cuCtxEnablePeerAccess) X(cuStreamCreateWithPriority)      \
                      X(cuStreamDestroy) X(cuStreamSynchronize) X(cuStreamQuery) X(cuMemcpyAsync) X(cuMemcpyPeerAsync) \
                          X(cuMemsetD8Async) X(cuMemsetD16Async) X(cuMemsetD32Async) X(cuStreamWriteValue64)           \
                              X(cuStreamWaitValue64) X(cuLaunchHostFunc) X(cuModuleLoadData) X(cuModuleUnload)         \
                                  X(cuModuleGetFunction) X(cuFuncLoad) X(cuLaunchKernel) X(cuEventCreate)              \
                                      X(cuEventDestroy) X(cuEventRecord) X(cuEventQuery) X(cuStreamWaitEvent)          \
                                          X(cuPointerGetAttribute) X(cuEventElapsedTime) X(cuStreamBeginCapture)       \
                                              X(cuStreamEndCapture) X(cuGraphGetNodes) X(cuGraphInstantiateWithFlags)  \
                                                  X(cuGraphDestroy) X(cuGraphLaunch) X(cuGraphExecDestroy)

class CudaApi {
 public:
  using Result = CUresult;
  using DeviceHandle = CUdevice;
  using ContextHandle = CUcontext;
  using PoolHandle = CUmemoryPool;
  using StreamHandle = CUstream;
  using ModuleHandle = CUmodule;
  using FunctionHandle = CUfunction;
  using EventHandle = CUevent;
  using GraphHandle = CUgraph;
  using ExecutableHandle = CUgraphExec;
  static constexpr Result kSuccess = CUDA_SUCCESS, kNotReady = CUDA_ERROR_NOT_READY, kNotFound = CUDA_ERROR_NOT_FOUND;
  static constexpr int32_t kDlDeviceType = 2;

  // Opens the driver. Says which of these it is: no driver, the toolkit's stub, a driver that is too old, no GPU.
  Outcome Open();

  static bool IsLost(Result result);
  static bool IsOutOfMemory(Result result) { return result == CUDA_ERROR_OUT_OF_MEMORY; }
  std::string ErrorText(Result result) const;

  Result DeviceCount(int* out) const { return f_.cuDeviceGetCount(out); }
  Result DeviceGet(DeviceHandle* out, int index) const { return f_.cuDeviceGet(out, index); }
  Outcome Facts(DeviceHandle device, CardFacts* out) const;
  Result RetainContext(DeviceHandle device, ContextHandle* out) const {
    return f_.cuDevicePrimaryCtxRetain(out, device);
  }
  void ReleaseContext(DeviceHandle device) const { (void)f_.cuDevicePrimaryCtxRelease(device); }
  Result SetCurrent(ContextHandle context, DeviceHandle) const { return f_.cuCtxSetCurrent(context); }

  Result CreatePool(DeviceHandle device, PoolHandle* out) const {
    CUmemPoolProps properties = {};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = device;
    return f_.cuMemPoolCreate(out, &properties);
  }
  Result DestroyPool(PoolHandle pool) const { return f_.cuMemPoolDestroy(pool); }
  // The driver knows nothing of streams that wait for words: where memory is short, it would let a stream wait for
  // another one's free, which may itself wait for the first.
  Result KeepPool(PoolHandle pool) const {
    cuuint64_t all = UINT64_MAX;
    int no = 0;
    const Result result = f_.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all);
    return result == CUDA_SUCCESS
               ? f_.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &no)
               : result;
  }
  Result ShareDevicePool(PoolHandle pool, DeviceHandle with) const {
    CUmemAccessDesc access = {};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = with;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return f_.cuMemPoolSetAccess(pool, &access, 1);
  }
  Result AllocateFromPool(void** out, size_t bytes, PoolHandle pool, StreamHandle stream) const {
    CUdeviceptr data = 0;
    const Result result = f_.cuMemAllocFromPoolAsync(&data, bytes, pool, stream);
    *out = reinterpret_cast<void*>(data);
    return result;
  }
  Result TrimPool(PoolHandle pool) const { return f_.cuMemPoolTrimTo(pool, 0); }
  Result FreeToPool(void* data, StreamHandle stream) const { return f_.cuMemFreeAsync(Address(data), stream); }
  Result HostAllocate(void** out, size_t bytes) const {
    return f_.cuMemHostAlloc(out, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
  }
  Result HostFree(void* data) const { return f_.cuMemFreeHost(data); }
  Result MemoryInfo(size_t* free, size_t* total) const { return f_.cuMemGetInfo(free, total); }
  bool CanAccess(DeviceHandle from, DeviceHandle to) const {
    int can = 0;
    return f_.cuDeviceCanAccessPeer(&can, from, to) == CUDA_SUCCESS && can != 0;
  }
  Result EnablePeer(ContextHandle context, DeviceHandle) const { return f_.cuCtxEnablePeerAccess(context, 0); }

  Result StreamCreate(StreamHandle* out, int32_t priority) const {
    return f_.cuStreamCreateWithPriority(out, CU_STREAM_NON_BLOCKING, -priority);
  }
  Result StreamDestroy(StreamHandle stream) const { return f_.cuStreamDestroy(stream); }
  Result StreamSynchronize(StreamHandle stream) const { return f_.cuStreamSynchronize(stream); }
  Result StreamQuery(StreamHandle stream) const { return f_.cuStreamQuery(stream); }
  Result Copy(void* to, const void* from, size_t bytes, StreamHandle stream) const {
    return f_.cuMemcpyAsync(Address(to), Address(from), bytes, stream);
  }
  Result CopyPeer(void* to, ContextHandle to_context, DeviceHandle, const void* from, ContextHandle from_context,
                  DeviceHandle, size_t bytes, StreamHandle stream) const {
    return f_.cuMemcpyPeerAsync(Address(to), to_context, Address(from), from_context, bytes, stream);
  }
  Result Fill(void* to, uint32_t value, uint32_t unit, size_t count, StreamHandle stream) const {
    switch (unit) {
      case 1: return f_.cuMemsetD8Async(Address(to), static_cast<unsigned char>(value), count, stream);
      case 2: return f_.cuMemsetD16Async(Address(to), static_cast<unsigned short>(value), count, stream);
      default: return f_.cuMemsetD32Async(Address(to), value, count, stream);
    }
  }
  Result WriteValue(StreamHandle stream, uint64_t* word, uint64_t value) const {
    return f_.cuStreamWriteValue64(stream, Address(word), value, CU_STREAM_WRITE_VALUE_DEFAULT);
  }
  Result WaitValue(StreamHandle stream, uint64_t* word, uint64_t at_least) const {
    return f_.cuStreamWaitValue64(stream, Address(word), at_least, CU_STREAM_WAIT_VALUE_GEQ);
  }
  Result CallHost(StreamHandle stream, uint64_t call) const {
    const auto run = [](void* number) { HostCalls::Run(reinterpret_cast<uint64_t>(number)); };
    return f_.cuLaunchHostFunc(stream, run, reinterpret_cast<void*>(call));
  }

  Result ModuleLoad(ModuleHandle* out, const void* image) const { return f_.cuModuleLoadData(out, image); }
  Result ModuleUnload(ModuleHandle module) const { return f_.cuModuleUnload(module); }
  // When it is planned, not when it is first launched: that may wait for the whole GPU, and so for streams that wait
  // for the launch.
  Result LoadFunction(FunctionHandle function) const { return f_.cuFuncLoad(function); }
  Result ModuleFunction(FunctionHandle* out, ModuleHandle module, const char* name) const {
    return f_.cuModuleGetFunction(out, module, name);
  }
  Result Launch(FunctionHandle function, const uint32_t* blocks, uint32_t threads, StreamHandle stream,
                void** params) const {
    return f_.cuLaunchKernel(function, blocks[0], blocks[1], blocks[2], threads, 1, 1, 0, stream, params, nullptr);
  }

  Result EventCreate(EventHandle* out) const { return f_.cuEventCreate(out, CU_EVENT_DEFAULT); }
  Result EventDestroy(EventHandle event) const { return f_.cuEventDestroy(event); }
  Result EventRecord(EventHandle event, StreamHandle stream) const { return f_.cuEventRecord(event, stream); }
  Result StreamWaitEvent(StreamHandle stream, EventHandle event) const {
    return f_.cuStreamWaitEvent(stream, event, CU_EVENT_WAIT_DEFAULT);
  }
  bool IsMemoryOf(DeviceHandle device, const void* address) const {
    CUmemorytype type = {};
    int ordinal = -1;
    return f_.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, Address(address)) == CUDA_SUCCESS &&
           type == CU_MEMORYTYPE_DEVICE &&
           f_.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, Address(address)) == CUDA_SUCCESS &&
           ordinal == device;
  }
  Result EventQuery(EventHandle event) const { return f_.cuEventQuery(event); }
  Result EventElapsed(float* out, EventHandle begin, EventHandle end) const {
    return f_.cuEventElapsedTime(out, begin, end);
  }

  Result CaptureBegin(StreamHandle stream) const {
    return f_.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  }
  Result CaptureEnd(StreamHandle stream, GraphHandle* out) const { return f_.cuStreamEndCapture(stream, out); }
  Result GraphNodes(GraphHandle graph, size_t* out) const { return f_.cuGraphGetNodes(graph, nullptr, out); }
  Result GraphInstantiate(ExecutableHandle* out, GraphHandle graph) const {
    return f_.cuGraphInstantiateWithFlags(out, graph, 0);
  }
  Result GraphDestroy(GraphHandle graph) const { return f_.cuGraphDestroy(graph); }
  Result GraphLaunch(ExecutableHandle executable, StreamHandle stream) const {
    return f_.cuGraphLaunch(executable, stream);
  }
  Result ExecutableDestroy(ExecutableHandle executable) const { return f_.cuGraphExecDestroy(executable); }

  std::string CompilerName(const CardFacts& facts) const {
    return sdk::Concat(Nvrtc::The().version(), " ", facts.architecture);
  }
  Outcome Compile(const CardFacts& facts, const std::string& source, std::vector<char>* out_image) const {
    return Nvrtc::The().Compile(facts.major, facts.minor, source, out_image);
  }

 private:
  static CUdeviceptr Address(const void* data) { return reinterpret_cast<CUdeviceptr>(data); }

  struct Functions {
#define TENON_CUDA_MEMBER(name) decltype(&::name) name;
    TENON_CUDA_FUNCTIONS(TENON_CUDA_MEMBER)
#undef TENON_CUDA_MEMBER
  };
  Functions f_ = {};
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_CUDA_API_H_
