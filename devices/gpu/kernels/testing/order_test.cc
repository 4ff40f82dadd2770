// SPDX-License-Identifier: Apache-2.0
// TopKV2 of the GPU plugins against the CPU's, on the emulated grid.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/device/tested.h"

namespace tenon::device_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

DeviceCase TopK(const Tensor& x, int32_t k, uint32_t index_type = TENON_DT_INT32) {
  Dimensions out = x.dims;
  out.back() = k;
  return {"TopKV2",
          {{"index_type", Type{index_type}}, {"sorted", true}},
          {x, Int(k)},
          {{x.dtype, out}, {index_type, out}},
          {1}};
}

TEST(TopK, OfEveryTypeIsTheCpus) {
  Bench bench;
  for (const uint32_t dtype : kNumberTypes) {
    for (const Dimensions& dims : {Dimensions{1}, Dimensions{5, 10}, Dimensions{2, 3, 31}, Dimensions{3, 257},
                                   Dimensions{2, 1500}, Dimensions{0, 4}, Dimensions{3, 0}}) {
      const auto columns = static_cast<int32_t>(dims.back());
      for (const int32_t k : {0, 1, 3, 17, columns / 2, columns}) {
        if (k > columns) continue;
        for (const float scale : {1000.0f, 3.0f}) {  // of few equal elements, and of many
          std::vector<float> whole = Values<float>(RandomFloatsOf(dims, 9, -scale, scale));
          for (float& x : whole) x = std::round(x);
          EXPECT_EQ(Compare(bench, TopK(ValuesOf(dtype, Floats(dims, whole)), k), 0), "")
              << dtype << " " << k << " of " << columns;
        }
        EXPECT_EQ(Compare(bench, TopK(ValuesOf(dtype, RandomFloatsOf(dims, 9), 1e9f), k, TENON_DT_INT64), 0), "")
            << dtype << " " << k << " of " << columns;
      }
    }
  }
  // More than a block sorts in its own memory, of more rows than blocks run at once.
  EXPECT_EQ(Compare(bench, TopK(RandomFloatsOf({10, 1200}), 1100), 0), "");
  EXPECT_EQ(Compare(bench, TopK(ValuesOf(TENON_DT_DOUBLE, RandomFloatsOf({9, 1025})), 1025), 0), "");
  EXPECT_EQ(Compare(bench, TopK(RandomFloatsOf({3, 40}), 4, TENON_DT_INT16), 0), "");
  DeviceCase late = TopK(RandomFloatsOf({3, 40}), 4);
  late.constant = false;
  EXPECT_EQ(Compare(bench, late, 0), "");
}

// The CPU's answer for NaN is TensorFlow's, which hangs on the order of its comparisons (docs/numbers.md); no two GPUs
// would agree on that.
TEST(TopK, TakesNanForLessThanAnyNumberAndTheFirstOfEquals) {
  Bench bench;
  const std::vector<float> row = {kNan, 1, -kInfinity, kNan, kInfinity, -0.0f, 0, 1};
  std::vector<int32_t> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return std::isnan(row[b]) ? !std::isnan(row[a]) : row[a] > row[b]; });
  for (int32_t k = 1; k <= 8; ++k) {
    std::vector<Tensor> out;
    ASSERT_EQ(bench.OnDevice(TopK(Floats({1, 8}, row), k), &out), "");
    EXPECT_EQ(Values<int32_t>(out[1]), std::vector<int32_t>(order.begin(), order.begin() + k));
    for (int32_t i = 0; i < k; ++i) {
      const float value = Values<float>(out[0])[i];
      EXPECT_TRUE(value == row[order[i]] || (std::isnan(value) && std::isnan(row[order[i]]))) << k << " " << i;
    }
    const Tensor numbers =
        Floats({2, 8}, {3, 1, -kInfinity, 5, kInfinity, -0.0f, 0, 1, 2, 2, 2, 2, 2, 2, 2, -kInfinity});
    EXPECT_EQ(Compare(bench, TopK(numbers, k), 0), "") << k;
    EXPECT_EQ(Compare(bench, TopK(ValuesOf(TENON_DT_BFLOAT16, numbers), k), 0), "") << k;
  }
  constexpr int64_t kLowest = std::numeric_limits<int64_t>::lowest(), kHighest = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(Compare(bench, TopK(Make<int64_t>({5}, {0, kLowest, kHighest, -1, kLowest}), 5), 0), "");
}

TEST(TopK, RefusesWhatTheCpuRefuses) {
  Bench bench;
  std::vector<Tensor> out;
  EXPECT_EQ(bench.OnDevice(TopK(RandomFloatsOf({2, 3}), 4), &out),
            "INVALID_ARGUMENT: input must have at least k columns. Had 3, needed 4");
  EXPECT_EQ(bench.OnDevice(TopK(RandomFloatsOf({40000}), 4, TENON_DT_INT16), &out),
            "INVALID_ARGUMENT: rows of 40000 elements are longer than index_type int16 counts");
}

}  // namespace
}  // namespace tenon::device_test
