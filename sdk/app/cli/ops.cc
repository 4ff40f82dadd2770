// SPDX-License-Identifier: Apache-2.0
// `tenon ops`: the ops of the loaded packages, one of them at length, C++ wrappers of all, or those that a model needs.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <vector>

#include "sdk/app/cli/command.h"
#include "sdk/app/cli/flags.h"
#include "sdk/app/cli/generate_ops.h"
#include "sdk/app/cli/json.h"
#include "sdk/app/cli/line/printable.h"
#include "sdk/app/cli/line/slips.h"
#include "sdk/app/cli/line/wrong_flag.h"
#include "sdk/app/cli/model_flags.h"
#include "sdk/app/cli/signature.h"
#include "sdk/app/cli/signature_json.h"
#include "sdk/app/cli/table.h"
#include "sdk/app/cli/tensor_names.h"
#include "tenon/data/file.h"
#include "tenon/model/coverage.h"

namespace tenon::cli {
namespace {

using host::Result;
using host::Runtime;
using host::Status;

struct OpsArguments {
  std::string name;
  std::string coverage;
  std::string tags, signature;
  std::vector<std::string> fetches;
  std::string generate_cpp;
  std::string from;
  bool json = false;
  RuntimeFlags runtime;
};

// Kernels of one op, or of all for "".
Json KernelsJson(const Runtime& runtime, std::string_view op) {
  Json kernels = Json::array();
  for (const tenon_kernel_info& kernel : runtime.Kernels()) {
    if (host::Text(kernel.op) != op) continue;
    kernels.push_back({{"device_type", KeptText(kernel.device_type)},
                       {"plugin", KeptText(kernel.plugin)},
                       {"types", KeptText(kernel.types)},
                       {"dtypes", KernelTypesJson(host::Text(kernel.types))},
                       {"priority", kernel.priority}});
  }
  return kernels;
}

Result<Json> OpJson(const tenon_op_info& op) {
  TENON_TRY_ASSIGN(const OpSignature signature, ParseSignature(op));
  TENON_TRY_ASSIGN(const Json parsed, SignatureJson(signature));
  return Json{{"name", KeptText(op.name)},
              {"plugin", KeptText(op.plugin)},
              {"inputs", KeptText(op.inputs)},
              {"outputs", KeptText(op.outputs)},
              {"attrs", KeptText(op.attrs)},
              {"signature", parsed},
              {"has_gradient", op.has_gradient != 0},
              {"stateful", (op.traits & TENON_OP_STATEFUL) != 0},
              {"properties", KeptText(op.properties)},
              {"doc", KeptText(op.doc)}};
}

Status ShowOp(const Runtime& runtime, const OpsArguments& arguments) {
  const Result<tenon_op_info> found = runtime.FindOp(arguments.name);
  if (!found.ok()) WrongFlag("NAME", found.status().message());
  const tenon_op_info op = *found;
  const Json kernels = KernelsJson(runtime, arguments.name);
  if (arguments.json) {
    TENON_TRY_ASSIGN(Json json, OpJson(op));
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
  if (op.properties.size > 0) fmt::print("  elements  {}\n", host::Text(op.properties));
  fmt::print("  gradient  {}\n\n", op.has_gradient != 0 ? "yes" : "no");
  Table table({"KERNEL FOR", "PLUGIN", "PRIORITY", "TYPES"});
  for (const Json& kernel : kernels) {
    table.Add(
        {kernel["device_type"], kernel["plugin"], std::to_string(kernel["priority"].get<int>()), kernel["types"]});
  }
  if (kernels.empty())
    fmt::print("  no kernel is loaded\n");
  else
    table.Print(2);
  return Status();
}

Status ListOps(const Runtime& runtime, const OpsArguments& arguments) {
  Json json = Json::array();
  Table table({"OP", "PLUGIN", "SIGNATURE"});
  for (const tenon_op_info& op : runtime.Ops()) {
    if (arguments.json) {
      TENON_TRY_ASSIGN(Json one, OpJson(op));
      json.push_back(std::move(one));
      continue;
    }
    table.Add({KeptText(op.name), KeptText(op.plugin),
               fmt::format("({}) -> ({})", host::Text(op.inputs), host::Text(op.outputs))});
  }
  if (arguments.json)
    PrintJson(json);
  else
    table.Print();
  return Status();
}

Json UsesJson(const std::vector<model::OpUse>& uses) {
  Json json = Json::array();
  for (const model::OpUse& use : uses) {
    Json entry = {{"op", use.op}, {"nodes", use.nodes}, {"plugin", use.package}, {"missing", use.package.empty()}};
    if (use.package.empty()) {
      entry["why"] = use.why;
      for (const model::OpUse::Place& place : use.places)
        entry["places"].push_back({{"node", place.node}, {"function", place.function}});
    }
    json.push_back(std::move(entry));
  }
  return json;
}

void PrintUses(const std::vector<model::OpUse>& uses) {
  Table table({"OP", "NODES", "PLUGIN"});
  for (const model::OpUse& use : uses)
    table.Add({use.op, std::to_string(use.nodes), use.package.empty() ? "missing" : use.package});
  table.Print();
  for (const model::OpUse& use : uses) {
    if (!use.package.empty()) continue;
    fmt::print("\n{}: {}\n", Printable(use.op), Printable(use.why));
    for (const model::OpUse::Place& place : use.places) {
      fmt::print("  node '{}'{}\n", Printable(place.node),
                 place.function.empty() ? "" : " in function '" + Printable(place.function) + "'");
    }
    const auto more = use.nodes - static_cast<int64_t>(use.places.size());
    if (more > 0) fmt::print("  and {} more\n", more);
  }
}

// What the user names is reached, or else what the signatures reach, or the whole graph.
Result<std::vector<const data::NodeView*>> ReachedNodes(const OpsArguments& arguments, const ModelFlags& flags,
                                                        const model::ModelFile& file, const model::GraphIndex& index) {
  const model::Signature* named = nullptr;
  if (!flags.signature.empty() || !arguments.fetches.empty()) {
    TENON_TRY_ASSIGN(named, flags.Choose(file));
  }
  if (arguments.fetches.empty()) return model::ReachOfModel(file, index, named);
  TENON_TRY_ASSIGN(const TensorNames names, TensorNames::Of(file, named));
  std::vector<std::string> targets;
  for (const std::string& fetch : arguments.fetches) {
    TENON_TRY_ASSIGN(std::string target, names.Fetch(fetch));
    targets.push_back(std::move(target));
  }
  return index.Reach({}, targets);
}

// Fails when an op is missing, so that a script can ask.
Status ShowCoverage(const Runtime& runtime, const OpsArguments& arguments) {
  const ModelFlags flags{arguments.coverage, arguments.tags, arguments.signature};
  const std::string where = "graph '" + arguments.coverage + "'";
  TENON_TRY_ASSIGN(const model::ModelFile file, flags.Open());
  TENON_TRY_ASSIGN(const model::GraphIndex index, IndexOf(file));
  const Result<std::vector<const data::NodeView*>> nodes = ReachedNodes(arguments, flags, file, index);
  if (!nodes.ok()) return nodes.status().Annotate(where);
  const std::vector<model::OpUse> uses = model::FindCoverage(runtime, index, *nodes);
  if (arguments.json) PrintJson(UsesJson(uses));
  else PrintUses(uses);
  const auto missing =
      std::count_if(uses.begin(), uses.end(), [](const model::OpUse& use) { return use.package.empty(); });
  if (missing == 0) return Status();
  return Status(host::Code::kNotFound, fmt::format("{}: {} of {} ops are missing", where, missing, uses.size()));
}

Status WriteWrappers(const Runtime& runtime, const std::string& path, const std::string& from) {
  std::vector<OpSignature> signatures;
  for (const tenon_op_info& op : runtime.Ops()) {
    if (!from.empty() && host::Text(op.plugin) != from) continue;
    TENON_TRY_ASSIGN(OpSignature signature, ParseSignature(op));
    signatures.push_back(std::move(signature));
  }
  if (signatures.empty() && !from.empty())
    WrongFlag("--from", "no op is loaded from " + Quoted(from) + "; `tenon plugins` lists what is");
  if (signatures.empty()) return Status(host::Code::kNotFound, "no op is loaded");
  TENON_TRY_ASSIGN(const std::string text, GenerateOps(signatures));
  return data::ReplaceFile(path, {text}, data::Durability::kQuick);
}

Status Ops(const OpsArguments& arguments) {
  TENON_TRY_ASSIGN(const Runtime runtime, arguments.runtime.Create());
  if (!arguments.generate_cpp.empty()) return WriteWrappers(runtime, arguments.generate_cpp, arguments.from);
  if (!arguments.coverage.empty()) return ShowCoverage(runtime, arguments);
  return arguments.name.empty() ? ListOps(runtime, arguments) : ShowOp(runtime, arguments);
}

}  // namespace

void AddOpsCommand(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<OpsArguments>();
  CLI::App* command = app.add_subcommand("ops", "List the ops, show one with its kernels, or those that a model needs");
  command->add_option("NAME", arguments->name, "One op")->type_name("");
  command->add_option("--generate-cpp", arguments->generate_cpp, "Write a C++ header with a function for each op")
      ->type_name("FILE");
  command->add_option("--from", arguments->from, "With --generate-cpp: only the ops of this plugin")
      ->type_name("PLUGIN");
  command
      ->add_option("--coverage", arguments->coverage,
                   "Show which ops a model needs and who has them; fails when one is missing")
      ->type_name("GRAPH");
  command->add_option("--fetch", arguments->fetches, "With --coverage: what this tensor needs; may be repeated")
      ->type_name("NAME")
      ->allow_extra_args(false);
  command
      ->add_option("--signature", arguments->signature,
                   "With --coverage: what this signature needs (default: all of them)")
      ->type_name("NAME");
  command->add_option("--tags", arguments->tags, "With --coverage: which graph of a SavedModel")->type_name("TAGS");
  command->add_flag("--json", arguments->json, "Print JSON");
  arguments->runtime.AddTo(*command);
  command->footer(
      "Examples:\n"
      "  tenon ops MatMul                          its signature, and who has kernels\n"
      "  tenon ops --coverage model                exit code 1 where an op is missing");
  command->callback([arguments, &action] { action = [arguments] { return Ops(*arguments); }; });
}

}  // namespace tenon::cli
