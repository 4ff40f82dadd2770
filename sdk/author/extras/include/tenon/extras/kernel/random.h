// SPDX-License-Identifier: Apache-2.0
// TensorFlow's random streams: the generator, distributions, and the state of a stateful op.
//
// State is per kernel, not per run: every run reserves 256 blocks an element, as TensorFlow does, so that the next run
// starts where TensorFlow's would. An element's value depends on its index alone, whatever the threads or the device.
#ifndef TENON_SDK_KERNEL_RANDOM_H_
#define TENON_SDK_KERNEL_RANDOM_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>

#include "tenon/sdk/kernel/element.h"

namespace tenon::sdk {

// Philox4x32-10, the counter-based generator of TensorFlow's random ops (lib/random/philox_random.h), by Salmon,
// Moraes, Dror and Shaw ("Parallel random numbers: as easy as 1, 2, 3", 2011). A block is four words; block n of a key
// is a function of n alone, so that Skip costs nothing.
class Philox {
 public:
  using Block = std::array<uint32_t, 4>;

  // TensorFlow's seeding: the first seed is the key, the second the counter's upper half.
  constexpr Philox(uint64_t seed, uint64_t seed2)
      : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
        counter_{0, 0, static_cast<uint32_t>(seed2), static_cast<uint32_t>(seed2 >> 32)} {}
  constexpr Philox(std::array<uint32_t, 2> key, Block counter) : key_(key), counter_(counter) {}

  constexpr void Skip(uint64_t blocks) {
    const uint64_t low = counter_[0] | static_cast<uint64_t>(counter_[1]) << 32;
    const uint64_t sum = low + blocks;
    counter_[0] = static_cast<uint32_t>(sum);
    counter_[1] = static_cast<uint32_t>(sum >> 32);
    if (sum < low && ++counter_[2] == 0) ++counter_[3];
  }

  constexpr Block Next() {
    Block c = counter_;
    ForEachRound([&](uint32_t k0, uint32_t k1) { c = Round(c, k0, k1); });
    Skip(1);
    return c;
  }

  // Word w of the i-th of the next kMany blocks is words[w][i]: vectors of blocks, several times as fast as one by one.
  static constexpr size_t kMany = 64;
  using Many = std::array<std::array<uint32_t, kMany>, 4>;
  void NextMany(Many& words) {
    for (size_t i = 0; i < kMany; ++i) {
      Philox at = *this;
      at.Skip(i);
      Put(words, i, at.counter_);
    }
    ForEachRound([&](uint32_t k0, uint32_t k1) {
      for (size_t i = 0; i < kMany; ++i) Put(words, i, Round(Get(words, i), k0, k1));
    });
    Skip(kMany);
  }
  static Block Get(const Many& words, size_t i) { return {words[0][i], words[1][i], words[2][i], words[3][i]}; }

 private:
  static void Put(Many& words, size_t i, const Block& c) {
    for (size_t w = 0; w < 4; ++w) words[w][i] = c[w];
  }
  static constexpr Block Round(const Block& c, uint32_t k0, uint32_t k1) {
    const uint64_t p0 = UINT64_C(0xD2511F53) * c[0];
    const uint64_t p1 = UINT64_C(0xCD9E8D57) * c[2];
    return {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
            static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
  }
  template <class Function>
  constexpr void ForEachRound(const Function& function) const {
    uint32_t k0 = key_[0], k1 = key_[1];
    for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) function(k0, k1);
  }

  std::array<uint32_t, 2> key_;
  Block counter_;
};

inline constexpr uint64_t kReservedPerOutput = 256;  // blocks

// Uniform in [0, 1): the mantissa's bits (23, and 52 of a double) are random.
constexpr float UnitFloat(uint32_t x) { return std::bit_cast<float>((x & 0x7fffffu) | 0x3f800000u) - 1.0f; }
constexpr double UnitDouble(uint32_t x0, uint32_t x1) {
  const uint64_t mantissa = static_cast<uint64_t>(x0 & 0xfffffu) << 32 | x1;
  return std::bit_cast<double>(mantissa | UINT64_C(0x3ff0000000000000)) - 1.0;
}

// Two independent normal numbers of two uniform ones (Box and Muller, 1958): sqrt(-2 ln u) times sine and cosine of 2
// pi v. The epsilon keeps the logarithm finite.
template <class Real>
constexpr void BoxMuller(uint32_t x0, uint32_t x1, Real* f0, Real* f1) {
  const float u1 = std::max(UnitFloat(x0), 1.0e-7f);
  const auto v1 = static_cast<float>(2.0 * M_PI * static_cast<double>(UnitFloat(x1)));
  const float u2 = std::sqrt(-2.0f * std::log(u1));
  *f0 = std::sin(v1) * u2;
  *f1 = std::cos(v1) * u2;
}
template <class Real>
constexpr void BoxMuller(uint32_t x0, uint32_t x1, uint32_t x2, uint32_t x3, Real* d0, Real* d1) {
  const double u1 = std::max(UnitDouble(x0, x1), 1.0e-7);
  const double v1 = 2.0 * M_PI * UnitDouble(x2, x3);
  const double u2 = std::sqrt(-2.0 * std::log(u1));
  *d0 = std::sin(v1) * u2;
  *d1 = std::cos(v1) * u2;
}

// A distribution fills a group of kGroup<T> elements from one block; or, if there are several blocks between groups,
// from the generator standing at the group's first one.
template <class T>
constexpr int kGroup = sizeof(T) == 8 ? 2 : 4;

// In [0, 1).
struct Uniform {
  template <class T>
  static constexpr uint64_t kBlocks = 1;
  template <class T>
  constexpr void operator()(const Philox::Block& x, T* out) const {
    if constexpr (std::is_same_v<T, double>) {
      for (size_t i = 0; i < 2; ++i) out[i] = UnitDouble(x[2 * i], x[2 * i + 1]);
    } else {
      for (size_t i = 0; i < 4; ++i) out[i] = One<T>(x[i]);
    }
  }
  template <class T>
  static constexpr T One(uint32_t x) {
    if constexpr (std::is_same_v<T, float>) {
      return UnitFloat(x);
    } else {
      constexpr uint16_t kMantissa = std::is_same_v<T, Half> ? 0x3ff : 0x7f;
      constexpr uint16_t kOne = std::is_same_v<T, Half> ? 0x3c00 : 0x3f80;
      T value;
      value.bits = static_cast<uint16_t>((x & kMantissa) | kOne);
      return T(static_cast<float>(value) - 1.0f);
    }
  }
};

// Of mean 0 and deviation 1.
struct Normal {
  template <class T>
  static constexpr uint64_t kBlocks = 1;
  template <class T>
  constexpr void operator()(const Philox::Block& x, T* out) const {
    if constexpr (std::is_same_v<T, double>) {
      BoxMuller(x[0], x[1], x[2], x[3], &out[0], &out[1]);
    } else {
      for (size_t i = 0; i < 4; i += 2) {
        float f[2];
        BoxMuller(x[i], x[i + 1], &f[0], &f[1]);
        out[i] = T(f[0]);
        out[i + 1] = T(f[1]);
      }
    }
  }
};

// Normal, what lies beyond two standard deviations thrown away; each group has blocks enough of its own.
struct Truncated {
  template <class T>
  static constexpr uint64_t kBlocks = kGroup<T> * kReservedPerOutput / 4;
  template <class T>
  constexpr void operator()(Philox& generator, T* out) const {
    for (int found = 0; found < kGroup<T>;) {
      const Philox::Block x = generator.Next();
      if constexpr (std::is_same_v<T, double>) {
        double d[2];
        BoxMuller(x[0], x[1], x[2], x[3], &d[0], &d[1]);
        for (double v : d) {
          if (std::fabs(v) < 2.0 && found < kGroup<T>) out[found++] = v;
        }
      } else {
        for (size_t i = 0; i < 4; i += 2) {
          float f[2];
          BoxMuller(x[i], x[i + 1], &f[0], &f[1]);
          for (float v : f) {
            if (std::fabs(v) < 2.0f && found < kGroup<T>) out[found++] = T(v);
          }
        }
      }
    }
  }
};

// low + word % range: in [low, low + range), range not 0. As in TensorFlow, the lower numbers are more frequent by what
// 2^32 (or 2^64) leaves.
template <class T>
struct UniformInteger {
  using U = std::make_unsigned_t<T>;
  template <class>
  static constexpr uint64_t kBlocks = 1;
  constexpr void operator()(const Philox::Block& x, T* out) const {
    for (size_t i = 0; i < kGroup<T>; ++i) {
      const U bits =
          sizeof(T) == 4 ? static_cast<U>(x[i]) : static_cast<U>(x[2 * i] | static_cast<uint64_t>(x[2 * i + 1]) << 32);
      out[i] = static_cast<T>(static_cast<U>(low) + bits % range);
    }
  }
  T low;
  U range;
};

// All numbers of the type.
template <class T>
struct FullInteger {
  using U = std::make_unsigned_t<T>;
  template <class>
  static constexpr uint64_t kBlocks = 1;
  constexpr void operator()(const Philox::Block& x, T* out) const {
    for (size_t i = 0; i < kGroup<T>; ++i) {
      if constexpr (sizeof(T) == 4) out[i] = static_cast<T>(x[i]);
      else out[i] = static_cast<T>(x[2 * i] | static_cast<uint64_t>(x[2 * i + 1]) << 32);
    }
  }
};

// One number of a block after the other, as TensorFlow's SimplePhilox gives them.
class Numbers32 {
 public:
  explicit Numbers32(Philox generator) : generator_(generator) {}
  uint32_t Next() {
    if (used_ == 4) block_ = generator_.Next(), used_ = 0;
    return block_[used_++];
  }
  uint64_t Next64() {
    const uint64_t low = Next();
    return low | static_cast<uint64_t>(Next()) << 32;
  }
  float NextFloat() { return UnitFloat(Next()); }
  double NextDouble() {
    const uint32_t first = Next();
    return UnitDouble(first, Next());
  }
  // Each number of [0, limit) equally likely; limit is not 0. Those that would make lower ones more frequent are drawn
  // again.
  uint32_t Below(uint32_t limit) {
    return Exact(limit, [this] { return Next(); });
  }
  uint64_t Below64(uint64_t limit) {
    return Exact(limit, [this] { return Next64(); });
  }
  // As if so many numbers had been drawn.
  void Skip(uint64_t numbers) {
    for (; numbers > 0 && used_ < 4; --numbers) ++used_;
    generator_.Skip(numbers / 4);
    for (numbers %= 4; numbers > 0; --numbers) (void)Next();
  }

 private:
  template <class U, class Draw>
  static U Exact(U limit, const Draw& draw) {
    if ((limit & (limit - 1)) == 0) return draw() & (limit - 1);
    const U uneven = static_cast<U>(~U{0} % limit) + 1;
    U drawn = draw();
    while (drawn < uneven) drawn = draw();
    return drawn % limit;
  }
  Philox generator_;
  Philox::Block block_ = {};
  size_t used_ = 4;
};

// Seeds and the blocks used so far; shared by all runs, from any thread. Two seeds of 0 are replaced by the host's (its
// option `seed`, else the system's).
struct Stream {
  explicit Stream(CreateContext& c) {
    seed[0] = static_cast<uint64_t>(c.Has("seed") ? c.Int("seed") : 0);
    seed[1] = static_cast<uint64_t>(c.Has("seed2") ? c.Int("seed2") : 0);
    if (seed[0] == 0 && seed[1] == 0) c.Check(c.args().services->random_seed(c.args().context, seed));
  }
  // The generator for so many elements, which nobody else gets.
  Philox Reserve(int64_t outputs) const { return ReserveBlocks(static_cast<uint64_t>(outputs) * kReservedPerOutput); }
  // For so many numbers of 32 bits, in whole blocks.
  Numbers32 ReserveNumbers(uint64_t numbers) const { return Numbers32(ReserveBlocks((numbers + 3) / 4)); }
  Philox ReserveBlocks(uint64_t blocks) const {
    Philox generator(seed[0], seed[1]);
    generator.Skip(used.fetch_add(blocks, std::memory_order_relaxed));
    return generator;
  }
  uint64_t seed[2] = {0, 0};
  mutable std::atomic<uint64_t> used{0};
};

// The generator of a key and a counter of two numbers.
constexpr Philox KeyedPhilox(uint64_t key, uint64_t low, uint64_t high) {
  return Philox({static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)},
                {static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), static_cast<uint32_t>(high),
                 static_cast<uint32_t>(high >> 32)});
}
// The key and the counter's upper half that a seed of two numbers stands for: mixed once, so that either number may be
// weak. As TensorFlow's GenerateKey (stateless_random_ops.cc) does. INVALID_ARGUMENT when there are not two.
struct KeyCounter {
  explicit KeyCounter(const tenon_tensor_view& seed) {
    if (Count(seed) != 2) Fail(TENON_INVALID_ARGUMENT, "seed must have two numbers; its shape is ", DimsOf(seed));
    const auto at = [&](int64_t i) { return static_cast<uint64_t>(IndexAt(Data<const void>(seed), seed.dtype, i)); };
    const Philox::Block mixed = KeyedPhilox(UINT64_C(0x02461e293ec8f720), at(0), at(1)).Next();
    key = mixed[0] | static_cast<uint64_t>(mixed[1]) << 32;
    counter = mixed[2] | static_cast<uint64_t>(mixed[3]) << 32;
  }
  Philox generator() const { return KeyedPhilox(key, 0, counter); }
  uint64_t key, counter;
};

// Groups [begin, end) of n elements, by the generator that Stream::Reserve gave; out is where element 0 goes. Shares of
// groups may be made by several threads, each with a copy of `base`.
template <class T, class Distribution>
void GenerateGroups(Philox base, const Distribution& distribution, int64_t n, int64_t begin, int64_t end, T* out) {
  constexpr uint64_t kBlocks = Distribution::template kBlocks<T>;
  base.Skip(static_cast<uint64_t>(begin) * kBlocks);
  const auto one = [&](T* to) {
    Philox local = base;
    if constexpr (kBlocks == 1) {
      distribution(local.Next(), to);
    } else {
      distribution(local, to);
    }
    base.Skip(kBlocks);
  };
  int64_t g = begin;
  if constexpr (kBlocks == 1) {
    constexpr auto kMany = static_cast<int64_t>(Philox::kMany);
    for (; g + kMany <= end && (g + kMany) * kGroup<T> <= n; g += kMany) {
      Philox::Many words;
      base.NextMany(words);
      T* to = out + g * kGroup<T>;
      for (int64_t i = 0; i < kMany; ++i) distribution(Philox::Get(words, static_cast<size_t>(i)), to + i * kGroup<T>);
    }
  }
  for (; g < end; ++g) {
    if ((g + 1) * kGroup<T> <= n) {
      one(out + g * kGroup<T>);
    } else {
      T last[kGroup<T>];
      one(last);
      std::copy_n(last, n - g * kGroup<T>, out + g * kGroup<T>);
    }
  }
}
// So many groups n elements make, the last one perhaps in part.
template <class T>
int64_t GroupsOf(int64_t n) {
  return (n + kGroup<T> - 1) / kGroup<T>;
}

}  // namespace tenon::sdk

#endif  // TENON_SDK_KERNEL_RANDOM_H_
