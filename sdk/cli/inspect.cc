// SPDX-License-Identifier: Apache-2.0
// `tenon inspect`: what stands in a GraphDef file. The file is read as it is, so graphs with unknown ops can be looked
// at.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <unordered_set>

#include "sdk/cli/command.h"
#include "sdk/cli/flags.h"
#include "sdk/cli/json.h"
#include "sdk/cli/table.h"
#include "tenon/train/file.h"
#include "tenon/train/graph_def.h"
#include "tenon/train/progress.h"

namespace tenon::cli {
namespace {

using host::DType;
using host::Result;
using host::Runtime;
using host::Shape;
using host::Status;
using train::GraphView;
using train::NodeView;

struct InspectArguments {
  std::string graph;
  bool json = false;
  RuntimeFlags runtime;
};

struct Summary {
  std::map<std::string, int64_t> ops;
  int64_t variable_elements = 0;
  int64_t constant_elements = 0;
  std::vector<const NodeView*> inputs;
  std::vector<const NodeView*> outputs;
  std::set<std::string> unknown_ops;
};

bool IsVariable(const NodeView& node) {
  return node.op == "VarHandleOp" || node.op == "VariableV2" || node.op == "Variable";
}

// An input is a node that asks to be fed; an output is a node with inputs whose values nobody takes.
Summary Summarize(const GraphView& graph) {
  Summary summary;
  std::unordered_set<std::string_view> consumed;
  for (const NodeView& node : graph.nodes) {
    for (std::string_view input : node.inputs) consumed.insert(train::NodeOfInput(input));
  }
  for (const NodeView& node : graph.nodes) {
    ++summary.ops[std::string(node.op)];
    if (IsVariable(node)) {
      summary.variable_elements += std::max<int64_t>(node.ShapeAttr("shape").element_count(), 0);
    } else if (node.op == "Const") {
      summary.constant_elements += std::max<int64_t>(node.TensorAttr("value").second.element_count(), 0);
    } else if (node.op == "Placeholder" || node.op == "PlaceholderWithDefault") {
      summary.inputs.push_back(&node);
    } else if (!node.inputs.empty() && !consumed.contains(node.name)) {
      summary.outputs.push_back(&node);
    }
  }
  return summary;
}

Json NodesJson(const std::vector<const NodeView*>& nodes) {
  Json json = Json::array();
  for (const NodeView* node : nodes) {
    Json entry = {{"name", std::string(node->name)}, {"op", std::string(node->op)}};
    if (node->TypeAttr("dtype") != DType::kInvalid) {
      entry["dtype"] = host::DTypeName(node->TypeAttr("dtype"));
      entry["shape"] = node->ShapeAttr("shape").ToString();
    }
    json.push_back(std::move(entry));
  }
  return json;
}

Json SummaryJson(const GraphView& graph, const Summary& summary) {
  Json json;
  json["nodes"] = graph.nodes.size();
  json["functions"] = graph.functions.size();
  json["producer"] = graph.producer;
  json["parameters"] = {{"variables", summary.variable_elements}, {"constants", summary.constant_elements}};
  json["inputs"] = NodesJson(summary.inputs);
  json["outputs"] = NodesJson(summary.outputs);
  json["ops"] = summary.ops;
  json["unknown_ops"] = summary.unknown_ops;
  return json;
}

void PrintNodes(const char* title, const std::vector<const NodeView*>& nodes) {
  fmt::print("\n{}\n", title);
  if (nodes.empty()) fmt::print("  none\n");
  constexpr size_t kMost = 40;
  for (size_t i = 0; i < nodes.size() && i < kMost; ++i) {
    const DType dtype = nodes[i]->TypeAttr("dtype");
    fmt::print("  {}  ({}){}\n", nodes[i]->name, nodes[i]->op,
               dtype == DType::kInvalid ? "" : "  " + host::DTypeName(dtype) + nodes[i]->ShapeAttr("shape").ToString());
  }
  if (nodes.size() > kMost) fmt::print("  and {} more\n", nodes.size() - kMost);
}

void PrintSummary(const std::string& path, const GraphView& graph, const Summary& summary) {
  fmt::print("{}: {} nodes, {} functions, producer {}\n", path, graph.nodes.size(), graph.functions.size(),
             graph.producer);
  fmt::print("parameters: {} in variables, {} in constants\n", train::FormatCount(summary.variable_elements),
             train::FormatCount(summary.constant_elements));
  PrintNodes("inputs", summary.inputs);
  PrintNodes("outputs", summary.outputs);
  std::vector<std::pair<std::string, int64_t>> ops(summary.ops.begin(), summary.ops.end());
  std::stable_sort(ops.begin(), ops.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  Table table({"OP", "NODES", ""});
  for (const auto& [op, count] : ops) {
    table.Add({op, std::to_string(count), summary.unknown_ops.contains(op) ? "no loaded plugin has it" : ""});
  }
  fmt::print("\n{}", table.Format());
}

Status Inspect(const InspectArguments& arguments) {
  TENON_TRY_ASSIGN(const train::MappedFile file, train::MappedFile::Open(arguments.graph));
  Result<GraphView> graph = train::ParseGraphDef(file.bytes());
  if (!graph.ok()) return graph.status().Annotate("graph '" + arguments.graph + "'");
  Summary summary = Summarize(*graph);
  TENON_TRY_ASSIGN(const Runtime runtime, arguments.runtime.Create());
  const std::set<std::string_view> functions(graph->functions.begin(), graph->functions.end());
  for (const auto& [op, count] : summary.ops) {
    if (!functions.contains(op) && !runtime.FindOp(op).ok()) summary.unknown_ops.insert(op);
  }
  if (arguments.json)
    PrintJson(SummaryJson(*graph, summary));
  else
    PrintSummary(arguments.graph, *graph, summary);
  return Status();
}

}  // namespace

void AddInspectCommand(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<InspectArguments>();
  CLI::App* command = app.add_subcommand("inspect", "Show what stands in a graph: ops, parameters, inputs, outputs");
  command->add_option("GRAPH", arguments->graph, "A GraphDef file")->required()->type_name("");
  command->add_flag("--json", arguments->json, "Print JSON");
  arguments->runtime.AddTo(*command);
  command->callback([arguments, &action] { action = [arguments] { return Inspect(*arguments); }; });
}

}  // namespace tenon::cli
