// SPDX-License-Identifier: Apache-2.0
// Coverage: which ops a model needs, and who has them.
//
// What is needed is what some nodes reach, with the bodies of the functions that they call; a function counts once,
// however often it is called. A whole graph can be asked about as well.
#ifndef TENON_MODEL_COVERAGE_H_
#define TENON_MODEL_COVERAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tenon/model/base.h"
#include "tenon/model/graph_index.h"
#include "tenon/model/model_file.h"

namespace tenon::model {

struct OpUse {
  std::string op;
  int64_t nodes = 0;
  std::string package;  // that has it; "": nobody here
  std::string why;      // of a missing one: what is known about it
  struct Place {
    std::string node;
    std::string function;  // "": the graph itself
  };
  std::vector<Place> places;  // of a missing one: where it stands, the first few
};

// Sorted by op. Calls of the graph's own functions are no ops.
std::vector<OpUse> FindCoverage(const Runtime& runtime, const GraphIndex& graph,
                                const std::vector<const data::NodeView*>& nodes);

// What a caller of a model reaches: the outputs of one signature, or (nullptr) of all, and what loading runs. A graph
// without signatures: every node.
Result<std::vector<const data::NodeView*>> ReachOfModel(const ModelFile& file, const GraphIndex& graph,
                                                        const Signature* signature);

// The same without what loading runs: what the signatures' outputs are made of.
Result<std::vector<const data::NodeView*>> ReachOfCall(const ModelFile& file, const GraphIndex& graph,
                                                       const Signature* signature);
// Some nodes and the nodes of every function that they call, directly or not, each once.
std::vector<const data::NodeView*> WithFunctions(const GraphIndex& graph,
                                                 const std::vector<const data::NodeView*>& nodes);

}  // namespace tenon::model

#endif  // TENON_MODEL_COVERAGE_H_
