// SPDX-License-Identifier: Apache-2.0
// Text of strangers as a terminal may see it.
#ifndef TENON_CLI_LINE_PRINTABLE_H_
#define TENON_CLI_LINE_PRINTABLE_H_

#include <string>
#include <string_view>

namespace tenon::cli {

// Control characters, and bytes that are no UTF-8, as "\x1b"; all else as it is. A file's names can neither colour a
// terminal nor begin a line.
std::string Printable(std::string_view text);

// Bytes of the UTF-8 character that a text begins with; 0: it begins with none.
size_t CharacterSize(std::string_view text);

}  // namespace tenon::cli

#endif  // TENON_CLI_LINE_PRINTABLE_H_
