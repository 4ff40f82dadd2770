// SPDX-License-Identifier: Apache-2.0
// Products and convolutions that go to a vendor's libraries: emulated GPUs, and emulated libraries with the functions
// of the real ones. The products and convolutions of devices/gpu are tested in this program too: each compares with the
// CPU's kernels. Covers N4.
#include "tests/device/libraries.h"

namespace tenon::device_test {

const Settings kBenchSettings = {{"devices", "1"}, {"cache", "off"}, {"libraries", kLibraries}};

namespace {

TEST(Libraries, ComputeWhereTheyAre) {
  for (const DeviceCase& given : {LongProduct(TENON_PRECISION_STRICT), LongConvolution(TENON_PRECISION_STRICT)}) {
    EXPECT_LT(WorstOf(With(kLibraries), given, Exact(given)), kRounding) << given.op;
    EXPECT_GT(WorstOf(With("off"), given, Exact(given)), kRounding)
        << given.op << ": our kernels add up floats, or this test tells nothing";
  }
}

TEST(Libraries, MayBeMissing) {
  for (const DeviceCase& given : {LongProduct(TENON_PRECISION_STRICT), LongConvolution(TENON_PRECISION_STRICT)}) {
    EXPECT_LT(WorstOf(With("/nowhere"), given, Exact(given)), 1e-5) << given.op;
  }
}

TEST(Libraries, AreNotGivenOperandsThatAreNotAligned) {
  // The second matrix of 3 by 3 halves begins at byte 18.
  DeviceCase given = {"BatchMatMulV2",
                      {{"adj_x", false}, {"adj_y", true}, {"T", Type{TENON_DT_HALF}}},
                      {RandomOf(TENON_DT_HALF, {5, 3, 3}, 1), RandomOf(TENON_DT_HALF, {5, 3, 3}, 2)},
                      {{TENON_DT_HALF, {5, 3, 3}}}};
  Bench bench(With(kLibraries), 0);
  EXPECT_EQ(Compare(bench, given, 1e-3), "");
}

TEST(Libraries, AreLookedForInAFolderOrNot) {
  tenon_plugin_self* self = nullptr;
  EXPECT_EQ(Text(Tested().Load({{"libraries", "here"}}, &self)),
            "INVALID_ARGUMENT: option libraries is 'here'; it may be auto, off, or an absolute path");
}

}  // namespace
}  // namespace tenon::device_test
