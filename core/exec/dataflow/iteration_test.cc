// SPDX-License-Identifier: Apache-2.0
#include "core/exec/dataflow/iteration.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/fakes/tiny_kernels.h"

namespace tenon::exec::dataflow::iteration_test {
namespace {

class IterationTest : public testing::Test, protected fakes::TinyHost {
 protected:
  // Iterations of a loop, whose values slot 0 has and slot 1 gets, for two consumers.
  IterationTest() {
    info_.depth = 1;
    info_.slots.resize(2);
    info_.slots[1].uses = 2;
    for (Iteration* each : {&first_, &second_}) {
      each->info = &info_;
      each->pool = pool_;
      each->slots.resize(2);
    }
  }
  ~IterationTest() override {
    for (Iteration* each : {&first_, &second_}) {
      each->ReleaseSlots();
      each->FreeMemory();
    }
  }
  // The float 3, in the iteration's own memory or in a buffer.
  Slot& Three(Iteration* iteration, bool in_buffer) {
    Slot& slot = iteration->slots[0];
    const float three = 3;
    if (in_buffer) {
      slot.view = *NewTensor(pool_, TENON_DT_FLOAT, {nullptr, 0, 0}, 0);
      iteration->Own(&slot, 1);
    } else {
      slot.view = MakeView(TENON_DT_FLOAT, {nullptr, 0, 0}, *iteration->MemoryOf(&slot, sizeof three), sizeof three,
                           nullptr);
    }
    slot.depth = info_.depth;
    std::memcpy(DataOf(slot.view), &three, sizeof three);
    return slot;
  }
  static float ValueOf(const Slot& slot) { return *static_cast<const float*>(DataOf(slot.view)); }

  FrameInfo info_;
  Iteration first_, second_;
};

TEST_F(IterationTest, AValueOfItsOwnMemoryIsCopiedIntoAnotherTurn) {
  Slot& three = Three(&first_, false);
  ASSERT_TRUE(second_.Carry(three, first_, 1).ok());
  EXPECT_NE(DataOf(second_.slots[1].view), DataOf(three.view));
  first_.ReleaseSlots();
  EXPECT_EQ(ValueOf(second_.slots[1]), 3);
  EXPECT_FALSE(second_.slots[1].owned);
}

TEST_F(IterationTest, AValueInABufferGoesAlongUntilItsLastConsumer) {
  Slot& three = Three(&first_, true);
  ASSERT_TRUE(second_.Carry(three, first_, 1).ok());
  EXPECT_EQ(DataOf(second_.slots[1].view), DataOf(three.view));
  first_.Use(&three);
  EXPECT_EQ(first_.owned, 0);
  EXPECT_EQ(ValueOf(second_.slots[1]), 3);
  second_.Use(&second_.slots[1]);
  EXPECT_EQ(second_.owned, 1);
  second_.Use(&second_.slots[1]);
  EXPECT_EQ(second_.owned, 0);
  EXPECT_EQ(second_.slots[1].view.buffer, nullptr);
}

TEST_F(IterationTest, AValueOfAnOuterFrameIsLentAsItIs) {
  Slot& three = Three(&first_, false);
  three.depth = 0;
  ASSERT_TRUE(second_.Carry(three, first_, 1).ok());
  EXPECT_EQ(DataOf(second_.slots[1].view), DataOf(three.view));
  EXPECT_EQ(second_.slots[1].depth, 0);
}

TEST_F(IterationTest, ASlotKeepsItsMemoryWhileItIsEnough) {
  char* const small = *first_.MemoryOf(&first_.slots[0], 40);
  EXPECT_EQ(*first_.MemoryOf(&first_.slots[0], 8), small);
  char* const other = *first_.MemoryOf(&first_.slots[1], 8);
  EXPECT_NE(other, small);
  char* const large = *first_.MemoryOf(&first_.slots[0], 5000);
  EXPECT_NE(large, small);
  std::memset(large, 1, 5000);
}

}  // namespace
}  // namespace tenon::exec::dataflow::iteration_test
