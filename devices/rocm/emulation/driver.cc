// SPDX-License-Identifier: Apache-2.0
// A libamdhip64.so.7 whose GPUs are the emulated ones (devices/gpu/emulation), so that the plugin tenon.rocm itself
// runs where there is no GPU: all of it but the machine code, in whose place stand the kernels of the same names.
//
// It is as strict as HIP's documentation. TENON_EMULATED_HIP_WAITS: what memory streams wait for, as releases of the
// real one have it: "any" that the runtime has allocated (where it is unset), "signal" memory alone, or "nothing"; what
// else they are told to wait for is an invalid value. They write into any memory of the runtime, and nowhere else.
// TENON_EMULATED_GPUS: how many there are (1). TENON_EMULATED_LOSE_AFTER: GPU 0 is lost after so many pieces of work
// (never).
#include <hip/hip_runtime_api.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "emulation/grid.h"
#include "emulation/stream.h"
#include "options.h"
#include "runtime.h"

using namespace tenon::gpu;  // NOLINT: this file defines the runtime's own names alone

// ---- Handles ----

// What emulated libraries of the vendor take it for.
struct ihipStream_t final : EmulatedStream {
  ihipStream_t(int device, Stream stream) : device(device), stream(stream) {}
  void Give(std::function<void()> work) override { on()->Give(std::move(work)); }
  bool GiveCall(std::function<void()> call) override { return on()->GiveCall(std::move(call)); }
  void GiveAlways(std::function<void(bool)> work) override { on()->GiveAlways(std::move(work)); }
  EmulatedStream* on() const { return reinterpret_cast<EmulatedStream*>(stream); }

  const int device;
  const Stream stream;
};
struct ihipEvent_t {
  int device;
  Event event;
  hipStream_t on = nullptr;
  bool recorded = false;
};
struct ihipModuleSymbol_t {
  int device;
  const EmulatedKernel* kernel;
};
struct ihipModule_t {
  int device;
  Module module;
  std::vector<std::unique_ptr<ihipModuleSymbol_t>> functions;
};
struct ihipMemPoolHandle_t {
  int device;
};
struct ihipGraph {
  int device;
  CapturedGraph graph;  // until it is instantiated
  size_t nodes;
};
struct hipGraphExec {
  int device;
  CapturedGraph graph;
};

namespace {

thread_local int current = 0;

// The host's memory that was allocated here.
class HostMemory {
 public:
  void Add(void* data, size_t bytes, bool is_signal) {
    const std::lock_guard lock(mutex_);
    blocks_[static_cast<char*>(data)] = bytes;
    if (is_signal) signals_.insert(data);
  }
  bool Remove(void* data, bool is_signal) {
    const std::lock_guard lock(mutex_);
    return is_signal == (signals_.erase(data) == 1) && blocks_.erase(static_cast<char*>(data)) == 1;
  }
  bool IsSignal(const void* word) {
    const std::lock_guard lock(mutex_);
    return signals_.contains(const_cast<void*>(word));
  }
  bool Has(const void* word) {
    const std::lock_guard lock(mutex_);
    auto block = blocks_.upper_bound(static_cast<char*>(const_cast<void*>(word)));
    if (block == blocks_.begin()) return false;
    --block;
    return static_cast<const char*>(word) + sizeof(uint64_t) <= block->first + block->second;
  }

 private:
  std::mutex mutex_;
  std::map<char*, size_t> blocks_;
  std::set<void*> signals_;
};

struct Driver {
  Driver() {
    Options options;
    options.devices = 1;
    if (const char* count = std::getenv("TENON_EMULATED_GPUS")) options.devices = std::atoi(count);
    if (const char* after = std::getenv("TENON_EMULATED_LOSE_AFTER")) options.more["lose_after"] = after;
    const std::unique_ptr<Runtime> runtime = kVendor.make(options);
    cards.resize(static_cast<size_t>(options.devices));
    for (size_t i = 0; i < cards.size(); ++i) (void)runtime->Open(static_cast<uint32_t>(i), &cards[i]);
  }
  std::vector<std::unique_ptr<Card>> cards;
  HostMemory memory;
  std::mutex mutex;  // guards modules' functions
};
Driver& TheDriver() {
  static auto* const driver = new Driver;  // NOLINT: as long as the process
  return *driver;
}
Card& CardOf(int device) { return *TheDriver().cards[static_cast<size_t>(device)]; }

hipError_t ToResult(const Outcome& outcome) {
  switch (outcome.code) {
    case TENON_OK: return hipSuccess;
    case TENON_RESOURCE_EXHAUSTED: return hipErrorOutOfMemory;
    case TENON_UNAVAILABLE: return hipErrorIllegalAddress;
    case TENON_NOT_FOUND: return hipErrorNotFound;
    default: return hipErrorInvalidValue;
  }
}
hipError_t CheckDevice(int device) {
  return device >= 0 && static_cast<size_t>(device) < TheDriver().cards.size() ? hipSuccess : hipErrorInvalidDevice;
}
// What is used where another GPU is the thread's is a mistake here.
template <class Handle>
hipError_t Check(Handle handle) {
  if (handle == nullptr) return hipErrorInvalidHandle;
  return handle->device == current ? hipSuccess : hipErrorInvalidContext;
}
#define TENON_TRY_HIP(call) \
  if (const hipError_t tried = (call); tried != hipSuccess) return tried

hipError_t Fill(void* target, uint32_t value, uint32_t unit, size_t count, hipStream_t stream) {
  TENON_TRY_HIP(Check(stream));
  if (reinterpret_cast<uintptr_t>(target) % unit != 0) return hipErrorInvalidValue;
  return ToResult(CardOf(current).Fill(target, value, unit, count, stream->stream));
}
bool IsDeviceMemory(const void* address) {
  for (const auto& card : TheDriver().cards) {
    if (card->IsDeviceMemory(address)) return true;
  }
  return false;
}
bool MayBeWaitedFor(const void* word) {
  const char* const wished = std::getenv("TENON_EMULATED_HIP_WAITS");
  const std::string_view waits = wished == nullptr ? "any" : wished;
  if (waits == "nothing") return false;
  return TheDriver().memory.IsSignal(word) ||
         (waits == "any" && (TheDriver().memory.Has(word) || IsDeviceMemory(word)));
}
hipError_t AllocateHost(void** out, size_t bytes, bool is_signal) {
  TENON_TRY_HIP(ToResult(CardOf(current).AllocatePinned(bytes, out)));
  TheDriver().memory.Add(*out, bytes, is_signal);
  return hipSuccess;
}
hipError_t FreeHost(void* data, bool is_signal) {
  if (!TheDriver().memory.Remove(data, is_signal)) return hipErrorInvalidValue;
  CardOf(current).FreePinned(data);
  return hipSuccess;
}

}  // namespace

extern "C" {

// ---- The runtime and its devices ----

hipError_t hipInit(unsigned int) { return TheDriver().cards.empty() ? hipErrorNoDevice : hipSuccess; }
hipError_t hipDriverGetVersion(int* version) {
  *version = HIP_VERSION;
  return hipSuccess;
}
const char* hipGetErrorName(hipError_t error) {
  return error == hipErrorInvalidValue     ? "hipErrorInvalidValue"
         : error == hipErrorOutOfMemory    ? "hipErrorOutOfMemory"
         : error == hipErrorIllegalAddress ? "hipErrorIllegalAddress"
                                           : "another error";
}
const char* hipGetErrorString(hipError_t) { return "said by the emulated runtime"; }
hipError_t hipGetDeviceCount(int* count) {
  *count = static_cast<int>(TheDriver().cards.size());
  return hipSuccess;
}
hipError_t hipDeviceGet(hipDevice_t* device, int ordinal) {
  *device = ordinal;
  return CheckDevice(ordinal);
}
hipError_t hipDeviceGetName(char* name, int bytes, hipDevice_t device) {
  std::strncpy(name, "Emulated AMD GPU", static_cast<size_t>(bytes));
  return CheckDevice(device);
}
hipError_t hipDeviceTotalMem(size_t* bytes, hipDevice_t device) {
  TENON_TRY_HIP(CheckDevice(device));
  *bytes = CardOf(device).facts().memory_bytes;
  return hipSuccess;
}
hipError_t hipDeviceGetAttribute(int* value, hipDeviceAttribute_t which, int device) {
  TENON_TRY_HIP(CheckDevice(device));
  switch (which) {
    case hipDeviceAttributeMultiprocessorCount: *value = 2; break;
    case hipDeviceAttributeWarpSize: *value = 32; break;
    case hipDeviceAttributeComputeCapabilityMajor: *value = 9; break;
    case hipDeviceAttributeComputeCapabilityMinor: *value = 0; break;
    case hipDeviceAttributeMaxSharedMemoryPerBlock: *value = 64 * 1024; break;
    case hipDeviceAttributeClockRate:
    case hipDeviceAttributeMemoryClockRate: *value = 1'000'000; break;
    case hipDeviceAttributeMemoryBusWidth: *value = 64; break;
    case hipDeviceAttributeCanUseStreamWaitValue:
    case hipDeviceAttributeMemoryPoolsSupported: *value = 1; break;
    default: return hipErrorInvalidValue;
  }
  return hipSuccess;
}
hipError_t hipSetDevice(int device) {
  TENON_TRY_HIP(CheckDevice(device));
  current = device;
  return hipSuccess;
}
hipError_t hipDeviceCanAccessPeer(int* can, int from, int to) {
  TENON_TRY_HIP(CheckDevice(from));
  TENON_TRY_HIP(CheckDevice(to));
  *can = from != to;
  return hipSuccess;
}
hipError_t hipDeviceEnablePeerAccess(int peer, unsigned int) { return CheckDevice(peer); }

// ---- Memory ----

hipError_t hipMemPoolCreate(hipMemPool_t* pool, const hipMemPoolProps* properties) {
  TENON_TRY_HIP(CheckDevice(properties->location.id));
  *pool = new ihipMemPoolHandle_t{properties->location.id};
  return hipSuccess;
}
hipError_t hipMemPoolDestroy(hipMemPool_t pool) {
  delete pool;
  return hipSuccess;
}
hipError_t hipMemPoolSetAttribute(hipMemPool_t, hipMemPoolAttr, void*) { return hipSuccess; }
hipError_t hipMemPoolTrimTo(hipMemPool_t, size_t) { return hipSuccess; }
hipError_t hipMemPoolSetAccess(hipMemPool_t, const hipMemAccessDesc*, size_t) { return hipSuccess; }
hipError_t hipMallocFromPoolAsync(void** out, size_t bytes, hipMemPool_t pool, hipStream_t stream) {
  TENON_TRY_HIP(Check(stream));
  TENON_TRY_HIP(Check(pool));
  return ToResult(CardOf(current).Allocate(bytes, stream->stream, out));
}
hipError_t hipFreeAsync(void* data, hipStream_t stream) {
  TENON_TRY_HIP(Check(stream));
  if (!CardOf(current).IsDeviceMemory(data)) return hipErrorInvalidValue;
  CardOf(current).Free(data, stream->stream);
  return hipSuccess;
}
hipError_t hipHostMalloc(void** out, size_t bytes, unsigned int) { return AllocateHost(out, bytes, false); }
hipError_t hipHostFree(void* data) { return FreeHost(data, false); }
hipError_t hipExtMallocWithFlags(void** out, size_t bytes, unsigned int flags) {
  return flags == hipMallocSignalMemory && bytes == sizeof(uint64_t) ? AllocateHost(out, bytes, true)
                                                                     : hipErrorInvalidValue;
}
hipError_t hipFree(void* data) { return FreeHost(data, true); }
hipError_t hipMemGetInfo(size_t* free, size_t* total) {
  *free = *total = CardOf(current).facts().memory_bytes;
  return hipSuccess;
}
hipError_t hipPointerGetAttribute(void* out, hipPointer_attribute which, hipDeviceptr_t address) {
  if (which != HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL) return hipErrorInvalidValue;
  for (size_t i = 0; i < TheDriver().cards.size(); ++i) {
    if (!CardOf(static_cast<int>(i)).IsDeviceMemory(address)) continue;
    *static_cast<int*>(out) = static_cast<int>(i);
    return hipSuccess;
  }
  return hipErrorInvalidValue;
}

// ---- Streams ----

hipError_t hipStreamCreateWithPriority(hipStream_t* out, unsigned int flags, int priority) {
  if (flags != hipStreamNonBlocking) return hipErrorInvalidValue;
  Stream stream = nullptr;
  TENON_TRY_HIP(ToResult(CardOf(current).CreateStream(priority, &stream)));
  *out = new ihipStream_t(current, stream);
  return hipSuccess;
}
hipError_t hipStreamDestroy(hipStream_t stream) {
  TENON_TRY_HIP(Check(stream));
  CardOf(current).DestroyStream(stream->stream);
  delete stream;
  return hipSuccess;
}
hipError_t hipStreamSynchronize(hipStream_t stream) {
  TENON_TRY_HIP(Check(stream));
  return ToResult(CardOf(current).Synchronize(stream->stream));
}
hipError_t hipStreamQuery(hipStream_t stream) {
  TENON_TRY_HIP(Check(stream));
  bool is_idle = false;
  TENON_TRY_HIP(ToResult(CardOf(current).Health(stream->stream, &is_idle)));
  return is_idle ? hipSuccess : hipErrorNotReady;
}
hipError_t hipMemcpyAsync(void* target, const void* source, size_t bytes, hipMemcpyKind kind, hipStream_t stream) {
  TENON_TRY_HIP(Check(stream));
  return kind == hipMemcpyDefault ? ToResult(CardOf(current).Copy(target, source, bytes, stream->stream))
                                  : hipErrorInvalidMemcpyDirection;
}
hipError_t hipMemcpyPeerAsync(void* target, int to, const void* source, int from, size_t bytes, hipStream_t stream) {
  TENON_TRY_HIP(Check(stream));
  TENON_TRY_HIP(CheckDevice(to));
  TENON_TRY_HIP(CheckDevice(from));
  if (!CardOf(to).IsDeviceMemory(target) || !CardOf(from).IsDeviceMemory(source)) return hipErrorInvalidValue;
  return ToResult(CardOf(current).CopyBetween(target, CardOf(to), source, CardOf(from), bytes, stream->stream));
}
hipError_t hipMemsetD8Async(hipDeviceptr_t target, unsigned char value, size_t count, hipStream_t stream) {
  return Fill(target, value, 1, count, stream);
}
hipError_t hipMemsetD16Async(hipDeviceptr_t target, unsigned short value, size_t count, hipStream_t stream) {
  return Fill(target, value, 2, count, stream);
}
hipError_t hipMemsetD32Async(hipDeviceptr_t target, int value, size_t count, hipStream_t stream) {
  return Fill(target, static_cast<uint32_t>(value), 4, count, stream);
}
hipError_t hipStreamWriteValue64(hipStream_t stream, void* word, uint64_t value, unsigned int) {
  TENON_TRY_HIP(Check(stream));
  if (!TheDriver().memory.Has(word) && !IsDeviceMemory(word)) return hipErrorInvalidValue;
  return ToResult(CardOf(current).WriteWord(static_cast<uint64_t*>(word), value, stream->stream));
}
hipError_t hipStreamWaitValue64(hipStream_t stream, void* word, uint64_t value, unsigned int flags, uint64_t mask) {
  TENON_TRY_HIP(Check(stream));
  if (flags != hipStreamWaitValueGte || mask != UINT64_MAX || !MayBeWaitedFor(word)) return hipErrorInvalidValue;
  return ToResult(CardOf(current).WaitForWord(static_cast<uint64_t*>(word), value, stream->stream));
}
hipError_t hipStreamAddCallback(hipStream_t stream, hipStreamCallback_t function, void* argument, unsigned int flags) {
  TENON_TRY_HIP(Check(stream));
  if (flags != 0) return hipErrorInvalidValue;
  const auto call = [=] { function(stream, hipSuccess, argument); };
  return stream->GiveCall(call) ? hipSuccess : hipErrorIllegalAddress;
}

// ---- Code ----

hipError_t hipModuleLoadData(hipModule_t* out, const void* image) {
  // What hipcc makes; and what the emulated hiprtc makes (hiprtc.cc), with its length before it.
  constexpr std::string_view kBundle = "__CLANG_OFFLOAD_BUNDLE__", kLibrary = "emulated";
  Module module = nullptr;
  if (std::memcmp(image, kBundle.data(), kBundle.size()) == 0) {
    TENON_TRY_HIP(ToResult(CardOf(current).LoadModule(image, 0, &module)));
  } else if (std::memcmp(image, kLibrary.data(), kLibrary.size()) == 0) {
    uint64_t bytes = 0;
    std::memcpy(&bytes, static_cast<const char*>(image) + kLibrary.size(), sizeof bytes);
    TENON_TRY_HIP(ToResult(
        CardOf(current).LoadModule(static_cast<const char*>(image) + kLibrary.size() + sizeof bytes, bytes, &module)));
  } else {
    return hipErrorInvalidImage;
  }
  *out = new ihipModule_t{current, module, {}};
  return hipSuccess;
}
hipError_t hipModuleUnload(hipModule_t module) {
  TENON_TRY_HIP(Check(module));
  CardOf(current).UnloadModule(module->module);
  delete module;
  return hipSuccess;
}
hipError_t hipModuleGetFunction(hipFunction_t* out, hipModule_t module, const char* name) {
  TENON_TRY_HIP(Check(module));
  Function function = nullptr;
  TENON_TRY_HIP(ToResult(CardOf(current).FindFunction(module->module, name, &function)));
  const std::lock_guard lock(TheDriver().mutex);
  module->functions.push_back(std::make_unique<ihipModuleSymbol_t>(
      ihipModuleSymbol_t{current, reinterpret_cast<const EmulatedKernel*>(function)}));
  *out = module->functions.back().get();
  return hipSuccess;
}
hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned int x, unsigned int y, unsigned int z,
                                 unsigned int threads, unsigned int threads_y, unsigned int threads_z,
                                 unsigned int shared, hipStream_t stream, void** params, void** extra) {
  TENON_TRY_HIP(Check(function));
  TENON_TRY_HIP(Check(stream));
  if (threads_y != 1 || threads_z != 1 || shared != 0 || extra != nullptr) return hipErrorInvalidValue;
  const auto handle = reinterpret_cast<Function>(const_cast<EmulatedKernel*>(function->kernel));
  return ToResult(CardOf(current).Launch(handle, Grid{{x, y, z}, threads}, params[0], function->kernel->params_bytes(),
                                         stream->stream));
}

// ---- Events ----

hipError_t hipEventCreate(hipEvent_t* out) {
  Event event = nullptr;
  TENON_TRY_HIP(ToResult(CardOf(current).CreateEvent(&event)));
  *out = new ihipEvent_t{current, event};
  return hipSuccess;
}
// Their places stay: a stream may still write there.
hipError_t hipEventDestroy(hipEvent_t event) {
  static auto* const gone = new std::vector<hipEvent_t>;  // NOLINT: as long as the process
  TENON_TRY_HIP(Check(event));
  const std::lock_guard lock(TheDriver().mutex);
  gone->push_back(event);
  return hipSuccess;
}
hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) {
  TENON_TRY_HIP(Check(event));
  event->on = stream;
  event->recorded = true;
  if (stream == nullptr) return hipSuccess;  // the default stream, which has no work here
  TENON_TRY_HIP(Check(stream));
  return ToResult(CardOf(current).Record(event->event, stream->stream));
}
hipError_t hipEventQuery(hipEvent_t event) {
  TENON_TRY_HIP(Check(event));
  return !event->recorded || CardOf(current).HasCome(event->event) ? hipSuccess : hipErrorNotReady;
}
hipError_t hipEventElapsedTime(float* milliseconds, hipEvent_t begin, hipEvent_t end) {
  TENON_TRY_HIP(Check(begin));
  TENON_TRY_HIP(Check(end));
  if (!CardOf(current).HasCome(begin->event) || !CardOf(current).HasCome(end->event)) return hipErrorNotReady;
  double nanoseconds = 0;
  const Outcome outcome = CardOf(current).Elapsed(begin->event, end->event, &nanoseconds);
  *milliseconds = static_cast<float>(nanoseconds / 1e6);
  return ToResult(outcome);
}
hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned int) {
  TENON_TRY_HIP(Check(stream));
  return event->on == nullptr ? hipSuccess : ToResult(CardOf(current).WaitForStream(event->on->stream, stream->stream));
}

// ---- Captured graphs ----

hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode) {
  TENON_TRY_HIP(Check(stream));
  return mode == hipStreamCaptureModeThreadLocal ? ToResult(CardOf(current).BeginCapture(stream->stream))
                                                 : hipErrorInvalidValue;
}
hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t* out) {
  *out = nullptr;
  TENON_TRY_HIP(Check(stream));
  CapturedGraph graph = nullptr;
  uint64_t nodes = 0;
  TENON_TRY_HIP(ToResult(CardOf(current).EndCapture(stream->stream, &graph, &nodes)));
  *out = new ihipGraph{current, graph, nodes};
  return hipSuccess;
}
hipError_t hipGraphGetNodes(hipGraph_t graph, hipGraphNode_t* nodes, size_t* count) {
  TENON_TRY_HIP(Check(graph));
  *count = graph->nodes;
  return nodes == nullptr ? hipSuccess : hipErrorInvalidValue;
}
hipError_t hipGraphInstantiate(hipGraphExec_t* out, hipGraph_t graph, hipGraphNode_t*, char*, size_t) {
  TENON_TRY_HIP(Check(graph));
  *out = new hipGraphExec{current, std::exchange(graph->graph, nullptr)};
  return hipSuccess;
}
hipError_t hipGraphDestroy(hipGraph_t graph) {
  TENON_TRY_HIP(Check(graph));
  if (graph->graph != nullptr) CardOf(current).DestroyGraph(graph->graph);
  delete graph;
  return hipSuccess;
}
hipError_t hipGraphLaunch(hipGraphExec_t executable, hipStream_t stream) {
  TENON_TRY_HIP(Check(executable));
  TENON_TRY_HIP(Check(stream));
  return ToResult(CardOf(current).LaunchGraph(executable->graph, stream->stream));
}
hipError_t hipGraphExecDestroy(hipGraphExec_t executable) {
  TENON_TRY_HIP(Check(executable));
  CardOf(current).DestroyGraph(executable->graph);
  delete executable;
  return hipSuccess;
}

}  // extern "C"
