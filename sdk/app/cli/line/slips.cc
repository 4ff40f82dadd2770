// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/line/slips.h"

#include <CLI/CLI.hpp>

#include "tenon/bytes/near_miss.h"

namespace tenon::cli {
namespace {

const auto kShown = [](const CLI::App* each) { return !each->get_name().empty(); };

bool HasCommands(const CLI::App& app) { return !app.get_subcommands(kShown).empty(); }

std::string CommandsOf(const CLI::App& app) {
  std::string names;
  for (const CLI::App* each : app.get_subcommands(kShown)) names += (names.empty() ? "" : ", ") + each->get_name();
  return names;
}

const CLI::App* FindCommandNamed(const CLI::App& app, const std::string& word) {
  for (const CLI::App* each : app.get_subcommands(kShown))
    if (each->get_name() == word) return each;
  return nullptr;
}

// "--fetch", "-V"; of `--fetch,--get` each.
std::vector<std::string> FlagsOf(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_snames()) flags.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

std::string NoFlag(const CLI::App& app, const std::string& flag) {
  sdk::NearMiss near(flag);
  const std::vector<std::string> flags = FlagsOf(app);
  for (const std::string& known : flags) near.Try(known);
  return "no flag " + Quoted(flag) + near.Hint();
}

const auto kTakesWords = [](const CLI::Option* option) { return option->get_positional(); };

size_t ArgumentsOf(const CLI::App& app) { return app.get_options(kTakesWords).size(); }

// "; or give GRAPH": what may stand where a command could.
std::string WordsBesides(const CLI::App& app) {
  std::string words;
  for (const CLI::Option* option : app.get_options(kTakesWords))
    words += (words.empty() ? "; or give " : " ") + option->get_name();
  return words;
}

class Walk {
 public:
  explicit Walk(const CLI::App& app) : at_(&app), slip_{app.get_name(), ""} {}

  Slip Over(const std::vector<std::string>& words) {
    for (size_t i = 0; i < words.size() && slip_.what.empty() && words[i] != "--"; ++i) {
      const bool is_flag = words[i].size() > 1 && words[i][0] == '-';
      if (is_flag)
        i += Flag(words[i]);
      else
        Word(words[i]);
    }
    if (slip_.what.empty() && HasCommands(*at_) && arguments_ == 0)
      slip_.what = "a command is missing; there are: " + CommandsOf(*at_) + WordsBesides(*at_);
    return slip_;
  }

 private:
  // How many words after it are its value.
  size_t Flag(const std::string& word) {
    const size_t equals = word.find('=');
    const std::string flag = word.substr(0, equals);
    const CLI::Option* option = at_->get_option_no_throw(flag);
    if (option == nullptr) slip_.what = NoFlag(*at_, flag);
    return option == nullptr || equals != std::string::npos ? 0
                                                            : static_cast<size_t>(option->get_items_expected_max() > 0);
  }

  void Word(const std::string& word) {
    if (!HasCommands(*at_) || arguments_ > 0) {
      if (++arguments_ > ArgumentsOf(*at_)) slip_.what = Quoted(word) + " is one word too many";
    } else if (const CLI::App* command = FindCommandNamed(*at_, word)) {
      at_ = command;
      slip_.command += " " + word;
    } else if (ArgumentsOf(*at_) > 0) {
      ++arguments_;  // a file, where a command could stand
    } else {
      slip_.what = NoCommand(*at_, word);
    }
  }

  const CLI::App* at_;
  Slip slip_;
  size_t arguments_ = 0;
};

}  // namespace

std::string NoCommand(const CLI::App& app, const std::string& word) {
  sdk::NearMiss near(word);
  for (const CLI::App* each : app.get_subcommands(kShown)) near.Try(each->get_name());
  const std::string hint = near.Hint();
  return "no command " + Quoted(word) + (hint.empty() ? "; there are: " + CommandsOf(app) : hint);
}

std::string Join(std::string text, const std::string& more) {
  if (more.empty()) return text;
  text += text.ends_with('?') ? " " : "; ";
  return text + more;
}

std::string Quoted(std::string_view word) {
  constexpr size_t kMost = 200;
  if (word.size() <= kMost) return "'" + std::string(word) + "'";
  return "'" + std::string(word.substr(0, kMost)) + "...' (" + std::to_string(word.size()) + " bytes)";
}

Slip FindSlip(const CLI::App& app, const std::vector<std::string>& words) { return Walk(app).Over(words); }

}  // namespace tenon::cli
