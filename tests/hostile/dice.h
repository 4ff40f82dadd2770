// SPDX-License-Identifier: Apache-2.0
// Dice: what is drawn at random, and the odd values that break things: extreme numbers, strange texts, rare types.
//
// The same seed draws the same on every machine: no distribution of the standard library is used.
#ifndef TENON_TESTS_HOSTILE_DICE_H_
#define TENON_TESTS_HOSTILE_DICE_H_

#include <cstdint>
#include <iterator>
#include <limits>
#include <random>
#include <string>

namespace tenon::hostile {

class Dice {
 public:
  Dice(uint64_t seed, uint64_t number) {
    std::seed_seq seeds{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32), static_cast<uint32_t>(number),
                        static_cast<uint32_t>(number >> 32)};
    random_.seed(seeds);
  }

  uint32_t Bits() { return random_(); }
  // From 0 to limit - 1; 0 when there is nothing to choose from.
  size_t Under(size_t limit) { return limit == 0 ? 0 : random_() % limit; }
  bool OneIn(size_t count) { return Under(count) == 0; }
  template <typename List>
  auto& AnyOf(List&& list) {
    return list[Under(std::size(list))];
  }

  // A size or an index as graphs have them, mostly; else one of those that overflow something.
  int64_t OddInt() {
    static constexpr int64_t extremes[] = {-1,
                                           -2,
                                           -3,
                                           -1000,
                                           64,
                                           127,
                                           128,
                                           255,
                                           256,
                                           65535,
                                           65536,
                                           1000000,
                                           0x7ffffffe,
                                           0x7fffffff,
                                           0x80000000,
                                           0xffffffff,
                                           int64_t{1} << 32,
                                           int64_t{1} << 40,
                                           int64_t{1} << 62,
                                           -(int64_t{1} << 31),
                                           -(int64_t{1} << 31) - 1,
                                           std::numeric_limits<int64_t>::max(),
                                           std::numeric_limits<int64_t>::max() - 1,
                                           std::numeric_limits<int64_t>::min()};
    return OneIn(2) ? static_cast<int64_t>(Under(6)) : extremes[Under(std::size(extremes))];
  }
  double OddFloat() {
    static constexpr double numbers[] = {0.0,
                                         -0.0,
                                         1.0,
                                         -1.0,
                                         0.5,
                                         2.0,
                                         1e-45,
                                         1e38,
                                         1e300,
                                         -1e300,
                                         4e9,
                                         -3e9,
                                         1e19,
                                         std::numeric_limits<double>::quiet_NaN(),
                                         std::numeric_limits<double>::infinity(),
                                         -std::numeric_limits<double>::infinity()};
    return numbers[Under(std::size(numbers))];
  }
  std::string OddText() {
    static const std::string texts[] = {"",
                                        "^",
                                        ":",
                                        "x:999999999999",
                                        "x:-1",
                                        "/",
                                        "a//b",
                                        "_",
                                        "a b",
                                        "\xff\xfe",
                                        std::string("a\0b", 3),
                                        "{}",
                                        "%s%n",
                                        "0",
                                        "SAME",
                                        "VALID",
                                        "EXPLICIT",
                                        "NHWC",
                                        "NCHW",
                                        "NCHW_VECT_C",
                                        "REFLECT",
                                        "SYMMETRIC",
                                        "MIN_COMBINED",
                                        "loc:@nobody",
                                        "->",
                                        "ij,jk->ik",
                                        "...",
                                        "i...,...j->ij",
                                        "(",
                                        "[a-",
                                        "\\1\\2\\9",
                                        "tf.int32"};
    const size_t which = Under(std::size(texts) + 1);
    return which == std::size(texts) ? std::string(5000, 'n') : texts[which];
  }
  // A number of DataType: mostly one that tensors have.
  int OddType() {
    switch (Under(8)) {
      case 0: return static_cast<int>(OddInt());
      case 1: return 100 + static_cast<int>(Under(25));
      default: return 1 + static_cast<int>(Under(23));
    }
  }

 private:
  std::mt19937 random_;
};

}  // namespace tenon::hostile

#endif  // TENON_TESTS_HOSTILE_DICE_H_
