// SPDX-License-Identifier: Apache-2.0
#include "tenon/data/graph_def.h"

#include <gtest/gtest.h>

#include <string>

namespace tenon::data::graph_def_test {
namespace {

TEST(ParseGraphDef, RefusesDamagedBytes) {
  for (const std::string& bytes : {std::string("\x0a\x03"
                                               "abc"),
                                   std::string("\x0a\xff\xff\xff\x7f"), std::string("nonsense")}) {
    EXPECT_FALSE(ParseGraphDef(bytes).ok());
  }
}

}  // namespace
}  // namespace tenon::data::graph_def_test
