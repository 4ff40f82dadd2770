// SPDX-License-Identifier: Apache-2.0
// Event files of TensorBoard's: records (record.h) of serialized Event messages, the first of which says the format.
// Readers take the files of a folder in the order of their names.
#ifndef TENON_BYTES_EVENT_H_
#define TENON_BYTES_EVENT_H_

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "tenon/bytes/wire.h"

namespace tenon::sdk {

// Fields of tensorflow.Event.
inline constexpr uint32_t kEventWallTime = 1, kEventStep = 2, kEventFileVersion = 3, kEventGraphDef = 4,
                          kEventSummary = 5, kEventSessionLog = 7;
// What the first event of a file has in kEventFileVersion.
inline constexpr std::string_view kEventFormat = "brain.Event:2";

inline double EventTime() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// A serialized Event of now, with a message in one of its fields.
inline std::string EventOf(int64_t step, uint32_t field, std::string_view message) {
  WireWriter event;
  event.Double(kEventWallTime, EventTime());
  event.Varint(kEventStep, static_cast<uint64_t>(step));
  event.Bytes(field, message);
  return event.bytes();
}

// Names: events.out.tfevents.<seconds>.<host>.<process>.<number of six digits>.
class EventFileNames {
 public:
  // A name that is in the folder; others than event files' do not matter. New names sort behind it: a run that goes on
  // within the second of the one before, or after the clock was set back, may have a process whose number sorts before
  // that one's (1003 before 989), and gets a later second for that.
  void Note(std::string_view name) {
    if (SecondOf(name).has_value() && name > last_) last_ = name;
  }
  // Another one each time, in the order in which they are asked for: the number has zeros before it for that.
  std::string Next() const {
    const auto now = static_cast<int64_t>(EventTime());
    std::string begin = Begin(now);
    if (begin < last_ && !last_.starts_with(begin)) begin = Begin(std::max(now, *SecondOf(last_)) + 1);
    static std::atomic<int> writers{0};
    char number[16];
    std::snprintf(number, sizeof(number), "%06d", writers++);
    return begin + number;
  }

 private:
  static constexpr std::string_view kPrefix = "events.out.tfevents.";
  static constexpr size_t kStampDigits = 10;

  // The second in which a file of this name was begun; none: it is no such name.
  static std::optional<int64_t> SecondOf(std::string_view name) {
    if (!name.starts_with(kPrefix)) return std::nullopt;
    const std::string_view digits = name.substr(kPrefix.size(), name.find('.', kPrefix.size()) - kPrefix.size());
    int64_t second = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), second);
    if (digits.size() != kStampDigits || error != std::errc() || end != digits.data() + digits.size())
      return std::nullopt;
    return second;
  }
  static std::string Begin(int64_t second) {
    char host[256] = "localhost", stamp[32];
    if (gethostname(host, sizeof(host) - 1) != 0) std::snprintf(host, sizeof(host), "localhost");
    std::snprintf(stamp, sizeof(stamp), "%0*lld", static_cast<int>(kStampDigits), static_cast<long long>(second));
    return std::string(kPrefix) + stamp + "." + host + "." + std::to_string(getpid()) + ".";
  }

  std::string last_;  // of those that were noted; empty: none
};

}  // namespace tenon::sdk

#endif  // TENON_BYTES_EVENT_H_
