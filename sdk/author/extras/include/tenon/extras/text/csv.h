// SPDX-License-Identifier: Apache-2.0
// The fields of a line of CSV (RFC 4180, as TensorFlow reads it): quoted or not, some of them or all.
#ifndef TENON_SDK_TEXT_CSV_H_
#define TENON_SDK_TEXT_CSV_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/tensor.h"

namespace tenon::sdk {

struct CsvRules {
  char delimiter = ',';
  bool quotes = true;           // a field may stand in quotes, where two are one
  std::vector<int64_t> columns;  // that are wanted, rising; empty: all
};

namespace csv {

inline bool IsLineEnd(char c) { return c == '\n' || c == '\r'; }

// The field that begins at line[*at]; moves *at behind it and its delimiter.
inline std::string_view TakeUnquoted(std::string_view line, const CsvRules& rules, size_t* at, const char** problem) {
  const size_t begin = *at;
  size_t end = begin;
  for (; end < line.size() && line[end] != rules.delimiter; ++end) {
    if (IsLineEnd(line[end]) || (rules.quotes && line[end] == '"'))
      *problem = "Unquoted fields cannot have quotes/CRLFs inside";
  }
  *at = end + 1;
  return line.substr(begin, end - begin);
}

// The same of one behind its first quote. escaped: it holds two quotes that are one.
inline std::string_view TakeQuoted(std::string_view line, const CsvRules& rules, size_t* at, bool* escaped,
                                   const char** problem) {
  const size_t begin = *at;
  size_t end = begin;
  for (; end < line.size(); ++end) {
    if (line[end] != '"') continue;
    if (end + 1 == line.size() || line[end + 1] == rules.delimiter) break;
    if (line[end + 1] != '"') {
      *problem = "Quote inside a string has to be escaped by another quote";
      break;
    }
    *escaped = true;
    ++end;
  }
  if (end >= line.size()) *problem = "Quoted field has to end with quote followed by delim or end";
  *at = end + 2;
  return line.substr(begin, std::min(end, line.size()) - begin);
}

inline std::string Unescaped(std::string_view field) {
  std::string text;
  text.reserve(field.size());
  for (size_t i = 0; i < field.size(); ++i) {
    text += field[i];
    if (field[i] == '"') ++i;
  }
  return text;
}

}  // namespace csv

// Appends at most `most` of the wanted fields, and gives how many there are. Views are of the line, or of a text that
// is added to `unquoted`. Line ends before a field are stepped over. problem: what is wrong with the line, else NULL.
inline size_t SplitCsv(std::string_view line, const CsvRules& rules, size_t most, std::vector<std::string_view>* fields,
                       std::deque<std::string>* unquoted, const char** problem) {
  *problem = nullptr;
  size_t at = 0, found = 0;
  int64_t number = 0;
  const auto wanted = [&] {
    return rules.columns.empty() || (found < rules.columns.size() && rules.columns[found] == number);
  };
  const auto add = [&](std::string_view field) {
    if (found++ < most) fields->push_back(field);
  };
  while (at < line.size() && *problem == nullptr) {
    if (csv::IsLineEnd(line[at])) {
      ++at;
      continue;
    }
    bool escaped = false;
    std::string_view field;
    if (rules.quotes && line[at] == '"') field = csv::TakeQuoted(line, rules, &++at, &escaped, problem);
    else field = csv::TakeUnquoted(line, rules, &at, problem);
    if (wanted()) {
      if (escaped && found < most) field = unquoted->emplace_back(csv::Unescaped(field));
      add(field);
      if (found == rules.columns.size()) return found;
    }
    ++number;
  }
  // An empty field behind the last delimiter.
  if (*problem == nullptr && !line.empty() && line.back() == rules.delimiter && wanted()) add({});
  return found;
}

// function(T{}) of a column's type, which is one of float, double, int32, int64 and string (std::string_view).
template <class Function>
void DispatchCsvType(uint32_t dtype, Function&& function) {
  switch (dtype) {
    case TENON_DT_FLOAT: return function(float{});
    case TENON_DT_DOUBLE: return function(double{});
    case TENON_DT_INT32: return function(int32_t{});
    case TENON_DT_INT64: return function(int64_t{});
    default: return function(std::string_view{});
  }
}

}  // namespace tenon::sdk
#endif  // TENON_SDK_TEXT_CSV_H_
