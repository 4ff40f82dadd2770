// SPDX-License-Identifier: Apache-2.0
// Values there and back as bfloat16. Covers H10.
#include "core/exec/exchange/short_float.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace tenon::exec::short_float_test {
namespace {

float FromBits(uint32_t bits) { return std::bit_cast<float>(bits); }
uint32_t BitsOf(float value) { return std::bit_cast<uint32_t>(value); }
float ThereAndBack(float value, TransferPrecision precision) { return Lengthen(Shorten(value, precision)); }

TEST(ShortFloat, KeepsSignExponentAndSevenBitsAndFillsWithZeros) {
  EXPECT_EQ(BitsOf(ThereAndBack(FromBits(0x3F80'FFFF), TransferPrecision::kTruncated)), 0x3F80'0000u);
  EXPECT_EQ(BitsOf(ThereAndBack(FromBits(0xC049'0FDB), TransferPrecision::kTruncated)), 0xC049'0000u);
  EXPECT_EQ(BitsOf(ThereAndBack(FromBits(0x0000'FFFF), TransferPrecision::kTruncated)), 0u) << "a subnormal may vanish";
  EXPECT_EQ(BitsOf(ThereAndBack(-0.0f, TransferPrecision::kTruncated)), 0x8000'0000u);
}

TEST(ShortFloat, RoundsToTheNearestAndHalvesToEven) {
  const auto nearest = [](uint32_t bits) { return BitsOf(ThereAndBack(FromBits(bits), TransferPrecision::kNearest)); };
  EXPECT_EQ(nearest(0x3F80'7FFF), 0x3F80'0000u);
  EXPECT_EQ(nearest(0x3F80'8001), 0x3F81'0000u);
  EXPECT_EQ(nearest(0x3F80'8000), 0x3F80'0000u) << "a half goes to the even one below";
  EXPECT_EQ(nearest(0x3F81'8000), 0x3F82'0000u) << "and above";
  EXPECT_EQ(nearest(0x3FFF'FFFF), 0x4000'0000u) << "into the next exponent";
  EXPECT_EQ(nearest(0x7F7F'FFFF), 0x7F80'0000u) << "the largest becomes infinite";
}

TEST(ShortFloat, KeepsInfinitiesAndWhatIsNoNumber) {
  for (const auto precision : {TransferPrecision::kTruncated, TransferPrecision::kNearest}) {
    const float infinity = std::numeric_limits<float>::infinity();
    EXPECT_EQ(ThereAndBack(infinity, precision), infinity);
    EXPECT_EQ(ThereAndBack(-infinity, precision), -infinity);
    // Some have their only bit among those that are cut off.
    for (uint32_t bits : {0x7F80'0001u, 0xFF80'0001u, 0x7FC0'0000u, 0x7FFF'FFFFu, 0xFFFF'FFFFu, 0x7F80'FFFFu}) {
      EXPECT_TRUE(std::isnan(ThereAndBack(FromBits(bits), precision))) << bits;
      EXPECT_EQ(BitsOf(ThereAndBack(FromBits(bits), precision)) >> 31, bits >> 31) << bits;
    }
  }
}

TEST(ShortFloat, ChangesNormalValuesByLessThanTheirLastBit) {
  std::mt19937 random(1);
  for (int i = 0; i < 1'000'000; ++i) {
    const float value = FromBits(static_cast<uint32_t>(random()));
    if (!std::isnormal(value) || std::fabs(value) > 3.38e38f) continue;
    ASSERT_LT(std::fabs(ThereAndBack(value, TransferPrecision::kTruncated) - value) / std::fabs(value), 1.0f / 128)
        << value;
    ASSERT_LE(std::fabs(ThereAndBack(value, TransferPrecision::kNearest) - value) / std::fabs(value), 1.0f / 256)
        << value;
  }
}

class ShortMessages : public testing::Test {
 protected:
  ~ShortMessages() override { pool_->Close(); }
  Message Of(DType dtype, std::vector<float> values) {
    int64_t dims[] = {2, static_cast<int64_t>(values.size()) / 2};
    auto message =
        Message::Of(MakeView(dtype, {dims, 2, 0}, values.data(), values.size() * sizeof(float), nullptr), pool_);
    EXPECT_TRUE(message.ok());
    return *std::move(message);
  }
  BufferPool* pool_ = BufferPool::Create(HostAllocator(), 0);
};

TEST_F(ShortMessages, HaveHalfTheBytesAndTheSameShape) {
  auto message = Shorten(Of(TENON_DT_FLOAT, {1, 2, 3, 0.1f}), TransferPrecision::kTruncated, pool_);
  ASSERT_TRUE(message.ok());
  EXPECT_EQ(message->view().byte_size, 8u);
  EXPECT_EQ(message->view().dtype, uint32_t{TENON_DT_BFLOAT16});
  auto back = Lengthen(*std::move(message), pool_);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(ShapeOf(back->view()), (Shape{2, 2}));
  EXPECT_EQ(back->view().dtype, uint32_t{TENON_DT_FLOAT});
  const auto* data = static_cast<const float*>(DataOf(back->view()));
  EXPECT_EQ((std::vector<float>{data, data + 4}),
            (std::vector<float>{1, 2, 3, ThereAndBack(0.1f, TransferPrecision::kTruncated)}));
}

TEST_F(ShortMessages, AreMadeOfFloatsAlone) {
  auto integers = Shorten(Of(TENON_DT_INT32, {1, 2}), TransferPrecision::kNearest, pool_);
  ASSERT_TRUE(integers.ok());
  EXPECT_EQ(integers->view().dtype, uint32_t{TENON_DT_INT32});
  auto dead = Shorten(Message(), TransferPrecision::kNearest, pool_);
  ASSERT_TRUE(dead.ok());
  EXPECT_TRUE(dead->dead());
  auto whole = Shorten(Of(TENON_DT_FLOAT, {1, 2}), TransferPrecision::kFull, pool_);
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->view().dtype, uint32_t{TENON_DT_FLOAT});
}

}  // namespace
}  // namespace tenon::exec::short_float_test
