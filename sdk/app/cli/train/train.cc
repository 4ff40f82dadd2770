// SPDX-License-Identifier: Apache-2.0
// `tenon train digits`: trains, survives being killed, evaluates, saves the trained graph, and serves it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <thread>

#include "sdk/app/cli/cluster/cluster_file.h"
#include "sdk/app/cli/cluster/task_lines.h"
#include "sdk/app/cli/command.h"
#include "sdk/app/cli/flags.h"
#include "sdk/app/cli/json.h"
#include "sdk/app/cli/line/printable.h"
#include "sdk/app/cli/line/wrong_flag.h"
#include "sdk/app/cli/run/run.h"
#include "sdk/app/cli/terminal.h"
#include "sdk/app/cli/timeline/text_timeline.h"
#include "sdk/app/cli/train/digit_replicas.h"
#include "sdk/app/cli/train/digit_report.h"
#include "sdk/app/cli/train/graph.h"
#include "sdk/app/cli/train/images.h"
#include "sdk/app/cli/train/job_flags.h"
#include "sdk/app/cli/train/job_progress.h"
#include "tenon/data/file.h"
#include "tenon/data/graph_def.h"
#include "tenon/data/npy.h"
#include "tenon/data/number_text.h"
#include "tenon/model/write_saved_model.h"
#include "tenon/train/digits.h"
#include "tenon/train/progress.h"
#include "tenon/train/recovery.h"
#include "tenon/train/trainer.h"

namespace tenon::cli {
namespace {

using host::Code;
using host::Result;
using host::Runtime;
using host::Session;
using host::Status;
using host::Tensor;
using train::DigitData;
using train::DigitNetwork;
using train::Trainer;
using train::TrainingReport;

struct DigitArguments {
  JobFlags job;
  std::string data;
  std::string recover = "60s", cluster;
  std::string mirrored = "auto";
  bool primitive = false;
  bool timeline = false;
  train::DigitOptions digits;  // replicas 0: as many as there are workers
  DigitReplicaOptions between;
  RuntimeFlags runtime;
  SessionFlags session;
};

class DigitJob {
 public:
  explicit DigitJob(const DigitArguments& arguments) : arguments_(arguments), quiet_(arguments.job.json) {}

  Status Run() {
    TENON_TRY_ASSIGN(data_, DigitData::Load(DataPath()));
    TENON_TRY_ASSIGN(runtime_, arguments_.runtime.Create());
    TENON_TRY(Train());
    if (replicas_ && !replicas_->leads()) {
      Say(fmt::format("Replica {} has done its part; replica 0 has the outcome.", arguments_.between.replica));
      return Status();
    }
    TENON_TRY(Evaluate());
    TENON_TRY(SaveForUse());
    if (arguments_.job.json) {
      PrintJson(ReportJson());
      return Status();
    }
    return Tell();
  }

 private:
  std::string DataPath() const {
    return arguments_.data.empty() ? ProgramFolder() + "/../share/tenon/digits.npy" : arguments_.data;
  }
  std::string InFolder(const std::string& name) const { return arguments_.job.InFolder(name); }

  train::TrainingOptions Options() {
    train::TrainingOptions options = arguments_.job.Options(arguments_.digits.steps);
    if (arguments_.timeline) options.last_trace = &trace_;
    return options;
  }

  Status Train() {
    train::DigitOptions digits = arguments_.digits;
    TENON_TRY_ASSIGN(digits.optimizer.kind, train::OptimizerKindFromName(arguments_.job.optimizer));
    digits.optimizer.fused = !arguments_.primitive;
    TENON_TRY_ASSIGN(host::SessionOptions options, arguments_.session.Options());
    TENON_TRY(JoinCluster(&digits, &options));
    TENON_TRY(ChooseMirrors(&digits));
    if (arguments_.between.wanted() && !arguments_.session.deadline.empty())
      WrongFlag("--deadline",
                "clients that share variables wait for one another; no step of theirs has a limit of its own");
    if (arguments_.between.wanted()) return TrainReplicas(digits, options);
    graph_.emplace(*runtime_);
    network_.emplace(*graph_, data_, digits);
    train::TrainingOptions training = Options();
    TENON_TRY_ASSIGN(training.step_timeout, arguments_.session.Deadline());
    trainer_.emplace(network_->model(), arguments_.job.Summarized(network_->Step(), network_->model()),
                     std::move(training));
    TENON_TRY(graph_->status());
    Say(fmt::format(
        "Teaching a network of {} parameters to read handwritten digits: {} images to learn from, {} held out.",
        data::FormatCount(network_->model().parameter_count()), data_.training.size(), data_.held_out.size()));
    JobProgress watch(quiet_, {"accuracy"});
    watch.Watch(*trainer_);
    train::Progress& progress = watch.bar();
    const auto begin = std::chrono::steady_clock::now();
    progress.rows = [&, lines = TaskLines()]() mutable -> std::vector<std::string> {
      const auto tasks = session_->Tasks();
      return tasks.ok()
                 ? lines.Make(*tasks, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count())
                 : std::vector<std::string>();
    };

    options.seed = arguments_.digits.seed;
    StopAfterThisStep();
    if (!options.master.empty()) options.owner = OwnerOf("train digits", Options().checkpoint_folder);
    TENON_TRY_ASSIGN(const std::chrono::nanoseconds patience, ParseTime(arguments_.recover));
    const auto run = [&] { return RunOnce(options); };
    const Result<TrainingReport> report =
        options.master.empty()
            ? run()
            : train::RunThroughLosses({patience, arguments_.recover, run, [this] { return trainer_->step(); },
                                       [&](const std::string& message) { progress.Say(message); }, &stop_requested});
    progress.Finish();
    if (!report.ok()) return report.status();
    report_ = *report;
    return StoppedEarly(report_, arguments_.digits.steps);
  }

  // By clients of their own.
  Status TrainReplicas(const train::DigitOptions& digits, host::SessionOptions options) {
    if (arguments_.job.histograms)
      WrongFlag("--histograms", "--mode " + arguments_.between.mode + " writes no event files");
    if (arguments_.timeline)
      return Status(Code::kUnimplemented,
                    "--mode " + arguments_.between.mode + " draws no timeline: its steps are of several clients");
    if (options.master.empty())
      WrongFlag("--mode " + arguments_.between.mode,
                "it shares variables on a cluster; give --cluster FILE or --master ADDRESS");
    if (arguments_.between.backups > 0 && arguments_.between.mode != "sync")
      WrongFlag("--backups", "it means something with --mode sync alone");
    options.seed = digits.seed;
    DigitReplicaOptions between = arguments_.between;
    between.training = Options();
    between.owner = OwnerOf("train digits", between.training.checkpoint_folder);
    TENON_TRY_ASSIGN(between.patience, ParseTime(arguments_.recover));
    between.recover = arguments_.recover;
    replicas_.emplace(*runtime_, data_, digits, options, between);
    train::Progress progress(stdout, {"accuracy"});
    replicas_->on_message = [&](const std::string& message) {
      if (quiet_) std::fprintf(stderr, "%s\n", Printable(message).c_str());
      else progress.Say(Printable(message));
    };
    if (!quiet_) replicas_->on_step = [&](const train::StepReport& report) { progress.Show(report); };
    replicas_->stop = &stop_requested;
    StopAfterThisStep();
    Result<TrainingReport> report = replicas_->Run();
    progress.Finish();
    if (!report.ok()) return report.status();
    report_ = *report;
    return report_.stopped ? Status(Code::kCancelled, "stopped") : Status();
  }

  // Towers on its workers, variables on its parameter servers.
  Status JoinCluster(train::DigitOptions* digits, host::SessionOptions* options) const {
    for (std::string& device : digits->replica_devices) {
      if (!device.starts_with('/')) device = "/device:" + device;
    }
    if (arguments_.cluster.empty()) return Status();
    if (!digits->replica_devices.empty()) WrongFlag("--replica-devices", "on a cluster replicas stand on its workers");
    TENON_TRY_ASSIGN(const ClusterFile cluster, ClusterFile::Read(arguments_.cluster));
    std::string first;
    for (const host::ClusterTask& task : cluster.tasks) {
      if (task.name.starts_with("/job:ps/")) {
        digits->variable_devices.push_back(task.name);
      } else {
        digits->replica_devices.push_back(task.name);
        if (first.empty()) first = task.address;
      }
    }
    if (digits->replica_devices.empty())
      return Status(host::Code::kInvalidArgument, arguments_.cluster + " has parameter servers alone; add workers");
    // All of them, the workers' first: credentials go to tasks that were given, and to no others.
    if (options->master.empty()) {
      options->master = first;
      for (const host::ClusterTask& task : cluster.tasks)
        if (task.address != first) options->master += "," + task.address;
    }
    if (digits->replicas == 0) digits->replicas = static_cast<int64_t>(digits->replica_devices.size());
    return Status();
  }

  // Whether each replica has variables of its own: when all stand on GPUs, each on one, unless the user says otherwise.
  Status ChooseMirrors(train::DigitOptions* digits) const {
    const std::vector<std::string>& devices = digits->replica_devices;
    if (digits->replicas == 0)
      digits->replicas = std::max<int64_t>(1, arguments_.cluster.empty() ? static_cast<int64_t>(devices.size()) : 1);
    const auto is_gpu = [](const std::string& device) { return device.find("GPU:") != std::string::npos; };
    const std::set<std::string> different(devices.begin(), devices.end());
    const bool all_gpus = std::all_of(devices.begin(), devices.end(), is_gpu) &&
                          static_cast<int64_t>(different.size()) >= digits->replicas;
    digits->mirrored = arguments_.mirrored == "on" || (arguments_.mirrored == "auto" && all_gpus &&
                                                       digits->replicas > 1 && !arguments_.between.wanted());
    if (arguments_.mirrored == "on" && arguments_.between.wanted())
      WrongFlag("--mirrored on", "with --mode " + arguments_.between.mode + " replicas share their variables");
    return Status();
  }

  // A session, from its beginning to its end or loss.
  Result<TrainingReport> RunOnce(const host::SessionOptions& options) {
    TENON_TRY_ASSIGN(host::Session session, Session::Create(*runtime_, options));
    trainer_->Leave();
    session_.emplace(std::move(session));
    TENON_TRY(trainer_->Begin(*session_));
    if (trainer_->step() >= arguments_.digits.steps) Say(CompleteText(trainer_->step(), arguments_.digits.steps));
    return trainer_->Run();
  }

  Status Evaluate() {
    TENON_TRY_ASSIGN(const Tensor images, data_.held_out.ImageTensor());
    TENON_TRY_ASSIGN(const std::vector<Tensor> values,
                     session().Run({{DigitNetwork::kImages, images}}, {DigitNetwork::kAnswers}));
    answers_ = values[0];
    const auto answers = answers_.data<int64_t>();
    if (answers.size() != data_.held_out.labels.size()) {
      return Status(Code::kInternal, "the evaluation gave " + std::to_string(answers.size()) + " answers");
    }
    for (size_t i = 0; i < answers.size(); ++i) correct_ += answers[i] == data_.held_out.labels[i];
    return Status();
  }

  Session& session() { return replicas_ ? replicas_->session() : *session_; }
  double Accuracy() const { return static_cast<double>(correct_) / static_cast<double>(data_.held_out.size()); }

  // The trained graph with its weights as constants, and images that it has not seen.
  Status SaveForUse() {
    TENON_TRY_ASSIGN(const std::string graph_def, replicas_ ? replicas_->graph().Export() : graph_->Export());
    TENON_TRY_ASSIGN(const std::string frozen,
                     data::Freeze(session(), graph_def, {DigitNetwork::kAnswers, DigitNetwork::kProbabilities}));
    TENON_TRY(data::MakeFolder(arguments_.job.folder));
    TENON_TRY(data::ReplaceFile(InFolder("digits.pb"), {frozen}));
    if (!arguments_.job.saved_model.empty()) TENON_TRY(SaveModel(graph_def));
    TENON_TRY_ASSIGN(const Tensor images, data_.held_out.ImageTensor());
    TENON_TRY(data::WriteNpy(InFolder("unseen_images.npy"), images));
    TENON_TRY_ASSIGN(const Tensor labels, data_.held_out.LabelTensor());
    return data::WriteNpy(InFolder("unseen_labels.npy"), labels);
  }

  // For TensorFlow, and for training on: the weights stay variables.
  Status SaveModel(const std::string& graph_def) {
    model::WriteOptions options;
    options.replace = true;
    options.signatures.push_back(
        {std::string(model::kDefaultSignature),
         {{"images", DigitNetwork::kImages}},
         {{"answers", DigitNetwork::kAnswers}, {"probabilities", DigitNetwork::kProbabilities}}});
    return model::WriteSavedModel(*runtime_, session(), graph_def, arguments_.job.saved_model, options);
  }

  Status Tell() {
    if (report_.last_step > report_.first_step) {
      fmt::print("Trained {} steps in {:.1f} s ({} examples/s).\n", report_.last_step - report_.first_step,
                 report_.seconds, data::FormatCount(static_cast<int64_t>(report_.examples_per_second)));
    }
    fmt::print("Accuracy on the {} held-out images: {:.2f} % ({} right).\n\n", data_.held_out.size(), 100 * Accuracy(),
               correct_);
    if (trainer_) {
      TENON_TRY_ASSIGN(const std::string explanation, trainer_->callable().Explain());
      fmt::print("{}\n", WorkTable(*runtime_, explanation));
    }
    fmt::print("{}", DrawDigits(data_.held_out, answers_.data<int64_t>()));
    TENON_TRY(Serve());
    if (!trace_.empty()) {
      TENON_TRY_ASSIGN(const std::string timeline, FormatTimeline(trace_, TerminalWidth()));
      TENON_TRY(data::ReplaceFile(InFolder("step.json"), {trace_}));
      fmt::print("\nThe last training step ({} opens in Perfetto), {}", InFolder("step.json"), timeline);
    }
    fmt::print(
        "\nWhat to try next:\n"
        "  tenon train digits --folder {0} --steps {1}     train on\n"
        "  tenon train digits --folder {0} --restart --optimizer momentum --learning-rate 0.05\n"
        "  tensorboard --logdir {2}     loss and accuracy over the steps, and the graph\n"
        "  tenon inspect {0}/digits.pb     what stands in the trained graph\n"
        "  tenon plugins     what is loaded; each is one library behind one C header\n",
        arguments_.job.folder, arguments_.digits.steps * 2, Options().event_folder);
    return Status();
  }

  // As a user would: another runtime, the graph from its file, images from theirs.
  Status Serve() {
    RunArguments run;
    run.model.graph = InFolder("digits.pb");
    run.feeds = {"images=" + InFolder("unseen_images.npy")};
    run.fetches = {std::string(DigitNetwork::kAnswers) + "=" + InFolder("answers.npy")};
    run.time = true;
    run.repeat = 20;
    run.runtime = arguments_.runtime;
    run.session = arguments_.session;
    if (!arguments_.cluster.empty() && run.session.Given("master").empty())
      run.session.LeaveCluster();  // it answers in this process
    fmt::print(
        "The trained graph is a file now. It answers for images that it has not seen:\n  $ tenon run {} --feed {} "
        "--fetch {} --repeat 20 --time\n  ",
        run.model.graph, run.feeds[0], run.fetches[0]);
    std::fflush(stdout);
    TENON_TRY(RunGraph(run));
    TENON_TRY_ASSIGN(const Tensor served, data::ReadNpy(InFolder("answers.npy")));
    const auto now = served.data<int64_t>(), before = answers_.data<int64_t>();
    if (!std::equal(now.begin(), now.end(), before.begin(), before.end())) {
      return Status(Code::kInternal, "the served graph answers otherwise than the trained one did");
    }
    fmt::print("  {} answers in {}, equal to those above.\n", now.size(), InFolder("answers.npy"));
    return Status();
  }

  Json ReportJson() const {
    return {{"first_step", report_.first_step},
            {"last_step", report_.last_step},
            {"seconds", report_.seconds},
            {"examples_per_second", report_.examples_per_second},
            {"checkpoint", report_.checkpoint},
            {"held_out", data_.held_out.size()},
            {"correct", correct_},
            {"accuracy", Accuracy()},
            {"graph", InFolder("digits.pb")}};
  }

  void Say(const std::string& line) const {
    if (!quiet_) fmt::print("{}\n", line);
    std::fflush(stdout);
  }

  const DigitArguments& arguments_;
  bool quiet_;
  DigitData data_;
  std::optional<Runtime> runtime_;
  std::optional<host::Graph> graph_;
  std::optional<DigitNetwork> network_;
  std::optional<Session> session_;
  std::optional<Trainer> trainer_;  // holds a callable of the session
  std::optional<DigitReplicas> replicas_;
  TrainingReport report_;
  Tensor answers_;
  int64_t correct_ = 0;
  std::string trace_;
};

void AddDigits(CLI::App& train, Action& action) {
  auto arguments = std::make_shared<DigitArguments>();
  arguments->digits.replicas = 0;
  CLI::App* digits = train.add_subcommand("digits", "Train a small convolutional network on handwritten digits");
  arguments->job.folder = "tenon_digits";
  arguments->job.AddTo(*digits, &arguments->digits.steps, &arguments->digits.batch, &arguments->digits.learning_rate,
                       &arguments->digits.seed);
  digits->add_option("--data", arguments->data, "The digits (default: those that are installed)")
      ->type_name("FILE.npy");
  digits->add_flag("--primitive-optimizer", arguments->primitive,
                   "Build the optimizer of primitive ops, without its fused op");
  digits->add_flag("--timeline", arguments->timeline,
                   "Draw the last training step: the host, and each queue of each device");
  digits
      ->add_option("--replicas", arguments->digits.replicas,
                   "Copies of the network that share each batch (default: one, or one a worker)")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  digits
      ->add_option("--replica-devices", arguments->digits.replica_devices,
                   "Where the replicas stand, by turns (default: anywhere): GPU:0,GPU:1")
      ->delimiter(',')
      ->type_name("NAMES");
  digits
      ->add_option("--mirrored", arguments->mirrored,
                   "on: each replica has the variables on its own device, or worker of the cluster, and collectives "
                   "add the gradients; off: all share one set; "
                   "auto: on when every replica has a GPU of its own")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "on", "off"}));
  digits
      ->add_option("--cluster", arguments->cluster,
                   "Train on this cluster: replicas on its workers, variables on its job ps")
      ->type_name("FILE");
  digits
      ->add_option("--mode", arguments->between.mode,
                   "On a cluster: in-graph (one client, all replicas in one graph), or one client a replica: async "
                   "(each applies its own gradients) "
                   "or sync (applied together). The latter two keep no checkpoints")
      ->capture_default_str()
      ->check(CLI::IsMember({"in-graph", "async", "sync"}));
  digits
      ->add_option("--backups", arguments->between.backups,
                   "With --mode sync: how many replicas a step need not wait for")
      ->type_name("B")
      ->check(CLI::NonNegativeNumber);
  digits
      ->add_option("--replica", arguments->between.replica,
                   "With --mode async or sync: run this replica alone, from 0; others run theirs elsewhere")
      ->type_name("K")
      ->check(CLI::NonNegativeNumber);
  digits->add_option("--recover", arguments->recover, "On a cluster: how long to try to go on after a task is lost")
      ->type_name("TIME")
      ->capture_default_str()
      ->check(CheckTime);
  arguments->runtime.AddTo(*digits);
  arguments->session.AddTo(*digits, /*with_seed=*/false);
  digits->callback([arguments, &action] { action = [arguments] { return DigitJob(*arguments).Run(); }; });
}

}  // namespace

void AddTrainCommand(CLI::App& app, Action& action) {
  CLI::App* train = app.add_subcommand(
      "train", "Train a graph or model, or a built-in network; killed, it goes on where its last checkpoint is");
  train->require_subcommand(0, 1);
  AddDigits(*train, action);
  AddImages(*train, action);
  AddGraphTraining(*train, action);
}

}  // namespace tenon::cli
