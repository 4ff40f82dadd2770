// SPDX-License-Identifier: Apache-2.0
// The commands of bin/tenon. Each adds itself and its options; the chosen one leaves its work in `action`.
#ifndef TENON_CLI_COMMAND_H_
#define TENON_CLI_COMMAND_H_

#include <functional>
#include <string>

#include "tenon/tenon.h"

namespace CLI {
class App;
}

namespace tenon::cli {

using Action = std::function<host::Status()>;

void AddRunCommand(CLI::App& app, Action& action);
void AddCompareCommand(CLI::App& app, Action& action);
void AddTrainCommand(CLI::App& app, Action& action);
void AddRecordsCommand(CLI::App& app, Action& action);
void AddPluginsCommand(CLI::App& app, Action& action);
void AddOpsCommand(CLI::App& app, Action& action);
void AddDevicesCommand(CLI::App& app, Action& action);
void AddInspectCommand(CLI::App& app, Action& action);
void AddClusterCommand(CLI::App& app, Action& action);
void AddResetCommand(CLI::App& app, Action& action);
void AddWorkerCommand(CLI::App& app, Action& action);
void AddPlaceCommand(CLI::App& app, Action& action);
void AddHelpCommand(CLI::App& app, Action& action);

// Folder of the running program, for data that is installed beside it; empty when the system does not tell.
std::string ProgramFolder();

// Parses, acts, and says what went wrong in one line on stderr (line/error_line.h). 0; 1 when the work failed; 2 when
// the command line is wrong.
int Main(int argc, const char* const* argv);

}  // namespace tenon::cli

#endif  // TENON_CLI_COMMAND_H_
