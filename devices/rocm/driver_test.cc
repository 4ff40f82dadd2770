// SPDX-License-Identifier: Apache-2.0
// What is asked of a HIP runtime when a GPU is opened, and what its streams wait for, on an emulated one
// (emulation/driver.cc). Covers N4.
#include <gtest/gtest.h>

#include <cstdlib>

#include "api.h"
#include "driver_card.h"
#include "record.h"

namespace tenon::gpu {
namespace {

// A GPU of a runtime whose streams wait for such memory.
class OpenedCard {
 public:
  explicit OpenedCard(const char* memory) : card_(Api()) {
    setenv("TENON_EMULATED_HIP_WAITS", memory, 1);
    outcome = card_.Open(0);
  }
  Outcome outcome;
  Card& operator*() { return card_; }
  Card* operator->() { return &card_; }

 private:
  static const HipApi& Api() {
    static const HipApi* const api = [] {
      auto* const made = new HipApi;
      const Outcome opened = made->Open();
      EXPECT_TRUE(opened.ok()) << opened.message;
      return made;
    }();
    return *api;
  }
  DriverCard<HipApi> card_;
};

TEST(HipRuntime, WhoseStreamsWaitForAnyMemoryGetsPinnedWords) {
  OpenedCard card("any");
  ASSERT_TRUE(card.outcome.ok()) << card.outcome.message;
  uint64_t word = 0, *waited = &word;
  EXPECT_TRUE(card->AllocateWaited(&waited).ok());
  EXPECT_EQ(waited, nullptr);
}

TEST(HipRuntime, WhoseStreamsWaitForSignalMemoryAloneGetsAWordOfItsOwnForEachRecord) {
  OpenedCard card("signal");
  ASSERT_TRUE(card.outcome.ok()) << card.outcome.message;
  void* memory = nullptr;
  ASSERT_TRUE(card->AllocatePinned(sizeof(FaultRecord), &memory).ok());
  Record record{static_cast<FaultRecord*>(memory), nullptr};
  uint64_t* other = nullptr;
  ASSERT_TRUE(card->AllocateWaited(&record.waited).ok() && card->AllocateWaited(&other).ok());
  ASSERT_NE(record.waited, nullptr);
  EXPECT_NE(record.waited, other);
  record.Reset(3);
  Stream first = nullptr, second = nullptr;
  ASSERT_TRUE(card->CreateStream(0, &first).ok() && card->CreateStream(0, &second).ok());
  EXPECT_FALSE(card->WaitForWord(&record.fault->word, 3, first).ok()) << "a word of pinned memory";
  // The second stream waits for the first, which waits for the host.
  EXPECT_TRUE(record.Await(*card, 4, first).ok());
  EXPECT_TRUE(record.Write(*card, 5, first).ok());
  EXPECT_TRUE(record.Await(*card, 5, second).ok());
  bool is_idle = true;
  EXPECT_TRUE(card->Health(second, &is_idle).ok());
  EXPECT_FALSE(is_idle);
  EXPECT_EQ(record.word(), 3u);
  record.Set(4);
  EXPECT_TRUE(card->Synchronize(second).ok());
  EXPECT_EQ(record.word(), 5u);
  EXPECT_EQ(*record.waited, 5u);
  card->DestroyStream(first);
  card->DestroyStream(second);
  card->FreeWaited(record.waited);
  card->FreeWaited(other);
  card->FreePinned(memory);
}

// Not when the first step waits for another queue.
TEST(HipRuntime, WhoseStreamsWaitForNeitherIsRefusedWhenItsGpuIsOpened) {
  const OpenedCard card("nothing");
  EXPECT_EQ(card.outcome.code, static_cast<uint32_t>(TENON_FAILED_PRECONDITION));
  EXPECT_EQ(card.outcome.message,
            "the HIP runtime's streams wait neither for words of pinned memory: hipErrorInvalidValue (said by the "
            "emulated runtime), nor of signal memory: "
            "hipErrorInvalidValue (said by the emulated runtime); install a newer ROCm");
}

}  // namespace
}  // namespace tenon::gpu
