// SPDX-License-Identifier: Apache-2.0
// The dynamic executor by itself: values, loops, branches, failures, and kernels that end elsewhere.
#include "core/exec/dataflow/dynamic_instance.h"

#include <latch>
#include <thread>

#include "core/exec/device/step.h"
#include "core/exec/plan/make_plan.h"
#include "core/graph/graph.h"
#include "tests/fakes/tiny_kernels.h"

namespace tenon::exec::dynamic_instance_test {
namespace {

using graph::Edge;

class DynamicInstanceTest : public testing::Test, public fakes::GraphMaker, protected fakes::TinyHost {
 protected:
  void Make(std::vector<Edge> feeds, std::vector<Edge> fetches) {
    fetch_count_ = fetches.size();
    auto plan = MakePlan(graph.Clone(), std::move(feeds), std::move(fetches), {}, env_, &store_, {});
    ASSERT_TRUE(plan.ok()) << plan.status().ToString();
    plan_ = *plan;
    auto dynamic = DynamicPlan::Create(*plan_, &constants_);
    ASSERT_TRUE(dynamic.ok()) << dynamic.status().ToString();
    dynamic_ = *std::move(dynamic);
    auto instance = DynamicInstance::Create(dynamic_.get());
    ASSERT_TRUE(instance.ok()) << instance.status().ToString();
    instance_ = *std::move(instance);
  }
  // The fetches' first numbers.
  Result<std::vector<float>> Run(std::vector<float> feeds, Cancellation* cancellation = nullptr) {
    const fakes::Scalars views(std::move(feeds));
    Cancellation own;
    Step step;
    step.env = &env_;
    step.cancellation = cancellation == nullptr ? &own : cancellation;
    Status status = instance_->Run(&step, views.pointers());
    std::vector<float> values;
    for (size_t i = 0; i < fetch_count_ && status.ok(); ++i) values.push_back(*fakes::FloatsOf(&instance_->fetch(i)));
    instance_->Finish();
    if (!status.ok()) return status;
    return values;
  }
  void Expect(std::vector<float> feeds, std::vector<float> wanted) {
    const auto found = Run(std::move(feeds));
    ASSERT_TRUE(found.ok()) << found.status().ToString();
    EXPECT_EQ(*found, wanted);
  }
  // x is doubled until it is no longer below ten.
  Edge Doubled(Edge x) {
    const Edge ten = Value(10);
    return While(
               "loop", {x},
               [&](const Edges& v) {
                 return Add("Below", {v[0], Into(ten, "loop", true)});
               },
               [&](const Edges& v) {
                 return Edges{Add("Plus", {v[0], v[0]})};
               })
        .exits[0];
  }

  const Edge x_ = Feed(TENON_DT_FLOAT, {}, "x");
  size_t fetch_count_ = 0;
  DeviceConstants constants_{&env_};
  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<const DynamicPlan> dynamic_;
  std::unique_ptr<DynamicInstance> instance_;
};

TEST_F(DynamicInstanceTest, RunsALoopUntilItsConditionIsFalse) {
  Make({x_}, {Doubled(x_)});
  Expect({1}, {16});
  Expect({3}, {12});
  Expect({50}, {50});
}

TEST_F(DynamicInstanceTest, TakesNoNewMemoryForTheSameStepAgain) {
  Make({x_}, {Doubled(x_)});
  Expect({1}, {16});
  const uint64_t in_use = pool_->bytes_in_use(), allocations = pool_->allocations();
  for (int step = 0; step < 20; ++step) Expect({1}, {16});
  EXPECT_EQ(pool_->bytes_in_use(), in_use);
  EXPECT_EQ(pool_->allocations(), allocations);
}

TEST_F(DynamicInstanceTest, RunsTheSideThatIsTakenAndSaysWhichFetchHasNoValue) {
  fakes::g_mystery = [](float value) {
    return value < 0 ? Internal("the side that is not taken has run") : Status::Ok();
  };
  const Edge branch = Add("Branch", {x_, Add("Below", {x_, Value(0)})}, {}, "branch");
  const Edge no = Add("Mystery", {branch}), yes = Add("Plus", {{branch.node, 1}, {branch.node, 1}});
  Make({x_}, {Add("Join", {no, yes})});
  Expect({3}, {3});
  Expect({-3}, {-6});
  Make({x_}, {{branch.node, 1}});
  Expect({-3}, {-3});
  EXPECT_EQ(Run({3}).status().ToString(),
            "INVALID_ARGUMENT: fetch 'branch:1' has no value: it lies in a branch that was not taken");
  Expect({-4}, {-4});
}

TEST_F(DynamicInstanceTest, NamesTheNodeThatFailsAndServesTheNextStep) {
  fakes::g_mystery = [](float value) { return value > 5 ? OutOfRange("it is above five") : Status::Ok(); };
  // In the third iteration, with values of the others about.
  const Edge ten = Value(10);
  const Edge last = While(
                        "loop", {x_},
                        [&](const Edges& v) {
                          return Add("Below", {v[0], Into(ten, "loop", true)});
                        },
                        [&](const Edges& v) {
                          return Edges{Add("Plus", {v[0], Add("Mystery", {v[0]}, {}, "mystery")})};
                        })
                        .exits[0];
  Make({x_}, {last});
  const Status failed = Run({2}).status();
  EXPECT_EQ(failed.code(), Code::kOutOfRange);
  EXPECT_EQ(failed.message(), "node 'mystery' (Mystery): it is above five");
  EXPECT_FALSE(instance_->abandoned());
  Expect({5}, {10});
}

// In the third turn, with values, invariants and turns of the loop about, and a node that was ready and did not run.
TEST_F(DynamicInstanceTest, IsAsItWasMadeAfterAStepThatFailed) {
  fakes::g_mystery = [](float value) { return value > 5 ? OutOfRange("it is above five") : Status::Ok(); };
  const Edge limit = Add("Plus", {x_, Value(8)});
  const auto loop = While(
      "loop", {x_, x_},
      [&](const Edges& v) {
        return Add("Below", {v[0], Into(limit, "loop", true)});
      },
      [&](const Edges& v) {
        return Edges{Add("Plus", {v[0], Add("Mystery", {v[0]})}), Add("Plus", {v[1], v[1]})};
      });
  Make({x_}, {loop.exits[0], loop.exits[1]});
  Expect({1.25}, {10, 10});
  const uint64_t in_use = pool_->bytes_in_use(), allocations = pool_->allocations();
  for (int step = 0; step < 10; ++step) {
    EXPECT_EQ(Run({2}).status().code(), Code::kOutOfRange);
    EXPECT_EQ(pool_->bytes_in_use(), in_use);
    Expect({1.25}, {10, 10});
  }
  EXPECT_EQ(pool_->allocations(), allocations);
}

TEST_F(DynamicInstanceTest, EndsWithTheReasonForWhichItIsCancelled) {
  Cancellation cancellation;
  fakes::g_mystery = [&](float) {
    cancellation.Cancel(Status(Code::kDeadlineExceeded, "it took too long"));
    return Status::Ok();
  };
  // Without an end of its own.
  const Edge zero = Value(0), one = Value(1);
  const Edge last = While(
                        "loop", {x_},
                        [&](const Edges&) {
                          return Add("Below", {Into(zero, "loop", true), Into(one, "loop", true)});
                        },
                        [&](const Edges& v) { return Edges{Add("Mystery", {v[0]})}; })
                        .exits[0];
  Make({x_}, {last});
  EXPECT_EQ(Run({1}, &cancellation).status().ToString(), "DEADLINE_EXCEEDED: it took too long");
  EXPECT_FALSE(instance_->abandoned());
}

// What runs elsewhere has the step's memory until it is done.
TEST_F(DynamicInstanceTest, DoesNotReturnFromAStepThatFailedWhileAKernelRunsElsewhere) {
  std::latch failed(1);
  std::thread elsewhere;
  bool done_was_called = false;
  fakes::g_stop = [&](tenon_done_function done, void* argument) {
    elsewhere = std::thread([&, done, argument] {
      failed.wait();
      done_was_called = true;
      done(argument, nullptr);
    });
  };
  fakes::g_mystery = [&](float value) {
    failed.count_down();
    return value < 0 ? OutOfRange("it is below zero") : Status::Ok();
  };
  const Edge later = Add("Stop", {x_}, {}, "later");
  // Ready one node later than the other, which has begun by then.
  const Edge began = Add("Plus", {x_, x_});
  const Edge mystery = Add("Mystery", {began}, {}, "mystery");
  Make({x_}, {later, mystery});
  const Status status = Run({-1}).status();
  EXPECT_TRUE(done_was_called);
  EXPECT_EQ(status.message(), "node 'mystery' (Mystery): it is below zero");
  EXPECT_FALSE(instance_->abandoned());
  if (elsewhere.joinable()) elsewhere.join();
}

TEST_F(DynamicInstanceTest, TakesTheValueOfAKernelThatEndsElsewhere) {
  std::thread elsewhere;
  fakes::g_stop = [&](tenon_done_function done, void* argument) {
    elsewhere = std::thread([=] { done(argument, nullptr); });
  };
  const Edge later = Add("Stop", {x_});
  Make({x_}, {Add("Plus", {later, x_})});
  Expect({4}, {8});
  elsewhere.join();
  fakes::g_stop = [](tenon_done_function done, void* argument) {
    done(argument, OutOfRange("it came to nothing").release());
  };
  const Status status = Run({4}).status();
  EXPECT_EQ(status.code(), Code::kOutOfRange);
  EXPECT_NE(status.message().find("(Stop): it came to nothing"), std::string::npos) << status.ToString();
}

}  // namespace
}  // namespace tenon::exec::dynamic_instance_test
