// SPDX-License-Identifier: Apache-2.0
#include "tenon/bytes/crc32c.h"

#include <gtest/gtest.h>

#include <string>

namespace tenon::sdk::crc32c_test {
namespace {

// What RFC 3720, appendix B.4 has for its test patterns.
TEST(Crc32c, AgreesWithThePatternsOfTheStandard) {
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string ascending;
  for (char c = 0; c < 32; ++c) ascending += c;
  EXPECT_EQ(Crc32c(ascending), 0x46dd794eu);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
}

TEST(Crc32c, IsTheSameByTableAndByInstruction) {
  std::string text;
  for (int i = 0; i < 100; ++i) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    EXPECT_EQ(~internal::Crc32cByTable(~0u, bytes, text.size()), Crc32c(text));
    text.push_back(static_cast<char>(i * 37));
  }
}

TEST(Crc32c, IsTheSameOfLongTexts) {
  std::string text;
  uint32_t state = 1;
  for (int i = 0; i < 20'000; ++i) text.push_back(static_cast<char>((state = state * 1'664'525 + 1'013'904'223) >> 24));
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  for (size_t size : {767, 768, 769, 1000, 1535, 1536, 6143, 6144, 6151, 7000, 12'288, 13'057, 19'999}) {
    for (size_t begin : {0, 1})
      EXPECT_EQ(~internal::Crc32cByTable(~0u, bytes + begin, size), Crc32c({text.data() + begin, size}))
          << size << " from " << begin;
  }
}

TEST(Crc32c, GoesOnWhereItStopped) {
  const std::string text = "hello world";
  for (size_t i = 0; i <= text.size(); ++i)
    EXPECT_EQ(ExtendCrc32c(Crc32c(text.substr(0, i)), text.data() + i, text.size() - i), Crc32c(text));
}

TEST(Crc32c, IsUnmaskedAsItWasMasked) {
  for (uint32_t crc : {0u, 1u, 0xe3069283u, 0xffffffffu}) EXPECT_EQ(UnmaskCrc32c(MaskCrc32c(crc)), crc);
  EXPECT_NE(MaskCrc32c(0xe3069283u), 0xe3069283u);
}

}  // namespace
}  // namespace tenon::sdk::crc32c_test
