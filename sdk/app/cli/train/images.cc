// SPDX-License-Identifier: Apache-2.0
// `tenon train images`: trains on the pictures of a folder or a file of records, with all input in the graph; `tenon
// records write`.
#include "sdk/app/cli/train/images.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <optional>

#include "sdk/app/cli/flags.h"
#include "sdk/app/cli/json.h"
#include "sdk/app/cli/train/job_flags.h"
#include "sdk/app/cli/train/job_progress.h"
#include "tenon/data/file.h"
#include "tenon/data/graph_def.h"
#include "tenon/data/number_text.h"
#include "tenon/model/write_saved_model.h"
#include "tenon/train/images.h"

namespace tenon::cli {
namespace {

using host::Code;
using host::Runtime;
using host::Session;
using host::Status;
using train::ImageNetwork;
using train::ImageSource;
using train::Trainer;
using train::TrainingReport;

struct ImageArguments {
  std::string source;
  JobFlags job;
  train::ImageOptions images;
  bool plain = false, unmirrored = false;
  RuntimeFlags runtime;
  SessionFlags session;
};

class ImageJob {
 public:
  explicit ImageJob(const ImageArguments& arguments) : arguments_(arguments) {}

  Status Run() {
    TENON_TRY_ASSIGN(runtime_, arguments_.runtime.Create());
    TENON_TRY_ASSIGN(source_, ImageSource::Open(arguments_.source));
    train::ImageOptions options = arguments_.images;
    TENON_TRY_ASSIGN(options.optimizer.kind, train::OptimizerKindFromName(arguments_.job.optimizer));
    options.distort = !arguments_.plain;
    options.mirror = !arguments_.unmirrored;
    graph_.emplace(*runtime_);
    network_.emplace(*graph_, source_, options);
    TENON_TRY_ASSIGN(train::TrainingOptions training, Training());
    trainer_.emplace(network_->model(), network_->Step(), std::move(training));
    TENON_TRY(graph_->status());
    TENON_TRY(Train());
    TENON_TRY_ASSIGN(score_, network_->Evaluate(*session_));
    TENON_TRY(SaveForUse());
    return Tell();
  }

 private:
  // Where the network is told to stand on a device of this process that is not the host, pictures are brought there
  // ahead.
  host::Result<train::TrainingOptions> Training() const {
    train::TrainingOptions training = arguments_.job.Options(arguments_.images.steps);
    TENON_TRY_ASSIGN(training.step_timeout, arguments_.session.Deadline());
    const std::string& device = arguments_.session.Given("device");
    const bool of_host = device.find("CPU") != std::string::npos || device.find("cpu") != std::string::npos;
    if (!of_host && arguments_.session.Given("master").empty()) training.prefetch_device = device;
    return training;
  }
  Status Train() {
    Say(fmt::format("Teaching a network of {} parameters to tell {} classes of pictures apart: {}.",
                    data::FormatCount(network_->model().parameter_count()), source_.classes.size(), Amount()));
    JobProgress progress(arguments_.job.json, {"accuracy"});
    progress.Watch(*trainer_);
    TENON_TRY_ASSIGN(host::SessionOptions options, arguments_.session.Options());
    options.seed = arguments_.images.seed;
    StopAfterThisStep();
    TENON_TRY_ASSIGN(session_, Session::Create(*runtime_, options));
    TENON_TRY(trainer_->Begin(*session_));
    if (trainer_->step() >= arguments_.images.steps) Say(CompleteText(trainer_->step(), arguments_.images.steps));
    const host::Result<TrainingReport> report = trainer_->Run();
    progress.bar().Finish();
    TENON_TRY(report.status());
    report_ = *report;
    return StoppedEarly(report_, arguments_.images.steps);
  }
  std::string Amount() const {
    if (!source_.records.empty()) return "the records of " + source_.records;
    return fmt::format("{} to learn from, {} held out", source_.files.size(), source_.held_out_files.size());
  }

  // The trained network as a graph with its weights as constants.
  Status SaveForUse() {
    TENON_TRY_ASSIGN(const std::string graph_def, graph_->Export());
    TENON_TRY_ASSIGN(const std::string frozen,
                     data::Freeze(*session_, graph_def, {ImageNetwork::kAnswers, ImageNetwork::kProbabilities}));
    TENON_TRY(data::MakeFolder(arguments_.job.folder));
    TENON_TRY(data::ReplaceFile(arguments_.job.InFolder("images.pb"), {frozen}));
    std::string classes;
    for (const std::string& name : source_.classes) classes += name + "\n";
    TENON_TRY(data::ReplaceFile(arguments_.job.InFolder("classes.txt"), {classes}));
    if (arguments_.job.saved_model.empty()) return Status();
    // Not the input: it names files of this machine, and whoever loads the model feeds pictures.
    TENON_TRY_ASSIGN(const host::Graph use, host::Graph::Import(*runtime_, frozen));
    model::WriteOptions options;
    options.replace = true;
    options.signatures.push_back(
        {std::string(model::kDefaultSignature),
         {{"images", ImageNetwork::kImages}},
         {{"answers", ImageNetwork::kAnswers}, {"probabilities", ImageNetwork::kProbabilities}}});
    TENON_TRY_ASSIGN(Session session, Session::Create(*runtime_, use));
    return model::WriteSavedModel(*runtime_, session, frozen, arguments_.job.saved_model, options);
  }

  Status Tell() const {
    const double accuracy =
        score_.pictures == 0 ? 0 : static_cast<double>(score_.right) / static_cast<double>(score_.pictures);
    if (arguments_.job.json) {
      PrintJson({{"first_step", report_.first_step},
                 {"last_step", report_.last_step},
                 {"seconds", report_.seconds},
                 {"examples_per_second", report_.examples_per_second},
                 {"checkpoint", report_.checkpoint},
                 {"held_out", score_.pictures},
                 {"correct", score_.right},
                 {"accuracy", accuracy},
                 {"graph", arguments_.job.InFolder("images.pb")}});
      return Status();
    }
    if (report_.last_step > report_.first_step)
      fmt::print("Trained {} steps in {:.1f} s ({} pictures/s).\n", report_.last_step - report_.first_step,
                 report_.seconds, data::FormatCount(static_cast<int64_t>(report_.examples_per_second)));
    fmt::print("Accuracy on the {} held-out pictures: {:.2f} % ({} right).\n", score_.pictures, 100 * accuracy,
               score_.right);
    fmt::print("The trained graph is {0}: `tenon inspect {0}`; its classes, in the order of its answers, are in {1}.\n",
               arguments_.job.InFolder("images.pb"), arguments_.job.InFolder("classes.txt"));
    return Status();
  }

  void Say(const std::string& line) const {
    if (!arguments_.job.json) fmt::print("{}\n", line);
    std::fflush(stdout);
  }

  const ImageArguments& arguments_;
  std::optional<Runtime> runtime_;
  ImageSource source_;
  std::optional<host::Graph> graph_;
  std::optional<ImageNetwork> network_;
  std::optional<Session> session_;
  std::optional<Trainer> trainer_;  // holds a callable of the session
  TrainingReport report_;
  ImageNetwork::Score score_;
};

struct RecordArguments {
  std::string folder, file;
  uint64_t seed = 1;
  RuntimeFlags runtime;
};

Status WriteRecords(const RecordArguments& arguments) {
  TENON_TRY_ASSIGN(const Runtime runtime,
                   arguments.runtime.Create());  // whose plugins may bring the file systems of the paths
  TENON_TRY_ASSIGN(const int64_t count, train::WriteImageRecords(arguments.folder, arguments.file, arguments.seed));
  fmt::print("{} pictures are in {}, the names of their classes in {}.classes.txt\n", count, arguments.file,
             arguments.file);
  return Status();
}

}  // namespace

void AddImages(CLI::App& train, Action& action) {
  auto arguments = std::make_shared<ImageArguments>();
  CLI::App* images = train.add_subcommand(
      "images", "Train a small convolutional network on a folder of pictures, or on records of them");
  images
      ->add_option(
          "PICTURES", arguments->source,
          "A folder with a folder of JPEG, PNG, GIF or BMP files for each class, or a file of `tenon records write`")
      ->required();
  arguments->job.folder = "tenon_images";
  arguments->job.AddTo(*images, &arguments->images.steps, &arguments->images.batch, &arguments->images.learning_rate,
                       &arguments->images.seed);
  images->add_option("--side", arguments->images.side, "Pixels that pictures are scaled to, a multiple of 8")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(int64_t{8}, int64_t{512}));
  images->add_flag("--plain", arguments->plain,
                   "Train on the pictures as they are: not moved, mirrored, lighter or darker");
  images->add_flag("--no-mirror", arguments->unmirrored,
                   "Do not mirror pictures: letters and digits would become others");
  arguments->runtime.AddTo(*images);
  arguments->session.AddTo(*images, /*with_seed=*/false);
  images->footer(
      "All input is in the graph: pictures are read, decoded, distorted and batched beside the steps. A tenth of them "
      "is held out. Killed, the same command goes on where the last "
      "checkpoint is, in the middle of a pass too.\n\n"
      "Examples:\n"
      "  tenon train images pictures --steps 2000\n"
      "  tenon records write pictures pictures.tfrecord && tenon train images pictures.tfrecord");
  images->callback([arguments, &action] { action = [arguments] { return ImageJob(*arguments).Run(); }; });
}

void AddRecordsCommand(CLI::App& app, Action& action) {
  CLI::App* records = app.add_subcommand("records", "Files of records (TFRecord)");
  records->require_subcommand(1);
  auto arguments = std::make_shared<RecordArguments>();
  CLI::App* write =
      records->add_subcommand("write", "Pack the pictures of a folder into a file of records, in random order");
  write->add_option("FOLDER", arguments->folder, "A folder with a folder of pictures for each class")->required();
  write
      ->add_option("FILE", arguments->file,
                   "The file of TensorFlow's Examples: image/encoded, image/class/label, image/class/text")
      ->required();
  write->add_option("--seed", arguments->seed, "Of the order")->capture_default_str()->type_name("N");
  arguments->runtime.AddTo(*write);
  write->footer("Examples:\n  tenon records write pictures pictures.tfrecord");
  write->callback([arguments, &action] { action = [arguments] { return WriteRecords(*arguments); }; });
}

}  // namespace tenon::cli
