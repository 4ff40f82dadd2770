// SPDX-License-Identifier: Apache-2.0
#include "tenon/bytes/repeat.h"

#include <gtest/gtest.h>

#include <string>

namespace tenon::sdk::repeat_test {
namespace {

TEST(Repeat, FillsWithElementsOfAnySize) {
  const std::string element = "0123456789abcdef";
  for (size_t size = 1; size <= element.size(); ++size)
    for (size_t count = 1; count < 70; ++count) {
      std::string wanted, found(size * count + 1, '!');
      for (size_t i = 0; i < count; ++i) wanted += element.substr(0, size);
      Repeat(found.data(), element.data(), size, count);
      EXPECT_EQ(found, wanted + "!") << size << ", " << count;
    }
}

}  // namespace
}  // namespace tenon::sdk::repeat_test
