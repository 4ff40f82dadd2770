// SPDX-License-Identifier: Apache-2.0
// Log: lines on stderr from a level on, or to a function of the application.
#ifndef TENON_CORE_BASE_LOG_H_
#define TENON_CORE_BASE_LOG_H_

#include <cstdint>
#include <string_view>

#include "tenon/abi.h"

namespace tenon {

using LogFunction = void (*)(void* argument, uint32_t level, std::string_view text);

// Level: TENON_LOG_*. Any thread.
void Log(uint32_t level, std::string_view text);
void SetLogLevel(uint32_t level);
// nullptr brings stderr back.
void SetLogFunction(LogFunction function, void* argument);

}  // namespace tenon

#endif  // TENON_CORE_BASE_LOG_H_
