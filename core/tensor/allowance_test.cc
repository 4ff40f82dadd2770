// SPDX-License-Identifier: Apache-2.0
#include "core/tensor/allowance.h"

#include <gtest/gtest.h>

#include "core/tensor/tensor.h"

namespace tenon::allowance_test {
namespace {

TEST(Allowance, HoldsOnItsThreadUntilItGoes) {
  EXPECT_EQ(Allowance::Current(), nullptr);
  EXPECT_TRUE(CheckAllowance().ok());
  Cancellation cancellation;
  {
    const Allowance outer(&cancellation, nullptr);
    EXPECT_TRUE(CheckAllowance().ok());
    cancellation.Cancel(Status(Code::kDeadlineExceeded, "late"));
    EXPECT_EQ(CheckAllowance().ToString(), "DEADLINE_EXCEEDED: late");
    {
      const Allowance inner(nullptr, nullptr);
      EXPECT_TRUE(CheckAllowance().ok());
    }
    EXPECT_FALSE(CheckAllowance().ok());
  }
  EXPECT_TRUE(CheckAllowance().ok());
}

TEST(Allowance, ChargesItsPoolAndGivesBack) {
  BufferPool* const pool = BufferPool::Create(HostAllocator(), 1000);
  MemoryCharge kept;
  {
    const Allowance allowance(nullptr, pool);
    EXPECT_EQ(KeptPool(), pool);
    {
      const Allowance inner(nullptr, nullptr);
      EXPECT_EQ(KeptPool(), pool) << "an inner one without a pool has the outer's";
    }
    EXPECT_TRUE(kept.Add(600).ok());
    MemoryCharge more;
    EXPECT_EQ(more.Add(500).code(), Code::kResourceExhausted);
    EXPECT_EQ(pool->bytes_in_use(), 600u);
    EXPECT_TRUE(more.Add(300).ok());
    more.Remove(1000);
    EXPECT_EQ(pool->bytes_in_use(), 600u) << "no more than was added";
  }
  EXPECT_EQ(KeptPool(), GlobalPool());
  EXPECT_TRUE(kept.Add(100).ok()) << "to the pool of its first bytes";
  MemoryCharge moved = std::move(kept);
  EXPECT_EQ(pool->bytes_in_use(), 700u);
  pool->Close();
  moved = MemoryCharge();  // the last one that keeps the pool
}

TEST(Allowance, WithoutOneNothingIsCharged) {
  MemoryCharge charge;
  EXPECT_TRUE(charge.Add(uint64_t{1} << 60).ok());
  charge.Remove(1);
}

}  // namespace
}  // namespace tenon::allowance_test
