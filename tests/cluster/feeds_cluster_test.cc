// SPDX-License-Identifier: Apache-2.0
// Any edge of a graph is fed on a cluster as in one process, whatever node has it, and a step is fed bit by bit. Covers
// C3, C10.
#include "tests/cluster/local_cluster.h"

namespace tenon::engine::feeds_cluster_test {
namespace {

struct Setting {
  std::string scheme;
  int tasks;
};
std::string NameOf(const testing::TestParamInfo<Setting>& info) {
  return info.param.scheme + std::to_string(info.param.tasks);
}

class Feeds : public testing::TestWithParam<Setting> {
 protected:
  Feeds()
      : cluster_(GetParam().scheme + "://feeds" + std::to_string(getpid()) + "_" + std::to_string(GetParam().tasks),
                 {{"worker", GetParam().tasks}}) {}
  // The nodes of a graph stand on one task after the other.
  auto Next(Graph& g) { return g.Device("/job:worker/task:" + std::to_string(next_++ % GetParam().tasks)); }
  Operation Node(Graph& g, const char* op, const std::vector<Output>& inputs, Attrs attrs = {}, const char* name = "") {
    const auto on = Next(g);
    return g.AddNode(op, inputs, attrs, name);
  }
  Output Op(Graph& g, const char* op, const std::vector<Output>& inputs, Attrs attrs = {}, const char* name = "") {
    return Node(g, op, inputs, attrs, name);
  }
  // What one process answers, and the cluster does too, in two executors, several steps.
  void Check(Graph& g, const std::vector<Feed>& feeds, const std::vector<Name>& fetches,
             const std::vector<double>& expected, const std::vector<Name>& targets = {}) {
    ASSERT_TRUE(g.status().ok()) << g.status();
    for (const bool on_cluster : {false, true}) {
      for (const uint32_t executor : {TENON_EXECUTOR_AUTO, TENON_EXECUTOR_DYNAMIC}) {
        SessionOptions options;
        options.executor = executor;
        if (on_cluster) options.master = cluster_.address();
        const auto session = Session::Create(TheRuntime(), g, options);
        ASSERT_TRUE(session.ok()) << session.status();
        for (int i = 0; i < 3; ++i) {
          const auto values = session->Run(feeds, fetches, targets);
          ASSERT_TRUE(values.ok()) << values.status() << (on_cluster ? " on the cluster" : " in one process");
          std::vector<double> all;
          for (const Tensor& value : *values)
            for (const double each : DoublesOf(value)) all.push_back(each);
          EXPECT_EQ(all, expected) << (on_cluster ? "on the cluster" : "in one process");
        }
      }
    }
  }
  static Tensor Floats(std::vector<float> values) {
    const auto size = static_cast<int64_t>(values.size());
    return *Tensor::From(values, Shape{size});
  }

  const LocalCluster cluster_;
  int next_ = 0;
};

// Fed strings lie in the message that brought them.
TEST_P(Feeds, StringsUnderAnotherShape) {
  Graph g(TheRuntime());
  const Output texts = g.Placeholder("texts", DType::kString, Shape{6}),
               dims = g.Placeholder("dims", DType::kInt32, Shape{2});
  const Output shaped = Op(g, "Reshape", {texts, dims}, {}, "shaped");
  const Output length = Op(g, "StringLength", {shaped}, {}, "length");
  Check(g,
        {{texts, *Tensor::Strings({"a", "some", "", "texts of", "lengths", "!"})},
         {dims, *Tensor::From(std::vector<int32_t>{2, 3}, Shape{2})}},
        {length}, {1, 4, 0, 8, 7, 1});
}

TEST_P(Feeds, TheMiddleOfAChainWhoseBeginningIsNotFed) {
  Graph g(TheRuntime());
  const Output never = g.Placeholder("never", DType::kFloat, Shape{2});
  const Output before = Op(g, "Exp", {never}, {}, "before"), middle = Op(g, "Neg", {before}, {}, "middle");
  const Output other = Op(g, "Neg", {never}, {}, "other");
  const Output end = Op(g, "AddV2", {middle, g.Const({1.0f, 2.0f})}, {}, "end"),
               both = Op(g, "Mul", {middle, other}, {}, "both");
  Check(g, {{middle, Floats({5, 6})}}, {end}, {6, 8});
  Check(g, {{middle, Floats({5, 6})}}, {middle}, {5, 6});
  Check(g, {{middle, Floats({5, 6})}, {before, Floats({0, 0})}}, {end, middle}, {6, 8, 5, 6});  // one that nobody needs
  Check(g, {{middle, Floats({5, 6})}, {other, Floats({2, 3})}}, {both}, {10, 18});
  Check(g, {{middle, Floats({5, 6})}, {never, Floats({2, 3})}}, {both, end},
        {-10, -18, 6, 8});  // what it would be made of is fed and needed too
}

TEST_P(Feeds, OneOfSeveralOutputsOfANode) {
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{4});
  const Operation split = [&] {
    const auto on = Next(g);
    return g.AddNode("Split", {g.Const(0), x}, {{"num_split", int64_t{2}}}, "split");
  }();
  const Output sum = Op(g, "AddV2", {split.output(0), split.output(1)}, {}, "sum"),
               twice = Op(g, "AddV2", {split.output(1), split.output(1)}, {}, "twice");
  Check(g, {{split.output(1), Floats({10, 20})}, {x, Floats({1, 2, 3, 4})}}, {sum, twice, split.output(0)},
        {11, 22, 20, 40, 1, 2});
  Check(g, {{split.output(1), Floats({10, 20})}, {split.output(0), Floats({1, 1})}}, {sum}, {11, 21});
}

TEST_P(Feeds, ANodeThatWaitsForOthersAndThatOthersWaitFor) {
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{1});
  const Output never = g.Placeholder("never", DType::kFloat, Shape{1});
  const Operation first = Node(g, "Neg", {never}, {}, "first");
  Output fed;
  {
    const auto after = g.ControlDependencies({first});
    fed = Op(g, "Exp", {never}, {}, "fed");
  }
  const Output end = Op(g, "AddV2", {fed, x}, {}, "end");
  Check(g, {{fed, Floats({3})}, {x, Floats({4})}}, {end}, {7});
  // Who waits for it makes it run.
  Output waits;
  const Operation runs = Node(g, "Square", {x}, {}, "runs");
  {
    const auto after = g.ControlDependencies({runs});
    waits = Op(g, "Neg", {runs}, {}, "waits");
  }
  Check(g, {{runs, Floats({3})}, {x, Floats({4})}}, {waits}, {-3});
}

TEST_P(Feeds, WhatIsMadeOfACalledFunctionsResult) {
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{1});
  const Function f =
      Define(g, "square_and_neg",
             [](Graph& body, const std::vector<Output>& v) { return body.Op("Neg", {body.Op("Square", {v[0]})}); },
             {DType::kFloat});
  const Output called =
      Node(g, "PartitionedCall", {x}, {{"f", f}, {"Tout", std::vector<DType>{DType::kFloat}}}, "called");
  const Output middle = Op(g, "Neg", {called}, {}, "middle"), end = Op(g, "AddV2", {middle, middle}, {}, "end"),
               both = Op(g, "Sub", {end, called}, {}, "both");
  Check(g, {{x, Floats({3})}}, {end}, {18});
  Check(g, {{middle, Floats({5})}}, {end}, {10});
  Check(g, {{middle, Floats({5})}, {x, Floats({3})}}, {both, middle}, {19, 5});
}

TEST_P(Feeds, AStepInThreeCalls) {
  for (const bool on_cluster : {false, true}) {
    Graph g(TheRuntime());
    const Output v = [&] {
      const auto on = Next(g);
      return g.Op(
          "VarHandleOp", {},
          {{"dtype", DType::kFloat}, {"shape", Shape{1}}, {"shared_name", "calls" + std::to_string(on_cluster)}}, "v");
    }();
    const Operation init = g.AddNode("AssignVariableOp", {v, g.Const({0.0f})}, {{"dtype", DType::kFloat}}, "init");
    const Output a = g.Placeholder("a", DType::kFloat, Shape{1}), b = g.Placeholder("b", DType::kFloat, Shape{1}),
                 c = g.Placeholder("c", DType::kFloat, Shape{1});
    Output first;
    {
      const auto counted =
          g.ControlDependencies({g.AddNode("AssignAddVariableOp", {v, g.Const({1.0f})}, {{"dtype", DType::kFloat}})});
      first = Op(g, "Neg", {a}, {}, "first");
    }
    const Output kept = Op(g, "Exp", {g.Op("Sub", {first, first})}, {}, "kept");
    const Output second = Op(g, "AddV2", {first, b}, {}, "second"),
                 third = Op(g, "Mul", {Op(g, "AddV2", {second, kept}), c}, {}, "third");
    const Output count = g.Op("ReadVariableOp", {v}, {{"dtype", DType::kFloat}}, "count");
    SessionOptions options;
    if (on_cluster) options.master = cluster_.address();
    const auto session = Session::Create(TheRuntime(), g, options);
    ASSERT_TRUE(session.ok()) << session.status();
    ASSERT_TRUE(session->RunTargets({init}).ok());
    const auto run = PartialRun::Setup(*session, {a, b, c}, {first, second, third});
    ASSERT_TRUE(run.ok()) << run.status();
    const auto call = [&](const Output& feed, float value, const Output& fetch) {
      const auto values = run->Run({{feed, Floats({value})}}, {fetch});
      EXPECT_TRUE(values.ok()) << values.status();
      return values.ok() ? DoublesOf((*values)[0])[0] : NAN;
    };
    EXPECT_EQ(call(a, 2, first), -2);
    EXPECT_EQ(call(b, 10, second), 8);
    EXPECT_EQ(call(c, 3, third), 27);
    const auto counted = session->Run({}, {count});
    ASSERT_TRUE(counted.ok()) << counted.status();
    EXPECT_EQ(DoublesOf((*counted)[0]), std::vector<double>{1}) << "each node runs once";
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, Feeds,
                         testing::Values(Setting{"loopback", 1}, Setting{"loopback", 2}, Setting{"shm", 1},
                                         Setting{"shm", 2}),
                         NameOf);

}  // namespace
}  // namespace tenon::engine::feeds_cluster_test
