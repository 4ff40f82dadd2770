// SPDX-License-Identifier: Apache-2.0
// `tenon plugins`: what was loaded, what was not, why, and what to do. `tenon devices`: the devices that they brought.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "sdk/app/cli/command.h"
#include "sdk/app/cli/flags.h"
#include "sdk/app/cli/json.h"
#include "sdk/app/cli/table.h"
#include "sdk/app/cli/terminal.h"

namespace tenon::cli {
namespace {

using host::Runtime;
using host::Status;

struct ListArguments {
  bool json = false;
  RuntimeFlags runtime;
};

std::string OutcomeName(uint32_t outcome) {
  switch (outcome) {
    case TENON_LOAD_LOADED:
      return "loaded";
    case TENON_LOAD_REJECTED:
      return "rejected";
    case TENON_LOAD_NOT_CHOSEN:
      return "not chosen";
    case TENON_LOAD_ALREADY:
      return "already loaded";
    case TENON_LOAD_UNLOADED:
      return "unloaded";
    default:
      return "unknown";
  }
}

std::string FileName(tenon_span path) {
  const std::string_view text = host::Text(path);
  return std::string(text.substr(text.rfind('/') + 1));
}

Json ReportJson(const tenon_load_report& report) {
  return {{"id", KeptText(report.id)},
          {"version", KeptText(report.version)},
          {"outcome", OutcomeName(report.outcome)},
          {"path", KeptText(report.path)},
          {"reason", KeptText(report.reason)},
          {"text", KeptText(report.text)},
          {"missing", KeptText(report.missing)},
          {"hint", KeptText(report.hint)},
          {"ops", report.op_count},
          {"kernels", report.kernel_count},
          {"devices", report.device_count}};
}

Status ListPlugins(const ListArguments& arguments) {
  TENON_TRY_ASSIGN(Runtime runtime, arguments.runtime.Create());
  runtime.OpenAll();
  const auto reports = runtime.Reports();
  if (arguments.json) {
    Json json = Json::array();
    for (const tenon_load_report& report : reports) json.push_back(ReportJson(report));
    PrintJson(json);
    return Status();
  }
  Table table({"PLUGIN", "VERSION", "OUTCOME", "OPS", "KERNELS", "DEVICES", "FILE"});
  const size_t width = TerminalWidth();
  std::string troubles;
  for (const tenon_load_report& report : reports) {
    table.Add({KeptText(report.id), KeptText(report.version), OutcomeName(report.outcome),
               std::to_string(report.op_count), std::to_string(report.kernel_count),
               std::to_string(report.device_count), FileName(report.path)});
    if (report.outcome != TENON_LOAD_REJECTED) continue;
    troubles +=
        "\n" + Lines(KeptText(report.path) + ": " + KeptText(report.reason) + ": " + KeptText(report.text), width);
    if (report.missing.size > 0) troubles += Lines("  missing: " + KeptText(report.missing), width);
    if (report.hint.size > 0) troubles += Lines("  what helps: " + KeptText(report.hint), width);
  }
  table.Print();
  fmt::print("{}", troubles);
  return Status();
}

Status ListDevices(const ListArguments& arguments) {
  TENON_TRY_ASSIGN(const Runtime runtime, arguments.runtime.Create());
  Json json = Json::array();
  Table table({"DEVICE", "TYPE", "PLUGIN", "MEMORY", "KINDS", "QUEUES", "MODEL"});
  for (const tenon_device_info& device : runtime.Devices()) {
    json.push_back({{"name", KeptText(device.name)},
                    {"type", KeptText(device.type)},
                    {"plugin", KeptText(device.plugin)},
                    {"model", KeptText(device.model)},
                    {"problem", KeptText(device.problem)},
                    {"memory_bytes", device.memory_bytes},
                    {"memory_kinds", KeptText(device.memory_kinds)},
                    {"compute_queues", device.compute_queues},
                    {"copy_queues", device.copy_queues}});
    const std::string queues =
        device.compute_queues == 0 ? "" : fmt::format("{} compute, {} copy", device.compute_queues, device.copy_queues);
    const std::string memory =
        device.memory_bytes == 0 ? "" : fmt::format("{:.1f} GiB", static_cast<double>(device.memory_bytes) / (1 << 30));
    table.Add({device.name.size > 0 ? KeptText(device.name) : "(none)", KeptText(device.type), KeptText(device.plugin),
               memory, KeptText(device.memory_kinds), queues,
               KeptText(device.problem.size > 0 ? device.problem : device.model)});
  }
  if (arguments.json)
    PrintJson(json);
  else
    table.Print();
  return Status();
}

void AddListCommand(CLI::App& app, Action& action, const char* name, const char* text,
                    Status (*list)(const ListArguments&)) {
  auto arguments = std::make_shared<ListArguments>();
  CLI::App* command = app.add_subcommand(name, text);
  command->add_flag("--json", arguments->json, "Print JSON");
  arguments->runtime.AddTo(*command);
  command->callback([arguments, list, &action] { action = [arguments, list] { return list(*arguments); }; });
}

}  // namespace

void AddPluginsCommand(CLI::App& app, Action& action) {
  AddListCommand(app, action, "plugins", "List the plugins: what was loaded, what was not, and why", ListPlugins);
}

void AddDevicesCommand(CLI::App& app, Action& action) {
  AddListCommand(app, action, "devices", "List the devices that the plugins brought", ListDevices);
}

}  // namespace tenon::cli
