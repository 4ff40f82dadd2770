// SPDX-License-Identifier: Apache-2.0
// Queue: pieces of work in order, and the device's thread that does them.
//
// A piece of work waits for its points, runs, and signals its points. How it can end:
//   - its points are poisoned, it fails, or fails late: it poisons its signals with that status, and the queue goes on.
//     Work without signals (a kernel has none of its own yet) hands its failure to the next work of the queue that has some;
//     what stands between is not run.
//   - the device is lost: UNAVAILABLE, and so for everything after.
//   - the queue or the device is closed: what waits for nothing still runs; what waits is CANCELLED.
// Simulated time: the queue keeps a clock in cycles. Work begins when the work before it, the points that it waits for and
// the unit that it needs allow, and lasts as long as its cost says. Units are shared by the queues of a device.
#ifndef TENON_DEVICES_TPU_SIM_QUEUE_H_
#define TENON_DEVICES_TPU_SIM_QUEUE_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "model/cycle_model.h"
#include "outcome.h"
#include "timeline.h"

namespace tenon::tpu_sim {

class Device;

// What work occupies. kNone takes no unit and is no piece of work for the faults' counts (barriers, frees, host calls).
enum class Unit { kNone, kCompute, kMemory, kHostLink, kInterconnect };
inline constexpr int kUnits = 5;

struct Work {
  std::string name;
  Unit unit = Unit::kNone;
  Cycles cost;
  std::vector<Point> waits, signals;
  // Runs on the queue's thread, with addresses from Device::Resolve. Not called when the work fails before.
  std::function<Outcome()> run;
  // Called in any case, with how it ended so far (a failure handed on from earlier work included).
  std::function<void(const Outcome&)> always;
};

class Queue : public std::enable_shared_from_this<Queue> {
 public:
  Queue(std::shared_ptr<Device> device, int64_t number);
  ~Queue();
  void Start();
  // Appends. UNAVAILABLE when the device is lost, FAILED_PRECONDITION when the queue is closed; then nothing of the work
  // is called and no point is touched.
  Outcome Submit(Work work);
  // Ends the thread after the work that can still be done. Idempotent; from the queue's own thread it does not wait.
  void Close();

  // Gives memory back when the work so far is done; a request of this queue that finds none may have it before.
  void FreeLater(uint32_t kind, void* data, uint64_t bytes);
  void* TakeFreed(uint64_t bytes, uint64_t alignment);

  Device& device() const { return *device_; }
  const std::string& name() const { return name_; }
  // For Device, with System::mutex held.
  void Wake() { changed_.notify_all(); }

 private:
  struct Freed {
    void* data;
    uint64_t bytes;
    bool taken = false;
  };
  using Lock = std::unique_lock<std::mutex>;

  void Serve();
  void Do(Lock& lock, Work& work);
  Outcome Await(Lock& lock, const Work& work, int64_t* cycle, std::string* waited_for);
  Outcome Run(Lock& lock, Work& work, double late);
  void SleepUntil(Lock& lock, std::chrono::steady_clock::time_point until);

  const std::shared_ptr<Device> device_;
  const int64_t number_;
  const std::string name_;
  std::thread thread_;
  std::condition_variable changed_;
  // Guarded by System::mutex.
  std::deque<Work> work_;
  std::vector<std::shared_ptr<Freed>> freed_;
  Outcome handed_on_;  // of failed work without signals
  int64_t clock_ = 0;
  bool closing_ = false;
};

}  // namespace tenon::tpu_sim

#endif  // TENON_DEVICES_TPU_SIM_QUEUE_H_
