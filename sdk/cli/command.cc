// SPDX-License-Identifier: Apache-2.0
#include "sdk/cli/command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "sdk/cli/line/error_line.h"
#include "sdk/cli/line/help.h"
#include "sdk/cli/line/slips.h"

namespace tenon::cli {
namespace {

void AddCommands(CLI::App& app, Action& action) {
  AddRunCommand(app, action);
  AddTrainCommand(app, action);
  AddInspectCommand(app, action);
  AddPlaceCommand(app, action);
  AddCompareCommand(app, action);
  AddWorkerCommand(app, action);
  AddResetCommand(app, action);
  AddClusterCommand(app, action);
  AddRecordsCommand(app, action);
  AddPluginsCommand(app, action);
  AddOpsCommand(app, action);
  AddDevicesCommand(app, action);
  AddHelpCommand(app, action);
}

// "tenon train digits" for the chosen command.
std::string CommandName(const CLI::App& app) {
  std::string name = "tenon";
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    name += " " + at->get_name();
  }
  return name;
}

// A word that no command knows is the reason for whatever the parser then misses.
int RefuseCommandLine(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words,
                      bool json) {
  const bool by_words = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr ||
                        dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  Slip slip = by_words ? FindSlip(app, words) : Slip();
  if (slip.what.empty()) slip = {CommandName(app), error.what()};
  const std::string text = Join(slip.what, "`" + slip.command + " --help` shows what it takes");
  return PrintError(slip.command, host::Status(host::Code::kInvalidArgument, text), kWrongCommandLine, json);
}

host::Status Act(const Action& action) {
  host::Status status;
  try {
    status = action();
  } catch (const CLI::ParseError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    status = host::Status(host::Code::kInternal, error.what());
  }
  if ((std::fflush(stdout) != 0 || std::ferror(stdout) != 0) && status.ok())
    return host::Status(host::Code::kDataLoss, "standard output could not be written");
  return status;
}

}  // namespace

std::string ProgramFolder() {
  char path[PATH_MAX];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof(path));
  if (size <= 0 || size == static_cast<ssize_t>(sizeof(path))) return {};
  const std::string program(path, static_cast<size_t>(size));
  return program.substr(0, program.rfind('/'));
}

int Main(int argc, const char* const* argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of who writes it
  // The process is ours: a plugin that ends it is named.
  setenv("TENON_NAME_CRASHES", "1", 0);
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  const bool json = std::find(words.begin(), std::find(words.begin(), words.end(), "--"), "--json") !=
                    std::find(words.begin(), words.end(), "--");
  CLI::App app("Tenon: a dataflow engine in which everything is a plugin", "tenon");
  Action action;
  app.require_subcommand(1);
  AddVersionTo(app);
  AddCommands(app, action);
  AddFooterTo(app);
  try {
    app.parse(argc, argv);
    const host::Status status = Act(action);
    return status.ok() ? 0 : PrintError(CommandName(app), status, kWorkFailed, json);
  } catch (const CLI::Success& help) {
    return app.exit(help);  // prints the help or the version
  } catch (const CLI::ParseError& error) {
    return RefuseCommandLine(app, error, words, json);
  } catch (const std::bad_alloc&) {
    std::fputs("tenon: RESOURCE_EXHAUSTED: the system has no memory left\n", stderr);  // nor for a text about it
    return kWorkFailed;
  }
}

}  // namespace tenon::cli
