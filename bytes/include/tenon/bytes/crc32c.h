// SPDX-License-Identifier: Apache-2.0
// CRC-32C (Castagnoli), as TensorFlow's checkpoints, records and event files use it, plain and masked.
//
// The processor's own instruction where the machine has it (asked at run time), else tables.
#ifndef TENON_SDK_CRC32C_H_
#define TENON_SDK_CRC32C_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace tenon::sdk {

namespace internal {

using Crc32cTables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Crc32cTables MakeCrc32cTables() {
  Crc32cTables tables{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
    tables[0][i] = crc;
  }
  for (size_t table = 1; table < 8; ++table) {
    for (size_t i = 0; i < 256; ++i) {
      const uint32_t crc = tables[table - 1][i];
      tables[table][i] = (crc >> 8) ^ tables[0][crc & 0xff];
    }
  }
  return tables;
}

inline constexpr Crc32cTables kCrc32cTables = MakeCrc32cTables();

// On the inverted register.
inline uint32_t Crc32cByTable(uint32_t crc, const unsigned char* data, size_t size) {
  const Crc32cTables& t = kCrc32cTables;
  for (; size >= 8; size -= 8, data += 8) {
    uint32_t low = 0, high = 0;
    std::memcpy(&low, data, 4);
    std::memcpy(&high, data + 4, 4);
    low ^= crc;
    crc = t[7][low & 0xff] ^ t[6][(low >> 8) & 0xff] ^ t[5][(low >> 16) & 0xff] ^ t[4][low >> 24] ^ t[3][high & 0xff] ^
          t[2][(high >> 8) & 0xff] ^ t[1][(high >> 16) & 0xff] ^ t[0][high >> 24];
  }
  for (; size > 0; --size, ++data) crc = (crc >> 8) ^ t[0][(crc ^ *data) & 0xff];
  return crc;
}

// What kBytes zeros (a power of two) make of the inverted register: the xor of what they make of each of its bytes.
using Crc32cShift = std::array<std::array<uint32_t, 256>, 4>;

template <size_t kBytes>
constexpr Crc32cShift MakeCrc32cShift() {
  std::array<uint32_t, 32> bits{};  // what becomes of each bit
  const auto apply = [&bits](uint32_t crc) {
    uint32_t shifted = 0;
    for (size_t bit = 0; bit < 32; ++bit) shifted ^= (crc >> bit & 1) != 0 ? bits[bit] : 0u;
    return shifted;
  };
  for (size_t bit = 0; bit < 32; ++bit) {
    const uint32_t crc = uint32_t{1} << bit;
    bits[bit] = (crc >> 8) ^ kCrc32cTables[0][crc & 0xff];
  }
  for (size_t bytes = 1; bytes < kBytes; bytes *= 2) {
    std::array<uint32_t, 32> twice{};
    for (size_t bit = 0; bit < 32; ++bit) twice[bit] = apply(bits[bit]);
    bits = twice;
  }
  Crc32cShift shift{};
  for (size_t byte = 0; byte < 4; ++byte)
    for (uint32_t value = 0; value < 256; ++value) shift[byte][value] = apply(value << (8 * byte));
  return shift;
}

template <size_t kBytes>
inline constexpr Crc32cShift kCrc32cShift = MakeCrc32cShift<kBytes>();

#if defined(__x86_64__)
// Three parts of kBytes at once, as long as there are three: an instruction waits for the one before it, and between
// them there is time for two more.
template <size_t kBytes>
__attribute__((target("sse4.2"))) inline uint32_t Crc32cOfThrees(uint32_t crc, const unsigned char*& data,
                                                                 size_t& size) {
  const auto shifted = [](uint64_t value) {
    const Crc32cShift& s = kCrc32cShift<kBytes>;
    return s[0][value & 0xff] ^ s[1][value >> 8 & 0xff] ^ s[2][value >> 16 & 0xff] ^ s[3][value >> 24 & 0xff];
  };
  for (; size >= 3 * kBytes; size -= 3 * kBytes, data += 3 * kBytes) {
    uint64_t first = crc, second = 0, third = 0;
    for (size_t i = 0; i < kBytes; i += 8) {
      uint64_t words[3];
      std::memcpy(&words[0], data + i, 8);
      std::memcpy(&words[1], data + i + kBytes, 8);
      std::memcpy(&words[2], data + i + 2 * kBytes, 8);
      first = _mm_crc32_u64(first, words[0]);
      second = _mm_crc32_u64(second, words[1]);
      third = _mm_crc32_u64(third, words[2]);
    }
    crc = shifted(shifted(first) ^ second) ^ static_cast<uint32_t>(third);
  }
  return crc;
}

__attribute__((target("sse4.2"))) inline uint32_t Crc32cByInstruction(uint32_t crc, const unsigned char* data,
                                                                      size_t size) {
  if (size >= 3 * 256) {
    crc = Crc32cOfThrees<2048>(crc, data, size);
    crc = Crc32cOfThrees<256>(crc, data, size);
  }
  uint64_t wide = crc;
  for (; size >= 8; size -= 8, data += 8) {
    uint64_t word = 0;
    std::memcpy(&word, data, 8);
    wide = _mm_crc32_u64(wide, word);
  }
  crc = static_cast<uint32_t>(wide);
  for (; size > 0; --size, ++data) crc = _mm_crc32_u8(crc, *data);
  return crc;
}
#endif

}  // namespace internal

// The checksum of what `crc` is the checksum of, followed by the data. Begins with 0.
inline uint32_t ExtendCrc32c(uint32_t crc, const void* data, size_t size) {
  const auto* bytes = static_cast<const unsigned char*>(data);
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return ~internal::Crc32cByInstruction(~crc, bytes, size);
#endif
  return ~internal::Crc32cByTable(~crc, bytes, size);
}
inline uint32_t Crc32c(std::string_view data) { return ExtendCrc32c(0, data.data(), data.size()); }

// Checksums that are stored beside their data are masked, so that a checksum over them stays useful.
constexpr uint32_t MaskCrc32c(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }
constexpr uint32_t UnmaskCrc32c(uint32_t masked) {
  const uint32_t rotated = masked - 0xa282ead8u;
  return (rotated >> 17) | (rotated << 15);
}

}  // namespace tenon::sdk
#endif  // TENON_SDK_CRC32C_H_
