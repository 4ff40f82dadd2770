// SPDX-License-Identifier: Apache-2.0
// Parts (partitions) that run, on devices that are three names for the host. Covers H2, H3, H5, H6, H10, H12, L7, L8.
#include "core/exec/parts/parted_plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <functional>
#include <latch>
#include <numeric>

#include "core/exec/plan/make_plan.h"
#include "core/exec/program/instance.h"
#include "core/graph/graph.h"
#include "core/trace/trace.h"
#include "tests/fakes/tiny_kernels.h"

namespace tenon::exec::parted_plan_test {
namespace {

using graph::Edge;
using graph::Node;

using fakes::FloatsOf;
using fakes::g_mystery;
using fakes::kNames;

class Parted : public testing::Test, public fakes::GraphMaker, protected fakes::TinyHost {
 protected:
  Edge On(int device, Edge edge) {
    graph.mutable_node(edge.node).device = kNames[device];
    return edge;
  }
  Edge Sum(int device, Edge a, Edge b) { return On(device, Add("Plus", {a, b})); }
  Edge Mystery(int device, Edge a, std::string_view name = "mystery") {
    return On(device, Add("Mystery", {a}, {}, name));
  }
  void Place(int device, const Loop& loop) {
    for (const auto* edges : {&loop.enters, &loop.merges, &loop.switches, &loop.nexts, &loop.exits})
      for (Edge edge : *edges) On(device, edge);
    On(device, loop.condition);
  }

  void Make(std::vector<Edge> feeds, std::vector<Edge> fetches, bool dynamic = false,
            TransferPrecision precision = TransferPrecision::kFull) {
    run_.reset();
    fetch_count_ = fetches.size();
    Plan::Options options;
    options.force_dynamic = dynamic;
    options.transfer_precision = precision;
    auto plan = PartedPlan::Create(graph.Clone(), std::move(feeds), std::move(fetches), {}, env_, &store_, options);
    ASSERT_TRUE(plan.ok()) << plan.status().ToString();
    plan_ = *std::move(plan);
    run_ = std::make_unique<PartedRun>(plan_.get());
  }
  // The first elements of the fetches.
  Result<std::vector<float>> Run(std::vector<float> feeds) { return RunWith(run_.get(), std::move(feeds)); }
  Result<std::vector<float>> RunWith(PartedRun* run, std::vector<float> feeds, trace::Trace* trace = nullptr) {
    const fakes::Scalars views(std::move(feeds));
    Cancellation own;
    Step step;
    step.trace = trace;
    step.env = &env_;
    step.cancellation = cancellation_ != nullptr ? cancellation_ : &own;
    Status status = run->Go(&step, views.pointers());
    std::vector<float> values;
    for (size_t i = 0; i < fetch_count_ && status.ok(); ++i) values.push_back(*FloatsOf(&run->fetch(i)));
    run->Finish();
    if (!status.ok()) return status;
    return values;
  }
  // Values of one step, and what crossed in it.
  void Expect(std::vector<float> feeds, std::vector<float> wanted, int64_t messages, int64_t dead = 0) {
    const Rendezvous::Counts before = run_->rendezvous().counts();
    auto found = Run(std::move(feeds));
    ASSERT_TRUE(found.ok()) << found.status().ToString();
    EXPECT_EQ(*found, wanted);
    EXPECT_EQ(run_->rendezvous().counts().messages - before.messages, messages);
    EXPECT_EQ(run_->rendezvous().counts().dead - before.dead, dead);
  }
  // How each part runs: all straight?
  bool IsStraight() const { return plan_->Explain().find("dynamic") == std::string::npos; }

  Cancellation* cancellation_ = nullptr;
  std::shared_ptr<PartedPlan> plan_;
  std::unique_ptr<PartedRun> run_;
  size_t fetch_count_ = 0;
};

TEST_F(Parted, ExchangesEachValueOnceWhateverTheNumberOfReaders) {
  const Edge x = On(0, Feed(TENON_DT_FLOAT, {}, "x"));
  const Edge twice = Sum(0, x, x);
  const Edge a = Sum(1, twice, twice), b = Sum(1, twice, a), c = Sum(2, twice, b);
  for (const bool dynamic : {false, true}) {
    Make({x}, {c, a}, dynamic);
    EXPECT_EQ(plan_->parts().size(), 3u);
    Expect({1}, {8, 4}, 3);
    Expect({2}, {16, 8}, 3);
    EXPECT_EQ(IsStraight(), !dynamic);
  }
}

// Whom a receive waited for, and how much came.
TEST_F(Parted, TracesSayWhatCrossedFromWhereToWhere) {
  const Edge x = On(0, Feed(TENON_DT_FLOAT, {}, "x"));
  const Edge twice = On(0, Add("Plus", {x, x}, {}, "twice"));
  const Edge a = Sum(1, twice, twice);
  for (const bool dynamic : {false, true}) {
    Make({x}, {a}, dynamic);
    trace::Trace trace;
    ASSERT_TRUE(RunWith(run_.get(), {1}, &trace).ok());
    std::vector<std::string> crossed;
    trace.ForEach([&](const trace::Trace::Event& event) {
      if (!event.detail.empty()) crossed.emplace_back(event.detail);
    });
    ASSERT_EQ(crossed.size(), 2u) << "a send and a receive";
    for (const std::string& detail : crossed)
      for (const char* part : {"twice", kNames[0], kNames[1], ", 4 bytes"})
        EXPECT_NE(detail.find(part), std::string::npos) << part << " in " << detail;
  }
}

TEST_F(Parted, FollowsControlEdgesAcrossDevices) {
  std::vector<float> order;
  std::mutex mutex;
  g_mystery = [&](float value) {
    std::lock_guard lock(mutex);
    order.push_back(value);
    return Status::Ok();
  };
  const Edge x = On(0, Feed(TENON_DT_FLOAT, {}, "x")), y = On(1, Feed(TENON_DT_FLOAT, {}, "y")),
             z = On(2, Feed(TENON_DT_FLOAT, {}, "z"));
  const Edge first = Mystery(0, x, "first");
  const Edge second = On(1, Add("Mystery", {y}, {}, "second", {first.node}));
  const Edge third = On(2, Add("Mystery", {z}, {}, "third", {second.node}));
  for (const bool dynamic : {false, true}) {
    Make({x, y, z}, {third}, dynamic);
    order.clear();
    Expect({1, 2, 3}, {3}, 2);
    EXPECT_EQ(order, (std::vector<float>{1, 2, 3}));
  }
}

// v0 counts on the first device; what is added to v1 is made on the second, and to v2 on the third.
TEST_F(Parted, SendsALoopsConditionToEachOtherParticipantOnceATurn) {
  const Edge limit = On(0, Feed(TENON_DT_FLOAT, {}, "limit")), zero = On(0, Value(0)), one = On(0, Value(1));
  Edge on_b, on_c;
  const Loop loop = While(
      "loop", {zero, one},
      [&](const Edges& v) {
        return On(0, Add("Below", {v[0], On(0, Into(limit, "loop", true))}));
      },
      [&](const Edges& v) {
        on_b = Sum(1, v[1], v[1]);
        on_c = Sum(2, on_b, v[1]);
        return Edges{Sum(0, v[0], On(0, Into(one, "loop", true))), Sum(0, on_c, v[1])};
      });
  Place(0, loop);
  for (const bool dynamic : {false, true}) {
    Make({limit}, {loop.exits[0], loop.exits[1]}, dynamic);
    for (const int turns : {0, 1, 7}) {
      // Each turn v1 = 4 * v1. To the others: the condition once more than there are turns; in each turn v1 twice, and
      // the two sums.
      const int64_t conditions = 2 * (turns + 1), values = 4 * turns;
      Expect({static_cast<float>(turns)}, {static_cast<float>(turns), std::pow(4.0f, static_cast<float>(turns))},
             conditions + values);
    }
    EXPECT_EQ(IsStraight(), !dynamic) << plan_->Explain();
  }
}

TEST_F(Parted, RunsNestedLoopsOverDevices) {
  const Edge limit = On(1, Feed(TENON_DT_FLOAT, {}, "limit")), zero = On(0, Value(0)), one = On(2, Value(1));
  // for i in [0, limit): for j in [0, limit): sum += 1, with each loop's condition on another device
  const Loop outer = While(
      "outer", {zero, zero},
      [&](const Edges& v) {
        return On(1, Add("Below", {v[0], On(1, Into(limit, "outer", true))}));
      },
      [&](const Edges& v) {
        const Edge inner_limit = On(2, Into(On(2, Into(limit, "outer", true)), "inner", true));
        const Edge inner_one = On(0, Into(On(0, Into(one, "outer", true)), "inner", true));
        // Of this turn: a constant of the whole step would be in no loop.
        const Edge start = On(2, Add("Minus", {v[0], v[0]}));
        const Loop inner = While(
            "inner", {start, v[1]},
            [&](const Edges& w) {
              return On(2, Add("Below", {w[0], inner_limit}));
            },
            [&](const Edges& w) {
              return Edges{Sum(2, w[0], inner_one), Sum(0, w[1], inner_one)};
            });
        Place(2, inner);
        for (Edge edge : {inner.enters[1], inner.merges[1], inner.switches[1], inner.nexts[1], inner.exits[1]})
          On(0, edge);
        return Edges{Sum(0, v[0], On(0, Into(one, "outer", true))), inner.exits[1]};
      });
  Place(0, outer);
  On(1, outer.condition);
  for (const bool dynamic : {false, true}) {
    Make({limit}, {outer.exits[1]}, dynamic);
    for (const float turns : {0.0f, 1.0f, 4.0f}) {
      auto found = Run({turns});
      ASSERT_TRUE(found.ok()) << found.status().ToString();
      EXPECT_EQ((*found)[0], turns * turns);
    }
    EXPECT_EQ(IsStraight(), !dynamic) << plan_->Explain();
  }
}

// What a cluster's worker runs on the thread of its transport.
TEST_F(Parted, KnowsAPlanWhoseWorkIsTheSameInEachStep) {
  const Edge x = On(0, Feed(TENON_DT_FLOAT, {}, "x")), one = On(0, Value(1));
  const auto expect = [&](Edge fetch, bool runs_through, bool fixed) {  // of the graph as it is
    auto plan = MakePlan(graph.Clone(), {x}, {fetch}, {}, env_, &store_, {});
    ASSERT_TRUE(plan.ok()) << plan.status().ToString();
    float value = 3;
    const int64_t dim = 1;
    const tenon_tensor_view scalar = MakeView(TENON_DT_FLOAT, {nullptr, 0, 0}, &value, sizeof value, nullptr);
    const tenon_tensor_view vector = MakeView(TENON_DT_FLOAT, {&dim, 1, 0}, &value, sizeof value, nullptr);
    const tenon_tensor_view *feed = &scalar, *other = &vector;
    EXPECT_EQ((*plan)->RunsThrough(), runs_through);
    Bindings bindings(*plan);
    EXPECT_EQ(bindings.FixedProgram(&feed), 0u) << "no program was made yet";
    auto program = bindings.Bind(&feed, nullptr);
    ASSERT_TRUE(program.ok()) << program.status().ToString();
    EXPECT_EQ(bindings.FixedProgram(&feed), fixed ? (**program)->serial() : 0u);
    EXPECT_EQ(bindings.FixedProgram(&other), 0u) << "it is for other shapes";
  };
  expect(Sum(0, x, one), true, true);
  const Edge sides = On(0, Add("Branch", {x, On(0, Add("Below", {x, one}))}));
  expect(On(0, Add("Join", {Sum(0, {sides.node, 0}, one), Sum(0, {sides.node, 1}, x)})), true, false);
  const Loop loop = While(
      "loop", {x},
      [&](const Edges& v) {
        return On(0, Add("Below", {v[0], On(0, Into(one, "loop", true))}));
      },
      [&](const Edges& v) { return Edges{Sum(0, v[0], v[0])}; });
  Place(0, loop);
  expect(loop.exits[0], false, false);
}

TEST_F(Parted, LetsDeadValuesTravel) {
  const Edge x = On(0, Feed(TENON_DT_FLOAT, {}, "x")), y = On(0, Feed(TENON_DT_FLOAT, {}, "y"));
  const Edge by_p = On(0, Add("Branch", {x, On(0, Add("Below", {x, y}))}));
  const Edge no = Sum(1, {by_p.node, 0}, {by_p.node, 0}), yes = Sum(2, {by_p.node, 1}, y);
  const Edge join = On(1, Add("Join", {no, yes}));
  Make({x, y}, {join});
  // by_p:0 to the second, by_p:1 to the third, yes to the second.
  Expect({1, 5}, {6}, 3, 1);
  Expect({5, 1}, {10}, 3, 2);
}

TEST_F(Parted, NamesTheNodeThatFailsAndItsDeviceAndEndsTheOthers) {
  g_mystery = [](float value) { return value < 0 ? OutOfRange("it is below zero") : Status::Ok(); };
  const Edge x = On(0, Feed(TENON_DT_FLOAT, {}, "x"));
  const Edge made = Mystery(1, Sum(0, x, x));
  // The others wait for what the second does not send.
  const Edge a = Sum(0, made, made), b = Sum(2, made, a);
  for (const bool dynamic : {false, true}) {
    Make({x}, {a, b}, dynamic);
    Expect({1}, {4, 6}, 4);
    const auto failed = Run({-1});
    EXPECT_EQ(failed.status().code(), Code::kOutOfRange);
    EXPECT_EQ(failed.status().message(), StrCat("on ", kNames[1], ": node 'mystery' (Mystery): it is below zero"));
    Expect({2}, {8, 12}, 4);
  }
}

TEST_F(Parted, EndsWithTheReasonForWhichItIsCancelled) {
  Cancellation cancellation;
  g_mystery = [&](float) {
    cancellation.Cancel(Status(Code::kDeadlineExceeded, "it took too long"));
    return Status::Ok();
  };
  const Edge x = On(0, Feed(TENON_DT_FLOAT, {}, "x"));
  const Edge made = Mystery(1, Sum(0, x, x));
  const Edge a = Sum(0, made, made), b = Sum(2, made, a);
  Make({x}, {a, b});
  cancellation_ = &cancellation;
  const auto late = Run({1});
  EXPECT_EQ(late.status().code(), Code::kDeadlineExceeded);
  EXPECT_NE(late.status().message().find("it took too long"), std::string::npos) << late.status().ToString();
  const auto never = Run({1});
  EXPECT_EQ(never.status().code(), Code::kDeadlineExceeded) << "it was cancelled before it began";
}

// The second device's own work comes before what it needs of the first, which in turn waits for that work.
TEST_F(Parted, WaitsForAValueNoEarlierThanItsFirstReader) {
  std::latch other_ran(1);
  g_mystery = [&](float value) {
    if (value > 0) other_ran.wait();
    else other_ran.count_down();
    return Status::Ok();
  };
  const Edge x = On(0, Feed(TENON_DT_FLOAT, {}, "x")), y = On(1, Feed(TENON_DT_FLOAT, {}, "y"));
  const Edge own = Mystery(1, y, "own");
  const Edge slow = Mystery(0, x, "slow");
  const Edge both = Sum(1, own, slow);
  Make({x, y}, {both});
  Expect({1, -1}, {0}, 1);
}

TEST_F(Parted, ServesStepsThatRunAtTheSameTime) {
  const Edge x = On(0, Feed(TENON_DT_FLOAT, {}, "x"));
  const Edge a = Sum(1, Sum(0, x, x), Sum(0, x, x)), b = Sum(2, a, a), c = Sum(0, b, a);
  Make({x}, {c});
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 3; ++caller)
    callers.emplace_back([this, caller] {
      PartedRun run(plan_.get());
      for (int step = 0; step < 50; ++step) {
        const auto value = static_cast<float>(caller * 100 + step);
        auto found = RunWith(&run, {value});
        ASSERT_TRUE(found.ok()) << found.status().ToString();
        EXPECT_EQ((*found)[0], 12 * value);
      }
    });
  for (std::thread& caller : callers) caller.join();
}

TEST_F(Parted, CountsTheBytesThatCross) {
  const Edge x = On(0, Feed(TENON_DT_FLOAT, {}, "x"));
  const Edge a = Sum(1, Sum(0, x, x), Sum(0, x, x));
  Make({x}, {a});
  Expect({1}, {4}, 2);
  EXPECT_EQ(run_->rendezvous().counts().bytes, 2 * sizeof(float));
}

TEST_F(Parted, SendsFloatsInHalfTheBytesWhenItMay) {
  const Edge x = On(0, Feed(TENON_DT_FLOAT, {}, "x"));
  const Edge twice = Sum(0, x, x);
  const Edge a = Sum(1, twice, twice);
  for (const bool dynamic : {false, true}) {
    Make({x}, {a}, dynamic, TransferPrecision::kTruncated);
    Expect({1.5f}, {6}, 1);
    EXPECT_EQ(run_->rendezvous().counts().bytes, 2u);
    Expect({1.001f}, {4}, 1);  // 2.002 loses what is behind the seventh bit
    Make({x}, {a}, dynamic, TransferPrecision::kNearest);
    Expect({1.0125f}, {4.0625f}, 1);  // 2.025 goes up to 2.03125
  }
}

}  // namespace
}  // namespace tenon::exec::parted_plan_test
