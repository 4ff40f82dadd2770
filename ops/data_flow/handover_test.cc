// SPDX-License-Identifier: Apache-2.0
// Priority queues, accumulators, staging areas and barriers: who waits, who is cancelled, and who is refused. What they compute the golden cases say;
// what several threads make of them, place_test.cc. Covers B (what steps hand to one another), M3, M5, M8, M9.
#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "accumulator.h"
#include "handle.h"
#include "tenon/testing/kernel_case.h"
#include "tenon/testing/linked.h"

namespace tenon::ops {

extern const tenon_kernel_registration kPriorityQueueV2Kernel, kQueueEnqueueV2Kernel, kQueueDequeueV2Kernel, kQueueDequeueManyV2Kernel, kQueueSizeV2Kernel;
extern const tenon_kernel_registration kResourceAccumulatorApplyGradientKernel, kResourceAccumulatorTakeGradientKernel, kResourceAccumulatorNumAccumulatedKernel,
    kSparseAccumulatorApplyGradientKernel, kSparseAccumulatorTakeGradientKernel;
extern const tenon_kernel_registration kStageKernel, kUnstageKernel, kStagePeekKernel, kStageSizeKernel, kStageClearKernel, kMapStageKernel, kMapUnstageKernel, kMapPeekKernel,
    kMapUnstageNoKeyKernel, kMapSizeKernel, kMapIncompleteSizeKernel, kMapClearKernel;
extern const tenon_kernel_registration kBarrierKernel, kBarrierInsertManyKernel, kBarrierTakeManyKernel, kBarrierCloseKernel, kBarrierReadySizeKernel, kBarrierIncompleteSizeKernel;

namespace {

using testing::KernelRunner;
using testing::Make;
using testing::Node;
using testing::Outcome;
using testing::PendingCall;
using testing::Tensor;
using testing::Texts;
using testing::Values;
using Pending = std::unique_ptr<PendingCall>;
using Shapes = std::vector<std::vector<int64_t>>;
using Attributes = std::map<std::string, testing::Attribute, std::less<>>;
using Types = std::vector<uint32_t>;

constexpr uint32_t kFloat = TENON_DT_FLOAT;

Tensor Floats(std::vector<float> values) { return Make<float>({static_cast<int64_t>(values.size())}, values); }

// Steps around one place, each a kernel that may end later.
class Steps {
 public:
  Steps() = default;
  Steps(const tenon_kernel_registration& maker, Attributes attributes) {
    Node node = {"Maker", {{"container", ""}, {"shared_name", "p"}}, {}, {TENON_DT_RESOURCE}};
    node.attributes.merge(attributes);
    made_ = step_.Run(maker, node, {});
    if (made_.ok()) handle_ = std::make_unique<Tensor>(std::move(step_.outputs[0]));
  }
  const Outcome& made() const { return made_; }
  Pending Start(const tenon_kernel_registration& kernel, Attributes attributes, std::vector<Tensor> inputs, Types outputs = {}) {
    Node node = {"Step", {{"container", ""}, {"shared_name", "p"}}, {}, std::move(outputs)};
    node.attributes.merge(attributes);
    std::vector<const Tensor*> all;
    if (handle_ != nullptr) all.push_back(handle_.get());
    for (Tensor& input : inputs) all.push_back(&kept_.emplace_back(std::move(input)));
    return step_.Start(kernel, node, all);
  }
  int32_t Number(const tenon_kernel_registration& kernel, Attributes attributes = {}) {
    const Pending asked = Start(kernel, std::move(attributes), {}, {TENON_DT_INT32});
    EXPECT_TRUE(asked->done() && asked->outcome().ok()) << asked->outcome().message;
    return Values<int32_t>(asked->outputs()[0])[0];
  }
  void Remove() { step_.ClearHandles(); }

 private:
  KernelRunner step_;
  Outcome made_;
  std::unique_ptr<Tensor> handle_;
  std::deque<Tensor> kept_;
};

void ExpectFailed(const Pending& call, uint32_t code, const std::string& words) {
  ASSERT_EQ(call->ends(), 1);
  EXPECT_EQ(call->outcome().code, code) << call->outcome().message;
  EXPECT_NE(call->outcome().message.find(words), std::string::npos) << call->outcome().message;
}
void ExpectDone(const Pending& call) {
  ASSERT_EQ(call->ends(), 1);
  EXPECT_TRUE(call->outcome().ok()) << call->outcome().message;
}
template <class T = float>
std::vector<T> Got(const Pending& call, size_t output = 0) {
  EXPECT_EQ(call->ends(), 1);
  EXPECT_TRUE(call->outcome().ok()) << call->outcome().message;
  return call->done() && call->outcome().ok() ? Values<T>(call->outputs()[output]) : std::vector<T>{};
}

// ---- Priority queues ----

class Priorities : public Steps {
 public:
  explicit Priorities(Shapes shapes = {{}}, int64_t capacity = -1)
      : Steps(kPriorityQueueV2Kernel, {{"component_types", Types{kFloat}}, {"shapes", std::move(shapes)}, {"capacity", capacity}}) {}
  Pending Put(int64_t priority, float value) {
    return Start(kQueueEnqueueV2Kernel, {{"Tcomponents", Types{TENON_DT_INT64, kFloat}}, {"timeout_ms", -1}}, {testing::Scalar(priority), testing::Scalar(value)});
  }
  Pending Take() { return Start(kQueueDequeueV2Kernel, {{"component_types", Types{TENON_DT_INT64, kFloat}}, {"timeout_ms", -1}}, {}, {TENON_DT_INT64, kFloat}); }
  Pending TakeMany(int32_t count) {
    return Start(kQueueDequeueManyV2Kernel, {{"component_types", Types{TENON_DT_INT64, kFloat}}, {"timeout_ms", -1}}, {testing::Scalar(count)}, {TENON_DT_INT64, kFloat});
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

// ---- Accumulators ----

// The fake host has no attribute that is one shape: these make accumulators of the first of a list.
template <bool kSparse>
struct MakeFromList {
  explicit MakeFromList(sdk::CreateContext& c)
      : named(c, "accumulator"), options{"Accumulator", named.name, kFloat, c.Shapes("shapes")[0], c.String("reduction_type") == "MEAN", kSparse} {}
  void Run(sdk::RunContext c) const {
    PlaceOf<Accumulator>(c, named.handle, kAccumulatorType, options);
    *c.output<tenon_resource*>(0) = named.handle;
  }
  const NamedHandle named;
  const AccumulatorOptions options;
};
constinit const tenon_kernel_registration kMakeDense = sdk::Registration<MakeFromList<false>>("Dense", {.flags = TENON_KERNEL_STATEFUL});
constinit const tenon_kernel_registration kMakeSparse = sdk::Registration<MakeFromList<true>>("Sparse", {.flags = TENON_KERNEL_STATEFUL});

class Gradients : public Steps {
 public:
  explicit Gradients(std::string reduction = "MEAN")
      : Steps(kMakeDense, {{"shapes", Shapes{{2}}}, {"reduction_type", std::move(reduction)}}) {}
  Pending Apply(int64_t step, std::vector<float> values) {
    return Start(kResourceAccumulatorApplyGradientKernel, {}, {testing::Scalar(step), Floats(std::move(values))});
  }
  Pending Take(int32_t count) { return Start(kResourceAccumulatorTakeGradientKernel, {{"dtype", testing::Type{kFloat}}}, {testing::Scalar(count)}, {kFloat}); }
  int32_t Count() { return Number(kResourceAccumulatorNumAccumulatedKernel); }
};

TEST(Accumulator, ATakeWaitsForItsGradientsAndTakesAreServedInTheirOrder) {
  Gradients sum;
  const Pending first = sum.Take(2), second = sum.Take(1);
  ExpectDone(sum.Apply(0, {1, 2}));
  EXPECT_FALSE(first->done());
  EXPECT_FALSE(second->done()) << "the first in line comes first";
  ExpectDone(sum.Apply(0, {3, 6}));
  EXPECT_EQ(Got(first), (std::vector<float>{2, 4}));
  EXPECT_EQ(sum.Count(), 0);
  ExpectDone(sum.Apply(0, {9, 9}));
  EXPECT_EQ(sum.Count(), 0) << "it is stale: the step went on with the take";
  ExpectDone(sum.Apply(1, {5, 7}));
  EXPECT_EQ(Got(second), (std::vector<float>{5, 7}));
}

TEST(Accumulator, ACancelledTakeLetsTheNextOneGoOn) {
  Gradients sum("SUM");
  const Pending many = sum.Take(3), one = sum.Take(2);
  sum.Apply(0, {1, 2});
  sum.Apply(0, {3, 4});
  EXPECT_FALSE(one->done());
  many->Cancel(TENON_DEADLINE_EXCEEDED);
  ExpectFailed(many, TENON_DEADLINE_EXCEEDED, "cancelled");
  EXPECT_EQ(Got(one), (std::vector<float>{4, 6}));
}

TEST(Accumulator, TakenAwayItEndsWhatWaits) {
  Gradients sum;
  const Pending waits = sum.Take(1);
  sum.Remove();
  ExpectFailed(waits, TENON_CANCELLED, "waiting for 1 gradients of the Accumulator 'p': it was taken away");
}

TEST(Accumulator, RefusesAndKeepsWhatItHas) {
  Gradients sum;
  ExpectDone(sum.Apply(0, {1, 2}));
  ExpectFailed(sum.Apply(0, {1, 2, 3}), TENON_INVALID_ARGUMENT, "has shape [3]");
  ExpectFailed(sum.Take(0), TENON_INVALID_ARGUMENT, "at least 1");
  ExpectFailed(sum.Start(kResourceAccumulatorTakeGradientKernel, {{"dtype", testing::Type{TENON_DT_DOUBLE}}}, {testing::Scalar(1)}, {TENON_DT_DOUBLE}), TENON_INVALID_ARGUMENT, "of float, not of double");
  ExpectFailed(sum.Start(kSparseAccumulatorTakeGradientKernel, {{"dtype", testing::Type{kFloat}}}, {testing::Scalar(1)}, {TENON_DT_INT64, kFloat, TENON_DT_INT64}), TENON_INVALID_ARGUMENT, "holds dense gradients");
  EXPECT_EQ(Got(sum.Take(1)), (std::vector<float>{1, 2}));
}

// Any indices, values and shapes: an error or a sum, and never a byte outside.
TEST(Accumulator, TakesAnySparseGradientOrRefusesIt) {
  Steps sum(kMakeSparse, {{"shapes", Shapes{{-1, 2}}}, {"reduction_type", "MEAN"}});
  ASSERT_TRUE(sum.made().ok()) << sum.made().message;
  std::mt19937 random(7);
  const auto up_to = [&](int64_t most) { return static_cast<int64_t>(random() % static_cast<uint64_t>(most + 1)); };
  int added = 0;
  for (int i = 0; i < 3000; ++i) {
    const int64_t rows = up_to(4), width = up_to(5) == 0 ? up_to(3) : 2, given = up_to(9) == 0 ? up_to(5) : rows;
    std::vector<int64_t> indices(static_cast<size_t>(rows)), shape(static_cast<size_t>(up_to(3)), 2);
    for (int64_t& index : indices) index = up_to(9) == 0 ? INT64_MIN : up_to(5);
    const std::vector<float> values(static_cast<size_t>(given * width), 1);
    const std::vector<int64_t> dims = up_to(9) == 0 ? std::vector<int64_t>{given * width} : std::vector<int64_t>{given, width};
    const auto shape_rank = static_cast<int64_t>(shape.size());
    const Pending applied = sum.Start(kSparseAccumulatorApplyGradientKernel, {{"has_known_shape", up_to(1) == 0}},
                                      {testing::Scalar(int64_t{1} << 40), Make<int64_t>({rows}, indices), Make<float>(dims, values), Make<int64_t>({shape_rank}, shape)});
    ASSERT_EQ(applied->ends(), 1);
    added += applied->outcome().ok() ? 1 : 0;
    if (i % 100 != 99) continue;
    ASSERT_GT(added, 0);
    const Pending taken = sum.Start(kSparseAccumulatorTakeGradientKernel, {{"dtype", testing::Type{kFloat}}}, {testing::Scalar(1)}, {TENON_DT_INT64, kFloat, TENON_DT_INT64});
    for (const float mean : Got(taken, 1)) ASSERT_EQ(mean, 1) << "the mean of ones";
  }
  EXPECT_GT(added, 500);
  EXPECT_LT(added, 2900);
}

// ---- Staging areas ----

class Area : public Steps {
 public:
  explicit Area(int64_t capacity = 0, int64_t memory_limit = 0) : bounds_{{"capacity", capacity}, {"memory_limit", memory_limit}, {"dtypes", Types{kFloat}}} {}
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
  ExpectFailed(area.Put({1, 2, 3, 4}), TENON_RESOURCE_EXHAUSTED, "takes 12 bytes in all, its memory_limit; these are 16");
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
  ExpectFailed(area.Start(kUnstageKernel, {{"capacity", 1}, {"memory_limit", 0}, {"dtypes", Types{TENON_DT_INT32}}}, {}, {TENON_DT_INT32}), TENON_INVALID_ARGUMENT, "of the types float, not int32");
  EXPECT_EQ(Got(area.Take()), std::vector<float>{2});
  const Pending waits = area.Take();
  area.Remove();
  ExpectFailed(waits, TENON_CANCELLED, "taken away");
}

class Map : public Steps {
 public:
  explicit Map(int64_t capacity = 0, int64_t memory_limit = 0) : bounds_{{"capacity", capacity}, {"memory_limit", memory_limit}} {}
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
    return Start(kernel, With(count), {testing::Scalar(key), Make<int32_t>({static_cast<int64_t>(count)}, places)}, Types(count, kFloat));
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

// ---- Barriers ----

class Gate : public Steps {
 public:
  explicit Gate(Shapes shapes = {{}, {}}, int64_t capacity = -1)
      : Steps(kBarrierKernel, {{"component_types", Types{kFloat, kFloat}}, {"shapes", std::move(shapes)}, {"capacity", capacity}}) {}
  Pending Put(int64_t component, std::vector<std::string> keys, std::vector<float> values) {
    const auto count = static_cast<int64_t>(keys.size());
    return Start(kBarrierInsertManyKernel, {{"component_index", component}}, {testing::Strings({count}, keys), Floats(std::move(values))});
  }
  Pending Take(int32_t count, bool fewer = false) {
    return Start(kBarrierTakeManyKernel, {{"component_types", Types{kFloat, kFloat}}, {"allow_small_batch", fewer}, {"wait_for_incomplete", false}, {"timeout_ms", -1}},
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
  ExpectFailed(gate.Put(1, {"a", "c", "b"}, {10, 30, 20}), TENON_INVALID_ARGUMENT, "component 1 of key 'c' is in the Barrier 'p' already");
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
}  // namespace tenon::ops
