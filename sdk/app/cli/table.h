// SPDX-License-Identifier: Apache-2.0
// Tables as text: columns as wide as their widest cell, the last one as it comes; on a terminal, no wider than it is.
#ifndef TENON_CLI_TABLE_H_
#define TENON_CLI_TABLE_H_

#include <string>
#include <string_view>
#include <vector>

namespace tenon::cli {

class Table {
 public:
  explicit Table(std::vector<std::string> heads);
  // As many cells as heads; they may hold what strangers wrote (line/printable.h).
  void Add(std::vector<std::string> cells);
  // indent: spaces before each line. width: of the lines at most, by lists that go on in further lines, piece by piece,
  // names that keep their ends, and a last column that goes on in further lines, broken between words or parts of
  // names; 0: as wide as it comes.
  std::string Format(size_t indent = 0, size_t width = 0) const;
  // On standard output, for the terminal that it is.
  void Print(size_t indent = 0) const;

 private:
  std::vector<size_t> Widths() const;
  std::vector<size_t> Fitting(size_t room) const;

  std::vector<std::vector<std::string>> rows_;  // the first is the heads
};

// The end of a name in so many characters (1 at least): names of nodes and devices begin alike. Where it can, it begins
// with a whole part of the name.
std::string KeepEnd(std::string_view text, size_t width);

// A line of text in lines of so many characters, each with its end, the further ones indented by as much as the first
// and two more; 0: one line.
std::string Lines(std::string_view text, size_t width);

// "12 B", "3.4 KiB", "5.6 MiB".
std::string FormatBytes(double bytes);

}  // namespace tenon::cli

#endif  // TENON_CLI_TABLE_H_
