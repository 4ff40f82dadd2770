// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/model/text_scanner.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace tenon::model {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f'; }

int HexDigit(char c) {
  if (IsDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

void AppendUtf8(uint32_t code, std::string* out) {
  if (code < 0x80) {
    out->push_back(static_cast<char>(code));
    return;
  }
  const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  constexpr uint32_t kFirst[] = {0, 0xc0, 0xe0, 0xf0};
  out->push_back(static_cast<char>(kFirst[more] | code >> (6 * more)));
  for (int i = more - 1; i >= 0; --i) out->push_back(static_cast<char>(0x80 | (code >> (6 * i) & 0x3f)));
}

// Up to `most` digits of a base at `at`; false when there is none.
bool TakeDigits(std::string_view text, size_t* at, int most, int base, uint32_t* out) {
  *out = 0;
  int count = 0;
  for (; count < most && *at < text.size(); ++count, ++*at) {
    const int digit = HexDigit(text[*at]);
    if (digit < 0 || digit >= base) break;
    *out = *out * static_cast<uint32_t>(base) + static_cast<uint32_t>(digit);
  }
  return count > 0;
}

// What a letter after a backslash stands for; '\0' when it is none of them.
char SimpleEscape(char c) {
  constexpr std::string_view kLetters = "abfnrtv\\'\"?", kBytes = "\a\b\f\n\r\t\v\\'\"?";
  const size_t found = kLetters.find(c);
  return found == std::string_view::npos ? '\0' : kBytes[found];
}

// The escape whose letter stands at `at`.
bool AppendEscape(std::string_view text, size_t* at, std::string* out) {
  const char letter = text[*at];
  uint32_t code = 0;
  if (IsDigit(letter)) {
    if (!TakeDigits(text, at, 3, 8, &code) || code > 255) return false;
    out->push_back(static_cast<char>(code));
    return true;
  }
  ++*at;
  if (const char byte = SimpleEscape(letter); byte != '\0') {
    out->push_back(byte);
    return true;
  }
  switch (letter) {
    case 'x':
    case 'X':
      if (!TakeDigits(text, at, 2, 16, &code)) return false;
      out->push_back(static_cast<char>(code));
      return true;
    case 'u':
    case 'U':
      if (!TakeDigits(text, at, letter == 'u' ? 4 : 8, 16, &code) || code > 0x10ffff) return false;
      AppendUtf8(code, out);
      return true;
    default:
      return false;
  }
}

}  // namespace

void TextScanner::SkipSpace() {
  while (begin_ < text_.size()) {
    if (text_[begin_] == '#') begin_ = std::min(text_.find('\n', begin_), text_.size());
    else if (IsSpace(text_[begin_])) ++begin_;
    else return;
  }
}

// Behind the closing quote; 0 when there is none on the line.
size_t TextScanner::EndOfString() const {
  const char quote = text_[begin_];
  for (size_t at = begin_ + 1; at < text_.size() && text_[at] != '\n'; ++at) {
    if (text_[at] == quote) return at + 1;
    if (text_[at] == '\\') ++at;
  }
  return 0;
}

void TextScanner::Next() {
  begin_ = end_;
  SkipSpace();
  end_ = begin_;
  if (begin_ == text_.size()) {
    kind_ = Kind::kEnd;
    return;
  }
  const char c = text_[begin_];
  const bool fraction = c == '.' && begin_ + 1 < text_.size() && IsDigit(text_[begin_ + 1]);
  if (IsLetter(c)) {
    kind_ = Kind::kName;
    while (end_ < text_.size() && (IsLetter(text_[end_]) || IsDigit(text_[end_]))) ++end_;
  } else if (IsDigit(c) || fraction) {
    kind_ = Kind::kNumber;
    const auto exponent = [&] {
      return (text_[end_] == '+' || text_[end_] == '-') && (text_[end_ - 1] == 'e' || text_[end_ - 1] == 'E');
    };
    while (end_ < text_.size() && (IsLetter(text_[end_]) || IsDigit(text_[end_]) || text_[end_] == '.' || exponent()))
      ++end_;
  } else if (c == '"' || c == '\'') {
    const size_t end = EndOfString();
    kind_ = end == 0 ? Kind::kBad : Kind::kString;
    end_ = end == 0 ? begin_ + 1 : end;
  } else {
    kind_ = std::string_view("{}<>[]:,;-./").find(c) == std::string_view::npos ? Kind::kBad : Kind::kSign;
    end_ = begin_ + 1;
  }
}

bool TextScanner::Take(char sign) {
  if (!Is(sign)) return false;
  Next();
  return true;
}

Status TextScanner::Error(std::string_view text) const {
  const std::string_view before = text_.substr(0, begin_);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t newline = before.rfind('\n');
  const size_t column = newline == std::string_view::npos ? begin_ + 1 : begin_ - newline;
  return Status(Code::kInvalidArgument,
                "line " + std::to_string(line) + ", column " + std::to_string(column) + ": " + std::string(text));
}

Status TextScanner::Expected(std::string_view what) const {
  std::string found = "the end of the text";
  if (kind_ == Kind::kBad && !word().empty() && (word()[0] == '"' || word()[0] == '\''))
    found = "a string without an end";
  else if (kind_ != Kind::kEnd) found = "'" + std::string(word().substr(0, 40)) + "'";
  return Error("expected " + std::string(what) + ", found " + found);
}

bool TextScanner::Integer(uint64_t* out) const {
  std::string_view digits = word();
  int base = 10;
  if (digits.starts_with("0x") || digits.starts_with("0X")) {
    base = 16;
    digits.remove_prefix(2);
  } else if (digits.size() > 1 && digits[0] == '0') {
    base = 8;
    digits.remove_prefix(1);
  }
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), *out, base);
  return kind_ == Kind::kNumber && error == std::errc() && end == digits.data() + digits.size();
}

template <typename T>
bool TextScanner::Real(T* out) const {
  std::string_view digits = word();
  if (kind_ == Kind::kName) {
    std::string lower(digits);
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    if (lower == "inf" || lower == "infinity" || lower == "inff") *out = std::numeric_limits<T>::infinity();
    else if (lower == "nan" || lower == "nanf") *out = std::numeric_limits<T>::quiet_NaN();
    else return false;
    return true;
  }
  if (kind_ != Kind::kNumber) return false;
  if (uint64_t integer = 0; Integer(&integer) && digits.find_first_of("xX") != std::string_view::npos) {
    *out = static_cast<T>(integer);
    return true;
  }
  if (digits.ends_with('f') || digits.ends_with('F')) digits.remove_suffix(1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), *out);
  if (end != digits.data() + digits.size()) return false;
  if (error == std::errc::result_out_of_range) {
    // Too small is zero and too large is infinity, as when a compiler reads it; the exponent's sign tells which.
    const size_t exponent = digits.find_first_of("eE");
    const bool tiny = exponent != std::string_view::npos ? digits[exponent + 1] == '-'
                                                         : digits.starts_with("0.") || digits.starts_with('.');
    *out = tiny ? T{0} : std::numeric_limits<T>::infinity();
    return true;
  }
  return error == std::errc();
}

template bool TextScanner::Real(float* out) const;
template bool TextScanner::Real(double* out) const;

bool TextScanner::AppendString(std::string* out) const {
  const std::string_view inside = word().substr(1, word().size() - 2);
  for (size_t at = 0; at < inside.size();) {
    if (inside[at] != '\\') {
      const size_t end = std::min(inside.find('\\', at), inside.size());
      out->append(inside.substr(at, end - at));
      at = end;
      continue;
    }
    if (++at >= inside.size() || !AppendEscape(inside, &at, out)) return false;
  }
  return true;
}

}  // namespace tenon::model
