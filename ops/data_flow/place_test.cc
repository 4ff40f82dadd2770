// SPDX-License-Identifier: Apache-2.0
// Places under several threads: steps come, wait, hand over and are cancelled at once. Covers M3, M9. For
// ThreadSanitizer too.
#include "place.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <thread>

#include "accumulator.h"
#include "queue.h"
#include "stage.h"
#include "tenon/testing/frame.h"
#include "tenon/testing/linked.h"

namespace tenon::ops::place_test {
namespace {

using sdk::Done;
using sdk::RunContext;

// A step of one kernel. Its cancellation is as the engine's: who ends the subscription waits for a callback that runs
// on another thread.
class OneStep {
 public:
  OneStep() : services_(*testing::FrameServices()) {
    services_.cancel_subscribe = [](tenon_frame* frame, tenon_done_function callback, void* argument) {
      return Of(frame).Subscribe(callback, argument);
    };
    services_.cancel_unsubscribe = [](tenon_frame* frame, uint64_t) { return Of(frame).Unsubscribe(); };
    services_.set_output = [](tenon_frame* frame, int32_t, const tenon_tensor_view*) -> tenon_status* {
      if (Of(frame).poor_) return testing::NewStatus(TENON_RESOURCE_EXHAUSTED, "no memory");
      ++Of(frame).given_;
      return nullptr;
    };
    services_.alloc_tensor = [](tenon_frame* frame, uint32_t dtype, tenon_shape shape, uint64_t extra_bytes,
                                tenon_tensor_view* out_view) -> tenon_status* {
      if (Of(frame).poor_) return testing::NewStatus(TENON_RESOURCE_EXHAUSTED, "no memory");
      return testing::AllocTensor(frame, dtype, shape, extra_bytes, out_view);
    };
    frame_.struct_size = sizeof frame_;
    frame_.services = &services_;
    frame_.context = reinterpret_cast<tenon_frame_context*>(this);
  }
  OneStep(const OneStep&) = delete;
  OneStep& operator=(const OneStep&) = delete;

  RunContext context() { return RunContext(&frame_); }
  Done done() {
    return {[](void* self, tenon_status* status) {
              auto* const step = static_cast<OneStep*>(self);
              step->ok_ = status == nullptr;
              if (status != nullptr) tenon_plugin_host->status_release(status);
              ++step->ends_;
            },
            this};
  }
  // From now on there is no memory for it.
  void MakePoor() { poor_ = true; }
  void Cancel() {
    tenon_done_function told = nullptr;
    {
      const std::lock_guard lock(mutex_);
      cancelled_ = true;
      told = std::exchange(callback_, nullptr);
      if (told == nullptr) return;
      running_ = std::this_thread::get_id();
    }
    told(argument_, testing::NewStatus(TENON_CANCELLED, "the step was cancelled"));
    const std::lock_guard lock(mutex_);
    running_ = {};
    ran_.notify_all();
  }
  int ends() const { return ends_; }
  bool ok() const { return ends_ == 1 && ok_; }
  int given() const { return given_; }

 private:
  static OneStep& Of(tenon_frame* frame) { return *reinterpret_cast<OneStep*>(frame->context); }
  uint64_t Subscribe(tenon_done_function callback, void* argument) {
    const std::lock_guard lock(mutex_);
    if (cancelled_) return 0;
    callback_ = callback;
    argument_ = argument;
    return 1;
  }
  uint32_t Unsubscribe() {
    std::unique_lock lock(mutex_);
    if (std::exchange(callback_, nullptr) != nullptr) return 1;
    ran_.wait(lock, [this] { return running_ == std::thread::id() || running_ == std::this_thread::get_id(); });
    return 0;
  }

  tenon_frame_services services_;
  tenon_frame frame_ = {};
  std::mutex mutex_;
  std::condition_variable ran_;
  bool cancelled_ = false;
  tenon_done_function callback_ = nullptr;
  void* argument_ = nullptr;
  std::thread::id running_;
  std::atomic<int> ends_{0}, given_{0};
  std::atomic<bool> ok_{false}, poor_{false};
};

// Asks for what may throw, as a kernel's thunk does.
template <class Ask>
void Start(OneStep& step, const Ask& ask) {
  try {
    ask(step.context(), step.done());
  } catch (...) {
    step.done()(sdk::CurrentFailure());
  }
}

Element Floats(OneStep& step, float value) {
  const int64_t dims[] = {2};
  sdk::KeptTensor tensor = sdk::NewTensor(step.context(), TENON_DT_FLOAT, dims);
  std::fill_n(sdk::Data<float>(tensor.view()), 2, value);
  Element element;
  element.emplace_back(std::move(tensor));
  return element;
}

// Puts, takes and cancellations, each from a thread of its own: every step ends once, and what was put in was taken or
// is there.
template <class Put, class Take, class Left>
void Exchange(const Put& put, const Take& take, const Left& left) {
  constexpr int kSteps = 400;
  std::deque<OneStep> puts(kSteps), takes(kSteps);
  std::thread putting([&] {
    for (OneStep& step : puts) Start(step, [&](RunContext c, Done done) { put(step, c, done); });
  });
  std::thread taking([&] {
    for (OneStep& step : takes) Start(step, [&](RunContext c, Done done) { take(c, done); });
  });
  std::thread cancelling([&] {
    for (size_t i = 0; i < kSteps; ++i)
      if (i % 3 == 0) takes[i].Cancel(), puts[kSteps - 1 - i].Cancel();
  });
  for (std::thread* thread : {&putting, &taking, &cancelling}) thread->join();
  int in = 0, out = 0;
  for (OneStep& step : puts) step.Cancel();
  for (OneStep& step : takes) step.Cancel();
  for (OneStep& step : puts) in += step.ok();
  for (OneStep& step : takes) out += step.ok();
  for (OneStep& step : puts) ASSERT_EQ(step.ends(), 1);
  for (OneStep& step : takes) {
    ASSERT_EQ(step.ends(), 1);
    EXPECT_EQ(step.given(), step.ok() ? 1 : 0);
  }
  EXPECT_GT(in, 0);
  EXPECT_EQ(in, out + left());
}

TEST(Places, AQueueHandsOverAmongThreads) {
  for (const bool priority : {false, true}) {
    QueueOptions options = {
        .op = "Queue", .name = "q", .types = {TENON_DT_INT64}, .shapes = {sdk::Shape::Scalar()}, .capacity = 3};
    options.priority = priority;
    const auto queue = std::make_shared<Queue>(options);
    Exchange([&](OneStep& step, RunContext c, Done done) {
      std::vector<Element> one;
      one.emplace_back().emplace_back(sdk::NewTensor(c, TENON_DT_INT64, {}));
      *sdk::Data<int64_t>(one[0][0].view()) = step.ends();
      queue->Enqueue(c, done, std::move(one));
    }, [&](RunContext c, Done done) { queue->DequeueOne(c, done); }, [&] { return queue->Size(); });
  }
}

TEST(Places, AStageHandsOverAmongThreads) {
  const auto stage = std::make_shared<QueueStage>(StageOptions{"Stage", "s", 3, 0});
  Exchange([&](OneStep& step, RunContext c, Done done) { stage->Put(c, done, Floats(step, 1)); },
           [&](RunContext c, Done done) { stage->Take(c, done, {TENON_DT_FLOAT}); }, [&] { return stage->Size(); });
}

TEST(Places, AMapHandsOverAmongThreads) {
  const auto map = std::make_shared<MapStage>(StageOptions{"MapStage", "m", 3, 0});
  std::atomic<int64_t> next{0}, wanted{0};
  Exchange([&](OneStep& step, RunContext c, Done done) { map->Put(c, done, next++, {0}, Floats(step, 1), 1); },
           [&](RunContext c, Done done) { map->Take(c, done, wanted++, {0}, {TENON_DT_FLOAT}); },
           [&] { return map->Size(); });
}

TEST(Places, GradientsComeWhileTakesAreCancelled) {
  const auto sum =
      std::make_shared<Accumulator>(AccumulatorOptions{"Accumulator", "a", TENON_DT_FLOAT, sdk::Shape{2}, true, false});
  constexpr int kSteps = 400;
  std::deque<OneStep> takes(kSteps), puts(kSteps);
  std::thread applying([&] {
    for (OneStep& step : puts) sum->Apply(step.context(), INT64_MAX, Floats(step, 1)[0].view());
  });
  std::thread taking([&] {
    for (OneStep& step : takes) Start(step, [&](RunContext c, Done done) { sum->Take(c, done, 1); });
  });
  std::thread cancelling([&] {
    for (size_t i = 0; i < kSteps; i += 2) takes[i].Cancel();
  });
  for (std::thread* thread : {&applying, &taking, &cancelling}) thread->join();
  for (OneStep& step : takes) step.Cancel();
  for (OneStep& step : takes) {
    ASSERT_EQ(step.ends(), 1);
    EXPECT_EQ(step.given(), step.ok() ? 1 : 0);
  }
}

TEST(Places, WhatThereIsNoMemoryForGoesBackToWhoeverWaits) {
  const auto stage = std::make_shared<QueueStage>(StageOptions{"Stage", "s", 0, 0});
  const auto map = std::make_shared<MapStage>(StageOptions{"MapStage", "m", 1, 0});
  OneStep put, poor, rich, put_key, poor_key, rich_key;
  poor.MakePoor();
  poor_key.MakePoor();
  stage->Take(poor.context(), poor.done(), {TENON_DT_FLOAT});
  stage->Take(rich.context(), rich.done(), {TENON_DT_FLOAT});
  stage->Put(put.context(), put.done(), Floats(put, 1));
  map->Take(poor_key.context(), poor_key.done(), 5, {0}, {TENON_DT_FLOAT});
  map->Take(rich_key.context(), rich_key.done(), 5, {0}, {TENON_DT_FLOAT});
  map->Put(put_key.context(), put_key.done(), 5, {0}, Floats(put_key, 1), 1);
  for (const OneStep* step : {&put, &rich, &put_key, &rich_key}) EXPECT_TRUE(step->ok());
  for (const OneStep* step : {&poor, &poor_key}) EXPECT_TRUE(step->ends() == 1 && !step->ok());
  EXPECT_EQ(stage->Size() + map->Size(), 0);
}

TEST(Places, AGradientThatThereIsNoMemoryForChangesNothing) {
  for (const bool sparse : {false, true}) {
    const auto sum = std::make_shared<Accumulator>(
        AccumulatorOptions{"Accumulator", "a", TENON_DT_FLOAT, sdk::Shape(), true, sparse});
    OneStep rich, poor, again;
    const int64_t one[] = {2};
    const sdk::KeptTensor indices = sdk::NewTensor(rich.context(), TENON_DT_INT64, one);
    std::fill_n(sdk::Data<int64_t>(indices.view()), 2, 1);
    const Element values = Floats(rich, 1);
    const auto apply = [&](OneStep& step) {
      if (sparse) sum->Apply(step.context(), 0, SparseGradient{indices.view(), values[0].view(), {}});
      else sum->Apply(step.context(), 0, values[0].view());
    };
    poor.MakePoor();
    EXPECT_THROW(apply(poor), sdk::KernelError);
    EXPECT_EQ(sum->Count(), 0);
    apply(rich);
    if (sparse) {  // what is dense is added where the sum stands
      EXPECT_THROW(apply(poor), sdk::KernelError);
    }
    apply(rich);
    EXPECT_EQ(sum->Count(), 2);
  }
}

TEST(Places, WhatWaitsEndsWhenThePlaceIsTakenAway) {
  for (int round = 0; round < 200; ++round) {
    auto stage = std::make_shared<QueueStage>(StageOptions{"Stage", "s", 1, 0});
    std::deque<OneStep> takes(4);
    for (OneStep& step : takes) stage->Take(step.context(), step.done(), {TENON_DT_FLOAT});
    std::thread cancelling([&] {
      for (OneStep& step : takes) step.Cancel();
    });
    stage->Abandon();
    stage.reset();
    cancelling.join();
    for (const OneStep& step : takes) EXPECT_EQ(step.ends(), 1);
  }
}

}  // namespace
}  // namespace tenon::ops::place_test
