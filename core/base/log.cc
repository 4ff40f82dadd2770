// SPDX-License-Identifier: Apache-2.0
#include "core/base/log.h"

#include <array>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <mutex>
#include <utility>

namespace tenon {
namespace {

std::atomic<uint32_t> g_level{TENON_LOG_WARNING};
std::mutex g_mutex;
LogFunction g_function = nullptr;
void* g_argument = nullptr;
thread_local const LogOrigin* t_origin = nullptr;

}  // namespace

void SetLogLevel(uint32_t level) { g_level.store(level); }

void SetLogFunction(LogFunction function, void* argument) {
  std::lock_guard lock(g_mutex);
  g_function = function;
  g_argument = argument;
}

std::string Prefix(const LogOrigin& origin) {
  std::string out(origin.task);
  const auto add = [&out](std::string_view what, uint64_t number, int base) {
    if (number == 0) return;
    std::array<char, 20> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number, base).ptr;
    out.append(out.empty() ? "" : ", ").append(what).append(digits.data(), end);
  };
  add("session ", origin.session, 16);
  add("step ", origin.step, 10);
  return out.empty() ? out : out + ": ";
}

LogScope::LogScope(const LogOrigin& origin) : origin_(origin), outer_(std::exchange(t_origin, &origin_)) {}
LogScope::~LogScope() { t_origin = outer_; }

void Log(uint32_t level, std::string_view text) noexcept {
  if (level < g_level.load(std::memory_order_relaxed)) return;
  static constexpr std::array<const char*, 4> kNames = {"debug", "info", "warning", "error"};
  const auto print = [&](std::string_view line) {
    std::fprintf(stderr, "tenon: %s: %.*s\n", kNames[level < 4 ? level : 3], static_cast<int>(line.size()),
                 line.data());
  };
  try {
    const std::string line = t_origin == nullptr ? std::string(text) : Prefix(*t_origin).append(text);
    std::lock_guard lock(g_mutex);
    if (g_function != nullptr) return g_function(g_argument, level, line);
    print(line);
  } catch (...) {  // no memory, or the application's function threw
    print(text);
  }
}

}  // namespace tenon
