// SPDX-License-Identifier: Apache-2.0
// What a step submits, and how its end is known, on a card of the test's own whose work is done as soon as it is
// submitted, or as a test says. Covers A13.
#include "core/exec/device/queue_work.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <optional>

#include "core/exec/device/environment.h"
#include "core/exec/device/resources.h"
#include "core/exec/device/step.h"
#include "core/exec/device/unfinished.h"

// The driver's, which the C ABI leaves open.
struct tenon_semaphore {
  int number = 0;  // as they were made
  uint64_t value = 0;
  tenon::Status failure;
};
struct tenon_queue {
  int number = 0;
};

namespace tenon::exec::queue_work_test {
namespace {

// Writes down what comes; each test has one.
struct Card {
  std::vector<std::string> log;
  std::deque<tenon_queue> queues;
  std::deque<tenon_semaphore> semaphores;
  std::optional<Status> work_fails;    // what is signalled from now on is failed instead
  std::function<void()> on_host_call;  // a queue is drained
  std::function<void()> on_waited;     // the host has what it waited for
  bool signals_at_once = true;         // else a test says how far it has come
  bool hides_value = false;            // from who asks; who waits finds it
  bool keeps_host_calls = false;       // in `kept`: the queue does not come to them
  std::vector<std::function<void()>> kept;

  tenon_status* Submit(tenon_queue* queue, std::string_view what, const tenon_submission& submission) {
    std::string line = StrCat("q", queue->number, " ", what);
    for (uint64_t i = 0; i < submission.wait_count; ++i)
      line += StrCat(" after t", submission.waits[i].semaphore->number, "@", submission.waits[i].value);
    if (submission.signal > 0) line += StrCat(" tells t", submission.timeline->number, "@", submission.signal);
    log.push_back(line);
    if (submission.signal == 0) return nullptr;
    if (work_fails) submission.timeline->failure = *work_fails;
    else if (signals_at_once) submission.timeline->value = submission.signal;
    return nullptr;
  }
};
Card* g_card;

tenon_device_driver MakeDriver() {
  tenon_device_driver driver{};
  driver.struct_size = sizeof driver;
  driver.queue_create = [](tenon_device*, int32_t, tenon_queue** out) -> tenon_status* {
    *out = &g_card->queues.emplace_back(tenon_queue{static_cast<int>(g_card->queues.size())});
    return nullptr;
  };
  driver.queue_destroy = [](tenon_queue*) {};
  driver.queue_copy = [](tenon_queue* queue, const tenon_copy_args*, const tenon_submission* submission) {
    return g_card->Submit(queue, "copies", *submission);
  };
  driver.queue_barrier = [](tenon_queue* queue, const tenon_submission* submission) {
    return g_card->Submit(queue, View(submission->label), *submission);
  };
  driver.queue_host_call = [](tenon_queue* queue, tenon_notify_function function, void* argument,
                              const tenon_submission* submission) -> tenon_status* {
    g_card->Submit(queue, View(submission->label), *submission);
    if (g_card->on_host_call) g_card->on_host_call();
    if (g_card->keeps_host_calls) g_card->kept.push_back([=] { function(argument, nullptr); });
    else function(argument, nullptr);
    return nullptr;
  };
  driver.semaphore_create = [](tenon_device*, uint64_t initial, tenon_semaphore** out) -> tenon_status* {
    *out = &g_card->semaphores.emplace_back(tenon_semaphore{static_cast<int>(g_card->semaphores.size()), initial, {}});
    return nullptr;
  };
  driver.semaphore_destroy = [](tenon_semaphore*) {};
  driver.semaphore_query = [](tenon_semaphore* semaphore, uint64_t* out_value) {
    *out_value = g_card->hides_value ? 0 : semaphore->value;
    return Status(semaphore->failure).release();
  };
  driver.semaphore_fail = [](tenon_semaphore* semaphore, tenon_status* status) {
    Status why(status);
    if (semaphore->failure.ok()) semaphore->failure = std::move(why);
  };
  driver.semaphore_wait = [](tenon_semaphore* semaphore, uint64_t value, uint64_t) {
    g_card->log.push_back(StrCat("host waits for t", semaphore->number, "@", value));
    if (semaphore->value >= value) {
      if (g_card->on_waited) g_card->on_waited();
      return static_cast<tenon_status*>(nullptr);
    }
    return (semaphore->failure.ok() ? Status(Code::kDeadlineExceeded, "it is not there") : semaphore->failure)
        .release();
  };
  return driver;
}

class QueueWorkTest : public testing::Test {
 protected:
  QueueWorkTest() {
    g_card = &card_;
    static const tenon_device_driver kDriver = MakeDriver();
    device_.name = "/job:localhost/replica:0/task:0/device:CARD:0";
    device_.plugin = "card";
    device_.driver = &kDriver;
    device_.properties.compute_queues = 2;
    device_.synchronous = false;
    device_.queues = *DeviceQueues::Open(device_);
    env_.devices.resize(2);  // the first is the host
    env_.devices[1] = {&device_, pool_, 1, 1, QueueId(0)};
    for (int i = 0; i < device_.queues->size(); ++i) env_.queues.push_back({device_.queues->queue(i), 1});
    step_.env = &env_;
    step_.cancellation = &cancellation_;
  }
  ~QueueWorkTest() override {
    device_.queues.reset();
    EXPECT_EQ(pool_->bytes_in_use(), 0u) << "what was held leaked";
    pool_->Close();
  }
  std::vector<std::string> TakeLog() { return std::exchange(card_.log, {}); }
  void Hold(QueueWork* work) {
    auto buffer = pool_->Allocate(64, {nullptr, 0, 0});
    ASSERT_TRUE(buffer.ok());
    work->Hold(*buffer);
  }
  // Queue 0 is the main one, 1 the other for compute, 2 copies in, 3 copies out.
  void Begin(QueueWork* work, std::initializer_list<int32_t> queues) {
    ASSERT_TRUE(work->Begin(&step_).ok());
    for (int32_t queue : queues) ASSERT_TRUE(work->Use(QueueId(queue)).ok());
  }

  Card card_;
  BufferPool* pool_ = BufferPool::Create(HostAllocator(), 0);
  Device device_;
  Environment env_;
  Cancellation cancellation_;
  Step step_;
};

using Lines = std::vector<std::string>;

TEST_F(QueueWorkTest, TellsPointsWhereAskedAndWaitsForAllQueuesAtOnce) {
  QueueWork work(&env_);
  Begin(&work, {0, 2});
  tenon_timeline_point there{};
  ASSERT_TRUE(work.Copy(QueueId(2), {}, {}, "in", &there).ok());
  ASSERT_TRUE(work.Copy(QueueId(2), {}, {}, "in", nullptr).ok());
  ASSERT_TRUE(work.Wait(QueueId(0), {&there, 1}).ok());
  Hold(&work);
  EXPECT_EQ(TakeLog(), (Lines{"q2 copies tells t1@1", "q2 copies", "q0 wait after t1@1"}));
  EXPECT_GT(work.held_bytes(), 0u);
  ASSERT_TRUE(work.Complete(Status::Ok()).ok());
  EXPECT_EQ(TakeLog(), (Lines{"q2 end of step tells t1@2", "q0 wait after t1@2", "q0 end of step tells t0@1",
                              "host waits for t0@1"}));
  EXPECT_EQ(step_.host_waits, 1u);
  EXPECT_EQ(pool_->bytes_in_use(), 0u);
  EXPECT_FALSE(work.abandoned() || work.TakeRenewed() || work.begun());
  // The timelines go on in the next step; a queue that is not used is not waited for.
  Begin(&work, {0});
  ASSERT_TRUE(work.Complete(Status::Ok()).ok());
  EXPECT_EQ(TakeLog(), (Lines{"q0 end of step tells t0@2", "host waits for t0@2"}));
}

TEST_F(QueueWorkTest, LetsWhatWasBegunEndWellWhenTheHostsPartFails) {
  QueueWork work(&env_);
  Begin(&work, {0});
  EXPECT_EQ(work.Complete(OutOfRange("a node of the host")).ToString(), "OUT_OF_RANGE: a node of the host");
  EXPECT_EQ(TakeLog(), (Lines{"q0 end of step tells t0@1", "host waits for t0@1"}));
  EXPECT_FALSE(work.TakeRenewed());
  EXPECT_TRUE(card_.semaphores[0].failure.ok());
}

TEST_F(QueueWorkTest, HasItsMemoryUntilTheQueuesHaveGotPastWorkThatFailed) {
  QueueWork work(&env_);
  Begin(&work, {0, 1});
  Hold(&work);
  card_.work_fails = OutOfRange("the card broke");
  size_t drained = 0;
  card_.on_host_call = [&] {
    ++drained;
    EXPECT_GT(pool_->bytes_in_use(), 0u) << "the queue may use it still";
  };
  const Status status = work.Complete(Status::Ok());
  EXPECT_EQ(status.code(), Code::kOutOfRange) << status.ToString();
  EXPECT_NE(status.message().find(device_.name), std::string::npos) << status.ToString();
  EXPECT_EQ(drained, 2u) << "the queues that the step used";
  EXPECT_EQ(pool_->bytes_in_use(), 0u);
  EXPECT_FALSE(work.abandoned());
  for (const tenon_semaphore& each : card_.semaphores)
    EXPECT_FALSE(each.failure.ok()) << "what has not begun is not to run";
  EXPECT_TRUE(work.TakeRenewed());
  // The next step's timelines are new, and good.
  card_.work_fails.reset();
  TakeLog();
  Begin(&work, {0});
  EXPECT_TRUE(work.Complete(Status::Ok()).ok());
  EXPECT_EQ(TakeLog(), (Lines{"q0 end of step tells t2@1", "host waits for t2@1"}));
}

TEST_F(QueueWorkTest, AbandonsTheMemoryOfAQueueThatDoesNotComeBack) {
  QueueWork work(&env_, std::chrono::seconds(0));
  Begin(&work, {0});
  auto buffer = pool_->Allocate(64, {nullptr, 0, 0});
  ASSERT_TRUE(buffer.ok());
  work.Hold(*buffer);
  card_.work_fails = OutOfRange("the card broke");
  card_.keeps_host_calls = true;
  EXPECT_EQ(work.Complete(Status::Ok()).code(), Code::kOutOfRange);
  EXPECT_TRUE(work.abandoned());
  EXPECT_GT(pool_->bytes_in_use(), 0u) << "the queue may use it still";
  ASSERT_EQ(card_.kept.size(), 1u);
  card_.kept[0]();  // at last; nobody waits any more
  EXPECT_TRUE(work.abandoned());
  EXPECT_GT(pool_->bytes_in_use(), 0u);
  Release(*buffer);
}

TEST_F(QueueWorkTest, FailsItsTimelinesWhenTheStepIsCancelled) {
  QueueWork work(&env_);
  Begin(&work, {0});
  cancellation_.Cancel(Status(Code::kCancelled, "enough"));
  EXPECT_EQ(card_.semaphores[0].failure.message(), "enough");
  EXPECT_EQ(work.Complete(Status::Ok()).ToString(), "CANCELLED: enough");
  EXPECT_EQ(TakeLog(), (Lines{"q0 end of step tells t0@1", "q0 drain"}))
      << "the host does not wait for work that is not to run";
  EXPECT_TRUE(work.TakeRenewed());
  QueueWork late(&env_);
  EXPECT_EQ(late.Begin(&step_).ToString(), "CANCELLED: enough");
}

TEST_F(QueueWorkTest, TakesNewTimelinesWhereTheCancellationCameWhenAllWasDone) {
  Resource variable;
  Resource* const written[] = {&variable};
  QueueWork work(&env_);
  Begin(&work, {0});
  ASSERT_TRUE(work.NoteWrites(QueueId(0), written).ok());
  card_.on_waited = [&] { cancellation_.Cancel(Status(Code::kCancelled, "too late")); };
  EXPECT_TRUE(work.Complete(Status::Ok()).ok());
  card_.on_waited = nullptr;
  EXPECT_FALSE(card_.semaphores[0].failure.ok());
  EXPECT_FALSE(variable.poisoned) << "it was written";
  EXPECT_TRUE(work.TakeRenewed());
  Cancellation other;  // of the instance's next step
  step_.cancellation = &other;
  Begin(&work, {0});
  EXPECT_EQ(work.timeline(QueueId(0)), &card_.semaphores[1]);
  EXPECT_TRUE(work.Complete(Status::Ok()).ok());
  EXPECT_FALSE(work.TakeRenewed());
}

TEST_F(QueueWorkTest, LetsAnotherStepWaitForAVariableThatIsBeingWritten) {
  Resource variable;
  Resource* const written[] = {&variable};
  QueueWork writer(&env_), reader(&env_);
  Begin(&writer, {0});
  Begin(&reader, {1});
  ASSERT_TRUE(writer.NoteWrites(QueueId(0), written).ok());
  card_.semaphores[0].value = 0;  // still under way
  TakeLog();
  ASSERT_TRUE(writer.AwaitWrite(QueueId(0), &variable).ok());
  EXPECT_EQ(TakeLog(), Lines()) << "its own queue has the order";
  ASSERT_TRUE(reader.AwaitWrite(QueueId(1), &variable).ok());
  EXPECT_EQ(TakeLog(), Lines{"q1 wait after t0@1"});
  card_.semaphores[0].value = 1;
  ASSERT_TRUE(reader.AwaitWrite(QueueId(1), &variable).ok());
  EXPECT_EQ(TakeLog(), Lines()) << "it is done";
  ASSERT_TRUE(writer.Complete(Status::Ok()).ok());
  EXPECT_EQ(variable.written.timeline, nullptr);
  EXPECT_FALSE(variable.poisoned);
  ASSERT_TRUE(reader.Complete(Status::Ok()).ok());
}

TEST_F(QueueWorkTest, SpoilsTheVariableWhoseWriteFailed) {
  Resource done, lost;
  Resource *const first[] = {&done}, *const second[] = {&lost};
  QueueWork work(&env_);
  Begin(&work, {0});
  ASSERT_TRUE(work.NoteWrites(QueueId(0), first).ok());
  card_.work_fails = OutOfRange("the card broke");
  ASSERT_TRUE(work.NoteWrites(QueueId(0), second).ok());
  EXPECT_FALSE(work.Complete(Status::Ok()).ok());
  EXPECT_FALSE(done.poisoned) << "points reached before stay good";
  EXPECT_TRUE(lost.poisoned);
  EXPECT_EQ(lost.written.timeline, nullptr) << "nobody is to wait for it";
}

// ---- Steps that end later ----

class LaterTest : public QueueWorkTest {
 protected:
  LaterTest() {
    env_.unfinished = &unfinished_;
    step_.may_end_later = true;
    card_.signals_at_once = false;
  }
  // As if the card had come so far on each timeline.
  void Reach(uint64_t value) {
    for (tenon_semaphore& each : card_.semaphores) each.value = value;
  }
  Unfinished unfinished_;
};

TEST_F(LaterTest, AStepReturnsBeforeTheDeviceIsDoneAndTheNextComesBehindIt) {
  Resource variable;
  Resource* const written[] = {&variable};
  QueueWork work(&env_);
  Begin(&work, {0, 1});
  ASSERT_TRUE(work.NoteWrites(QueueId(0), written).ok());
  TakeLog();
  ASSERT_TRUE(work.Complete(Status::Ok(), true).ok());
  EXPECT_EQ(TakeLog(), (Lines{"q1 end of step tells t1@1", "q0 wait after t1@1", "q0 end of step tells t0@2"}))
      << "the host waits for nothing";
  EXPECT_EQ(step_.host_waits, 0u);
  EXPECT_TRUE(work.goes_on());
  EXPECT_NE(variable.written.timeline, nullptr) << "others are to wait for it";
  Begin(&work, {0, 1});
  EXPECT_EQ(TakeLog(), Lines{"q1 wait after t0@2"}) << "what the main queue does not order";
  Reach(2);
  TakeLog();
  ASSERT_TRUE(work.Complete(Status::Ok(), true).ok());
  EXPECT_FALSE(work.TakeRenewed());
  Reach(3);
  EXPECT_TRUE(unfinished_.TakeFailure().ok());
  EXPECT_FALSE(work.goes_on());
  EXPECT_EQ(variable.written.timeline, nullptr);
  EXPECT_FALSE(variable.poisoned);
}

TEST_F(LaterTest, AStepWithAnEndWaitsForThoseBeforeIt) {
  QueueWork work(&env_);
  Begin(&work, {0});
  ASSERT_TRUE(work.Complete(Status::Ok(), true).ok());
  Begin(&work, {0});
  Reach(2);
  TakeLog();
  ASSERT_TRUE(work.Complete(Status::Ok(), false).ok());
  EXPECT_EQ(TakeLog(), (Lines{"q0 end of step tells t0@2", "host waits for t0@2"}));
  EXPECT_FALSE(work.goes_on());
}

TEST_F(LaterTest, OnlySoManyStepsGoAhead) {
  QueueWork work(&env_);
  for (size_t i = 0; i < QueueWork::kMostAhead; ++i) {
    Begin(&work, {0});
    ASSERT_TRUE(work.Complete(Status::Ok(), true).ok());
  }
  EXPECT_EQ(step_.host_waits, 0u);
  TakeLog();
  card_.semaphores[0].value = QueueWork::kMostAhead / 2;  // as a wait would find it
  card_.hides_value = true;
  Begin(&work, {0});
  EXPECT_EQ(TakeLog(), Lines{StrCat("host waits for t0@", QueueWork::kMostAhead / 2)});
  card_.hides_value = false;
  ASSERT_TRUE(work.Complete(Status::Ok(), true).ok());
  Reach(QueueWork::kMostAhead + 1);
  EXPECT_TRUE(unfinished_.End());
}

TEST_F(LaterTest, TheHostWaitsUntilItsMemoryHasBeenRead) {
  QueueWork work(&env_);
  Begin(&work, {0, 2});
  tenon_copy_args in{};
  in.target_device = reinterpret_cast<tenon_device*>(&card_);
  card_.signals_at_once = true;
  ASSERT_TRUE(work.Copy(QueueId(2), in, {}, "in", nullptr).ok());
  TakeLog();
  ASSERT_TRUE(work.Complete(Status::Ok(), true).ok());
  EXPECT_EQ(TakeLog(), (Lines{"q2 end of step tells t1@1", "q0 wait after t1@1", "q0 end of step tells t0@1",
                              "host waits for t1@1"}));
  EXPECT_TRUE(unfinished_.End());
}

TEST_F(LaterTest, WhatTheHostIsGivenEndsWithTheStep) {
  card_.signals_at_once = true;
  const auto ends_later = [&](const std::function<void(QueueWork*)>& use) {
    QueueWork work(&env_);
    Begin(&work, {0});
    use(&work);
    EXPECT_TRUE(work.Complete(Status::Ok(), true).ok());
    const bool later = work.goes_on();
    work.Close();
    return later;
  };
  EXPECT_TRUE(ends_later([](QueueWork*) {}));
  EXPECT_FALSE(ends_later([](QueueWork* work) {
    tenon_copy_args out{};
    out.source_device = reinterpret_cast<tenon_device*>(g_card);
    EXPECT_TRUE(work->Copy(QueueId(0), out, {}, "out", nullptr).ok());
  }));
  EXPECT_FALSE(ends_later([this](QueueWork* work) { Hold(work); }));
  step_.may_end_later = false;
  EXPECT_FALSE(ends_later([](QueueWork*) {}));
}

TEST_F(LaterTest, TheNextStepIsToldOfAFailureOnce) {
  Resource variable;
  Resource* const written[] = {&variable};
  QueueWork work(&env_), other(&env_);
  Begin(&work, {0});
  ASSERT_TRUE(work.NoteWrites(QueueId(0), written).ok());
  ASSERT_TRUE(work.Complete(Status::Ok(), true).ok());
  card_.semaphores[0].failure = OutOfRange("node 'a' has failed");
  const Status told = other.Begin(&step_);
  EXPECT_EQ(told.code(), Code::kOutOfRange);
  EXPECT_NE(told.message().find("node 'a' has failed"), std::string::npos) << told.ToString();
  EXPECT_NE(told.message().find("a step that had returned before"), std::string::npos) << told.ToString();
  EXPECT_EQ(other.Complete(told).ToString(), told.ToString());
  EXPECT_TRUE(variable.poisoned);
  card_.signals_at_once = true;
  Begin(&other, {0});
  EXPECT_TRUE(other.Complete(Status::Ok()).ok());
  Begin(&work, {0});
  EXPECT_TRUE(work.TakeRenewed()) << "its timelines had failed";
  EXPECT_TRUE(work.Complete(Status::Ok()).ok());
}

// A step that fails because of it tells of it: nobody else has to.
TEST_F(LaterTest, AFailureThatFailedAnotherStepIsNotToldAgain) {
  Resource variable;
  Resource* const written[] = {&variable};
  QueueWork work(&env_), reader(&env_), other(&env_);
  Begin(&work, {0});
  ASSERT_TRUE(work.NoteWrites(QueueId(0), written).ok());
  ASSERT_TRUE(work.Complete(Status::Ok(), true).ok());
  Begin(&reader, {0});
  for (tenon_semaphore& each : card_.semaphores) each.failure = OutOfRange("node 'a' has failed");
  EXPECT_NE(reader.Complete(Status::Ok()).message().find("node 'a' has failed"), std::string::npos);
  EXPECT_TRUE(variable.poisoned);
  EXPECT_FALSE(work.goes_on());
  card_.signals_at_once = true;
  Begin(&other, {0});
  EXPECT_TRUE(other.Complete(Status::Ok()).ok());
}

TEST_F(LaterTest, ACancellationLeavesTheStepsBeforeAlone) {
  Resource before, cancelled;
  Resource *const first[] = {&before}, *const second[] = {&cancelled};
  QueueWork work(&env_);
  Begin(&work, {0});
  ASSERT_TRUE(work.NoteWrites(QueueId(0), first).ok());
  ASSERT_TRUE(work.Complete(Status::Ok(), true).ok());  // at point 2
  Begin(&work, {0});
  ASSERT_TRUE(work.NoteWrites(QueueId(0), second).ok());
  cancellation_.Cancel(Status(Code::kCancelled, "enough"));
  EXPECT_TRUE(card_.semaphores[0].failure.ok()) << "the step before is still under way";
  card_.semaphores[0].value = 2;
  TakeLog();
  EXPECT_EQ(work.Complete(Status::Ok(), true).ToString(), "CANCELLED: enough");
  EXPECT_FALSE(card_.semaphores[0].failure.ok());
  EXPECT_FALSE(before.poisoned);
  EXPECT_TRUE(cancelled.poisoned);
  EXPECT_FALSE(work.goes_on());
}

TEST_F(LaterTest, AnInstanceThatGoesTellsWhatItFound) {
  QueueWork work(&env_, std::chrono::seconds(0)), other(&env_);
  Begin(&work, {0});
  ASSERT_TRUE(work.Complete(Status::Ok(), true).ok());
  work.Close();  // the card does not come back
  EXPECT_FALSE(work.goes_on());
  EXPECT_EQ(other.Begin(&step_).code(), Code::kDeadlineExceeded);
  EXPECT_TRUE(unfinished_.End());
}

TEST_F(QueueWorkTest, CopiesOutsideOfAStepAndSaysWhere) {
  bool abandoned = true;
  ASSERT_TRUE(CopyNow(env_, env_.devices[1], {}, "copy", nullptr, &abandoned).ok());
  EXPECT_FALSE(abandoned);
  EXPECT_EQ(TakeLog(), (Lines{"q0 copies", "q0 end of step tells t0@1", "host waits for t0@1"}));
  card_.work_fails = OutOfRange("the card broke");
  EXPECT_NE(CopyNow(env_, env_.devices[1], {}, "copy", nullptr, &abandoned).message().find(StrCat("on ", device_.name)),
            std::string::npos);
}

}  // namespace
}  // namespace tenon::exec::queue_work_test
