// SPDX-License-Identifier: Apache-2.0
#include "device.h"

#include <algorithm>
#include <string_view>
#include <thread>

#include "collective/collectives.h"
#include "fuse/cache.h"
#include "images.h"
#include "queue.h"

namespace tenon::gpu {
namespace {

constexpr uint64_t kRecordsOfSlab = 256;
constexpr std::chrono::milliseconds kPatienceWithFrees(2000), kPatienceWithCode(5000);

// The text with numbers where it has {0}, {1} and {2}.
std::string WithNumbers(std::string_view text, const int64_t (&numbers)[3]) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '{' && i + 2 < text.size() && text[i + 1] >= '0' && text[i + 1] <= '2' && text[i + 2] == '}') {
      out += std::to_string(numbers[text[i + 1] - '0']);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace

System::System(Options options)
    : watcher(&mutex),
      options_(std::move(options)),
      runtime_(kVendor.make(options_)),
      collectives_(std::make_unique<Collectives>(options_.collectives)) {}
System::~System() = default;

Outcome System::Count(uint32_t* out_count) {
  *out_count = 0;
  if (options_.devices == 0) return Fault(TENON_NOT_FOUND, "the option ", kVendor.plugin, ".devices is 0");
  Outcome outcome = runtime_->Count(out_count);
  if (options_.devices > 0) *out_count = std::min(*out_count, static_cast<uint32_t>(options_.devices));
  return outcome;
}

Outcome Device::Open(const std::shared_ptr<System>& system, uint32_t index, std::shared_ptr<Device>* out_device) {
  std::shared_ptr<Device> device(new Device(system, index));
  device->name_ = sdk::Concat("GPU:", index);
  Outcome outcome = system->runtime().Open(index, &device->card_);
  if (!outcome.ok()) return outcome;
  outcome = device->card_->Activate();
  if (outcome.ok()) outcome = device->card_->CreateStream(0, &device->service_stream_);
  if (!outcome.ok()) return outcome;
  device->pinned_ = std::make_unique<PinnedMemory>(*device->card_);
  for (const Image& image : system->runtime().Images()) device->parts_.push_back(std::make_unique<Part>(image));
  device->profile_ = std::make_unique<Profile>(*device->card_, MakeTracer(system->options()));
  device->library_ = MakeLibrary(system->options());
  const std::lock_guard lock(system->mutex);
  std::erase_if(system->devices, [](const auto& each) { return each.expired(); });
  for (const auto& weak : system->devices) {
    if (const auto other = weak.lock()) {
      (void)other->card_->EnablePeer(*device->card_);
      (void)device->card_->EnablePeer(*other->card_);
    }
  }
  system->devices.push_back(device);
  *out_device = std::move(device);
  return {};
}

void Device::Close() {
  std::vector<std::shared_ptr<Queue>> queues;
  {
    const std::lock_guard lock(system_->mutex);
    closed_ = true;
    for (const auto& weak : queues_) {
      if (auto queue = weak.lock()) queues.push_back(std::move(queue));
    }
  }
  for (const auto& queue : queues) queue->Close();
  queues.clear();
  system_->collectives().Forget(*this);
}

Device::~Device() {
  if (card_ == nullptr) return;
  (void)card_->Activate();  // a lost GPU frees nothing, but what lies in the host's memory is given back
  library_.reset();
  profile_.reset();
  if (service_stream_ != nullptr) card_->DestroyStream(service_stream_);
  for (Stream stream : capture_streams_) card_->DestroyStream(stream);
  for (const auto& [address, block] : blocks_) {
    if (block.kind == kDeviceKind) card_->Free(block.base, nullptr);
  }
  for (uint64_t* word : waited_words_) card_->FreeWaited(word);
  pinned_.reset();
  for (const auto& part : parts_) {
    if (part->module != nullptr) card_->UnloadModule(part->module);
  }
  for (Module module : modules_of_chains_) card_->UnloadModule(module);
}

// ---- Memory ----

Outcome Device::Allocate(uint32_t kind, uint64_t bytes, uint64_t alignment, Queue* queue, void** out_data,
                         bool may_wait) {
  *out_data = nullptr;
  if (Outcome alive = CheckAlive(); !alive.ok()) return alive;
  const uint64_t limit = static_cast<uint64_t>(system_->options().memory_limit), most = facts().memory_bytes;
  const uint64_t slack = alignment > kDeviceAlignment ? alignment : 0;
  const auto refuse = [&](const Outcome* why) {
    return Fault(TENON_RESOURCE_EXHAUSTED, name_, " has no ", bytes,
                 kind == kDeviceKind ? " bytes of device memory: " : " bytes of pinned memory: ", memory_in_use(),
                 " of ", most, " are in use", limit != 0 ? sdk::Concat(", the option memory_limit is ", limit) : "",
                 why == nullptr ? "" : sdk::Concat(" (", why->message, ")"));
  };
  if (kind == kDeviceKind && !Charge(bytes)) return refuse(nullptr);
  void* base = nullptr;
  Outcome outcome = card_->Activate();
  if (outcome.ok()) {
    outcome = kind == kDeviceKind ? AllocateNow(bytes + slack, queue, may_wait, &base)
                                  : pinned_->Allocate(bytes + slack, &base);
  }
  if (!outcome.ok()) {
    if (kind == kDeviceKind) Uncharge(bytes);
    outcome = Note(std::move(outcome));
    return outcome.code == TENON_RESOURCE_EXHAUSTED ? refuse(&outcome) : outcome;
  }
  const uintptr_t at = slack == 0 ? reinterpret_cast<uintptr_t>(base)
                                  : (reinterpret_cast<uintptr_t>(base) + alignment - 1) & ~(alignment - 1);
  const std::lock_guard lock(memory_mutex_);
  blocks_[at] = {base, bytes, kind};
  *out_data = reinterpret_cast<void*>(at);
  return {};
}

// Where the driver has no memory: what was freed may not be free yet, or be kept in pieces that are too small.
Outcome Device::AllocateNow(uint64_t bytes, Queue* queue, bool may_wait, void** out_data) {
  const Stream stream = queue == nullptr ? nullptr : queue->stream();
  Outcome outcome = card_->Allocate(bytes, stream, out_data);
  if (outcome.code != TENON_RESOURCE_EXHAUSTED || !may_wait) return outcome;
  AwaitFrees();
  card_->Trim();
  return card_->Allocate(bytes, stream, out_data);
}

void Device::AwaitFrees() {
  std::vector<std::shared_ptr<Queue>> queues;
  {
    const std::lock_guard lock(system_->mutex);
    for (const auto& weak : queues_) {
      if (auto queue = weak.lock()) queues.push_back(std::move(queue));
    }
  }
  // One may wait for what this thread does next: not longer than that.
  const auto until = std::chrono::steady_clock::now() + kPatienceWithFrees;
  for (const auto& queue : queues) {
    bool is_idle = false;
    while (card_->Health(queue->stream(), &is_idle).ok() && !is_idle && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
}

// Counts the bytes in, if the device and the option memory_limit have them.
bool Device::Charge(uint64_t bytes) {
  const auto limit = static_cast<uint64_t>(system_->options().memory_limit);
  const std::lock_guard lock(memory_mutex_);
  if (bytes > facts().memory_bytes || (limit != 0 && (bytes > limit || in_use_ > limit - bytes))) return false;
  in_use_ += bytes;
  return true;
}
void Device::Uncharge(uint64_t bytes) {
  const std::lock_guard lock(memory_mutex_);
  in_use_ -= bytes;
}

void Device::Free(uint32_t kind, void* data, Queue* queue) {
  Block block = {};
  {
    const std::lock_guard lock(memory_mutex_);
    const auto found = blocks_.find(reinterpret_cast<uintptr_t>(data));
    if (found == blocks_.end() || found->second.kind != kind) {
      const std::string text = sdk::Concat(name_, ": free of an address that is no block of memory kind ", kind);
      tenon_plugin_host->log(TENON_LOG_ERROR, sdk::ToSpan(text));
      return;
    }
    block = found->second;
    blocks_.erase(found);
    if (kind == kDeviceKind) in_use_ -= block.bytes;
  }
  if (kind == kDeviceKind) {
    (void)card_->Activate();
    return card_->Free(block.base, queue == nullptr ? nullptr : queue->stream());
  }
  if (queue == nullptr) return pinned_->Free(block.base);
  queue->FreeLater([self = shared_from_this(), base = block.base] { self->pinned_->Free(base); });
}

bool Device::Contains(const void* address, uint64_t bytes, uint32_t* out_kind) const {
  const auto at = reinterpret_cast<uintptr_t>(address);
  const std::lock_guard lock(memory_mutex_);
  auto block = blocks_.upper_bound(at);
  if (block == blocks_.begin()) return false;
  --block;
  const uint64_t offset = at - block->first;
  *out_kind = block->second.kind;
  return offset < block->second.bytes && bytes <= block->second.bytes - offset;
}

uint64_t Device::memory_in_use() const {
  const std::lock_guard lock(memory_mutex_);
  return in_use_;
}

Outcome Device::NewRecord(Record* out_record) {
  std::unique_lock lock(memory_mutex_);
  while (spare_records_.empty()) {
    lock.unlock();
    void* slab = nullptr;
    if (Outcome outcome = card_->Activate(); !outcome.ok()) return outcome;
    if (Outcome outcome = pinned_->Allocate(kRecordsOfSlab * sizeof(FaultRecord), &slab); !outcome.ok()) return outcome;
    lock.lock();
    for (uint64_t i = 0; i < kRecordsOfSlab; ++i)
      spare_records_.push_back({static_cast<FaultRecord*>(slab) + i, nullptr});
  }
  Record record = spare_records_.back();
  spare_records_.pop_back();
  lock.unlock();
  if (record.waited == nullptr) {
    Outcome outcome = card_->Activate();
    if (outcome.ok()) outcome = card_->AllocateWaited(&record.waited);
    if (!outcome.ok()) ReturnRecord(record);
    if (!outcome.ok()) return outcome;
    lock.lock();
    if (record.waited != nullptr) waited_words_.push_back(record.waited);
    else record.waited = &record.fault->word;
    lock.unlock();
  }
  record.Reset(0);
  *out_record = record;
  return {};
}
void Device::ReturnRecord(const Record& record) {
  const std::lock_guard lock(memory_mutex_);
  spare_records_.push_back(record);
}

// ---- Code ----

bool Device::Part::MayHave(const std::string& kernel) const {
  const std::string_view names = image.names;
  return names.size() <= 1 || names.find(sdk::Concat("\n", kernel, "\n")) != std::string_view::npos;
}

Outcome Device::ModuleOf(Part& part, Module* out_module) {
  const std::lock_guard lock(part.mutex);
  Outcome outcome =
      part.module != nullptr ? Outcome() : card_->LoadModule(part.image.data, part.image.bytes, &part.module);
  *out_module = part.module;
  return outcome;
}

// Loading may compile, and wait for the GPU: the lock is not held meanwhile, as others find what they launch.
Outcome Device::FindFunction(std::string_view name, Function* out_function) {
  std::string key(name);
  {
    const std::lock_guard lock(code_mutex_);
    if (const auto found = functions_.find(key); found != functions_.end()) {
      *out_function = found->second;
      return {};
    }
  }
  if (Outcome outcome = card_->Activate(); !outcome.ok()) return Note(std::move(outcome));
  Outcome outcome = Fault(TENON_NOT_FOUND, "no kernel ", key);
  for (const auto& part : parts_) {
    if (outcome.code != TENON_NOT_FOUND) break;
    if (!part->MayHave(key)) continue;
    Module module = nullptr;
    outcome = ModuleOf(*part, &module);
    if (outcome.ok()) outcome = card_->FindFunction(module, key.c_str(), out_function);
  }
  if (!outcome.ok()) return Note(std::move(outcome));
  const std::lock_guard lock(code_mutex_);
  *out_function = functions_.emplace(std::move(key), *out_function).first->second;
  return {};
}

Outcome Device::FindCompiled(const std::string& source, const char* name, Function* out_function) {
  std::shared_ptr<Compiled> compiled;
  {
    const std::lock_guard lock(code_mutex_);
    std::shared_ptr<Compiled>& place = compiled_[source];
    if (place == nullptr) place = std::make_shared<Compiled>();
    compiled = place;
  }
  const std::lock_guard lock(compiled->mutex);
  if (compiled->function != nullptr) {
    *out_function = compiled->function;
    return {};
  }
  const CodeCache cache(CodeCache::FolderOf(system_->options().cache));
  // The same source is other code with other headers, or for another GPU.
  std::string text = sdk::Concat(card_->CompilerName(), "\n");
  for (uint64_t i = 0; i < tenon_gpu_header_count; ++i) text += tenon_gpu_headers[i].text;
  text += source;
  std::vector<char> image;
  const std::optional<std::vector<char>> kept = cache.Find(text);
  if (kept.has_value()) {
    image = *kept;
  } else {
    if (Outcome outcome = card_->Compile(source, &image); !outcome.ok()) return Note(std::move(outcome));
    cache.Keep(text, image);
  }
  Module module = nullptr;
  Outcome outcome = card_->Activate();
  if (outcome.ok()) outcome = card_->LoadModule(image.data(), image.size(), &module);
  if (!outcome.ok()) return Note(std::move(outcome));
  {
    const std::lock_guard code_lock(code_mutex_);
    modules_of_chains_.push_back(module);
  }
  outcome = card_->FindFunction(module, name, out_function);
  if (outcome.ok()) compiled->function = *out_function;
  return Note(std::move(outcome));
}

uint64_t Device::AddSite(std::string node, std::string_view op, const Complaint& complaint) {
  const std::lock_guard lock(site_mutex_);
  std::string where = sdk::Concat("node '", node, "' (", op, ")");
  const std::string key = sdk::Concat(where, complaint.code, complaint.text);
  const auto [found, is_new] = site_numbers_.emplace(key, sites_.size());
  if (is_new) sites_.push_back({std::move(where), complaint});
  return found->second;
}
Outcome Device::Describe(const FaultRecord& record) const {
  const std::lock_guard lock(site_mutex_);
  if (record.site >= sites_.size())
    return Fault(TENON_INTERNAL, name_, ": a kernel reported bad data for a place that is not known");
  const Site& site = sites_[record.site];
  return Fault(site.complaint.code, site.where, " on ", name_, ": ",
               WithNumbers(site.complaint.text, {record.position, record.value, record.limit}));
}

// ---- Queues and timelines ----

Outcome Device::MakeQueue(int32_t priority, std::shared_ptr<Queue>* out_queue) {
  if (Outcome alive = CheckAlive(); !alive.ok()) return alive;
  const uint64_t number = queue_count_++;
  // Loading may wait until the GPU is idle. Now it is: all that there is machine code for is loaded, which takes some
  // milliseconds. Where the driver compiles, that would be minutes: the rest is loaded when it is asked for.
  if (number == 0 && card_->Activate().ok()) {
    const auto until = std::chrono::steady_clock::now() + kPatienceWithCode;
    for (const auto& part : parts_) {
      Module module = nullptr;
      if (std::chrono::steady_clock::now() >= until || !ModuleOf(*part, &module).ok()) break;
      const std::string_view names = part->image.names;
      for (size_t begin = 1, end = 0;
           (end = names.find('\n', begin)) != std::string_view::npos && std::chrono::steady_clock::now() < until;
           begin = end + 1) {
        std::string name(names.substr(begin, end - begin));
        Function function = nullptr;
        if (!card_->FindFunction(module, name.c_str(), &function).ok()) continue;  // whoever asks for it is told
        const std::lock_guard code_lock(code_mutex_);
        functions_.emplace(std::move(name), function);
      }
    }
  }
  auto queue = std::make_shared<Queue>(shared_from_this(), priority, number);
  if (Outcome outcome = Note(queue->Open()); !outcome.ok()) return outcome;
  const std::lock_guard lock(system_->mutex);
  std::erase_if(queues_, [](const auto& each) { return each.expired(); });
  queues_.push_back(queue);
  *out_queue = std::move(queue);
  return {};
}

Outcome Device::TakeCaptureStream(Stream* out_stream) {
  {
    const std::lock_guard lock(stream_mutex_);
    if (!capture_streams_.empty()) {
      *out_stream = capture_streams_.back();
      capture_streams_.pop_back();
      return {};
    }
  }
  return card_->CreateStream(0, out_stream);
}
void Device::ReturnCaptureStream(Stream stream) {
  const std::lock_guard lock(stream_mutex_);
  capture_streams_.push_back(stream);
}

Outcome Device::MakeTimeline(uint64_t initial, std::shared_ptr<Timeline>* out_timeline) {
  if (Outcome alive = CheckAlive(); !alive.ok()) return alive;
  Record record;
  if (Outcome outcome = NewRecord(&record); !outcome.ok()) return Note(std::move(outcome));
  *out_timeline = std::make_shared<Timeline>(shared_from_this(), record, initial);
  return {};
}

// ---- Profile ----

Outcome Device::Watch(bool on) {
  if (Outcome alive = CheckAlive(); on && !alive.ok()) return alive;
  return Note(profile_->Watch(on, service_stream_));
}

// ---- Loss ----

Outcome Device::lost() const {
  const std::lock_guard lock(loss_mutex_);
  return lost_;
}
Outcome Device::CheckAlive() const {
  if (is_lost()) return lost();
  if (closed_) return Fault(TENON_FAILED_PRECONDITION, name_, " is closed");
  return {};
}
Outcome Device::Note(Outcome outcome) {
  if (outcome.code != TENON_UNAVAILABLE) return outcome;
  const std::lock_guard lock(loss_mutex_);
  is_being_lost_ = true;
  while (host_copies_ > 0) std::this_thread::yield();
  if (lost_.ok()) lost_ = Fault(TENON_UNAVAILABLE, name_, " (", facts().name, ") is lost: ", outcome.message);
  is_lost_.store(true, std::memory_order_release);
  return lost_;
}
bool Device::BeginHostCopy() {
  ++host_copies_;
  if (!is_being_lost_) return true;
  --host_copies_;
  return false;
}
void Device::CheckHealth() {
  if (is_lost()) return;
  Outcome outcome = card_->Activate();
  if (outcome.ok()) outcome = card_->Health(service_stream_, nullptr);
  (void)Note(std::move(outcome));
}

}  // namespace tenon::gpu
