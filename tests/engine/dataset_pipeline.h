// SPDX-License-Identifier: Apache-2.0
// Pipelines of datasets, for tests.
#ifndef TENON_TESTS_ENGINE_DATASET_PIPELINE_H_
#define TENON_TESTS_ENGINE_DATASET_PIPELINE_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/engine.h"

namespace tenon::engine {

using Types = std::vector<DType>;
using Shapes = std::vector<Shape>;

// A graph that builds a pipeline of elements of one component, and takes from it.
struct Pipeline {
  Pipeline() : g(TheRuntime()) {}

  Attrs Spec(Attrs more = {}) const {
    more.push_back({"output_types", Types{type}});
    more.push_back({"output_shapes", Shapes{shape}});
    return more;
  }
  Output Int(int64_t value) { return g.Op("Const", {}, {{"dtype", DType::kInt64}, {"value", *Tensor::Scalar(value)}}); }
  Output Bool(bool value) { return g.Op("Const", {}, {{"dtype", DType::kBool}, {"value", *Tensor::Scalar(value)}}); }
  void Range(int64_t stop) { dataset = g.Op("RangeDataset", {Int(0), Int(stop), Int(1)}, Spec()); }
  void Strings(const std::string& op, const std::vector<Output>& inputs) {
    type = DType::kString;
    dataset = g.Op(op, inputs);
  }
  // A function of one element.
  void Map(const std::string& name, std::function<Output(Graph&, const Output&)> f, int64_t calls = 0) {
    const Function function =
        Define(g, name, [&f](Graph& body, const std::vector<Output>& x) { return std::vector<Output>{f(body, x[0])}; },
               {type});
    const Attrs attrs = Spec({{"f", function}, {"Targuments", Types{}}});
    dataset =
        calls == 0 ? g.Op("MapDataset", {dataset}, attrs) : g.Op("ParallelMapDatasetV2", {dataset, Int(calls)}, attrs);
  }
  void Then(const std::string& op, const std::vector<Output>& more = {}) {
    std::vector<Output> inputs = {dataset};
    inputs.insert(inputs.end(), more.begin(), more.end());
    dataset = g.Op(op, {inputs}, Spec());
  }
  // Ends the building.
  Session Open(const SessionOptions& options = {}) {
    iterator = g.Op("IteratorV2", {}, Spec({{"shared_name", std::string("it")}, {"container", std::string()}}));
    make = g.AddNode("MakeIterator", {dataset, iterator});
    next = g.Op("IteratorGetNext", {iterator}, Spec());
    EXPECT_TRUE(g.status().ok()) << g.status().message();
    auto session = Session::Create(TheRuntime(), g, options);
    EXPECT_TRUE(session.ok()) << session.status().message();
    return std::move(*session);
  }
  Status Begin(const Session& session) const { return session.RunTargets({make}); }
  Result<int64_t> Next(const Session& session, const RunOptions& options = {}) const {
    auto values = session.Run({}, {next}, {}, options);
    if (!values.ok()) return values.status();
    return (*values)[0].scalar<int64_t>();
  }
  Result<std::string> Text(const Session& session) const {
    auto values = session.Run({}, {next});
    if (!values.ok()) return values.status();
    return std::string((*values)[0].string(0));
  }
  // To the end, or the first failure but it.
  std::vector<int64_t> All(const Session& session) const {
    std::vector<int64_t> all;
    for (;;) {
      const auto value = Next(session);
      if (!value.ok()) {
        EXPECT_EQ(value.status().code(), Code::kOutOfRange) << value.status().message();
        return all;
      }
      all.push_back(*value);
    }
  }

  Graph g;
  DType type = DType::kInt64;
  Shape shape;
  Output dataset, iterator, next;
  Operation make;
};

inline std::vector<int64_t> UpTo(int64_t count) {
  std::vector<int64_t> all(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) all[static_cast<size_t>(i)] = i;
  return all;
}

// x + 0, by way of a queue: nobody gets further than what was put in.
inline void ThroughQueue(Pipeline* p, int64_t calls) {
  const Attrs attrs = {{"component_types", Types{DType::kInt64}}};
  const auto queue = [](Graph& graph) {
    return graph.Op(
        "FIFOQueueV2", {},
        {{"component_types", Types{DType::kInt64}}, {"shapes", Shapes{Shape()}}, {"shared_name", std::string("gate")}});
  };
  p->Map(
      "through",
      [&](Graph& body, const Output& x) {
        return body.Op("AddV2", {x, body.Op("QueueDequeueV2", {queue(body)}, attrs)});
      },
      calls);
}
struct Gate {
  explicit Gate(Pipeline* p) {
    const Output queue = p->g.Op(
        "FIFOQueueV2", {},
        {{"component_types", Types{DType::kInt64}}, {"shapes", Shapes{Shape()}}, {"shared_name", std::string("gate")}});
    open = p->g.AddNode("QueueEnqueueV2", {queue, p->Int(0)});
  }
  Operation open;
};

}  // namespace tenon::engine

#endif  // TENON_TESTS_ENGINE_DATASET_PIPELINE_H_
