// SPDX-License-Identifier: Apache-2.0
// Tables as text: columns as wide as their widest cell, the last one as it comes; on a terminal, no wider than it is.
#ifndef TENON_CLI_TABLE_H_
#define TENON_CLI_TABLE_H_

#include <string>
#include <vector>

namespace tenon::cli {

class Table {
 public:
  explicit Table(std::vector<std::string> heads);
  // As many cells as heads; they may hold what strangers wrote (line/printable.h).
  void Add(std::vector<std::string> cells);
  // indent: spaces before each line. width: of the lines at most, by columns that keep the ends of their cells, and a
  // last one that goes on in further lines; 0: as wide as it comes.
  std::string Format(size_t indent = 0, size_t width = 0) const;
  // On standard output, for the terminal that it is.
  void Print(size_t indent = 0) const;

 private:
  std::vector<size_t> Widths() const;
  std::vector<size_t> Fitting(size_t room) const;

  std::vector<std::vector<std::string>> rows_;  // the first is the heads
};

// "12 B", "3.4 KiB", "5.6 MiB".
std::string FormatBytes(double bytes);

}  // namespace tenon::cli

#endif  // TENON_CLI_TABLE_H_
