// SPDX-License-Identifier: Apache-2.0
// Tables as text: columns as wide as their widest cell, the last one as it comes.
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
  // indent: spaces before each line.
  std::string Format(int indent = 0) const;

 private:
  std::vector<std::vector<std::string>> rows_;  // the first is the heads
};

// "12 B", "3.4 KiB", "5.6 MiB".
std::string FormatBytes(double bytes);

}  // namespace tenon::cli

#endif  // TENON_CLI_TABLE_H_
