// SPDX-License-Identifier: Apache-2.0
// Log: lines on stderr from a level on, or to a function of the application.
//
// A line names whose work it is about, where its thread works within a LogScope: the task of a cluster, its session,
// its step.
#ifndef TENON_CORE_BASE_LOG_H_
#define TENON_CORE_BASE_LOG_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "tenon/abi.h"

namespace tenon {

using LogFunction = void (*)(void* argument, uint32_t level, std::string_view text);

// Level: TENON_LOG_*. Any thread. Without memory for the line it is the text alone, on stderr.
void Log(uint32_t level, std::string_view text) noexcept;
void SetLogLevel(uint32_t level);
// nullptr brings stderr back.
void SetLogFunction(LogFunction function, void* argument);

// Whose work a thread does. What it points to outlives the scope.
struct LogOrigin {
  std::string_view task;     // empty: none
  uint64_t session = 0, step = 0;  // 0: none
};
// "/job:worker/task:0, session 1f, step 7: "; empty when it says nothing. Sessions are numbers that were drawn, so in
// base 16.
std::string Prefix(const LogOrigin& origin);

// From its construction until its destruction, lines of this thread begin with the origin. Costs two stores.
class LogScope {
 public:
  explicit LogScope(const LogOrigin& origin);
  ~LogScope();
  LogScope(const LogScope&) = delete;
  LogScope& operator=(const LogScope&) = delete;

 private:
  const LogOrigin origin_;
  const LogOrigin* const outer_;
};

}  // namespace tenon

#endif  // TENON_CORE_BASE_LOG_H_
