// SPDX-License-Identifier: Apache-2.0
// A vendor's runtime in the host's memory: streams are threads that do their work in order, kernels are emulated grids.
//
// It stands in for a GPU where there is none, so that everything above it is tested; what it computes is real, its
// speed means nothing. A GPU that is "lost" (option lose_after) fails every call from then on, as after a sticky error.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "code/choose.h"
#include "emulation/grid.h"
#include "emulation/loaded.h"
#include "emulation/observer.h"
#include "emulation/stream.h"
#include "host_calls.h"
#include "options.h"
#include "runtime.h"
#include "timeline.h"

namespace tenon::gpu {

struct Work {
  enum class Kind {
    kData,    // reads or writes memory: none of a card is under way when the card is lost
    kWord,    // writes a word that others wait for; the same holds for it
    kPause,   // waits, or calls the host
    kAlways,  // on a lost GPU too: memory is given back
  };
  std::function<Outcome()> run;
  Kind kind = Kind::kData;
  EmulatedActivity activity = {};
  uint32_t call = 0;  // that gave it to the stream, for the observer
};

// A stream that is let go (kReleased) does what it was given beside those that it should have waited for, whose results
// are of no account any more. ThreadSanitizer would tell of it, so there a stream leaves that out, until it goes on
// with another timeline.
#if defined(__SANITIZE_THREAD__)
constexpr bool kLeavesOut = true;
#else
constexpr bool kLeavesOut = false;
#endif

struct CapturedGraphTag {
  std::shared_ptr<std::vector<Work>> works = std::make_shared<std::vector<Work>>();  // a launch keeps them
  bool is_told = false;  // of the work of a graph that was made while nobody observed, an observer is told nothing
};
struct EventTag {
  std::atomic<uint64_t> nanoseconds{0};
};

namespace {

uint64_t Now() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}

// Which memory is whose, whatever part of the process asked for it.
class Memory {
 public:
  static Memory& The() {
    static auto* const memory = new Memory;  // NOLINT: as long as the library
    return *memory;
  }
  void Add(void* data, uint64_t bytes, int32_t card) {
    const std::lock_guard lock(mutex_);
    blocks_[data] = {static_cast<char*>(data) + bytes, card};
  }
  // A lost GPU's memory stays where it is, as a driver keeps it: other GPUs may still read it.
  void Free(void* data, bool is_lost) {
    {
      const std::lock_guard lock(mutex_);
      blocks_.erase(data);
      if (is_lost) of_lost_.push_back(data);
    }
    if (!is_lost) std::free(data);
  }
  bool IsOf(int32_t card, const void* address) {
    const std::lock_guard lock(mutex_);
    auto block = blocks_.upper_bound(const_cast<void*>(address));
    if (block == blocks_.begin()) return false;
    --block;
    return address < block->second.first && block->second.second == card;
  }

 private:
  std::mutex mutex_;
  std::map<void*, std::pair<char*, int32_t>> blocks_;  // to their end and card
  std::vector<void*> of_lost_;
};

// Does it, and tells the observer of it.
Outcome Do(const Work& work, uint32_t call) {
  EmulatedObserver* const observer = work.activity.kind == EmulatedActivity::Kind::kUntold ? nullptr : Observer();
  if (observer == nullptr) return work.run();
  const uint64_t begin = observer->Now();
  Outcome outcome = work.run();
  observer->Ran(work.activity, call, begin, observer->Now());
  return outcome;
}

class EmulatedCard;

}  // namespace

struct StreamTag final : EmulatedStream {
  explicit StreamTag(EmulatedCard* card) : card(card), thread([this] { Serve(); }) {}
  ~StreamTag() override {
    {
      const std::lock_guard lock(mutex);
      closing = true;
    }
    changed.notify_all();
    thread.join();
  }
  void Put(Work work) {
    {
      const std::lock_guard lock(mutex);
      works.push_back(std::move(work));
    }
    changed.notify_all();
  }
  void Give(std::function<void()> work) override;
  // Of words: no kernel to a profiler.
  void GiveWords(std::function<void()> work);
  bool GiveCall(std::function<void()> call) override;
  void GiveAlways(std::function<void(bool)> work) override;
  void Finish() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return works.empty() && !busy; });
  }
  bool IsIdle() {
    const std::lock_guard lock(mutex);
    return works.empty() && !busy;
  }
  void Serve();

  EmulatedCard* const card;
  std::unique_ptr<CapturedGraphTag> capture;  // being made
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Work> works;
  bool busy = false, closing = false;
  bool is_let_go = false;  // the thread's; see kLeavesOut
  std::thread thread;
};

namespace {

class EmulatedCard final : public Card {
 public:
  EmulatedCard(int32_t number, int64_t lose_after, int64_t refused) : lose_after_(lose_after), refused_(refused) {
    facts_.name = "Emulated GPU";
    facts_.number = number;
    facts_.dl_device_type = 17;  // one that no other device here has
    facts_.memory_bytes = UINT64_C(4) << 30;
    facts_.processors = 2;
    facts_.architecture = "host";
    facts_.flops = 1e9;
    facts_.bytes_per_second = 1e9;
    facts_.link_bytes_per_second = 1e9;
  }

  Outcome Activate() override { return Alive(); }

  Outcome Allocate(uint64_t bytes, Stream, void** out_data) override {
    if (Outcome room = HasRoom(); !room.ok()) return room;
    if (bytes > facts_.memory_bytes)
      return Fault(TENON_RESOURCE_EXHAUSTED, "the emulated GPU has ", facts_.memory_bytes, " bytes");
    if (posix_memalign(out_data, 256, std::max<uint64_t>(bytes, 1)) != 0)
      return Fault(TENON_RESOURCE_EXHAUSTED, "the host has no ", bytes, " bytes");
    Memory::The().Add(*out_data, bytes, facts_.number);
    return {};
  }
  void Free(void* data, Stream stream) override {
    const auto free = [this, data]() -> Outcome {
      Memory::The().Free(data, !Alive().ok());
      return {};
    };
    stream == nullptr ? (void)free() : stream->Put({.run = free, .kind = Work::Kind::kAlways});
  }
  bool IsDeviceMemory(const void* address) override { return Memory::The().IsOf(facts_.number, address); }
  Outcome AllocatePinned(uint64_t bytes, void** out_data) override {
    if (Outcome room = HasRoom(); !room.ok()) return room;
    return posix_memalign(out_data, 256, std::max<uint64_t>(bytes, 1)) == 0
               ? Outcome()
               : Fault(TENON_RESOURCE_EXHAUSTED, "the host has no ", bytes, " bytes");
  }
  void FreePinned(void* data) override { std::free(data); }
  Outcome MemoryInUse(uint64_t* out_free, uint64_t* out_total) override {
    *out_free = *out_total = facts_.memory_bytes;
    return {};
  }
  Outcome EnablePeer(Card&) override { return {}; }

  Outcome CreateStream(int32_t, Stream* out_stream) override {
    if (Outcome room = HasRoom(); !room.ok()) return room;
    *out_stream = new StreamTag(this);
    return {};
  }
  void DestroyStream(Stream stream) override { delete stream; }
  Outcome Synchronize(Stream stream) override {
    stream->Finish();
    return Alive();
  }
  Outcome Health(Stream stream, bool* out_idle) override {
    if (out_idle != nullptr) *out_idle = stream->IsIdle();
    return Alive();
  }

  Outcome Copy(void* target, const void* source, uint64_t bytes, Stream stream) override {
    return PutCopy(target, source, bytes, stream,
                   {.kind = EmulatedActivity::Kind::kCopy, .bytes = bytes, .device = facts_.number});
  }
  Outcome CopyBetween(void* target, Card&, const void* source, Card&, uint64_t bytes, Stream stream) override {
    return PutCopy(target, source, bytes, stream,
                   {.kind = EmulatedActivity::Kind::kPeerCopy, .bytes = bytes, .device = facts_.number});
  }
  Outcome Fill(void* target, uint32_t value, uint32_t unit, uint64_t count, Stream stream) override {
    return Put(
        stream,
        [=]() -> Outcome {
          for (uint64_t i = 0; i < count; ++i) std::memcpy(static_cast<char*>(target) + i * unit, &value, unit);
          return {};
        },
        {.kind = EmulatedActivity::Kind::kFill, .bytes = count * unit, .device = facts_.number});
  }
  Outcome WriteWord(uint64_t* word, uint64_t value, Stream stream) override {
    return Put(stream, [=]() -> Outcome {
      __atomic_store_n(word, value, __ATOMIC_RELEASE);
      if (value == 0) stream->is_let_go = false;  // FaultControl::claimed: another timeline
      return {};
    }, {}, Work::Kind::kWord);
  }
  Outcome WaitForWord(uint64_t* word, uint64_t at_least, Stream stream) override {
    return Put(stream, [=, this]() -> Outcome {
      for (int turn = 0; static_cast<int64_t>(__atomic_load_n(word, __ATOMIC_ACQUIRE) - at_least) < 0; ++turn) {
        if (Outcome alive = Alive(); !alive.ok()) return alive;
        turn < 100 ? std::this_thread::yield() : std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
      if (kLeavesOut && __atomic_load_n(word, __ATOMIC_ACQUIRE) == kReleased) stream->is_let_go = true;
      return {};
    }, {}, Work::Kind::kPause);
  }
  Outcome WaitForStream(Stream other, Stream stream) override {
    if (other == nullptr) return Alive();  // the default stream, which has no work here
    auto there = std::make_shared<std::atomic<bool>>(false);
    other->GiveWords([there] { there->store(true, std::memory_order_release); });
    return Put(stream, [=, this]() -> Outcome {
      for (int turn = 0; !there->load(std::memory_order_acquire); ++turn) {
        if (Outcome alive = Alive(); !alive.ok()) return alive;
        turn < 100 ? std::this_thread::yield() : std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
      return {};
    }, {}, Work::Kind::kPause);
  }
  Outcome CallHost(uint64_t call, Stream stream) override {
    return Put(stream, [=]() -> Outcome {
      HostCalls::Run(call);
      return {};
    }, {}, Work::Kind::kPause);
  }

  // No image: this library itself; else a library that Compile() made.
  Outcome LoadModule(const void* image, uint64_t bytes, Module* out_module) override {
    *out_module = reinterpret_cast<Module>(this);
    if (bytes == 0) return {};
    // A name of its own: a library of a name that was opened before would be that one.
    char path[] = "/tmp/tenon_gpu_XXXXXX";
    const int file = mkstemp(path);
    const bool written = file >= 0 && write(file, image, bytes) == static_cast<ssize_t>(bytes);
    void* const library = written ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
    const char* const why = library == nullptr ? dlerror() : nullptr;
    if (file >= 0) {
      close(file);
      unlink(path);
    }
    *out_module = static_cast<Module>(library);
    return library != nullptr
               ? Outcome()
               : Fault(TENON_INTERNAL, "what was compiled cannot be opened: ", why == nullptr ? "no file for it" : why);
  }
  void UnloadModule(Module module) override {
    if (module != reinterpret_cast<Module>(this)) dlclose(module);
  }
  Outcome FindFunction(Module module, const char* name, Function* out_function) override {
    if (module != reinterpret_cast<Module>(this)) return FindLoaded(module, name, out_function);
    const EmulatedKernel* kernel = EmulatedKernel::Find(name);
    *out_function = reinterpret_cast<Function>(const_cast<EmulatedKernel*>(kernel));
    return kernel == nullptr ? Fault(TENON_NOT_FOUND, "no kernel ", name) : Outcome();
  }
  std::string CompilerName() override { return sdk::Concat(TENON_GPU_EMULATED_COMPILER, " ", __VERSION__); }
  Outcome Compile(const std::string& source, std::vector<char>* out_image) override {
    char folder[] = "/tmp/tenon_gpu_XXXXXX";
    if (mkdtemp(folder) == nullptr) return Fault(TENON_INTERNAL, "no folder for a source");
    const std::string path(folder);
    std::ofstream(path + "/chain.cc") << source;
    const std::string command =
        sdk::Concat(TENON_GPU_EMULATED_COMPILER " " TENON_GPU_EMULATED_FLAGS " -shared -include emulation/chain.h ",
                    path, "/chain.cc -o ", path, "/chain.so >", path, "/log 2>&1");
    const auto read = [&](const char* name) {
      std::ifstream file(path + name, std::ios::binary);
      return std::vector<char>((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    };
    const bool compiled = std::system(command.c_str()) == 0;
    *out_image = read(compiled ? "/chain.so" : "/log");
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
    return compiled ? Outcome()
                    : Fault(TENON_INTERNAL,
                            "a chain does not compile: ", std::string_view(out_image->data(), out_image->size()));
  }
  Outcome Launch(Function function, const Grid& grid, const void* params, uint64_t params_bytes,
                 Stream stream) override {
    const auto* kernel = reinterpret_cast<const EmulatedKernel*>(function);
    if (params_bytes != kernel->params_bytes()) {
      return Fault(TENON_INTERNAL, kernel->name(), " takes ", kernel->params_bytes(), " bytes of parameters, not ",
                   params_bytes);
    }
    // What a real driver refuses; kernels are compiled for blocks of so many threads (code/grid.h), one for more.
    const uint32_t most = std::string_view(kernel->name()) == "ScanTiles" ? kScanThreads : 256;
    for (uint32_t blocks : grid.blocks) {
      if (blocks == 0 || grid.threads == 0 || grid.threads > most)
        return Fault(TENON_INVALID_ARGUMENT, "an empty or too large grid for ", kernel->name());
    }
    if (grid.blocks[1] > 65535 || grid.blocks[2] > 65535)
      return Fault(TENON_INVALID_ARGUMENT, "a grid of too many blocks for ", kernel->name());
    std::vector<char> copy(static_cast<const char*>(params), static_cast<const char*>(params) + params_bytes);
    const auto run = [this, kernel, grid, copy = std::move(copy)]() -> Outcome {
      // The copy's memory is aligned for any type, as vectors of chars are.
      const std::string text = kernel->Run(grid.blocks, grid.threads, copy.data());
      if (!text.empty()) return Lose(text);
      return {};
    };
    return Put(stream, run,
               {.kind = EmulatedActivity::Kind::kKernel,
                .name = kernel->name(),
                .blocks = {grid.blocks[0], grid.blocks[1], grid.blocks[2]},
                .threads = grid.threads,
                .device = facts_.number});
  }

  Outcome CreateEvent(Event* out_event) override {
    *out_event = new EventTag;
    return {};
  }
  void DestroyEvent(Event event) override { delete event; }
  Outcome Record(Event event, Stream stream) override {
    event->nanoseconds = 0;
    return Put(stream, [event]() -> Outcome {
      event->nanoseconds = Now();
      return {};
    });
  }
  bool HasCome(Event event) override { return event->nanoseconds != 0; }
  Outcome Elapsed(Event begin, Event end, double* out_nanoseconds) override {
    *out_nanoseconds = static_cast<double>(end->nanoseconds) - static_cast<double>(begin->nanoseconds);
    return {};
  }

  Outcome BeginCapture(Stream stream) override {
    if (stream->capture != nullptr) return Fault(TENON_FAILED_PRECONDITION, "the stream is being captured");
    stream->capture = std::make_unique<CapturedGraphTag>();
    return {};
  }
  Outcome EndCapture(Stream stream, CapturedGraph* out_graph, uint64_t* out_nodes) override {
    if (stream->capture == nullptr) return Fault(TENON_FAILED_PRECONDITION, "the stream is not being captured");
    *out_nodes = stream->capture->works->size();
    stream->capture->is_told = Observer() != nullptr;
    *out_graph = stream->capture.release();
    return {};
  }
  Outcome LaunchGraph(CapturedGraph graph, Stream stream) override {
    EmulatedObserver* const observer = Observer();
    const uint32_t call = observer == nullptr ? 0 : observer->Call();
    return Put(stream, [works = graph->works, is_told = graph->is_told, call]() -> Outcome {
      for (const Work& work : *works) {
        if (Outcome outcome = is_told ? Do(work, call) : work.run(); !outcome.ok()) return outcome;
      }
      return {};
    });
  }
  void DestroyGraph(CapturedGraph graph) override { delete graph; }

  // Puts work on the stream, or into the graph that is being captured there.
  Outcome Put(Stream stream, std::function<Outcome()> run, const EmulatedActivity& activity = {},
              Work::Kind kind = Work::Kind::kData) {
    if (Outcome alive = Alive(); !alive.ok()) return alive;
    if (lose_after_ >= 0 && works_++ >= lose_after_)
      return Lose(sdk::Concat("it is lost (option lose_after=", lose_after_, ")"));
    EmulatedObserver* const observer = Observer();
    Work work = {
        .run = std::move(run), .kind = kind, .activity = activity, .call = observer == nullptr ? 0 : observer->Call()};
    if (stream->capture != nullptr) {
      work.activity.from_graph = true;
      stream->capture->works->push_back(std::move(work));
    } else {
      stream->Put(std::move(work));
    }
    return {};
  }
  Outcome PutCopy(void* target, const void* source, uint64_t bytes, Stream stream, const EmulatedActivity& activity) {
    return Put(
        stream,
        [=]() -> Outcome {
          std::memmove(target, source, bytes);
          return {};
        },
        activity);
  }
  // What a stream does next.
  Outcome Serve(const Work& work, bool is_let_go) {
    std::shared_lock running(running_, std::defer_lock);
    if (work.kind == Work::Kind::kData || work.kind == Work::Kind::kWord) running.lock();
    if (work.kind == Work::Kind::kData && is_let_go) return {};
    return work.kind == Work::Kind::kAlways || Alive().ok() ? Do(work, work.call) : Outcome();
  }
  Outcome Alive() {
    if (!lost_.load(std::memory_order_acquire)) return {};
    return Fault(TENON_UNAVAILABLE, why_);
  }
  // Needs no work of the caller's to be under way.
  Outcome Lose(std::string why) {
    const std::lock_guard lock(mutex_);
    const std::lock_guard nothing_runs(running_);
    if (!lost_) why_ = std::move(why);
    lost_ = true;
    return Fault(TENON_UNAVAILABLE, why_);
  }

 private:
  Outcome HasRoom() {
    if (Outcome alive = Alive(); !alive.ok()) return alive;
    return refused_ < 0 || allocations_++ != refused_
               ? Outcome()
               : Fault(TENON_RESOURCE_EXHAUSTED, "no memory (option refuse_allocation=", refused_, ")");
  }
  Outcome FindLoaded(Module module, const char* name, Function* out_function) {
    const auto body = reinterpret_cast<EmulatedKernel::Body>(dlsym(module, name));
    const auto* bytes = static_cast<const uint64_t*>(dlsym(module, sdk::Concat(name, "_params_bytes").c_str()));
    const auto* meets = static_cast<const bool*>(dlsym(module, sdk::Concat(name, "_meets").c_str()));
    auto* const meeting = static_cast<EmulatedMeeting*>(dlsym(module, "tenon_gpu_emulated_meeting"));
    if (body == nullptr || bytes == nullptr || meets == nullptr || meeting == nullptr)
      return Fault(TENON_NOT_FOUND, "no kernel ", name);
    *meeting = {NewSharedPlace, SharedMemory, Barrier, ShuffleBytes};
    const std::lock_guard lock(mutex_);
    loaded_.push_back(std::make_unique<EmulatedKernel>("fused", *meets, *bytes, body));
    *out_function = reinterpret_cast<Function>(loaded_.back().get());
    return {};
  }

  const int64_t lose_after_, refused_;
  std::atomic<int64_t> allocations_{0};
  std::vector<std::unique_ptr<EmulatedKernel>> loaded_;
  std::atomic<int64_t> works_{0};
  std::atomic<bool> lost_{false};
  std::mutex mutex_;
  std::shared_mutex running_;  // shared by data work that is under way
  std::string why_;
};

class EmulatedRuntime final : public Runtime {
 public:
  explicit EmulatedRuntime(const Options& options) : devices_(options.devices) {
    const auto read = [&](const char* name, int64_t* out) {
      const auto found = options.more.find(name);
      if (found != options.more.end()) (void)ParseInteger(found->first, found->second, -1, INT64_MAX, out);
    };
    read("lose_after", &lose_after_);
    read("refuse_allocation", &refused_);
  }
  Outcome Count(uint32_t* out_count) override {
    *out_count = static_cast<uint32_t>(std::max<int64_t>(devices_, 0));
    return *out_count > 0 ? Outcome() : Fault(TENON_NOT_FOUND, "no emulated GPU was asked for: set the option devices");
  }
  Outcome Open(uint32_t index, std::unique_ptr<Card>* out_card) override {
    *out_card = std::make_unique<EmulatedCard>(static_cast<int32_t>(index), index == 0 ? lose_after_ : -1,
                                               index == 0 ? refused_ : -1);
    return {};
  }
  // Kernels are found in the library itself.
  std::vector<Image> Images() override { return {{nullptr, 0}}; }

 private:
  const int64_t devices_;
  int64_t lose_after_ = -1, refused_ = -1;
};

}  // namespace

void StreamTag::Give(std::function<void()> work) {
  const auto run = [work = std::move(work)]() -> Outcome {
    work();
    return {};
  };
  (void)card->Put(
      this, run,
      {.kind = EmulatedActivity::Kind::kKernel, .name = "_ZN6vendor6kernelIfEEvPKT_", .device = card->facts().number});
}
bool StreamTag::GiveCall(std::function<void()> call) {
  return card->Put(this, [call = std::move(call)]() -> Outcome {
    call();
    return {};
  }, {}, Work::Kind::kPause).ok();
}
void StreamTag::GiveWords(std::function<void()> work) {
  (void)card->Put(this, [work = std::move(work)]() -> Outcome {
    work();
    return {};
  }, {}, Work::Kind::kWord);
}

void StreamTag::Serve() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return closing || !works.empty(); });
    if (works.empty()) return;
    Work work = std::move(works.front());
    works.pop_front();
    busy = true;
    lock.unlock();
    if (const Outcome outcome = card->Serve(work, is_let_go); !outcome.ok()) (void)card->Lose(outcome.message);
    work.run = nullptr;
    lock.lock();
    busy = false;
    changed.notify_all();
  }
}

void StreamTag::GiveAlways(std::function<void(bool)> work) {
  Put({.run = [this, work = std::move(work)]() -> Outcome {
         work(!card->Alive().ok());
         return {};
       },
       .kind = Work::Kind::kAlways});
}

const Vendor kVendor = {"tenon.gpu_emulated", "emulated GPU", [](const Options& options) -> std::unique_ptr<Runtime> {
                          return std::make_unique<EmulatedRuntime>(options);
                        }};

}  // namespace tenon::gpu
