// SPDX-License-Identifier: Apache-2.0
// WriteSavedModel: a graph with the values that a session's variables have, as a folder that TensorFlow loads.
//
// What is written is what the signatures reach: their nodes, the functions that these call, the variables that they
// read, a saver for these, and their values as a tensor bundle. tf.saved_model.load, tf.compat.v1.saved_model.load and
// Model::Load read it; TensorFlow finds resource variables as such, those of floating numbers as trainable. Devices are
// left away, as they name this machine's. The variables' files are written first and saved_model.pb last, durably, so a
// folder that has it is whole.
#ifndef TENON_MODEL_WRITE_SAVED_MODEL_H_
#define TENON_MODEL_WRITE_SAVED_MODEL_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/model/base.h"
#include "tenon/model/meta_graph.h"

namespace tenon::model {

struct SignatureSpec {
  std::string name = std::string(kDefaultSignature);
  std::vector<std::pair<std::string, std::string>> inputs;   // key, tensor of the graph: "x", "node:1"
  std::vector<std::pair<std::string, std::string>> outputs;
  std::string method = "tensorflow/serving/predict";
};

struct WriteOptions {
  std::vector<SignatureSpec> signatures;  // one at least
  std::vector<std::string> tags = {"serve"};
  bool replace = false;  // a model that the folder has; while it is replaced the folder has none
};

// The session has the graph's nodes; nodes that read variables ("<variable>/value_to_save") are added to it.
// ALREADY_EXISTS: the folder has a model. UNIMPLEMENTED: a function creates variables of its own.
Status WriteSavedModel(const Runtime& runtime, Session& session, std::string_view graph_def, const std::string& folder,
                       const WriteOptions& options);

}  // namespace tenon::model

#endif  // TENON_MODEL_WRITE_SAVED_MODEL_H_
