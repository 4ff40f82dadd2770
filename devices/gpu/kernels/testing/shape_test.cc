// SPDX-License-Identifier: Apache-2.0
// What graphs compute with shapes: the GPU plugins' kernels work in the host's memory, as the CPU's do.
#include "tests/device/tested.h"

namespace tenon::device_test {
namespace {

TEST(Shapes, WhoseGradientsAreSummedAreTheCpus) {
  Bench bench;
  const std::pair<Tensor, Tensor> pairs[] = {{Ints({2, 3}), Ints({3})},
                                             {Ints({2, 1, 3}), Ints({4, 1})},
                                             {Ints({}), Ints({2, 2})},
                                             {Ints({2, 2}), Ints({2, 2})}};
  for (const auto& [x, y] : pairs) {
    EXPECT_EQ(
        Compare(bench,
                {"BroadcastGradientArgs", {}, {x, y}, {{TENON_DT_INT32, {0}}, {TENON_DT_INT32, {0}}}, {0, 1}, {0, 1}},
                0),
        "");
  }
  std::vector<Tensor> out;
  EXPECT_EQ(bench.OnDevice({"BroadcastGradientArgs",
                            {},
                            {Ints({2}), Ints({3})},
                            {{TENON_DT_INT32, {0}}, {TENON_DT_INT32, {0}}},
                            {0, 1},
                            {0, 1}},
                           &out),
            "INVALID_ARGUMENT: Incompatible shapes: dims 2 and 3 do not broadcast");
}

TEST(Shapes, ThatAreConcatenatedBeginWhereTheCpuSays) {
  Bench bench;
  const DeviceCase given = {"ConcatOffset", {}, {Int(1), Ints({2, 3, 4}), Ints({2, 5, 4}), Ints({2, 0, 4})},
                      {{TENON_DT_INT32, {3}}, {TENON_DT_INT32, {3}}, {TENON_DT_INT32, {3}}}, {0, 1, 2, 3}, {0, 1, 2}};
  EXPECT_EQ(Compare(bench, given, 0), "");
  std::vector<Tensor> out;
  ASSERT_EQ(bench.OnDevice(given, &out), "");
  EXPECT_EQ(Values<int32_t>(out[2]), (std::vector<int32_t>{0, 8, 0}));
}

}  // namespace
}  // namespace tenon::device_test
