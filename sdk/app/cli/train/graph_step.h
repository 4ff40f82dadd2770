// SPDX-License-Identifier: Apache-2.0
// What a step of `tenon train GRAPH` is, by the names that a user or the file gives: nodes, loss, numbers that are
// shown, summaries.
#ifndef TENON_CLI_TRAIN_GRAPH_STEP_H_
#define TENON_CLI_TRAIN_GRAPH_STEP_H_

#include <string>
#include <utility>
#include <vector>

#include "sdk/app/cli/tensor_names.h"
#include "tenon/model/model_file.h"

namespace tenon::cli {

struct StepWords {
  std::vector<std::string> targets;    // --target
  std::string loss, minimize;          // --loss, --minimize
  std::vector<std::string> summaries;  // --summary
};

struct GraphStep {
  std::vector<std::string> targets;
  std::string loss, loss_name;
  std::vector<std::pair<std::string, std::string>> metrics;  // name, tensor
  std::vector<std::string> summaries;
  bool collected_summaries = false;  // nobody asked for them: the file's collection names them
  std::string what;                  // "by its signature 'train'", for the user
};

// The signature whose names are meant: the one that is named, else `train`, else as other commands choose.
inline constexpr const char* kTrainSignature = "train";

// Ends the command (WrongFlag) where nothing says what a step is, or two things do, or a loss is not clear; the message
// has what there is. by_name: the signature was asked for by its name.
host::Result<GraphStep> ChooseStep(const StepWords& words, const model::ModelFile& file,
                                   const model::Signature* signature, bool by_name, const TensorNames& names);

}  // namespace tenon::cli

#endif  // TENON_CLI_TRAIN_GRAPH_STEP_H_
