// SPDX-License-Identifier: Apache-2.0
#include "tenon/bytes/record.h"

#include <gtest/gtest.h>

namespace tenon::sdk::record_test {
namespace {

using State = LeadingRecord::State;

std::string Two() {
  std::string bytes;
  AppendRecord(bytes, "first");
  AppendRecord(bytes, "");
  return bytes;
}

TEST(Record, RecordsFollowOneAnother) {
  const std::string bytes = Two();
  ASSERT_EQ(bytes.size(), 2 * (kRecordHead + kRecordTail) + 5);
  const LeadingRecord first = ReadRecord(bytes);
  ASSERT_EQ(first.state, State::kWhole);
  EXPECT_EQ(first.data, "first");
  const LeadingRecord second = ReadRecord(std::string_view(bytes).substr(first.size()));
  EXPECT_EQ(second.state, State::kWhole);
  EXPECT_EQ(second.data, "");
}

TEST(Record, ATornOneIsToldFromADamagedOne) {
  std::string bytes = Two();
  for (size_t kept = 0; kept < kRecordHead + 5 + kRecordTail; ++kept)
    EXPECT_EQ(ReadRecord(std::string_view(bytes).substr(0, kept)).state, State::kTorn) << kept;
  for (size_t at = 0; at < kRecordHead; ++at) {
    std::string wrong = bytes;
    wrong[at] = static_cast<char>(wrong[at] ^ 1);
    EXPECT_EQ(ReadRecord(wrong).state, State::kBadLength) << at;
  }
  for (size_t at = kRecordHead; at < kRecordHead + 5 + kRecordTail; ++at) {
    std::string wrong = bytes;
    wrong[at] = static_cast<char>(wrong[at] ^ 1);
    EXPECT_EQ(ReadRecord(wrong).state, State::kBadData) << at;
  }
}

TEST(Record, ALengthNearTheLargestNumberIsTorn) {
  std::string bytes;
  AppendRecordHead(bytes, UINT64_MAX - 3);
  bytes += "some bytes";
  EXPECT_EQ(ReadRecord(bytes).state, State::kTorn);
}

}  // namespace
}  // namespace tenon::sdk::record_test
