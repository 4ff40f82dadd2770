// SPDX-License-Identifier: Apache-2.0
// `tenon reset`: empties containers of a cluster's workers.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "sdk/app/cli/command.h"
#include "sdk/app/cli/flags.h"
#include "sdk/app/cli/json.h"
#include "sdk/app/cli/line/wrong_flag.h"

namespace tenon::cli {
namespace {

using host::Status;

struct ResetArguments {
  std::vector<std::string> containers;
  bool json = false;
  RuntimeFlags runtime;
  SessionFlags session;
};

Status Reset(const ResetArguments& arguments) {
  if (arguments.session.Given("master").empty())
    WrongFlag("--master",
              "name the cluster whose containers are to be emptied, by the address of one of its tasks; containers of "
              "this command's process are new");
  TENON_TRY_ASSIGN(const host::Runtime runtime, arguments.runtime.Create());
  TENON_TRY_ASSIGN(const host::SessionOptions options, arguments.session.Options());
  TENON_TRY_ASSIGN(const host::Session session, host::Session::Create(runtime, options));
  const std::vector<std::string> containers =
      arguments.containers.empty() ? std::vector<std::string>{""} : arguments.containers;
  TENON_TRY_ASSIGN(const uint64_t dropped, session.ResetContainers(containers));
  if (arguments.json) {
    PrintJson({{"containers", containers}, {"dropped", dropped}});
    return Status();
  }
  fmt::print("dropped {} variables, queues and other objects\n", dropped);
  return Status();
}

}  // namespace

void AddResetCommand(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<ResetArguments>();
  CLI::App* reset = app.add_subcommand("reset", "Empty containers of a cluster: variables, queues, tables");
  reset->add_option("CONTAINER", arguments->containers, "A container (default: the unnamed one); may be repeated");
  reset->add_flag("--json", arguments->json, "Print what was dropped as JSON");
  arguments->runtime.AddTo(*reset);
  arguments->session.AddTo(*reset);
  reset->footer(
      "Sessions stay open: what they run next finds variables without values, and may initialise them again.\n\n"
      "Examples:\n"
      "  tenon reset --master grpc://host:2222\n"
      "  tenon reset --master grpc://host:2222 experiment1 experiment2");
  reset->callback([arguments, &action] { action = [arguments] { return Reset(*arguments); }; });
}

}  // namespace tenon::cli
