// SPDX-License-Identifier: Apache-2.0
// Writes the GraphDef of a small graph to standard output; test_graph.py builds the same one in Python, and compares
// the bytes.
#include <iostream>

#include "tenon/tenon.h"

using namespace tenon::host;  // NOLINT: a program of one file

int main() {
  Result<Runtime> runtime = Runtime::Create();
  if (!runtime.ok()) return 1;
  Graph graph(*runtime);
  const Output x = graph.Placeholder("x", DType::kFloat, {-1, 3});
  Output y;
  {
    const auto scope = graph.Scope("layer");
    const auto device = graph.Device("CPU:0");
    const Output w = graph.Const({1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f});
    const Output shaped = graph.Op("Reshape", {w, graph.Const({3, 2})});
    y = graph.Op("MatMul", {x, shaped}, {{"transpose_b", false}}, "product");
  }
  {
    const auto after = graph.ControlDependencies({y});
    graph.Op("Sum", {y, graph.Const(0)}, {{"keep_dims", true}});
  }
  graph.Gradients({y}, {x});
  const Function twice = Define(graph, "twice",
                                [](Graph& body, const std::vector<Output>& v) {
                                  return body.Op("AddV2", {v[0], v[0]});
                                },
                                {{DType::kFloat}});
  graph.Call(twice, {y});
  const Result<std::string> bytes = graph.Export();
  if (!bytes.ok()) std::cerr << bytes.status() << "\n";
  if (bytes.ok()) std::cout << *bytes;
  return bytes.ok() ? 0 : 1;
}
