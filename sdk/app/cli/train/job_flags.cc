// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/train/job_flags.h"

#include <csignal>
#include <filesystem>

#include "tenon/data/file.h"
#include "tenon/train/summaries.h"

namespace tenon::cli {

std::atomic<bool> stop_requested{false};

std::string OwnerOf(const std::string& command, const std::string& checkpoint_folder) {
  const bool is_url = checkpoint_folder.find("://") != std::string::npos;
  return "tenon " + command + " " +
         (is_url ? checkpoint_folder : std::filesystem::absolute(checkpoint_folder).lexically_normal().string());
}

void StopAfterThisStep() {
  struct sigaction action = {};
  action.sa_handler = [](int) { stop_requested.store(true); };
  action.sa_flags = SA_RESETHAND;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

std::string JobFlags::InFolder(const std::string& name) const { return data::JoinPath(folder, name); }
std::string JobFlags::EventFolder() const { return event_folder.empty() ? InFolder("events") : event_folder; }

train::TrainingOptions JobFlags::Options(int64_t steps) const {
  train::TrainingOptions options;
  options.steps = steps;
  options.checkpoint_folder = checkpoint_folder.empty() ? InFolder("checkpoints") : checkpoint_folder;
  options.checkpoint_steps = checkpoint_steps;
  options.checkpoint_seconds = checkpoint_seconds;
  options.keep = keep;
  options.resume = !restart;
  options.event_folder = EventFolder();
  options.stop = &stop_requested;
  return options;
}

train::TrainingStep JobFlags::Summarized(train::TrainingStep step, train::Model& model) const {
  if (histograms)
    for (const host::Output& summary : train::VariableSummaries(model, step.loss)) step.summaries.push_back(summary);
  return step;
}

void JobFlags::AddFoldersTo(CLI::App& job) {
  job.add_option("--folder", folder, "Where everything is kept")->capture_default_str()->type_name("FOLDER");
  job.add_option("--checkpoint-dir", checkpoint_folder, "Checkpoints (default: FOLDER/checkpoints)")
      ->type_name("FOLDER");
  job.add_option("--logdir", event_folder, "Event files for TensorBoard (default: FOLDER/events)")->type_name("FOLDER");
}

void JobFlags::AddOptimizerTo(CLI::App& job) {
  job.add_option("--optimizer", optimizer,
                 "sgd, momentum, adam, adagrad, rmsprop or adadelta (which wants a learning rate near 1)")
      ->capture_default_str()
      ->type_name("NAME")
      ->check([](const std::string& name) {
        const auto kind = train::OptimizerKindFromName(name);
        return kind.ok() ? std::string() : kind.status().message();
      });
}

void JobFlags::AddKeepingTo(CLI::App& job) {
  job.add_option("--checkpoint-steps", checkpoint_steps, "A checkpoint each N steps; 0: not by steps")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::NonNegativeNumber);
  job.add_option("--checkpoint-seconds", checkpoint_seconds, "A checkpoint each X seconds; 0: not by time")
      ->capture_default_str()
      ->type_name("X")
      ->check(CLI::NonNegativeNumber);
  job.add_option("--keep", keep, "Checkpoints to keep")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20));
  job.add_flag("--restart,--no-resume", restart, "Begin anew; the folder's checkpoints are removed");
  job.add_flag("--json", json, "Print the outcome as JSON, and nothing else");
}

void JobFlags::AddTo(CLI::App& job, int64_t* steps, int64_t* batch, float* learning_rate, uint64_t* seed) {
  AddFoldersTo(job);
  job.add_option("--saved-model", saved_model, "Write the trained network as a SavedModel too, which TensorFlow loads")
      ->type_name("FOLDER");
  job.add_option("--steps", *steps, "Train up to this step")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  job.add_option("--batch", *batch, "Images in a step")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  job.add_option("--learning-rate", *learning_rate,
                 "At the beginning; it falls to a fiftieth. 0: nothing is learnt, and all else is done")
      ->capture_default_str()
      ->type_name("X");
  AddOptimizerTo(job);
  job.add_option("--seed", *seed, "Of the first weights and the order of the images")
      ->capture_default_str()
      ->type_name("N");
  job.add_flag("--histograms", histograms, "Event files have histograms of the variables and of their gradients");
  AddKeepingTo(job);
}

}  // namespace tenon::cli
