// SPDX-License-Identifier: Apache-2.0
// `tenon train GRAPH`: trains a graph or model from a file, by what it has for that or by an optimizer for a loss of
// it.
#ifndef TENON_CLI_TRAIN_GRAPH_H_
#define TENON_CLI_TRAIN_GRAPH_H_

#include "sdk/app/cli/command.h"

namespace tenon::cli {

// Adds GRAPH and the options beside it to `train` itself, whose other jobs are subcommands.
void AddGraphTraining(CLI::App& train, Action& action);

}  // namespace tenon::cli

#endif  // TENON_CLI_TRAIN_GRAPH_H_
