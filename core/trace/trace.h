// SPDX-License-Identifier: Apache-2.0
// Trace of one step: spans with a name and times, each in a row, written as Chrome's trace format. Thread-safe.
//
// A row is a host thread, or a named line of a group: a queue of a device, by the host's clock or by the device's own.
#ifndef TENON_CORE_TRACE_TRACE_H_
#define TENON_CORE_TRACE_TRACE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>


namespace tenon::trace {

// Names a row. Group "" is the host, whose rows are threads.
struct Row {
  std::string_view group;  // "/device:TPU:0"
  std::string_view line;   // "copy in"
};

class Trace {
 public:
  // On this thread's row. Times are of the host's clock. detail: shown beside the span, such as what it waited for; may
  // be empty.
  void Add(std::string_view name, std::string_view category, uint64_t begin_ns, uint64_t end_ns,
           std::string_view detail = {});
  void AddOn(const Row& row, std::string_view name, std::string_view category, uint64_t begin_ns, uint64_t end_ns,
             std::string_view detail);
  // Monotonic nanoseconds of the host's clock.
  static uint64_t Now();
  // A span as it is read. Group "" is the host, whose lines are numbers of threads.
  struct Event {
    std::string_view group, line, name, category, detail;
    uint64_t begin_ns, end_ns;
  };
  void ForEach(const std::function<void(const Event& event)>& reader) const;
  // {"traceEvents": [...]}, microseconds; the names of rows come first.
  std::string ToJson() const;

 private:
  // A piece of texts_.
  struct Text {
    size_t at, size;
  };
  struct Span {
    Text name, category, detail;
    uint64_t begin_ns, end_ns;
    uint64_t process, thread;
  };
  void Put(std::string_view name, std::string_view category, std::string_view detail, uint64_t begin_ns,
           uint64_t end_ns, uint64_t process, uint64_t thread);
  Text Keep(std::string_view text);
  std::string_view View(Text text) const { return std::string_view(texts_).substr(text.at, text.size); }
  mutable std::mutex mutex_;
  std::vector<Span> spans_;
  std::string texts_;  // of all spans, one behind the other: a span costs the step no allocation of its own
  std::vector<std::string> groups_;                                 // process 2 and on
  std::map<std::pair<uint64_t, std::string>, uint64_t> lines_;      // of a process: its rows
};

}  // namespace tenon::trace

#endif  // TENON_CORE_TRACE_TRACE_H_
