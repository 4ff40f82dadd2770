// SPDX-License-Identifier: Apache-2.0
// Trainer: runs a training step again and again, with checkpoints, event files and a guard against numbers that are
// none.
//
// On a cluster, give its sessions an owner (SessionOptions::owner), or what a lost session sent may be done after the
// next one's restore. The step that a run begins with is that of the restored checkpoint. Feeds are a function of the
// step alone, so that a run that was killed and resumed does exactly what an uninterrupted one does. Everything that
// happens besides steps (resumed, saved, passed over) is told to `on_message`; `on_step` sees each step's numbers.
#ifndef TENON_TRAIN_TRAINER_H_
#define TENON_TRAIN_TRAINER_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tenon/train/base.h"
#include "tenon/train/dataset.h"
#include "tenon/train/device_prefetcher.h"
#include "tenon/train/event_file.h"
#include "tenon/train/model.h"
#include "tenon/train/saver.h"

namespace tenon::train {

// Where the input in the graph stands, as values of it that checkpoints keep beside the variables.
struct InputState {
  std::vector<SavedValue> values;
  std::function<std::vector<host::Feed>()> feeds;  // what they need; empty: nothing
  std::function<void(const std::string& why)> left_out;  // told where a checkpoint is written without them
  // Called before TrainingStep::begin where a run goes on from a checkpoint.
  std::function<Status(const Session&, const std::string& checkpoint)> restore;
};

// What one step is.
struct TrainingStep {
  Output loss;            // one number
  std::string loss_name;  // for messages; "": its node's
  std::vector<std::pair<std::string, Output>> metrics;  // of one number each, shown and recorded beside the loss
  std::vector<Output> summaries;                        // serialized Summaries, for the event file, each summary_steps
  Operation update;
  // Called in each session once the variables have their values, before the first step, where there is one left: input
  // in the graph goes on from there. Empty: nothing is done.
  std::function<Status(const Session&, int64_t step)> begin;
  // Asked where a step ends with OUT_OF_RANGE: whether the input has begun again (true), or training ends here, well
  // (false). Empty: OUT_OF_RANGE is a failure like others.
  std::function<Result<bool>(const Session&)> ended;
  // What the graph's own input gives a step (DatasetIterator::next): with TrainingOptions::prefetch_device the next
  // steps' is copied there while a step runs. Empty: each step takes its input itself.
  std::vector<Output> input;
  InputState input_state;
  std::vector<Output> feeds;
  // The feeds' values at a step, in their order. What a View borrows must live until the next call.
  std::function<Result<std::vector<View>>(int64_t step)> feed;
  int64_t examples = 0;  // in a step

  // The step takes the next element of this iterator: sets begin, ended and input so. A run begins a pass behind the
  // elements that earlier steps had, which are run over once more, and ends where the pass does.
  void Reads(const DatasetIterator& iterator);
};

inline constexpr int64_t kEndless = INT64_MAX;

struct TrainingOptions {
  int64_t steps = 1000;           // the step to end at; kEndless: where the input ends
  std::string checkpoint_folder;  // empty: no checkpoints
  int64_t checkpoint_steps = 0;   // 0: not by steps
  double checkpoint_seconds = 0;  // 0: not by time
  int keep = 5;                   // this and what follows: SaverOptions
  double keep_every_hours = 0;
  int keep_best = 0;
  std::string best_metric;        // of TrainingStep::metrics, by which the best are known; empty: the loss
  bool higher_is_better = false;
  bool resume = true;      // false: the folder's checkpoints are removed
  std::string warm_start;  // the prefix of a checkpoint to begin from where there is none of this folder to resume
  std::vector<SavedVariable> warm_variables;  // what is taken from there, and its names there; none: all but the step
  std::string event_folder;  // empty: no event files
  int64_t event_steps = 10;
  int64_t summary_steps = 10;  // of TrainingStep::summaries
  // on a cluster: how long to try to go on after a task is lost, in sessions of TrainThroughLosses (recovery.h); 0: a
  // loss is the end
  std::chrono::nanoseconds recover{0};
  std::chrono::nanoseconds step_timeout{0};  // then a step is DEADLINE_EXCEEDED; 0: none
  std::string prefetch_device;  // where TrainingStep::input is brought ahead; "": nowhere. In this process alone
  std::string* last_trace = nullptr;  // where the last step's trace goes, as Chrome's JSON
  const std::atomic<bool>* stop = nullptr;  // becomes true: save and end after the step
};

struct StepReport {
  int64_t step = 0;  // finished steps
  int64_t steps = 0;
  float loss = 0;
  std::vector<float> metrics;
  double examples_per_second = 0;  // lately; 0 where a step's examples are not known
  double steps_per_second = 0;
  double seconds_left = 0;
};

struct TrainingReport {
  int64_t first_step = 0;  // 0, or the restored checkpoint's
  int64_t last_step = 0;
  bool stopped = false;
  bool input_ended = false;  // before the last of the steps that were asked for
  double seconds = 0;
  double examples_per_second = 0;
  std::string checkpoint;  // the last one; empty when there is none
};

class Trainer {
 public:
  // Adds what it needs to the model's graph: the step counter and the nodes that save, restore and initialise. Make it
  // after everything else of the graph.
  Trainer(Model& model, TrainingStep step, TrainingOptions options);

  std::function<void(const StepReport&)> on_step;
  std::function<void(const std::string&)> on_message;

  // Puts the graph into the session, and gives the variables their values: of the newest checkpoint, or the first ones.
  // Again, with another session, after one was lost: then it goes on from the newest checkpoint of this run.
  Status Begin(Session& session);
  // Lets go of the session, which may end then.
  void Leave() {
    prefetcher_.reset();
    callable_.reset();
    with_summaries_.reset();
    session_ = nullptr;
  }
  // Trains up to options.steps. Begin comes first.
  Result<TrainingReport> Run();
  // The step's callable, for Callable::Explain.
  const host::Callable& callable() const { return *callable_; }
  int64_t step() const { return step_number_; }
  const TrainingOptions& options() const { return options_; }

 private:
  Status Train();
  Result<StepReport> OneStep();
  Status EndOrBeginAgain();
  std::string LossName() const { return step_.loss_name.empty() ? step_.loss.name() : step_.loss_name; }
  Status CheckFinite(const StepReport& report) const;
  Status SaveIfDue(const StepReport& report, bool last);
  SaverOptions OptionsOfSaver() const;
  SaverOptions OptionsOfWarmStart() const;
  void WarnOfUnreached() const;
  Status CheckBestMetric() const;
  std::optional<double> BestMetric(const StepReport& report) const;
  Status Record(const StepReport& report);
  void Say(const std::string& message) const {
    if (on_message) on_message(message);
  }

  Model& model_;
  TrainingStep step_;
  TrainingOptions options_;
  std::string init_;
  std::string step_variable_;
  std::string copy_to_mirrors_;  // empty: there are none
  std::string update_;
  std::optional<Saver> saver_, warm_;
  std::optional<EventWriter> events_;
  std::optional<host::Callable> callable_, with_summaries_;
  std::unique_ptr<DevicePrefetcher> prefetcher_;  // nullptr: steps take their input themselves
  std::vector<Tensor> summaries_;  // of the last step, where it was their turn
  int64_t began_again_ = -1;       // the step at which the input began anew
  Session* session_ = nullptr;
  bool begun_ = false;
  int64_t step_number_ = 0;
  float last_loss_ = 0;
  double last_save_ = 0;
  TrainingReport report_;
};

}  // namespace tenon::train

#endif  // TENON_TRAIN_TRAINER_H_
