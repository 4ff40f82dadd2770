// SPDX-License-Identifier: Apache-2.0
// Staging areas: who waits for an element or for room, and what they refuse. Covers B7, M3, M9.
#include "testing/steps.h"

#include <gtest/gtest.h>

#include "tenon/testing/linked.h"

namespace tenon::ops {
extern const tenon_kernel_registration kStageKernel, kUnstageKernel, kStagePeekKernel, kStageSizeKernel,
    kStageClearKernel, kMapStageKernel, kMapUnstageKernel, kMapPeekKernel, kMapUnstageNoKeyKernel, kMapSizeKernel,
    kMapIncompleteSizeKernel, kMapClearKernel;
}  // namespace tenon::ops

namespace tenon::ops::stage_test {
namespace {

class Area : public Steps {
 public:
  explicit Area(int64_t capacity = 0, int64_t memory_limit = 0)
      : bounds_{{"capacity", capacity}, {"memory_limit", memory_limit}, {"dtypes", Types{kFloat}}} {}
  Pending Put(std::vector<float> values) { return Start(kStageKernel, bounds_, {Floats(std::move(values))}); }
  Pending Take() { return Start(kUnstageKernel, bounds_, {}, {kFloat}); }
  Pending Peek(int32_t index) { return Start(kStagePeekKernel, bounds_, {testing::Scalar(index)}, {kFloat}); }
  Pending Clear() { return Start(kStageClearKernel, bounds_, {}); }
  int32_t Size() { return Number(kStageSizeKernel, bounds_); }

 private:
  const Attributes bounds_;
};

TEST(Stage, WaitsForAnElementAndForRoom) {
  Area area(1);
  const Pending out = area.Take();
  EXPECT_FALSE(out->done());
  ExpectDone(area.Put({1}));
  EXPECT_EQ(Got(out), std::vector<float>{1});
  ExpectDone(area.Put({2}));
  const Pending third = area.Put({3}), fourth = area.Put({4});
  EXPECT_FALSE(third->done());
  third->Cancel();
  ExpectFailed(third, TENON_CANCELLED, "cancelled");
  EXPECT_EQ(Got(area.Take()), std::vector<float>{2});
  ExpectDone(fourth);
  EXPECT_EQ(Got(area.Take()), std::vector<float>{4});
  EXPECT_EQ(area.Size(), 0);
}

TEST(Stage, AMemoryLimitMakesPutsWaitAndRefusesWhatNeverFits) {
  Area area(0, 12);
  ExpectDone(area.Put({1, 2}));
  const Pending waits = area.Put({3, 4});
  EXPECT_FALSE(waits->done());
  ExpectFailed(area.Put({1, 2, 3, 4}), TENON_RESOURCE_EXHAUSTED,
               "takes 12 bytes in all, its memory_limit; these are 16");
  EXPECT_EQ(Got(area.Take()), (std::vector<float>{1, 2}));
  ExpectDone(waits);
}

TEST(Stage, APeekThatWaitsHoldsNobodyUp) {
  Area area;
  const Pending second = area.Peek(1), out = area.Take();
  ExpectDone(area.Put({1}));
  EXPECT_EQ(Got(out), std::vector<float>{1});
  ExpectDone(area.Put({2}));
  EXPECT_FALSE(second->done());
  ExpectDone(area.Put({3}));
  EXPECT_EQ(Got(second), std::vector<float>{3});
  EXPECT_EQ(area.Size(), 2);
  ExpectFailed(area.Peek(-1), TENON_INVALID_ARGUMENT, "index is -1");
}

TEST(Stage, ClearingMakesRoomAndOtherTypesLoseNothing) {
  Area area(1);
  ExpectDone(area.Put({1}));
  const Pending in = area.Put({2});
  ExpectDone(area.Clear());
  ExpectDone(in);
  ExpectFailed(area.Start(kUnstageKernel, {{"capacity", 1}, {"memory_limit", 0}, {"dtypes", Types{TENON_DT_INT32}}}, {},
                          {TENON_DT_INT32}),
               TENON_INVALID_ARGUMENT, "of the types float, not int32");
  EXPECT_EQ(Got(area.Take()), std::vector<float>{2});
  const Pending waits = area.Take();
  area.Remove();
  ExpectFailed(waits, TENON_CANCELLED, "taken away");
}

class Map : public Steps {
 public:
  explicit Map(int64_t capacity = 0, int64_t memory_limit = 0)
      : bounds_{{"capacity", capacity}, {"memory_limit", memory_limit}} {}
  Pending Put(int64_t key, std::vector<int32_t> places, float value) {
    std::vector<Tensor> inputs;
    inputs.push_back(testing::Scalar(key));
    inputs.push_back(Make<int32_t>({static_cast<int64_t>(places.size())}, places));
    for (size_t i = 0; i < places.size(); ++i) inputs.push_back(testing::Scalar(value + static_cast<float>(places[i])));
    return Start(kMapStageKernel, With(2), std::move(inputs));
  }
  Pending Take(int64_t key, std::vector<int32_t> places) { return Get(kMapUnstageKernel, key, std::move(places)); }
  Pending Peek(int64_t key, std::vector<int32_t> places) { return Get(kMapPeekKernel, key, std::move(places)); }
  Pending TakeAny() {
    return Start(kMapUnstageNoKeyKernel, With(2), {Make<int32_t>({2}, {0, 1})}, {TENON_DT_INT64, kFloat, kFloat});
  }
  Pending Clear() { return Start(kMapClearKernel, With(2), {}); }
  int32_t Size() { return Number(kMapSizeKernel, With(0)); }
  int32_t Incomplete() { return Number(kMapIncompleteSizeKernel, With(0)); }

 private:
  Attributes With(size_t types) const {
    Attributes attributes = bounds_;
    attributes["dtypes"] = Types(types, kFloat);
    return attributes;
  }
  Pending Get(const tenon_kernel_registration& kernel, int64_t key, std::vector<int32_t> places) {
    const size_t count = places.size();
    return Start(kernel, With(count), {testing::Scalar(key), Make<int32_t>({static_cast<int64_t>(count)}, places)},
                 Types(count, kFloat));
  }
  const Attributes bounds_;
};

TEST(MapStage, WaitsForItsKeyUntilAllOfItHasCome) {
  Map map;
  const Pending seven = map.Take(7, {0, 1}), look = map.Peek(7, {1}), any = map.TakeAny();
  ExpectDone(map.Put(7, {0}, 10));
  EXPECT_FALSE(seven->done());
  EXPECT_EQ(map.Incomplete(), 1);
  ExpectDone(map.Put(7, {1}, 10));
  EXPECT_EQ(Got(seven, 1), std::vector<float>{11});
  EXPECT_FALSE(look->done()) << "who came first has taken it";
  ExpectDone(map.Put(3, {0, 1}, 30));
  EXPECT_EQ(Got<int64_t>(any), std::vector<int64_t>{3});
  ExpectDone(map.Put(7, {0, 1}, 50));
  EXPECT_EQ(Got(look), std::vector<float>{51});
  EXPECT_EQ(map.Size(), 1);
}

TEST(MapStage, BoundsHoldUntilSomethingIsTaken) {
  Map map(1);
  ExpectDone(map.Put(1, {0, 1}, 10));
  const Pending two = map.Put(2, {0, 1}, 20);
  EXPECT_FALSE(two->done());
  ExpectDone(map.Put(3, {1}, 30));
  EXPECT_EQ(Got(map.Take(1, {1})), std::vector<float>{11});
  EXPECT_FALSE(two->done()) << "half of it is still there";
  EXPECT_EQ(Got(map.Take(1, {0})), std::vector<float>{10});
  ExpectDone(two);
  Map small(0, 8);
  ExpectDone(small.Put(1, {0}, 1));
  ExpectDone(small.Put(2, {0}, 1));
  const Pending rest = small.Put(1, {1}, 1);
  EXPECT_FALSE(rest->done()) << "pieces count";
  rest->Cancel();
  ExpectFailed(rest, TENON_CANCELLED, "cancelled");
  const Pending again = small.Put(2, {1}, 1);
  ExpectDone(small.Clear());
  ExpectDone(again);
  EXPECT_EQ(small.Incomplete(), 1);
}

TEST(MapStage, RefusesWrongPlaces) {
  Map map;
  ExpectFailed(map.Put(1, {0, 0}, 1), TENON_INVALID_ARGUMENT, "indices must grow");
  ExpectFailed(map.Put(1, {2}, 1), TENON_INVALID_ARGUMENT, "none of the 2 values");
  ExpectFailed(map.Put(1, {-1}, 1), TENON_INVALID_ARGUMENT, "none of the 2 values");
  ExpectFailed(map.Take(1, {}), TENON_INVALID_ARGUMENT, "indices are empty");
  ExpectDone(map.Put(1, {0, 1}, 1));
  ExpectFailed(map.Take(1, {7}), TENON_INVALID_ARGUMENT, "none of the 2 values");
  EXPECT_EQ(Got(map.Take(1, {1})), std::vector<float>{2});
  ExpectFailed(map.Take(1, {0, 1}), TENON_INVALID_ARGUMENT, "was taken");
  EXPECT_EQ(Got(map.Take(1, {0})), std::vector<float>{1});
  EXPECT_EQ(map.Size(), 0);
}

}  // namespace
}  // namespace tenon::ops::stage_test
