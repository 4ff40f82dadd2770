// SPDX-License-Identifier: Apache-2.0
// `tenon ops`: the ops of the loaded packages, one of them at length, or C++ wrappers of all.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <vector>

#include "sdk/cli/command.h"
#include "sdk/cli/flags.h"
#include "sdk/cli/generate_ops.h"
#include "sdk/cli/json.h"
#include "sdk/cli/signature.h"
#include "sdk/cli/table.h"
#include "tenon/train/file.h"

namespace tenon::cli {
namespace {

using host::Runtime;
using host::Status;

struct OpsArguments {
  std::string name;
  std::string generate_cpp;
  std::string from;
  bool json = false;
  RuntimeFlags runtime;
};

std::string Copy(tenon_span span) { return std::string(host::Text(span)); }

// Kernels of one op, or of all for "".
Json KernelsJson(const Runtime& runtime, std::string_view op) {
  Json kernels = Json::array();
  for (const tenon_kernel_info& kernel : runtime.Kernels()) {
    if (host::Text(kernel.op) != op) continue;
    kernels.push_back({{"device_type", Copy(kernel.device_type)},
                       {"plugin", Copy(kernel.plugin)},
                       {"types", Copy(kernel.types)},
                       {"priority", kernel.priority}});
  }
  return kernels;
}

Json OpJson(const tenon_op_info& op) {
  return {{"name", Copy(op.name)},
          {"plugin", Copy(op.plugin)},
          {"inputs", Copy(op.inputs)},
          {"outputs", Copy(op.outputs)},
          {"attrs", Copy(op.attrs)},
          {"has_gradient", op.has_gradient != 0},
          {"stateful", (op.traits & TENON_OP_STATEFUL) != 0},
          {"doc", Copy(op.doc)}};
}

Status ShowOp(const Runtime& runtime, const OpsArguments& arguments) {
  TENON_TRY_ASSIGN(const tenon_op_info op, runtime.FindOp(arguments.name));
  const Json kernels = KernelsJson(runtime, arguments.name);
  if (arguments.json) {
    Json json = OpJson(op);
    json["kernels"] = kernels;
    PrintJson(json);
    return Status();
  }
  fmt::print("{}  (from {})\n", host::Text(op.name), host::Text(op.plugin));
  if (op.doc.size > 0) fmt::print("{}\n", Trim(host::Text(op.doc)));
  fmt::print("\n  inputs    {}\n  outputs   {}\n", host::Text(op.inputs), host::Text(op.outputs));
  for (const std::string& attr : SplitOutside(host::Text(op.attrs), ';')) {
    if (!Trim(attr).empty()) fmt::print("  attr      {}\n", Trim(attr));
  }
  fmt::print("  gradient  {}\n\n", op.has_gradient != 0 ? "yes" : "no");
  Table table({"KERNEL FOR", "PLUGIN", "PRIORITY", "TYPES"});
  for (const Json& kernel : kernels) {
    table.Add(
        {kernel["device_type"], kernel["plugin"], std::to_string(kernel["priority"].get<int>()), kernel["types"]});
  }
  if (kernels.empty())
    fmt::print("  no kernel is loaded\n");
  else
    fmt::print("{}", table.Format(2));
  return Status();
}

Status ListOps(const Runtime& runtime, const OpsArguments& arguments) {
  Json json = Json::array();
  Table table({"OP", "PLUGIN", "SIGNATURE"});
  for (const tenon_op_info& op : runtime.Ops()) {
    json.push_back(OpJson(op));
    table.Add(
        {Copy(op.name), Copy(op.plugin), fmt::format("({}) -> ({})", host::Text(op.inputs), host::Text(op.outputs))});
  }
  if (arguments.json)
    PrintJson(json);
  else
    fmt::print("{}", table.Format());
  return Status();
}

Status WriteWrappers(const Runtime& runtime, const std::string& path, const std::string& from) {
  std::vector<Signature> signatures;
  for (const tenon_op_info& op : runtime.Ops()) {
    if (!from.empty() && host::Text(op.plugin) != from) continue;
    TENON_TRY_ASSIGN(Signature signature, ParseSignature(op));
    signatures.push_back(std::move(signature));
  }
  if (signatures.empty()) {
    return Status(host::Code::kNotFound,
                  "no op is loaded" + (from.empty() ? "" : " from '" + from + "'; `tenon plugins` lists what is"));
  }
  TENON_TRY_ASSIGN(const std::string text, GenerateOps(signatures));
  return train::ReplaceFile(path, {text}, train::Durability::kQuick);
}

Status Ops(const OpsArguments& arguments) {
  TENON_TRY_ASSIGN(const Runtime runtime, arguments.runtime.Create());
  if (!arguments.generate_cpp.empty()) return WriteWrappers(runtime, arguments.generate_cpp, arguments.from);
  return arguments.name.empty() ? ListOps(runtime, arguments) : ShowOp(runtime, arguments);
}

}  // namespace

void AddOpsCommand(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<OpsArguments>();
  CLI::App* command = app.add_subcommand("ops", "List the ops, or show one with its kernels");
  command->add_option("NAME", arguments->name, "One op")->type_name("");
  command->add_option("--generate-cpp", arguments->generate_cpp, "Write a C++ header with a function for each op")
      ->type_name("FILE");
  command->add_option("--from", arguments->from, "With --generate-cpp: only the ops of this plugin")
      ->type_name("PLUGIN");
  command->add_flag("--json", arguments->json, "Print JSON");
  arguments->runtime.AddTo(*command);
  command->callback([arguments, &action] { action = [arguments] { return Ops(*arguments); }; });
}

}  // namespace tenon::cli
