// SPDX-License-Identifier: Apache-2.0
// Queues, one attempt after the other on one thread: who waits, who ends, and with what. Covers B7, B10, M3, M5, M9.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tenon/extras/kernel/shared_queue.h"
#include "testing/steps.h"
#include "tenon/testing/linked.h"

namespace tenon::ops {
extern const tenon_kernel_registration kFIFOQueueV2Kernel, kPaddingFIFOQueueV2Kernel, kRandomShuffleQueueV2Kernel,
    kQueueEnqueueV2Kernel, kQueueEnqueueManyV2Kernel, kQueueDequeueV2Kernel, kQueueDequeueManyV2Kernel,
    kQueueDequeueUpToV2Kernel, kQueueCloseV2Kernel, kQueueIsClosedV2Kernel, kQueueSizeV2Kernel;
}  // namespace tenon::ops

namespace tenon::ops::queue_test {
namespace {

// A kernel of another package, which knows the queue by its handle alone (tenon/extras/kernel/shared_queue.h).
struct TakesOne {
  void RunAsync(sdk::RunContext c, sdk::Done done) const {
    sdk::TakeOne(sdk::QueueIn(c, 0), c, [c, done](sdk::Outcome failure, std::span<const tenon_tensor_view> components) {
      if (!failure.ok()) return done(sdk::ToStatus(failure));
      *c.output<float>(0) = static_cast<float>(components.size()) * 100 + *sdk::Data<const float>(components[0]);
      done(nullptr);
    });
  }
};
constexpr tenon_kernel_registration kTakesOne = sdk::Registration<TakesOne>("TakesOne", {.flags = 0});

Tensor Floats(std::vector<int64_t> dims, const std::vector<float>& values) {
  return Make<float>(std::move(dims), values);
}
Tensor Scalar(float value) { return Floats({}, {value}); }

// A queue and the steps that use it.
class TestQueue {
 public:
  explicit TestQueue(int64_t capacity = -1, Shapes shapes = {{}}, std::vector<uint32_t> types = {TENON_DT_FLOAT},
                     const tenon_kernel_registration& kernel = kFIFOQueueV2Kernel, int64_t min_after_dequeue = 0)
      : types_(std::move(types)) {
    made_ = Make(kernel, types_, std::move(shapes), capacity, min_after_dequeue);
    if (made_.ok()) handle_ = std::move(step_.outputs[0]);
  }
  Outcome Make(const tenon_kernel_registration& kernel, std::vector<uint32_t> types, Shapes shapes, int64_t capacity,
               int64_t min_after_dequeue = 0, int64_t seed = 7) {
    Node node = {"Queue",
                 {{"container", ""},
                  {"shared_name", "q"},
                  {"capacity", capacity},
                  {"min_after_dequeue", min_after_dequeue},
                  {"seed", seed},
                  {"seed2", 3}},
                 {},
                 {TENON_DT_RESOURCE}};
    node.attributes["component_types"] = std::move(types);
    node.attributes["shapes"] = std::move(shapes);
    return step_.Run(kernel, node, {});
  }
  const Outcome& made() const { return made_; }

  Pending Enqueue(const std::vector<const Tensor*>& components) {
    return Start(kQueueEnqueueV2Kernel, "Tcomponents", components, {});
  }
  Pending Enqueue(float value) { return Enqueue({&Keep(Scalar(value))}); }
  Pending EnqueueMany(const std::vector<const Tensor*>& components) {
    return Start(kQueueEnqueueManyV2Kernel, "Tcomponents", components, {});
  }
  Pending EnqueueRows(const std::vector<float>& values) {
    return EnqueueMany({&Keep(Floats({static_cast<int64_t>(values.size())}, values))});
  }
  Pending Dequeue() { return Start(kQueueDequeueV2Kernel, "component_types", {}, types_); }
  Pending Take() { return step_.Start(kTakesOne, {"TakesOne", {}, {}, {TENON_DT_FLOAT}}, {&handle_}); }
  sdk::SharedQueue& shared() { return *static_cast<sdk::SharedQueue*>(testing::ResourceOf(handle_)->object); }
  Pending DequeueMany(int32_t count) { return Rows(kQueueDequeueManyV2Kernel, count); }
  Pending DequeueUpTo(int32_t count) { return Rows(kQueueDequeueUpToV2Kernel, count); }
  Pending Close(bool cancel = false) {
    return step_.Start(kQueueCloseV2Kernel, {"QueueCloseV2", {{"cancel_pending_enqueues", cancel}}}, {&handle_});
  }
  int32_t Size() {
    EXPECT_TRUE(step_.Run(kQueueSizeV2Kernel, {"QueueSizeV2", {}, {}, {TENON_DT_INT32}}, {&handle_}).ok());
    return Values<int32_t>(step_.outputs[0])[0];
  }
  bool IsClosed() {
    EXPECT_TRUE(step_.Run(kQueueIsClosedV2Kernel, {"QueueIsClosedV2", {}, {}, {TENON_DT_BOOL}}, {&handle_}).ok());
    return Values<bool>(step_.outputs[0])[0];
  }
  // What is dequeued at once.
  float Next() {
    const Pending next = Dequeue();
    return next->done() && next->outcome().ok() ? Values<float>(next->outputs()[0])[0] : -1;
  }
  void Remove() { step_.ClearHandles(); }

 private:
  const Tensor& Keep(Tensor tensor) { return kept_.emplace_back(std::move(tensor)); }
  Pending Rows(const tenon_kernel_registration& kernel, int32_t count) {
    return Start(kernel, "component_types", {&Keep(testing::Scalar(count))}, types_);
  }
  Pending Start(const tenon_kernel_registration& kernel, const char* attr, std::vector<const Tensor*> inputs,
                std::vector<uint32_t> outputs) {
    std::vector<uint32_t> types = types_;
    if (std::string_view(attr) == "Tcomponents") {
      types.clear();
      for (const Tensor* input : inputs) types.push_back(input->dtype);
    }
    const Node node = {"Queue", {{"timeout_ms", -1}, {attr, types}}, {}, std::move(outputs)};
    inputs.insert(inputs.begin(), &handle_);
    return step_.Start(kernel, node, inputs);
  }

  KernelRunner step_;
  std::vector<uint32_t> types_;
  Outcome made_;
  Tensor handle_;
  std::deque<Tensor> kept_;
};

TEST(Queue, GivesWhatCameFirstFirst) {
  TestQueue queue;
  for (const float value : {1.0f, 2.0f, 3.0f}) EXPECT_TRUE(queue.Enqueue(value)->done());
  EXPECT_EQ(queue.Size(), 3);
  EXPECT_EQ(queue.Next(), 1);
  EXPECT_EQ(queue.Next(), 2);
  EXPECT_EQ(queue.Next(), 3);
  EXPECT_EQ(queue.Size(), 0);
}

TEST(Queue, ADequeueWaitsForAnElementAndDequeuesAreServedInTheirOrder) {
  TestQueue queue;
  const Pending first = queue.Dequeue(), second = queue.Dequeue();
  EXPECT_FALSE(first->done());
  ASSERT_TRUE(queue.Enqueue(1)->done());
  EXPECT_EQ(Got(first), std::vector<float>{1});
  EXPECT_FALSE(second->done());
  ASSERT_TRUE(queue.Enqueue(2)->done());
  EXPECT_EQ(Got(second), std::vector<float>{2});
}

TEST(Queue, GivesElementsToOtherPackages) {
  TestQueue queue;
  EXPECT_EQ(sdk::ToText(queue.shared().description()), "FIFOQueue 'q'");
  EXPECT_EQ(sdk::ComponentTypes(queue.shared()).size(), 1U);
  EXPECT_EQ(sdk::ComponentTypes(queue.shared())[0], TENON_DT_FLOAT);
  ASSERT_TRUE(queue.Enqueue(7)->done());
  EXPECT_EQ(Got(queue.Take()), std::vector<float>{107});
  const Pending first = queue.Take(), second = queue.Take(), third = queue.Dequeue();
  EXPECT_FALSE(first->done() || second->done() || third->done());
  first->Cancel();
  ExpectFailed(first, TENON_CANCELLED, "cancelled");
  ASSERT_TRUE(queue.Enqueue(8)->done());
  EXPECT_EQ(Got(second), std::vector<float>{108}) << "in the order in which they came";
  ASSERT_TRUE(queue.Close()->done());
  ExpectFailed(third, TENON_OUT_OF_RANGE, "is closed and has 0 elements");
  ExpectFailed(queue.Take(), TENON_OUT_OF_RANGE, "is closed and has 0 elements");
}

TEST(Queue, ThatIsTakenAwayEndsThoseOfOtherPackages) {
  TestQueue queue;
  const Pending waits = queue.Take();
  queue.Remove();
  ExpectFailed(waits, TENON_CANCELLED, "taken away");
}

TEST(Queue, AnEnqueueWaitsForRoom) {
  TestQueue queue(1);
  ASSERT_TRUE(queue.Enqueue(1)->done());
  const Pending second = queue.Enqueue(2), third = queue.Enqueue(3);
  EXPECT_FALSE(second->done());
  EXPECT_EQ(queue.Size(), 1);
  EXPECT_EQ(queue.Next(), 1);
  EXPECT_TRUE(second->done());
  EXPECT_FALSE(third->done());
  EXPECT_EQ(queue.Next(), 2);
  EXPECT_TRUE(third->done());
  EXPECT_EQ(queue.Next(), 3);
}

TEST(Queue, RowsGoInAndComeOutAsRows) {
  TestQueue queue(-1, {{2}, {}}, {TENON_DT_FLOAT, TENON_DT_STRING});
  const Tensor numbers = Floats({3, 2}, {1, 2, 3, 4, 5, 6}), names = testing::Strings({3}, {"a", "", "ccc"});
  ASSERT_TRUE(queue.EnqueueMany({&numbers, &names})->outcome().ok());
  const Pending one = queue.Dequeue();
  EXPECT_EQ(Got(one), (std::vector<float>{1, 2}));
  EXPECT_EQ(Texts(one->outputs()[1]), std::vector<std::string>{"a"});
  const Tensor number = Floats({2}, {7, 8}), name = testing::Strings({}, {"dddd"});
  ASSERT_TRUE(queue.Enqueue({&number, &name})->outcome().ok());
  const Pending rest = queue.DequeueMany(3);
  EXPECT_EQ(Got(rest), (std::vector<float>{3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(rest->outputs()[0].dims, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(Texts(rest->outputs()[1]), (std::vector<std::string>{"", "ccc", "dddd"}));
}

TEST(Queue, ManyAreGivenTogetherOrNotAtAll) {
  TestQueue queue;
  const Pending many = queue.DequeueMany(3);
  queue.EnqueueRows({1, 2});
  EXPECT_FALSE(many->done());
  ASSERT_TRUE(queue.Close()->done());
  ExpectFailed(many, TENON_OUT_OF_RANGE, "is closed and has 2 elements; 3 are wanted");
  EXPECT_EQ(queue.Size(), 2);
  EXPECT_EQ(queue.Next(), 1) << "they are where they were";
  EXPECT_EQ(queue.Next(), 2);
}

TEST(Queue, MoreThanItsCapacityPassesThroughIt) {
  TestQueue queue(2);
  const Pending in = queue.EnqueueRows({1, 2, 3, 4, 5});
  EXPECT_FALSE(in->done());
  EXPECT_EQ(queue.Size(), 2);
  EXPECT_EQ(Got(queue.DequeueMany(4)), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_TRUE(in->done());
  EXPECT_EQ(queue.Next(), 5);
}

TEST(Queue, OneThatIsTooEarlyDoesNotLetLaterOnesPass) {
  TestQueue queue;
  const Pending many = queue.DequeueMany(2), one = queue.Dequeue();
  queue.Enqueue(1);
  EXPECT_FALSE(one->done()) << "the first in line has it";
  queue.EnqueueRows({2, 3});
  EXPECT_EQ(Got(many), (std::vector<float>{1, 2}));
  EXPECT_EQ(Got(one), std::vector<float>{3});
}

TEST(Queue, UpToSomeGivesTheRestOfAClosedQueue) {
  TestQueue queue;
  const Pending some = queue.DequeueUpTo(3);
  queue.EnqueueRows({1, 2});
  EXPECT_FALSE(some->done()) << "more may come";
  queue.Close();
  EXPECT_EQ(Got(some), (std::vector<float>{1, 2}));
  ExpectFailed(queue.DequeueUpTo(3), TENON_OUT_OF_RANGE, "is closed and has 0 elements");
}

TEST(Queue, NothingIsDoneAtOnce) {
  TestQueue queue;
  EXPECT_TRUE(queue.EnqueueRows(std::vector<float>{})->outcome().ok());
  const Pending none = queue.DequeueMany(0);
  EXPECT_EQ(Got(none), std::vector<float>{});
  EXPECT_EQ(none->outputs()[0].dims, std::vector<int64_t>{0});
  queue.Close();
  EXPECT_TRUE(queue.EnqueueRows(std::vector<float>{})->outcome().ok());
}

TEST(Queue, ClosedItGivesWhatItHasAndTakesNothing) {
  TestQueue queue;
  queue.Enqueue(1);
  EXPECT_FALSE(queue.IsClosed());
  ASSERT_TRUE(queue.Close()->outcome().ok());
  EXPECT_TRUE(queue.IsClosed());
  ExpectFailed(queue.Enqueue(2), TENON_CANCELLED, "FIFOQueue 'q' is closed");
  EXPECT_EQ(queue.Next(), 1);
  ExpectFailed(queue.Dequeue(), TENON_OUT_OF_RANGE, "is closed and has 0 elements");
  ExpectFailed(queue.Close(), TENON_CANCELLED, "closed already");
  EXPECT_TRUE(queue.Close(true)->outcome().ok());
}

TEST(Queue, AClosingEndsTheDequeuesThatWait) {
  TestQueue queue;
  const Pending waits = queue.Dequeue();
  queue.Close();
  ExpectFailed(waits, TENON_OUT_OF_RANGE, "is closed");
}

TEST(Queue, AClosingWaitsForEnqueuesBeforeItAndRefusesThoseAfterIt) {
  TestQueue queue(1);
  queue.Enqueue(1);
  const Pending before = queue.Enqueue(2), close = queue.Close(), after = queue.Enqueue(3);
  EXPECT_FALSE(close->done());
  EXPECT_FALSE(queue.IsClosed());
  EXPECT_EQ(queue.Next(), 1);
  EXPECT_TRUE(before->outcome().ok());
  EXPECT_TRUE(close->done());
  ExpectFailed(after, TENON_CANCELLED, "is closed");
  EXPECT_EQ(queue.Next(), 2);
}

TEST(Queue, AClosingThatCancelsEndsTheEnqueuesThatWait) {
  TestQueue queue(2);
  queue.Enqueue(1);
  const Pending many = queue.EnqueueRows({2, 3, 4}), one = queue.Enqueue(5);
  ASSERT_TRUE(queue.Close(true)->outcome().ok());
  ExpectFailed(many, TENON_CANCELLED, "it was closed");
  ExpectFailed(one, TENON_CANCELLED, "it was closed");
  EXPECT_EQ(queue.Next(), 1);
  EXPECT_EQ(queue.Next(), 2) << "what went in stays in";
  ExpectFailed(queue.Dequeue(), TENON_OUT_OF_RANGE, "is closed");
}

TEST(Queue, ACancelledStepLeavesTheQueueAsItWas) {
  TestQueue queue;
  const Pending many = queue.DequeueMany(3), one = queue.Dequeue();
  queue.EnqueueRows({1, 2});
  many->Cancel(TENON_DEADLINE_EXCEEDED);
  ExpectFailed(many, TENON_DEADLINE_EXCEEDED, "cancelled");
  EXPECT_EQ(Got(one), std::vector<float>{1}) << "the next in line goes on";
  EXPECT_EQ(queue.Next(), 2);
  TestQueue full(1);
  full.Enqueue(1);
  const Pending in = full.Enqueue(2), next = full.Enqueue(3);
  in->Cancel();
  ExpectFailed(in, TENON_CANCELLED, "cancelled");
  EXPECT_EQ(full.Next(), 1);
  EXPECT_TRUE(next->outcome().ok());
  EXPECT_EQ(full.Next(), 3);
}

TEST(Queue, TakenAwayItEndsWhatWaits) {
  TestQueue queue(1);
  const Pending out = queue.DequeueMany(5);
  queue.Remove();
  ExpectFailed(out, TENON_CANCELLED, "taken away");
}

TEST(Queue, ChecksTypesAndShapes) {
  TestQueue queue(-1, {{2}});
  const Tensor wrong = Floats({3}, {1, 2, 3}), integers = Make<int32_t>({2}, {1, 2}),
               matrix = Floats({2, 2}, {1, 2, 3, 4});
  ExpectFailed(queue.Enqueue({&wrong}), TENON_INVALID_ARGUMENT, "has shape [3]; the FIFOQueue 'q' takes [2]");
  ExpectFailed(queue.Enqueue({&integers}), TENON_INVALID_ARGUMENT, "components of the types float, not int32");
  ExpectFailed(queue.EnqueueMany({&wrong}), TENON_INVALID_ARGUMENT, "has shape []");
  EXPECT_TRUE(queue.EnqueueMany({&matrix})->outcome().ok());
  TestQueue two(-1, {{}, {}}, {TENON_DT_FLOAT, TENON_DT_FLOAT});
  const Tensor pair = Floats({2}, {1, 2});
  ExpectFailed(two.EnqueueMany({&pair, &wrong}), TENON_INVALID_ARGUMENT, "component 1 has 3 rows, the first one 2");
  TestQueue shapeless(-1, {});
  EXPECT_TRUE(shapeless.Enqueue({&wrong})->outcome().ok());
  EXPECT_TRUE(shapeless.Enqueue({&matrix})->outcome().ok());
  ExpectFailed(shapeless.DequeueMany(2), TENON_INVALID_ARGUMENT, "need the shapes");
  EXPECT_EQ(Got(shapeless.Dequeue()).size(), 3u);
  EXPECT_EQ(Got(shapeless.Dequeue()).size(), 4u);
}

TEST(Queue, ChecksHowItIsDescribed) {
  EXPECT_EQ(TestQueue(-1, {{}, {}}).made().code, TENON_INVALID_ARGUMENT);
  EXPECT_EQ(TestQueue(-1, {{-1}}).made().code, TENON_INVALID_ARGUMENT);
  EXPECT_EQ(TestQueue(-1, {}, {TENON_DT_FLOAT}, kPaddingFIFOQueueV2Kernel).made().code, TENON_INVALID_ARGUMENT);
  EXPECT_EQ(TestQueue(3, {{}}, {TENON_DT_FLOAT}, kRandomShuffleQueueV2Kernel, 3).made().code, TENON_INVALID_ARGUMENT);
  EXPECT_EQ(TestQueue(-1, {{}}, {TENON_DT_RESOURCE}).made().code, TENON_UNIMPLEMENTED);
  TestQueue queue(3);
  EXPECT_TRUE(queue.Make(kFIFOQueueV2Kernel, {TENON_DT_FLOAT}, {{}}, 3).ok());
  EXPECT_NE(queue.Make(kFIFOQueueV2Kernel, {TENON_DT_FLOAT}, {{}}, 4).message.find("exists with other capacity"),
            std::string::npos);
  EXPECT_EQ(queue.Make(kFIFOQueueV2Kernel, {TENON_DT_INT32}, {{}}, 3).code, TENON_INVALID_ARGUMENT);
  EXPECT_EQ(queue.Make(kFIFOQueueV2Kernel, {TENON_DT_FLOAT}, {{1}}, 3).code, TENON_INVALID_ARGUMENT);
  EXPECT_EQ(queue.Make(kPaddingFIFOQueueV2Kernel, {TENON_DT_FLOAT}, {{}}, 3).code, TENON_INVALID_ARGUMENT);
}

TEST(PaddingQueue, PadsToTheLargestOfThoseThatItGives) {
  TestQueue queue(-1, {{-1, 2}, {-1}}, {TENON_DT_FLOAT, TENON_DT_STRING}, kPaddingFIFOQueueV2Kernel);
  const Tensor one = Floats({1, 2}, {1, 2}), two = Floats({2, 2}, {3, 4, 5, 6}), wide = Floats({1, 3}, {1, 2, 3});
  const Tensor a = testing::Strings({2}, {"a", "b"}), b = testing::Strings({0}, {});
  EXPECT_TRUE(queue.Enqueue({&one, &a})->outcome().ok());
  EXPECT_TRUE(queue.Enqueue({&two, &b})->outcome().ok());
  EXPECT_EQ(queue.Enqueue({&wide, &b})->outcome().code, TENON_INVALID_ARGUMENT);
  const Pending rows = queue.DequeueMany(2);
  EXPECT_EQ(Got(rows), (std::vector<float>{1, 2, 0, 0, 3, 4, 5, 6}));
  EXPECT_EQ(rows->outputs()[0].dims, (std::vector<int64_t>{2, 2, 2}));
  EXPECT_EQ(Texts(rows->outputs()[1]), (std::vector<std::string>{"a", "b", "", ""}));
  queue.Enqueue({&one, &a});
  EXPECT_EQ(Got(queue.Dequeue()), (std::vector<float>{1, 2})) << "one is as it was";
}

std::vector<float> UpTo(int count) {
  std::vector<float> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

// The order is TensorFlow 2.21's for these seeds.
TEST(ShuffleQueue, GivesEachElementOnceInTheOrderOfItsSeeds) {
  TestQueue queue(-1, {{}}, {TENON_DT_FLOAT}, kRandomShuffleQueueV2Kernel);
  queue.EnqueueRows(UpTo(10));
  EXPECT_EQ(Got(queue.DequeueMany(10)), (std::vector<float>{3, 9, 0, 6, 4, 7, 2, 1, 5, 8}));
  queue.EnqueueRows(UpTo(10));
  std::vector<float> singly;
  for (int i = 0; i < 10; ++i) singly.push_back(queue.Next());
  EXPECT_EQ(singly, (std::vector<float>{4, 8, 0, 9, 6, 1, 5, 2, 7, 3}));
}

// Of 6 orders of 3 elements each comes as often as another: chi-square with 5 degrees of freedom is below 20.5 in 999
// of 1000.
TEST(ShuffleQueue, GivesEveryOrderAsOften) {
  TestQueue queue(-1, {{}}, {TENON_DT_FLOAT}, kRandomShuffleQueueV2Kernel);
  std::map<std::vector<float>, int> seen;
  constexpr int kRounds = 6000;
  for (int i = 0; i < kRounds; ++i) {
    queue.EnqueueRows(UpTo(3));
    ++seen[Got(queue.DequeueMany(3))];
  }
  EXPECT_EQ(seen.size(), 6u);
  double chi = 0;
  for (const auto& [order, count] : seen) chi += (count - kRounds / 6.0) * (count - kRounds / 6.0) / (kRounds / 6.0);
  EXPECT_LT(chi, 20.5);
}

TEST(ShuffleQueue, KeepsItsMinimumUntilItIsClosed) {
  TestQueue queue(-1, {{}}, {TENON_DT_FLOAT}, kRandomShuffleQueueV2Kernel, 2);
  queue.EnqueueRows({1, 2});
  const Pending waits = queue.Dequeue();
  EXPECT_FALSE(waits->done());
  queue.Enqueue(3);
  EXPECT_TRUE(waits->done());
  EXPECT_EQ(queue.Size(), 2);
  const Pending rest = queue.DequeueMany(2);
  EXPECT_FALSE(rest->done());
  queue.Close();
  std::vector<float> all = Got(rest);
  all.push_back(Got(waits)[0]);
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, (std::vector<float>{1, 2, 3}));
}

}  // namespace
}  // namespace tenon::ops::queue_test
