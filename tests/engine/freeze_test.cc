// SPDX-License-Identifier: Apache-2.0
// Sessions whose variables are constants: the same values, and what is made of them is made once; who writes is
// refused.
#include <atomic>
#include <cmath>
#include <thread>

#include "tenon/host/calibration.h"
#include "tests/engine/reduced_precision.h"

namespace tenon::engine::freeze_test {
namespace {

Output Handle(Graph& g, const std::string& name, const Shape& shape) {
  return g.Op("VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", shape}, {"shared_name", name}}, name);
}
Output Read(Graph& g, const Output& handle, const std::string& name = "") {
  return g.Op("ReadVariableOp", {handle}, {{"dtype", DType::kFloat}}, name);
}
Operation Assign(Graph& g, const Output& handle, const Output& value, const std::string& name) {
  return g.AddNode("AssignVariableOp", {handle, value}, {}, name);
}

Session Open(Graph& g, const std::vector<Name>& init = {}, const SessionOptions& options = {}) {
  EXPECT_TRUE(g.status().ok()) << g.status();
  auto session = Session::Create(TheRuntime(), g, options);
  EXPECT_TRUE(session.ok()) << session.status();
  for (const Name& each : init) EXPECT_TRUE(session->RunTargets({each}).ok()) << each.text();
  return std::move(*session);
}
std::vector<float> Get(const Session& session, const Name& fetch, const std::vector<Feed>& feeds = {}) {
  auto values = session.Run(feeds, {fetch});
  EXPECT_TRUE(values.ok()) << fetch.text() << ": " << values.status();
  return values.ok() ? Values<float>((*values)[0]) : std::vector<float>();
}
std::string HowNodesRun(const Session& session, const std::vector<Name>& feeds, const std::vector<Name>& fetches) {
  const auto callable = session.Prepare(feeds, fetches);
  EXPECT_TRUE(callable.ok()) << callable.status();
  return *callable->Explain();
}
bool Runs(const std::string& how, const std::string& op) {
  return how.find("\"op\":\"" + op + "\"") != std::string::npos;
}
bool Says(const std::string& text, const std::string& what) { return text.find(what) != std::string::npos; }
const std::vector<float> kThree = {2, 3, 4};

TEST(Freeze, MakesWhatIsMadeOfVariablesOnce) {
  Graph g(TheRuntime());
  const Output v = Handle(g, "v", Shape{3}), x = g.Placeholder("x", DType::kFloat, Shape{3});
  Assign(g, v, g.Const(kThree, {3}), "init");
  const Output read = Read(g, v, "read");
  g.Op("Mul", {x, g.Op("Exp", {read})}, {}, "y");
  const Session session = Open(g, {"init"});
  const Tensor one = *Tensor::From(std::vector<float>{1, 1, 1}, {3});
  const std::vector<float> before = Get(session, "y", {{"x", one}});
  EXPECT_TRUE(Runs(HowNodesRun(session, {"x"}, {"y"}), "ReadVariableOp"));
  const uint64_t folded = session.Metrics()->nodes_folded;
  ASSERT_TRUE(session.Freeze().ok());
  ASSERT_TRUE(session.Freeze().ok()) << "twice is once";
  EXPECT_EQ(Get(session, "y", {{"x", one}}), before);
  EXPECT_GT(session.Metrics()->nodes_folded, folded) << "the exponential of it";
  const std::string how = HowNodesRun(session, {"x"}, {"y"});
  for (const char* op : {"ReadVariableOp", "VarHandleOp"}) EXPECT_FALSE(Runs(how, op)) << op << ": " << how;
  // Itself, and beside what is fed in its place.
  EXPECT_EQ(Get(session, "read"), kThree);
  EXPECT_EQ(Get(session, "y", {{"x", one}, {"read", *Tensor::From(std::vector<float>{0, 0, 0}, {3})}}),
            (std::vector<float>{1, 1, 1}));
}

TEST(Freeze, RefusesStepsThatWriteAndNamesThem) {
  for (const bool reference : {false, true}) {
    Graph g(TheRuntime());
    const Output v = reference ? g.Op("VariableV2", {}, {{"dtype", DType::kFloat}, {"shape", Shape{3}}}, "v")
                               : Handle(g, "v", Shape{3});
    const Output value = g.Const(kThree, {3}), one = g.Const(std::vector<float>{1.0f, 1.0f, 1.0f}, {3});
    reference ? g.AddNode("Assign", {v, value}, {}, "init") : Assign(g, v, value, "init");
    g.AddNode(reference ? "AssignAdd" : "AssignAddVariableOp", {v, one}, {}, "add");
    g.Op("Identity", {reference ? v : Read(g, v)}, {}, "y");
    const Session session = Open(g, {"init"});
    auto callable = session.Prepare({}, {}, {"add"});
    ASSERT_TRUE(callable.ok()) << callable.status();
    ASSERT_TRUE(session.Freeze().ok());
    for (const char* writer : {"add", "init"}) {
      const Status refused = session.RunTargets({writer});
      EXPECT_EQ(refused.code(), Code::kFailedPrecondition) << refused;
      for (const std::string& part : {"'" + std::string(writer) + "'", std::string("'v'"), std::string("frozen")})
        EXPECT_TRUE(Says(refused.message(), part)) << refused;
    }
    EXPECT_EQ(Get(session, "y"), kThree);
    // What was prepared before is as it was, and not seen.
    EXPECT_TRUE(callable->Run(std::vector<View>()).ok());
    EXPECT_EQ(Get(session, "y"), kThree);
    if (reference) {
      EXPECT_EQ(Get(session, "v"), kThree) << "the reference itself";
    }
  }
}

// Functions, loops and branches take handles along: what they read of them is a constant there.
TEST(Freeze, GoesWithHandlesIntoFunctionsLoopsAndBranches) {
  for (const uint32_t executor : {TENON_EXECUTOR_AUTO, TENON_EXECUTOR_DYNAMIC}) {
    Graph g(TheRuntime());
    const Output v = Handle(g, "v", Shape{3}), w = Handle(g, "w", Shape{3});
    const std::vector<float> other = {10, 20, 30};
    Assign(g, v, g.Const(kThree, {3}), "init_v");
    Assign(g, w, g.Const(other, {3}), "init_w");
    const Output x = g.Placeholder("x", DType::kFloat, Shape{3}), flag = g.Placeholder("flag", DType::kBool, Shape());
    using Outputs = std::vector<Output>;
    const Function scaled = Define(g, "scaled",
                                   [](Graph& body, const Outputs& in) {
                                     return Outputs{body.Op("Mul", {in[0], Read(body, in[1])})};
                                   },
                                   {DType::kFloat, DType::kResource});
    g.AddNode("StatefulPartitionedCall", {x, v},
              {{"Tin", std::vector<DType>{DType::kFloat, DType::kResource}},
               {"Tout", std::vector<DType>{DType::kFloat}},
               {"f", scaled}},
              "called");
    // Three turns of y = y v + w.
    const std::vector<DType> carried = {DType::kInt32, DType::kFloat, DType::kResource, DType::kResource};
    const std::vector<Argument> arguments(carried.begin(), carried.end());
    const Function more = Define(
        g, "more",
        [](Graph& body, const Outputs& in) {
          return Outputs{body.Op("Less", {in[0], body.Const(3)})};
        },
        arguments);
    const Function turn = Define(
        g, "turn",
        [](Graph& body, const Outputs& in) {
          return Outputs{body.Op("AddV2", {in[0], body.Const(1)}),
                         body.Op("AddV2", {body.Op("Mul", {in[1], Read(body, in[2])}), Read(body, in[3])}), in[2],
                         in[3]};
        },
        arguments);
    const Operation loop =
        g.AddNode("While", {g.Const(0), x, v, w}, {{"T", carried}, {"cond", more}, {"body", turn}}, "loop");
    // Branches that read one or the other.
    const std::vector<Argument> pair = {DType::kResource, DType::kResource};
    const Function first = Define(
        g, "first", [](Graph& body, const Outputs& in) { return Outputs{Read(body, in[0])}; }, pair);
    const Function second = Define(
        g, "second", [](Graph& body, const Outputs& in) { return Outputs{Read(body, in[1])}; }, pair);
    g.AddNode("If", {flag, v, w},
              {{"Tin", std::vector<DType>{DType::kResource, DType::kResource}},
               {"Tout", std::vector<DType>{DType::kFloat}},
               {"then_branch", first},
               {"else_branch", second}},
              "branch");
    SessionOptions options;
    options.executor = executor;
    const Session session = Open(g, {"init_v", "init_w"}, options);
    const Tensor one = *Tensor::From(std::vector<float>{1, 1, 1}, {3});
    const std::vector<Feed> feeds = {{"x", one}};
    const auto flagged = [&](bool value) {
      return std::vector<Feed>{{"flag", TensorOf(DType::kBool, Shape(), {value ? 1.0 : 0.0})}};
    };
    const auto all = [&] {
      return std::vector<std::vector<float>>{Get(session, "called", feeds), Get(session, loop.output(1), feeds),
                                             Get(session, "branch", flagged(true)),
                                             Get(session, "branch", flagged(false))};
    };
    const auto before = all();
    EXPECT_EQ(before[0], kThree);
    EXPECT_EQ(before[1][0], ((1 * 2 + 10) * 2 + 10) * 2 + 10);
    EXPECT_EQ(before[3], other);
    ASSERT_TRUE(session.Freeze().ok());
    EXPECT_EQ(all(), before);
    EXPECT_FALSE(Runs(HowNodesRun(session, {"x"}, {"called"}), "ReadVariableOp"));
    EXPECT_FALSE(Runs(HowNodesRun(session, {"x"}, {loop.output(1)}), "ReadVariableOp"));
    EXPECT_FALSE(Runs(HowNodesRun(session, {"flag"}, {"branch"}), "ReadVariableOp"));
  }
}

// Frames as TensorFlow 1 writes them: the handle enters the loop, and is read in each turn.
TEST(Freeze, GoesIntoFramesWithWhatTheyWaitFor) {
  Graph g(TheRuntime());
  const Output v = Handle(g, "v", Shape{3});
  Assign(g, v, g.Const(kThree, {3}), "init");
  const auto enter = [&](const Output& value, bool constant) {
    return g.Op("Enter", {value}, {{"frame_name", "loop"}, {"is_constant", constant}});
  };
  const Output i = g.Op("Merge", {enter(g.Const(0), false), enter(g.Const(0), false)}),
               y = g.Op("Merge", {enter(g.Const(std::vector<float>{0.0f, 0.0f, 0.0f}, {3}), false),
                                  enter(g.Const(std::vector<float>{0.0f, 0.0f, 0.0f}, {3}), false)});
  const Output loops = g.Op("LoopCond", {g.Op("Less", {i, enter(g.Const(4), true)})});
  const Operation i_gate = g.AddNode("Switch", {i, loops}), y_gate = g.AddNode("Switch", {y, loops});
  const Output handle = enter(v, true), turn = g.Op("Identity", {i_gate.output(1)});
  Output read;
  {
    const auto after = g.ControlDependencies({Operation(turn)});
    read = Read(g, g.Op("Identity", {handle}));
  }
  g.SetInput(Operation(i), 1, g.Op("NextIteration", {g.Op("AddV2", {turn, enter(g.Const(1), true)})}));
  g.SetInput(Operation(y), 1, g.Op("NextIteration", {g.Op("AddV2", {y_gate.output(1), read})}));
  const Output last = g.Op("Exit", {y_gate.output(0)}, {}, "last");
  const Session session = Open(g, {"init"});
  const std::vector<float> expected = {8, 12, 16};
  EXPECT_EQ(Get(session, last), expected);
  ASSERT_TRUE(session.Freeze().ok());
  EXPECT_EQ(Get(session, last), expected);
  EXPECT_FALSE(Runs(HowNodesRun(session, {}, {last}), "ReadVariableOp"));
}

TEST(Freeze, LeavesWhatHasNoValueAndWhatTakesHandles) {
  Graph g(TheRuntime());
  const Output v = Handle(g, "v", Shape{3}), empty = Handle(g, "empty", Shape{3});
  Assign(g, v, g.Const(kThree, {3}), "init");
  Assign(g, empty, g.Const(kThree, {3}), "late");
  Read(g, v, "has");
  Read(g, empty, "has_none");
  g.Op("AddN", {Read(g, v), Read(g, empty)}, {}, "both");
  g.Op("ResourceGather", {v, g.Const({2, 0})}, {{"dtype", DType::kFloat}}, "rows");
  g.Op("VarIsInitializedOp", {empty}, {}, "is_there");
  const Session session = Open(g, {"init"});
  auto late = session.Prepare({}, {}, {"late"});
  ASSERT_TRUE(late.ok() && session.Freeze().ok());
  EXPECT_EQ(Get(session, "has"), kThree);
  EXPECT_EQ(Get(session, "rows"), (std::vector<float>{4, 2}));
  for (const char* name : {"has_none", "both"}) {
    const Status none = session.Run({}, {name}).status();
    EXPECT_EQ(none.code(), Code::kFailedPrecondition) << none;
    EXPECT_TRUE(Says(none.message(), "'empty' has no value yet")) << none;
  }
  auto there = session.Run({}, {"is_there"});
  ASSERT_TRUE(there.ok()) << there.status();
  EXPECT_EQ(Values<uint8_t>((*there)[0])[0], 0);
  // One that gets its value by a step from before is read as what it is.
  ASSERT_TRUE(late->Run(std::vector<View>()).ok());
  EXPECT_EQ(Get(session, "both"), (std::vector<float>{4, 6, 8}));
}

// While steps of all kinds run, and others write: each step has one value or the other, and none after it has another
// than the first one's.
TEST(Freeze, IsAskedForWhileStepsRun) {
  for (int round = 0; round < 20; ++round) {
    Graph g(TheRuntime());
    const Output v = Handle(g, "v", Shape{3});
    Assign(g, v, g.Const(kThree, {3}), "init");
    Assign(g, v, g.Const(std::vector<float>{5.0f, 5.0f, 5.0f}, {3}), "other");
    const Output read = Read(g, v);
    for (int i = 0; i < 4; ++i) g.Op("Neg", {read}, {}, "y" + std::to_string(i));
    const Session session = Open(g, {"init"});
    auto writer = session.Prepare({}, {}, {"other"});
    ASSERT_TRUE(writer.ok());
    std::atomic<bool> frozen{false};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < 30; ++i) {
          const bool was_frozen = frozen;
          const std::string name = "y" + std::to_string((t + i) % 4);
          const std::vector<float> got = Get(session, name);
          EXPECT_TRUE(got == (std::vector<float>{-2, -3, -4}) || got == (std::vector<float>{-5, -5, -5}));
          if (was_frozen) {
            EXPECT_EQ(Get(session, name), got);
          }
        }
      });
    EXPECT_TRUE(writer->Run(std::vector<View>()).ok());
    EXPECT_TRUE(session.Freeze().ok());
    frozen = true;
    for (std::thread& thread : threads) thread.join();
    const std::vector<float> all = Get(session, "y0");
    for (int i = 1; i < 4; ++i) EXPECT_EQ(Get(session, "y" + std::to_string(i)), all);
  }
}

TEST(Freeze, TextsAreConstantsToo) {
  Graph g(TheRuntime());
  const Output text =
      g.Op("VarHandleOp", {}, {{"dtype", DType::kString}, {"shape", Shape{2}}, {"shared_name", "text"}}, "text");
  g.AddNode("AssignVariableOp", {text, g.Const(View(*Tensor::Strings({"a", std::string(100, 'b')})))}, {}, "init");
  g.Op("ReadVariableOp", {text}, {{"dtype", DType::kString}}, "says");
  const Session session = Open(g, {"init"});
  ASSERT_TRUE(session.Freeze().ok());
  const auto values = session.Run({}, {"says"});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ((*values)[0].string(1), std::string(100, 'b'));
  EXPECT_FALSE(Runs(HowNodesRun(session, {}, {"says"}), "ReadVariableOp"));
}

// A node of a call that one step inlines would have the name of a node that another step has: their variables are two,
// frozen or not.
TEST(Freeze, TellsVariablesOfOneNameApart) {
  Graph g(TheRuntime());
  const Output outer =
      g.Op("VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", Shape{3}}, {"shared_name", "outer"}}, "call/v");
  const Output inner = Handle(g, "inner", Shape{3});
  Assign(g, outer, g.Const(kThree, {3}), "init_outer");
  Assign(g, inner, g.Const(std::vector<float>{7, 8, 9}, {3}), "init_inner");
  Read(g, outer, "read_outer");
  const Function reads =
      Define(g, "reads",
             [](Graph& body, const std::vector<Output>&) {
               return std::vector<Output>{
                   Read(body, body.Op("VarHandleOp", {},
                                      {{"dtype", DType::kFloat}, {"shape", Shape{3}}, {"shared_name", "inner"}}, "v"))};
             },
             {});
  g.AddNode("StatefulPartitionedCall", {},
            {{"Tin", std::vector<DType>{}}, {"Tout", std::vector<DType>{DType::kFloat}}, {"f", reads}}, "call");
  const Session session = Open(g, {"init_outer", "init_inner"});
  EXPECT_EQ(Get(session, "read_outer"), kThree);
  EXPECT_EQ(Get(session, "call"), (std::vector<float>{7, 8, 9}));
  ASSERT_TRUE(session.Freeze().ok());
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Get(session, "read_outer"), kThree);
    EXPECT_EQ(Get(session, "call"), (std::vector<float>{7, 8, 9}));
  }
}

TEST(Freeze, HoldsWithoutOptimizingAndUnderAMemoryLimit) {
  Graph g(TheRuntime());
  const Output v = Handle(g, "v", Shape{1 << 18});
  Assign(g, v, g.Op("Fill", {g.Const({1 << 18}), g.Const(2.0f)}), "init");
  g.Op("Sum", {Read(g, v), g.Const({0})}, {}, "sum");
  SessionOptions options;
  options.optimize = false;
  options.memory_limit = 3 << 20;  // a second copy of the variable would be too much beside what the step takes
  const Session session = Open(g, {"init"}, options);
  ASSERT_TRUE(session.Freeze().ok());
  EXPECT_EQ(Get(session, "sum"), (std::vector<float>{1 << 19}));
}

// Weights in 8 bits, by ranges that were found where they were variables: the same numbers, and nothing of the weights
// is left to do in a step.
TEST(Freeze, ServesPrecisionsByTheSameCalibration) {
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{4, 32});
  std::vector<Name> init;
  const auto weights = [&](const std::string& name, const Shape& shape) {
    const Output handle = Handle(g, name, shape);
    std::vector<float> values(static_cast<size_t>(shape.element_count()));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = std::sin(static_cast<float>(i) * 0.7f + static_cast<float>(name.size())) * 0.2f;
    init.emplace_back(Assign(g, handle, g.Const(values, shape), name + "_init"));
    return Read(g, handle, name + "_read");
  };
  const Output hidden =
      g.Op("Relu", {g.Op("BiasAdd", {g.Op("MatMul", {x, weights("first", {32, 48})}), weights("bias", {48})})}, {},
           "hidden");
  const Output y = g.Op("MatMul", {hidden, weights("second_one", {48, 16})}, {}, "y");
  std::vector<float> batch(4 * 32);
  for (size_t i = 0; i < batch.size(); ++i) batch[i] = std::cos(static_cast<float>(i));
  const View view(batch, {4, 32});
  const Session exact = Open(g, init);
  const std::vector<float> floats = Get(exact, y, {{x, view}});

  SessionOptions watched;
  watched.optimize = false;
  watched.watch = true;
  host::Calibrator calibrator;
  calibrator.Feed("x", view);
  RunOptions run;
  run.watch = calibrator.Watch();
  const Session looked_at = Open(g, init, watched);
  ASSERT_TRUE(looked_at.Run({{x, view}}, {y}, {}, run).ok());
  SessionOptions int8;
  int8.precision = Precision::kInt8;
  int8.calibration = calibrator.Text("");
  const Session plain = Open(g, init, int8), frozen = Open(g, init, int8);
  ASSERT_TRUE(frozen.Freeze().ok());
  const Outcome before = RunPrepared(plain, {x}, {view}, {y}), after = RunPrepared(frozen, {x}, {view}, {y});
  EXPECT_EQ(after.values, before.values);
  EXPECT_LT(Relative(floats, after.values[0]), 0.05);
  EXPECT_GT(Relative(floats, after.values[0]), 0) << "in bytes indeed";
  EXPECT_TRUE(Says(after.explanation, "in 8-bit integers")) << after.explanation;
  EXPECT_FALSE(Runs(after.explanation, "ReadVariableOp"));
}

}  // namespace
}  // namespace tenon::engine::freeze_test
