// SPDX-License-Identifier: Apache-2.0
// Cumsum and Cumprod of the GPU plugins against the CPU's, on the emulated grid.
#include "tests/device/tested.h"

namespace tenon::device_test {
namespace {

TEST(Cumulative, AlongAnyAxisIsTheCpus) {
  Bench bench;
  const struct {
    Dimensions dims;
    std::vector<int32_t> axes;
  } shapes[] = {{{4, 5, 6}, {0, 1, -1}}, {{1}, {0}},      {{257}, {0}},     {{9001}, {0}},   {{3, 300}, {0, 1}},
                {{300, 3}, {0, 1}},      {{400, 9}, {0}}, {{0, 3}, {0, 1}}, {{3, 0}, {0, 1}}};
  for (const char* op : {"Cumsum", "Cumprod"}) {
    const bool product = op[3] == 'p';
    for (const uint32_t dtype : kNumberTypes) {
      for (const auto& [dims, axes] : shapes) {
        const bool half = dtype == TENON_DT_HALF || dtype == TENON_DT_BFLOAT16;
        Tensor x = RandomFloatsOf(dims, 7, product ? 0.995f : -1, product ? 1.006f : 2);
        if (half) {  // the CPU rounds after every step: numbers that need no rounding
          std::vector<float> exact = Values<float>(RandomFloatsOf(dims, 7));
          for (float& value : exact) value = product ? std::copysign(1.0f, value) : std::round(value);
          x = Floats(dims, exact);
        }
        x = ValuesOf(dtype, x, 100);
        for (const int32_t axis : axes) {
          for (const bool exclusive : {false, true}) {
            for (const bool reverse : {false, true}) {
              const DeviceCase c = {
                  op, {{"exclusive", exclusive}, {"reverse", reverse}}, {x, Int(axis)}, {{dtype, dims}}, {1}};
              EXPECT_EQ(Compare(bench, c, half ? 0 : ToleranceOf(dtype, 1e-5)), "")
                  << dtype << " along " << axis << " of " << dims[0];
            }
          }
        }
      }
    }
  }
  // Where a thread goes along the line, halves are rounded as the CPU's.
  const Tensor halves = ValuesOf(TENON_DT_HALF, RandomFloatsOf({60, 5}));
  EXPECT_EQ(
      Compare(bench,
              {"Cumsum", {{"exclusive", false}, {"reverse", true}}, {halves, Int(0)}, {{TENON_DT_HALF, {60, 5}}}, {1}},
              0),
      "");
}

TEST(Cumulative, TheFirstElementIsItself) {
  Bench bench;
  for (const int64_t n : {2, 300}) {
    std::vector<Tensor> out;
    const Tensor x = Floats({n}, std::vector<float>(static_cast<size_t>(n), -0.0f));
    const DeviceCase sum = {
        "Cumsum", {{"exclusive", false}, {"reverse", false}}, {x, Int(0)}, {{TENON_DT_FLOAT, {n}}}, {1}};
    EXPECT_EQ(bench.OnDevice(sum, &out), "");
    for (const float y : Values<float>(out[0])) EXPECT_TRUE(std::signbit(y));
    DeviceCase exclusive = sum;
    exclusive.attributes["exclusive"] = true;
    EXPECT_EQ(bench.OnDevice(exclusive, &out), "");
    EXPECT_FALSE(std::signbit(Values<float>(out[0])[0]));
  }
  std::vector<Tensor> out;
  EXPECT_EQ(bench.OnDevice({"Cumsum",
                            {{"exclusive", false}, {"reverse", false}},
                            {RandomFloatsOf({2}), Int(1)},
                            {{TENON_DT_FLOAT, {2}}},
                            {1}},
                           &out),
            "INVALID_ARGUMENT: axis 1 is outside x of shape [2]");
}

}  // namespace
}  // namespace tenon::device_test
