// SPDX-License-Identifier: Apache-2.0
// A callable by itself: what it runs is the test's own.
#include "core/session/callable.h"

#include <gtest/gtest.h>

#include <barrier>
#include <chrono>
#include <thread>

#include "core/base/cancellation.h"
#include "core/exec/device/environment.h"
#include "core/exec/device/step.h"
#include "core/exec/runnable.h"
#include "core/session/runtime.h"
#include "core/session/steps.h"

namespace tenon::session::callable_test {
namespace {

// Its fetch is a scalar in memory that each run has for itself.
class FakeRunnable final : public exec::Runnable {
 public:
  std::unique_ptr<exec::Run> NewRun() override;
  std::string Explain() const override { return "[]"; }

  std::function<Status(exec::Step*, float* fetch)> go = [](exec::Step*, float*) { return Status::Ok(); };
  std::atomic<int> runs{0}, finished{0}, returned{0};
};

class FakeRun final : public exec::Run {
 public:
  explicit FakeRun(FakeRunnable* from) : from_(from) {}
  Status Go(exec::Step* step, const tenon_tensor_view* const*) override { return from_->go(step, &value_); }
  const tenon_tensor_view& fetch(size_t) const override { return view_; }
  void Finish() override {
    value_ = -1;
    ++from_->finished;
  }
  void ReturnInstances() override { ++from_->returned; }

 private:
  FakeRunnable* const from_;
  float value_ = 0;
  const tenon_tensor_view view_ = MakeView(TENON_DT_FLOAT, {nullptr, 0, 0}, &value_, sizeof value_, nullptr);
};

std::unique_ptr<exec::Run> FakeRunnable::NewRun() {
  ++runs;
  return std::make_unique<FakeRun>(this);
}

class CallableTest : public testing::Test {
 protected:
  CallableTest() {
    steps_.runtime = &runtime_;
    steps_.env = &env_;
    callable_ = std::make_shared<Callable>(nullptr, &steps_, runnable_,
                                           std::vector<Callable::Feed>{{"x:0", TENON_DT_FLOAT, nullptr, Shape{2, -1}}},
                                           std::vector<const exec::Device*>{nullptr});
  }
  Status Run(const RunOptions& options = {}) { return callable_->Run(options, &feed_, &fetches_); }
  Status RunWith(const tenon_tensor_view& view) {
    const tenon_tensor_view* feed = &view;
    return callable_->Run({}, &feed, &fetches_);
  }

  Runtime runtime_{1};
  exec::Environment env_;
  Steps steps_;
  const std::shared_ptr<FakeRunnable> runnable_ = std::make_shared<FakeRunnable>();
  std::shared_ptr<Callable> callable_;
  float values_[6] = {};
  int64_t dims_[2] = {2, 3};
  const tenon_tensor_view view_ = MakeView(TENON_DT_FLOAT, {dims_, 2, 0}, values_, sizeof values_, nullptr);
  const tenon_tensor_view* feed_ = &view_;
  std::vector<Tensor> fetches_;
};

TEST_F(CallableTest, GivesFetchesThatAreTheCallersOwn) {
  runnable_->go = [](exec::Step*, float* fetch) { return *fetch = 7, Status::Ok(); };
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(runnable_->finished, 1);
  callable_.reset();
  ASSERT_EQ(fetches_.size(), 1u);
  EXPECT_EQ(*static_cast<const float*>(fetches_[0].data()), 7) << "the step's memory has another value by now";
  EXPECT_EQ(runnable_->returned, 1);
}

TEST_F(CallableTest, FillsTheCallersMemoryOrLeavesItAlone) {
  runnable_->go = [](exec::Step*, float* fetch) { return *fetch = 7, Status::Ok(); };
  float into[2] = {0, 0};
  int64_t dim = 2;
  const tenon_tensor_view fits = MakeView(TENON_DT_FLOAT, {nullptr, 0, 0}, into, sizeof(float), nullptr);
  const tenon_tensor_view larger = MakeView(TENON_DT_FLOAT, {&dim, 1, 0}, into, sizeof into, nullptr);
  EXPECT_EQ(callable_->RunInto({}, &feed_, &larger).ToString(),
            "INVALID_ARGUMENT: fetch 0 is float[]; the memory given is for float[2]");
  EXPECT_EQ(into[0], 0);
  ASSERT_TRUE(callable_->RunInto({}, &feed_, &fits).ok());
  EXPECT_EQ(into[0], 7);
  EXPECT_EQ(into[1], 0);
}

// Kernels write there only where nothing else of the step stands.
TEST_F(CallableTest, OffersTheCallersMemoryToTheStepWhereItMayHaveIt) {
  bool offered = false;
  runnable_->go = [&offered](exec::Step* step, float*) { return offered = !step->places.empty(), Status::Ok(); };
  alignas(64) float memory[32] = {};
  const auto run = [&](float* into, float* from) {
    const tenon_tensor_view to = MakeView(TENON_DT_FLOAT, {nullptr, 0, 0}, into, sizeof(float), nullptr);
    const tenon_tensor_view given = MakeView(TENON_DT_FLOAT, {dims_, 2, 0}, from, sizeof values_, nullptr),
                            *feed = &given;
    EXPECT_TRUE(callable_->RunInto({}, &feed, &to).ok());
    return offered;
  };
  EXPECT_TRUE(run(memory, values_));
  EXPECT_TRUE(run(memory, memory + 1)) << "beside it";
  EXPECT_FALSE(run(memory, memory)) << "it is the feed";
  EXPECT_FALSE(run(memory + 16, memory + 11)) << "it is the feed's last element";
  EXPECT_TRUE(run(memory + 16, memory + 10));
  EXPECT_FALSE(run(memory + 1, values_)) << "it is not aligned as kernels want it";
  tenon_tensor_view lies = MakeView(TENON_DT_FLOAT, {nullptr, 0, 0}, memory, 2 * sizeof(float), nullptr);
  EXPECT_FALSE(callable_->RunInto({}, &feed_, &lies).ok());
  EXPECT_FALSE(offered) << "its size is not its shape's";
}

// A string's bytes lie where its cell says, beyond what the view shows: nobody computes beside them.
TEST_F(CallableTest, OffersNoMemoryBesideFedStrings) {
  Callable strings(nullptr, &steps_, runnable_, {{"x:0", TENON_DT_STRING, nullptr, Shape{1}}}, {nullptr});
  bool offered = true;
  runnable_->go = [&offered](exec::Step* step, float* fetch) {
    return *fetch = 7, offered = !step->places.empty(), Status::Ok();
  };
  alignas(64) float memory[16] = {};
  struct {
    tenon_string_cell cell = {sizeof(tenon_string_cell), 5};
    char text[8] = "bytes";
  } given;
  int64_t dim = 1;
  const tenon_tensor_view words = MakeView(TENON_DT_STRING, {&dim, 1, 0}, &given, sizeof given.cell, nullptr),
                          *feed = &words;
  const tenon_tensor_view to = MakeView(TENON_DT_FLOAT, {nullptr, 0, 0}, memory, sizeof(float), nullptr);
  const Status status = strings.RunInto({}, &feed, &to);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_FALSE(offered);
  EXPECT_EQ(memory[0], 7) << "it is copied there";
}

TEST_F(CallableTest, SaysWhatIsWrongWithAFeedBeforeAnythingRuns) {
  const auto expect = [&](const std::string& text, const std::function<void(tenon_tensor_view*)>& change) {
    tenon_tensor_view wrong = view_;
    change(&wrong);
    const Status status = RunWith(wrong);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << text;
    EXPECT_NE(status.message().find(text), std::string::npos) << status.ToString();
  };
  int64_t strides[2] = {3, 1}, other[2] = {3, 2};
  expect("feed 'x:0' must be float, found int32", [](tenon_tensor_view* view) { view->dtype = TENON_DT_INT32; });
  expect("feed 'x:0' has strides", [&](tenon_tensor_view* view) { view->dl.strides = strides; });
  expect("feed 'x:0' has no data", [](tenon_tensor_view* view) { view->dl.data = nullptr; });
  expect("feed 'x:0' has rank 300", [](tenon_tensor_view* view) { view->dl.ndim = 300; });
  expect("feed 'x:0' is declared as float[2,?], found float[3,2]",
         [&](tenon_tensor_view* view) { view->dl.shape = other; });
  expect("feed 'x:0' has a byte_size of 20", [](tenon_tensor_view* view) { view->byte_size = 20; });
  expect("feed 'x:0' must lie in host memory", [](tenon_tensor_view* view) { view->dl.device_type = 2; });
  const tenon_tensor_view* nothing = nullptr;
  EXPECT_NE(callable_->Run({}, &nothing, &fetches_).message().find("feed 'x:0' is NULL"), std::string::npos);
  EXPECT_EQ(runnable_->runs, 0);
  EXPECT_EQ(steps_.ran, 0u);
  EXPECT_TRUE(RunWith(view_).ok());
}

TEST_F(CallableTest, HasARunForEachStepThatRunsAtTheSameTimeAndUsesThemAgain) {
  std::barrier together(3);
  runnable_->go = [&](exec::Step*, float*) { return together.arrive_and_wait(), Status::Ok(); };
  for (int again = 0; again < 2; ++again) {
    std::vector<std::thread> callers;
    for (int caller = 0; caller < 3; ++caller)
      callers.emplace_back([this] {
        std::vector<Tensor> fetches;
        EXPECT_TRUE(callable_->Run({}, &feed_, &fetches).ok());
      });
    for (std::thread& caller : callers) caller.join();
  }
  EXPECT_EQ(runnable_->runs, 3);
  EXPECT_EQ(runnable_->finished, 6);
  EXPECT_EQ(steps_.ran, 6u);
  EXPECT_EQ(steps_.active, 0);
}

TEST_F(CallableTest, SaysWhyAStepWasCancelledAndNotHowItNoticed) {
  runnable_->go = [](exec::Step* step, float*) {
    while (!step->cancellation->cancelled()) std::this_thread::yield();
    return Status(Code::kCancelled, "a kernel left off");
  };
  RunOptions options;
  options.timeout_ns = 1'000'000;
  const Status late = Run(options);
  EXPECT_EQ(late.code(), Code::kDeadlineExceeded);
  EXPECT_NE(late.message().find("a kernel left off"), std::string::npos) << late.ToString();

  Cancellation cancellation;
  cancellation.Cancel(Status(Code::kUnavailable, "the caller is gone"));
  RunOptions gone;
  gone.cancellation = &cancellation;
  EXPECT_EQ(Run(gone).ToString(), "UNAVAILABLE: the caller is gone");
  // What was cancelled once would be so again.
  runnable_->go = [](exec::Step* step, float*) {
    return step->cancellation->cancelled() ? Internal("it was cancelled before") : Status::Ok();
  };
  EXPECT_TRUE(Run().ok());
  EXPECT_EQ(runnable_->returned, 2) << "what such a run keeps is of use to others";
}

// One that must not end half-way goes on to its end.
TEST_F(CallableTest, TakesNothingOfAStepThatIsDoneTooLate) {
  const auto goes_on = [](exec::Step* step, float*) {
    while (!step->cancellation->cancelled()) std::this_thread::yield();
    return Status::Ok();
  };
  runnable_->go = goes_on;
  RunOptions options;
  options.timeout_ns = 1'000'000;
  std::vector<Tensor> fetches;
  EXPECT_EQ(callable_->Run(options, &feed_, &fetches).ToString(),
            "DEADLINE_EXCEEDED: it was done too late: the step did not end within its deadline of 1 ms");
  for (const Tensor& fetch : fetches) EXPECT_EQ(fetch.dtype(), TENON_DT_INVALID);
  EXPECT_EQ(runnable_->finished, 1);
  // Whoever has no thread that waits is told the same.
  Status told;
  std::vector<Tensor> values;
  callable_->RunAsync(options, &feed_, nullptr, [&](Status status, std::vector<Tensor> of) {
    told = std::move(status);
    values = std::move(of);
  });
  EXPECT_EQ(told.code(), Code::kDeadlineExceeded) << told.ToString();
  EXPECT_TRUE(values.empty());

  Cancellation cancellation;
  runnable_->go = [&](exec::Step*, float*) {
    cancellation.Cancel(Status(Code::kUnavailable, "the caller is gone"));
    return Status::Ok();
  };
  RunOptions gone;
  gone.cancellation = &cancellation;
  EXPECT_EQ(Run(gone).ToString(), "UNAVAILABLE: it was done too late: the caller is gone");
}

TEST_F(CallableTest, TellsTheStepsThatRunAndNoOther) {
  ASSERT_TRUE(Run().ok());
  const auto cancel_all = [this] {
    const std::lock_guard lock(steps_.mutex);
    callable_->CancelRunning(Status(Code::kCancelled, "all of you"));
  };
  cancel_all();
  EXPECT_TRUE(Run().ok()) << "it did not run then";
  runnable_->go = [&](exec::Step* step, float*) {
    cancel_all();
    return step->cancellation->reason();
  };
  EXPECT_EQ(Run().message(), "all of you");
  steps_.closed.Cancel(Status(Code::kUnavailable, "the house is on fire"));
  steps_.closing = true;
  EXPECT_EQ(Run().ToString(), "UNAVAILABLE: the house is on fire");
}

TEST_F(CallableTest, FinishesStepsThatFailToo) {
  runnable_->go = [](exec::Step*, float*) { return OutOfRange("too far"); };
  EXPECT_EQ(Run().ToString(), "OUT_OF_RANGE: too far");
  EXPECT_EQ(runnable_->finished, 1) << "also when it failed";
  EXPECT_EQ(steps_.active, 0);
  runnable_->go = [](exec::Step*, float*) -> Status { throw std::bad_alloc(); };
  EXPECT_EQ(Run().code(), Code::kResourceExhausted);
  EXPECT_EQ(runnable_->finished, 2);
}

}  // namespace
}  // namespace tenon::session::callable_test
