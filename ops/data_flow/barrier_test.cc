// SPDX-License-Identifier: Apache-2.0
// Barriers: takes that wait for whole elements, closing, and what an insert leaves that fails half-way. Covers B7, M9.
#include "testing/steps.h"

#include <gtest/gtest.h>

#include "tenon/testing/linked.h"

namespace tenon::ops {
extern const tenon_kernel_registration kBarrierKernel, kBarrierInsertManyKernel, kBarrierTakeManyKernel,
    kBarrierCloseKernel, kBarrierReadySizeKernel, kBarrierIncompleteSizeKernel;
}  // namespace tenon::ops

namespace tenon::ops::barrier_test {
namespace {

class Gate : public Steps {
 public:
  explicit Gate(Shapes shapes = {{}, {}}, int64_t capacity = -1)
      : Steps(kBarrierKernel,
              {{"component_types", Types{kFloat, kFloat}}, {"shapes", std::move(shapes)}, {"capacity", capacity}}) {}
  Pending Put(int64_t component, std::vector<std::string> keys, std::vector<float> values) {
    const auto count = static_cast<int64_t>(keys.size());
    return Start(kBarrierInsertManyKernel, {{"component_index", component}},
                 {testing::Strings({count}, keys), Floats(std::move(values))});
  }
  Pending Take(int32_t count, bool fewer = false) {
    return Start(kBarrierTakeManyKernel,
                 {{"component_types", Types{kFloat, kFloat}},
                  {"allow_small_batch", fewer},
                  {"wait_for_incomplete", false},
                  {"timeout_ms", -1}},
                 {testing::Scalar(count)}, {TENON_DT_INT64, TENON_DT_STRING, kFloat, kFloat});
  }
  Pending Close(bool cancel = false) { return Start(kBarrierCloseKernel, {{"cancel_pending_enqueues", cancel}}, {}); }
  int32_t Ready() { return Number(kBarrierReadySizeKernel); }
  int32_t Incomplete() { return Number(kBarrierIncompleteSizeKernel); }
};

TEST(Barrier, ATakeWaitsForWholeElements) {
  Gate gate;
  const Pending two = gate.Take(2);
  ExpectDone(gate.Put(0, {"a", "b"}, {1, 2}));
  ExpectDone(gate.Put(1, {"b"}, {20}));
  EXPECT_FALSE(two->done());
  ExpectDone(gate.Put(1, {"a"}, {10}));
  EXPECT_EQ(Texts(two->outputs()[1]), (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(Got(two, 3), (std::vector<float>{20, 10}));
}

TEST(Barrier, AClosedOneTakesWhatIsMissingAndNothingNew) {
  Gate gate;
  gate.Put(0, {"a", "b"}, {1, 2});
  const Pending two = gate.Take(2), more = gate.Take(1);
  ExpectDone(gate.Close());
  EXPECT_FALSE(two->done());
  ExpectFailed(gate.Put(0, {"c"}, {3}), TENON_CANCELLED, "'c' is a new key");
  ExpectFailed(gate.Take(3), TENON_OUT_OF_RANGE, "is closed and has 2 elements; 3 are wanted");
  ExpectDone(gate.Put(1, {"a", "b"}, {10, 20}));
  EXPECT_EQ(Got(two, 2), (std::vector<float>{1, 2}));
  ExpectFailed(more, TENON_OUT_OF_RANGE, "is closed");
  ExpectFailed(gate.Close(), TENON_CANCELLED, "closed already");
}

TEST(Barrier, AClosingThatCancelsEndsTheTakes) {
  Gate gate;
  gate.Put(0, {"a"}, {1});
  const Pending waits = gate.Take(1);
  ExpectDone(gate.Close(true));
  ExpectFailed(waits, TENON_OUT_OF_RANGE, "is closed");
  EXPECT_EQ(gate.Incomplete(), 0);
  ExpectFailed(gate.Put(1, {"a"}, {1}), TENON_CANCELLED, "is closed");
}

TEST(Barrier, AnInsertThatFailsLosesNothingOfWhatItCompleted) {
  Gate gate;
  gate.Put(0, {"a", "b"}, {1, 2});
  gate.Put(1, {"c"}, {3});
  ExpectFailed(gate.Put(1, {"a", "c", "b"}, {10, 30, 20}), TENON_INVALID_ARGUMENT,
               "component 1 of key 'c' is in the Barrier 'p' already");
  EXPECT_EQ(gate.Ready(), 1);
  EXPECT_EQ(gate.Incomplete(), 2);
  const Pending one = gate.Take(2);
  one->Cancel();
  ExpectFailed(one, TENON_CANCELLED, "cancelled");
  EXPECT_EQ(Got(gate.Take(1), 3), std::vector<float>{10});
}

TEST(Barrier, ChecksWhatItIsGiven) {
  EXPECT_EQ(Gate(Shapes(1)).made().code, TENON_INVALID_ARGUMENT);
  EXPECT_EQ(Gate(Shapes{{}, {-1}}).made().code, TENON_INVALID_ARGUMENT);
  EXPECT_EQ(Gate(Shapes(2), 4).made().code, TENON_INVALID_ARGUMENT);
  Gate gate;
  ExpectFailed(gate.Put(2, {"a"}, {1}), TENON_INVALID_ARGUMENT, "component_index is 2");
  ExpectFailed(gate.Put(-1, {"a"}, {1}), TENON_INVALID_ARGUMENT, "component_index is -1");
  ExpectFailed(gate.Put(0, {"a"}, {1, 2}), TENON_INVALID_ARGUMENT, "there are 1 keys");
  ExpectFailed(gate.Take(-1), TENON_INVALID_ARGUMENT, "-1 elements");
  EXPECT_EQ(gate.Incomplete(), 0);
}

}  // namespace
}  // namespace tenon::ops::barrier_test
