// SPDX-License-Identifier: Apache-2.0
// What --calibrate does: runs the graph in floats on batches from files, keeps the ranges of its values
// (tenon/host/calibration.h), and runs the same batches in 8-bit integers, to say what that costs.
#ifndef TENON_CLI_RUN_CALIBRATE_H_
#define TENON_CLI_RUN_CALIBRATE_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sdk/app/cli/json.h"
#include "sdk/app/cli/run/accuracy.h"
#include "sdk/app/cli/run/feeds.h"
#include "sdk/app/cli/run/results.h"
#include "tenon/data/file.h"
#include "tenon/model/model_file.h"
#include "tenon/tenon.h"

namespace tenon::cli {

// What a file of --calibrate feeds.
struct Batch {
  std::string file;
  std::vector<Feed> feeds;  // by the tensors' names
};
// texts: FILE.npz, NAME=FILE.npy or NAME=FILE.npz, one a batch. common: what all of them are fed besides. All feed the
// same tensors.
host::Result<std::vector<Batch>> ReadBatches(const std::vector<std::string>& texts, const std::vector<Feed>& common,
                                             const TensorNames& names, data::ReadLimit& limit);

// What is run, in sessions of its own.
struct CalibratedStep {
  const host::Runtime& runtime;
  const model::ModelFile& model;
  host::SessionOptions options;
  host::RunOptions run;
  std::vector<std::string> init, targets;
  std::vector<Fetch> fetches;
};

// A session of the model, made ready, with the step, which is fed as the batch is.
struct Prepared {
  host::Session session;
  host::Callable callable;
};
host::Result<Prepared> PrepareStep(const CalibratedStep& step, const host::SessionOptions& options, const Batch& first);

struct Calibrated {
  std::string text;  // the calibration
  uint64_t tensors = 0, batches = 0;
  std::vector<std::string> in_bytes;                           // notes of the nodes that run in 8-bit integers
  std::vector<std::pair<std::string, std::string>> in_floats;  // nodes that stay as they were, and why
  std::vector<Accuracy> accuracy;                              // of each fetch

  void Print(const std::string& file) const;
  Json AsJson(const std::string& file) const;
};
host::Result<Calibrated> Calibrate(const CalibratedStep& step, const std::vector<Batch>& batches);

// That a calibration was made of this model's graph, as far as it says.
host::Status CheckCalibration(const std::string& calibration, const model::ModelFile& model);

}  // namespace tenon::cli

#endif  // TENON_CLI_RUN_CALIBRATE_H_
