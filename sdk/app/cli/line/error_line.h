// SPDX-License-Identifier: Apache-2.0
// What went wrong, on one line of stderr: for people, or with --json for programs.
#ifndef TENON_CLI_LINE_ERROR_LINE_H_
#define TENON_CLI_LINE_ERROR_LINE_H_

#include <string>

#include "tenon/tenon.h"

namespace tenon::cli {

inline constexpr int kWorkFailed = 1;
inline constexpr int kWrongCommandLine = 2;

// "tenon run: NOT_FOUND: text", or {"error": {"command", "code", "message", "exit_code"}}. Gives the exit code.
int PrintError(const std::string& command, const host::Status& status, int exit_code, bool json);

}  // namespace tenon::cli

#endif  // TENON_CLI_LINE_ERROR_LINE_H_
