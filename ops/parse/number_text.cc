// SPDX-License-Identifier: Apache-2.0
#include "number_text.h"

#include <clocale>
#include <cstdlib>
#include <string>

namespace tenon::ops::parse {

namespace {

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

}  // namespace

bool ReadOddReal(std::string_view text, float* value) { return ReadWith(text, value, &strtof_l); }
bool ReadOddReal(std::string_view text, double* value) { return ReadWith(text, value, &strtod_l); }

}  // namespace tenon::ops::parse
