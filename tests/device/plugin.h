// SPDX-License-Identifier: Apache-2.0
// Drives a device's built plugin from outside: opens the library, loads it with options, and calls its tables only. The test
// program says which one: TENON_TESTED_PLUGIN is the library's path; the environment's variable of that name goes before it.
//
//   Plugin plugin{{"devices", "2"}};
//   Handle device(plugin, 0);                  // closed at the end of the scope
//   tenon_queue* queue = device.Queue();        // destroyed with the device's handle, unless before
//   EXPECT_EQ(device.Fill(queue, data, 8, 1, {{{gate, 1}}, timeline, 2}), "");  // waits for gate 1, signals timeline 2
//
// A status becomes "CODE: message" (Text), which owns and releases it; "" is success. Statuses are counted: a leak of
// one fails the test that made the Plugin.
#ifndef TENON_TESTS_DEVICE_PLUGIN_H_
#define TENON_TESTS_DEVICE_PLUGIN_H_

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tenon/device.h"
#include "tenon/ext/draft/profile.h"
#include "tenon/kernel.h"
#include "tenon/status.h"

struct tenon_status {
  uint32_t code;
  std::string message;
};

namespace tenon::device_test {

inline std::atomic<int> living_statuses{0};

// What plugins have logged and nobody has taken.
class Log {
 public:
  static Log& The() {
    static auto* const log = new Log;  // NOLINT: plugins may log until the process ends
    return *log;
  }
  void Add(std::string line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(std::move(line));
  }
  std::vector<std::string> Take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(lines_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

inline const tenon_host* Host() {
  static const tenon_host host = [] {
    tenon_host h = {};
    h.struct_size = sizeof h;
    h.abi_major = TENON_ABI_MAJOR;
    h.abi_minor = TENON_ABI_MINOR;
    h.layout_hash = TENON_LAYOUT_HASH;
    h.status_new = [](uint32_t code, tenon_span message) {
      ++living_statuses;
      return new tenon_status{code, std::string(message.data, message.size)};
    };
    h.status_code = [](const tenon_status* s) { return s->code; };
    h.status_message = [](const tenon_status* s) -> tenon_span { return {s->message.data(), s->message.size()}; };
    h.status_release = [](tenon_status* s) {
      --living_statuses;
      delete s;
    };
    h.log = [](uint32_t, tenon_span line) { Log::The().Add({line.data, line.size}); };
    h.get_extension = [](tenon_span) -> const void* { return nullptr; };
    return h;
  }();
  return &host;
}

inline std::string Text(tenon_status* status) {
  if (status == nullptr) return "";
  static constexpr const char* kNames[] = {"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND",
                                           "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
                                           "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"};
  std::string text = std::string(status->code < 16 ? kNames[status->code] : "?") + ": " + status->message;
  Host()->status_release(status);
  return text;
}

inline tenon_span Span(const char* text) { return {text, std::strlen(text)}; }

// So far in the future that only a hang gets there.
inline uint64_t Soon(std::chrono::milliseconds more = std::chrono::minutes(2)) {
  const auto then = std::chrono::steady_clock::now() + more;
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(then.time_since_epoch()).count());
}

using Settings = std::vector<std::pair<std::string, std::string>>;

inline std::string TestedPlugin() {
  const char* wished = std::getenv("TENON_TESTED_PLUGIN");
  return wished == nullptr ? TENON_TESTED_PLUGIN : wished;
}

// Of a built plugin, by its path.
inline const tenon_plugin* Descriptor(const std::string& path = TestedPlugin()) {
  static std::map<std::string, const tenon_plugin*> known;
  if (const auto found = known.find(path); found != known.end()) return found->second;
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  const auto query = reinterpret_cast<tenon_plugin_query_function>(dlsym(library, TENON_QUERY_SYMBOL));
  tenon_query_args args = {TENON_HEAD(tenon_query_args), TENON_ABI_MAJOR, TENON_ABI_MINOR, TENON_LAYOUT_HASH, {}, 0, 0, {}};
  return known[path] = query == nullptr ? nullptr : query(&args);
}

inline const void* Capability(const char* id, const tenon_plugin* descriptor = Descriptor()) {
  for (uint64_t i = 0; i < descriptor->capability_count; ++i) {
    const tenon_capability& c = descriptor->capabilities[i];
    if (std::string_view(c.id.data, c.id.size) == id) return c.table;
  }
  return nullptr;
}

inline tenon_status* Load(const Settings& settings, tenon_plugin_self** out_self, const tenon_plugin* descriptor = Descriptor()) {
  std::vector<tenon_option> options;
  for (const auto& [key, value] : settings) options.push_back({{key.data(), key.size()}, {value.data(), value.size()}});
  const tenon_load_args args = {TENON_HEAD(tenon_load_args), Host(), options.data(), options.size()};
  *out_self = nullptr;
  return descriptor->load(&args, out_self);
}

struct Plugin {
  Plugin(std::initializer_list<Settings::value_type> settings) : Plugin(Settings(settings)) {}
  Plugin() : Plugin(Settings()) {}
  explicit Plugin(const Settings& settings)
      : statuses(living_statuses), driver(static_cast<const tenon_device_driver*>(Capability(TENON_CAPABILITY_DEVICE))) {
    Settings given = settings;
    const bool counted = std::any_of(given.begin(), given.end(), [](const auto& each) { return each.first == "devices"; });
    if (!counted) given.insert(given.end(), {"devices", "1"});  // by default there is none
    EXPECT_EQ(Text(Load(given, &self)), "");
  }
  ~Plugin() {
    Descriptor()->unload(self);
    EXPECT_EQ(living_statuses, statuses) << "statuses were not released";
  }
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  const int statuses;
  const tenon_device_driver* driver;
  tenon_plugin_self* self = nullptr;
};

// Points to wait for, the timeline that the work belongs to, and the point that it signals.
struct Submission {
  std::vector<tenon_timeline_point> waits;
  tenon_semaphore* timeline = nullptr;
  uint64_t signal = 0;
  std::string label = {};

  const tenon_submission* get() const {
    value = {TENON_HEAD(tenon_submission), waits.data(), waits.size(), timeline, signal, {label.data(), label.size()}};
    return &value;
  }
  mutable tenon_submission value = {};
};

// One opened device and what was made on it.
class Handle {
 public:
  Handle(const Plugin& plugin, uint32_t index) : driver(plugin.driver) {
    EXPECT_EQ(Text(driver->open(plugin.self, index, &device)), "");
    profile = static_cast<const tenon_profile*>(driver->get_extension(device, Span(TENON_EXTENSION_PROFILE)));
  }
  ~Handle() { Close(); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  void Close() {
    for (tenon_queue* queue : std::exchange(queues_, {})) driver->queue_destroy(queue);
    for (tenon_semaphore* semaphore : std::exchange(semaphores_, {})) driver->semaphore_destroy(semaphore);
    if (device != nullptr) driver->close(std::exchange(device, nullptr));
  }

  tenon_queue* Queue() {
    tenon_queue* queue = nullptr;
    EXPECT_EQ(Text(driver->queue_create(device, 0, &queue)), "");
    queues_.push_back(queue);
    return queue;
  }
  void Destroy(tenon_queue* queue) {
    std::erase(queues_, queue);
    driver->queue_destroy(queue);
  }
  tenon_semaphore* Semaphore(uint64_t initial = 0) {
    tenon_semaphore* semaphore = nullptr;
    EXPECT_EQ(Text(driver->semaphore_create(device, initial, &semaphore)), "");
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
    EXPECT_EQ(Text(driver->allocate(device, kind, bytes, 64, nullptr, &data)), "");
    return data;
  }

  // Devices of a copy: NULL is the host.
  std::string Copy(tenon_queue* queue, const void* source, tenon_device* source_device, void* target, tenon_device* target_device,
                   uint64_t bytes, const Submission& submission = {}) {
    const tenon_copy_args args = {TENON_HEAD(tenon_copy_args), source, target, bytes, source_device, target_device};
    return Text(driver->queue_copy(queue, &args, submission.get()));
  }
  std::string CopyWithin(tenon_queue* queue, const void* source, void* target, uint64_t bytes, const Submission& submission = {}) {
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
  std::string Wait(tenon_semaphore* semaphore, uint64_t value, uint64_t deadline = Soon()) {
    return Text(driver->semaphore_wait(semaphore, value, deadline));
  }
  // Until all that was given to the queue is done, whether it failed or not.
  std::string Finish(tenon_queue* queue) {
    tenon_semaphore* done = Semaphore();
    std::string text = Barrier(queue, {{}, done, 1});
    if (text.empty()) text = Wait(done, 1);
    Destroy(done);
    return text;
  }
  template <class T>
  void Upload(tenon_queue* queue, const std::vector<T>& values, void* target) {
    tenon_semaphore* done = Semaphore();
    EXPECT_EQ(Copy(queue, values.data(), nullptr, target, device, values.size() * sizeof(T), {{}, done, 1}), "");
    EXPECT_EQ(Wait(done, 1), "");
    Destroy(done);
  }
  template <class T>
  std::vector<T> Download(tenon_queue* queue, const void* source, size_t count) {
    std::vector<T> values(count);
    tenon_semaphore* done = Semaphore();
    EXPECT_EQ(Copy(queue, source, device, values.data(), nullptr, count * sizeof(T), {{}, done, 1}), "");
    EXPECT_EQ(Wait(done, 1), "");
    Destroy(done);
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
  std::vector<tenon_queue*> queues_;
  std::vector<tenon_semaphore*> semaphores_;
};

}  // namespace tenon::device_test

#endif  // TENON_TESTS_DEVICE_PLUGIN_H_
