// SPDX-License-Identifier: Apache-2.0
// `tenon place`: where the nodes of a graph would run and why, without running it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <unordered_set>

#include "sdk/app/cli/command.h"
#include "sdk/app/cli/flags.h"
#include "sdk/app/cli/json.h"
#include "sdk/app/cli/line/printable.h"
#include "sdk/app/cli/model_flags.h"
#include "sdk/app/cli/table.h"
#include "sdk/app/cli/terminal.h"
#include "sdk/app/cli/tensor_names.h"
#include "sdk/app/cli/timeline/svg_timeline.h"
#include "tenon/data/file.h"
#include "tenon/data/graph_def.h"

namespace tenon::cli {
namespace {

using host::Name;
using host::Runtime;
using host::Session;
using host::Status;

struct PlaceArguments {
  ModelFlags model;
  std::vector<std::string> feeds, fetches, targets;
  bool explain = false;
  bool json = false;
  std::string svg;
  std::string write;
  RuntimeFlags runtime;
  SessionFlags session;
};

// What is not said is what the signature says.
void FillIn(const model::Signature& signature, PlaceArguments* arguments) {
  if (arguments->fetches.empty() && arguments->targets.empty()) {
    for (const model::TensorInfo& output : signature.outputs) arguments->fetches.push_back(output.key);
  }
  if (arguments->feeds.empty()) {
    for (const model::TensorInfo& input : signature.inputs) arguments->feeds.push_back(input.key);
  }
}

// Names become the graph's.
Status Translate(const TensorNames& names, PlaceArguments* arguments) {
  for (std::string& feed : arguments->feeds) {
    TENON_TRY_ASSIGN(feed, names.Feed(feed));
  }
  for (std::string& fetch : arguments->fetches) {
    TENON_TRY_ASSIGN(fetch, names.Fetch(fetch));
  }
  for (const std::string& target : arguments->targets) names.CheckNode("--target", target);
  return Status();
}

// Without one it is taken from the graph: every placeholder is fed, everything that nobody reads is a target.
void FillIn(const data::GraphView& graph, PlaceArguments* arguments) {
  std::unordered_set<std::string_view> read;
  for (const data::NodeView& node : graph.nodes)
    for (std::string_view input : node.inputs) read.insert(data::NodeOfInput(input));
  const bool all = arguments->fetches.empty() && arguments->targets.empty();
  const bool feed = arguments->feeds.empty();
  for (const data::NodeView& node : graph.nodes) {
    if (node.op == "Placeholder") {
      if (feed) arguments->feeds.emplace_back(node.name);
    } else if (all && !read.contains(node.name)) {
      arguments->targets.emplace_back(node.name);
    }
  }
}

// "CPU:0" of a full name, where all are this process's.
std::string Short(const Json& device) {
  const std::string name = device.get<std::string>();
  const size_t at = name.rfind("/device:");
  return at == std::string::npos || !name.starts_with("/job:localhost/") ? name : name.substr(at + 8);
}

void PrintDevices(const Json& placement) {
  fmt::print("predicted step: {}, {} transfers of {}\n\n", SecondsText(placement["seconds"]),
             placement["transfers"].get<int64_t>(), FormatBytes(placement["transfer_bytes"]));
  Table table({"DEVICE", "NODES", "BUSY", "PEAK MEMORY"});
  for (const Json& device : placement["devices"]) {
    table.Add({Short(device["name"]), std::to_string(device["nodes"].get<int64_t>()),
               SecondsText(device["busy_seconds"]), FormatBytes(device["peak_bytes"])});
  }
  table.Print();
  for (const Json& note : placement["notes"])
    fmt::print("{}", Lines("note: " + Printable(note.get<std::string>()), TerminalWidth()));
}

void PrintCosts(const Json& costs) {
  Table table({"OP", "NODES", "STATIC", "MEASURED", "APART BY"});
  for (const Json& cost : costs) {
    const std::string op = cost["op"].get<std::string>();
    table.Add({op.empty() ? "(all)" : op, std::to_string(cost["nodes"].get<int64_t>()),
               SecondsText(cost["static_seconds"]), SecondsText(cost["measured_seconds"]),
               fmt::format("{:.2f} x", cost["ratio"].get<double>())});
  }
  fmt::print("\n");
  table.Print();
}

void PrintPlacedNodes(const Json& placement, bool explain) {
  Table table({"NODE", "OP", "DEVICE", "START", "FINISH", "WHY"});
  for (const Json& node : placement["nodes"]) {
    table.Add({node["name"].get<std::string>(), node["op"].get<std::string>(), Short(node["device"]),
               SecondsText(node["start"]), SecondsText(node["finish"]),
               node[explain ? "why" : "reason"].get<std::string>()});
  }
  fmt::print("\n");
  table.Print();
  if (!explain) return;
  Table transfers({"TRANSFER", "FROM", "TO", "BYTES", "START", "FINISH"});
  for (const Json& span : placement["transfer_spans"]) {
    transfers.Add({span["value"].get<std::string>(), Short(span["from"]), Short(span["to"]), FormatBytes(span["bytes"]),
                   SecondsText(span["start"]), SecondsText(span["finish"])});
  }
  fmt::print("\n");
  transfers.Print();
}

// The nodes that devices' compilers were asked about and left to their kernels.
void PrintRefusals(const Json& refusals) {
  Table table({"NOT COMPILED", "COMPILER", "WHY"});
  for (const Json& refusal : refusals)
    table.Add({refusal["node"].get<std::string>(), refusal["plugin"].get<std::string>(),
               refusal["reason"].get<std::string>()});
  fmt::print("\n");
  table.Print();
}

Status PlaceGraph(PlaceArguments arguments) {
  TENON_TRY_ASSIGN(const Runtime runtime,
                   arguments.runtime.Create());  // whose plugins may bring the file system of the path
  TENON_TRY_ASSIGN(const data::ReadLimit limit, arguments.session.Files());
  TENON_TRY_ASSIGN(const model::ModelFile file, arguments.model.Open(limit.left()));
  TENON_TRY_ASSIGN(const model::Signature* signature, arguments.model.Choose(file));
  const std::string where = "graph '" + arguments.model.graph + "'";
  TENON_TRY_ASSIGN(const TensorNames names, TensorNames::Of(file, signature));
  if (signature != nullptr)
    FillIn(*signature, &arguments);
  else
    FillIn(names.graph(), &arguments);
  TENON_TRY(Translate(names, &arguments));
  TENON_TRY_ASSIGN(const host::SessionOptions options, arguments.session.Options());
  TENON_TRY_ASSIGN(Session session, Session::Create(runtime, options));
  if (Status status = session.Extend(file.graph_def()); !status.ok()) return status.Annotate(where);
  const auto as_names = [](const std::vector<std::string>& texts) {
    return std::vector<Name>(texts.begin(), texts.end());
  };
  host::Result<host::Placement> placed =
      session.Place(as_names(arguments.feeds), as_names(arguments.fetches), as_names(arguments.targets));
  if (!placed.ok()) return placed.status().Annotate(where);
  if (!arguments.write.empty()) TENON_TRY(data::ReplaceFile(arguments.write, {placed->file}, data::Durability::kQuick));
  const Json placement = Json::parse(placed->json);
  if (!arguments.svg.empty())
    TENON_TRY(data::ReplaceFile(arguments.svg, {DrawTimeline(PredictedTimeline(placement))}, data::Durability::kQuick)
                  .Annotate("--svg"));
  if (arguments.json) {
    PrintJson(placement);
    return Status();
  }
  PrintDevices(placement);
  if (placement.contains("costs")) PrintCosts(placement["costs"]);
  PrintPlacedNodes(placement, arguments.explain);
  if (arguments.explain && placement.contains("refusals")) PrintRefusals(placement["refusals"]);
  return Status();
}

}  // namespace

void AddPlaceCommand(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<PlaceArguments>();
  CLI::App* place = app.add_subcommand("place", "Show where each node of a graph would run, and why");
  arguments->model.AddTo(*place);
  const auto names = [place](const char* flag, std::vector<std::string>& into, const char* text) {
    place->add_option(flag, into, text)->type_name("NAME")->allow_extra_args(false);
  };
  names("--feed", arguments->feeds, "A tensor that the step is given (default: every placeholder); may be repeated");
  names("--fetch", arguments->fetches,
        "A tensor that the step gives (default: what nobody reads runs); may be repeated");
  names("--target", arguments->targets, "A node that the step runs; may be repeated");
  place->add_flag("--explain", arguments->explain,
                  "Say for each node what else was possible; list transfers, and what compilers refuse");
  place->add_flag("--json", arguments->json, "Print everything as JSON");
  place->add_option("--svg", arguments->svg, "Draw the predicted time line")->type_name("FILE");
  place->add_option("--write", arguments->write, "Write a placement file, for --placement")->type_name("FILE");
  arguments->runtime.AddTo(*place);
  arguments->session.AddTo(*place);
  place->footer(
      "NAME is `node` or `node:k`, or of the signature. Times are what the cost model predicts; --costs FILE of `tenon "
      "run` makes them better."
      "\n\nExamples:\n"
      "  tenon place model --devices tpu_sim:2 --explain\n"
      "  tenon place graph.pb --fetch y --svg step.svg --write step.place");
  place->callback([arguments, &action] { action = [arguments] { return PlaceGraph(*arguments); }; });
}

}  // namespace tenon::cli
