// SPDX-License-Identifier: Apache-2.0
// `tenon run`: runs a graph from a file on arrays from files.
#ifndef TENON_CLI_RUN_H_
#define TENON_CLI_RUN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "sdk/app/cli/flags.h"
#include "sdk/app/cli/model_flags.h"
#include "tenon/tenon.h"

namespace tenon::cli {

struct RunArguments {
  ModelFlags model;
  std::vector<std::string> feeds;    // NAME=FILE.npy, NAME=FILE.npz, FILE.npz
  std::vector<std::string> fetches;  // NAME, NAME=FILE.npy, NAME=FILE.npz
  std::vector<std::string> targets;
  std::vector<std::string> init;
  std::string trace;  // a file for the last step's trace
  std::string svg;    // and one for a picture of it
  std::vector<std::string> calibrate;  // a batch each: FILE.npz, NAME=FILE.npy
  uint64_t repeat = 1;
  bool time = false;
  bool json = false;
  bool explain = false;
  bool accuracy = false;
  bool freeze = false;
  bool allow_files = false;
  bool queue_runners = false;
  RuntimeFlags runtime;
  SessionFlags session;
};

// Prints what was asked for on standard output. Errors name the graph's file.
host::Status RunGraph(const RunArguments& arguments);

}  // namespace tenon::cli

#endif  // TENON_CLI_RUN_H_
