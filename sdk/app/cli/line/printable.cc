// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/line/printable.h"

#include <fmt/format.h>

#include <cstdint>

namespace tenon::cli {
namespace {

// Of a first byte; 0: no character begins with it.
size_t SizeByFirst(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first < 0xe0) return 2;
  if (first >= 0xe0 && first < 0xf0) return 3;
  return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

uint32_t Decode(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  uint32_t code = character.size() == 1 ? first : first & (0xffu >> (character.size() + 1));
  for (size_t i = 1; i < character.size(); ++i) code = code << 6 | (static_cast<unsigned char>(character[i]) & 0x3fu);
  return code;
}

// Written longer than need be, half of a pair, or beyond the last one.
bool IsCharacter(uint32_t code, size_t size) {
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  return code >= kLeast[size] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
}

// C0, C1, and what turns the direction of the text around it.
bool IsControl(uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0x2028 && code <= 0x202e) ||
         (code >= 0x2066 && code <= 0x2069);
}

}  // namespace

size_t CharacterSize(std::string_view text) {
  const size_t size = text.empty() ? 0 : SizeByFirst(static_cast<unsigned char>(text[0]));
  if (size == 0 || size > text.size()) return 0;
  for (size_t i = 1; i < size; ++i)
    if ((text[i] & 0xc0) != 0x80) return 0;
  return IsCharacter(Decode(text.substr(0, size)), size) ? size : 0;
}

std::string Printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t size = CharacterSize(text);
    const std::string_view piece = text.substr(0, size == 0 ? 1 : size);
    if (size > 0 && !IsControl(Decode(piece)))
      out += piece;
    else
      for (char byte : piece) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
    text.remove_prefix(piece.size());
  }
  return out;
}

}  // namespace tenon::cli
