// SPDX-License-Identifier: Apache-2.0
// What was mistyped in a command line: which word, and which word it may have been meant for.
#ifndef TENON_CLI_LINE_SLIPS_H_
#define TENON_CLI_LINE_SLIPS_H_

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace tenon::cli {

struct Slip {
  std::string command;  // that was being read: "tenon train"
  std::string what;     // "no command 'rnu'; did you mean 'run'?"; "": no word is wrong by itself
};

// The first word that the commands do not know. words: without the program's name.
Slip FindSlip(const CLI::App& app, const std::vector<std::string>& words);

// "no command 'rnu'; did you mean 'run'?": of a word where app has commands.
std::string NoCommand(const CLI::App& app, const std::string& word);

// A text and what follows it: after a question a sentence may end.
std::string Join(std::string text, const std::string& more);

// A word of the command line, no longer than a line wants it.
std::string Quoted(std::string_view word);

}  // namespace tenon::cli

#endif  // TENON_CLI_LINE_SLIPS_H_
