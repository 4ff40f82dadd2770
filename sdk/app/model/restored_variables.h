// SPDX-License-Identifier: Apache-2.0
// Which variable a model's saver restores from which tensor of a checkpoint, read from the graph: nothing of it is run.
//
// In TensorFlow 1's graphs the restore op waits for Assign nodes over outputs of RestoreV2; in TensorFlow 2's it is a
// call of a function that has these, and gets the variables' handles as arguments.
#ifndef TENON_SDK_MODEL_RESTORED_VARIABLES_H_
#define TENON_SDK_MODEL_RESTORED_VARIABLES_H_

#include <string>
#include <vector>

#include "tenon/model/base.h"
#include "tenon/model/graph_index.h"

namespace tenon::model {

struct RestoredVariable {
  std::string variable;    // a node of the graph
  std::string key, slice;  // in the checkpoint; slice: "" of the whole tensor
};

// restore_op: SaverNames::restore_op. What is restored into something else than a variable is left out.
std::vector<RestoredVariable> FindRestoredVariables(const GraphIndex& graph, const std::string& restore_op);

}  // namespace tenon::model

#endif  // TENON_SDK_MODEL_RESTORED_VARIABLES_H_
