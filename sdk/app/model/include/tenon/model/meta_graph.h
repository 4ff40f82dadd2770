// SPDX-License-Identifier: Apache-2.0
// MetaGraph: what surrounds a graph in a file: signatures, how to restore its variables, assets, what to run first.
//
// Read from a serialized MetaGraphDef, of which views point into the bytes. Nothing in it is trusted: damage is an
// error, and what is not known is passed over.
#ifndef TENON_MODEL_META_GRAPH_H_
#define TENON_MODEL_META_GRAPH_H_

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/model/base.h"
#include "tenon/model/queue_runner.h"

namespace tenon::model {

// One input or output of a signature.
struct TensorInfo {
  enum class Kind { kDense, kSparse, kComposite };
  std::string key;     // its name in the signature
  std::string tensor;  // in the graph, "node:0"; dense ones have it alone
  DType dtype = DType::kInvalid;
  Shape shape;
  Kind kind = Kind::kDense;
  // In the graph: of a sparse one the values, the indices and the dense shape; of a composite one all its components.
  std::vector<std::string> parts;
  // of a caller who gives none: a serialized TensorProto; empty: there is none (DefaultOf)
  std::string_view default_value;
};

// Whether a value of that shape may be given where one of this is wanted: its rank, and every size that is known.
bool Fits(const Shape& wanted, const Shape& found);

// A function of the graph that the model's author named.
struct Signature {
  std::string name;
  std::string method;  // "tensorflow/serving/predict"
  std::vector<TensorInfo> inputs, outputs;  // sorted by key

  const TensorInfo* FindInput(std::string_view key) const;
  const TensorInfo* FindOutput(std::string_view key) const;
};

// A file in the model's `assets` folder, and the tensor that must be fed with its path.
struct Asset {
  std::string tensor;
  std::string file;  // as the file says it: not checked
};

// Nodes that read and write the variables; empty names: there is no saver.
struct SaverNames {
  std::string filename_tensor, save_tensor, restore_op;
};

// A variable that a collection names.
struct CollectedVariable {
  std::string variable;     // the node that is it, or its handle
  std::string initializer;  // the node that gives it its first value; "": none is named
};

struct MetaGraph {
  std::string_view bytes;  // all of it; empty where the file is a GraphDef
  std::vector<std::string> tags;
  std::string tensorflow_version;
  std::string_view graph_def;
  SaverNames saver;
  std::vector<Signature> signatures;  // those a caller may run, sorted by name
  std::vector<Asset> assets;
  std::string main_op;                // a node to run when the model has been restored; "": none
  std::vector<QueueRunner> queue_runners;  // what fills the queues that steps take from; nobody runs them unasked
  // those that list nodes and tensors by name: "train_op", "summary_op", ...
  std::map<std::string, std::vector<std::string>, std::less<>> collections;
  // "variables", "local_variables", "trainable_variables", "model_variables"
  std::map<std::string, std::vector<CollectedVariable>, std::less<>> variables;
  std::string train_op;               // a node that trains one step; "": none is named, or more than one

  const Signature* FindSignature(std::string_view name) const;
};

// The signature that is run where none is named.
inline constexpr std::string_view kDefaultSignature = "serving_default";

Result<MetaGraph> ParseMetaGraph(std::string_view bytes);

}  // namespace tenon::model

#endif  // TENON_MODEL_META_GRAPH_H_
