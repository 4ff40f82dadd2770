// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>

namespace tenon::cli {
namespace {

constexpr size_t kUsual = 80, kWidest = 10000;

size_t ColumnsVariable() {
  const char* text = std::getenv("COLUMNS");
  const std::string_view given = text == nullptr ? "" : text;
  size_t columns = 0;
  const auto parsed = std::from_chars(given.data(), given.data() + given.size(), columns);
  return parsed.ec == std::errc() && parsed.ptr == given.data() + given.size() && columns <= kWidest ? columns : 0;
}

bool Colours() {
  const char* no = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  if (no != nullptr && *no != '\0') return false;
  return isatty(STDOUT_FILENO) != 0 && terminal != nullptr && std::string_view(terminal) != "dumb";
}

}  // namespace

size_t TerminalWidth() {
  if (isatty(STDOUT_FILENO) == 0) return 0;
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const size_t given = ColumnsVariable();
  return given > 0 ? given : kUsual;
}

std::string Bold(std::string_view text) {
  static const bool colours = Colours();
  return colours ? "\x1b[1m" + std::string(text) + "\x1b[0m" : std::string(text);
}

}  // namespace tenon::cli
