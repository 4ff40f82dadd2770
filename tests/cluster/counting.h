// SPDX-License-Identifier: Apache-2.0
// A counter that all tasks of a cluster take part in: one on the parameter server, added to by way of two workers.
#ifndef TENON_TESTS_CLUSTER_COUNTING_H_
#define TENON_TESTS_CLUSTER_COUNTING_H_

#include "tests/cluster/processes.h"
#include "tests/engine/engine.h"

namespace tenon::engine {

// A counter on the parameter server, added to by way of both workers.
struct Counting {
  Graph graph{TheRuntime()};
  Counting() {
    Output counter, one;
    {
      const auto on = graph.Device("/job:ps/task:0");
      counter = graph.Op("VarHandleOp", {}, {{"dtype", DType::kInt64}, {"shape", Shape{}}, {"shared_name", "counter"}},
                         "counter");
      graph.AddNode("AssignVariableOp", {counter, graph.Const(*Tensor::Scalar(int64_t{0}))}, {}, "reset");
    }
    {
      const auto on = graph.Device("/job:worker/task:0");
      one = graph.Op("Neg", {graph.Op("Neg", {graph.Placeholder("one", DType::kInt64, Shape{})})}, {}, "first");
    }
    {
      const auto on = graph.Device("/job:worker/task:1");
      one = graph.Op("Abs", {one}, {}, "second");
    }
    graph.AddNode("AssignAddVariableOp", {counter, one}, {}, "add");
    graph.Op("ReadVariableOp", {counter}, {{"dtype", DType::kInt64}}, "read");
  }
  Result<Session> Connect(const Processes& tasks, size_t task = 1, SessionOptions options = {}) const {
    options.master = tasks.address(task);
    return Session::Create(TheRuntime(), graph, options);
  }
};

inline Status Add(const Session& session) {
  RunOptions options;
  options.timeout = std::chrono::seconds(30);
  return session.Run({{"one", *Tensor::Scalar(int64_t{1})}}, {}, {"add"}, options).status();
}

}  // namespace tenon::engine

#endif  // TENON_TESTS_CLUSTER_COUNTING_H_
