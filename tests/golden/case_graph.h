// SPDX-License-Identifier: Apache-2.0
// A case of one op as a graph: a node, and its inputs as feeds, constants or variables around it. CASES.md says how a
// case is written.
//
// The graph's failures stick in it (host/graph.h): a case that cannot be built says so in graph.status().
#ifndef TENON_TESTS_GOLDEN_CASE_GRAPH_H_
#define TENON_TESTS_GOLDEN_CASE_GRAPH_H_

#include <vector>

#include "tests/golden/tensor_json.h"

namespace tenon::golden {

// How tensors reach the node.
enum class InputsAs {
  kWritten,    // as the case says
  kConstants,  // shapes and values are known when the step is planned
  kFeeds,      // shapes are
  kBlindFeeds  // nothing is
};

struct CaseGraph {
  explicit CaseGraph(const host::Runtime& runtime) : graph(runtime) {}

  host::Graph graph;
  host::Operation node;
  std::vector<host::Tensor> values;  // of the inputs; null: another node's output
  std::vector<host::Feed> feeds;
  std::vector<host::Name> initializers;  // assign the variables
  std::vector<host::Output> readers;     // of the variables, in their order
};

// A list of tensors; null ones hold nothing.
host::Result<std::vector<host::Tensor>> TensorsFrom(const Json& list);

// What is wrong with the text of the case, not with its graph, is the status.
host::Result<CaseGraph> MakeCaseGraph(const host::Runtime& runtime, const Json& one, InputsAs how = InputsAs::kWritten);

}  // namespace tenon::golden

#endif  // TENON_TESTS_GOLDEN_CASE_GRAPH_H_
