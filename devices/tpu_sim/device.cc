// SPDX-License-Identifier: Apache-2.0
#include "device.h"

#include <algorithm>

namespace tenon::tpu_sim {
namespace {

uint64_t NextRandom(uint64_t* state) {  // splitmix64
  uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  return z ^ (z >> 31);
}

// Makes room in a list of what may be gone.
template <class T>
void DropExpired(std::vector<std::weak_ptr<T>>& list) {
  std::erase_if(list, [](const std::weak_ptr<T>& item) { return item.expired(); });
}

}  // namespace

std::shared_ptr<Device> System::Owner(const void* address) const {
  const std::lock_guard lock(mutex);
  for (const std::weak_ptr<Device>& weak : devices) {
    if (std::shared_ptr<Device> device = weak.lock(); device != nullptr && device->memory().Contains(address))
      return device;
  }
  return nullptr;
}

Device::Device(std::shared_ptr<System> system, int64_t index)
    : system_(std::move(system)),
      index_(index),
      name_(sdk::Concat("TPU:", index)),
      staging_(static_cast<uint64_t>(system_->options().staging_bytes)),
      time_(std::make_shared<DeviceTime>(index, options().cores, options().log_spans)) {}

Outcome Device::Open() {
  Outcome outcome = memory_.Open(static_cast<uint64_t>(options().memory_bytes), options().guard);
  if (!outcome.ok()) return outcome;
  const std::lock_guard lock(system_->mutex);
  DropExpired(system_->devices);
  system_->devices.push_back(weak_from_this());
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
}

// ---- Memory ----

Outcome Device::CheckAlive() const {
  const std::lock_guard lock(system_->mutex);
  if (!lost_.ok()) return lost_;
  if (closed_) return Fault(TENON_FAILED_PRECONDITION, name_, " is closed");
  return {};
}

Outcome Device::Allocate(uint32_t kind, uint64_t bytes, uint64_t alignment, Queue* queue, void** out_data) {
  *out_data = nullptr;
  if (Outcome alive = CheckAlive(); !alive.ok()) return alive;
  const char* what = kind == kDeviceKind ? " bytes of device memory" : " bytes of staging memory";
  {
    const std::lock_guard lock(system_->mutex);
    const int64_t limit = has_faults() ? options().faults.fail_allocation_after : -1;
    if (limit >= 0 && allocations_++ >= limit) {
      return Fault(TENON_RESOURCE_EXHAUSTED, name_, " has no ", bytes, what, " (option fail_allocation_after=", limit,
                   ")");
    }
  }
  *out_data = kind == kDeviceKind ? memory_.Allocate(bytes, alignment) : staging_.Allocate(bytes, alignment);
  if (*out_data == nullptr && kind == kDeviceKind && queue != nullptr) *out_data = queue->TakeFreed(bytes, alignment);
  if (*out_data != nullptr) return {};
  if (kind == kDeviceKind) {
    return Fault(TENON_RESOURCE_EXHAUSTED, name_, " has no ", bytes, what, ": ", memory_.used(), " of ",
                 memory_.bytes(), " are in use, the largest free block has ", memory_.largest_free());
  }
  return Fault(TENON_RESOURCE_EXHAUSTED, name_, " has no ", bytes, what, ": ", staging_.used(), " of ",
               options().staging_bytes, " are in use");
}

void Device::Free(uint32_t kind, void* data) {
  if (data == nullptr) return;
  if (kind == kDeviceKind ? memory_.Release(data) : kind == kStagingKind && staging_.Release(data)) return;
  const std::string text = sdk::Concat(name_, ": free of an address that is no block of memory kind ", kind);
  tenon_plugin_host->log(TENON_LOG_ERROR, sdk::ToSpan(text));
}

bool Device::Find(const void* address, uint64_t bytes, Place* out_place) {
  *out_place = {static_cast<char*>(const_cast<void*>(address)), nullptr};
  if (staging_.Contains(address, bytes)) return true;
  *out_place = {memory_.Resolve(address, bytes), shared_from_this()};
  return out_place->address != nullptr;
}

// ---- Queues and timelines ----

Outcome Device::MakeQueue(std::shared_ptr<Queue>* out_queue) {
  if (Outcome alive = CheckAlive(); !alive.ok()) return alive;
  {
    const std::lock_guard lock(system_->mutex);
    *out_queue = std::make_shared<Queue>(shared_from_this(), queues_made_++);
    DropExpired(queues_);
    queues_.push_back(*out_queue);
  }
  (*out_queue)->Start();
  return {};
}

void Device::Lose(const Outcome& why, Notices* out) {
  if (!lost_.ok()) return;
  lost_ = why;
  for (Timeline* timeline : timelines_) timeline->Wake(out);
  for (const auto& weak : queues_) {
    if (const auto queue = weak.lock()) queue->Lose();
  }
}

void Device::CountWork(Notices* out) {
  const int64_t limit = has_faults() ? options().faults.lose_device_after : -1;
  if (limit >= 0 && works_++ >= limit) {
    Lose(Fault(TENON_UNAVAILABLE, name_, " is lost (option lose_device_after=", limit, ")"), out);
  }
}

Outcome Device::LateFault(std::initializer_list<std::string_view> names, const std::string& description) {
  const Faults& faults = options().faults;
  if (!has_faults() || std::find(names.begin(), names.end(), faults.fail_late_name) == names.end()) return {};
  if (++named_works_ != faults.fail_late_number) return {};
  return Fault(TENON_INTERNAL, description, " failed on ", name_, " (option fail_late=", faults.fail_late_name, ":",
               faults.fail_late_number, ")");
}

int64_t Device::Delay(uint64_t* random) const {
  const int64_t most = has_faults() ? options().faults.delay_completion_us : 0;
  if (most == 0 || options().seed == 0) return most;
  return static_cast<int64_t>(NextRandom(random) % static_cast<uint64_t>(most + 1));
}

}  // namespace tenon::tpu_sim
