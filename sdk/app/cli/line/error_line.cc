// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/line/error_line.h"

#include <cstdio>

#include "sdk/app/cli/json.h"
#include "sdk/app/cli/line/printable.h"

namespace tenon::cli {
namespace {

std::string WithoutLineEnd(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

std::string ErrorJson(const std::string& command, const host::Status& status, int exit_code) {
  const Json json = {{"error",
                      {{"command", command},
                       {"code", std::string(host::CodeName(status.code()))},
                       {"message", WithoutLineEnd(status.message())},
                       {"exit_code", exit_code}}}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Of a wrong command line the sentence says it all.
std::string ErrorText(const std::string& command, const host::Status& status, int exit_code) {
  return command + ": " +
         Printable(WithoutLineEnd(exit_code == kWrongCommandLine ? status.message() : status.ToString()));
}

}  // namespace

int PrintError(const std::string& command, const host::Status& status, int exit_code, bool json) {
  const std::string text = json ? ErrorJson(command, status, exit_code) : ErrorText(command, status, exit_code);
  std::fprintf(stderr, "%s\n", text.c_str());
  return exit_code;
}

}  // namespace tenon::cli
