// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>

namespace tenon::train {
namespace {

constexpr const char* kStepVariable = "global_step";

// Whatever the type of the number; NAN where it is none.
template <typename T>
bool TakeNumber(const Tensor& value, float* number) {
  if (value.template data<T>().empty()) return false;
  *number = static_cast<float>(value.template data<T>()[0]);
  return true;
}
float NumberOf(const Tensor& value) {
  float number = NAN;
  (void)(TakeNumber<float>(value, &number) || TakeNumber<double>(value, &number) ||
         TakeNumber<int64_t>(value, &number) || TakeNumber<int32_t>(value, &number) ||
         TakeNumber<uint64_t>(value, &number) || TakeNumber<uint32_t>(value, &number) ||
         TakeNumber<int16_t>(value, &number) || TakeNumber<uint16_t>(value, &number) ||
         TakeNumber<int8_t>(value, &number) || TakeNumber<uint8_t>(value, &number) || TakeNumber<bool>(value, &number));
  return number;
}

double SecondsNow() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

void TrainingStep::Reads(const DatasetIterator& iterator) {
  input = iterator.next;
  begin = [begins = Name(iterator.begin), takes = Name(iterator.get_next)](const Session& session,
                                                                           int64_t step) -> Status {
    TENON_TRY(session.RunTargets({begins}));
    if (step == 0) return Status();
    TENON_TRY_ASSIGN(const host::Callable next, session.Prepare({}, {}, {takes}));
    for (int64_t n = 0; n < step; ++n)
      TENON_TRY(next.Run().status().Annotate("element " + std::to_string(n) + " of " + std::to_string(step) +
                                             " that earlier steps had"));
    return Status();
  };
  ended = [](const Session&) -> Result<bool> { return false; };
}

Trainer::Trainer(Model& model, TrainingStep step, TrainingOptions options)
    : model_(model), step_(std::move(step)), options_(std::move(options)) {
  Graph& graph = model.graph();
  const Variable& counter = model.Counter(kStepVariable);
  step_variable_ = counter.name;
  {
    auto after = graph.ControlDependencies({step_.update});
    step_.update = graph.AddNode("AssignAddVariableOp", {counter.handle, graph.Const(int64_t{1}, "one")},
                                 {{"dtype", DType::kInt64}}, "count_step");
  }
  update_ = step_.update.name();
  init_ = model.InitializeAll().name();
  if (const Operation copy = model.CopyToMirrors(); copy.valid()) copy_to_mirrors_ = copy.name();
  if (!options_.checkpoint_folder.empty()) saver_.emplace(model, options_.checkpoint_folder, OptionsOfSaver());
  if (SaverOptions warm = OptionsOfWarmStart(); !options_.warm_start.empty() && !warm.variables.empty()) {
    warm_.emplace(model, "", std::move(warm));
  }
}

// The other model's steps are not this run's.
SaverOptions Trainer::OptionsOfWarmStart() const {
  SaverOptions warm;
  warm.step_variable.clear();
  warm.variables = options_.warm_variables;
  if (warm.variables.empty()) {
    for (const Variable& variable : model_.variables()) warm.variables.push_back({variable.name, ""});
  }
  std::erase_if(warm.variables, [&](const SavedVariable& one) { return one.variable == step_variable_; });
  return warm;
}

SaverOptions Trainer::OptionsOfSaver() const {
  SaverOptions saver;
  saver.keep = options_.keep;
  saver.keep_every_hours = options_.keep_every_hours;
  saver.keep_best = options_.keep_best;
  saver.higher_is_better = options_.higher_is_better;
  saver.step_variable = step_variable_;
  saver.beside = step_.input_state.values;
  saver.beside_feeds = step_.input_state.feeds;
  saver.without_beside = step_.input_state.left_out;
  return saver;
}

Status Trainer::CheckBestMetric() const {
  std::string names;
  for (const auto& [name, output] : step_.metrics) {
    if (name == options_.best_metric) return Status();
    names += (names.empty() ? "" : ", ") + name;
  }
  if (options_.keep_best <= 0 || options_.best_metric.empty()) return Status();
  return Status(Code::kNotFound, "the best checkpoints are to be known by '" + options_.best_metric +
                                     "', which the step does not have; it has " +
                                     (names.empty() ? "the loss alone" : "the loss and " + names));
}

// What is known of the last step by the name that the options give.
std::optional<double> Trainer::BestMetric(const StepReport& report) const {
  if (options_.best_metric.empty()) return report.loss;
  for (size_t i = 0; i < step_.metrics.size(); ++i) {
    if (step_.metrics[i].first == options_.best_metric) return report.metrics[i];
  }
  return {};
}

void Trainer::WarnOfUnreached() const {
  if (model_.unreached().empty()) return;
  std::string names;
  for (const std::string& name : model_.unreached()) names += (names.empty() ? "'" : ", '") + name + "'";
  Say("warning: the loss '" + LossName() + "' gives no gradient to " + names + ": training leaves " +
      (model_.unreached().size() == 1 ? "it as it is" : "them as they are"));
}

Status Trainer::Begin(Session& session) {
  const bool again = std::exchange(begun_, true);
  Leave();
  TENON_TRY(CheckBestMetric());
  if (saver_) TENON_TRY(saver_->Claim());  // before anything is done that another run's end would make vain
  session_ = &session;
  TENON_TRY(session.Extend(model_.graph()));
  TENON_TRY(session.RunTargets({init_}));
  if (!again) WarnOfUnreached();
  if (saver_ && !options_.resume && !again) TENON_TRY(saver_->Clear());
  if (again) step_number_ = 0;
  bool resumed = false;
  if (saver_ && (options_.resume || again)) {
    TENON_TRY_ASSIGN(const Restored restored, saver_->RestoreNewest(session));
    for (const std::string& warning : restored.warnings) Say("warning: " + warning);
    resumed = !restored.prefix.empty();
    if (resumed) {
      step_number_ = restored.step;
      report_.checkpoint = restored.prefix;
      Say((restored.warnings.empty() ? "resumed from " : "resumed from the one before it, ") + restored.prefix);
    }
  }
  if (warm_ && !resumed) {
    TENON_TRY(warm_->RestoreFrom(session, options_.warm_start));
    Say("began with the variables of " + options_.warm_start);
  }
  if (!copy_to_mirrors_.empty()) TENON_TRY(session.RunTargets({copy_to_mirrors_}));
  if (resumed && step_.input_state.restore && step_number_ < options_.steps)
    TENON_TRY(step_.input_state.restore(session, report_.checkpoint).Annotate("the input's state"));
  if (step_.begin && step_number_ < options_.steps)
    TENON_TRY(step_.begin(session, step_number_).Annotate("the input's beginning"));
  std::vector<Name> feeds, fetches;
  for (const Output& feed : step_.feeds) feeds.emplace_back(feed);
  std::vector<std::string> feed_devices(feeds.size());  // in host memory
  if (!options_.prefetch_device.empty()) {
    if (step_.input.empty())
      return Status(Code::kInvalidArgument,
                    "input is to be brought to " + options_.prefetch_device +
                        " ahead (prefetch_device), and the step names none (TrainingStep::Reads)");
    TENON_TRY_ASSIGN(prefetcher_, DevicePrefetcher::Create(session, step_.input, options_.prefetch_device));
    for (const Output& value : step_.input) feeds.emplace_back(value);
    feed_devices.insert(feed_devices.end(), prefetcher_->devices().begin(), prefetcher_->devices().end());
  }
  fetches.emplace_back(step_.loss);
  for (const auto& [name, output] : step_.metrics) fetches.emplace_back(output);
  TENON_TRY_ASSIGN(callable_, session.Prepare(feeds, fetches, {update_}, feed_devices));
  if (!step_.summaries.empty() && !options_.event_folder.empty()) {
    for (const Output& summary : step_.summaries) fetches.emplace_back(summary);
    TENON_TRY_ASSIGN(with_summaries_, session.Prepare(feeds, fetches, {update_}, feed_devices));
  }
  began_again_ = -1;
  if (!again) report_.first_step = step_number_;
  return Status();
}

Result<TrainingReport> Trainer::Run() {
  if (session_ == nullptr) return Status(Code::kFailedPrecondition, "Trainer::Begin was not called");
  if (!options_.event_folder.empty() && step_number_ < options_.steps && !events_) {
    TENON_TRY_ASSIGN(events_, EventWriter::Create(options_.event_folder));
    TENON_TRY_ASSIGN(const std::string graph_def, model_.graph().Export());
    TENON_TRY(events_->AddGraph(graph_def));
    TENON_TRY(events_->AddStart(step_number_));
  }
  const double began = SecondsNow();
  last_save_ = began;
  Status trained = Train();
  report_.last_step = step_number_;
  report_.seconds = SecondsNow() - began;
  const int64_t done = report_.last_step - report_.first_step;
  if (report_.seconds > 0) {
    report_.examples_per_second = static_cast<double>(done * step_.examples) / report_.seconds;
  }
  if (events_) {
    Status flushed = events_->Flush();
    if (trained.ok()) trained = flushed;
  }
  TENON_TRY(trained);
  return report_;
}

Status Trainer::Train() {
  double window_began = SecondsNow();
  int64_t window_step = step_number_;
  double rate = 0;  // steps a second, over at least a tenth of a second
  std::optional<StepReport> last;
  while (step_number_ < options_.steps && !report_.stopped) {
    Result<StepReport> report = OneStep();
    if (report.status().code() == Code::kOutOfRange && step_.ended) {
      TENON_TRY(EndOrBeginAgain());
      if (!report_.input_ended) continue;
      return last ? SaveIfDue(*last, true) : Status();
    }
    if (!report.ok()) return report.status().Annotate("step " + std::to_string(step_number_ + 1));
    const double now = SecondsNow();
    if (now - window_began > 0.1 || rate == 0) {
      const double latest = static_cast<double>(step_number_ - window_step) / std::max(now - window_began, 1e-9);
      rate = rate == 0 ? latest : 0.7 * rate + 0.3 * latest;
      window_began = now;
      window_step = step_number_;
    }
    report->steps_per_second = rate;
    report->examples_per_second = rate * static_cast<double>(step_.examples);
    report->seconds_left = static_cast<double>(options_.steps - step_number_) / std::max(rate, 1e-9);
    TENON_TRY(CheckFinite(*report));
    TENON_TRY(Record(*report));
    if (on_step) on_step(*report);
    last = *report;
    report_.stopped = options_.stop != nullptr && options_.stop->load();
    TENON_TRY(SaveIfDue(*report, report_.stopped || step_number_ == options_.steps));
  }
  return Status();
}

// The input of a step has ended: for good, or it is at the beginning of its next pass.
Status Trainer::EndOrBeginAgain() {
  TENON_TRY_ASSIGN(const bool again, step_.ended(*session_));
  if (again && began_again_ == step_number_)
    return Status(Code::kInvalidArgument, "the input ended before it gave anything to a step");
  began_again_ = step_number_;
  report_.input_ended = !again;
  return Status();
}

Result<StepReport> Trainer::OneStep() {
  std::vector<View> feeds;
  if (step_.feed) {
    TENON_TRY_ASSIGN(feeds, step_.feed(step_number_));
  }
  if (prefetcher_ != nullptr) {
    TENON_TRY_ASSIGN(std::vector<Tensor> input, prefetcher_->Next(options_.step_timeout));
    feeds.insert(feeds.end(), std::make_move_iterator(input.begin()), std::make_move_iterator(input.end()));
  }
  host::RunOptions run;
  run.timeout = options_.step_timeout;
  if (step_number_ + 1 == options_.steps) run.trace = options_.last_trace;
  const bool summed_up = with_summaries_ && ((step_number_ + 1) % std::max<int64_t>(options_.summary_steps, 1) == 0 ||
                                             step_number_ + 1 == options_.steps);
  TENON_TRY_ASSIGN(std::vector<Tensor> values, (summed_up ? with_summaries_ : callable_)->Run(feeds, run));
  if (values[0].element_count() != 1)
    return Status(Code::kInvalidArgument, "the loss '" + LossName() + "' has the shape " +
                                              values[0].shape().ToString() + "; it must be one number");
  const size_t numbers = 1 + step_.metrics.size();
  summaries_.assign(std::make_move_iterator(values.begin() + static_cast<ptrdiff_t>(numbers)),
                    std::make_move_iterator(values.end()));
  values.resize(numbers);
  StepReport report;
  report.step = ++step_number_;
  report.steps = options_.steps;
  report.loss = NumberOf(values[0]);
  for (size_t i = 1; i < values.size(); ++i) report.metrics.push_back(NumberOf(values[i]));
  return report;
}

// A loss that is no number means that the weights are none either; nothing good follows, and no checkpoint is written.
Status Trainer::CheckFinite(const StepReport& report) const {
  if (std::isfinite(report.loss)) return Status();
  std::string text = "the loss '" + LossName() + "' is " + std::to_string(report.loss) + " at step " +
                     std::to_string(report.step);
  if (report.step > report_.first_step + 1) text += "; it was " + std::to_string(last_loss_) + " the step before";
  text += ". A smaller learning rate usually helps";
  text += report_.checkpoint.empty() ? "" : "; the last good checkpoint is " + report_.checkpoint;
  return Status(Code::kInvalidArgument, std::move(text));
}

Status Trainer::Record(const StepReport& report) {
  last_loss_ = report.loss;
  for (const Tensor& summary : summaries_) {
    for (int64_t i = 0; events_ && i < summary.element_count(); ++i)
      TENON_TRY(events_->AddSummary(report.step, summary.string(static_cast<uint64_t>(i))));
  }
  const bool due = report.step % std::max<int64_t>(options_.event_steps, 1) == 0 || report.step == options_.steps;
  if (!events_ || !due) return Status();
  std::vector<std::pair<std::string, float>> scalars = {{"loss", report.loss}};
  for (size_t i = 0; i < step_.metrics.size(); ++i) scalars.emplace_back(step_.metrics[i].first, report.metrics[i]);
  return events_->AddScalars(report.step, scalars);
}

Status Trainer::SaveIfDue(const StepReport& report, bool last) {
  if (!saver_) return Status();
  const bool by_steps = options_.checkpoint_steps > 0 && step_number_ % options_.checkpoint_steps == 0;
  const bool by_time = options_.checkpoint_seconds > 0 && SecondsNow() - last_save_ >= options_.checkpoint_seconds;
  if (!last && !by_steps && !by_time) return Status();
  // Before the checkpoint: killed between the two, a run that goes on from it would lack these steps for good. What the
  // files have beyond a checkpoint, the next run's start hides.
  if (events_) TENON_TRY(events_->Flush());
  TENON_TRY_ASSIGN(report_.checkpoint, saver_->Save(*session_, step_number_, BestMetric(report)));
  last_save_ = SecondsNow();
  if (!events_) return Status();
  TENON_TRY(events_->AddCheckpoint(step_number_, report_.checkpoint));
  return events_->Flush();
}

}  // namespace tenon::train
