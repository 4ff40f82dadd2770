// SPDX-License-Identifier: Apache-2.0
// The options that every command that runs a graph takes.
#ifndef TENON_CLI_FLAGS_H_
#define TENON_CLI_FLAGS_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sdk/app/cli/line/values.h"
#include "tenon/data/file.h"
#include "tenon/tenon.h"

namespace CLI {
class App;
}

namespace tenon::cli {

struct RuntimeFlags {
  std::vector<std::string> plugins;         // --plugin FILE
  std::vector<std::string> plugin_options;  // --option PLUGIN.KEY=VALUE
  uint32_t threads = 0;                     // --threads N
  std::string tuning_folder;                // --tuning-folder FOLDER
  std::string log_level;                    // --log LEVEL
  bool no_search = false;                   // --no-search
  std::vector<std::string> devices;         // --devices NAME:COUNT

  void AddTo(CLI::App& command);
  host::Result<host::RuntimeOptions> Options() const;
  // Ends the command (WrongFlag) where a plugin has no option that was given.
  host::Result<host::Runtime> Create() const;
  // The same of options that a command has added to.
  host::Result<host::Runtime> CreateWith(const host::RuntimeOptions& options) const;

 private:
  void RefuseOptions(const host::Status& status) const;
};

// --deadline, and a flag for each option of a session that has one (tenon/session_options.h).
struct SessionFlags {
  std::string deadline;                               // --deadline TIME
  std::map<std::string, std::string, std::less<>> texts;  // what was given, by the option's name
  std::map<std::string, bool, std::less<>> switches;      // whether the flag was given

  bool writes_calibration = false;  // the file that --calibration names is to be written, and not read

  // "" where it was not given. Of costs: the file, which need not exist.
  const std::string& Given(std::string_view option) const;
  // with_seed: some commands have a --seed of their own.
  void AddTo(CLI::App& command, bool with_seed = true);
  host::Result<host::SessionOptions> Options() const;
  // For a session in this process, of a command whose others are on a cluster: what is said of that is left out, and a
  // device that is one of its.
  void LeaveCluster();
  // 0: none.
  host::Result<std::chrono::nanoseconds> Deadline() const;
  // What files may take: the session's limit.
  host::Result<data::ReadLimit> Files() const;
};

}  // namespace tenon::cli

#endif  // TENON_CLI_FLAGS_H_
