// SPDX-License-Identifier: Apache-2.0
// System and Device: the GPUs of one load(), and one of them: its memory, its code, its queues and who watches over
// them.
//
// System::mutex guards timelines and what is said of loss; memory has a lock of its own; a queue's lock orders what is
// given to its stream. Order: a queue's, then the system's, then memory's. Callbacks are made without any.
#ifndef TENON_DEVICES_GPU_DEVICE_H_
#define TENON_DEVICES_GPU_DEVICE_H_

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "library.h"
#include "options.h"
#include "pinned.h"
#include "profile.h"
#include "record.h"
#include "runtime.h"
#include "tenon/sdk/device/device.h"
#include "timeline.h"
#include "watcher.h"

namespace tenon::gpu {

inline constexpr uint32_t kDeviceKind = 0, kPinnedKind = 1, kKinds = 2;
inline constexpr uint32_t kDeviceAlignment = 256;  // what memory is aligned to, at least
inline constexpr uint64_t kMostAlignment = UINT64_C(2) << 20;

class Collectives;
class Queue;

class System {
 public:
  explicit System(Options options);
  ~System();
  const Options& options() const { return options_; }
  Runtime& runtime() { return *runtime_; }
  // How many devices are offered; a status says why none is.
  Outcome Count(uint32_t* out_count);
  Collectives& collectives() { return *collectives_; }

  std::mutex mutex;
  Watcher watcher;
  std::vector<std::weak_ptr<Device>> devices;

 private:
  const Options options_;
  const std::unique_ptr<Runtime> runtime_;
  const std::unique_ptr<Collectives> collectives_;
};

// What a kernel may find wrong with its data. {0}, {1} and {2} of the text are position, value and limit.
struct Complaint {
  uint32_t code;
  std::string text;
};

class Device : public sdk::Handled<Device, tenon_device> {
 public:
  static Outcome Open(const std::shared_ptr<System>& system, uint32_t index, std::shared_ptr<Device>* out_device);
  ~Device();
  void Close();

  System& system() const { return *system_; }
  const std::shared_ptr<System>& shared_system() const { return system_; }
  Card& card() const { return *card_; }
  const CardFacts& facts() const { return card_->facts(); }
  const std::string& name() const { return name_; }
  uint32_t index() const { return index_; }

  // ---- Memory ----
  // may_wait: for what was freed, where device memory is short; not of a thread that captures.
  Outcome Allocate(uint32_t kind, uint64_t bytes, uint64_t alignment, Queue* queue, void** out_data,
                   bool may_wait = true);
  void Free(uint32_t kind, void* data, Queue* queue);
  // Whether all bytes lie in one living block; of which kind.
  bool Contains(const void* address, uint64_t bytes, uint32_t* out_kind) const;
  uint64_t memory_in_use() const;

  // ---- Code ----
  // The kernel of that name. NOT_FOUND is a mistake of ours.
  Outcome FindFunction(std::string_view name, Function* out_function);
  // The kernel of that name in what the source compiles to: kept for the device, and in the cache.
  Outcome FindCompiled(const std::string& source, const char* name, Function* out_function);
  // What the vendor's libraries take of it; NULL: nothing, our kernels compute it.
  template <class Problem>
  std::unique_ptr<LibraryWork> FindWork(const Problem& problem) {
    return library_ != nullptr && card_->Activate().ok() ? library_->Take(problem) : nullptr;
  }
  // A place that may report faults: the number for FaultSite.
  uint64_t AddSite(std::string node, std::string_view op, const Complaint& complaint);
  Outcome Describe(const FaultRecord& record) const;

  // ---- Queues and timelines ----
  Outcome MakeQueue(int32_t priority, std::shared_ptr<Queue>* out_queue);
  Outcome MakeTimeline(uint64_t initial, std::shared_ptr<Timeline>* out_timeline);
  // Of captures, which follow each other: every stream that is made takes a hardware channel's place.
  Outcome TakeCaptureStream(Stream* out_stream);
  void ReturnCaptureStream(Stream stream);
  void ReturnRecord(const Record& record);
  // Its word is 0, it says nothing else. May have to allocate pinned memory: not for who holds a lock or is in a turn.
  Outcome NewRecord(Record* out_record);
  PinnedMemory& pinned() const { return *pinned_; }

  // ---- Profile ----
  Outcome Watch(bool on);
  Profile& profile() const { return *profile_; }

  // ---- Loss ----
  bool is_lost() const { return is_lost_.load(std::memory_order_acquire); }
  Outcome lost() const;
  // OK, or why nothing is taken any more.
  Outcome CheckAlive() const;
  // Passes an outcome of the card on; one that says that the GPU is lost is noted.
  Outcome Note(Outcome outcome);
  // Asks the driver. Needs no lock.
  void CheckHealth();
  // The host copies into or out of a step's memory for a stream, between the two; false: not on a lost GPU. Who learns
  // that it is lost may free that memory: no such copy is under way any more.
  bool BeginHostCopy();
  void EndHostCopy() { --host_copies_; }

 private:
  Device(std::shared_ptr<System> system, uint32_t index) : system_(std::move(system)), index_(index) {}

  Outcome AllocateNow(uint64_t bytes, Queue* queue, bool may_wait, void** out_data);
  // Until the queues have done what they were given, or for as long as one may be kept waiting.
  void AwaitFrees();
  bool Charge(uint64_t bytes);
  void Uncharge(uint64_t bytes);

  const std::shared_ptr<System> system_;
  const uint32_t index_;
  std::unique_ptr<Card> card_;
  std::unique_ptr<PinnedMemory> pinned_;
  std::unique_ptr<Library> library_;
  std::unique_ptr<Profile> profile_;
  std::string name_;
  Stream service_stream_ = nullptr;  // for questions after its health
  std::mutex stream_mutex_;
  std::vector<Stream> capture_streams_;  // that no capture has
  // An image of the plugin's kernels, loaded when one of them is first asked for.
  struct Part {
    explicit Part(const Image& image) : image(image) {}
    bool MayHave(const std::string& kernel) const;
    const Image image;
    std::mutex mutex;  // guards the module; what the driver does under it needs no other thread's work of ours
    Module module = nullptr;
  };
  Outcome ModuleOf(Part& part, Module* out_module);
  std::vector<std::unique_ptr<Part>> parts_;
  std::vector<Module> modules_of_chains_;  // guarded by code_mutex_

  struct Block {
    void* base;
    uint64_t bytes;
    uint32_t kind;
  };
  mutable std::mutex memory_mutex_;
  std::map<uintptr_t, Block> blocks_;
  uint64_t in_use_ = 0;
  std::vector<Record> spare_records_;
  std::vector<uint64_t*> waited_words_;  // that lie outside of their records

  std::mutex code_mutex_;
  std::unordered_map<std::string, Function> functions_;
  // What a source compiles to. Its own lock is held while it does: for who wants the same.
  struct Compiled {
    std::mutex mutex;
    Function function = nullptr;  // NULL: not yet
  };
  std::unordered_map<std::string, std::shared_ptr<Compiled>> compiled_;  // by source
  struct Site {
    std::string where;
    Complaint complaint;
  };
  mutable std::mutex site_mutex_;
  std::vector<Site> sites_;
  std::map<std::string, uint64_t, std::less<>> site_numbers_;

  mutable std::mutex loss_mutex_;
  Outcome lost_;
  std::atomic<bool> is_lost_{false}, closed_{false};
  std::atomic<bool> is_being_lost_{false};  // no host copy begins
  std::atomic<int> host_copies_{0};         // under way
  std::vector<std::weak_ptr<Queue>> queues_;  // guarded by System::mutex
  std::atomic<uint64_t> queue_count_{0};      // that were made
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_DEVICE_H_
