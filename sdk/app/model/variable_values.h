// SPDX-License-Identifier: Apache-2.0
// The values of a session's variables, and tensor bundles of them: what is written for others to restore.
#ifndef TENON_SDK_MODEL_VARIABLE_VALUES_H_
#define TENON_SDK_MODEL_VARIABLE_VALUES_H_

#include <string>
#include <string_view>
#include <vector>

#include "tenon/model/base.h"
#include "tenon/model/graph_part.h"
#include "tenon/model/meta_graph.h"

namespace tenon::model {

// The values that the session's variables have now, in their order. graph_def: has their nodes. Nodes of ours read them
// ("<variable>/value_to_save"): the graph's own may wait for what changes them.
Result<std::vector<Tensor>> ReadValues(const Runtime& runtime, Session& session, std::string_view graph_def,
                                       const std::vector<PartVariable>& variables);

// One tensor of a bundle; slice: "" of a whole one, else as SaveV2 has it.
struct BundleEntry {
  std::string name, slice;
  Tensor value;
};
Status WriteBundle(const Runtime& runtime, const std::vector<BundleEntry>& entries, const std::string& prefix);

// What was added to a graph for its variables: the saver, and a description of each for those who train on.
struct AddedSaver {
  SaverNames names;
  std::vector<std::string> variables;            // serialized VariableDefs, of resource variables
  std::vector<std::string> trainable_variables;  // of those of floating numbers
};
// Nodes that save and restore the variables, which the graph has; below `scope`. Failures stick to the graph.
AddedSaver AddSaver(host::Graph& graph, const std::vector<PartVariable>& variables, std::string_view scope);
// A serialized SaverDef.
std::string SaverDefBytes(const SaverNames& names);

}  // namespace tenon::model

#endif  // TENON_SDK_MODEL_VARIABLE_VALUES_H_
