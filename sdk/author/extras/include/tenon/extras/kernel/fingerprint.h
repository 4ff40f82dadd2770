// SPDX-License-Identifier: Apache-2.0
// FarmHash's 64-bit fingerprint of a text, which is fixed for all time, so that what one program trained serves
// another.
//
// Texts up to 16, 32 and 64 bytes have formulas of their own; a longer one goes through in blocks of 64, the last of
// which ends where the text ends.
#ifndef TENON_SDK_KERNEL_FINGERPRINT_H_
#define TENON_SDK_KERNEL_FINGERPRINT_H_

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

namespace tenon::sdk {

namespace fingerprint {

inline constexpr uint64_t kA = 0xc3a5c85c97cb3127, kB = 0xb492b66fbe98f273, kC = 0x9ae16a3b2f90404f;

template <class T = uint64_t>
inline uint64_t Load(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}
inline uint64_t Turn(uint64_t value, int by) { return std::rotr(value, by); }
inline uint64_t Fold(uint64_t value) { return value ^ (value >> 47); }

// Two numbers into one.
inline uint64_t Mix(uint64_t first, uint64_t second, uint64_t factor) {
  const uint64_t once = Fold((first ^ second) * factor);
  return Fold((second ^ once) * factor) * factor;
}

inline uint64_t UpTo16(const char* text, uint64_t size) {
  const uint64_t factor = kC + size * 2;
  if (size >= 8) {
    const uint64_t begin = Load(text) + kC, end = Load(text + size - 8);
    return Mix(Turn(end, 37) * factor + begin, (Turn(begin, 25) + end) * factor, factor);
  }
  if (size >= 4) return Mix(size + (Load<uint32_t>(text) << 3), Load<uint32_t>(text + size - 4), factor);
  if (size == 0) return kC;
  const uint64_t low = Load<uint8_t>(text) + (Load<uint8_t>(text + size / 2) << 8);
  const uint64_t high = size + (Load<uint8_t>(text + size - 1) << 2);
  return Fold((low * kC) ^ (high * kA)) * kC;
}

// The first two words and the last two, with what they are multiplied by.
struct Ends {
  Ends(const char* text, uint64_t size, uint64_t of_first)
      : factor(kC + size * 2),
        first(Load(text) * of_first),
        second(Load(text + 8)),
        last(Load(text + size - 8) * factor),
        before(Load(text + size - 16) * kC) {}
  uint64_t high() const { return Turn(first + second, 43) + Turn(last, 30) + before; }
  uint64_t low() const { return first + Turn(second + kC, 18) + last; }
  uint64_t factor, first, second, last, before;
};

inline uint64_t UpTo32(const char* text, uint64_t size) {
  const Ends ends(text, size, kB);
  return Mix(ends.high(), ends.low(), ends.factor);
}

inline uint64_t UpTo64(const char* text, uint64_t size) {
  const Ends ends(text, size, kC);
  const uint64_t factor = ends.factor, high = ends.high(), both = Mix(high, ends.low(), factor);
  const uint64_t third = Load(text + 16) * factor, fourth = Load(text + 24);
  const uint64_t from_high = (high + Load(text + size - 32)) * factor,
                 from_both = (both + Load(text + size - 24)) * factor;
  return Mix(Turn(third + fourth, 43) + Turn(from_high, 30) + from_both,
             third + Turn(fourth + ends.first, 18) + from_high, factor);
}

struct Pair {
  uint64_t first = 0, second = 0;
};

// 32 bytes and two numbers into two.
inline Pair Stir(const char* text, uint64_t a, uint64_t b) {
  const uint64_t last = Load(text + 24);
  a += Load(text);
  const uint64_t begin = a;
  b = Turn(b + a + last, 21);
  a += Load(text + 8) + Load(text + 16);
  return {a + last, b + Turn(a, 44) + begin};
}

struct Blocks {
  // One block of 64 bytes; the last one weighs some of it by nine.
  void Take(const char* text, uint64_t factor, uint64_t weight) {
    x = Turn(x + y + v.first + Load(text + 8), 37) * factor;
    y = Turn(y + v.second + Load(text + 48), 42) * factor;
    x ^= w.second * weight;
    y += v.first * weight + Load(text + 40);
    z = Turn(z + w.first, 33) * factor;
    v = Stir(text, v.second * factor, x + w.first);
    w = Stir(text + 32, z + w.second, y + Load(text + 16));
    std::swap(z, x);
  }
  uint64_t x, y, z;
  Pair v, w;
};

inline uint64_t Longer(const char* text, uint64_t size) {
  constexpr uint64_t kSeed = 81, kStart = kSeed * kB + 113;
  Blocks blocks{kSeed * kC + Load(text), kStart, Fold(kStart * kC + 113) * kC, {}, {}};
  const uint64_t rest = (size - 1) % 64;
  for (const char* end = text + (size - 1 - rest); text != end; text += 64) blocks.Take(text, kB, 1);
  const uint64_t factor = kB + ((blocks.z & 0xff) << 1);
  blocks.w.first += rest;
  blocks.v.first += blocks.w.first;
  blocks.w.first += blocks.v.first;
  blocks.Take(text + rest + 1 - 64, factor, 9);
  return Mix(Mix(blocks.v.first, blocks.w.first, factor) + Fold(blocks.y) * kA + blocks.z,
             Mix(blocks.v.second, blocks.w.second, factor) + blocks.x, factor);
}

}  // namespace fingerprint

inline uint64_t Fingerprint(std::string_view text) {
  using namespace fingerprint;
  if (text.size() <= 16) return UpTo16(text.data(), text.size());
  if (text.size() <= 32) return UpTo32(text.data(), text.size());
  return text.size() <= 64 ? UpTo64(text.data(), text.size()) : Longer(text.data(), text.size());
}

}  // namespace tenon::sdk
#endif  // TENON_SDK_KERNEL_FINGERPRINT_H_
