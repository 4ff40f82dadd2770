// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/train/graph.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "sdk/app/cli/describe.h"
#include "sdk/app/cli/flags.h"
#include "sdk/app/cli/json.h"
#include "sdk/app/cli/line/printable.h"
#include "sdk/app/cli/line/slips.h"
#include "sdk/app/cli/line/values.h"
#include "sdk/app/cli/line/wrong_flag.h"
#include "sdk/app/cli/model_flags.h"
#include "sdk/app/cli/run/feeds.h"
#include "sdk/app/cli/train/graph_step.h"
#include "sdk/app/cli/train/job_flags.h"
#include "sdk/app/cli/train/job_progress.h"
#include "tenon/data/file.h"
#include "tenon/data/number_text.h"
#include "tenon/model/load.h"
#include "tenon/model/write_values.h"
#include "tenon/train/graph_training.h"
#include "tenon/train/recovery.h"

namespace tenon::cli {
namespace {

using data::NodeView;
using host::Code;
using host::Result;
using host::Runtime;
using host::Session;
using host::Status;
using host::Tensor;
using train::GraphTraining;
using train::Trainer;
using train::TrainingReport;

struct GraphArguments {
  ModelFlags model;
  JobFlags job;
  StepWords step;
  std::vector<std::string> data, feeds, init, only;
  int64_t batch = 0, steps = 0, passes = 0, summary_steps = 10;  // 0: not given
  std::optional<uint64_t> shuffle;
  std::optional<float> learning_rate;
  bool optimizer_given = false;
  std::string export_folder, recover = "60s";
  bool allow_files = false;
  RuntimeFlags runtime;
  SessionFlags session;
};

constexpr int64_t kUsualBatch = 32, kUsualSteps = 1000;
constexpr float kUsualRate = 0.001f;

// "keras" of "models/keras/", "graph" of "graph.pb".
std::string StemOf(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  path = path.substr(path.rfind('/') + 1);
  const size_t dot = path.rfind('.');
  if (path.find_first_not_of('.') == std::string::npos) return "model";
  return dot == std::string::npos || dot == 0 ? path : path.substr(0, dot);
}

class GraphJob {
 public:
  explicit GraphJob(const GraphArguments& arguments)
      : arguments_(arguments), job_(arguments.job), quiet_(arguments.job.json) {
    if (job_.folder.empty()) job_.folder = "trained_" + StemOf(arguments.model.graph);
  }

  Status Run() {
    CheckFlags();
    TENON_TRY_ASSIGN(runtime_, arguments_.runtime.Create());  // whose plugins may bring the file systems of the paths
    TENON_TRY_ASSIGN(data::ReadLimit limit, arguments_.session.Files());
    TENON_TRY_ASSIGN(model_, arguments_.model.Open(limit.left()));
    TENON_TRY(ChooseSignature());
    TENON_TRY_ASSIGN(names_, TensorNames::Of(*model_, signature_));
    TENON_TRY_ASSIGN(step_,
                     ChooseStep(arguments_.step, *model_, signature_, !arguments_.model.signature.empty(), *names_));
    for (const std::string& node : arguments_.init) names_->CheckNode("--init", node);
    TENON_TRY(ReadInputs(limit));
    TENON_TRY(CheckInputs());
    TENON_TRY(Build().Annotate("graph '" + arguments_.model.graph + "'"));
    TENON_TRY(Train());
    TENON_TRY(Export());
    return Tell();
  }

 private:
  // ---- What the words say ----

  void CheckFlags() const {
    const bool data = !arguments_.data.empty();
    if (!data && arguments_.shuffle)
      WrongFlag("--shuffle",
                "it mixes the rows of --data, and there are none; an input of the graph is mixed by the graph");
    if (!data && arguments_.batch > 0)
      WrongFlag("--batch",
                "it says how many rows of --data a step gets, and there are none; an input of the graph is batched by "
                "the graph");
    const bool minimizes = !arguments_.step.minimize.empty();
    if (!minimizes && arguments_.optimizer_given)
      WrongFlag("--optimizer",
                "it says how --minimize TENSOR is done; without it the graph's own training step is run");
    if (!minimizes && !arguments_.only.empty())
      WrongFlag("--variables",
                "it says what --minimize TENSOR changes; without it the graph's own training step is run");
    if (!minimizes && arguments_.learning_rate)
      WrongFlag("--learning-rate",
                "it is for --minimize TENSOR; without it the graph's own training step is run, with its own");
  }

  Status ChooseSignature() {
    const bool has_train = model_->meta().FindSignature(kTrainSignature) != nullptr;
    if (arguments_.model.signature.empty() && has_train) signature_ = model_->meta().FindSignature(kTrainSignature);
    else {
      TENON_TRY_ASSIGN(signature_, arguments_.model.Choose(*model_));
    }
    return Status();
  }

  // ---- Its input ----

  bool IsInput(const std::string& tensor) const {
    return signature_ != nullptr &&
           std::any_of(signature_->inputs.begin(), signature_->inputs.end(), [&](const model::TensorInfo& input) {
             return ShortTensor(input.tensor) == ShortTensor(tensor);
           });
  }
  Status ReadInputs(data::ReadLimit& limit) {
    TENON_TRY_ASSIGN(const std::vector<Feed> data, ReadArrays("--data", arguments_.data, *names_, limit));
    TENON_TRY_ASSIGN(const std::vector<Feed> fixed, ReadFeeds(arguments_.feeds, *names_, limit));
    std::set<std::string, std::less<>> seen;
    for (const auto* feeds : {&data, &fixed}) {
      for (const Feed& feed : *feeds) {
        if (!seen.insert(std::string(ShortTensor(feed.tensor))).second)
          WrongFlag(feeds == &data ? "--data" : "--feed", Quoted(feed.name) + " is given twice");
        if (!IsInput(feed.tensor)) options_.chosen_feeds.push_back(feed.tensor);
      }
    }
    for (const Feed& feed : fixed) options_.fixed.push_back({feed.tensor, {Named(feed), feed.value}});
    options_.batch = arguments_.batch > 0 ? arguments_.batch : kUsualBatch;
    std::string fixed_by;  // the input whose shape fixes the batch
    for (const Feed& feed : data) {
      const host::Shape shape = names_->ShapeOf(feed.name, feed.tensor);
      if (shape.has_rank() && shape.rank() == 0)
        WrongFlag("--data", Quoted(feed.name) + " is a single value in each step; give it whole with --feed " +
                                feed.name + "=FILE");
      TENON_TRY(names_->CheckRows(feed.name, feed.tensor, feed.value, feed.file));
      if (shape.rank() > 0 && shape[0] >= 0) TENON_TRY(FixBatch(feed, shape[0], &fixed_by));
      options_.data.push_back({feed.tensor, {Named(feed), feed.value}});
    }
    options_.last = fixed_by.empty() ? train::LastBatch::kSmaller : train::LastBatch::kDropped;
    options_.shuffle = arguments_.shuffle;
    return Status();
  }
  static std::string Named(const Feed& feed) { return "'" + feed.name + "' of '" + feed.file + "'"; }
  Status FixBatch(const Feed& feed, int64_t size, std::string* fixed_by) {
    const bool other = !fixed_by->empty() && options_.batch != size;
    if (other || size == 0)
      return Status(Code::kInvalidArgument,
                    "graph '" + arguments_.model.graph + "': '" + feed.name + "' takes " + std::to_string(size) +
                        " rows" + (other ? ", '" + *fixed_by + "' " + std::to_string(options_.batch) : "") +
                        "; what does not take as many rows in each step is given whole, with --feed");
    if (arguments_.batch > 0 && arguments_.batch != size)
      WrongFlag("--batch", Quoted(feed.name) + " takes batches of " + std::to_string(size) +
                               " and no others: " + names_->TypeOf(feed.name, feed.tensor));
    options_.batch = size;
    *fixed_by = feed.name;
    return Status();
  }

  std::vector<std::string> Fed() const {
    std::vector<std::string> fed;
    for (const auto* feeds : {&options_.data, &options_.fixed})
      for (const train::TrainingFeed& feed : *feeds) fed.push_back(feed.tensor);
    return fed;
  }
  std::vector<const NodeView*> UnfedPlaceholders(const std::vector<std::string>& targets) const {
    std::vector<const NodeView*> unfed;
    const auto reached = names_->index().Reach(Fed(), targets);
    for (size_t i = 0; reached.ok() && i < reached->size(); ++i)
      if ((*reached)[i]->op == "Placeholder") unfed.push_back((*reached)[i]);
    std::sort(unfed.begin(), unfed.end(), [](const NodeView* a, const NodeView* b) { return a->name < b->name; });
    return unfed;
  }

  // All that a step needs is given, or has a default.
  Status CheckInputs() {
    std::vector<std::string> targets = step_.targets;
    targets.push_back(step_.loss);
    if (!step_.collected_summaries) targets.insert(targets.end(), step_.summaries.begin(), step_.summaries.end());
    for (const NodeView* placeholder : UnfedPlaceholders(targets)) {
      std::string name(placeholder->name), tensor = name;
      const model::TensorInfo* input = nullptr;
      for (size_t i = 0; signature_ != nullptr && i < signature_->inputs.size(); ++i)
        if (data::NodeOfInput(signature_->inputs[i].tensor) == placeholder->name) input = &signature_->inputs[i];
      if (input != nullptr && !input->default_value.empty()) {
        TENON_TRY_ASSIGN(Tensor value, model::DefaultOf(*runtime_, *signature_, *input));
        options_.fixed.push_back({input->tensor, {"the default of '" + input->key + "'", std::move(value)}});
        continue;
      }
      if (input != nullptr) name = input->key;
      const std::string all = signature_ != nullptr && input != nullptr && signature_->inputs.size() > 1
                                  ? "; its inputs: " + InfosText(signature_->inputs)
                                  : "";
      WrongFlag("--data", "graph '" + arguments_.model.graph + "': a step needs '" + name + "', " +
                              names_->TypeOf(name, tensor) + "; give --data " + name +
                              "=FILE.npy (of which each step gets rows) or --feed " + name +
                              "=FILE.npy (which it gets whole)" + all);
    }
    // Of summaries that nobody asked for those that can be made.
    if (step_.collected_summaries)
      std::erase_if(step_.summaries, [this](const std::string& summary) {
        return !names_->index().Reach({}, {summary}).ok() || !UnfedPlaceholders({summary}).empty();
      });
    return Status();
  }

  // ---- The training ----

  Status Build() {
    options_.targets = step_.targets;
    options_.loss = step_.loss;
    options_.loss_name = step_.loss_name;
    options_.metrics = step_.metrics;
    options_.summaries = step_.summaries;
    options_.minimize = !arguments_.step.minimize.empty();
    TENON_TRY_ASSIGN(options_.optimizer.kind, train::OptimizerKindFromName(job_.optimizer));
    options_.learning_rate = arguments_.learning_rate.value_or(kUsualRate);
    options_.init = arguments_.init;
    options_.only = arguments_.only;
    options_.passes = std::max<int64_t>(arguments_.passes, 1);
    options_.files = arguments_.allow_files ? model::FileAccess::kAny : model::FileAccess::kNone;
    options_.stop = &stop_requested;
    TENON_TRY_ASSIGN(training_, GraphTraining::Create(*runtime_, *model_, options_));
    TENON_TRY(ChooseSteps());
    train::TrainingOptions training = job_.Options(steps_);
    training.event_steps = 1;
    training.summary_steps = arguments_.summary_steps;
    TENON_TRY_ASSIGN(training.step_timeout, arguments_.session.Deadline());
    trainer_ = training_->MakeTrainer(std::move(training));
    return training_->model().graph().status();
  }
  Status ChooseSteps() {
    const bool data = training_->examples() > 0;
    if (arguments_.passes > 0 && !data && !training_->has_own_input())
      WrongFlag("--passes", "neither --data nor the graph brings an input that could end; say how many --steps");
    steps_ = arguments_.steps > 0 ? arguments_.steps : train::kEndless;
    if (data && (arguments_.passes > 0 || arguments_.steps == 0)) {
      const int64_t passes = std::max<int64_t>(arguments_.passes, 1), each = training_->StepsInPass();
      if (passes > train::kEndless / each) WrongFlag("--passes", "so many steps cannot be counted");
      steps_ = std::min(steps_, passes * each);
    } else if (arguments_.steps == 0 && arguments_.passes == 0) {
      steps_ = kUsualSteps;
    }
    return Status();
  }

  Status Train() {
    Say(Beginning());
    std::vector<std::string> metric_names;
    for (const auto& [name, tensor] : step_.metrics) metric_names.push_back(Printable(name));
    JobProgress progress(quiet_, metric_names);
    progress.Watch(*trainer_);
    training_->on_message = trainer_->on_message;
    trainer_->on_step = [this, show = trainer_->on_step](const train::StepReport& report) {
      if (!first_loss_) first_loss_ = report.loss;
      last_ = report;
      if (show) show(report);
    };
    StopAfterThisStep();
    const Status trained = TrainInSessions(progress);
    const Status input = training_->StopInput();
    progress.bar().Finish();
    TENON_TRY((input.ok() ? trained : input).Annotate("graph '" + arguments_.model.graph + "'"));
    if (report_.last_step == 0 && report_.input_ended)
      return Status(Code::kInvalidArgument, "graph '" + arguments_.model.graph +
                                                "': its input ended before the first step, so nothing was trained");
    return StoppedEarly(report_, steps_);
  }
  // On a cluster as many as it takes to go on after losses, each from the last checkpoint.
  Status TrainInSessions(JobProgress& progress) {
    TENON_TRY_ASSIGN(host::SessionOptions options, arguments_.session.Options());
    const auto run = [&] { return TrainInSession(options); };
    if (options.master.empty()) {
      TENON_TRY_ASSIGN(report_, run());
      return Status();
    }
    options.owner = OwnerOf("train", job_.Options(steps_).checkpoint_folder);
    TENON_TRY_ASSIGN(const std::chrono::nanoseconds patience, ParseTime(arguments_.recover));
    TENON_TRY_ASSIGN(
        report_,
        train::RunThroughLosses({patience, arguments_.recover, run, [this] { return trainer_->step(); },
                                 [&progress](const std::string& message) { progress.Say(message); }, &stop_requested}));
    return Status();
  }
  Result<TrainingReport> TrainInSession(const host::SessionOptions& options) {
    (void)training_->StopInput().ok();  // of the session before, whose end has been told
    TENON_TRY_ASSIGN(Session session, Session::Create(*runtime_, options));
    trainer_->Leave();
    session_.emplace(std::move(session));
    TENON_TRY(
        training_->Load(*session_, options.master.empty() ? model::Values::kReadBySession : model::Values::kSent));
    TENON_TRY(trainer_->Begin(*session_));
    if (trainer_->step() >= steps_) Say(CompleteText(trainer_->step(), steps_));
    return trainer_->Run();
  }

  std::string Beginning() const {
    const auto count = static_cast<int64_t>(training_->variables().size());
    std::string text = fmt::format("Training '{}' {}: {} variables of {} numbers", Printable(arguments_.model.graph),
                                   Printable(step_.what), count, data::FormatCount(training_->parameter_count()));
    if (const int64_t examples = training_->examples(); examples > 0) {
      const int64_t each = training_->StepsInPass(), left = examples - each * options_.batch;
      text += fmt::format("; {} examples, {} steps a pass", data::FormatCount(examples), data::FormatCount(each));
      if (left > 0)
        text += fmt::format(", which leaves {} of them out, as '{}' takes whole batches of {}", left,
                            Printable(options_.data[0].tensor), options_.batch);
    }
    if (training_->has_own_input()) text += "; with input of its own";
    return text + ".";
  }

  Status Export() {
    if (arguments_.export_folder.empty()) return Status();
    std::vector<std::string> variables;
    for (const model::PartVariable& variable : training_->variables()) variables.push_back(variable.name);
    TENON_TRY_ASSIGN(written_,
                     model::WriteWithValues(*runtime_, *session_, *model_, variables, arguments_.export_folder));
    for (const std::string& note : written_->notes) Say("note: " + Printable(note));
    return Status();
  }

  Status Tell() const {
    if (job_.json) {
      PrintJson(ReportJson());
      return Status();
    }
    if (report_.last_step > report_.first_step) {
      const bool counted = report_.examples_per_second > 0;
      const double rate =
          counted ? report_.examples_per_second
                  : static_cast<double>(report_.last_step - report_.first_step) / std::max(report_.seconds, 1e-9);
      fmt::print("Trained {} steps in {:.1f} s ({} {}/s). The loss is {:.4f}; it was {:.4f} in the first of them.\n",
                 report_.last_step - report_.first_step, report_.seconds, data::FormatCount(static_cast<int64_t>(rate)),
                 counted ? "examples" : "steps", last_.loss, *first_loss_);
    }
    if (report_.input_ended) fmt::print("The input ended after step {}.\n", report_.last_step);
    if (written_)
      fmt::print("The trained model is {0}: `tenon inspect {0}`; {1} tensors have new values.\n", written_->path,
                 written_->variables);
    if (!report_.checkpoint.empty())
      fmt::print("The last checkpoint is {}; `tensorboard --logdir {}` shows the losses.\n", report_.checkpoint,
                 job_.EventFolder());
    return Status();
  }
  Json ReportJson() const {
    Json json = {{"first_step", report_.first_step},
                 {"last_step", report_.last_step},
                 {"seconds", report_.seconds},
                 {"examples_per_second", report_.examples_per_second},
                 {"checkpoint", report_.checkpoint},
                 {"input_ended", report_.input_ended},
                 {"loss", first_loss_ ? Json(last_.loss) : Json()}};
    Json metrics = Json::object();
    for (size_t i = 0; i < step_.metrics.size() && i < last_.metrics.size(); ++i)
      metrics[Printable(step_.metrics[i].first)] = last_.metrics[i];
    json["metrics"] = metrics;
    json["events"] = job_.EventFolder();
    if (written_) json["export"] = written_->path;
    return json;
  }

  void Say(const std::string& line) const {
    if (!quiet_) fmt::print("{}\n", line);
    std::fflush(stdout);
  }

  const GraphArguments& arguments_;
  JobFlags job_;
  const bool quiet_;
  std::optional<Runtime> runtime_;
  std::optional<model::ModelFile> model_;
  const model::Signature* signature_ = nullptr;
  std::optional<TensorNames> names_;
  GraphStep step_;
  train::GraphTrainingOptions options_;
  int64_t steps_ = 0;
  std::optional<Session> session_;
  std::unique_ptr<GraphTraining> training_;  // its input uses the session
  std::unique_ptr<Trainer> trainer_;         // holds a callable of the session
  TrainingReport report_;
  std::optional<float> first_loss_;
  train::StepReport last_;
  std::optional<model::WrittenValues> written_;
};

// A word that is neither a job nor a file was meant as one of the jobs.
void RefuseUnknownJob(const CLI::App& train, const std::string& graph) {
  const bool path = graph.find('/') != std::string::npos || graph.find('.') != std::string::npos ||
                    data::FileExists(graph) || data::ListFolder(graph).ok();
  if (!path) throw CLI::ValidationError(Join(NoCommand(train, graph), "and there is no graph or model of that name"));
}

// What is given to `train` itself would be lost on a job.
void RefuseWordsBefore(const CLI::App& train) {
  const std::string job = train.get_subcommands().front()->get_name();
  for (const CLI::Option* option : train.get_options())
    if (option->count() > 0)
      WrongFlag(option->get_name(),
                "it stands before the job '" + job +
                    "', which does not get it; what is said to a job stands behind it, and a file of that name is ./" +
                    job);
}

}  // namespace

void AddGraphTraining(CLI::App& train, Action& action) {
  auto arguments = std::make_shared<GraphArguments>();
  arguments->model.AddTo(train);
  train.get_option("GRAPH")->required(false);
  train.get_option("--signature")
      ->description("The signature that trains; names may be its inputs and outputs (default: train)");
  train
      .add_option("--target", arguments->step.targets,
                  "Run this node in each step: the graph's train op; may be repeated (default: what the collection "
                  "train_op names)")
      ->type_name("NODE")
      ->allow_extra_args(false);
  train
      .add_option("--loss", arguments->step.loss,
                  "The tensor, or the signature's output, that is the loss (default: the output `loss`, or the only "
                  "floating number)")
      ->type_name("NAME");
  train
      .add_option(
          "--minimize", arguments->step.minimize,
          "Minimise this tensor over the graph's trainable variables, where the graph has no training step of its own")
      ->type_name("TENSOR");
  arguments->job.AddOptimizerTo(train);
  train.add_option("--learning-rate", arguments->learning_rate, fmt::format("Of --minimize (default: {})", kUsualRate))
      ->type_name("X");
  train
      .add_option("--variables", arguments->only,
                  "Of --minimize: change those variables alone whose names begin so (default: the collection "
                  "trainable_variables, or all float variables that the loss reaches)")
      ->delimiter(',')
      ->type_name("NAMES");
  train
      .add_option("--data", arguments->data,
                  "Feed a tensor with rows of an array: NAME=FILE.npy, NAME=FILE.npz or FILE.npz; may be repeated")
      ->type_name("NAME=FILE")
      ->allow_extra_args(false);
  train.add_option("--feed", arguments->feeds, "Feed a tensor with a whole array in each step; may be repeated")
      ->type_name("NAME=FILE")
      ->allow_extra_args(false);
  train
      .add_option("--batch", arguments->batch,
                  fmt::format("Rows of --data in a step (default: what the graph's shapes say, or {})", kUsualBatch))
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30));
  train
      .add_option(
          "--shuffle", arguments->shuffle,
          "Take the rows in an order of their own in each pass, which depends on this number and the pass alone")
      ->type_name("SEED");
  train
      .add_option("--steps", arguments->steps,
                  fmt::format("Train up to this step (default: one pass over --data; without, {})", kUsualSteps))
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  train
      .add_option("--passes", arguments->passes,
                  "So many times over --data, or over the graph's own input, and no further")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  train
      .add_option("--init", arguments->init,
                  "Run a node once first; may be repeated. What none of them initialises is by its own initialiser")
      ->type_name("NODE")
      ->allow_extra_args(false);
  train
      .add_option("--summary", arguments->step.summaries,
                  "Record this tensor of serialized summaries in the event files; may be repeated (default: what the "
                  "collection summary_op names)")
      ->type_name("TENSOR")
      ->allow_extra_args(false);
  train.add_option("--summary-steps", arguments->summary_steps, "These each N steps; the loss is recorded in each")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  train
      .add_option("--export", arguments->export_folder,
                  "Write the model with its trained variables: a SavedModel as one, a graph as FOLDER/model.meta with "
                  "a checkpoint")
      ->type_name("FOLDER");
  train.add_option("--recover", arguments->recover, "On a cluster: how long to try to go on after a task is lost")
      ->type_name("TIME")
      ->capture_default_str()
      ->check(CheckTime);
  train.add_flag("--allow-files", arguments->allow_files,
                 "Of a SavedModel: its graph may read and write files that it names itself");
  arguments->job.AddFoldersTo(train);
  train.get_option("--folder")->description("Where everything is kept (default: trained_NAME, of the graph's name)");
  arguments->job.AddKeepingTo(train);
  arguments->runtime.AddTo(train);
  arguments->session.AddTo(train);
  train.footer(
      "GRAPH may have a training step of its own: a SavedModel's signature `train`, a MetaGraph's collection train_op, "
      "or the node that --target names. Its input is fed from files by --data, or is made "
      "by the graph: by datasets and their iterators, and by queues, whose runners are started. The end of it ends the "
      "training well. Killed, the same command goes on from the last checkpoint, with "
      "the very rows that come next: the checkpoint has the state of the graph's iterators; queues, and datasets whose "
      "state cannot be kept, are run forward, which it says. A file that is called as a job is GRAPH as ./digits.\n\n"
      "Examples:\n"
      "  tenon train digits                                                    a job that is built in\n"
      "  tenon train model --data images=x.npy --data labels=y.npy --batch 64 --shuffle 1 --passes 5 --export trained\n"
      "  tenon train graph.meta --loss loss --steps 10000                      its train op, its own input\n"
      "  tenon train graph.pb --target Adam --loss loss:0 --data train.npz     arrays by the names of placeholders\n"
      "  tenon train graph.pb --minimize loss --optimizer adam --learning-rate 0.001 --data train.npz");
  train.callback([arguments, &train, &action] {
    if (!train.get_subcommands().empty()) return RefuseWordsBefore(train);
    if (arguments->model.graph.empty()) throw CLI::RequiredError::Subcommand(1);
    RefuseUnknownJob(train, arguments->model.graph);
    arguments->optimizer_given = train.count("--optimizer") > 0;
    action = [arguments] { return GraphJob(*arguments).Run(); };
  });
}

}  // namespace tenon::cli
