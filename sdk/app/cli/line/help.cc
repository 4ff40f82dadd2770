// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/line/help.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "sdk/app/cli/command.h"
#include "sdk/app/cli/line/slips.h"
#include "sdk/app/cli/line/topics.h"
#include "sdk/app/cli/line/wrong_flag.h"
#include "tenon/bytes/near_miss.h"

namespace tenon::cli {
namespace {

using host::Status;

std::string TopicList() {
  size_t width = 0;
  for (const Topic& topic : Topics()) width = std::max(width, topic.name.size());
  std::string text;
  for (const Topic& topic : Topics()) text += fmt::format("  tenon help {:<{}}  {}\n", topic.name, width, topic.about);
  return text;
}

CLI::App* FindCommand(CLI::App& app, const std::string& name) {
  const auto found = app.get_subcommands([&](const CLI::App* each) { return each->get_name() == name; });
  return found.empty() ? nullptr : found.front();
}

[[noreturn]] void NoTopic(CLI::App& app, const std::string& name) {
  sdk::NearMiss near(name);
  std::string names;
  for (const Topic& topic : Topics()) {
    near.Try(topic.name);
    names += (names.empty() ? "" : ", ") + std::string(topic.name);
  }
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    near.Try(command->get_name());
  const std::string hint = near.Hint();
  WrongFlag("TOPIC",
            "there is no help on " + Quoted(name) + (hint.empty() ? "; topics are the commands, and " + names : hint));
}

Status Help(CLI::App& app, const std::vector<std::string>& words) {
  CLI::App* at = &app;
  std::string name = "tenon";
  for (const std::string& word : words) {
    const Topic* topic = words.size() == 1 ? FindTopic(word) : nullptr;
    if (topic != nullptr) {
      fmt::print("{}", topic->text);
      return Status();
    }
    CLI::App* command = FindCommand(*at, word);
    if (command == nullptr) NoTopic(app, word);
    at = command;
    name += " " + word;
  }
  // Its own, and not that of the command that was chosen.
  fmt::print("{}", at->get_formatter()->make_help(at, name, CLI::AppFormatMode::Normal));
  return Status();
}

}  // namespace

std::string VersionText() {
  return fmt::format("tenon {}\nworkers: protocol {}\nplugins: ABI {}.{}, layout {:016x}", host::Version(),
                     TENON_PROTOCOL, TENON_ABI_MAJOR, TENON_ABI_MINOR, TENON_LAYOUT_HASH);
}

void AddVersionTo(CLI::App& app) {
  app.set_version_flag("-V,--version", VersionText(),
                       "Print the versions: of Tenon, of the workers' protocol and of the plugins' ABI");
  app.get_formatter()->label("Positionals", "Words");
}

void AddFooterTo(CLI::App& app) {
  app.footer(
      "Examples:\n"
      "  tenon inspect model                              what stands in it\n"
      "  tenon run model --feed x=x.npy --fetch y=y.npy   run it on arrays from files\n"
      "  tenon plugins                                    what is loaded, what is not, and why\n\n"
      "Exit codes: 0 done; 1 the work failed; 2 the command line is wrong.\n"
      "Environment: TENON_PLUGIN_PATH, TF_CONFIG, NO_COLOR and others: `tenon help environment`.\n\n"
      "More:\n" +
      TopicList());
}

void AddHelpCommand(CLI::App& app, Action& action) {
  auto words = std::make_shared<std::vector<std::string>>();
  CLI::App* help = app.add_subcommand("help", "Explain a command, or what belongs to none");
  help->add_option("TOPIC", *words, "A command, or a topic")->type_name("");
  help->footer("Topics:\n" + TopicList());
  help->callback([words, &app, &action] { action = [words, &app] { return Help(app, *words); }; });
}

}  // namespace tenon::cli
