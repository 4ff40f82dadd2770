// SPDX-License-Identifier: Apache-2.0
// GraphPart: the part of a graph that some nodes need, as a GraphDef of its own, and the variables in it.
//
// Nodes and functions that nothing of it reaches are left away, so they may have ops that nobody here has.
#ifndef TENON_MODEL_GRAPH_PART_H_
#define TENON_MODEL_GRAPH_PART_H_

#include <string>
#include <vector>

#include "tenon/model/base.h"
#include "tenon/model/graph_index.h"

namespace tenon::model {

struct PartVariable {
  std::string name;  // of the node that is it, or its handle
  DType dtype = DType::kInvalid;
  Shape shape = Shape::Unknown();
  std::string device;         // that the node asks for; "": none
  bool is_reference = false;  // a reference (VariableV2), else a resource (VarHandleOp)
};

struct GraphPart {
  std::string graph_def;
  std::vector<PartVariable> variables;  // in the graph's order
};

enum class Devices { kKept, kDropped };

// targets: names of nodes or tensors. NOT_FOUND: there is no node of a name. UNIMPLEMENTED: a function creates
// variables of its own, which can be neither saved nor restored.
Result<GraphPart> CutGraph(const GraphIndex& graph, const std::vector<std::string>& targets, Devices devices);

}  // namespace tenon::model

#endif  // TENON_MODEL_GRAPH_PART_H_
