// SPDX-License-Identifier: Apache-2.0
#include "sdk/cli/command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>

namespace tenon::cli {
namespace {

constexpr int kWorkFailed = 1;
constexpr int kWrongCommandLine = 2;

void AddCommands(CLI::App& app, Action& action) {
  AddRunCommand(app, action);
  AddTrainCommand(app, action);
  AddInspectCommand(app, action);
  AddPlaceCommand(app, action);
  AddWorkerCommand(app, action);
  AddClusterCommand(app, action);
  AddPluginsCommand(app, action);
  AddOpsCommand(app, action);
  AddDevicesCommand(app, action);
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

void PrintError(const std::string& command, std::string message) {
  while (message.ends_with('\n')) message.pop_back();
  std::fprintf(stderr, "%s: %s\n", command.c_str(), message.c_str());
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
  CLI::App app("Tenon: a dataflow engine in which everything is a plugin", "tenon");
  Action action;
  app.set_version_flag("--version", "tenon " + std::string(host::Version()));
  app.require_subcommand(1);
  AddCommands(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);  // prints the help or the version
  } catch (const CLI::ParseError& error) {
    const std::string command = CommandName(app);
    PrintError(command, std::string(error.what()) + "; `" + command + " --help` shows what it takes");
    return kWrongCommandLine;
  }
  host::Status status;
  try {
    status = action();
  } catch (const std::bad_alloc&) {
    std::fputs("tenon: RESOURCE_EXHAUSTED: the system has no memory left\n", stderr);  // nor for a text about it
    return kWorkFailed;
  } catch (const std::exception& error) {
    status = host::Status(host::Code::kInternal, error.what());
  }
  if (std::fflush(stdout) != 0 && status.ok()) {
    status = host::Status(host::Code::kDataLoss, "standard output could not be written");
  }
  if (status.ok()) return 0;
  PrintError(CommandName(app), status.ToString());
  return kWorkFailed;
}

}  // namespace tenon::cli
