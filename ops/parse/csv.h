// SPDX-License-Identifier: Apache-2.0
// The fields of a line of CSV (RFC 4180, as TensorFlow reads it): quoted or not, some of them or all.
#ifndef TENON_OPS_PARSE_CSV_H_
#define TENON_OPS_PARSE_CSV_H_

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::ops::parse {

struct CsvRules {
  char delimiter = ',';
  bool quotes = true;           // a field may stand in quotes, where two are one
  std::vector<int64_t> columns;  // that are wanted, rising; empty: all
};

// Appends at most `most` of the wanted fields, and gives how many there are. Views are of the line, or of a text that is added to `unquoted`. Line ends before a field are stepped over.
// problem: what is wrong with the line, else NULL.
size_t SplitCsv(std::string_view line, const CsvRules& rules, size_t most, std::vector<std::string_view>* fields, std::deque<std::string>* unquoted, const char** problem);

}  // namespace tenon::ops::parse

#endif  // TENON_OPS_PARSE_CSV_H_
