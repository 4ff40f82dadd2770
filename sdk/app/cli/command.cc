// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <memory>
#include <string_view>

#include "sdk/app/cli/line/error_line.h"
#include "sdk/app/cli/line/help.h"
#include "sdk/app/cli/line/slips.h"

namespace tenon::cli {
namespace {

struct Command {
  std::string_view name;
  void (*add)(CLI::App& app, Action& action);
};
constexpr Command kCommands[] = {
    {"run", &AddRunCommand},         {"train", &AddTrainCommand},     {"inspect", &AddInspectCommand},
    {"place", &AddPlaceCommand},     {"compare", &AddCompareCommand}, {"worker", &AddWorkerCommand},
    {"reset", &AddResetCommand},     {"cluster", &AddClusterCommand}, {"records", &AddRecordsCommand},
    {"plugins", &AddPluginsCommand}, {"ops", &AddOpsCommand},         {"devices", &AddDevicesCommand},
    {"help", &AddHelpCommand}};

// The parser, with all commands or with one alone: flags of the others are a third of the time of a small run.
struct Parser {
  explicit Parser(std::string_view only) : app("Tenon: a dataflow engine in which everything is a plugin", "tenon") {
    app.require_subcommand(1);
    AddVersionTo(app);
    for (const Command& command : kCommands)
      if (only.empty() || only == command.name) command.add(app, action);
    AddFooterTo(app);
  }
  CLI::App app;
  Action action;
};

// The command that the words begin with, if it can be read without the others: "" where help may be asked for.
std::string_view CommandToRead(const std::vector<std::string>& words) {
  const auto asks = [](const std::string& word) { return word == "-h" || word.starts_with("--help"); };
  if (words.empty() || words[0] == "help" || std::any_of(words.begin(), words.end(), asks)) return "";
  const auto is_first = [&](const Command& each) { return each.name == words[0]; };
  const auto* const found = std::find_if(std::begin(kCommands), std::end(kCommands), is_first);
  return found == std::end(kCommands) ? "" : found->name;
}

// NULL: the words are to be read with all commands, of which who mistyped is told.
std::unique_ptr<Parser> ReadOneCommand(int argc, const char* const* argv, const std::vector<std::string>& words) {
  const std::string_view only = CommandToRead(words);
  if (only.empty()) return nullptr;
  auto parser = std::make_unique<Parser>(only);
  try {
    parser->app.parse(argc, argv);
    return parser;
  } catch (const CLI::Error&) {
    return nullptr;
  }
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
  std::unique_ptr<Parser> parser;
  try {
    parser = ReadOneCommand(argc, argv, words);
    if (parser == nullptr) {
      parser = std::make_unique<Parser>("");
      parser->app.parse(argc, argv);
    }
    const host::Status status = Act(parser->action);
    return status.ok() ? 0 : PrintError(CommandName(parser->app), status, kWorkFailed, json);
  } catch (const CLI::Success& help) {
    return parser->app.exit(help);  // prints the help or the version
  } catch (const CLI::ParseError& error) {
    return RefuseCommandLine(parser->app, error, words, json);
  } catch (const std::bad_alloc&) {
    std::fputs("tenon: RESOURCE_EXHAUSTED: the system has no memory left\n", stderr);  // nor for a text about it
    return kWorkFailed;
  }
}

}  // namespace tenon::cli
