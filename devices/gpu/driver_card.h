// SPDX-License-Identifier: Apache-2.0
// DriverCard and DriverRuntime: a vendor's driver, of which CUDA and HIP have the same parts under other names.
//
// Api has them under one name each (devices/cuda/api.h, devices/rocm/api.h): types, functions that give the driver's
// result, and what a result means. The driver's library is open for as long as the process lives.
#ifndef TENON_DEVICES_GPU_DRIVER_CARD_H_
#define TENON_DEVICES_GPU_DRIVER_CARD_H_

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "images.h"
#include "runtime.h"

namespace tenon::gpu {

// A function's result as an outcome. what: the driver's function.
template <class Api>
Outcome ToOutcome(const Api& api, typename Api::Result result, const char* what) {
  if (result == Api::kSuccess) [[likely]] return {};
  const uint32_t code = Api::IsLost(result)          ? TENON_UNAVAILABLE
                        : Api::IsOutOfMemory(result) ? TENON_RESOURCE_EXHAUSTED
                                                     : TENON_INTERNAL;
  return Fault(code, what, ": ", api.ErrorText(result));
}

template <class Api>
class DriverCard final : public Card {
 public:
  explicit DriverCard(const Api& api) : api_(api) {}
  ~DriverCard() override {
    if (context_ == nullptr) return;
    (void)Activate();
    if (allocation_stream_ != nullptr) (void)api_.StreamDestroy(allocation_stream_);
    if (pool_ != nullptr) (void)api_.DestroyPool(pool_);
    api_.ReleaseContext(device_);
  }

  Outcome Open(uint32_t index) {
    Outcome outcome = Check(api_.DeviceGet(&device_, static_cast<int>(index)), "DeviceGet");
    if (outcome.ok()) outcome = api_.Facts(device_, &facts_);
    facts_.number = static_cast<int32_t>(index);
    facts_.dl_device_type = Api::kDlDeviceType;
    if (outcome.ok()) outcome = Check(api_.RetainContext(device_, &context_), "RetainContext");
    if (outcome.ok()) outcome = Activate();
    if (outcome.ok()) outcome = Check(api_.StreamCreate(&allocation_stream_, 0), "StreamCreate");
    // One of its own: others in this process have their own wishes for the default one.
    if (outcome.ok()) outcome = Check(api_.CreatePool(device_, &pool_), "CreatePool");
    // What was freed stays ours: the host's own planner is what keeps it small.
    if (outcome.ok()) outcome = Check(api_.KeepPool(pool_), "KeepPool");
    if constexpr (kHasSignals) {
      if (outcome.ok()) outcome = api_.CheckWaits(allocation_stream_, &waits_for_signals_);
    }
    return outcome;
  }

  Outcome Activate() override { return Check(api_.SetCurrent(context_, device_), "SetCurrent"); }

  Outcome Allocate(uint64_t bytes, Stream stream, void** out_data) override {
    const auto on = stream == nullptr ? allocation_stream_ : Native(stream);
    Outcome outcome = Check(api_.AllocateFromPool(out_data, bytes == 0 ? 1 : bytes, pool_, on), "AllocateFromPool");
    if (!outcome.ok() || stream != nullptr) return outcome;
    outcome = Check(api_.StreamSynchronize(on), "StreamSynchronize");
    if (!outcome.ok()) (void)api_.FreeToPool(std::exchange(*out_data, nullptr), on);
    return outcome;
  }
  void Free(void* data, Stream stream) override {
    (void)api_.FreeToPool(data, stream == nullptr ? allocation_stream_ : Native(stream));
  }
  void Trim() override { (void)api_.TrimPool(pool_); }
  Outcome AllocatePinned(uint64_t bytes, void** out_data) override {
    return Check(api_.HostAllocate(out_data, bytes == 0 ? 1 : bytes), "HostAllocate");
  }
  void FreePinned(void* data) override { (void)api_.HostFree(data); }
  Outcome AllocateWaited(uint64_t** out_word) override {
    *out_word = nullptr;
    if constexpr (kHasSignals) {
      if (waits_for_signals_) return Check(api_.SignalAllocate(out_word), "SignalAllocate");
    }
    return {};
  }
  void FreeWaited(uint64_t* word) override {
    if constexpr (kHasSignals) (void)api_.SignalFree(word);
  }
  bool IsDeviceMemory(const void* address) override { return api_.IsMemoryOf(device_, address); }
  Outcome MemoryInUse(uint64_t* out_free, uint64_t* out_total) override {
    size_t free = 0, total = 0;
    Outcome outcome = Check(api_.MemoryInfo(&free, &total), "MemoryInfo");
    *out_free = free;
    *out_total = total;
    return outcome;
  }
  Outcome EnablePeer(Card& peer) override {
    auto& other = static_cast<DriverCard&>(peer);
    if (!api_.CanAccess(device_, other.device_)) return {};
    if (Outcome outcome = Activate(); !outcome.ok()) return outcome;
    (void)api_.EnablePeer(other.context_, other.device_);  // enabled before is as good
    return Check(api_.ShareDevicePool(other.pool_, device_), "ShareDevicePool");
  }

  Outcome CreateStream(int32_t priority, Stream* out_stream) override {
    typename Api::StreamHandle stream = nullptr;
    Outcome outcome = Check(api_.StreamCreate(&stream, priority), "StreamCreate");
    *out_stream = reinterpret_cast<Stream>(stream);
    return outcome;
  }
  void DestroyStream(Stream stream) override {
    (void)api_.StreamSynchronize(Native(stream));
    (void)api_.StreamDestroy(Native(stream));
  }
  Outcome Synchronize(Stream stream) override {
    return Check(api_.StreamSynchronize(Native(stream)), "StreamSynchronize");
  }
  Outcome Health(Stream stream, bool* out_idle) override {
    const typename Api::Result result = api_.StreamQuery(Native(stream));
    if (out_idle != nullptr) *out_idle = result == Api::kSuccess;
    return result == Api::kNotReady ? Outcome() : Check(result, "StreamQuery");
  }

  Outcome Copy(void* target, const void* source, uint64_t bytes, Stream stream) override {
    return Check(api_.Copy(target, source, bytes, Native(stream)), "Copy");
  }
  Outcome CopyBetween(void* target, Card& to, const void* source, Card& from, uint64_t bytes, Stream stream) override {
    auto &there = static_cast<DriverCard&>(to), &here = static_cast<DriverCard&>(from);
    return Check(api_.CopyPeer(target, there.context_, there.device_, source, here.context_, here.device_, bytes,
                               Native(stream)),
                 "CopyPeer");
  }
  Outcome Fill(void* target, uint32_t value, uint32_t unit, uint64_t count, Stream stream) override {
    return Check(api_.Fill(target, value, unit, count, Native(stream)), "Fill");
  }
  Outcome WriteWord(uint64_t* word, uint64_t value, Stream stream) override {
    return Check(api_.WriteValue(Native(stream), word, value), "WriteValue");
  }
  Outcome WaitForWord(uint64_t* word, uint64_t at_least, Stream stream) override {
    return Check(api_.WaitValue(Native(stream), word, at_least), "WaitValue");
  }
  Outcome WaitForStream(Stream other, Stream stream) override {
    typename Api::EventHandle event = nullptr;
    Outcome outcome = Check(api_.EventCreate(&event), "EventCreate");
    if (outcome.ok()) outcome = Check(api_.EventRecord(event, Native(other)), "EventRecord");
    if (outcome.ok()) outcome = Check(api_.StreamWaitEvent(Native(stream), event), "StreamWaitEvent");
    if (event != nullptr) (void)api_.EventDestroy(event);  // when it has come
    return outcome;
  }
  Outcome CallHost(uint64_t call, Stream stream) override {
    return Check(api_.CallHost(Native(stream), call), "CallHost");
  }

  Outcome LoadModule(const void* image, uint64_t, Module* out_module) override {
    typename Api::ModuleHandle module = nullptr;
    Outcome outcome = Check(api_.ModuleLoad(&module, image), "ModuleLoad");
    *out_module = reinterpret_cast<Module>(module);
    return outcome;
  }
  void UnloadModule(Module module) override {
    (void)api_.ModuleUnload(reinterpret_cast<typename Api::ModuleHandle>(module));
  }
  Outcome FindFunction(Module module, const char* name, Function* out_function) override {
    typename Api::FunctionHandle function = nullptr;
    const typename Api::Result result =
        api_.ModuleFunction(&function, reinterpret_cast<typename Api::ModuleHandle>(module), name);
    *out_function = reinterpret_cast<Function>(function);
    if (result == Api::kNotFound) return Fault(TENON_NOT_FOUND, "no kernel ", name);
    Outcome outcome = Check(result, "ModuleFunction");
    return outcome.ok() ? Check(api_.LoadFunction(function), "LoadFunction") : outcome;
  }
  Outcome Launch(Function function, const Grid& grid, const void* params, uint64_t, Stream stream) override {
    void* list[] = {const_cast<void*>(params)};
    return Check(api_.Launch(reinterpret_cast<typename Api::FunctionHandle>(function), grid.blocks, grid.threads,
                             Native(stream), list),
                 "Launch");
  }

  std::string CompilerName() override { return api_.CompilerName(facts_); }
  Outcome Compile(const std::string& source, std::vector<char>* out_image) override {
    return api_.Compile(facts_, source, out_image);
  }

  Outcome CreateEvent(Event* out_event) override {
    typename Api::EventHandle event = nullptr;
    Outcome outcome = Check(api_.EventCreate(&event), "EventCreate");
    *out_event = reinterpret_cast<Event>(event);
    return outcome;
  }
  void DestroyEvent(Event event) override { (void)api_.EventDestroy(Native(event)); }
  Outcome Record(Event event, Stream stream) override {
    return Check(api_.EventRecord(Native(event), Native(stream)), "EventRecord");
  }
  bool HasCome(Event event) override { return api_.EventQuery(Native(event)) == Api::kSuccess; }
  Outcome Elapsed(Event begin, Event end, double* out_nanoseconds) override {
    float milliseconds = 0;
    Outcome outcome = Check(api_.EventElapsed(&milliseconds, Native(begin), Native(end)), "EventElapsed");
    *out_nanoseconds = static_cast<double>(milliseconds) * 1e6;
    return outcome;
  }

  Outcome BeginCapture(Stream stream) override { return Check(api_.CaptureBegin(Native(stream)), "CaptureBegin"); }
  Outcome EndCapture(Stream stream, CapturedGraph* out_graph, uint64_t* out_nodes) override {
    typename Api::GraphHandle graph = nullptr;
    typename Api::ExecutableHandle executable = nullptr;
    size_t nodes = 0;
    Outcome outcome = Check(api_.CaptureEnd(Native(stream), &graph), "CaptureEnd");
    if (outcome.ok()) outcome = Check(api_.GraphNodes(graph, &nodes), "GraphNodes");
    if (outcome.ok()) outcome = Check(api_.GraphInstantiate(&executable, graph), "GraphInstantiate");
    if (graph != nullptr) (void)api_.GraphDestroy(graph);
    *out_graph = reinterpret_cast<CapturedGraph>(executable);
    *out_nodes = nodes;
    return outcome;
  }
  Outcome LaunchGraph(CapturedGraph graph, Stream stream) override {
    return Check(api_.GraphLaunch(reinterpret_cast<typename Api::ExecutableHandle>(graph), Native(stream)),
                 "GraphLaunch");
  }
  void DestroyGraph(CapturedGraph graph) override {
    (void)api_.ExecutableDestroy(reinterpret_cast<typename Api::ExecutableHandle>(graph));
  }

 private:
  // Whether there are releases whose streams wait for words of memory of a kind of its own.
  static constexpr bool kHasSignals = requires(const Api& api, uint64_t* word) { api.SignalFree(word); };
  static typename Api::StreamHandle Native(Stream stream) {
    return reinterpret_cast<typename Api::StreamHandle>(stream);
  }
  static typename Api::EventHandle Native(Event event) { return reinterpret_cast<typename Api::EventHandle>(event); }
  Outcome Check(typename Api::Result result, const char* what) const { return ToOutcome(api_, result, what); }

  const Api& api_;
  typename Api::DeviceHandle device_ = {};
  typename Api::ContextHandle context_ = nullptr;
  typename Api::PoolHandle pool_ = nullptr;
  typename Api::StreamHandle allocation_stream_ = nullptr;
  bool waits_for_signals_ = false;
};

// The driver as a Runtime: opened when somebody first asks how many GPUs there are.
template <class Api>
class DriverRuntime final : public Runtime {
 public:
  Outcome Count(uint32_t* out_count) override {
    std::call_once(once_, [this] { opened_ = api_.Open(); });
    if (!opened_.ok()) return opened_;
    int count = 0;
    if (Outcome outcome = ToOutcome(api_, api_.DeviceCount(&count), "DeviceCount"); !outcome.ok()) return outcome;
    // Of the library that tests have without the vendor's compiler (tenon_gpu_plugin in images.cmake).
    if (count > 0 && tenon_gpu_image_count == 0) {
      return Fault(TENON_FAILED_PRECONDITION, "this library has no code for ", kVendor.name,
                   " GPUs, of which there are ", count,
                   " here: it was built without the vendor's compiler, for tests; load the one in lib/tenon/plugins of "
                   "`make build GPU=1`");
    }
    *out_count = static_cast<uint32_t>(count);
    return {};
  }
  Outcome Open(uint32_t index, std::unique_ptr<Card>* out_card) override {
    auto card = std::make_unique<DriverCard<Api>>(api_);
    Outcome outcome = card->Open(index);
    if (outcome.ok()) *out_card = std::move(card);
    return outcome;
  }
  std::vector<Image> Images() override { return EmbeddedImages(); }

 private:
  std::once_flag once_;
  Outcome opened_;
  Api api_;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_DRIVER_CARD_H_
