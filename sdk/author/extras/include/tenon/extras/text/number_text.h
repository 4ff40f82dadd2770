// SPDX-License-Identifier: Apache-2.0
// Numbers in texts, as TensorFlow reads them: white space around, a sign, and nothing else but the number. Whole
// numbers are decimal and must fit; real ones may be hexadecimal, "inf", "infinity" and "nan" in any case, and are the
// nearest there is, infinite or zero where they are too large or too small.
#ifndef TENON_SDK_TEXT_NUMBER_TEXT_H_
#define TENON_SDK_TEXT_NUMBER_TEXT_H_

#include <charconv>
#include <clocale>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace tenon::sdk {

inline std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  const size_t first = text.find_first_not_of(kSpace);
  return first == std::string_view::npos ? std::string_view()
                                         : text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

namespace number_text {

template <class T, class Read>
bool ReadWith(std::string_view text, T* value, Read read) {
  static const locale_t plain = newlocale(LC_ALL_MASK, "C", nullptr);
  if (text.empty() || plain == nullptr) return false;
  // White space was taken off; the C library would take more behind a sign, or none.
  if (std::string_view(" \t\n\v\f\r").find(text[0]) != std::string_view::npos) return false;
  const std::string ended(text);
  char* end = nullptr;
  *value = read(ended.c_str(), &end, plain);
  return end == ended.c_str() + ended.size();
}

}  // namespace number_text

// Where from_chars does not say what a text is (too large, too small, hexadecimal, no number); the C library's answer,
// whatever the locale.
inline bool ReadOddReal(std::string_view text, float* value) { return number_text::ReadWith(text, value, &strtof_l); }
inline bool ReadOddReal(std::string_view text, double* value) { return number_text::ReadWith(text, value, &strtod_l); }

// False: it is no such number.
template <class T>
bool ReadNumber(std::string_view text, T* value) {
  // All white space is ' ' or below.
  if (!text.empty() &&
      (static_cast<unsigned char>(text.front()) <= ' ' || static_cast<unsigned char>(text.back()) <= ' '))
    text = Trimmed(text);
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-') || text.starts_with('+')) return false;
  }
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, *value);
  if (error == std::errc() && at == end) return true;
  if constexpr (std::is_floating_point_v<T>) return ReadOddReal(text, value);
  return false;
}

}  // namespace tenon::sdk
#endif  // TENON_SDK_TEXT_NUMBER_TEXT_H_
