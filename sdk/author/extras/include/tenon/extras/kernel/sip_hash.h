// SPDX-License-Identifier: Apache-2.0
// SipHash-2-4 of a text with a key of two numbers: who does not know the key cannot steer what it gives.
#ifndef TENON_SDK_KERNEL_SIP_HASH_H_
#define TENON_SDK_KERNEL_SIP_HASH_H_

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace tenon::sdk {

// The bytes at `from`, eight at most, as a number whose other bytes are zero.
inline uint64_t WordAt(const char* from, size_t bytes = 8) {
  uint64_t word = 0;
  std::memcpy(&word, from, bytes);
  return word;
}

// Of one text.
struct SipHash {
  SipHash(uint64_t first, uint64_t second)
      : a(first ^ 0x736f6d6570736575),
        b(second ^ 0x646f72616e646f6d),
        c(first ^ 0x6c7967656e657261),
        d(second ^ 0x7465646279746573) {}
  void Round() {
    a += b;
    c += d;
    b = std::rotl(b, 13) ^ a;
    d = std::rotl(d, 16) ^ c;
    a = std::rotl(a, 32) + d;
    c += b;
    d = std::rotl(d, 21) ^ a;
    b = std::rotl(b, 17) ^ c;
    c = std::rotl(c, 32);
  }
  void Take(uint64_t word) {
    d ^= word;
    Round();
    Round();
    a ^= word;
  }
  uint64_t Of(std::string_view text) {
    const size_t whole = text.size() & ~size_t{7};
    for (size_t i = 0; i < whole; i += 8) Take(WordAt(text.data() + i));
    Take(static_cast<uint64_t>(text.size()) << 56 |
         (whole == text.size() ? 0 : WordAt(text.data() + whole, text.size() - whole)));
    c ^= 0xff;
    for (int i = 0; i < 4; ++i) Round();
    return a ^ b ^ c ^ d;
  }
  uint64_t a, b, c, d;
};

}  // namespace tenon::sdk
#endif  // TENON_SDK_KERNEL_SIP_HASH_H_
