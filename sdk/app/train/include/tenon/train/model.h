// SPDX-License-Identifier: Apache-2.0
// A model: the variables of a graph, and a few layers that make them.
//
// Variable() makes a variable at its first call and gives the same one later, so that the same layers, built twice,
// make two towers over one set of weights (one for training, one for use). Everything is nodes of the graph; the model
// only remembers what they are called. Failures stick to the graph.
#ifndef TENON_TRAIN_MODEL_H_
#define TENON_TRAIN_MODEL_H_

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/train/base.h"

namespace tenon::train {

// How a variable begins.
struct Initializer {
  enum class Kind { kConstant, kTruncatedNormal };
  static Initializer Constant(float value) { return {Kind::kConstant, value}; }
  // A normal distribution of this standard deviation, cut at two of them.
  static Initializer TruncatedNormal(float deviation) { return {Kind::kTruncatedNormal, deviation}; }
  // For layers followed by relu: deviation sqrt(2 / inputs of a unit) (He et al. 2015).
  static Initializer He(int64_t fan_in);

  Kind kind = Kind::kConstant;
  float value = 0;
};

// Of a variable that is rows of a table which stands in several.
struct TablePart {
  std::string table;  // "": the variable is no part
  int64_t shards = 0;
  // Of shards whose rows stand in their order: all of the table's rows, and the first that is here. 0 rows: they stand
  // by turns.
  int64_t rows = 0, first = 0;
  bool was_alone = false;  // checkpoints were once written where such a part stands under its own name
};

struct Variable {
  std::string name;
  DType dtype = DType::kFloat;
  Shape shape;
  bool trainable = false;
  Output handle;      // of VarHandleOp
  Output value;       // a read of it
  Operation initial;  // gives it its first value
  std::string device; // that was asked for; "": none
  bool rows = false;  // it is looked up and changed by rows (Embedding)
  bool adopted = false;    // a graph's own: `initial` is not valid, and nodes that are not the model's read it
  bool reference = false;  // an adopted one that is a reference (VariableV2): handle and value are its one output
  TablePart part = {};
};

class Model {
 public:
  // seed: of the random initial values.
  explicit Model(Graph& graph, uint64_t seed = 1) : graph_(graph), seed_(seed) {}
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  Graph& graph() { return graph_; }
  // Variables made from now on stand on these devices by turns ("/job:ps/task:0", ...); none: wherever they are put.
  void set_variable_devices(std::vector<std::string> devices) { variable_devices_ = std::move(devices); }

  // What the model makes from now on is called "scope/...", in the session and in checkpoints: beside a graph whose own
  // names are anything. The caller has opened a scope of that name in the graph. "": no such scope.
  void set_scope(std::string scope) { scope_ = std::move(scope); }

  // A variable that the graph has already, by its node (VarHandleOp, VariableV2): its owner gives it its first value.
  // shape may be unknown.
  const Variable& Adopt(const Operation& node, DType dtype, const Shape& shape, bool trainable,
                        std::string_view device);

  // References stay valid as long as the model. device, here and below: where it stands; "": as other variables do.
  const Variable& Weight(std::string_view name, const Shape& shape, const Initializer& initializer,
                         std::string_view device = "");
  // A variable that training does not change by itself: slots, counters.
  const Variable& State(std::string_view name, const Shape& shape, float initial, std::string_view device = "");
  // A weight [rows, ...] of which training changes the rows alone that a step gathered at its handle.
  const Variable& Rows(std::string_view name, const Shape& shape, const Initializer& initializer,
                       std::string_view device = "");
  const Variable& Counter(std::string_view name);  // a scalar int64 that begins at 0

  // The variable is such a part, and so are its optimizer's, which are called after it. Parts whose rows stand in their
  // order are one tensor in checkpoints, which is called as the table is, so that other shards can be restored from it.
  void SetPart(const Variable& variable, TablePart part);

  // Without the mirrors.
  const std::deque<Variable>& variables() const { return variables_; }
  // Of a replica, in one order for all.
  std::vector<const Variable*> trainable(int64_t replica = 0) const;
  int64_t parameter_count() const;
  // Trainable variables that the loss which was minimised last (Minimize, ApplyGradients, Lbfgs) gives no gradient, so
  // that training leaves them as they are; trainers warn of them.
  const std::vector<std::string>& unreached() const { return unreached_; }
  void set_unreached(std::vector<std::string> names) { unreached_ = std::move(names); }
  // A node that gives all variables made so far their first values.
  Operation InitializeAll();

  // ---- Mirrors: copies of the variables for replicas that each have their own ----

  // What is asked for from now on is replica `replica`'s, and stands on its device: of replica 0 the model's own
  // variables, of the others mirrors "replica_<number>/<name>", which checkpoints do not hold. A mirror is made after
  // the variable of its name.
  void BeginReplica(int64_t replica, std::string_view device);
  // The model's own again.
  void EndReplicas();
  // A node that gives all mirrors made so far the values of the model's own variables: for after InitializeAll() and
  // after restoring. Not valid where there is no mirror.
  Operation CopyToMirrors();

  // Layers. x of Dense: [batch, inputs]; of Conv2D and MaxPool: [batch, height, width, channels].
  Output Dense(std::string_view name, Output x, int64_t inputs, int64_t units, const Initializer& initializer);
  // size x size, stride 1, padded so that height and width stay.
  Output Conv2D(std::string_view name, Output x, int64_t size, int64_t inputs, int64_t filters,
                const Initializer& initializer);
  Output MaxPool(Output x, int64_t size);
  Output Relu(Output x) { return graph_.Op("Relu", {x}); }

 private:
  const Variable* Find(std::string_view name) const;
  std::string Scoped(std::string_view name) const {
    return scope_.empty() || name.starts_with(scope_ + "/") ? std::string(name) : scope_ + "/" + std::string(name);
  }
  const Variable& Make(std::string_view name, DType dtype, const Shape& shape, bool trainable, Output initial,
                       std::string_view device = "");
  const Variable& Mirror(std::string_view name, const Shape& shape);
  Output InitialValue(const Shape& shape, const Initializer& initializer);

  Graph& graph_;
  uint64_t seed_;
  std::string scope_;
  int64_t random_count_ = 0;
  std::vector<std::string> variable_devices_;
  std::deque<Variable> variables_;
  std::vector<std::string> unreached_;
  struct MirrorOf {
    Variable variable;
    const Variable* original;
    int64_t replica;
  };
  std::deque<MirrorOf> mirrors_;
  int64_t replica_ = 0;
  std::string replica_device_;
};

// Nodes that make one node wait for others: "when this ran, those ran".
Operation Group(Graph& graph, const std::vector<Operation>& operations, std::string_view name);

// The mean over the batch of the cross entropy between logits [batch, classes] and labels [batch] (integers).
Output SparseSoftmaxLoss(Graph& graph, Output logits, Output labels);
// The share of rows whose largest logit is at the label.
Output Accuracy(Graph& graph, Output logits, Output labels);

}  // namespace tenon::train

#endif  // TENON_TRAIN_MODEL_H_
