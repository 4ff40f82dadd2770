// SPDX-License-Identifier: Apache-2.0
// `tenon help`, and what `--help` and `--version` say beside the flags.
#ifndef TENON_CLI_LINE_HELP_H_
#define TENON_CLI_LINE_HELP_H_

#include <string>

namespace CLI {
class App;
}

namespace tenon::cli {

// "tenon 0.1.0", and on lines of their own the versions by which masters, workers and plugins know each other.
std::string VersionText();

// The program's own flags.
void AddVersionTo(CLI::App& app);
// What stands below its commands; commands that are added after it would take it over.
void AddFooterTo(CLI::App& app);

}  // namespace tenon::cli

#endif  // TENON_CLI_LINE_HELP_H_
