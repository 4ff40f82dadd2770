// SPDX-License-Identifier: Apache-2.0
// Functions of a client's graph that kernels call at a worker: the part carries them, and they run there, with that
// task's state. Covers Q1.
#include "tests/cluster/local_cluster.h"

namespace tenon::engine::function_cluster_test {
namespace {

constexpr const char* kWorker = "/job:worker/task:0";

class FunctionCluster : public testing::Test {
 protected:
  explicit FunctionCluster() : cluster_("loopback://functions", {{"ps", 1}, {"worker", 1}}, {TENON_TEST_WORK_PLUGIN}) {}

  static Runtime& ClientRuntime() {
    static Runtime* const runtime = [] {
      RuntimeOptions options;
      options.plugins = {TENON_TEST_WORK_PLUGIN};
      auto made = Runtime::Create(options);
      EXPECT_TRUE(made.ok()) << made.status().message();
      return new Runtime(std::move(*made));
    }();
    return *runtime;
  }
  // x at the client; f is called for it, or for each of its rows, at the worker.
  Output At(const char* op, const Output& x, const Function& f, const char* name) {
    const auto on = graph_.Device(kWorker);
    return graph_.Op(op, {x}, {{"f", f}}, name);
  }
  Function DefineOne(const std::string& name, const std::function<Output(Graph&, const Output&)>& of) {
    return Define(graph_, name, [&](Graph& body, const std::vector<Output>& v) { return of(body, v[0]); },
                  {DType::kFloat});
  }
  Function SquareAndOne() {
    return DefineOne("square_and_one", [](Graph& body, const Output& v) {
      return body.Op("AddV2", {body.Op("Square", {v}), body.Const(1.0f)});
    });
  }
  Session Client() const { return cluster_.Client(graph_, {}, ClientRuntime()); }
  static std::vector<double> Run(const Session& session, const std::vector<Feed>& feeds, const Output& fetch) {
    const auto values = session.Run(feeds, {fetch});
    EXPECT_TRUE(values.ok()) << values.status().message();
    return values.ok() ? DoublesOf((*values)[0]) : std::vector<double>();
  }

  LocalCluster cluster_;
  Graph graph_{ClientRuntime()};
  const Output x_ = graph_.Placeholder("x", DType::kFloat, Shape::Unknown());
};

TEST_F(FunctionCluster, AKernelAtAWorkerCallsOne) {
  const Output y = At("TestMap", x_, SquareAndOne(), "y");
  const Session session = Client();
  for (int step = 0; step < 8; ++step)  // until the worker knows its part, and after that
    EXPECT_EQ(Run(session, {{x_, TensorOf(DType::kFloat, {3}, {1, 2, double(step)})}}, y),
              (std::vector<double>{2, 5, double(step) * step + 1}));
}

TEST_F(FunctionCluster, WhichMayCallOthersInBothWays) {
  const Function inner = SquareAndOne();
  const Function outer = DefineOne("outer", [&](Graph& body, const Output& v) {
    const Output by_kernel = body.Op("TestNest", {v}, {{"f", inner}});
    return body.Call(inner, {by_kernel}).output(0);
  });
  const Output y = At("TestNest", x_, outer, "y");
  EXPECT_EQ(Run(Client(), {{x_, TensorOf(DType::kFloat, {2}, {1, 2})}}, y), (std::vector<double>{5, 26}));
}

TEST_F(FunctionCluster, OfTwoPartsIsOneDefinition) {
  const Function f = SquareAndOne();
  const Output there = At("TestNest", x_, f, "there");
  const auto on = graph_.Device("/job:ps/task:0");
  const Output back = graph_.Op("TestNest", {there}, {{"f", f}}, "back");
  EXPECT_EQ(Run(Client(), {{x_, TensorOf(DType::kFloat, {2}, {1, 2})}}, back), (std::vector<double>{5, 26}));
}

// A step that is asked for later brings functions that earlier ones had not.
TEST_F(FunctionCluster, ComesWithTheStepThatNeedsIt) {
  const Output first = At("TestNest", x_, SquareAndOne(), "first");
  Session session = Client();
  const Tensor three = TensorOf(DType::kFloat, {1}, {3});
  EXPECT_EQ(Run(session, {{x_, three}}, first), (std::vector<double>{10}));
  const Function negative = DefineOne("negative", [](Graph& body, const Output& v) { return body.Op("Neg", {v}); });
  const Output second = At("TestNest", x_, negative, "second");
  ASSERT_TRUE(session.Extend(graph_).ok());
  EXPECT_EQ(Run(session, {{x_, three}}, second), (std::vector<double>{-3}));
}

// The planner writes the gradient of a function as another one, under a name that it finds free.
TEST_F(FunctionCluster, IsNotTheOneThatAnEarlierPlanMade) {
  const Function f = SquareAndOne();
  Output slope;
  {
    const auto on = graph_.Device(kWorker);
    slope = graph_.Op("SymbolicGradient", {x_, graph_.Const({1.0f})},
                      {{"f", f}, {"Tout", std::vector<DType>{DType::kFloat}}});
  }
  Session session = Client();
  const Tensor three = TensorOf(DType::kFloat, {1}, {3});
  EXPECT_EQ(Run(session, {{x_, three}}, slope), (std::vector<double>{6}));
  const Function negative =
      DefineOne("gradient_of_square_and_one", [](Graph& body, const Output& v) { return body.Op("Neg", {v}); });
  const Output y = At("TestNest", x_, negative, "y");
  ASSERT_TRUE(session.Extend(graph_).ok());
  EXPECT_EQ(Run(session, {{x_, three}}, y), (std::vector<double>{-3}));
}

TEST_F(FunctionCluster, UsesTheVariablesOfItsTask) {
  const Attrs variable = {{"dtype", DType::kFloat}, {"shape", Shape{1}}, {"shared_name", "total"}};
  const Function add = DefineOne("add", [&](Graph& body, const Output& v) {
    const Output handle = body.Op("VarHandleOp", {}, variable);
    const Operation added = body.AddNode("AssignAddVariableOp", {handle, v});
    const auto after = body.ControlDependencies({added});
    return body.Op("ReadVariableOp", {handle}, {{"dtype", DType::kFloat}});
  });
  const Output total = At("TestNest", x_, add, "total");
  const auto on = graph_.Device(kWorker);
  const Output handle = graph_.Op("VarHandleOp", {}, variable, "handle");
  graph_.AddNode("AssignVariableOp", {handle, graph_.Const({10.0f})}, {}, "assign");
  const Output read = graph_.Op("ReadVariableOp", {handle}, {{"dtype", DType::kFloat}}, "read");
  const Session session = Client();
  ASSERT_TRUE(session.Run({}, {}, {"assign"}).ok());
  for (int step = 1; step <= 3; ++step)
    EXPECT_EQ(Run(session, {{x_, TensorOf(DType::kFloat, {1}, {2})}}, total), (std::vector<double>{10.0 + 2 * step}));
  EXPECT_EQ(Run(Client(), {}, read), (std::vector<double>{16})) << "another client sees what the function left there";
}

TEST_F(FunctionCluster, ThatIsMissingIsNamed) {
  const Output y = At("TestNest", x_, Function{"nowhere"}, "y");
  const Status missing = Client().Run({{x_, TensorOf(DType::kFloat, {1}, {1})}}, {y}).status();
  EXPECT_EQ(missing.code(), Code::kNotFound) << missing.message();
  for (const char* part : {"no function 'nowhere'", "'y' (TestNest)"})
    EXPECT_NE(missing.message().find(part), std::string::npos) << missing.message();
}

TEST_F(FunctionCluster, ThatFailsNamesItselfItsNodeAndItsTask) {
  const Function wrong = DefineOne("wrong", [](Graph& body, const Output& v) {
    return body.Op("Reshape", {v, body.Const<int32_t>({7})}, {}, "seven");
  });
  const Output y = At("TestNest", x_, wrong, "y");
  const Status failed = Client().Run({{x_, TensorOf(DType::kFloat, {2}, {1, 2})}}, {y}).status();
  for (const char* part : {"/job:worker/replica:0/task:0", "'y' (TestNest)", "function 'wrong'", "seven"})
    EXPECT_NE(failed.message().find(part), std::string::npos) << failed.message();
}

TEST_F(FunctionCluster, DoesNotReachOtherTasks) {
  const Function away = DefineOne("away", [](Graph& body, const Output& v) {
    const auto on = body.Device("/job:ps/task:0");
    return body.Op("Neg", {v}, {}, "there");
  });
  const Output y = At("TestNest", x_, away, "y");
  const Status refused = Client().Run({{x_, TensorOf(DType::kFloat, {1}, {1})}}, {y}).status();
  EXPECT_EQ(refused.code(), Code::kFailedPrecondition) << refused.message();
  for (const char* part : {"function 'away'", "'away/there' (Neg) wants /job:ps/task:0", "runs on its devices"})
    EXPECT_NE(refused.message().find(part), std::string::npos) << refused.message();
}

// The client's deadline reaches a function that waits at the worker.
TEST_F(FunctionCluster, ThatWaitsEndsWithItsStep) {
  const Attrs components = {{"component_types", std::vector<DType>{DType::kFloat}}, {"shared_name", "empty"}};
  const Function waits = DefineOne("waits", [&](Graph& body, const Output& v) {
    const Output queue = body.Op("FIFOQueueV2", {}, components);
    return body.Op("AddV2",
                   {v, body.Op("QueueDequeueV2", {queue}, {{"component_types", std::vector<DType>{DType::kFloat}}})});
  });
  const Output y = At("TestNest", x_, waits, "y");
  RunOptions soon;
  soon.timeout = std::chrono::milliseconds(50);
  const Status late = Client().Run({{x_, TensorOf(DType::kFloat, {1}, {1})}}, {y}, {}, soon).status();
  EXPECT_EQ(late.code(), Code::kDeadlineExceeded) << late.message();
}

}  // namespace
}  // namespace tenon::engine::function_cluster_test
