// SPDX-License-Identifier: Apache-2.0
#include "tenon/extras/device/label.h"

#include <gtest/gtest.h>

#include <string>

namespace tenon::sdk::label_test {
namespace {

TEST(EndOfLabel, TellsNodesOfOneFunctionApart) {
  const std::string before = "StatefulPartitionedCall_1/StatefulPartitionedCall/functional_2_1/";
  EXPECT_TRUE(EndOfLabel(before + "dense_1/MatMul", 63).ends_with("/dense_1/MatMul"));
  EXPECT_EQ(EndOfLabel(before + "dense_1/MatMul", 63).size(), 63u);
  EXPECT_EQ(EndOfLabel("short", 5), "short");
  EXPECT_EQ(EndOfLabel("longer", 5), "onger");
  EXPECT_EQ(EndOfLabel("\xc3\xa9x", 2), "x") << "no half of a character";
  EXPECT_EQ(EndOfLabel("x", 0), "");
}

}  // namespace
}  // namespace tenon::sdk::label_test
