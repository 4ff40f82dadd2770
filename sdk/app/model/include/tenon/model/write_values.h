// SPDX-License-Identifier: Apache-2.0
// WriteWithValues: a model as its file has it, with the values that a session's variables have now.
//
// A SavedModel stays one: the same saved_model.pb and assets, and a checkpoint with the same tensors, in which those
// that are variables have new values. A MetaGraph becomes FOLDER/model.meta with the checkpoint FOLDER/model beside it,
// and so does a GraphDef; where it has no saver, one is added. What others restore from there (TensorFlow too) is found
// as before. Nothing of the model is run: what its saver restores into which variable is read from the graph, and a
// saver of ours writes.
#ifndef TENON_MODEL_WRITE_VALUES_H_
#define TENON_MODEL_WRITE_VALUES_H_

#include <string>
#include <vector>

#include "tenon/model/base.h"
#include "tenon/model/model_file.h"

namespace tenon::model {

struct WrittenValues {
  std::string path;                // what can be opened: the folder, or the .meta file in it
  int64_t variables = 0;           // whose values were written
  std::vector<std::string> notes;  // what stayed as it was, one sentence each
};

// variables: names of nodes; those of a graph that has no saver, which are saved then. The session has the graph's
// nodes. A model that the folder has is replaced; while that goes on the folder has none. INVALID_ARGUMENT: the folder
// is the model's own.
Result<WrittenValues> WriteWithValues(const Runtime& runtime, Session& session, const ModelFile& file,
                                      const std::vector<std::string>& variables, const std::string& folder);

}  // namespace tenon::model

#endif  // TENON_MODEL_WRITE_VALUES_H_
