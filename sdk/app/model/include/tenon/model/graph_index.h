// SPDX-License-Identifier: Apache-2.0
// GraphIndex: the nodes and functions of a GraphDef by name, and what some of its nodes need.
//
// Made from the bytes, without an engine: ops that nobody has are nodes like others. Views point into the bytes.
#ifndef TENON_MODEL_GRAPH_INDEX_H_
#define TENON_MODEL_GRAPH_INDEX_H_

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tenon/data/graph_def.h"
#include "tenon/model/base.h"

namespace tenon::model {

// "x" for "x:0": the two names of one tensor are one.
std::string_view ShortName(std::string_view tensor);

class GraphIndex {
 public:
  static Result<GraphIndex> Build(std::string_view graph_def);
  GraphIndex(GraphIndex&&) = default;
  GraphIndex& operator=(GraphIndex&&) = default;

  const data::GraphView& graph() const { return graph_; }
  const std::vector<data::FunctionView>& functions() const { return functions_; }
  const data::NodeView* FindNode(std::string_view name) const;
  const data::FunctionView* FindFunction(std::string_view name) const;

  // The nodes that run for these targets (names of nodes or tensors), where these tensors are fed: inputs are followed
  // up to what is fed. NOT_FOUND: there is no node of a name.
  Result<std::vector<const data::NodeView*>> Reach(const std::vector<std::string>& feeds,
                                                   const std::vector<std::string>& targets) const;

  // The functions that a node calls or names in attributes, its own op too; each once. Names that the library lacks are
  // left out.
  std::vector<const data::FunctionView*> FunctionsOf(const data::NodeView& node) const;

 private:
  GraphIndex() = default;
  data::GraphView graph_;
  std::vector<data::FunctionView> functions_;
  std::unordered_map<std::string_view, size_t> nodes_by_name_, functions_by_name_;
};

// The nodes of a function that run when it is called: what its results and control results read, and those that
// `has_effect` names.
std::vector<const data::NodeView*> ReachInFunction(const data::FunctionView& function,
                                                    const std::function<bool(const data::NodeView&)>& has_effect);

}  // namespace tenon::model

#endif  // TENON_MODEL_GRAPH_INDEX_H_
