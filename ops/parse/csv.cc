// SPDX-License-Identifier: Apache-2.0
#include "csv.h"

namespace tenon::ops::parse {

namespace {

bool IsLineEnd(char c) { return c == '\n' || c == '\r'; }

// The field that begins at line[*at]; moves *at behind it and its delimiter.
std::string_view TakeUnquoted(std::string_view line, const CsvRules& rules, size_t* at, const char** problem) {
  const size_t begin = *at;
  size_t end = begin;
  for (; end < line.size() && line[end] != rules.delimiter; ++end) {
    if (IsLineEnd(line[end]) || (rules.quotes && line[end] == '"')) *problem = "Unquoted fields cannot have quotes/CRLFs inside";
  }
  *at = end + 1;
  return line.substr(begin, end - begin);
}

// The same of one behind its first quote. escaped: it holds two quotes that are one.
std::string_view TakeQuoted(std::string_view line, const CsvRules& rules, size_t* at, bool* escaped, const char** problem) {
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

std::string Unescaped(std::string_view field) {
  std::string text;
  text.reserve(field.size());
  for (size_t i = 0; i < field.size(); ++i) {
    text += field[i];
    if (field[i] == '"') ++i;
  }
  return text;
}

}  // namespace

size_t SplitCsv(std::string_view line, const CsvRules& rules, size_t most, std::vector<std::string_view>* fields, std::deque<std::string>* unquoted, const char** problem) {
  *problem = nullptr;
  size_t at = 0, found = 0;
  int64_t number = 0;
  const auto wanted = [&] { return rules.columns.empty() || (found < rules.columns.size() && rules.columns[found] == number); };
  const auto add = [&](std::string_view field) {
    if (found++ < most) fields->push_back(field);
  };
  while (at < line.size() && *problem == nullptr) {
    if (IsLineEnd(line[at])) {
      ++at;
      continue;
    }
    bool escaped = false;
    std::string_view field;
    if (rules.quotes && line[at] == '"') field = TakeQuoted(line, rules, &++at, &escaped, problem);
    else field = TakeUnquoted(line, rules, &at, problem);
    if (wanted()) {
      if (escaped && found < most) field = unquoted->emplace_back(Unescaped(field));
      add(field);
      if (found == rules.columns.size()) return found;
    }
    ++number;
  }
  // An empty field behind the last delimiter.
  if (*problem == nullptr && !line.empty() && line.back() == rules.delimiter && wanted()) add({});
  return found;
}

}  // namespace tenon::ops::parse
