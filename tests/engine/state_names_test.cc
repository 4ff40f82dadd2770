// SPDX-License-Identifier: Apache-2.0
// Whose state is whose: a node's state is its own whatever others are called, in calls too, and in all steps of a
// session. Covers Q1.
#include <string>
#include <vector>

#include "tests/engine/engine.h"

namespace tenon::engine::state_names_test {
namespace {

using Outputs = std::vector<Output>;

// Puts something into a queue of the node's own (a resource that is found by the node's name), and says how much it
// has: 1, 2, 3, ...
Output Count(Graph& g, const std::string& name) {
  const Operation queue = g.AddNode("FIFOQueueV2", {}, {{"component_types", std::vector<DType>{DType::kFloat}}}, name);
  const Operation put = g.AddNode("QueueEnqueueV2", {queue, g.Const(1.0f)}, {}, "put");
  const auto after = g.ControlDependencies({put});
  return g.Op("Cast", {g.Op("QueueSizeV2", {queue})}, {{"SrcT", DType::kInt32}, {"DstT", DType::kFloat}});
}
// The next number of a kernel that keeps where it stands.
Output Draw(Graph& g, const std::string& name) {
  return g.Op("RandomUniform", {g.Const(std::vector<int32_t>{}, {0})},
              {{"dtype", DType::kFloat}, {"seed", 7}, {"seed2", 9}}, name);
}
using Make = Output (*)(Graph& g, const std::string& name);

void Call(Graph& g, Make make, const std::string& call, const std::string& within) {
  const Function function = Define(
      g, "f_" + std::to_string(call.size()) + "_" + std::to_string(within.size()),
      [&](Graph& body, const Outputs&) { return FunctionResults(make(body, within)); }, std::vector<Argument>{});
  g.AddNode("StatefulPartitionedCall", {},
            {{"Tin", std::vector<DType>{}}, {"Tout", std::vector<DType>{DType::kFloat}}, {"f", function}}, call);
}

Session Open(const Graph& g, const SessionOptions& options = {}) {
  EXPECT_TRUE(g.status().ok()) << g.status();
  auto session = Session::Create(TheRuntime(), g, options);
  EXPECT_TRUE(session.ok()) << session.status();
  return std::move(*session);
}
float Get(const Session& session, const std::string& fetch) {
  const auto values = session.Run({}, {fetch});
  EXPECT_TRUE(values.ok()) << fetch << ": " << values.status();
  return values.ok() ? Values<float>((*values)[0])[0] : -1;
}

// What a node with such state gives by itself, step by step.
std::vector<float> Alone(Make make) {
  Graph g(TheRuntime());
  g.Op("Identity", {make(g, "alone")}, {}, "value");
  const Session session = Open(g);
  return {Get(session, "value"), Get(session, "value"), Get(session, "value")};
}

class StateNames : public testing::TestWithParam<Make> {
 protected:
  const Make make_ = GetParam();
  const std::vector<float> wanted_ = Alone(make_);
};
INSTANTIATE_TEST_SUITE_P(, StateNames, testing::Values(&Count, &Draw),
                         [](const auto& info) { return info.param == &Count ? "Resources" : "Kernels"; });

TEST_P(StateNames, AreNotMixedUpWithTheSessionsOwnNodes) {
  Graph g(TheRuntime());
  Call(g, make_, "call", "v");
  g.Op("Identity", {make_(g, "call/v")}, {}, "own");
  const Session session = Open(g);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Get(session, "call"), wanted_[i]);
    EXPECT_EQ(Get(session, "own"), wanted_[i]);
  }
}

TEST_P(StateNames, StayWhenANodeIsAddedLater) {
  Graph g(TheRuntime());
  Call(g, make_, "call", "v");
  Session session = Open(g);
  EXPECT_EQ(Get(session, "call"), wanted_[0]);
  g.Op("Identity", {make_(g, "call/v")}, {}, "own");
  ASSERT_TRUE(session.Extend(g).ok());
  EXPECT_EQ(Get(session, "own"), wanted_[0]);
  const auto both = session.Run({}, {"call", "own"});
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(Values<float>((*both)[0])[0], wanted_[1]);
  EXPECT_EQ(Values<float>((*both)[1])[0], wanted_[1]);
}

TEST_P(StateNames, TellCallsApartWhoseNodesComeToOneName) {
  Graph g(TheRuntime());
  Call(g, make_, "a", "b/v");
  Call(g, make_, "a/b", "v");
  const Session session = Open(g);
  EXPECT_EQ(Get(session, "a"), wanted_[0]);
  EXPECT_EQ(Get(session, "a/b"), wanted_[0]);
  const auto both = session.Run({}, {"a/b", "a"});
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(Values<float>((*both)[0])[0], wanted_[1]);
  EXPECT_EQ(Values<float>((*both)[1])[0], wanted_[1]);
  EXPECT_EQ(Get(session, "a/b"), wanted_[2]);
  EXPECT_EQ(Get(session, "a"), wanted_[2]);
}

TEST_P(StateNames, AreOfCallsInCalls) {
  Graph g(TheRuntime());
  const Function inner = Define(
      g, "inner", [&](Graph& body, const Outputs&) { return FunctionResults(make_(body, "v")); },
      std::vector<Argument>{});
  const Attrs call = {{"Tin", std::vector<DType>{}}, {"Tout", std::vector<DType>{DType::kFloat}}, {"f", inner}};
  const Function outer = Define(
      g, "outer",
      [&](Graph& body, const Outputs&) { return FunctionResults(body.Op("StatefulPartitionedCall", {}, call, "b")); },
      std::vector<Argument>{});
  g.AddNode("StatefulPartitionedCall", {},
            {{"Tin", std::vector<DType>{}}, {"Tout", std::vector<DType>{DType::kFloat}}, {"f", outer}}, "a");
  Call(g, make_, "a/b", "v");
  const Session session = Open(g);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Get(session, "a"), wanted_[i]);
    EXPECT_EQ(Get(session, "a/b"), wanted_[i]);
  }
}

// Whether the step is compiled, optimized, or dynamic: one state.
TEST_P(StateNames, AreOneInEveryManner) {
  for (const uint32_t executor : {TENON_EXECUTOR_AUTO, TENON_EXECUTOR_DYNAMIC})
    for (const bool optimize : {true, false}) {
      Graph g(TheRuntime());
      Call(g, make_, "a", "b/v");
      Call(g, make_, "a/b", "v");
      SessionOptions options;
      options.executor = executor;
      options.optimize = optimize;
      const Session session = Open(g, options);
      for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(Get(session, "a"), wanted_[i]);
        EXPECT_EQ(Get(session, "a/b"), wanted_[i]);
      }
    }
}

// A loop of a body in frame form has its frame's name from the call.
TEST(StateNamesOfFrames, AreTheCalls) {
  Graph g(TheRuntime());
  const auto loop = [](const std::string& frame, float end) {
    return [frame, end](Graph& body, const Outputs& v) {
      const Output enter = body.Op("Enter", {v[0]}, {{"frame_name", frame}});
      const Operation merge = body.AddNode("Merge", {enter, enter});
      const Output now = merge.output(0);
      const Output limit = body.Op("Enter", {body.Const(end)}, {{"frame_name", frame}, {"is_constant", true}});
      const Output one = body.Op("Enter", {body.Const(1.0f)}, {{"frame_name", frame}, {"is_constant", true}});
      const Output goes_on = body.Op("LoopCond", {body.Op("Less", {now, limit})});
      const Operation sides = body.AddNode("Switch", {now, goes_on});
      const Output next = body.Op("NextIteration", {body.Op("AddV2", {sides.output(1), one})});
      body.SetInput(merge, 1, next);
      return FunctionResults(body.Op("Exit", {sides.output(0)}));
    };
  };
  const std::vector<Argument> one = {{DType::kFloat, {}, "x"}};
  const Function f = Define(g, "f", loop("b/frame", 3), one), h = Define(g, "h", loop("frame", 5), one);
  const Output x = g.Const(0.0f);
  g.Call(f, {x}, "a");
  g.Call(h, {x}, "a/b");
  ASSERT_TRUE(g.status().ok()) << g.status();
  const auto values = RunOnce(g, {}, {"a", "a/b"});
  ASSERT_EQ(values.size(), 2u);
  EXPECT_EQ(Values<float>(values[0])[0], 3);
  EXPECT_EQ(Values<float>(values[1])[0], 5);
}

}  // namespace
}  // namespace tenon::engine::state_names_test
