// SPDX-License-Identifier: Apache-2.0
// Base64, as the case files have it.
#ifndef TENON_TESTS_GOLDEN_BASE64_H_
#define TENON_TESTS_GOLDEN_BASE64_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace tenon::golden {

inline std::string FromBase64(std::string_view text) {
  static constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const size_t six = kDigits.find(c);
    if (six == kDigits.npos) break;  // padding
    bits = bits << 6 | static_cast<uint32_t>(six);
    count += 6;
    if (count >= 8) bytes += static_cast<char>(bits >> (count -= 8));
  }
  return bytes;
}

}  // namespace tenon::golden

#endif  // TENON_TESTS_GOLDEN_BASE64_H_
