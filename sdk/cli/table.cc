// SPDX-License-Identifier: Apache-2.0
#include "sdk/cli/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string_view>
#include <utility>

#include "sdk/cli/line/printable.h"
#include "sdk/cli/terminal.h"

namespace tenon::cli {
namespace {

constexpr size_t kBetween = 2;     // spaces
constexpr size_t kLeastCell = 8;   // no column is made narrower
constexpr size_t kLeastLast = 16;  // which goes on in further lines before others are cut

bool Continues(char c) { return (c & 0xc0) == 0x80; }

// Characters of UTF-8 text: bytes that continue none.
size_t Width(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return !Continues(c); }));
}

// Bytes of the first `count` characters.
size_t BytesOf(std::string_view text, size_t count) {
  size_t at = 0;
  for (; at < text.size() && (count > 0 || Continues(text[at])); ++at) count -= !Continues(text[at]);
  return at;
}

// The end of a cell: names of nodes begin alike.
std::string Cut(const std::string& cell, size_t width) {
  const size_t characters = Width(cell);
  if (characters <= width) return cell;
  return "\xe2\x80\xa6" + cell.substr(BytesOf(cell, characters - width + 1));
}

// Lines of at most so many characters, broken at spaces where there are any.
std::vector<std::string> Wrap(std::string_view text, size_t width) {
  std::vector<std::string> lines;
  while (Width(text) > width) {
    const size_t most = BytesOf(text, width);
    const size_t space = text.rfind(' ', most);
    const bool at_space = space != std::string_view::npos && space > 0;
    lines.emplace_back(text.substr(0, at_space ? space : most));
    text.remove_prefix(at_space ? space + 1 : most);
  }
  lines.emplace_back(text);
  return lines;
}

size_t Sum(const std::vector<size_t>& widths) {
  return std::accumulate(widths.begin(), widths.end(), kBetween * (widths.size() - 1));
}

// A row's lines: its cells, the last one in as many lines as it takes.
std::string FormatRow(const std::vector<std::string>& row, const std::vector<size_t>& widths, size_t indent) {
  std::string line(indent, ' '), text;
  for (size_t i = 0; i + 1 < row.size(); ++i) {
    const std::string cell = Cut(row[i], widths[i]);
    line += cell + std::string(widths[i] - Width(cell) + kBetween, ' ');
  }
  const std::string before(Width(line), ' ');
  for (const std::string& piece : Wrap(row.back(), std::max<size_t>(widths.back(), 1))) {
    line += piece;
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
    line = before;
  }
  return text;
}

}  // namespace

Table::Table(std::vector<std::string> heads) { rows_.push_back(std::move(heads)); }

void Table::Add(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = Printable(cell);
  rows_.push_back(std::move(cells));
}

std::vector<size_t> Table::Widths() const {
  std::vector<size_t> widths(rows_[0].size(), 0);
  for (const auto& row : rows_)
    for (size_t i = 0; i < row.size() && i < widths.size(); ++i) widths[i] = std::max(widths[i], Width(row[i]));
  return widths;
}

// The widest columns give way first; the last one gets what is left.
std::vector<size_t> Table::Fitting(size_t room) const {
  std::vector<size_t> widths = Widths();
  const size_t last = widths.back();
  widths.back() = std::min(last, kLeastLast);
  while (Sum(widths) > room && widths.size() > 1) {
    const auto widest = std::max_element(widths.begin(), widths.end() - 1);
    if (*widest <= kLeastCell) break;
    *widest = std::max(kLeastCell, *widest - std::min(*widest, Sum(widths) - room));
  }
  const size_t used = Sum(widths) - widths.back();
  widths.back() = std::min(last, room > used + kLeastCell ? room - used : kLeastCell);
  return widths;
}

std::string Table::Format(size_t indent, size_t width) const {
  const bool fits = width == 0 || Sum(Widths()) + indent <= width;
  const std::vector<size_t> widths = fits ? Widths() : Fitting(width > indent ? width - indent : 1);
  std::string text;
  for (const auto& row : rows_) text += FormatRow(row, widths, indent);
  return text;
}

void Table::Print(size_t indent) const {
  const std::string text = Format(indent, TerminalWidth());
  const size_t head = text.find('\n');
  std::fputs((Bold(text.substr(0, head)) + text.substr(head)).c_str(), stdout);  // Main looks whether it was written
}

std::string FormatBytes(double bytes) {
  if (bytes >= 1 << 20) return fmt::format("{:.1f} MiB", bytes / (1 << 20));
  if (bytes >= 1 << 10) return fmt::format("{:.1f} KiB", bytes / (1 << 10));
  return fmt::format("{:.0f} B", bytes);
}

}  // namespace tenon::cli
