// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/run/run.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "sdk/app/cli/command.h"
#include "sdk/app/cli/describe.h"
#include "sdk/app/cli/json.h"
#include "sdk/app/cli/line/wrong_flag.h"
#include "sdk/app/cli/run/accuracy.h"
#include "sdk/app/cli/run/calibrate.h"
#include "sdk/app/cli/run/feeds.h"
#include "sdk/app/cli/run/repeat.h"
#include "sdk/app/cli/run/results.h"
#include "sdk/app/cli/table.h"
#include "sdk/app/cli/tensor_names.h"
#include "sdk/app/cli/timeline/svg_timeline.h"
#include "tenon/data/file.h"
#include "tenon/model/load.h"
#include "tenon/train/queue_runner.h"

namespace tenon::cli {
namespace {

using host::Callable;
using host::Code;
using host::Name;
using host::Result;
using host::RunOptions;
using host::Runtime;
using host::Session;
using host::Status;
using host::Tensor;
using host::View;

class Runner {
 public:
  explicit Runner(const RunArguments& arguments) : arguments_(arguments), repeat_(arguments.repeat) {}

  Status Run() {
    begin_ = std::chrono::steady_clock::now();
    if (arguments_.accuracy) CheckAccuracy();
    if (arguments_.freeze && !arguments_.session.Given("master").empty())
      WrongFlag(
          "--freeze",
          "others may write to the variables of a cluster; it is for steps in this process, so leave --master out");
    TENON_TRY_ASSIGN(runtime_, arguments_.runtime.Create());  // whose plugins may bring the file systems of the paths
    TENON_TRY_ASSIGN(data::ReadLimit limit, arguments_.session.Files());
    TENON_TRY_ASSIGN(model_, arguments_.model.Open(limit.left()));
    TENON_TRY_ASSIGN(signature_, arguments_.model.Choose(*model_));
    TENON_TRY_ASSIGN(names_, TensorNames::Of(*model_, signature_));
    TENON_TRY(ChooseFetches());
    TENON_TRY_ASSIGN(feeds_, ReadFeeds(arguments_.feeds, *names_, limit));
    if (calibrates()) TENON_TRY(ReadCalibrationBatches(limit));
    else if (whole_signature_) CheckInputs(arguments_.model.graph, *signature_, feeds_);
    if (calibrates()) {
      Status status = RunCalibration();
      if (!status.ok()) return Explained(status);
      if (!HasAllFeeds()) return WriteCalibration();
    }
    TENON_TRY(OpenSession());
    Status status = RunSteps();
    if (!status.ok()) return Explained(status);
    if (arguments_.accuracy && !repeat_.interrupted()) {
      status = MeasureAccuracy();
      if (!status.ok()) return Explained(std::move(status).Annotate("--accuracy"));
    }
    return WriteResults();
  }

 private:
  // Where nothing is asked for, all that the signature gives.
  Status ChooseFetches() {
    whole_signature_ = arguments_.fetches.empty() && arguments_.targets.empty() && arguments_.init.empty();
    for (const std::string& target : arguments_.targets) names_->CheckNode("--target", target);
    for (const std::string& node : arguments_.init) names_->CheckNode("--init", node);
    if (whole_signature_ && signature_ == nullptr) RefuseNothing();
    TENON_TRY_ASSIGN(fetches_, whole_signature_ ? FetchesOf(*signature_) : ReadFetches(arguments_.fetches, *names_));
    return Status();
  }
  [[noreturn]] void RefuseNothing() const {
    const std::string choice = names_->Choice();
    const std::string& graph = arguments_.model.graph;
    if (!choice.empty())
      WrongFlag("--signature", "nothing to run: '" + graph +
                                   "' has several signatures, and none of them is serving_default; " + choice);
    WrongFlag("--fetch", "nothing to run: give --fetch NAME or --target NODE; `tenon inspect " + graph +
                             "` lists the graph's outputs");
  }

  // ---- --calibrate ----

  bool calibrates() const { return !arguments_.calibrate.empty(); }
  const std::string& calibration_file() const { return arguments_.session.Given("calibration"); }

  Status ReadCalibrationBatches(data::ReadLimit& limit) {
    const bool used = arguments_.session.Given("precision") == "int8";
    if (calibration_file().empty() && !used)
      WrongFlag(
          "--calibrate",
          "its ranges would be of no use: give --calibration FILE to keep them, or --precision int8 to run by them");
    if (!arguments_.session.Given("master").empty())
      WrongFlag("--calibrate",
                "it looks at every value, which is for steps in this process; leave --master out, and give "
                "--calibration FILE with --precision int8 and --master afterwards");
    if (arguments_.queue_runners)
      WrongFlag("--calibrate", "its batches are from files, and --queue-runners fills queues");
    if (whole_signature_) TENON_TRY(AddDefaults(*runtime_, *signature_, &feeds_));
    TENON_TRY_ASSIGN(batches_, ReadBatches(arguments_.calibrate, feeds_, *names_, limit));
    if (whole_signature_) CheckInputs(arguments_.model.graph, *signature_, batches_.front().feeds);
    return Status();
  }
  Status RunCalibration() {
    TENON_TRY_ASSIGN(host::SessionOptions options, arguments_.session.Options());
    TENON_TRY_ASSIGN(run_options_.timeout, arguments_.session.Deadline());
    std::vector<std::string> runs = arguments_.targets;
    runs.insert(runs.end(), arguments_.init.begin(), arguments_.init.end());
    for (const Fetch& fetch : fetches_) runs.push_back(fetch.tensor);
    if (!arguments_.allow_files) TENON_TRY(CheckFiles(*runtime_, *model_, signature_, batches_.front().feeds, runs));
    TENON_TRY_ASSIGN(calibrated_, Calibrate({*runtime_, *model_, std::move(options), run_options_, arguments_.init,
                                             arguments_.targets, fetches_},
                                            batches_));
    if (!calibration_file().empty())
      TENON_TRY(data::ReplaceFile(calibration_file(), {calibrated_->text}, data::Durability::kQuick)
                    .Annotate("--calibration"));
    return Status();
  }
  // Whether --feed says what the step itself is to be fed, and not only its batches.
  bool HasAllFeeds() const {
    return std::ranges::all_of(batches_.front().feeds, [&](const Feed& wanted) {
      return std::ranges::any_of(
          feeds_, [&](const Feed& given) { return ShortTensor(given.tensor) == ShortTensor(wanted.tensor); });
    });
  }
  Status WriteCalibration() const {
    if (arguments_.json)
      PrintJson({{"graph", arguments_.model.graph}, {"calibration", calibrated_->AsJson(calibration_file())}});
    else calibrated_->Print(calibration_file());
    return Status();
  }

  // ---- --accuracy ----

  void CheckAccuracy() const {
    const std::string& precision = arguments_.session.Given("precision");
    if (precision.empty() || precision == "strict")
      WrongFlag(
          "--accuracy",
          "it says how far a reduced precision is from float32: give --precision bfloat16, or another but strict");
    if (arguments_.fetches.empty() && !arguments_.targets.empty())
      WrongFlag("--accuracy", "there is nothing to compare: give --fetch NAME");
    if (!arguments_.session.Given("master").empty())
      WrongFlag("--accuracy",
                "it runs the steps a second time, with variables of their own, which is for steps in this process; "
                "leave --master out");
    if (arguments_.queue_runners)
      WrongFlag("--accuracy",
                "it runs the steps a second time, and --queue-runners takes what fills queues from elsewhere");
  }
  // Random ops without a seed draw the same in both.
  void SeedBoth(host::SessionOptions* options) const {
    if (arguments_.accuracy && arguments_.session.Given("seed").empty()) options->seed = 1;
  }
  // The same steps in float32, in a session of their own, and what became of the nodes of those that ran.
  Status MeasureAccuracy() {
    TENON_TRY_ASSIGN(host::SessionOptions options, arguments_.session.Options());
    SeedBoth(&options);
    options.precision = host::Precision::kStrict;
    options.calibration.clear();
    TENON_TRY_ASSIGN(const Prepared exact, PrepareStep({*runtime_, *model_, options, run_options_, arguments_.init,
                                                        arguments_.targets, fetches_},
                                                       options, {"", feeds_}));
    std::vector<View> feeds;
    for (const Feed& feed : feeds_) feeds.emplace_back(feed.value);
    std::vector<Tensor> values;
    for (uint64_t step = 0; step < arguments_.repeat; ++step) {
      TENON_TRY_ASSIGN(values, exact.callable.Run(feeds, run_options_));
    }
    for (size_t k = 0; k < values.size(); ++k)
      TENON_TRY(accuracy_.emplace_back(fetches_[k].name).Add(values[k], values_[k]));
    TENON_TRY_ASSIGN(const std::string explanation, callable_->Explain());
    for (const Json& node : Json::parse(explanation)) {
      if (!node.contains("note")) continue;
      const auto note =
          node["note"].get<std::string>();  // how those of a reduced precision begin: tenon/ext/draft/graph_pass.h
      const size_t colon = std::min(note.find(": "), note.size());
      if (note.starts_with("stays in float"))
        in_float32_.emplace_back(node["name"].get<std::string>(), colon < note.size() ? note.substr(colon + 2) : note);
      else if (note.starts_with("in ")) ++reduced_;
    }
    return Status();
  }
  void PrintAccuracyOf() const {
    const std::string& precision = arguments_.session.Given("precision");
    fmt::print("{}: {} nodes compute in it\n", precision, reduced_);
    if (!in_float32_.empty()) {
      Table table({"in float32 stays", "because"});
      for (const auto& [node, why] : in_float32_) table.Add({node, why});
      table.Print(2);
    }
    PrintAccuracy(fmt::format("how far {} is from float32{}:", precision,
                              arguments_.repeat > 1 ? fmt::format(" after {} steps", arguments_.repeat) : ""),
                  accuracy_);
  }

  // Where it fails, it is not for the graph.
  Status OpenSession() {
    TENON_TRY_ASSIGN(host::SessionOptions options, arguments_.session.Options());
    SeedBoth(&options);
    if (calibrates())
      options.calibration = options.precision == host::Precision::kInt8 ? calibrated_->text : std::string();
    else if (!options.calibration.empty())
      TENON_TRY(CheckCalibration(options.calibration, *model_).Annotate("--calibration '" + calibration_file() + "'"));
    options.record_costs = !arguments_.session.Given("costs").empty();
    TENON_TRY_ASSIGN(run_options_.timeout, arguments_.session.Deadline());
    TENON_TRY_ASSIGN(session_, Session::Create(*runtime_, options));
    return Status();
  }

  // Of what there is to do before the first step, reading the graph included: it has the time of a step, all together.
  // Steps that initialise have theirs.
  RunOptions Preparing() const {
    RunOptions preparing = run_options_;
    if (preparing.timeout.count() > 0)
      preparing.timeout = std::max<std::chrono::nanoseconds>(
          preparing.timeout - (std::chrono::steady_clock::now() - begin_), std::chrono::nanoseconds(1));
    return preparing;
  }

  Status ReadyInTime(const Status& status) const {
    if (status.code() != Code::kDeadlineExceeded) return status;
    return Status(status.code(),
                  fmt::format("the step was not ready to begin within its deadline of {} ms: {}",
                              std::chrono::duration_cast<std::chrono::milliseconds>(run_options_.timeout).count(),
                              status.message()));
  }

  Status RunSteps() {
    if (whole_signature_ && !calibrates()) TENON_TRY(AddDefaults(*runtime_, *signature_, &feeds_));
    const bool initialises =
        !model_->checkpoint().empty() || !model_->meta().main_op.empty() || !arguments_.init.empty();
    const model::Values values =
        arguments_.session.Given("master").empty() ? model::Values::kReadBySession : model::Values::kSent;
    TENON_TRY(ReadyInTime(
        model::LoadInto(*runtime_, *model_, *session_, {.run = initialises ? run_options_ : Preparing()}, values)));
    if (!arguments_.init.empty() && !arguments_.allow_files)
      TENON_TRY(CheckFiles(*runtime_, *model_, signature_, feeds_, arguments_.init));
    TENON_TRY(Initialize());
    if (arguments_.freeze) TENON_TRY(session_->Freeze());
    if (fetches_.empty() && arguments_.targets.empty()) return Status();
    std::vector<Name> feed_names, fetch_names, target_names(arguments_.targets.begin(), arguments_.targets.end());
    for (const Feed& feed : feeds_) feed_names.emplace_back(feed.tensor);
    for (const Fetch& fetch : fetches_) fetch_names.emplace_back(fetch.tensor);
    std::vector<std::string> runs = arguments_.targets;
    for (const Fetch& fetch : fetches_) runs.push_back(fetch.tensor);
    for (const model::QueueRunner& runner : Runners()) {
      runs.insert(runs.end(), runner.enqueue_ops.begin(), runner.enqueue_ops.end());
      for (const std::string& node : {runner.close_op, runner.cancel_op})
        if (!node.empty()) runs.push_back(node);
    }
    if (!arguments_.allow_files) TENON_TRY(CheckFiles(*runtime_, *model_, signature_, feeds_, runs));
    Result<Callable> prepared =
        session_->Prepare(feed_names, fetch_names, target_names, {}, {}, initialises ? run_options_ : Preparing());
    TENON_TRY(ReadyInTime(prepared.status()));
    callable_ = *std::move(prepared);
    TENON_TRY(RepeatBesideRunners());
    if (!arguments_.session.Given("costs").empty()) {
      TENON_TRY_ASSIGN(const std::string costs, session_->Costs());
      TENON_TRY(data::ReplaceFile(arguments_.session.Given("costs"), {costs}, data::Durability::kQuick));
    }
    if (arguments_.explain) {
      TENON_TRY_ASSIGN(explanation_, callable_->Explain());
    }
    return Status();
  }

  // Each node once, in order, with the feeds that the steps get: a graph's restore node reads its file's name from one.
  Status Initialize() {
    std::vector<host::Feed> feeds;
    for (const Feed& feed : feeds_) feeds.push_back({feed.tensor, View(feed.value)});
    for (const std::string& node : arguments_.init) {
      Status done = session_->Run(feeds, {}, {node}, run_options_).status();
      if (!done.ok()) return done.Annotate("--init '" + node + "'");
    }
    return Status();
  }

  std::vector<model::QueueRunner> Runners() const {
    return arguments_.queue_runners ? model_->meta().queue_runners : std::vector<model::QueueRunner>();
  }
  // Where a step found no more input since a runner failed, that is the reason.
  Status RepeatBesideRunners() {
    if (!arguments_.queue_runners) return RepeatSteps();
    if (Runners().empty())
      WrongFlag("--queue-runners",
                "graph '" + arguments_.model.graph +
                    "' names no queue runners; a MetaGraph (.meta) or SavedModel of TensorFlow 1 may");
    train::Coordinator coordinator;
    TENON_TRY(train::StartQueueRunners(*session_, Runners(), &coordinator));
    const Status steps = RepeatSteps();
    const Status runners = coordinator.Stop();
    return runners.ok() ? steps : runners;
  }

  Status RepeatSteps() {
    std::vector<View> feeds;
    for (const Feed& feed : feeds_) feeds.emplace_back(feed.value);
    const bool traced =
        !arguments_.trace.empty() || !arguments_.svg.empty() || !arguments_.session.Given("costs").empty();
    return repeat_.Run([&](bool is_last) -> Status {
      RunOptions options = run_options_;
      if (traced && is_last) options.trace = &trace_;
      TENON_TRY_ASSIGN(values_, callable_->Run(feeds, options));
      return Status();
    });
  }

  // The engine names nodes and ops; the file is ours to name. A feed that the engine refuses is named with its file
  // too.
  Status Explained(const Status& status) const {
    std::string text = "graph '" + arguments_.model.graph + "'";
    for (const Feed& feed : feeds_) {
      const std::string name(ShortTensor(feed.tensor));
      const bool named = status.message().find("'" + name + "'") != std::string::npos ||
                         status.message().find("'" + name + ":0'") != std::string::npos;
      if (!named) continue;
      text += ", feed '" + feed.name + "'" + names_->OpOf(feed.tensor) + " from '" + feed.file + "'";
      break;
    }
    return Status(status.code(), text + ": " + status.message() + WhatIsGone(status));
  }
  // A SavedModel that was copied without its values.
  std::string WhatIsGone(const Status& status) const {
    const bool wants_values = !model_->meta().saver.restore_op.empty() && model_->checkpoint().empty();
    if (status.code() != Code::kFailedPrecondition || model_->form() != model::Form::kSavedModel || !wants_values ||
        status.message().ends_with("copy the whole folder again"))
      return "";
    return "; the values of the model's variables are gone: there is no '" +
           data::JoinPath(model_->folder(), "variables/variables.index") + "'; copy the whole folder again";
  }

  Status WriteResults() {
    if (repeat_.interrupted() && callable_) return TellInterrupted();
    TENON_TRY(WriteFiles(fetches_, values_, *names_).Annotate("graph '" + arguments_.model.graph + "'"));
    TENON_TRY(WriteTrace());
    if (arguments_.json) {
      PrintJson(ResultsJson());
      return Status();
    }
    if (calibrated_) calibrated_->Print(calibration_file());
    PrintValues(fetches_, values_);
    if (arguments_.accuracy) PrintAccuracyOf();
    if (arguments_.explain) fmt::print("{}\n", explanation_);
    if (arguments_.time && repeat_.done() > 0) fmt::print("{}\n", repeat_.Text());
    return Status();
  }
  Status WriteTrace() const {
    if (!arguments_.trace.empty())
      TENON_TRY(data::ReplaceFile(arguments_.trace, {trace_}, data::Durability::kQuick).Annotate("--trace"));
    if (arguments_.svg.empty()) return Status();
    TENON_TRY_ASSIGN(const Timeline timeline, MeasuredTimeline(trace_));
    return data::ReplaceFile(arguments_.svg, {DrawTimeline(timeline)}, data::Durability::kQuick).Annotate("--svg");
  }
  // What was measured so far; files are those of whole runs.
  Status TellInterrupted() const {
    if (arguments_.json)
      PrintJson({{"graph", arguments_.model.graph}, {"step", StepJson()}});
    else
      fmt::print("{}\n", repeat_.Text());
    return Status(Code::kCancelled, fmt::format("graph '{}': interrupted after step {} of {}", arguments_.model.graph,
                                                repeat_.done(), repeat_.steps()));
  }

  Json StepJson() const {
    const auto [least, median] = repeat_.LeastAndMedian();
    return {{"min_us", least}, {"median_us", median}, {"steps", repeat_.done()}};
  }
  Json ResultsJson() const {
    Json json;
    json["graph"] = arguments_.model.graph;
    if (signature_ != nullptr) json["signature"] = signature_->name;
    if (calibrated_) json["calibration"] = calibrated_->AsJson(calibration_file());
    json["fetches"] = ValuesJson(fetches_, values_);
    if (arguments_.accuracy) {
      json["accuracy"] = AccuracyJson(accuracy_);
      json["reduced"] = reduced_;
      json["in_float32"] = Json::array();
      for (const auto& [node, why] : in_float32_) json["in_float32"].push_back({{"node", node}, {"reason", why}});
    }
    if (arguments_.explain) json["explain"] = Json::parse(explanation_, nullptr, false);
    if (arguments_.time && repeat_.done() > 0) json["step"] = StepJson();
    return json;
  }

  const RunArguments& arguments_;
  std::vector<Feed> feeds_;
  std::vector<Batch> batches_;  // of --calibrate
  std::optional<Calibrated> calibrated_;
  std::vector<Fetch> fetches_;
  std::optional<model::ModelFile> model_;
  const model::Signature* signature_ = nullptr;
  std::optional<TensorNames> names_;
  bool whole_signature_ = false;
  std::optional<Runtime> runtime_;
  std::optional<Session> session_;
  std::optional<Callable> callable_;
  RunOptions run_options_;
  std::chrono::steady_clock::time_point begin_;
  std::vector<Tensor> values_;
  Repeat repeat_;
  std::string trace_;
  std::string explanation_;
  std::vector<Accuracy> accuracy_;  // of each fetch
  uint64_t reduced_ = 0;            // nodes in the reduced precision
  std::vector<std::pair<std::string, std::string>> in_float32_;  // nodes that are not, and why
};

}  // namespace

Status RunGraph(const RunArguments& arguments) { return Runner(arguments).Run(); }

void AddRunCommand(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<RunArguments>();
  CLI::App* run = app.add_subcommand("run", "Run a graph on arrays from files");
  arguments->model.AddTo(*run);
  run->add_option("--feed", arguments->feeds,
                  "Give a tensor its value: NAME=FILE.npy, NAME=FILE.npz or FILE.npz; may be repeated")
      ->type_name("NAME=FILE")
      ->allow_extra_args(false);
  run->add_option("--fetch", arguments->fetches, "Write a tensor to an .npy or .npz file, or print it; may be repeated")
      ->type_name("NAME[=FILE]")
      ->allow_extra_args(false);
  run->add_option("--target", arguments->targets, "Run a node for its effect in each step; may be repeated")
      ->type_name("NODE")
      ->allow_extra_args(false);
  run->add_option("--init", arguments->init, "Run a node once first; may be repeated")
      ->type_name("NODE")
      ->allow_extra_args(false);
  run->add_option("--calibrate", arguments->calibrate,
                  "First run in floats on these arrays, a batch a file, and keep the ranges of all values: in the file "
                  "that --calibration names, for later "
                  "runs, and for this one with --precision int8; then say how far int8 is from floats on them")
      ->type_name("FILE.npz|NAME=FILE.npy");
  run->add_option("--repeat", arguments->repeat, "Run the step so often, in one session")
      ->type_name("N")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 40));
  run->add_flag("--time", arguments->time, "Print the least and the median time of a step");
  run->add_option("--trace", arguments->trace, "Write the last step's trace (for chrome://tracing)")->type_name("FILE");
  run->add_option("--svg", arguments->svg, "Draw the last step, as `tenon place --svg` draws the predicted one")
      ->type_name("FILE");
  run->add_flag("--explain", arguments->explain, "Print how each node runs, as JSON");
  run->add_flag("--accuracy", arguments->accuracy,
                "With a --precision: run the same steps in float32 too, say how far the fetches are apart, and which "
                "products stay in float32");
  run->add_flag("--freeze", arguments->freeze,
                "Take the variables for constants, once the graph is initialised: what is made of weights is made "
                "once, and a step that writes to them is an error");
  run->add_flag("--allow-files", arguments->allow_files,
                "Of a SavedModel: its graph may read and write files that it names itself; without it, it touches none "
                "but its own while it is loaded");
  run->add_flag("--queue-runners", arguments->queue_runners,
                "Beside the steps, run what fills the queues that they take from, as the file's collection names it");
  run->add_flag("--json", arguments->json, "Print the results as JSON");
  arguments->runtime.AddTo(*run);
  arguments->session.AddTo(*run);
  run->footer(
      "NAME is `node` or `node:k`, or an input or output of the signature; of a signature all outputs are printed "
      "where none is named.\n"
      "Strings are arrays of dtype S<n>. Ctrl-C ends --repeat after the step that runs, with the times so far.\n\n"
      "Examples:\n"
      "  tenon run model --feed x=x.npy                            all outputs of the signature\n"
      "  tenon run model --signature train --feed x=x.npy --fetch loss=loss.npy\n"
      "  tenon run graph.pb --feed x=x.npy --fetch y --repeat 100 --time\n"
      "  tenon run graph.pb --feed x=x.npy --fetch y --trace step.json --svg step.svg\n"
      "  tenon run model --feed x=x.npy --precision bfloat16 --freeze\n"
      "  tenon run graph.pb --fetch y --calibrate a.npz b.npz --calibration ranges.txt\n"
      "  tenon run graph.pb --feed x=x.npy --fetch y --precision int8 --calibration ranges.txt\n"
      "  tenon run graph.pb --feed x=x.npy --fetch y --precision bfloat16 --accuracy");
  run->callback([arguments, &action] {
    arguments->session.writes_calibration = !arguments->calibrate.empty();
    action = [arguments] { return RunGraph(*arguments); };
  });
}

}  // namespace tenon::cli
