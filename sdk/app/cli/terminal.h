// SPDX-License-Identifier: Apache-2.0
// What standard output is: how wide, and whether colours help.
#ifndef TENON_CLI_TERMINAL_H_
#define TENON_CLI_TERMINAL_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace tenon::cli {

// Columns of the terminal that stdout is, else of COLUMNS; 0: stdout is none, so that whoever reads it gets everything.
size_t TerminalWidth();

// Bold on a terminal where NO_COLOR does not forbid it, else the text alone.
std::string Bold(std::string_view text);

}  // namespace tenon::cli

#endif  // TENON_CLI_TERMINAL_H_
