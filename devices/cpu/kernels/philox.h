// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10, the counter-based generator of TensorFlow's random ops (lib/random/philox_random.h).
#ifndef TENON_DEVICES_CPU_KERNELS_PHILOX_H_
#define TENON_DEVICES_CPU_KERNELS_PHILOX_H_

#include <array>
#include <cstdint>

namespace tenon::cpu {

class Philox {
 public:
  using Block = std::array<uint32_t, 4>;

  // TensorFlow's seeding: the first seed is the key, the second the counter's upper half.
  Philox(uint64_t seed, uint64_t seed2)
      : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
        counter_{0, 0, static_cast<uint32_t>(seed2), static_cast<uint32_t>(seed2 >> 32)} {}
  Philox(std::array<uint32_t, 2> key, Block counter) : key_(key), counter_(counter) {}

  void Skip(uint64_t blocks) {
    const uint64_t low = counter_[0] | static_cast<uint64_t>(counter_[1]) << 32;
    const uint64_t sum = low + blocks;
    counter_[0] = static_cast<uint32_t>(sum);
    counter_[1] = static_cast<uint32_t>(sum >> 32);
    if (sum < low && ++counter_[2] == 0) ++counter_[3];
  }

  Block Next() {
    Block c = counter_;
    std::array<uint32_t, 2> k = key_;
    for (int round = 0; round < 10; ++round) {
      const uint64_t p0 = UINT64_C(0xD2511F53) * c[0];
      const uint64_t p1 = UINT64_C(0xCD9E8D57) * c[2];
      c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(p1),
           static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(p0)};
      k[0] += 0x9E3779B9u;
      k[1] += 0xBB67AE85u;
    }
    Skip(1);
    return c;
  }

 private:
  std::array<uint32_t, 2> key_;
  Block counter_;
};

}  // namespace tenon::cpu

#endif  // TENON_DEVICES_CPU_KERNELS_PHILOX_H_
