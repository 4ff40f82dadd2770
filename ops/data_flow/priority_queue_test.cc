// SPDX-License-Identifier: Apache-2.0
// Priority queues: their order, and what a cancelled dequeue leaves. Covers B10, M6, M9.
#include "testing/steps.h"

#include <gtest/gtest.h>

#include "tenon/testing/linked.h"

namespace tenon::ops {
extern const tenon_kernel_registration kPriorityQueueV2Kernel, kQueueEnqueueV2Kernel, kQueueDequeueV2Kernel,
    kQueueDequeueManyV2Kernel, kQueueSizeV2Kernel;
}  // namespace tenon::ops

namespace tenon::ops::priority_queue_test {
namespace {

class Priorities : public Steps {
 public:
  explicit Priorities(Shapes shapes = {{}}, int64_t capacity = -1)
      : Steps(kPriorityQueueV2Kernel,
              {{"component_types", Types{kFloat}}, {"shapes", std::move(shapes)}, {"capacity", capacity}}) {}
  Pending Put(int64_t priority, float value) {
    return Start(kQueueEnqueueV2Kernel, {{"Tcomponents", Types{TENON_DT_INT64, kFloat}}, {"timeout_ms", -1}},
                 {testing::Scalar(priority), testing::Scalar(value)});
  }
  Pending Take() {
    return Start(kQueueDequeueV2Kernel, {{"component_types", Types{TENON_DT_INT64, kFloat}}, {"timeout_ms", -1}}, {},
                 {TENON_DT_INT64, kFloat});
  }
  Pending TakeMany(int32_t count) {
    return Start(kQueueDequeueManyV2Kernel, {{"component_types", Types{TENON_DT_INT64, kFloat}}, {"timeout_ms", -1}},
                 {testing::Scalar(count)}, {TENON_DT_INT64, kFloat});
  }
};

TEST(PriorityQueue, GivesTheSmallestFirstAndWaitsForIt) {
  Priorities queue;
  ExpectDone(queue.Put(3, 30));
  ExpectDone(queue.Put(-1, 10));
  ExpectDone(queue.Put(2, 20));
  EXPECT_EQ(Got(queue.Take(), 1), std::vector<float>{10});
  EXPECT_EQ(Got<int64_t>(queue.TakeMany(2)), (std::vector<int64_t>{2, 3}));
  const Pending waits = queue.Take();
  EXPECT_FALSE(waits->done());
  ExpectDone(queue.Put(7, 1));
  EXPECT_EQ(Got(waits, 1), std::vector<float>{1});
}

TEST(PriorityQueue, ACancelledDequeuePutsBackWhatItHad) {
  Priorities queue;
  queue.Put(2, 20);
  queue.Put(1, 10);
  const Pending many = queue.TakeMany(3);
  EXPECT_EQ(queue.Number(kQueueSizeV2Kernel), 0);
  many->Cancel();
  ExpectFailed(many, TENON_CANCELLED, "cancelled");
  EXPECT_EQ(Got(queue.Take(), 1), std::vector<float>{10});
  EXPECT_EQ(Got(queue.Take(), 1), std::vector<float>{20});
}

TEST(PriorityQueue, NeedsShapes) {
  EXPECT_EQ(Priorities(Shapes{}).made().code, TENON_INVALID_ARGUMENT);
  EXPECT_EQ(Priorities(Shapes(2)).made().code, TENON_INVALID_ARGUMENT);
  EXPECT_EQ(Priorities(Shapes{{-1}}).made().code, TENON_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace tenon::ops::priority_queue_test
