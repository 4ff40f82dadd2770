// SPDX-License-Identifier: Apache-2.0
// A small scanner for the texts of op definitions: names, numbers, quoted strings, punctuation.
#ifndef TENON_CORE_GRAPH_TEXT_SCANNER_H_
#define TENON_CORE_GRAPH_TEXT_SCANNER_H_

#include <cctype>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/status.h"

namespace tenon::graph {

class TextScanner {
 public:
  explicit TextScanner(std::string_view text) : rest_(text), all_(text) { Skip(); }

  bool done() const { return rest_.empty(); }
  // Takes the literal when it stands next.
  bool Take(std::string_view literal) {
    if (rest_.substr(0, literal.size()) != literal) return false;
    rest_.remove_prefix(literal.size());
    Skip();
    return true;
  }
  bool Peek(std::string_view literal) const { return rest_.substr(0, literal.size()) == literal; }
  // A name [A-Za-z_][A-Za-z0-9_]*, or empty.
  std::string TakeName() {
    size_t size = 0;
    while (size < rest_.size() && (std::isalpha(static_cast<unsigned char>(rest_[size])) || rest_[size] == '_' ||
                                   (size > 0 && std::isdigit(static_cast<unsigned char>(rest_[size])))))
      ++size;
    std::string name(rest_.substr(0, size));
    rest_.remove_prefix(size);
    Skip();
    return name;
  }
  std::optional<int64_t> TakeInt() {
    int64_t value = 0;
    const char* begin = rest_.data();
    auto [end, error] = std::from_chars(begin, begin + rest_.size(), value);
    if (error != std::errc()) return std::nullopt;
    rest_.remove_prefix(end - begin);
    Skip();
    return value;
  }
  std::optional<double> TakeFloat() {
    double value = 0;
    const char* begin = rest_.data();
    auto [end, error] = std::from_chars(begin, begin + rest_.size(), value);
    if (error != std::errc()) return std::nullopt;
    rest_.remove_prefix(end - begin);
    Skip();
    return value;
  }
  // 'text' or "text", without escapes.
  std::optional<std::string> TakeQuoted() {
    if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"')) return std::nullopt;
    const size_t end = rest_.find(rest_[0], 1);
    if (end == std::string_view::npos) return std::nullopt;
    std::string text(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    Skip();
    return text;
  }
  // An error that shows where it went wrong.
  Status Error(std::string_view expected) const {
    return InvalidArgument(StrCat("expected ", expected, " before '", rest_.substr(0, 24), "' in '", all_, "'"));
  }

 private:
  void Skip() {
    while (!rest_.empty() && std::isspace(static_cast<unsigned char>(rest_[0]))) rest_.remove_prefix(1);
  }
  std::string_view rest_;
  std::string_view all_;
};

}  // namespace tenon::graph

#endif  // TENON_CORE_GRAPH_TEXT_SCANNER_H_
