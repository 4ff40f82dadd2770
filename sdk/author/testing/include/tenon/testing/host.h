// SPDX-License-Identifier: Apache-2.0
// The host that a plugin under test sees: statuses, buffers, a log and extensions, as tenon_host says, without an
// engine.
//
//   EXPECT_EQ(Text(descriptor->load(&args, &self)), "");   // args.host is Host()
//
// A status that a plugin returns belongs to who called it: Text and Outcome take it over. live_statuses counts those
// that nobody has released: compare it before and after to see a leak. All functions may be called from any thread.
//
// A program with the plugin's sources linked in, instead of its library opened, includes linked.h in one of its files.
#ifndef TENON_TESTING_HOST_H_
#define TENON_TESTING_HOST_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/abi.h"
#include "tenon/status.h"
#include "tenon/testing/buffer.h"

// The C ABI's opaque status.
struct tenon_status {
  uint32_t code;
  std::string message;
};

namespace tenon::testing {

inline std::atomic<int64_t> live_statuses{0};

// ---- Texts ----

// Valid as long as the text.
inline tenon_span Span(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view View(tenon_span span) { return {span.size == 0 ? "" : span.data, span.size}; }
inline std::string String(tenon_span span) { return std::string(View(span)); }

// ---- Statuses ----

inline tenon_status* NewStatus(uint32_t code, std::string_view message) {
  ++live_statuses;
  return new tenon_status{code, std::string(message)};
}
inline void ReleaseStatus(tenon_status* status) {
  if (status == nullptr) return;
  --live_statuses;
  delete status;
}

inline std::string_view CodeName(uint32_t code) {
  static constexpr std::string_view kNames[] = {
      "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
      "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
      "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
      "DATA_LOSS", "UNAUTHENTICATED"};
  return code < std::size(kNames) ? kNames[code] : "?";
}

// How a call ended, as a value. Takes the status over; NULL is success.
struct Outcome {
  Outcome() = default;
  Outcome(tenon_status* status) {  // NOLINT(google-explicit-constructor): what a plugin returns becomes one
    if (status == nullptr) return;
    code = status->code;
    message = status->message;
    ReleaseStatus(status);
  }
  bool ok() const { return code == TENON_OK; }
  // "CODE: message"; "" for success.
  std::string text() const { return ok() ? "" : std::string(CodeName(code)) + ": " + message; }
  uint32_t code = TENON_OK;
  std::string message;
};
inline std::string Text(tenon_status* status) { return Outcome(status).text(); }
// The code that such a text begins with.
inline std::string CodeOf(const std::string& text) { return text.substr(0, text.find(':')); }

// ---- Time ----

// The host's monotonic clock, in nanoseconds, `time` from now: for deadlines.
inline uint64_t After(std::chrono::nanoseconds time) {
  return static_cast<uint64_t>((std::chrono::steady_clock::now() + time).time_since_epoch() /
                               std::chrono::nanoseconds(1));
}
// So long that only a hang gets there.
inline constexpr std::chrono::seconds kPatience{120};

// ---- The table ----

// What plugins have logged and nobody has taken, and the extensions that they are offered.
class HostState {
 public:
  static HostState& The() {
    static auto* const state = new HostState;  // NOLINT: plugins may log until the process ends
    return *state;
  }
  void Log(std::string line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(std::move(line));
  }
  std::vector<std::string> TakeLog() {
    const std::lock_guard lock(mutex_);
    return std::exchange(lines_, {});
  }
  void Offer(std::string_view id, const void* table) {
    const std::lock_guard lock(mutex_);
    extensions_[std::string(id)] = table;
  }
  const void* Extension(std::string_view id) {
    const std::lock_guard lock(mutex_);
    const auto found = extensions_.find(id);
    return found == extensions_.end() ? nullptr : found->second;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
  std::map<std::string, const void*, std::less<>> extensions_;
};

inline std::vector<std::string> TakeLog() { return HostState::The().TakeLog(); }
// From now on get_extension(id) gives this table (NULL: none), which lives until another one is offered.
inline void Offer(std::string_view id, const void* table) { HostState::The().Offer(id, table); }

// Lives as long as the process.
inline const tenon_host* Host() {
  static const tenon_host host = [] {
    tenon_host h = {};
    h.struct_size = sizeof h;
    h.abi_major = TENON_ABI_MAJOR;
    h.abi_minor = TENON_ABI_MINOR;
    h.layout_hash = TENON_LAYOUT_HASH;
    h.version = TENON_SPAN("testing");
    h.status_new = [](uint32_t code, tenon_span message) { return NewStatus(code, View(message)); };
    h.status_code = [](const tenon_status* status) { return status->code; };
    h.status_message = [](const tenon_status* status) { return Span(status->message); };
    h.status_release = ReleaseStatus;
    h.log = [](uint32_t, tenon_span line) { HostState::The().Log(String(line)); };
    h.buffer_retain = [](tenon_buffer* buffer) { Retain(buffer); };
    h.buffer_release = Release;
    h.get_extension = [](tenon_span id) { return HostState::The().Extension(View(id)); };
    return h;
  }();
  return &host;
}

}  // namespace tenon::testing

#endif  // TENON_TESTING_HOST_H_
