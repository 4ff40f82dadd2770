// SPDX-License-Identifier: Apache-2.0
// A libcuda.so.1 whose GPUs are the emulated ones (devices/gpu/emulation), so that the plugin tenon.cuda itself runs
// where there is no GPU: all of it but the machine code, in whose place stand the kernels of the same names.
//
// It is as strict as the real one, or more: a handle is used where its context is the thread's, a thread that captures
// may not wait. Where the real one may do either, it does what is worse for its callers:
// - Streams share hardware channels (CUDA_DEVICE_MAX_CONNECTIONS, 8 where it is unset): work goes through a channel in
// the order in which
//   it was given to any stream of it, so that a wait holds up the others.
// - Allocating and freeing pinned memory waits until all GPUs have done what they were given; loading a function, until
// its own has. One
//   that was not loaded before it is launched is loaded then.
// - A pool keeps what is freed. It gives a piece to the stream that freed it; with opportunistic reuse, which is on
// unless it is turned off, to
//   any once it is past the free, and which one that is, or none, depends on the time: here it is another one each
//   time. A trim gives back what the host has seen to be free, by a stream that it found idle.
// Emulated libraries of the vendor compute on its streams (emulation/stream.h).
// TENON_EMULATED_GPUS: how many there are (1). TENON_EMULATED_LOSE_AFTER: GPU 0 is lost after so many pieces of work
// (never). TENON_EMULATED_CAPABILITY: 80, and the like. TENON_EMULATED_COUNTS: a file that gets what was given to the
// GPUs when the process ends, a line of JSON. Tests set and see more (driver_controls.h).
#include <cuda.h>
#include <elf.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "emulation/driver_controls.h"
#include "emulation/grid.h"
#include "emulation/stream.h"
#include "options.h"
#include "runtime.h"

using namespace tenon::gpu;  // NOLINT: this file defines the driver's own names alone

// ---- Handles ----

struct CUctx_st {
  int device;
  std::unique_ptr<Card> card;
  std::mutex mutex;
  std::vector<Stream> channels;  // made when they are first needed
  size_t streams = 0;            // that were made
  std::vector<Stream> spare;     // of captures that have ended
};
// What emulated libraries of the vendor take it for.
struct CUstream_st final : EmulatedStream {
  CUstream_st(CUcontext context, Stream channel) : context(context), channel(channel) {}
  void Give(std::function<void()> work) override;
  bool GiveCall(std::function<void()> call) override { return on()->GiveCall(std::move(call)); }
  void GiveAlways(std::function<void(bool)> work) override {
    reinterpret_cast<EmulatedStream*>(channel)->GiveAlways(std::move(work));
  }
  EmulatedStream* on() const { return reinterpret_cast<EmulatedStream*>(stream()); }

  const CUcontext context;
  const Stream channel;        // other streams' too
  Stream capture = nullptr;    // while it is captured: work is kept there
  size_t optimizers = 0;       // of what is kept
  Stream stream() const { return capture != nullptr ? capture : channel; }
};
struct CUevent_st {
  CUcontext context;
  Event event;
  CUstream on = nullptr;
  bool recorded = false;
};
struct CUfunc_st {
  CUcontext context;
  CUmodule module;
  const EmulatedKernel* kernel;
};
struct CUmod_st {
  CUcontext context;
  Module module;
  std::vector<std::unique_ptr<CUfunc_st>> functions;
  std::set<const EmulatedKernel*> loaded;
};
struct CUgraph_st {
  CUcontext context;
  CapturedGraph graph;  // until it is instantiated
  size_t nodes, optimizers;
};
struct CUgraphExec_st {
  CUcontext context;
  CapturedGraph graph;
  size_t nodes, optimizers;
};
// Set when a channel has got past what it had been given.
using Mark = std::shared_ptr<std::atomic<bool>>;
struct CUmemPoolHandle_st {
  struct Piece {
    void* data;
    size_t bytes;
    CUstream freed_on;
    Mark is_free;
    bool seen;  // to be free, by the host
  };
  CUcontext context;
  bool opportunistic = true;
  std::map<void*, size_t> used;
  std::list<Piece> unused;  // the latest freed last
  uint64_t bytes = 0, turn = 0;  // of both
};

namespace {

thread_local CUcontext current = nullptr;
thread_local int captures = 0;  // that this thread has begun

EmulatedDriverControls& Controls() {
  static auto* const controls = new EmulatedDriverControls;  // NOLINT: as long as the process
  return *controls;
}

void WriteCounts() {
  const EmulatedDriverControls& c = Controls();
  std::ofstream(std::getenv("TENON_EMULATED_COUNTS"), std::ios::app)
      << "{\"launches\":" << c.launches << ",\"graph_launches\":" << c.graph_launches
      << ",\"graph_nodes\":" << c.graph_nodes << ",\"optimizers\":" << c.optimizers << ",\"copies\":" << c.copies
      << ",\"copied_bytes\":" << c.copied_bytes << ",\"waits_for_idle\":" << c.waits_for_idle << "}\n";
}

struct Driver {
  Driver() {
    Options options;
    const char* const connections = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    Controls().channels = std::clamp(connections == nullptr ? 8 : std::atoi(connections), 1, 32);
    if (std::getenv("TENON_EMULATED_COUNTS") != nullptr) (void)std::atexit(&WriteCounts);
    if (const char* capability = std::getenv("TENON_EMULATED_CAPABILITY"))
      Controls().capability = std::atoi(capability);
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
  std::mutex pools_mutex;
  std::vector<CUmemoryPool> pools;
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
    case TENON_UNAVAILABLE: return static_cast<CUresult>(Controls().lost_as.load());
    case TENON_NOT_FOUND: return CUDA_ERROR_NOT_FOUND;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult CheckDevice(CUdevice device) {
  if (!has_begun) return CUDA_ERROR_NOT_INITIALIZED;
  return device >= 0 && static_cast<size_t>(device) < TheDriver().contexts.size() ? CUDA_SUCCESS
                                                                                  : CUDA_ERROR_INVALID_DEVICE;
}
// Calls that may wait for other streams are not for a thread that captures.
CUresult CheckThread(bool may_wait) {
  if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (Controls().is_lost) return static_cast<CUresult>(Controls().lost_as.load());
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

// ---- Channels ----

Mark MarkOn(Stream channel) {
  Mark mark = std::make_shared<std::atomic<bool>>(false);
  reinterpret_cast<EmulatedStream*>(channel)->GiveAlways(
      [mark](bool) { mark->store(true, std::memory_order_release); });
  return mark;
}
bool IsPast(const Mark& mark) { return mark->load(std::memory_order_acquire); }
void WaitFor(const Mark& mark) {
  for (int turn = 0; !IsPast(mark); ++turn) {
    turn < 100 ? std::this_thread::yield() : std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}
// Until a GPU has done what it was given so far.
void WaitForIdle(CUcontext context) {
  std::vector<Mark> marks;
  {
    const std::lock_guard lock(context->mutex);
    for (Stream channel : context->channels) {
      bool is_idle = false;
      if (!CardOf(context).Health(channel, &is_idle).ok() || !is_idle) marks.push_back(MarkOn(channel));
    }
  }
  ++Controls().waits_for_idle;
  for (const Mark& mark : marks) WaitFor(mark);
}
void WaitForIdle() {
  for (const auto& context : TheDriver().contexts) WaitForIdle(context.get());
}

// What was freed on the stream before, the host knows to be free.
void NoteSeen(CUstream stream) {
  const std::lock_guard lock(TheDriver().pools_mutex);
  for (CUmemoryPool pool : TheDriver().pools) {
    for (auto& piece : pool->unused) piece.seen |= piece.freed_on == stream && IsPast(piece.is_free);
  }
}

// By its pools; under their mutex.
uint64_t TakenOf(CUcontext context) {
  uint64_t taken = 0;
  for (CUmemoryPool pool : TheDriver().pools) taken += pool->context == context ? pool->bytes : 0;
  return taken;
}

// Loading compiles what is not machine code yet, and makes room for it.
CUresult Load(CUfunction function) {
  static std::mutex mutex;
  {
    const std::lock_guard lock(mutex);
    if (!function->module->loaded.insert(function->kernel).second) return CUDA_SUCCESS;
  }
  if (captures > 0) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  ++Controls().functions;
  WaitForIdle(function->context);
  return CUDA_SUCCESS;
}

CUresult CallHost(CUstream stream, std::function<void()> call) {
  return stream->GiveCall(std::move(call)) ? CUDA_SUCCESS : static_cast<CUresult>(Controls().lost_as.load());
}

CUresult Fill(CUdeviceptr target, uint32_t value, uint32_t unit, size_t count, CUstream stream) {
  TENON_TRY_DRIVER(Check(stream));
  if (target % unit != 0) return CUDA_ERROR_INVALID_VALUE;
  return ToResult(CardOf(current).Fill(At<void>(target), value, unit, count, stream->stream()));
}

// Of an image that a compiler gave (a library of the host's).
uint64_t BytesOf(const void* image) {
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof header);
  return header.e_shoff + uint64_t{header.e_shentsize} * header.e_shnum;
}

}  // namespace

void CUstream_st::Give(std::function<void()> work) {
  if (capture == nullptr) ++Controls().launches;
  on()->Give(std::move(work));
}

extern "C" {

EmulatedDriverControls* tenon_emulated_driver() { return &Controls(); }

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
  *text = error == Controls().lost_as ? "the emulated GPU is lost" : "said by the emulated driver";
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
  *bytes = Controls().memory_bytes;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice device) {
  TENON_TRY_DRIVER(CheckDevice(device));
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 2; break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *value = 32; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = Controls().capability / 10; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = Controls().capability % 10; break;
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
  if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
      properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
    return CUDA_ERROR_INVALID_VALUE;
  *pool = new CUmemPoolHandle_st;
  (*pool)->context = TheDriver().contexts[static_cast<size_t>(properties->location.id)].get();
  const std::lock_guard lock(TheDriver().pools_mutex);
  TheDriver().pools.push_back(*pool);
  return CUDA_SUCCESS;
}
CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  const std::lock_guard lock(TheDriver().pools_mutex);
  std::erase(TheDriver().pools, pool);
  for (const auto& piece : pool->unused) CardOf(pool->context).Free(piece.data, piece.freed_on->channel);
  delete pool;
  return CUDA_SUCCESS;
}
CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute which, void* value) {
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(TheDriver().pools_mutex);
  if (which == CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC) pool->opportunistic = *static_cast<int*>(value) != 0;
  return CUDA_SUCCESS;
}
CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  ++Controls().trims;
  const std::lock_guard lock(TheDriver().pools_mutex);
  for (auto piece = pool->unused.begin(); piece != pool->unused.end() && pool->bytes > keep;) {
    if (!piece->seen) {
      ++piece;
      continue;
    }
    CardOf(pool->context).Free(piece->data, nullptr);
    pool->bytes -= piece->bytes;
    piece = pool->unused.erase(piece);
  }
  return CUDA_SUCCESS;
}
CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* access, size_t count) {
  return pool == nullptr || count != 1 || access->location.id == pool->context->device ? CUDA_ERROR_INVALID_VALUE
                                                                                       : CUDA_SUCCESS;
}
CUresult cuMemAllocFromPoolAsync(CUdeviceptr* out, size_t bytes, CUmemoryPool pool, CUstream stream) {
  TENON_TRY_DRIVER(Check(stream));
  if (pool == nullptr || pool->context != current || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(TheDriver().pools_mutex);
  std::vector<std::list<CUmemPoolHandle_st::Piece>::iterator> fitting;
  for (auto piece = pool->unused.begin(); piece != pool->unused.end(); ++piece) {
    const bool may = piece->freed_on == stream || (pool->opportunistic && IsPast(piece->is_free));
    if (may && piece->bytes >= bytes && piece->bytes <= 2 * bytes) fitting.push_back(piece);
  }
  const bool has_room = TakenOf(current) + bytes <= Controls().memory_bytes;
  size_t chosen = fitting.empty() ? 0 : fitting.size() - 1;
  if (pool->opportunistic) chosen = pool->turn++ % (fitting.size() + (has_room || fitting.empty() ? 1 : 0));
  if (chosen < fitting.size()) {
    const auto piece = fitting[chosen];
    *out = reinterpret_cast<CUdeviceptr>(piece->data);
    pool->used[piece->data] = piece->bytes;
    pool->unused.erase(piece);
    return CUDA_SUCCESS;
  }
  if (!has_room) return CUDA_ERROR_OUT_OF_MEMORY;
  void* data = nullptr;
  const Outcome outcome = CardOf(current).Allocate(bytes, stream->stream(), &data);
  *out = reinterpret_cast<CUdeviceptr>(data);
  if (!outcome.ok()) return ToResult(outcome);
  pool->used[data] = bytes;
  pool->bytes += bytes;
  return CUDA_SUCCESS;
}
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  TENON_TRY_DRIVER(Check(stream));
  const std::lock_guard lock(TheDriver().pools_mutex);
  for (CUmemoryPool pool : TheDriver().pools) {
    const auto used = pool->used.find(At<void>(address));
    if (used == pool->used.end()) continue;
    pool->unused.push_back({used->first, used->second, stream, MarkOn(stream->channel), false});
    pool->used.erase(used);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemHostAlloc(void** out, size_t bytes, unsigned int) {
  TENON_TRY_DRIVER(CheckThread(true));
  WaitForIdle();
  return ToResult(CardOf(current).AllocatePinned(bytes, out));
}
CUresult cuMemFreeHost(void* data) {
  TENON_TRY_DRIVER(CheckThread(true));
  WaitForIdle();
  CardOf(current).FreePinned(data);
  return CUDA_SUCCESS;
}
CUresult cuMemGetInfo(size_t* free, size_t* total) {
  TENON_TRY_DRIVER(CheckThread(false));
  const std::lock_guard lock(TheDriver().pools_mutex);
  *total = Controls().memory_bytes;
  *free = *total - std::min<uint64_t>(TakenOf(current), *total);
  return CUDA_SUCCESS;
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
  const std::lock_guard lock(current->mutex);
  const size_t channel = current->streams++ % static_cast<size_t>(Controls().channels.load());
  while (current->channels.size() <= channel) {
    Stream stream = nullptr;
    TENON_TRY_DRIVER(ToResult(CardOf(current).CreateStream(priority, &stream)));
    current->channels.push_back(stream);
  }
  *out = new CUstream_st(current, current->channels[channel]);
  return CUDA_SUCCESS;
}
// Its work goes on; the place stays, for those who have freed memory there.
CUresult cuStreamDestroy(CUstream stream) {
  static std::mutex mutex;
  static auto* const gone = new std::vector<CUstream>;  // NOLINT: as long as the process
  TENON_TRY_DRIVER(Check(stream, true));
  const std::lock_guard lock(mutex);
  gone->push_back(stream);
  return CUDA_SUCCESS;
}
CUresult cuStreamSynchronize(CUstream stream) {
  TENON_TRY_DRIVER(Check(stream, true));
  WaitFor(MarkOn(stream->channel));
  NoteSeen(stream);
  return ToResult(CardOf(current).Health(stream->channel, nullptr));
}
CUresult cuStreamQuery(CUstream stream) {
  TENON_TRY_DRIVER(Check(stream, true));
  bool is_idle = false;
  const Outcome health = CardOf(current).Health(stream->channel, &is_idle);
  if (!health.ok()) return ToResult(health);
  if (!is_idle) return CUDA_ERROR_NOT_READY;
  NoteSeen(stream);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyAsync(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream) {
  TENON_TRY_DRIVER(Check(stream));
  if (stream->capture == nullptr) {
    ++Controls().copies;
    Controls().copied_bytes += bytes;
    TENON_TRY_DRIVER(CallHost(stream, [] {
      while (Controls().holds_copies) std::this_thread::sleep_for(std::chrono::microseconds(100));
    }));
  }
  return ToResult(CardOf(current).Copy(At<void>(target), At<const void>(source), bytes, stream->stream()));
}
CUresult cuMemcpyPeerAsync(CUdeviceptr target, CUcontext to, CUdeviceptr source, CUcontext from, size_t bytes,
                           CUstream stream) {
  TENON_TRY_DRIVER(Check(stream));
  if (!to->card->IsDeviceMemory(At<void>(target)) || !from->card->IsDeviceMemory(At<void>(source)))
    return CUDA_ERROR_INVALID_VALUE;
  return ToResult(CardOf(current).CopyBetween(At<void>(target), CardOf(to), At<const void>(source), CardOf(from), bytes,
                                              stream->stream()));
}
CUresult cuMemsetD8Async(CUdeviceptr target, unsigned char value, size_t count, CUstream stream) {
  return Fill(target, value, 1, count, stream);
}
CUresult cuMemsetD16Async(CUdeviceptr target, unsigned short value, size_t count, CUstream stream) {
  return Fill(target, value, 2, count, stream);
}
CUresult cuMemsetD32Async(CUdeviceptr target, unsigned int value, size_t count, CUstream stream) {
  return Fill(target, value, 4, count, stream);
}
CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr word, cuuint64_t value, unsigned int flags) {
  TENON_TRY_DRIVER(Check(stream));
  if (word % 8 != 0 || flags != CU_STREAM_WRITE_VALUE_DEFAULT) return CUDA_ERROR_INVALID_VALUE;
  return ToResult(CardOf(current).WriteWord(At<uint64_t>(word), value, stream->stream()));
}
CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr word, cuuint64_t value, unsigned int flags) {
  TENON_TRY_DRIVER(Check(stream));
  if (word % 8 != 0 || flags != CU_STREAM_WAIT_VALUE_GEQ) return CUDA_ERROR_INVALID_VALUE;
  return ToResult(CardOf(current).WaitForWord(At<uint64_t>(word), value, stream->stream()));
}
CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* argument) {
  TENON_TRY_DRIVER(Check(stream));
  return CallHost(stream, [function, argument] {
    function(argument);
    ++Controls().host_calls;
  });
}

// ---- Code ----

CUresult cuModuleLoadData(CUmodule* out, const void* image) {
  constexpr uint32_t kFatbin = 0xBA55ED50;
  TENON_TRY_DRIVER(CheckThread(true));
  ++Controls().modules;
  std::this_thread::sleep_for(std::chrono::milliseconds(Controls().module_milliseconds));
  const bool is_library = std::memcmp(image, ELFMAG, SELFMAG) == 0;
  if (!is_library && std::memcmp(image, &kFatbin, sizeof kFatbin) != 0) return CUDA_ERROR_INVALID_IMAGE;
  Module module = nullptr;
  const Outcome outcome = CardOf(current).LoadModule(image, is_library ? BytesOf(image) : 0, &module);
  *out = outcome.ok() ? new CUmod_st{current, module, {}, {}} : nullptr;
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
  module->functions.push_back(
      std::make_unique<CUfunc_st>(CUfunc_st{current, module, reinterpret_cast<const EmulatedKernel*>(function)}));
  *out = module->functions.back().get();
  return CUDA_SUCCESS;
}
CUresult cuFuncLoad(CUfunction function) {
  TENON_TRY_DRIVER(Check(function, true));
  return Load(function);
}
CUresult cuLaunchKernel(CUfunction function, unsigned int x, unsigned int y, unsigned int z, unsigned int threads,
                        unsigned int threads_y, unsigned int threads_z, unsigned int shared, CUstream stream,
                        void** params, void** extra) {
  TENON_TRY_DRIVER(Check(function));
  TENON_TRY_DRIVER(Check(stream));
  if (threads_y != 1 || threads_z != 1 || shared != 0 || extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
  TENON_TRY_DRIVER(Load(function));
  const bool applies = std::string_view(function->kernel->name()).starts_with("Apply");
  if (stream->capture == nullptr) ++Controls().launches;
  if (stream->capture == nullptr) Controls().optimizers += applies ? 1 : 0;
  else stream->optimizers += applies ? 1 : 0;
  const auto handle = reinterpret_cast<Function>(const_cast<EmulatedKernel*>(function->kernel));
  return ToResult(CardOf(current).Launch(handle, Grid{{x, y, z}, threads}, params[0], function->kernel->params_bytes(),
                                         stream->stream()));
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
  return ToResult(CardOf(current).Record(event->event, stream->stream()));
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
  return event->on == nullptr ? CUDA_SUCCESS
                              : ToResult(CardOf(current).WaitForStream(event->on->stream(), stream->stream()));
}

// ---- Captured graphs ----

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  TENON_TRY_DRIVER(Check(stream));
  if (mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) return CUDA_ERROR_INVALID_VALUE;
  if (stream->capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  Stream capture = nullptr;
  {
    const std::lock_guard lock(current->mutex);
    if (!current->spare.empty()) {
      capture = current->spare.back();
      current->spare.pop_back();
    }
  }
  if (capture == nullptr) TENON_TRY_DRIVER(ToResult(CardOf(current).CreateStream(0, &capture)));
  TENON_TRY_DRIVER(ToResult(CardOf(current).BeginCapture(capture)));
  stream->capture = capture;
  stream->optimizers = 0;
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
  if (stream->capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  const Outcome outcome = CardOf(current).EndCapture(stream->capture, &graph, &nodes);
  {
    const std::lock_guard lock(current->mutex);
    current->spare.push_back(std::exchange(stream->capture, nullptr));
  }
  if (outcome.ok()) *out = new CUgraph_st{current, graph, nodes, stream->optimizers};
  return ToResult(outcome);
}
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  TENON_TRY_DRIVER(Check(graph));
  *count = graph->nodes;
  return nodes == nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph, unsigned long long) {
  TENON_TRY_DRIVER(Check(graph));
  *out = new CUgraphExec_st{current, std::exchange(graph->graph, nullptr), graph->nodes, graph->optimizers};
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
  ++Controls().graph_launches;
  Controls().graph_nodes += executable->nodes;
  Controls().optimizers += executable->optimizers;
  return ToResult(CardOf(current).LaunchGraph(executable->graph, stream->stream()));
}
CUresult cuGraphExecDestroy(CUgraphExec executable) {
  TENON_TRY_DRIVER(Check(executable));
  CardOf(current).DestroyGraph(executable->graph);
  delete executable;
  return CUDA_SUCCESS;
}

}  // extern "C"
