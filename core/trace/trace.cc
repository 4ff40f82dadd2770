// SPDX-License-Identifier: Apache-2.0
#include "core/trace/trace.h"

#include <cstdio>
#include <functional>
#include <thread>

#include "core/base/clock.h"

namespace tenon::trace {

uint64_t Trace::Now() { return NowNs(); }

void Trace::Add(std::string_view name, std::string_view category, uint64_t begin_ns, uint64_t end_ns) {
  const uint64_t thread = std::hash<std::thread::id>()(std::this_thread::get_id()) % 100000;
  std::lock_guard lock(mutex_);
  spans_.push_back({std::string(name), std::string(category), begin_ns, end_ns, thread});
}

std::string Trace::ToJson() const {
  std::lock_guard lock(mutex_);
  std::string out = "{\"traceEvents\":[";
  for (size_t i = 0; i < spans_.size(); ++i) {
    const Span& span = spans_[i];
    char times[96];
    std::snprintf(times, sizeof times, "\"ts\":%.3f,\"dur\":%.3f,\"pid\":1,\"tid\":%llu}",
                  static_cast<double>(span.begin_ns) / 1e3, static_cast<double>(span.end_ns - span.begin_ns) / 1e3,
                  static_cast<unsigned long long>(span.thread));
    out += i == 0 ? "\n" : ",\n";
    out += "{\"name\":\"" + JsonEscape(span.name) + "\",\"cat\":\"" + JsonEscape(span.category) + "\",\"ph\":\"X\"," + times;
  }
  return out + "\n]}\n";
}

}  // namespace tenon::trace
