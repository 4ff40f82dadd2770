// SPDX-License-Identifier: Apache-2.0
// Partial runs over a cluster are one step, which stands still at its tasks: branches, loops and what ends with the
// step go over calls, each node runs once, and a failure, a deadline, a task that is lost or the end of the session is
// its end. Covers C10.
#include <limits>

#include "tests/cluster/local_cluster.h"
#include "tests/cluster/scrape.h"

namespace tenon::engine::partial_run_cluster_test {
namespace {

const std::string kNear = "/job:worker/task:0", kFar = "/job:worker/task:1";

Tensor Number(float value) { return *Tensor::Scalar(value); }
RunOptions Patience(std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
  RunOptions options;
  options.timeout = timeout;
  return options;
}
bool Says(const Status& status, const std::string& text) { return status.message().find(text) != std::string::npos; }

class PartialRunCluster : public testing::TestWithParam<const char*> {
 protected:
  PartialRunCluster() {
    if (GetParam() == std::string("loopback"))
      local_ = std::make_unique<LocalCluster>("loopback://partial_runs",
                                              std::vector<std::pair<std::string, int>>{{"worker", 2}});
    else
      processes_ = std::make_unique<Processes>(GetParam(), std::vector<std::pair<std::string, int>>{{"worker", 2}},
                                               std::vector<std::string>{"--threads=1", "--metrics=127.0.0.1:0"});
  }
  Session Client(SessionOptions options = {}) {
    options.master = local_ != nullptr ? local_->address() : processes_->address(0);
    options.isolate = true;
    auto session = Session::Create(TheRuntime(), g, options);
    EXPECT_TRUE(session.ok()) << session.status();
    if (!session.ok()) std::abort();  // NOLINT: nothing can be tested without one
    return std::move(*session);
  }
  Output On(const std::string& device, const char* op, const std::vector<Output>& inputs, const Attrs& attrs = {},
            const std::string& name = "") {
    const auto on = g.Device(device);
    return g.Op(op, inputs, attrs, name);
  }
  Operation NodeOn(const std::string& device, const char* op, const std::vector<Output>& inputs,
                   const Attrs& attrs = {}, const std::string& name = "") {
    const auto on = g.Device(device);
    return g.AddNode(op, inputs, attrs, name);
  }
  float Given(const Result<std::vector<Tensor>>& values) {
    EXPECT_TRUE(values.ok()) << values.status();
    return values.ok() ? (*values)[0].scalar<float>() : -1;
  }
  PartialRun Begin(const Session& session, const std::vector<Name>& feeds, const std::vector<Name>& fetches,
                   const std::vector<Name>& targets = {}) {
    EXPECT_TRUE(g.status().ok()) << g.status();
    auto run = PartialRun::Setup(session, feeds, fetches, targets);
    EXPECT_TRUE(run.ok()) << run.status();
    if (!run.ok()) std::abort();  // NOLINT
    return std::move(*run);
  }
  // A variable on the far task that is 0 at first.
  struct Counter {
    Output handle, now;
    Operation init;
  };
  Counter Count() {
    const Output handle =
        On(kFar, "VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", Shape{}}, {"shared_name", "counter"}});
    return {handle, On(kFar, "ReadVariableOp", {handle}, {{"dtype", DType::kFloat}}, "now"),
            NodeOn(kFar, "AssignVariableOp", {handle, g.Const(0.0f)}, {{"dtype", DType::kFloat}}, "init")};
  }

  std::unique_ptr<LocalCluster> local_;
  std::unique_ptr<Processes> processes_;
  Graph g{TheRuntime()};
  Output a = g.Placeholder("a", DType::kFloat, {}), b = g.Placeholder("b", DType::kFloat, {}),
         p = g.Placeholder("p", DType::kBool, {});
};
std::vector<const char*> Ways() {
  std::vector<const char*> ways = BuiltTransports();
  ways.insert(ways.begin(), "loopback");
  return ways;
}
INSTANTIATE_TEST_SUITE_P(Over, PartialRunCluster, testing::ValuesIn(Ways()),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(PartialRunCluster, ReadsASwitchInTwoCalls) {
  const Operation sides = NodeOn(kNear, "Switch", {a, p});
  const Output taken = On(kFar, "Mul", {sides.output(1), g.Const(2.0f)}, {}, "taken"),
               other = On(kNear, "Neg", {sides.output(0)}, {}, "other");
  const Output merged = Output(NodeOn(
      kFar, "Merge", {On(kNear, "Mul", {sides.output(0), b}), On(kFar, "AddV2", {sides.output(1), b})}, {}, "merged"));
  const Session session = Client();
  for (const bool yes : {true, false}) {
    const PartialRun run = Begin(session, {a, b, p}, {yes ? taken : other, merged});
    EXPECT_EQ(Given(run.Run({{a, Number(5)}, {p, *Tensor::Scalar(yes)}}, {yes ? taken : other}, Patience())),
              yes ? 10 : -5);
    EXPECT_EQ(Given(run.Run({{b, Number(7)}}, {merged}, Patience())), yes ? 12 : 35);
  }
  const PartialRun run = Begin(session, {a, b, p}, {other, merged});
  const auto none = run.Run({{a, Number(5)}, {p, *Tensor::Scalar(true)}}, {other}, Patience());
  EXPECT_EQ(none.status().code(), Code::kInvalidArgument) << none.status();
  EXPECT_TRUE(Says(none.status(), "'other:0' has no value: it lies in a branch that was not taken")) << none.status();
}

TEST_P(PartialRunCluster, TakesTheExitsOfALoopOverTasksInTwoCalls) {
  const auto last = [&] {
    const auto near = g.Device(kNear);
    return While(
        g, {g.Const(0), a, g.Const(0.0f)}, {b}, [&](const auto& v) { return g.Op("Less", {v[0], g.Const(3)}); },
        [&](const auto& v) {
          const Output next = g.Op("AddV2", {v[0], g.Const(1)});
          return std::vector<Output>{
              next, On(kFar, "Mul", {v[1], On(kFar, "Const", {}, {{"dtype", DType::kFloat}, {"value", Number(2)}})}),
              On(kFar, "AddV2", {v[2], v[3]})};
        });
  }();
  const Session session = Client();
  const PartialRun run = Begin(session, {a, b}, {last[1], last[2]});
  EXPECT_EQ(Given(run.Run({{a, Number(5)}}, {last[1]}, Patience())), 40);
  EXPECT_EQ(Given(run.Run({{b, Number(7)}}, {last[2]}, Patience())), 21);
}

TEST_P(PartialRunCluster, KeepsWhatEndsWithTheStep) {
  const Attrs of_floats = {{"dtype", DType::kFloat}};
  const Operation array =
      NodeOn(kFar, "TensorArrayV3", {g.Const(2)}, {{"dtype", DType::kFloat}, {"clear_after_read", false}});
  const Output first =
      On(kFar, "TensorArrayWriteV3", {array.output(0), g.Const(0), On(kNear, "Neg", {a}), array.output(1)});
  const Output read = On(kFar, "TensorArrayReadV3", {array.output(0), g.Const(0), first}, of_floats, "read");
  const Output second = On(kFar, "TensorArrayWriteV3", {array.output(0), g.Const(1), b, first});
  const Output both = On(
      kNear, "Sum",
      {On(kFar, "TensorArrayGatherV3", {array.output(0), g.Const({0, 1}), second}, of_floats), g.Const(0)}, {}, "both");
  // A list is a variant.
  const Output shape = g.Const(std::vector<int32_t>{}, Shape{0});
  const Output list = On(kFar, "TensorListPushBack",
                         {On(kFar, "EmptyTensorList", {shape, g.Const(-1)},
                             {{"element_dtype", DType::kFloat}, {"shape_type", DType::kInt32}}),
                          a},
                         {{"element_dtype", DType::kFloat}});
  const Output length = On(kFar, "TensorListLength", {list}, {}, "length");
  const Output longer = On(kFar, "TensorListStack",
                           {On(kFar, "TensorListPushBack", {list, b}, {{"element_dtype", DType::kFloat}}), shape},
                           {{"element_dtype", DType::kFloat}, {"num_elements", int64_t{-1}}}, "longer");
  // A queue that lives as long as the session is used in both calls.
  const Output queue =
      On(kFar, "FIFOQueueV2", {},
         {{"component_types", std::vector<DType>{DType::kFloat}}, {"shapes", std::vector<Shape>{Shape()}}});
  Output size, taken;
  {
    const auto after = g.ControlDependencies({NodeOn(kFar, "QueueEnqueueV2", {queue, a})});
    size = On(kFar, "QueueSizeV2", {queue}, {}, "size");
  }
  {
    const auto after = g.ControlDependencies({Operation(size), Operation(b)});
    taken = On(kFar, "QueueDequeueV2", {queue}, {{"component_types", std::vector<DType>{DType::kFloat}}}, "taken");
  }
  const Session session = Client();
  const PartialRun run = Begin(session, {a, b}, {read, both, length, longer, size, taken});
  const auto values = run.Run({{a, Number(5)}}, {read, length, size}, Patience());
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ((*values)[0].scalar<float>(), -5);
  EXPECT_EQ((*values)[1].scalar<int32_t>(), 1);
  EXPECT_EQ((*values)[2].scalar<int32_t>(), 1);
  const auto more = run.Run({{b, Number(7)}}, {both, longer, taken}, Patience());
  ASSERT_TRUE(more.ok()) << more.status();
  EXPECT_EQ((*more)[0].scalar<float>(), 2);
  EXPECT_EQ(DoublesOf((*more)[1]), (std::vector<double>{5, 7}));
  EXPECT_EQ((*more)[2].scalar<float>(), 5);
}

TEST_P(PartialRunCluster, HasDoneAllThatItCanWhenACallReturns) {
  const Counter count = Count();
  Output read;  // goes to another task when it is read, and back when it is asked for
  {
    const auto after = g.ControlDependencies({Operation(On(kNear, "Neg", {a}))});
    read = On(kFar, "ReadVariableOp", {count.handle}, {{"dtype", DType::kFloat}});
  }
  const Output late = On(kFar, "AddV2", {On(kNear, "Neg", {read}), b}, {}, "late"),
               first = On(kNear, "Exp", {g.Const(0.0f)}, {}, "first");
  const Operation set =
      NodeOn(kFar, "AssignVariableOp", {count.handle, g.Const(100.0f)}, {{"dtype", DType::kFloat}}, "set");
  const Session session = Client();
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(session.RunTargets({count.init}).ok());
    const PartialRun run = Begin(session, {a, b}, {first, late});
    EXPECT_EQ(Given(run.Run({{a, Number(1)}}, {first}, Patience())), 1);
    ASSERT_TRUE(session.RunTargets({set}).ok());
    ASSERT_EQ(Given(run.Run({{b, Number(3)}}, {late}, Patience())), 3) << "it was read before";
  }
}

TEST_P(PartialRunCluster, EndsWithAFailureAndRepeatsNothing) {
  const Counter count = Count();
  Output checked;
  {
    const auto counted = g.ControlDependencies(
        {NodeOn(kFar, "AssignAddVariableOp", {count.handle, g.Const(1.0f)}, {{"dtype", DType::kFloat}})});
    checked = On(kNear, "CheckNumerics", {a}, {{"message", "a"}}, "checked");
  }
  const Output first = On(kFar, "AddV2", {checked, g.Const(1.0f)}, {}, "first"),
               second = On(kNear, "Mul", {a, b}, {}, "second");
  const Session session = Client();
  ASSERT_TRUE(session.RunTargets({count.init}).ok());
  const PartialRun run = Begin(session, {a, b}, {first, second});
  EXPECT_EQ(run.Run({}, {first}, Patience()).status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(run.Run({{a, *Tensor::Scalar(1)}}, {first}, Patience()).status().code(), Code::kInvalidArgument)
      << "of another type";
  const auto failed = run.Run({{a, Number(std::numeric_limits<float>::infinity())}}, {first}, Patience());
  EXPECT_EQ(failed.status().code(), Code::kInvalidArgument) << failed.status();
  EXPECT_TRUE(Says(failed.status(), "checked") && Says(failed.status(), "/job:worker/replica:0/task:0"))
      << failed.status();
  const auto ended = run.Run({{a, Number(1)}}, {first}, Patience());
  EXPECT_EQ(ended.status().code(), Code::kFailedPrecondition) << ended.status();
  EXPECT_TRUE(Says(ended.status(), "the partial run has ended")) << ended.status();
  EXPECT_EQ(Given(session.Run({}, {count.now})), 1);
  const PartialRun again = Begin(session, {a, b}, {first, second});
  EXPECT_EQ(Given(again.Run({{a, Number(1)}}, {first}, Patience())), 2);
  EXPECT_EQ(Given(again.Run({{b, Number(4)}}, {second}, Patience())), 4);
  EXPECT_EQ(Given(session.Run({}, {count.now})), 2);
}

TEST_P(PartialRunCluster, ManyAreUnderWayTogether) {
  const Output first = On(kFar, "AddV2", {a, g.Const(1.0f)}, {}, "first"),
               second = On(kNear, "Mul", {first, b}, {}, "second");
  const Session session = Client();
  std::vector<PartialRun> runs;
  for (int i = 0; i < 8; ++i) {
    runs.push_back(Begin(session, {a, b}, {first, second}));
    EXPECT_EQ(Given(runs.back().Run({{a, Number(static_cast<float>(i))}}, {first}, Patience())), i + 1);
  }
  EXPECT_EQ(Given(session.Run({{a, Number(1)}, {b, Number(2)}}, {second})), 4) << "another step runs beside them";
  for (int i = 6; i >= 0; --i)
    EXPECT_EQ(Given(runs[static_cast<size_t>(i)].Run({{b, Number(10)}}, {second}, Patience())), 10 * (i + 1));
  EXPECT_EQ(runs[0].Run({}, {second}).status().code(), Code::kInvalidArgument) << "given before";
}  // the last one stands still, and goes

TEST_P(PartialRunCluster, RunsItsTargetsWhenItsFeedsHaveCome) {
  const Counter count = Count();
  const Operation add =
      NodeOn(kFar, "AssignAddVariableOp", {count.handle, On(kNear, "Neg", {b})}, {{"dtype", DType::kFloat}}, "add");
  const Output first = On(kNear, "AddV2", {a, g.Const(1.0f)}, {}, "first"),
               alone = On(kFar, "Neg", {g.Const(3.0f)}, {}, "alone");
  const Session session = Client();
  ASSERT_TRUE(session.RunTargets({count.init}).ok());
  const PartialRun run = Begin(session, {a, b}, {first, alone}, {add});
  EXPECT_EQ(Given(run.Run({{a, Number(1)}}, {first}, Patience())), 2);
  EXPECT_EQ(Given(session.Run({}, {count.now})), 0);
  ASSERT_TRUE(run.Run({{b, Number(3)}}, {}, Patience()).ok());
  EXPECT_EQ(Given(session.Run({}, {count.now})), -3);
  EXPECT_EQ(Given(run.Run({}, {alone}, Patience())), -3) << "what was made is fetched after the end too";
}

TEST_P(PartialRunCluster, EndsAtItsDeadlineAndWithItsRelease) {
  const Output queue =
      On(kFar, "FIFOQueueV2", {}, {{"component_types", std::vector<DType>{DType::kFloat}}, {"shared_name", "never"}});
  Output never;
  {
    const auto after = g.ControlDependencies({Operation(On(kNear, "Identity", {a}))});
    never = On(kFar, "QueueDequeueV2", {queue}, {{"component_types", std::vector<DType>{DType::kFloat}}}, "never");
  }
  const Output first = On(kNear, "AddV2", {a, g.Const(1.0f)}, {}, "first"), there = On(kFar, "Neg", {a}, {}, "there"),
               second = On(kNear, "AddV2", {never, b}, {}, "second");
  const Session session = Client();
  const PartialRun run = Begin(session, {a, b}, {first, there, second});
  EXPECT_EQ(Given(run.Run({{a, Number(1)}}, {first}, Patience())), 2) << "nobody waits for the queue";
  EXPECT_EQ(Given(run.Run({}, {there}, Patience())), -1);
  EXPECT_EQ(run.Run({{b, Number(1)}}, {second}, Patience(std::chrono::milliseconds(100))).status().code(),
            Code::kDeadlineExceeded);
  EXPECT_EQ(run.Run({}, {second}, Patience()).status().code(), Code::kFailedPrecondition);
  {
    const PartialRun other = Begin(session, {a, b}, {first, there, second});
    EXPECT_EQ(Given(other.Run({{a, Number(1)}}, {first}, Patience())), 2);
  }  // it is released while its dequeue waits
  EXPECT_EQ(Given(session.Run({{a, Number(4)}}, {there})), -4);
}

TEST_P(PartialRunCluster, IsTracedCallByCall) {
  const Output first = On(kFar, "AddV2", {On(kNear, "Neg", {a}, {}, "early"), g.Const(1.0f)}, {}, "first"),
               second = On(kNear, "Mul", {first, b}, {}, "second");
  const Session session = Client();
  const PartialRun run = Begin(session, {a, b}, {first, second});
  std::string one, two;
  RunOptions options = Patience();
  options.trace = &one;
  EXPECT_EQ(Given(run.Run({{a, Number(1)}}, {first}, options)), 0);
  options.trace = &two;
  EXPECT_EQ(Given(run.Run({{b, Number(1)}}, {second}, options)), 0);
  EXPECT_TRUE(one.find("early") != std::string::npos && one.find("first") != std::string::npos &&
              one.find("second") == std::string::npos)
      << one;
  EXPECT_TRUE(two.find("early") == std::string::npos && two.find("second") != std::string::npos) << two;
}

TEST_P(PartialRunCluster, GoesWithItsTaskOrItsSession) {
  if (processes_ == nullptr) GTEST_SKIP() << "of tasks that are processes";
  ASSERT_TRUE(processes_->ok());
  const Output first = On(kFar, "AddV2", {On(kNear, "Neg", {a}), g.Const(1.0f)}, {}, "first"),
               second = On(kNear, "Neg", {On(kFar, "Mul", {first, b})}, {}, "second");
  const Scraper scraper(*processes_, 0);
  const auto open_steps = [&](double wanted) {
    Samples now = scraper.Scrape();
    for (int tries = 0; tries < 1000 && now["tenon_worker_steps{state=\"running\"}"] != wanted; ++tries)
      now = scraper.Scrape();
    return now["tenon_worker_steps{state=\"running\"}"];
  };
  {
    const Session session = Client();
    const PartialRun run = Begin(session, {a, b}, {first, second});
    EXPECT_EQ(Given(run.Run({{a, Number(1)}}, {first}, Patience())), 0);
    EXPECT_EQ(open_steps(1), 1);
  }
  EXPECT_EQ(open_steps(0), 0) << "it ends with its session";
  {
    const Session session = Client();
    const PartialRun run = Begin(session, {a, b}, {first, second});
    EXPECT_EQ(Given(run.Run({{a, Number(1)}}, {first}, Patience())), 0);
    processes_->Kill(1);
    const auto lost = run.Run({{b, Number(1)}}, {second}, Patience());
    EXPECT_EQ(lost.status().code(), Code::kUnavailable) << lost.status();
    EXPECT_TRUE(Says(lost.status(), processes_->NameOf(1)) || Says(lost.status(), "/job:worker/replica:0/task:1"))
        << lost.status();
    EXPECT_EQ(open_steps(0), 0);
  }
}

TEST_P(PartialRunCluster, ThatNobodyFinishesAreBounded) {
  if (processes_ != nullptr) GTEST_SKIP() << "once is enough";
  const Output first = On(kFar, "Neg", {a}, {}, "first"), second = On(kFar, "Mul", {first, b}, {}, "second");
  const Session session = Client();
  std::vector<PartialRun> runs;
  for (int i = 0; i < 1024; ++i) {
    runs.push_back(Begin(session, {a, b}, {first, second}));
    ASSERT_EQ(Given(runs.back().Run({{a, Number(1)}}, {first}, Patience())), -1);
  }
  const PartialRun more = Begin(session, {a, b}, {first, second});
  const auto refused = more.Run({{a, Number(1)}}, {first}, Patience());
  EXPECT_EQ(refused.status().code(), Code::kResourceExhausted) << refused.status();
  EXPECT_TRUE(Says(refused.status(), "has 1024 partial runs under way at task /job:worker/replica:0/task:1"))
      << refused.status();
  EXPECT_EQ(Given(runs[3].Run({{b, Number(5)}}, {second}, Patience())), -5);
  const PartialRun last = Begin(session, {a, b}, {first, second});
  EXPECT_EQ(Given(last.Run({{a, Number(1)}}, {first}, Patience())), -1) << "there is room again";
}

}  // namespace
}  // namespace tenon::engine::partial_run_cluster_test
