// SPDX-License-Identifier: Apache-2.0
// Where, Unique and UniqueWithCounts of the GPU plugins against the CPU's, on the emulated grid.
#include <limits>

#include "tests/device/tested.h"

namespace tenon::device_test {
namespace {

constexpr uint32_t kTypes[] = {TENON_DT_FLOAT,  TENON_DT_DOUBLE, TENON_DT_HALF,  TENON_DT_BFLOAT16, TENON_DT_INT8,
                               TENON_DT_INT16,  TENON_DT_INT32,  TENON_DT_INT64, TENON_DT_UINT8,    TENON_DT_UINT16,
                               TENON_DT_UINT32, TENON_DT_UINT64, TENON_DT_BOOL};

// Whole numbers of that many values.
Tensor FewOf(uint32_t dtype, const Dimensions& dims, int values, uint32_t seed = 3) {
  std::vector<float> whole = Values<float>(RandomFloatsOf(dims, seed, 0, static_cast<float>(values)));
  for (float& x : whole) x = std::floor(x);
  if (dtype == TENON_DT_BOOL) return Bools(dims, std::vector<int>(whole.begin(), whole.end()));
  return ValuesOf(dtype, Floats(dims, whole));
}

TEST(Where, FindsWhatTheCpuFinds) {
  Bench bench;
  for (const uint32_t dtype : kTypes) {
    for (const Dimensions& dims :
         {Dimensions{}, Dimensions{1}, Dimensions{0}, Dimensions{3, 0}, Dimensions{5}, Dimensions{2, 3, 4},
          Dimensions{700, 9}, Dimensions{2, 1, 3, 2, 1, 3}, Dimensions{50'000}}) {
      const DeviceCase given = {"Where", {{"T", Type{dtype}}}, {FewOf(dtype, dims, 2)}, {{TENON_DT_INT64, {0, 0}}}};
      EXPECT_EQ(Same(bench, given), "") << dtype;
    }
  }
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(Same(bench, {"Where",
                         {{"T", Type{TENON_DT_FLOAT}}},
                         {Floats({5}, {-0.0f, kNan, 0, 1e-40f, -1})},
                         {{TENON_DT_INT64, {0, 0}}}}),
            "");
  EXPECT_EQ(Same(bench, {"Where",
                         {{"T", Type{TENON_DT_BOOL}}},
                         {Bools({4000}, std::vector<int>(4000, 0))},
                         {{TENON_DT_INT64, {0, 0}}}}),
            "");
  EXPECT_EQ(Same(bench, {"Where",
                         {{"T", Type{TENON_DT_BOOL}}},
                         {Bools({4000}, std::vector<int>(4000, 1))},
                         {{TENON_DT_INT64, {0, 0}}}}),
            "");
}

std::string CompareUnique(Bench& bench, const Tensor& x, uint32_t index) {
  for (const bool counts : {false, true}) {
    DeviceCase given = {counts ? "UniqueWithCounts" : "Unique",
                        {{"T", Type{x.dtype}}, {"out_idx", Type{index}}},
                        {x},
                        {{x.dtype, {0}}, {index, x.dims}}};
    if (counts) given.outputs.push_back({index, {0}});
    if (std::string text = Same(bench, given); !text.empty()) return text;
  }
  return "";
}

TEST(Unique, OfEveryTypeIsTheCpus) {
  Bench bench;
  for (const uint32_t dtype : kTypes) {
    for (const uint32_t index : {TENON_DT_INT32, TENON_DT_INT64}) {
      for (const int64_t count : {0, 1, 7, 500, 2048, 5000}) {
        for (const int values : {1, 2, 40, 120}) {
          if (dtype == TENON_DT_BOOL && values > 2) continue;
          if (count > 2048 && index == TENON_DT_INT64) continue;
          EXPECT_EQ(CompareUnique(bench, FewOf(dtype, {count}, values), index), "") << count << " of dtype " << dtype;
        }
      }
    }
  }
  EXPECT_EQ(CompareUnique(bench, RandomFloatsOf({30'000}), TENON_DT_INT32), "");  // nearly all differ
}

TEST(Unique, TakesBothZerosForOneAndEveryNanForAnother) {
  Bench bench;
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = Floats({9}, {kNan, 0, 3, -0.0f, kNan, 3, -0.0f, 0, kNan});
  for (const uint32_t dtype : kFloatTypes)
    EXPECT_EQ(CompareUnique(bench, ValuesOf(dtype, x), TENON_DT_INT32), "") << dtype;
  constexpr int64_t kLowest = std::numeric_limits<int64_t>::lowest();
  EXPECT_EQ(CompareUnique(bench, Make<int64_t>({6}, {-1, kLowest, 0, -1, kLowest, int64_t{1} << 32}), TENON_DT_INT64),
            "");
}

}  // namespace
}  // namespace tenon::device_test
