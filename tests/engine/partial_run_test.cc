// SPDX-License-Identifier: Apache-2.0
// Partial runs are one step: branches, loops and what ends with the step go over calls; each node runs once; a failure
// ends the run. Covers C10.
#include <chrono>
#include <limits>

#include "tests/engine/engine.h"

namespace tenon::engine::partial_run_test {
namespace {

struct Manner {
  std::string name;
  SessionOptions options{};
};
std::vector<Manner> Manners() {
  std::vector<Manner> manners = {{"straight"}, {"unoptimized"}, {"dynamic"}, {"parted"}};
  manners[1].options.optimize = false;
  manners[2].options.executor = TENON_EXECUTOR_DYNAMIC;
  manners[3].options.debug.partition = true;
  return manners;
}
Tensor Number(float value) { return *Tensor::Scalar(value); }

class PartialRuns : public testing::Test {
 protected:
  float Given(const Result<std::vector<Tensor>>& values) {
    EXPECT_TRUE(values.ok()) << values.status();
    return values.ok() ? (*values)[0].scalar<float>() : -1;
  }
  Graph g{TheRuntime()};
  Output a = g.Placeholder("a", DType::kFloat, {}), b = g.Placeholder("b", DType::kFloat, {}),
         p = g.Placeholder("p", DType::kBool, {});
};

TEST_F(PartialRuns, ReadASwitchInTwoCalls) {
  const Operation sides = g.AddNode("Switch", {a, p});
  const Output taken = g.Op("Mul", {sides.output(1), g.Const(2.0f)}, {}, "taken"),
               other = g.Op("Neg", {sides.output(0)}, {}, "other");
  const Output merged = Output(
      g.AddNode("Merge", {g.Op("Mul", {sides.output(0), b}), g.Op("AddV2", {sides.output(1), b})}, {}, "merged"));
  for (const Manner& manner : Manners()) {
    auto session = Session::Create(TheRuntime(), g, manner.options);
    ASSERT_TRUE(session.ok()) << session.status();
    for (const bool yes : {true, false}) {
      auto run = PartialRun::Setup(*session, {a, b, p}, {yes ? taken : other, merged});
      ASSERT_TRUE(run.ok()) << manner.name << ": " << run.status();
      EXPECT_EQ(Given(run->Run({{a, Number(5)}, {p, *Tensor::Scalar(yes)}}, {yes ? taken : other})), yes ? 10 : -5)
          << manner.name;
      EXPECT_EQ(Given(run->Run({{b, Number(7)}}, {merged})), yes ? 12 : 35) << manner.name;
    }
    auto run = PartialRun::Setup(*session, {a, b, p}, {other, merged});
    ASSERT_TRUE(run.ok());
    const auto none = run->Run({{a, Number(5)}, {p, *Tensor::Scalar(true)}}, {other});
    EXPECT_EQ(none.status().code(), Code::kInvalidArgument) << manner.name << ": " << none.status();
    EXPECT_TRUE(none.status().message().find("'other:0' has no value: it lies in a branch that was not taken") !=
                std::string::npos)
        << none.status();
  }
}

// Outputs of a call that are one edge when the call is its function's nodes.
TEST_F(PartialRuns, GiveOneValueUnderTwoNamesInTwoCalls) {
  const Function twice = Define(g, "twice", [](Graph& body, const std::vector<Output>& x) {
    const Output less = body.Op("Neg", {x[0]});
    return std::vector<Output>{less, less};
  }, {DType::kFloat});
  const Operation call = g.Call(twice, {a});
  const Output last = g.Op("AddV2", {a, b});
  for (const Manner& manner : Manners()) {
    auto session = Session::Create(TheRuntime(), g, manner.options);
    ASSERT_TRUE(session.ok()) << session.status();
    auto run = PartialRun::Setup(*session, {a, b}, {call.output(0), call.output(1), last});
    ASSERT_TRUE(run.ok()) << manner.name << ": " << run.status();
    EXPECT_EQ(Given(run->Run({{a, Number(5)}}, {call.output(0)})), -5) << manner.name;
    EXPECT_EQ(Given(run->Run({}, {call.output(1)})), -5) << manner.name;
    EXPECT_EQ(run->Run({}, {call.output(0)}).status().code(), Code::kInvalidArgument) << "a second time";
    EXPECT_EQ(Given(run->Run({{b, Number(7)}}, {last})), 12) << manner.name;
  }
}

// More turns than may be under way at once, none of which ends before the other feed comes.
TEST_F(PartialRuns, TakeALoopsExitsInTwoCalls) {
  constexpr int kTurns = 20;
  for (const int64_t parallel : {1, 2, 10}) {
    const auto last = While(
        g, {g.Const(0), a, g.Const(0.0f), b}, {b},
        [&](const auto& v) {
          return g.Op("Less", {v[0], g.Const(kTurns)});
        },
        [&](const auto& v) {
          return std::vector<Output>{g.Op("AddV2", {v[0], g.Const(1)}), g.Op("AddV2", {v[1], g.Const(2.0f)}),
                                     g.Op("AddV2", {v[2], v[4]}), v[3]};
        },
        {"while", parallel});
    for (const Manner& manner : Manners()) {
      auto session = Session::Create(TheRuntime(), g, manner.options);
      ASSERT_TRUE(session.ok()) << session.status();
      auto run = PartialRun::Setup(*session, {a, b}, {last[1], last[2], last[3]});
      ASSERT_TRUE(run.ok()) << run.status();
      EXPECT_EQ(Given(run->Run({{a, Number(5)}}, {last[1]})), 45) << manner.name;
      EXPECT_EQ(Given(run->Run({{b, Number(7)}}, {last[2]})), 140) << manner.name;
      EXPECT_EQ(Given(run->Run({}, {last[3]})), 7) << manner.name;
    }
  }
}

TEST_F(PartialRuns, KeepWhatEndsWithTheStep) {
  const Operation array =
      g.AddNode("TensorArrayV3", {g.Const(2)}, {{"dtype", DType::kFloat}, {"clear_after_read", false}});
  const Output first = g.Op("TensorArrayWriteV3", {array.output(0), g.Const(0), a, array.output(1)});
  const Output read =
      g.Op("TensorArrayReadV3", {array.output(0), g.Const(0), first}, {{"dtype", DType::kFloat}}, "read");
  const Output second = g.Op("TensorArrayWriteV3", {array.output(0), g.Const(1), b, first});
  const Output both = g.Op(
      "Sum",
      {g.Op("TensorArrayGatherV3", {array.output(0), g.Const({0, 1}), second}, {{"dtype", DType::kFloat}}), g.Const(0)},
      {}, "both");
  ASSERT_TRUE(g.status().ok()) << g.status();
  for (const Manner& manner : Manners()) {
    auto session = Session::Create(TheRuntime(), g, manner.options);
    ASSERT_TRUE(session.ok()) << session.status();
    auto run = PartialRun::Setup(*session, {a, b}, {read, both});
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_EQ(Given(run->Run({{a, Number(5)}}, {read})), 5) << manner.name;
    EXPECT_EQ(Given(run->Run({{b, Number(7)}}, {both})), 12) << manner.name;
  }
}

TEST_F(PartialRuns, EndWithAFailureAndRepeatNothing) {
  const Output v = g.Op("VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", Shape{}}, {"shared_name", "v"}});
  g.AddNode("AssignVariableOp", {v, g.Const(0.0f)}, {}, "init");
  g.Op("ReadVariableOp", {v}, {{"dtype", DType::kFloat}}, "now");
  Output checked;
  {
    const auto counted = g.ControlDependencies({g.AddNode("AssignAddVariableOp", {v, g.Const(1.0f)})});
    checked = g.Op("CheckNumerics", {a}, {{"message", "a"}});
  }
  const Output first = g.Op("AddV2", {checked, g.Const(1.0f)}, {}, "first"), second = g.Op("Mul", {a, b}, {}, "second");
  for (const Manner& manner : Manners()) {
    auto session = Session::Create(TheRuntime(), g, manner.options);
    ASSERT_TRUE(session.ok()) << session.status();
    ASSERT_TRUE(session->RunTargets({"init"}).ok());
    auto run = PartialRun::Setup(*session, {a, b}, {first, second});
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_EQ(run->Run({}, {first}).status().code(), Code::kFailedPrecondition);
    EXPECT_EQ(run->Run({{a, *Tensor::Scalar(1)}}, {first}).status().code(), Code::kInvalidArgument)
        << "of another type";
    EXPECT_EQ(run->Run({{a, Number(std::numeric_limits<float>::infinity())}}, {first}).status().code(),
              Code::kInvalidArgument)
        << manner.name;
    const auto ended = run->Run({{a, Number(1)}}, {first});
    EXPECT_EQ(ended.status().code(), Code::kFailedPrecondition) << ended.status();
    EXPECT_TRUE(ended.status().message().find("the partial run has ended") != std::string::npos) << ended.status();
    EXPECT_EQ(Given(session->Run({}, {"now:0"})), 1) << manner.name;
    auto again = PartialRun::Setup(*session, {a, b}, {first, second});
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(Given(again->Run({{a, Number(1)}}, {first})), 2);
    EXPECT_EQ(Given(again->Run({{b, Number(4)}}, {second})), 4);
    EXPECT_EQ(Given(session->Run({}, {"now:0"})), 2) << manner.name;
  }
}

TEST_F(PartialRuns, ArePlannedOnceAndMayBeUnderWayTogether) {
  const Output first = g.Op("AddV2", {a, g.Const(1.0f)}, {}, "first"), second = g.Op("Mul", {first, b}, {}, "second");
  auto session = Session::Create(TheRuntime(), g);
  ASSERT_TRUE(session.ok());
  std::vector<PartialRun> runs;
  for (int i = 0; i < 4; ++i) {
    auto run = PartialRun::Setup(*session, {a, b}, {first, second});
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_EQ(Given(run->Run({{a, Number(static_cast<float>(i))}}, {first})), i + 1);
    runs.push_back(std::move(*run));
  }
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(Given(runs[static_cast<size_t>(i)].Run({{b, Number(10)}}, {second})), 10 * (i + 1));
  EXPECT_EQ(runs[0].Run({}, {second}).status().code(), Code::kInvalidArgument) << "given before";
  EXPECT_EQ(session->Metrics()->plans_built, 1u);
}  // the last one stands still, and goes

TEST_F(PartialRuns, AreTracedCallByCall) {
  const Output first = g.Op("AddV2", {a, g.Const(1.0f)}, {}, "first"), second = g.Op("Mul", {first, b}, {}, "second");
  auto session = Session::Create(TheRuntime(), g);
  ASSERT_TRUE(session.ok());
  for (const bool early : {true, false}) {
    auto run = PartialRun::Setup(*session, {a, b}, {first, second});
    ASSERT_TRUE(run.ok()) << run.status();
    std::string trace;
    RunOptions traced;
    traced.trace = &trace;
    EXPECT_EQ(Given(run->Run({{a, Number(1)}}, {first}, early ? traced : RunOptions())), 2);
    EXPECT_EQ(Given(run->Run({{b, Number(2)}}, {second}, early ? RunOptions() : traced)), 4);
    EXPECT_EQ(trace.find("first") != std::string::npos, early) << trace;
    EXPECT_EQ(trace.find("second") != std::string::npos, !early) << trace;
  }
}

TEST_F(PartialRuns, GiveAnEdgeByEachOfItsNames) {
  const Function same = Define(g, "same",
                               [](Graph&, const std::vector<Output>& v) {
                                 return std::vector<Output>{v[0], v[0]};
                               },
                               {DType::kFloat});
  const Operation call = g.AddNode("PartitionedCall", {g.Op("Neg", {a})},
                                   {{"f", same}, {"Tout", std::vector<DType>{DType::kFloat, DType::kFloat}}}, "call");
  const Output last = g.Op("AddV2", {call.output(1), b}, {}, "last");
  auto session = Session::Create(TheRuntime(), g);
  ASSERT_TRUE(session.ok());
  auto run = PartialRun::Setup(*session, {a, b}, {call.output(0), call.output(1), last});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(Given(run->Run({{a, Number(3)}}, {call.output(0)})), -3);
  EXPECT_EQ(Given(run->Run({}, {call.output(1)})), -3);
  EXPECT_EQ(run->Run({}, {call.output(0)}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Given(run->Run({{b, Number(1)}}, {last})), -2);
}

TEST_F(PartialRuns, RunTheirTargetsWhenTheirFeedsHaveCome) {
  const Output v = g.Op("VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", Shape{}}, {"shared_name", "v"}});
  g.AddNode("AssignVariableOp", {v, g.Const(0.0f)}, {}, "init");
  g.Op("ReadVariableOp", {v}, {{"dtype", DType::kFloat}}, "now");
  const Operation add = g.AddNode("AssignAddVariableOp", {v, b}, {}, "add");
  const Output first = g.Op("AddV2", {a, g.Const(1.0f)}, {}, "first");
  auto session = Session::Create(TheRuntime(), g);
  ASSERT_TRUE(session.ok());
  ASSERT_TRUE(session->RunTargets({"init"}).ok());
  auto run = PartialRun::Setup(*session, {a, b}, {first}, {add});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(Given(run->Run({{a, Number(1)}}, {first})), 2);
  EXPECT_EQ(Given(session->Run({}, {"now:0"})), 0);
  ASSERT_TRUE(run->Run({{b, Number(3)}}, {}).ok());
  EXPECT_EQ(Given(session->Run({}, {"now:0"})), 3);
}

TEST_F(PartialRuns, EndAtTheirDeadlineAndWithTheirSession) {
  const Output queue =
      g.Op("FIFOQueueV2", {}, {{"component_types", std::vector<DType>{DType::kFloat}}, {"shared_name", "never"}});
  Output never;
  {
    const auto after = g.ControlDependencies({Operation(g.Op("Identity", {a}))});
    never = g.Op("QueueDequeueV2", {queue}, {{"component_types", std::vector<DType>{DType::kFloat}}}, "never");
  }
  const Output first = g.Op("AddV2", {a, g.Const(1.0f)}, {}, "first"), second = g.Op("AddV2", {never, b}, {}, "second");
  auto session = Session::Create(TheRuntime(), g);
  ASSERT_TRUE(session.ok());
  auto run = PartialRun::Setup(*session, {a, b}, {first, second});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(Given(run->Run({{a, Number(1)}}, {first})), 2) << "nobody waits for the queue";
  RunOptions soon;
  soon.timeout = std::chrono::milliseconds(50);
  EXPECT_EQ(run->Run({{b, Number(1)}}, {second}, soon).status().code(), Code::kDeadlineExceeded);
  EXPECT_EQ(run->Run({}, {second}).status().code(), Code::kFailedPrecondition);
  auto other = PartialRun::Setup(*session, {a, b}, {first, second});
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(Given(other->Run({{a, Number(1)}}, {first})), 2);
}  // it is released while its dequeue waits

}  // namespace
}  // namespace tenon::engine::partial_run_test
