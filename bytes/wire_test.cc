// SPDX-License-Identifier: Apache-2.0
#include "tenon/bytes/wire.h"

#include <gtest/gtest.h>

#include <string>

namespace tenon::sdk::wire_test {
namespace {

using namespace std::literals;

TEST(Wire, StepsOverUnknownFieldsAndStaysInside) {
  WireWriter writer;
  writer.Varint(1, 300);
  writer.Bytes(9, "unknown");
  writer.Fixed32(2, 7);
  uint64_t one = 0, two = 0;
  WireReader reader(writer.bytes());
  while (reader.Next()) {
    if (reader.field() == 1) one = reader.varint();
    if (reader.field() == 2) two = reader.fixed32();
  }
  EXPECT_TRUE(reader.ok());
  EXPECT_EQ(one, 300u);
  EXPECT_EQ(two, 7u);
  for (size_t size = 1; size < writer.bytes().size(); ++size) {
    WireReader cut(std::string_view(writer.bytes()).substr(0, size));
    while (cut.Next()) {
    }
    EXPECT_EQ(cut.ok(), size == 3 || size == 12) << size;  // between two fields
  }
}

TEST(Wire, LeavesZerosOutExceptWhereTheyAreThere) {
  WireWriter writer;
  writer.Varint(1, 0);
  writer.Fixed32(2, 0);
  writer.Double(3, 0);
  EXPECT_EQ(writer.bytes(), "");
  writer.Float(4, 0);
  writer.Bytes(5, "");
  EXPECT_EQ(writer.bytes(), "\x25\0\0\0\0\x2a\0"s);
}

TEST(Wire, ReadsBackEveryKindOfField) {
  WireWriter writer;
  writer.Varint(1, UINT64_MAX);
  writer.Double(2, -0.1);
  writer.Float(3, 2.5f);
  writer.Bytes(4, "text");
  WireReader reader(writer.bytes());
  ASSERT_TRUE(reader.Next());
  EXPECT_EQ(reader.number(), UINT64_MAX);
  EXPECT_TRUE(reader.is_varint());
  ASSERT_TRUE(reader.Next());
  EXPECT_EQ(reader.as_double(), -0.1);
  ASSERT_TRUE(reader.Next());
  EXPECT_EQ(reader.as_float(), 2.5f);
  EXPECT_EQ(reader.bytes(), "");
  ASSERT_TRUE(reader.Next());
  EXPECT_EQ(reader.bytes(), "text");
  EXPECT_EQ(reader.number(), 0u);
  EXPECT_EQ(reader.whole(), "\x22\x04text");
  EXPECT_FALSE(reader.Next());
  EXPECT_TRUE(reader.ok());
}

TEST(Wire, IsMalformedWhereAnotherTypeWasExpected) {
  WireWriter writer;
  writer.Varint(1, 5);
  writer.Varint(1, 6);
  WireReader any(writer.bytes()), strict(writer.bytes());
  ASSERT_TRUE(any.Next() && strict.Next());
  EXPECT_EQ(any.bytes(), "");
  EXPECT_TRUE(any.Next());
  EXPECT_EQ(strict.delimited(), "");
  EXPECT_FALSE(strict.ok());
  EXPECT_FALSE(strict.Next());
}

TEST(Wire, RefusesWhatIsNoField) {
  for (std::string_view bad :
       {"\x00"sv, "\x0b"sv, "\x0c"sv, "\x0a\x05text"sv, "\x08"sv, "\x0d\1\2\3"sv, "\x09\1\2\3\4\5\6\7"sv,
        "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"sv, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"sv}) {
    WireReader reader(bad);
    EXPECT_FALSE(reader.Next());
    EXPECT_FALSE(reader.ok());
  }
}

TEST(Wire, FindsTheLastFieldOfANumber) {
  WireWriter writer;
  writer.Bytes(1, "first");
  writer.Varint(2, 3);
  writer.Bytes(1, "last");
  EXPECT_EQ(FindBytes(writer.bytes(), 1), "last");
  EXPECT_EQ(FindNumber(writer.bytes(), 2), 3u);
  EXPECT_EQ(FindBytes(writer.bytes(), 2), "");
  EXPECT_EQ(FindNumber(writer.bytes() + "\x0b", 2), 0u);  // damaged
}

}  // namespace
}  // namespace tenon::sdk::wire_test
