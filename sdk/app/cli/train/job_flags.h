// SPDX-License-Identifier: Apache-2.0
// What all jobs of `tenon train` have in common: where things are kept, how often, and how a run is stopped.
#ifndef TENON_CLI_TRAIN_JOB_FLAGS_H_
#define TENON_CLI_TRAIN_JOB_FLAGS_H_

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "tenon/train/optimizer.h"
#include "tenon/train/trainer.h"

namespace tenon::cli {

struct JobFlags {
  std::string folder;  // set to the default before AddTo
  std::string checkpoint_folder, event_folder, saved_model;
  std::string optimizer = "adam";
  int64_t checkpoint_steps = 100;
  double checkpoint_seconds = 0;
  int keep = 5;
  bool restart = false;
  bool json = false;
  bool histograms = false;

  // What is pointed to, here and below, is the job's own, and stays where it is until the line is parsed.
  void AddTo(CLI::App& job, int64_t* steps, int64_t* batch, float* learning_rate, uint64_t* seed);
  // Parts of it, for jobs that have other words for the rest: where things are kept and how often; the optimizer; the
  // rest.
  void AddFoldersTo(CLI::App& job);
  void AddOptimizerTo(CLI::App& job);
  void AddKeepingTo(CLI::App& job);
  std::string InFolder(const std::string& name) const;
  std::string EventFolder() const;
  train::TrainingOptions Options(int64_t steps) const;
  // The step with the summaries that were asked for; it is made after all else of the graph but the trainer.
  train::TrainingStep Summarized(train::TrainingStep step, train::Model& model) const;
};

// A checkpoint folder has one training: a session that goes on from it ends those before it, of this process or
// another.
std::string OwnerOf(const std::string& command, const std::string& checkpoint_folder);

// Set by the first interrupt after StopAfterThisStep(); the second one ends the process as usual.
extern std::atomic<bool> stop_requested;
void StopAfterThisStep();

}  // namespace tenon::cli

#endif  // TENON_CLI_TRAIN_JOB_FLAGS_H_
