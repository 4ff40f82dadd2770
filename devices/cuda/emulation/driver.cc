// SPDX-License-Identifier: Apache-2.0
// A libcuda.so.1 whose GPUs are the emulated ones (devices/gpu/emulation), so that the plugin tenon.cuda itself runs where there is no
// GPU: all of it but the machine code, in whose place stand the kernels of the same names.
//
// It is as strict as the real one, or more: a handle is used where its context is the thread's, a thread that captures may not wait.
// TENON_EMULATED_GPUS: how many there are (1). TENON_EMULATED_LOSE_AFTER: GPU 0 is lost after so many pieces of work (never).
#include <cuda.h>
#include <elf.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "emulation/grid.h"
#include "options.h"
#include "runtime.h"

using namespace tenon::gpu;  // NOLINT: this file defines the driver's own names alone

// ---- Handles ----

struct CUctx_st {
  int device;
  std::unique_ptr<Card> card;
};
struct CUstream_st {
  CUcontext context;
  Stream stream;
};
struct CUevent_st {
  CUcontext context;
  Event event;
  CUstream on = nullptr;
  bool recorded = false;
};
struct CUfunc_st {
  CUcontext context;
  const EmulatedKernel* kernel;
};
struct CUmod_st {
  CUcontext context;
  Module module;
  std::vector<std::unique_ptr<CUfunc_st>> functions;
};
struct CUgraph_st {
  CUcontext context;
  CapturedGraph graph;  // until it is instantiated
  size_t nodes;
};
struct CUgraphExec_st {
  CUcontext context;
  CapturedGraph graph;
};
struct CUmemPoolHandle_st {
  CUcontext context;
};

namespace {

thread_local CUcontext current = nullptr;
thread_local int captures = 0;  // that this thread has begun

struct Driver {
  Driver() {
    Options options;
    if (const char* count = std::getenv("TENON_EMULATED_GPUS")) options.devices = std::atoi(count);
    if (options.devices < 0) options.devices = 1;
    if (const char* after = std::getenv("TENON_EMULATED_LOSE_AFTER")) options.more["lose_after"] = after;
    const std::unique_ptr<Runtime> runtime = kVendor.make(options);
    for (int i = 0; i < options.devices; ++i) {
      contexts.push_back(std::make_unique<CUctx_st>());
      contexts.back()->device = i;
      (void)runtime->Open(static_cast<uint32_t>(i), &contexts.back()->card);
    }
  }
  std::vector<std::unique_ptr<CUctx_st>> contexts;  // by device
};
bool has_begun = false;
Driver& TheDriver() {
  static auto* const driver = new Driver;  // NOLINT: as long as the process
  return *driver;
}

CUresult ToResult(const Outcome& outcome) {
  switch (outcome.code) {
    case TENON_OK: return CUDA_SUCCESS;
    case TENON_RESOURCE_EXHAUSTED: return CUDA_ERROR_OUT_OF_MEMORY;
    case TENON_UNAVAILABLE: return CUDA_ERROR_ILLEGAL_ADDRESS;
    case TENON_NOT_FOUND: return CUDA_ERROR_NOT_FOUND;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult CheckDevice(CUdevice device) {
  if (!has_begun) return CUDA_ERROR_NOT_INITIALIZED;
  return device >= 0 && static_cast<size_t>(device) < TheDriver().contexts.size() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
// Calls that may wait for other streams are not for a thread that captures.
CUresult CheckThread(bool may_wait) {
  if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return may_wait && captures > 0 ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}
template <class Handle>
CUresult Check(Handle handle, bool may_wait = false) {
  if (const CUresult result = CheckThread(may_wait); result != CUDA_SUCCESS) return result;
  if (handle == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return handle->context == current ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
#define TENON_TRY_DRIVER(call) \
  if (const CUresult tried = (call); tried != CUDA_SUCCESS) return tried

template <class T>
T* At(CUdeviceptr address) {
  return reinterpret_cast<T*>(address);
}
Card& CardOf(CUcontext context) { return *context->card; }

CUresult Fill(CUdeviceptr target, uint32_t value, uint32_t unit, size_t count, CUstream stream) {
  TENON_TRY_DRIVER(Check(stream));
  if (target % unit != 0) return CUDA_ERROR_INVALID_VALUE;
  return ToResult(CardOf(current).Fill(At<void>(target), value, unit, count, stream->stream));
}

// Of an image that a compiler gave (a library of the host's).
uint64_t BytesOf(const void* image) {
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof header);
  return header.e_shoff + uint64_t{header.e_shentsize} * header.e_shnum;
}

}  // namespace

extern "C" {

// ---- The driver and its devices ----

CUresult cuInit(unsigned int) {
  has_begun = true;
  return TheDriver().contexts.empty() ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}
CUresult cuDriverGetVersion(int* version) {
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult error, const char** text) {
  switch (error) {
    case CUDA_ERROR_OUT_OF_MEMORY: *text = "CUDA_ERROR_OUT_OF_MEMORY"; break;
    case CUDA_ERROR_ILLEGAL_ADDRESS: *text = "CUDA_ERROR_ILLEGAL_ADDRESS"; break;
    case CUDA_ERROR_INVALID_CONTEXT: *text = "CUDA_ERROR_INVALID_CONTEXT"; break;
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: *text = "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"; break;
    default: *text = "another CUDA_ERROR of the emulated driver"; break;
  }
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult error, const char** text) {
  *text = error == CUDA_ERROR_ILLEGAL_ADDRESS ? "the emulated GPU is lost" : "said by the emulated driver";
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int* count) {
  *count = static_cast<int>(TheDriver().contexts.size());
  return has_begun ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}
CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return CheckDevice(ordinal);
}
CUresult cuDeviceGetName(char* name, int bytes, CUdevice device) {
  TENON_TRY_DRIVER(CheckDevice(device));
  std::strncpy(name, "Emulated NVIDIA GPU", static_cast<size_t>(bytes));
  return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem(size_t* bytes, CUdevice device) {
  TENON_TRY_DRIVER(CheckDevice(device));
  *bytes = TheDriver().contexts[static_cast<size_t>(device)]->card->facts().memory_bytes;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice device) {
  TENON_TRY_DRIVER(CheckDevice(device));
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 2; break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *value = 32; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = 8; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = 0; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: *value = 48 * 1024; break;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: *value = 1'000'000; break;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: *value = 64; break;
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED: *value = 1; break;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  TENON_TRY_DRIVER(CheckDevice(device));
  *context = TheDriver().contexts[static_cast<size_t>(device)].get();
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice device) { return CheckDevice(device); }
CUresult cuCtxSetCurrent(CUcontext context) {
  current = context;
  return CUDA_SUCCESS;
}

// ---- Memory ----

CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  TENON_TRY_DRIVER(CheckDevice(properties->location.id));
  if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE || properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  *pool = new CUmemPoolHandle_st{TheDriver().contexts[static_cast<size_t>(properties->location.id)].get()};
  return CUDA_SUCCESS;
}
CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  delete pool;
  return CUDA_SUCCESS;
}
CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute, void*) { return pool == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS; }
CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* access, size_t count) {
  return pool == nullptr || count != 1 || access->location.id == pool->context->device ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult cuMemAllocFromPoolAsync(CUdeviceptr* out, size_t bytes, CUmemoryPool pool, CUstream stream) {
  TENON_TRY_DRIVER(Check(stream));
  if (pool == nullptr || pool->context != current || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  void* data = nullptr;
  const Outcome outcome = CardOf(current).Allocate(bytes, stream->stream, &data);
  *out = reinterpret_cast<CUdeviceptr>(data);
  return ToResult(outcome);
}
CUresult cuMemFreeAsync(CUdeviceptr data, CUstream stream) {
  TENON_TRY_DRIVER(Check(stream));
  CardOf(current).Free(At<void>(data), stream->stream);
  return CUDA_SUCCESS;
}
CUresult cuMemHostAlloc(void** out, size_t bytes, unsigned int) {
  TENON_TRY_DRIVER(CheckThread(true));
  return ToResult(CardOf(current).AllocatePinned(bytes, out));
}
CUresult cuMemFreeHost(void* data) {
  TENON_TRY_DRIVER(CheckThread(true));
  CardOf(current).FreePinned(data);
  return CUDA_SUCCESS;
}
CUresult cuMemGetInfo(size_t* free, size_t* total) {
  TENON_TRY_DRIVER(CheckThread(false));
  uint64_t left = 0, all = 0;
  const Outcome outcome = CardOf(current).MemoryInUse(&left, &all);
  *free = left;
  *total = all;
  return ToResult(outcome);
}
CUresult cuDeviceCanAccessPeer(int* can, CUdevice from, CUdevice to) {
  TENON_TRY_DRIVER(CheckDevice(from));
  TENON_TRY_DRIVER(CheckDevice(to));
  *can = from != to;
  return CUDA_SUCCESS;
}
CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags) {
  TENON_TRY_DRIVER(CheckThread(true));
  return peer == nullptr || peer == current || flags != 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult cuPointerGetAttribute(void* out, CUpointer_attribute which, CUdeviceptr address) {
  for (const auto& context : TheDriver().contexts) {
    if (!context->card->IsDeviceMemory(At<void>(address))) continue;
    if (which == CU_POINTER_ATTRIBUTE_MEMORY_TYPE) *static_cast<unsigned int*>(out) = CU_MEMORYTYPE_DEVICE;
    if (which == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) *static_cast<int*>(out) = context->device;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

// ---- Streams ----

CUresult cuStreamCreateWithPriority(CUstream* out, unsigned int flags, int priority) {
  TENON_TRY_DRIVER(CheckThread(true));
  if (flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  Stream stream = nullptr;
  const Outcome outcome = CardOf(current).CreateStream(priority, &stream);
  *out = outcome.ok() ? new CUstream_st{current, stream} : nullptr;
  return ToResult(outcome);
}
CUresult cuStreamDestroy(CUstream stream) {
  TENON_TRY_DRIVER(Check(stream, true));
  CardOf(current).DestroyStream(stream->stream);
  delete stream;
  return CUDA_SUCCESS;
}
CUresult cuStreamSynchronize(CUstream stream) {
  TENON_TRY_DRIVER(Check(stream, true));
  return ToResult(CardOf(current).Synchronize(stream->stream));
}
CUresult cuStreamQuery(CUstream stream) {
  TENON_TRY_DRIVER(Check(stream, true));
  return ToResult(CardOf(current).Health(stream->stream));
}
CUresult cuMemcpyAsync(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream) {
  TENON_TRY_DRIVER(Check(stream));
  return ToResult(CardOf(current).Copy(At<void>(target), At<const void>(source), bytes, stream->stream));
}
CUresult cuMemcpyPeerAsync(CUdeviceptr target, CUcontext to, CUdeviceptr source, CUcontext from, size_t bytes, CUstream stream) {
  TENON_TRY_DRIVER(Check(stream));
  if (!to->card->IsDeviceMemory(At<void>(target)) || !from->card->IsDeviceMemory(At<void>(source))) return CUDA_ERROR_INVALID_VALUE;
  return ToResult(CardOf(current).CopyBetween(At<void>(target), CardOf(to), At<const void>(source), CardOf(from), bytes, stream->stream));
}
CUresult cuMemsetD8Async(CUdeviceptr target, unsigned char value, size_t count, CUstream stream) { return Fill(target, value, 1, count, stream); }
CUresult cuMemsetD16Async(CUdeviceptr target, unsigned short value, size_t count, CUstream stream) { return Fill(target, value, 2, count, stream); }
CUresult cuMemsetD32Async(CUdeviceptr target, unsigned int value, size_t count, CUstream stream) { return Fill(target, value, 4, count, stream); }
CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr word, cuuint64_t value, unsigned int flags) {
  TENON_TRY_DRIVER(Check(stream));
  if (word % 8 != 0 || flags != CU_STREAM_WRITE_VALUE_DEFAULT) return CUDA_ERROR_INVALID_VALUE;
  return ToResult(CardOf(current).WriteWord(At<uint64_t>(word), value, stream->stream));
}
CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr word, cuuint64_t value, unsigned int flags) {
  TENON_TRY_DRIVER(Check(stream));
  if (word % 8 != 0 || flags != CU_STREAM_WAIT_VALUE_GEQ) return CUDA_ERROR_INVALID_VALUE;
  return ToResult(CardOf(current).WaitForWord(At<uint64_t>(word), value, stream->stream));
}
CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* argument) {
  TENON_TRY_DRIVER(Check(stream));
  return ToResult(CardOf(current).CallHost(function, argument, stream->stream));
}

// ---- Code ----

CUresult cuModuleLoadData(CUmodule* out, const void* image) {
  constexpr uint32_t kFatbin = 0xBA55ED50;
  TENON_TRY_DRIVER(CheckThread(true));
  const bool is_library = std::memcmp(image, ELFMAG, SELFMAG) == 0;
  if (!is_library && std::memcmp(image, &kFatbin, sizeof kFatbin) != 0) return CUDA_ERROR_INVALID_IMAGE;
  Module module = nullptr;
  const Outcome outcome = CardOf(current).LoadModule(image, is_library ? BytesOf(image) : 0, &module);
  *out = outcome.ok() ? new CUmod_st{current, module, {}} : nullptr;
  return ToResult(outcome);
}
CUresult cuModuleUnload(CUmodule module) {
  TENON_TRY_DRIVER(Check(module, true));
  CardOf(current).UnloadModule(module->module);
  delete module;
  return CUDA_SUCCESS;
}
CUresult cuModuleGetFunction(CUfunction* out, CUmodule module, const char* name) {
  TENON_TRY_DRIVER(Check(module));
  Function function = nullptr;
  const Outcome outcome = CardOf(current).FindFunction(module->module, name, &function);
  if (!outcome.ok()) return ToResult(outcome);
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  module->functions.push_back(std::make_unique<CUfunc_st>(CUfunc_st{current, reinterpret_cast<const EmulatedKernel*>(function)}));
  *out = module->functions.back().get();
  return CUDA_SUCCESS;
}
// They are found by name alone here.
CUresult cuModuleGetFunctionCount(unsigned int* count, CUmodule module) {
  *count = 0;
  return Check(module);
}
CUresult cuModuleEnumerateFunctions(CUfunction*, unsigned int count, CUmodule module) { return count == 0 ? Check(module) : CUDA_ERROR_INVALID_VALUE; }
CUresult cuFuncLoad(CUfunction function) { return Check(function); }
CUresult cuLaunchKernel(CUfunction function, unsigned int x, unsigned int y, unsigned int z, unsigned int threads, unsigned int threads_y,
                        unsigned int threads_z, unsigned int shared, CUstream stream, void** params, void** extra) {
  TENON_TRY_DRIVER(Check(function));
  TENON_TRY_DRIVER(Check(stream));
  if (threads_y != 1 || threads_z != 1 || shared != 0 || extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto handle = reinterpret_cast<Function>(const_cast<EmulatedKernel*>(function->kernel));
  return ToResult(CardOf(current).Launch(handle, Grid{{x, y, z}, threads}, params[0], function->kernel->params_bytes(), stream->stream));
}

// ---- Events ----

CUresult cuEventCreate(CUevent* out, unsigned int) {
  TENON_TRY_DRIVER(CheckThread(false));
  Event event = nullptr;
  const Outcome outcome = CardOf(current).CreateEvent(&event);
  *out = new CUevent_st{current, event};
  return ToResult(outcome);
}
// Their places stay: a stream may still write there.
CUresult cuEventDestroy(CUevent event) {
  static std::mutex mutex;
  static auto* const gone = new std::vector<CUevent>;  // NOLINT: as long as the process
  TENON_TRY_DRIVER(Check(event));
  const std::lock_guard lock(mutex);
  gone->push_back(event);
  return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent event, CUstream stream) {
  TENON_TRY_DRIVER(Check(event));
  event->on = stream;
  event->recorded = true;
  if (stream == nullptr) return CUDA_SUCCESS;  // the default stream, which has no work here
  TENON_TRY_DRIVER(Check(stream));
  return ToResult(CardOf(current).Record(event->event, stream->stream));
}
CUresult cuEventQuery(CUevent event) {
  TENON_TRY_DRIVER(Check(event, true));
  return !event->recorded || CardOf(current).HasCome(event->event) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
CUresult cuEventElapsedTime(float* milliseconds, CUevent begin, CUevent end) {
  TENON_TRY_DRIVER(Check(begin));
  TENON_TRY_DRIVER(Check(end));
  if (!CardOf(current).HasCome(begin->event) || !CardOf(current).HasCome(end->event)) return CUDA_ERROR_NOT_READY;
  double nanoseconds = 0;
  const Outcome outcome = CardOf(current).Elapsed(begin->event, end->event, &nanoseconds);
  *milliseconds = static_cast<float>(nanoseconds / 1e6);
  return ToResult(outcome);
}
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int) {
  TENON_TRY_DRIVER(Check(stream));
  return event->on == nullptr ? CUDA_SUCCESS : ToResult(CardOf(current).WaitForStream(event->on->stream, stream->stream));
}

// ---- Captured graphs ----

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  TENON_TRY_DRIVER(Check(stream));
  if (mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) return CUDA_ERROR_INVALID_VALUE;
  TENON_TRY_DRIVER(ToResult(CardOf(current).BeginCapture(stream->stream)));
  ++captures;
  return CUDA_SUCCESS;
}
CUresult cuStreamEndCapture(CUstream stream, CUgraph* out) {
  *out = nullptr;
  TENON_TRY_DRIVER(Check(stream));
  if (captures == 0) return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  --captures;
  CapturedGraph graph = nullptr;
  uint64_t nodes = 0;
  const Outcome outcome = CardOf(current).EndCapture(stream->stream, &graph, &nodes);
  if (outcome.ok()) *out = new CUgraph_st{current, graph, nodes};
  return ToResult(outcome);
}
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  TENON_TRY_DRIVER(Check(graph));
  *count = graph->nodes;
  return nodes == nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph, unsigned long long) {
  TENON_TRY_DRIVER(Check(graph));
  *out = new CUgraphExec_st{current, std::exchange(graph->graph, nullptr)};
  return CUDA_SUCCESS;
}
CUresult cuGraphDestroy(CUgraph graph) {
  TENON_TRY_DRIVER(Check(graph));
  if (graph->graph != nullptr) CardOf(current).DestroyGraph(graph->graph);
  delete graph;
  return CUDA_SUCCESS;
}
CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  TENON_TRY_DRIVER(Check(executable));
  TENON_TRY_DRIVER(Check(stream));
  return ToResult(CardOf(current).LaunchGraph(executable->graph, stream->stream));
}
CUresult cuGraphExecDestroy(CUgraphExec executable) {
  TENON_TRY_DRIVER(Check(executable));
  CardOf(current).DestroyGraph(executable->graph);
  delete executable;
  return CUDA_SUCCESS;
}

}  // extern "C"
