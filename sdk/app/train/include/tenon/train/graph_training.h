// SPDX-License-Identifier: Apache-2.0
// GraphTraining: somebody else's graph, from a file, as the model and the step that Trainer trains.
//
//   TENON_TRY_ASSIGN(auto training, GraphTraining::Create(runtime, file, options));
//   std::unique_ptr<Trainer> trainer = training->MakeTrainer(trainer_options);
//   TENON_TRY(training->Load(session));      // first values: of the model's own checkpoint, or by its initialisers
//   TENON_TRY(trainer->Begin(session));      // those of the newest checkpoint of this training, where there is one
//   trainer->Run();
//   TENON_TRY(training->StopInput());
//
// A step either runs what the graph itself has for it (a train op, the outputs of a signature that trains), or
// minimises a loss of the graph: gradients and updates are then added beside its nodes. Input is fed from arrays, or
// made by the graph: by iterators over datasets and by queues, whose runners are started. What is added stands below a
// scope that the graph has no node in, so nothing of the graph changes its meaning. Checkpoints hold the variables that
// a step reaches, and the optimizer's and the step's number, and the state of the iterators that it reads: a resume
// goes on behind the example that was read last. Where there is no such state (queues; iterators within functions;
// functions of datasets that draw random numbers by a seed, or change variables; a pass that cannot be kept, as over a
// dataset that holds datasets; a checkpoint without it) the input is run forward to where the checkpoint was taken,
// which takes as long as reading it.
#ifndef TENON_TRAIN_GRAPH_TRAINING_H_
#define TENON_TRAIN_GRAPH_TRAINING_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tenon/model/graph_index.h"
#include "tenon/model/graph_part.h"
#include "tenon/model/load.h"
#include "tenon/model/model_file.h"
#include "tenon/train/base.h"
#include "tenon/train/batches.h"
#include "tenon/train/coordinator.h"
#include "tenon/train/model.h"
#include "tenon/train/optimizer.h"
#include "tenon/train/trainer.h"

namespace tenon::train {

// An array for a tensor of the graph, by rows or as a whole.
struct TrainingFeed {
  std::string tensor;
  NamedRows array;
};

// Names are the graph's: of nodes "node", of tensors "node" or "node:1".
struct GraphTrainingOptions {
  std::vector<std::string> targets;  // what trains, run in each step
  std::string loss;                  // a tensor of one number
  std::string loss_name;             // for messages; "": the tensor's
  std::vector<std::pair<std::string, std::string>> metrics;  // name, tensor of one number
  std::vector<std::string> summaries;                        // tensors of serialized Summaries

  bool minimize = false;  // the loss, by the optimizer; besides the targets
  OptimizerOptions optimizer;
  float learning_rate = 0.001f;
  // beginnings of names: of the variables that are changed; none: the collection trainable_variables, or else all float
  // variables that the loss reaches
  std::vector<std::string> only;

  std::vector<TrainingFeed> data;  // of which each step gets rows
  std::vector<TrainingFeed> fixed;  // which each step gets whole
  std::vector<std::string> chosen_feeds;  // of these tensors those whose values may be paths (model::CheckRun)
  int64_t batch = 32;
  std::optional<uint64_t> shuffle;  // the seed of the rows' order; none: as they stand
  LastBatch last = LastBatch::kSmaller;

  std::vector<std::string> init;  // nodes that are run once, in their order; variables and iterators that none of them
                                  // begins are begun by their own initialisers
  int64_t passes = 1;             // over an input of the graph itself, where it has an end
  model::FileAccess files = model::FileAccess::kNone;  // of a SavedModel
  const std::atomic<bool>* stop = nullptr;             // becomes true: running the input forward ends, with CANCELLED
};

class GraphTraining {
 public:
  // Errors name what is there. NOT_FOUND: a node or tensor. INVALID_ARGUMENT: no variable is changed by a step; a loss
  // of another type; an iterator that nothing begins. The runtime outlives it; of the file a copy is kept.
  static Result<std::unique_ptr<GraphTraining>> Create(const Runtime& runtime, const model::ModelFile& file,
                                                       GraphTrainingOptions options);
  GraphTraining(const GraphTraining&) = delete;
  GraphTraining& operator=(const GraphTraining&) = delete;
  ~GraphTraining() { (void)StopInput(); }

  // What is worth a line while it works (the input that was run forward, what a resume cannot restore).
  std::function<void(const std::string&)> on_message;

  Model& model() { return model_; }
  // Called once. This outlives the trainer.
  std::unique_ptr<Trainer> MakeTrainer(TrainingOptions options);
  // Puts what is needed of the graph into the session and gives what a step needs its first values. Each session once,
  // which outlives the input (StopInput). values: who reads the model's checkpoint; kSent where the session's tasks may
  // not see it (tenon/model/load.h).
  Status Load(Session& session, model::Values values = model::Values::kReadBySession);
  // Ends the queue runners; their first failure. Again: ok.
  Status StopInput();

  // The graph's own variables that a step reaches.
  const std::vector<model::PartVariable>& variables() const { return variables_; }
  int64_t parameter_count() const;                  // of those of known shape
  bool has_own_input() const { return own_input_; }  // iterators or queues
  // Of `data`; 0 without it.
  int64_t examples() const { return batches_ ? batches_->examples() : 0; }
  int64_t StepsInPass() const { return batches_ ? batches_->StepsInPass() : 0; }

 private:
  GraphTraining(const Runtime& runtime, const model::ModelFile& file, model::GraphIndex index,
                GraphTrainingOptions options)
      : runtime_(runtime),
        file_(file),
        index_(std::move(index)),
        options_(std::move(options)),
        graph_(runtime),
        model_(graph_) {}

  Status Build();
  Status Reach();
  Status CheckThatItTrains() const;
  bool DrawsNumbers(const data::NodeView& node) const;
  Status ChooseScope();
  Status FindInput();
  Status FindInitialisers();
  Status FindIterator(const data::NodeView& iterator);
  const data::NodeView* InitialiserOf(const data::NodeView& variable) const;
  std::vector<std::string> NeededNodes() const;
  std::vector<model::QueueRunner> Runners() const;
  // collected: the variables of the collection trainable_variables; none: there is no such.
  bool IsTrainable(const model::PartVariable& variable,
                   const std::optional<std::unordered_set<std::string_view>>& collected) const;
  Status Adopt();
  Status CheckTrainable() const;
  Status AddUpdate();
  Status CheckFiles() const;
  std::vector<std::string> StepTargets() const;
  std::vector<std::string> FedTensors() const;
  Result<Output> Find(const std::string& tensor) const;
  Result<std::string> StateOfFunctions() const;
  Status AddInputState();
  InputState StateOfInput();
  Status RestoreInput(const Session& session, const std::string& checkpoint);
  TrainingStep Step();
  Result<std::vector<View>> Feed(int64_t step);
  Status BeginInput(const Session& session, int64_t step);
  Status RunForward(const Session& session, int64_t step);
  Result<bool> BeginAgain(const Session& session);
  Status RunOnce(const Session& session, const std::vector<std::string>& nodes, const char* what) const;
  void Say(const std::string& message) const {
    if (on_message) on_message(message);
  }

  const Runtime& runtime_;
  const model::ModelFile file_;
  const model::GraphIndex index_;
  const GraphTrainingOptions options_;
  Graph graph_;
  Model model_;
  std::string scope_;
  std::vector<const data::NodeView*> reached_;      // by a step, in the graph itself
  std::vector<model::PartVariable> variables_;
  std::optional<ArrayBatches> batches_;
  Operation update_;

  bool own_input_ = false, input_in_functions_ = false, uses_queues_ = false;
  std::vector<std::string> advance_;                // nodes that take one element each
  std::vector<std::string> variable_initialisers_, table_initialisers_, iterator_initialisers_;
  std::vector<std::string> unrepeatable_;           // what a resume does not restore, one sentence each
  std::vector<std::string> unseeded_;               // the same, where the input is run forward
  std::vector<SavedValue> input_values_;            // of the iterators' states and the passes; none: they are not kept
  Output passes_value_, state_prefix_;              // fed
  Output restored_passes_;
  std::string function_state_;                      // the node for whose sake the input is run forward; "": none
  std::string restore_input_;                       // the node that gives iterators their states
  bool input_restored_ = false, said_left_out_ = false, one_shot_ = false;
  int64_t passes_done_ = 0;
  std::optional<Coordinator> runners_;
};

}  // namespace tenon::train

#endif  // TENON_TRAIN_GRAPH_TRAINING_H_
