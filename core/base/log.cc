// SPDX-License-Identifier: Apache-2.0
#include "core/base/log.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <mutex>

namespace tenon {
namespace {

std::atomic<uint32_t> g_level{TENON_LOG_WARNING};
std::mutex g_mutex;
LogFunction g_function = nullptr;
void* g_argument = nullptr;

}  // namespace

void SetLogLevel(uint32_t level) { g_level.store(level); }

void SetLogFunction(LogFunction function, void* argument) {
  std::lock_guard lock(g_mutex);
  g_function = function;
  g_argument = argument;
}

void Log(uint32_t level, std::string_view text) {
  if (level < g_level.load(std::memory_order_relaxed)) return;
  static constexpr std::array<const char*, 4> kNames = {"debug", "info", "warning", "error"};
  std::lock_guard lock(g_mutex);
  if (g_function != nullptr) return g_function(g_argument, level, text);
  std::fprintf(stderr, "tenon: %s: %.*s\n", kNames[level < 4 ? level : 3], static_cast<int>(text.size()), text.data());
}

}  // namespace tenon
