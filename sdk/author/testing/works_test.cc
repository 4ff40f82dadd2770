// SPDX-License-Identifier: Apache-2.0
// What kernels ask to be called for later, by their face (tenon/sdk/kernel/work.h), in the host for tests.
#include "tenon/testing/works.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "tenon/sdk/kernel/work.h"
#include "tenon/testing/kernel_case.h"
#include "tenon/testing/linked.h"

namespace tenon::testing::works_test {
namespace {

using sdk::Background;
using sdk::Check;
using sdk::Done;
using sdk::RunContext;
using sdk::Work;

// What the kernel under test does, said by the test.
std::function<void(RunContext, Done)> g_runs;
struct Runs {
  void RunAsync(RunContext c, Done done) const { g_runs(c, done); }
};
constexpr tenon_kernel_registration kRuns = sdk::Registration<Runs>("Runs", {});

std::function<void(RunContext)> g_runs_at_once;
struct RunsAtOnce {
  void Run(RunContext c) const { g_runs_at_once(c); }
};
constexpr tenon_kernel_registration kRunsAtOnce = sdk::Registration<RunsAtOnce>("RunsAtOnce", {});

const Node kFloatOut = {"Runs", {}, {}, {TENON_DT_FLOAT}, "later"};

class WorksTest : public ::testing::Test {
 protected:
  WorksTest() {
    tenon_plugin_host = Host();
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends_), 0);
  }
  ~WorksTest() override {
    close(ends_[0]);
    close(ends_[1]);
    EXPECT_EQ(live_works, 0);
    EXPECT_EQ(live_statuses, 0);
  }
  std::unique_ptr<PendingCall> Start(std::function<void(RunContext, Done)> runs) {
    g_runs = std::move(runs);
    return step_.Start(kRuns, kFloatOut, {});
  }
  // A word of how something came.
  auto Note(std::string what) {
    return [this, what = std::move(what)](const sdk::Outcome& outcome) {
      came_.push_back(what + (outcome.ok() ? "" : " " + std::string(CodeName(outcome.code))));
    };
  }
  Works& works() { return *step_.works; }

  KernelRunner step_;
  std::vector<std::string> came_;
  int ends_[2] = {-1, -1};
};

using Words = std::vector<std::string>;

TEST_F(WorksTest, AMomentComesWhenTheTestLetsIt) {
  const auto call = Start([](RunContext c, Done done) {
    Work(c).Schedule(5'000'000'000, [=](const sdk::Outcome& outcome) {
      *c.output<float>(0) = 7;
      done(ToStatus(outcome));
    });
  });
  EXPECT_FALSE(call->done());
  EXPECT_EQ(works().Advance(4'999'999'999), 0u);
  EXPECT_FALSE(call->done());
  EXPECT_EQ(works().Advance(1), 1u);
  ASSERT_TRUE(call->done());
  EXPECT_EQ(call->outcome().text(), "");
  EXPECT_EQ(Values<float>(call->outputs()[0]), std::vector<float>{7});
  EXPECT_FALSE(works().RunNext());
}

TEST_F(WorksTest, WhatIsNextIsCalledWithoutWaiting) {
  const tenon_kernel_registration* const list[] = {&kRuns};
  const tenon_kernel_package package = {TENON_HEAD(tenon_kernel_package), list, 1};
  KernelCase later(package, "Runs");
  g_runs = [](RunContext c, Done done) {
    Work(c).Schedule(3'600'000'000'000, [=](const sdk::Outcome&) { done(nullptr); });
  };
  EXPECT_EQ(later.Run({}, {Out<float>({})}).text(), "");
  EXPECT_EQ(later.works().now(), 3'600'000'000'000u);
  g_runs = [](RunContext, Done) {};
  EXPECT_NE(later.Run({}, {Out<float>({})}).text().find("has not called done"), std::string::npos);
}

TEST_F(WorksTest, MomentsComeInTheirOrderAndOnce) {
  const auto call = Start([this](RunContext c, Done done) {
    const Work work(c);
    work.Schedule(20, Note("20"));
    work.Schedule(10, Note("10"));
    work.Schedule(0, Note("0"), TENON_WORK_MAY_WAIT);
    work.Schedule(10, [=, this](const sdk::Outcome&) {
      came_.emplace_back("10 again");
      work.Schedule(0, Note("of 10"));
    });
    work.Schedule(30, [=](const sdk::Outcome&) { done(nullptr); });
  });
  EXPECT_TRUE(came_.empty()) << "nothing is called within what asks for it";
  EXPECT_TRUE(works().RunUntil([&] { return call->done(); }));
  EXPECT_EQ(came_, (Words{"0", "10", "10 again", "of 10", "20"}));
  EXPECT_EQ(works().now(), 30u);
}

TEST_F(WorksTest, WhatIsForgottenDoesNotCome) {
  const auto call = Start([this](RunContext c, Done done) {
    const Work work(c);
    const auto forget = [=](uint64_t token) { return work.services().forget(work.get(), token); };
    const uint64_t first = work.Schedule(1, Note("first"));
    // What was to be called holds nothing that counts: it is dropped.
    void* nothing = nullptr;
    uint64_t token = 0;
    Check(work.services().schedule(work.get(), 5, 0, [](void*, tenon_status*) { FAIL(); }, nothing, &token));
    EXPECT_EQ(forget(token), 1u);
    EXPECT_EQ(forget(token), 0u);
    work.Schedule(2, [=](const sdk::Outcome&) {
      EXPECT_EQ(forget(first), 0u) << "it has come";
      done(nullptr);
    });
  });
  EXPECT_TRUE(works().RunUntil([&] { return call->done(); }));
  EXPECT_EQ(came_, Words{"first"});
  EXPECT_EQ(works().pending(), 0u);
}

TEST_F(WorksTest, ADescriptorComesWhenItIsReadyOrTooLate) {
  const auto call = Start([this](RunContext c, Done) {
    const Work work(c);
    work.Await(ends_[0], TENON_WORK_WRITABLE, 0, Note("writable"));
    work.Await(ends_[0], TENON_WORK_READABLE, 1'000'000, Note("soon"));
    work.Await(ends_[0], TENON_WORK_READABLE, 0, Note("readable"));
  });
  EXPECT_TRUE(works().RunNext());
  EXPECT_TRUE(works().RunNext());
  EXPECT_EQ(works().Advance(1'000'000'000), 0u) << "nobody writes";
  std::thread other([&] { EXPECT_EQ(write(ends_[1], "x", 1), 1); });
  EXPECT_TRUE(works().RunNext());
  other.join();
  EXPECT_EQ(came_, (Words{"writable", "soon DEADLINE_EXCEEDED", "readable"}));
  EXPECT_FALSE(call->done());
}

TEST_F(WorksTest, CancelledWorkComesBackAtOnceAndTakesNothing) {
  const auto call = Start([this](RunContext c, Done done) {
    const Work work(c);
    work.Schedule(1'000, Note("moment"));
    work.Await(ends_[0], TENON_WORK_READABLE, 0, [=, this](const sdk::Outcome& outcome) {
      Note("descriptor")(outcome);
      EXPECT_TRUE(work.cancelled());
      EXPECT_EQ(sdk::TakeStatus(work.services().schedule(
                                    work.get(), 0, 0, [](void*, tenon_status*) {}, nullptr, nullptr))
                    .code,
                TENON_CANCELLED);
      done(ToStatus(outcome));
    });
  });
  call->Cancel();
  EXPECT_EQ(came_, (Words{"moment CANCELLED", "descriptor CANCELLED"}));
  EXPECT_EQ(call->outcome().code, TENON_CANCELLED);
  EXPECT_FALSE(works().RunNext());
}

TEST_F(WorksTest, TheStepsCancellationIsSeen) {
  std::atomic<bool> stops{false};
  step_.is_cancelled = [&] { return stops.load(); };
  const auto call = Start([this](RunContext c, Done done) {
    Work(c).Schedule(1'000'000, [=, this](const sdk::Outcome& outcome) {
      Note("it")(outcome);
      done(ToStatus(outcome));
    });
  });
  EXPECT_EQ(works().Advance(0), 0u);
  stops = true;
  EXPECT_EQ(works().Advance(0), 1u);
  EXPECT_EQ(came_, Words{"it CANCELLED"});
}

TEST_F(WorksTest, WhatAKernelLeavesBehindIsDroppedAndFailsIt) {
  Work kept(nullptr, nullptr);
  const auto call = Start([&](RunContext c, Done done) {
    kept = Work(c);
    Check(kept.services().schedule(kept.get(), 5, 0, [](void*, tenon_status*) { FAIL(); }, nullptr, nullptr));
    done(nullptr);
  });
  EXPECT_EQ(call->outcome().text(), "INTERNAL: Runs was done while 1 things that it had scheduled were still to come");
  EXPECT_FALSE(works().RunNext());
  const sdk::Outcome late = sdk::TakeStatus(kept.services().schedule(
      kept.get(), 0, 0, [](void*, tenon_status*) {}, nullptr, nullptr));
  EXPECT_EQ(late.code, TENON_FAILED_PRECONDITION) << late.message;
}

TEST_F(WorksTest, WhatIsWrongIsRefused) {
  const auto call = Start([this](RunContext c, Done done) {
    const Work work(c);
    const auto nothing = [](void*, tenon_status*) {};
    const auto schedule = [&](uint32_t flags, tenon_done_function function) {
      return sdk::TakeStatus(work.services().schedule(work.get(), 0, flags, function, nullptr, nullptr)).code;
    };
    const auto await = [&](int descriptor, uint32_t events) {
      return sdk::TakeStatus(
                 work.services().await_descriptor(work.get(), descriptor, events, 0, nothing, nullptr, nullptr))
          .code;
    };
    EXPECT_EQ(schedule(0, nullptr), TENON_INVALID_ARGUMENT);
    EXPECT_EQ(schedule(2, nothing), TENON_UNIMPLEMENTED);
    EXPECT_EQ(await(ends_[0], 0), TENON_INVALID_ARGUMENT);
    EXPECT_EQ(await(ends_[0], 4), TENON_INVALID_ARGUMENT);
    EXPECT_EQ(await(-1, TENON_WORK_READABLE), TENON_INVALID_ARGUMENT);
    const int closed = dup(ends_[0]);
    close(closed);
    EXPECT_EQ(await(closed, TENON_WORK_READABLE), TENON_INVALID_ARGUMENT);
    EXPECT_EQ(works().pending(), 0u);
    std::vector<uint64_t> tokens(Works::kMostWaiting);
    for (uint64_t& token : tokens)
      Check(work.services().schedule(work.get(), 1, TENON_WORK_MAY_WAIT, nothing, nullptr, &token));
    EXPECT_EQ(schedule(TENON_WORK_MAY_WAIT, nothing), TENON_RESOURCE_EXHAUSTED);
    for (const uint64_t token : tokens) EXPECT_EQ(work.services().forget(work.get(), token), 1u);
    tokens.resize(Works::kMost);
    for (uint64_t& token : tokens) Check(work.services().schedule(work.get(), 1, 0, nothing, nullptr, &token));
    EXPECT_EQ(schedule(0, nothing), TENON_RESOURCE_EXHAUSTED);
    for (const uint64_t token : tokens) EXPECT_EQ(work.services().forget(work.get(), token), 1u);
    done(nullptr);
  });
  EXPECT_EQ(call->outcome().text(), "");
}

TEST_F(WorksTest, AKernelThatNeedsNoneHasNone) {
  const auto has_work = [&](const std::vector<const Tensor*>& inputs, const Node& node) {
    bool found = false;
    g_runs_at_once = [&](RunContext c) { found = c.services().work(c.frame()) != nullptr; };
    EXPECT_EQ(step_.Run(kRunsAtOnce, node, inputs).text(), "");
    return found;
  };
  EXPECT_FALSE(has_work({}, {"RunsAtOnce"}));
  Variable state;
  const Tensor handle = Handle(state);
  EXPECT_TRUE(has_work({&handle}, {"RunsAtOnce", {}, {TENON_DT_RESOURCE}}));
}

// ---- In the background ----

// Comes back every ten units, as what watches or refreshes does.
class Watch {
 public:
  explicit Watch(const RunContext& c, std::vector<std::string>* came) : background_(c, "watch"), came_(came) {
    Again();
  }
  Work work() const { return background_.work(); }

 private:
  void Again() {
    background_.work().Schedule(10, [this](const sdk::Outcome& outcome) {
      came_->push_back(outcome.ok() ? "watched" : std::string(CodeName(outcome.code)));
      if (outcome.ok()) Again();
    });
  }
  const Background background_;
  std::vector<std::string>* const came_;
};

class BackgroundTest : public WorksTest {
 protected:
  // A kernel of the step makes the resource's object.
  void Begin(Variable& resource) {
    const auto call = Start([&](RunContext c, Done done) {
      resource.object = new Watch(c, &came_);
      resource.destroy = [](void* watch) { delete static_cast<Watch*>(watch); };
      done(nullptr);
    });
    EXPECT_EQ(call->outcome().text(), "") << "it goes on when the kernel is done";
    EXPECT_EQ(live_works, 1);
  }
};

TEST_F(BackgroundTest, GoesOnBetweenKernelsUntilItsObjectGoes) {
  Variable resource;
  Begin(resource);
  EXPECT_EQ(works().Advance(35), 3u);
  EXPECT_TRUE(resource.Drop());
  EXPECT_EQ(came_, (Words{"watched", "watched", "watched", "CANCELLED"}));
  EXPECT_EQ(live_works, 0);
  EXPECT_EQ(works().Advance(100), 0u);
}

TEST_F(BackgroundTest, EndsWithTheStepWhoseResourceItIs) {
  auto step = std::make_unique<KernelRunner>();
  std::swap(*step, step_);
  Begin(*(step_.named[{"", "watch"}] = std::make_unique<tenon_resource>()));
  step_ = KernelRunner();
  EXPECT_EQ(came_, Words{"CANCELLED"});
  EXPECT_EQ(live_works, 0);
}

TEST_F(BackgroundTest, IsFoundCancelledByWhoOutlivesTheStep) {
  Variable resource;
  Begin(resource);
  step_.works.reset();
  EXPECT_EQ(came_, Words{"CANCELLED"});
  const Work work = static_cast<Watch*>(resource.object)->work();
  EXPECT_TRUE(work.cancelled());
  EXPECT_EQ(sdk::TakeStatus(work.services().schedule(
                                work.get(), 0, 0, [](void*, tenon_status*) {}, nullptr, nullptr))
                .code,
            TENON_CANCELLED);
  EXPECT_EQ(live_works, 1);
  EXPECT_TRUE(resource.Drop());
  EXPECT_EQ(live_works, 0);
}

TEST_F(BackgroundTest, MayEndInWhatItCalls) {
  std::unique_ptr<Background> background;
  const auto call = Start([&](RunContext c, Done done) {
    background = std::make_unique<Background>(c, "short");
    background->work().Schedule(1, [&](const sdk::Outcome&) { background.reset(); });
    background->work().Schedule(2, Note("the other"));
    done(nullptr);
  });
  EXPECT_EQ(works().Advance(1), 1u);
  EXPECT_EQ(background, nullptr);
  EXPECT_EQ(came_, Words{"the other CANCELLED"});
}

TEST_F(BackgroundTest, WaitsForWhatIsCalledOnAnotherThread) {
  std::unique_ptr<Background> background;
  std::atomic<bool> inside{false}, goes_on{false}, came_back{false};
  const auto call = Start([&](RunContext c, Done done) {
    background = std::make_unique<Background>(c, "long");
    background->work().Schedule(0, [&](const sdk::Outcome&) {
      inside = true;
      while (!goes_on) std::this_thread::yield();
      came_back = true;
    }, TENON_WORK_MAY_WAIT);
    done(nullptr);
  });
  std::thread runs([&] { EXPECT_TRUE(works().RunNext()); });
  while (!inside) std::this_thread::yield();
  std::thread ends([&] {
    background.reset();
    EXPECT_TRUE(came_back);
  });
  goes_on = true;
  ends.join();
  runs.join();
}

}  // namespace
}  // namespace tenon::testing::works_test
