// SPDX-License-Identifier: Apache-2.0
// Trace of one step: spans with a name, a thread and times, written as Chrome's trace format. Thread-safe.
#ifndef TENON_CORE_TRACE_TRACE_H_
#define TENON_CORE_TRACE_TRACE_H_

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json_escape.h"

namespace tenon::trace {

class Trace {
 public:
  void Add(std::string_view name, std::string_view category, uint64_t begin_ns, uint64_t end_ns);
  // Monotonic nanoseconds of the host's clock.
  static uint64_t Now();
  // {"traceEvents": [...]}, microseconds.
  std::string ToJson() const;

 private:
  struct Span {
    std::string name, category;
    uint64_t begin_ns, end_ns;
    uint64_t thread;
  };
  mutable std::mutex mutex_;
  std::vector<Span> spans_;
};

using tenon::JsonEscape;

}  // namespace tenon::trace

#endif  // TENON_CORE_TRACE_TRACE_H_
