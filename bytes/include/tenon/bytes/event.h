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
#include <vector>

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
  // names: those that are in the folder; others than event files' do not matter. What these names begin with sorts
  // behind them: a run that goes on within the second of the one before, or after the clock was set back, may have a
  // process whose number sorts before that one's (1003 before 989), and gets a later second for that.
  explicit EventFileNames(const std::vector<std::string>& names) {
    std::string last;
    for (const std::string& name : names)
      if (SecondOf(name).has_value()) last = std::max(last, name);
    auto second = static_cast<int64_t>(EventTime());
    begin_ = Begin(second);
    if (begin_ < last && !last.starts_with(begin_)) begin_ = Begin(std::max(second, *SecondOf(last)) + 1);
  }
  // Another one each time, in the order in which they are asked for: the number has zeros before it for that.
  std::string Next() const {
    static std::atomic<int> writers{0};
    char number[16];
    std::snprintf(number, sizeof(number), "%06d", writers++);
    return begin_ + number;
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

  std::string begin_;
};

}  // namespace tenon::sdk

#endif  // TENON_BYTES_EVENT_H_
