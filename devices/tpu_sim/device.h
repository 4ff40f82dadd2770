// SPDX-License-Identifier: Apache-2.0
// Device and System: one simulated accelerator, and all those of one load().
//
// One mutex guards timelines, faults and the profile of a system; work runs without it. A queue's submissions have a
// lock of their own, which is never held together with it. Objects hold what they need alive, so that handles may be
// given back in any order.
#ifndef TENON_DEVICES_TPU_SIM_DEVICE_H_
#define TENON_DEVICES_TPU_SIM_DEVICE_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "clock.h"
#include "memory.h"
#include "options.h"
#include "queue.h"
#include "timeline.h"

namespace tenon::tpu_sim {

inline constexpr uint32_t kDeviceKind = 0, kStagingKind = 1, kKinds = 2;

class System {
 public:
  explicit System(Options options) : options_(std::move(options)) {}
  const Options& options() const { return options_; }
  // The device whose memory the address is in; NULL when there is none.
  std::shared_ptr<Device> Owner(const void* address) const;

  mutable std::mutex mutex;
  Clock clock;
  std::vector<std::weak_ptr<Device>> devices;

 private:
  const Options options_;
};

// Where the bytes of a copy are.
struct Place {
  char* address = nullptr;  // for the device's threads
  std::shared_ptr<Device> device;  // NULL: host or staging memory
};

class Device : public sdk::Handled<Device, tenon_device> {
 public:
  Device(std::shared_ptr<System> system, int64_t index);
  Outcome Open();
  void Close();

  System& system() const { return *system_; }
  const std::shared_ptr<System>& shared_system() const { return system_; }
  int64_t index() const { return index_; }
  const Options& options() const { return system_->options(); }
  const std::string& name() const { return name_; }
  bool has_faults() const { return options().faults.device == index_; }

  // ---- Memory ----
  Outcome Allocate(uint32_t kind, uint64_t bytes, uint64_t alignment, Queue* queue, void** out_data);
  void Free(uint32_t kind, void* data);
  // Finds bytes for a copy or fill; false unless all of them are in one living block of this device.
  bool Find(const void* address, uint64_t bytes, Place* out_place);
  DeviceMemory& memory() { return memory_; }
  StagingMemory& staging() { return staging_; }

  // ---- Queues and timelines ----
  Outcome MakeQueue(std::shared_ptr<Queue>* out_queue);
  Outcome CheckAlive() const;

  // ---- What follows needs System::mutex ----
  const Outcome& lost() const { return lost_; }
  bool closed() const { return closed_; }
  std::unordered_set<Timeline*>& timelines() { return timelines_; }
  // Counts a piece of work before it runs, and loses the device when its time has come.
  void CountWork(Notices* out);
  // The failure that a fault wants for work that is done and goes by these names.
  Outcome LateFault(std::initializer_list<std::string_view> names, const std::string& description);
  int64_t Delay(uint64_t* random) const;  // microseconds; random: of the queue that is late
  const std::shared_ptr<DeviceTime>& time() const { return time_; }

 private:
  void Lose(const Outcome& why, Notices* out);

  const std::shared_ptr<System> system_;
  const int64_t index_;
  const std::string name_;
  DeviceMemory memory_;
  StagingMemory staging_;
  // Guarded by System::mutex.
  Outcome lost_;
  bool closed_ = false;
  int64_t allocations_ = 0, works_ = 0, named_works_ = 0;
  int64_t queues_made_ = 0;
  std::vector<std::weak_ptr<Queue>> queues_;
  std::unordered_set<Timeline*> timelines_;
  const std::shared_ptr<DeviceTime> time_;
};

}  // namespace tenon::tpu_sim

#endif  // TENON_DEVICES_TPU_SIM_DEVICE_H_
