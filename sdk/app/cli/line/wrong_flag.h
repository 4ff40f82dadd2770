// SPDX-License-Identifier: Apache-2.0
// A command line that is wrong, found out while the command acts: exit code 2.
#ifndef TENON_CLI_LINE_WRONG_FLAG_H_
#define TENON_CLI_LINE_WRONG_FLAG_H_

#include <string>

namespace tenon::cli {

// Ends the command: Main says "FLAG: what". Nobody on the way can act on it, so it is thrown, as CLI11 throws what it
// finds itself.
[[noreturn]] void WrongFlag(const std::string& flag, const std::string& what);

}  // namespace tenon::cli

#endif  // TENON_CLI_LINE_WRONG_FLAG_H_
