// SPDX-License-Identifier: Apache-2.0
// Drives a device's loaded plugin from outside, through its tables alone.
//
//   const Loaded plugin(library, {{"devices", "2"}});
//   Device device(plugin, 0);                  // closed at the end of the scope
//   tenon_queue* queue = device.Queue();       // destroyed with the device, unless before
//   ExpectEq(device.Fill(queue, data, 8, 1, {{{gate, 1}}, timeline, 2}), "");  // waits for gate 1, signals timeline 2
//
// A status becomes "CODE: message", and "" is success; where only success makes sense a failure is reported
// (failure.h). Submissions may be made on any thread, all else on one.
#ifndef TENON_TESTING_DEVICE_H_
#define TENON_TESTING_DEVICE_H_

#include <string>
#include <utility>
#include <vector>

#include "tenon/device.h"
#include "tenon/ext/draft/profile.h"
#include "tenon/testing/library.h"
#include "tenon/testing/tensor.h"

namespace tenon::testing {

inline const tenon_device_driver* DriverOf(const Library& library) {
  return library.Capability<tenon_device_driver>(TENON_CAPABILITY_DEVICE);
}

// Points to wait for, the timeline that the work belongs to, and the point that it signals.
struct Submission {
  std::vector<tenon_timeline_point> waits;
  tenon_semaphore* timeline = nullptr;
  uint64_t signal = 0;
  std::string label = {};

  // Valid as long as this.
  const tenon_submission* get() const {
    value = {TENON_HEAD(tenon_submission), waits.data(), waits.size(), timeline, signal, Span(label)};
    return &value;
  }
  mutable tenon_submission value = {};
};

// One opened device and what was made on it.
class Device {
 public:
  Device(const Loaded& plugin, uint32_t index) : driver(DriverOf(plugin.library())) {
    ExpectEq(Text(driver->open(plugin.self, index, &device)), "");
    profile = static_cast<const tenon_profile*>(driver->get_extension(device, Span(TENON_EXTENSION_PROFILE)));
  }
  ~Device() { Close(); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  void Close() {
    for (tenon_queue* queue : std::exchange(queues_, {})) driver->queue_destroy(queue);
    for (tenon_semaphore* semaphore : std::exchange(semaphores_, {})) driver->semaphore_destroy(semaphore);
    if (device != nullptr) driver->close(std::exchange(device, nullptr));
  }

  tenon_queue* Queue() {
    tenon_queue* queue = nullptr;
    ExpectEq(Text(driver->queue_create(device, 0, &queue)), "");
    queues_.push_back(queue);
    return queue;
  }
  void Destroy(tenon_queue* queue) {
    std::erase(queues_, queue);
    driver->queue_destroy(queue);
  }
  tenon_semaphore* Semaphore(uint64_t initial = 0) {
    tenon_semaphore* semaphore = nullptr;
    ExpectEq(Text(driver->semaphore_create(device, initial, &semaphore)), "");
    semaphores_.push_back(semaphore);
    return semaphore;
  }
  void Destroy(tenon_semaphore* semaphore) {
    std::erase(semaphores_, semaphore);
    driver->semaphore_destroy(semaphore);
  }
  // Freed with the device's memory.
  void* Memory(uint64_t bytes, uint32_t kind = 0) {
    void* data = nullptr;
    ExpectEq(Text(driver->allocate(device, kind, bytes, 64, nullptr, &data)), "");
    return data;
  }

  // Devices of a copy: NULL is the host.
  std::string Copy(tenon_queue* queue, const void* source, tenon_device* source_device, void* target,
                   tenon_device* target_device, uint64_t bytes, const Submission& submission = {}) {
    const tenon_copy_args args = {TENON_HEAD(tenon_copy_args), source, target, bytes, source_device, target_device};
    return Text(driver->queue_copy(queue, &args, submission.get()));
  }
  std::string CopyWithin(tenon_queue* queue, const void* source, void* target, uint64_t bytes,
                         const Submission& submission = {}) {
    return Copy(queue, source, device, target, device, bytes, submission);
  }
  std::string Fill(tenon_queue* queue, void* target, uint64_t bytes, uint8_t value, const Submission& submission = {}) {
    const tenon_fill_args args = {TENON_HEAD(tenon_fill_args), target, bytes, &value, 1};
    return Text(driver->queue_fill(queue, &args, submission.get()));
  }
  std::string Barrier(tenon_queue* queue, const Submission& submission) {
    return Text(driver->queue_barrier(queue, submission.get()));
  }
  // What the call was told comes into `out`, which a Finish of the queue makes safe to read.
  std::string HostCall(tenon_queue* queue, std::string* out, const Submission& submission = {}) {
    const auto call = [](void* argument, tenon_status* status) { *static_cast<std::string*>(argument) = Text(status); };
    return Text(driver->queue_host_call(queue, call, out, submission.get()));
  }
  std::string Wait(tenon_semaphore* semaphore, uint64_t value, uint64_t deadline = After(kPatience)) {
    return Text(driver->semaphore_wait(semaphore, value, deadline));
  }
  // Until all that was given to the queue is done, whether it failed or not.
  std::string Finish(tenon_queue* queue) {
    tenon_semaphore* const done = Semaphore();
    std::string text = Barrier(queue, {{}, done, 1});
    if (text.empty()) text = Wait(done, 1);
    Destroy(done);
    return text;
  }

  // Between memory of the host and the device; done when they return.
  void UploadBytes(tenon_queue* queue, const void* source, void* target, uint64_t bytes) {
    Move(queue, source, nullptr, target, device, bytes);
  }
  void DownloadBytes(tenon_queue* queue, const void* source, void* target, uint64_t bytes) {
    Move(queue, source, device, target, nullptr, bytes);
  }
  template <class T>
  void Upload(tenon_queue* queue, const std::vector<T>& values, void* target) {
    UploadBytes(queue, values.data(), target, values.size() * sizeof(T));
  }
  template <class T>
  std::vector<T> Download(tenon_queue* queue, const void* source, size_t count) {
    std::vector<T> values(count);
    DownloadBytes(queue, source, values.data(), count * sizeof(T));
    return values;
  }

  std::vector<tenon_profile_span> Profile() const {
    std::vector<tenon_profile_span> spans(4096);
    uint64_t count = 0, next = 0;
    profile->read(device, 0, spans.data(), spans.size(), &count, &next);
    spans.resize(count);
    return spans;
  }

  const tenon_device_driver* driver;
  tenon_device* device = nullptr;
  const tenon_profile* profile = nullptr;

 private:
  void Move(tenon_queue* queue, const void* source, tenon_device* source_device, void* target,
            tenon_device* target_device, uint64_t bytes) {
    tenon_semaphore* const done = Semaphore();
    ExpectEq(Copy(queue, source, source_device, target, target_device, bytes, {{}, done, 1}), "");
    ExpectEq(Wait(done, 1), "");
    Destroy(done);
  }

  std::vector<tenon_queue*> queues_;
  std::vector<tenon_semaphore*> semaphores_;
};

}  // namespace tenon::testing

#endif  // TENON_TESTING_DEVICE_H_
