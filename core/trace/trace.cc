// SPDX-License-Identifier: Apache-2.0
#include "core/trace/trace.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <thread>

#include "core/base/clock.h"
#include "core/base/json_escape.h"

namespace tenon::trace {
namespace {

constexpr uint64_t kHostProcess = 1;
constexpr size_t kFirstSpans = 1024, kTextOfSpan = 48;  // that there is room for at first

std::string NameEvent(std::string_view what, uint64_t process, uint64_t thread, std::string_view name) {
  return "{\"name\":\"" + std::string(what) + "\",\"ph\":\"M\",\"pid\":" + std::to_string(process) +
         ",\"tid\":" + std::to_string(thread) + ",\"args\":{\"name\":\"" + JsonEscape(name) + "\"}}";
}

}  // namespace

uint64_t Trace::Now() { return NowNs(); }

void Trace::Add(std::string_view name, std::string_view category, uint64_t begin_ns, uint64_t end_ns,
                std::string_view detail) {
  const uint64_t thread = std::hash<std::thread::id>()(std::this_thread::get_id()) % 100000;
  std::lock_guard lock(mutex_);
  Put(name, category, detail, begin_ns, end_ns, kHostProcess, thread);
}

// Under the mutex.
void Trace::Put(std::string_view name, std::string_view category, std::string_view detail, uint64_t begin_ns,
                uint64_t end_ns, uint64_t process, uint64_t thread) {
  if (spans_.capacity() == 0) {
    spans_.reserve(kFirstSpans);
    texts_.reserve(kFirstSpans * kTextOfSpan);
  }
  const Text of_name = Keep(name), of_category = Keep(category), of_detail = Keep(detail);
  spans_.push_back({of_name, of_category, of_detail, begin_ns, end_ns, process, thread});
}

Trace::Text Trace::Keep(std::string_view text) {
  texts_.append(text);
  return {texts_.size() - text.size(), text.size()};
}

void Trace::AddOn(const Row& row, std::string_view name, std::string_view category, uint64_t begin_ns, uint64_t end_ns,
                  std::string_view detail) {
  std::lock_guard lock(mutex_);
  auto group = std::find(groups_.begin(), groups_.end(), row.group);
  if (group == groups_.end()) group = groups_.insert(groups_.end(), std::string(row.group));
  const uint64_t process = kHostProcess + 1 + static_cast<uint64_t>(group - groups_.begin());
  const uint64_t line = lines_.try_emplace({process, std::string(row.line)}, lines_.size() + 1).first->second;
  Put(name, category, detail, begin_ns, end_ns, process, line);
}

void Trace::ForEach(const std::function<void(const Event& event)>& reader) const {
  std::lock_guard lock(mutex_);
  std::map<uint64_t, std::string_view> lines;
  for (const auto& [line, number] : lines_) lines.emplace(number, line.second);
  for (const Span& span : spans_) {
    const bool host = span.process == kHostProcess;
    const std::string thread = host ? std::to_string(span.thread) : "";
    reader({host ? std::string_view() : groups_[span.process - kHostProcess - 1],
            host ? std::string_view(thread) : lines[span.thread], View(span.name), View(span.category),
            View(span.detail), span.begin_ns, span.end_ns});
  }
}

std::string Trace::ToJson() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> events;
  if (!groups_.empty()) events.push_back(NameEvent("process_name", kHostProcess, 0, "host"));
  for (size_t i = 0; i < groups_.size(); ++i)
    events.push_back(NameEvent("process_name", kHostProcess + 1 + i, 0, groups_[i]));
  for (const auto& [line, number] : lines_) events.push_back(NameEvent("thread_name", line.first, number, line.second));
  for (const Span& span : spans_) {
    char times[96];
    std::snprintf(times, sizeof times, "\"ts\":%.3f,\"dur\":%.3f,\"pid\":%llu,\"tid\":%llu",
                  static_cast<double>(span.begin_ns) / 1e3, static_cast<double>(span.end_ns - span.begin_ns) / 1e3,
                  static_cast<unsigned long long>(span.process), static_cast<unsigned long long>(span.thread));
    events.push_back("{\"name\":\"" + JsonEscape(View(span.name)) + "\",\"cat\":\"" + JsonEscape(View(span.category)) +
                     "\",\"ph\":\"X\"," + times +
                     (span.detail.size == 0 ? "" : ",\"args\":{\"detail\":\"" + JsonEscape(View(span.detail)) + "\"}") +
                     "}");
  }
  std::string out = "{\"traceEvents\":[";
  for (size_t i = 0; i < events.size(); ++i) out += (i == 0 ? "\n" : ",\n") + events[i];
  return out + "\n]}\n";
}

}  // namespace tenon::trace
