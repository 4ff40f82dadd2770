// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string_view>
#include <utility>

#include "sdk/app/cli/line/printable.h"
#include "sdk/app/cli/terminal.h"

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

// A name may be parted behind one of these.
bool EndsPart(char c) { return std::string_view("/:._-,=").find(c) != std::string_view::npos; }

// Lines of at most so many characters, broken at spaces, else between the parts of a name (behind a slash before
// others), where there are any.
std::vector<std::string> Wrap(std::string_view text, size_t width) {
  std::vector<std::string> lines;
  while (Width(text) > width) {
    const size_t most = BytesOf(text, width);
    const size_t space = text.rfind(' ', most);
    if (space != std::string_view::npos && space > 0) {
      lines.emplace_back(text.substr(0, space));
      text.remove_prefix(space + 1);
      continue;
    }
    size_t end = text.substr(0, most).rfind('/') + 1;
    if (end <= 1) end = most;
    while (end > 0 && !EndsPart(text[end - 1])) --end;
    lines.emplace_back(text.substr(0, end > 0 ? end : most));
    text.remove_prefix(lines.back().size());
  }
  lines.emplace_back(text);
  return lines;
}

// Pieces of a list: "1 compute," and "2 copy".
std::vector<std::string_view> PiecesOf(std::string_view cell) {
  std::vector<std::string_view> pieces;
  for (size_t at = cell.find(", "); at != std::string_view::npos; at = cell.find(", ")) {
    pieces.push_back(cell.substr(0, at + 1));
    cell.remove_prefix(at + 2);
  }
  pieces.push_back(cell);
  return pieces;
}
size_t WidestPiece(std::string_view cell) {
  size_t widest = 0;
  for (const std::string_view piece : PiecesOf(cell)) widest = std::max(widest, Width(piece));
  return widest;
}

// A list goes on in further lines, piece by piece; what is one keeps its end.
std::vector<std::string> LinesOf(const std::string& cell, size_t width) {
  std::vector<std::string> lines;
  for (const std::string_view piece : PiecesOf(cell)) {
    const std::string kept = KeepEnd(piece, width);
    if (!lines.empty() && Width(lines.back()) + 1 + Width(kept) <= width) lines.back() += " " + kept;
    else lines.push_back(kept);
  }
  return lines;
}

size_t Sum(const std::vector<size_t>& widths) {
  return std::accumulate(widths.begin(), widths.end(), kBetween * (widths.size() - 1));
}

// A row's lines: its cells, each in as many lines as it takes.
std::string FormatRow(const std::vector<std::string>& row, const std::vector<size_t>& widths, size_t indent) {
  std::vector<std::vector<std::string>> cells;
  for (size_t i = 0; i + 1 < row.size(); ++i)
    cells.push_back(Width(row[i]) <= widths[i] ? std::vector<std::string>{row[i]} : LinesOf(row[i], widths[i]));
  cells.push_back(Wrap(row.back(), std::max<size_t>(widths.back(), 1)));
  size_t height = 1;
  for (const std::vector<std::string>& cell : cells) height = std::max(height, cell.size());
  std::string text;
  for (size_t k = 0; k < height; ++k) {
    std::string line(indent, ' ');
    for (size_t i = 0; i < cells.size(); ++i) {
      const std::string piece = k < cells[i].size() ? cells[i][k] : "";
      line += piece;
      if (i + 1 < cells.size()) line += std::string(widths[i] - Width(piece) + kBetween, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace

std::string KeepEnd(std::string_view text, size_t width) {
  const size_t characters = Width(text);
  if (characters <= width) return std::string(text);
  const size_t cut = BytesOf(text, characters - width + 1);
  std::string_view end = text.substr(cut);
  // Whole parts of the name, where that costs no more than half of what there is room for.
  const auto whole_from = [&](const auto& ends_part) {
    if (ends_part(text[cut - 1])) return true;
    const auto found = std::find_if(end.begin(), end.begin() + static_cast<ptrdiff_t>(end.size() / 2), ends_part);
    if (found == end.begin() + static_cast<ptrdiff_t>(end.size() / 2)) return false;
    end.remove_prefix(static_cast<size_t>(found - end.begin()) + 1);
    return true;
  };
  if (!whole_from([](char c) { return c == '/'; })) whole_from([](char c) { return EndsPart(c) || c == ' '; });
  return "\xe2\x80\xa6" + std::string(end);
}

std::string Lines(std::string_view text, size_t width) {
  constexpr size_t kLeast = 20;
  const size_t indent = std::min(text.find_first_not_of(' '), text.size()) + 2;
  if (width < indent + kLeast) return std::string(text) + "\n";
  std::string out;
  for (const std::string& line : Wrap(text.substr(indent - 2), width - indent))
    out += std::string(out.empty() ? indent - 2 : indent, ' ') + line + "\n";
  return out;
}

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

// Lists give way first, to their widest pieces, then names; of each the widest column before others. The last one gets
// what is left.
std::vector<size_t> Table::Fitting(size_t room) const {
  std::vector<size_t> widths = Widths(), pieces(widths.size(), kLeastCell);
  for (const auto& row : rows_)
    for (size_t i = 0; i < row.size() && i < pieces.size(); ++i) pieces[i] = std::max(pieces[i], WidestPiece(row[i]));
  const size_t last = widths.back();
  widths.back() = std::min(last, kLeastLast);
  const auto give_way = [&](const std::vector<size_t>& least) {
    while (Sum(widths) > room) {
      size_t widest = widths.size();
      for (size_t i = 0; i + 1 < widths.size(); ++i)
        if (widths[i] > least[i] && (widest == widths.size() || widths[i] > widths[widest])) widest = i;
      if (widest == widths.size()) return;
      widths[widest] = std::max(least[widest], widths[widest] - std::min(widths[widest], Sum(widths) - room));
    }
  };
  give_way(pieces);
  give_way(std::vector<size_t>(widths.size(), kLeastCell));
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
