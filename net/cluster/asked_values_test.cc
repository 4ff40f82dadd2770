// SPDX-License-Identifier: Apache-2.0
// Which values are asked for and when, and which are kept until then. Covers H9.
#include "net/cluster/asked_values.h"

#include <gtest/gtest.h>

namespace tenon::cluster::asked_values_test {
namespace {

using Channels = std::vector<int32_t>;

TEST(AskingWindow, AsksInOrderForSoManyBytesAndForTwoAtLeast) {
  AskingWindow window({{7, 40}, {3, 40}, {5, 40}, {9, 200}, {2, 10}}, 100);
  EXPECT_EQ(window.Begin(), (Channels{7, 3}));
  EXPECT_EQ(window.Needed(7), Channels());  // asked for already
  EXPECT_EQ(window.Taken(7), (Channels{5}));
  EXPECT_EQ(window.Taken(3), (Channels{9}));  // larger than the window: the second of two
  EXPECT_EQ(window.Taken(5), (Channels{2}));
  EXPECT_EQ(window.Taken(5), Channels());
  EXPECT_EQ(window.NeverAsked(), Channels());
}

TEST(AskingWindow, AsksForWhatSomebodyWaitsForWhateverTheOrder) {
  AskingWindow window({{0, 100}, {1, 100}, {2, 100}, {3, 100}}, 100);
  EXPECT_EQ(window.Begin(), (Channels{0, 1}));
  EXPECT_EQ(window.Needed(3), (Channels{3}));
  EXPECT_EQ(window.Needed(3), Channels());
  EXPECT_EQ(window.Needed(77), Channels());  // comes unasked
  EXPECT_EQ(window.Taken(77), Channels());
  EXPECT_EQ(window.Taken(3), Channels());
  EXPECT_EQ(window.Taken(1), (Channels{2}));
  EXPECT_EQ(window.Taken(0), Channels());
}

TEST(AskingWindow, AValueThatComesUnaskedIsNotAskedForAnyMore) {  // a dead one
  AskingWindow window({{0, 100}, {1, 100}, {2, 100}, {3, 100}}, 100);
  EXPECT_EQ(window.Begin(), (Channels{0, 1}));
  EXPECT_EQ(window.Taken(2), Channels());
  EXPECT_EQ(window.Taken(0), (Channels{3}));
  EXPECT_EQ(window.NeverAsked(), Channels());
}

TEST(AskingWindow, KnowsWhatNobodyAskedFor) {
  AskingWindow window({{0, 100}, {1, 100}, {2, UINT64_MAX}, {3, UINT64_MAX}}, UINT64_MAX - 1);
  EXPECT_EQ(window.Begin(), (Channels{0, 1}));
  EXPECT_EQ(window.NeverAsked(), (Channels{2, 3}));
  EXPECT_EQ(AskingWindow({}, 0).Begin(), Channels());
}

exec::Message Value() {
  static const Tensor tensor = *Tensor::Allocate(GlobalPool(), TENON_DT_FLOAT, Shape{2}, 0);
  return *exec::Message::Of(tensor.view(), GlobalPool());
}

TEST(KeptValues, GoWhenTheyAreMadeAndAskedForInEitherOrder) {
  KeptValues kept;
  EXPECT_FALSE(kept.Made(1, Value()).has_value());
  EXPECT_FALSE(kept.empty());
  EXPECT_TRUE(kept.Wanted(1).has_value());
  EXPECT_FALSE(kept.Wanted(1).has_value());  // asked for twice
  EXPECT_FALSE(kept.Wanted(2).has_value());
  EXPECT_TRUE(kept.Made(2, Value()).has_value());
  EXPECT_TRUE(kept.empty());
}

TEST(KeptValues, AreDroppedWhenNobodyWillAsk) {
  KeptValues kept;
  EXPECT_FALSE(kept.Made(1, Value()).has_value());
  kept.Unwanted(1);
  EXPECT_TRUE(kept.empty());
  EXPECT_FALSE(kept.Wanted(1).has_value());
  kept.Unwanted(2);
  EXPECT_FALSE(kept.Made(2, Value()).has_value());
  EXPECT_TRUE(kept.empty());
  EXPECT_FALSE(kept.Made(3, Value()).has_value());
  kept.Clear();
  EXPECT_TRUE(kept.empty());
}

}  // namespace
}  // namespace tenon::cluster::asked_values_test
