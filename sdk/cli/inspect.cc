// SPDX-License-Identifier: Apache-2.0
// `tenon inspect`: what stands in a model. The file is read as it is, so graphs with unknown ops can be looked at.
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
#include "sdk/cli/model_flags.h"
#include "sdk/cli/table.h"
#include "tenon/data/graph_def.h"
#include "tenon/data/number_text.h"
#include "tenon/model/graph_index.h"
#include "tenon/model/load.h"

namespace tenon::cli {
namespace {

using host::DType;
using host::Result;
using host::Runtime;
using host::Shape;
using host::Status;
using data::GraphView;
using data::NodeView;

struct InspectArguments {
  ModelFlags model;
  bool json = false;
  RuntimeFlags runtime;
};

// How many there are, and what they take.
struct Size {
  int64_t elements = 0;
  int64_t bytes = 0;
  void Add(DType dtype, const Shape& shape) {
    const int64_t count = std::max<int64_t>(shape.element_count(), 0);
    elements += count;
    bytes += count * static_cast<int64_t>(host::DTypeSize(dtype));
  }
};

struct Summary {
  std::map<std::string, int64_t> ops;
  Size variables;
  Size constants;
  std::vector<const NodeView*> inputs;
  std::vector<const NodeView*> outputs;
  std::set<std::string> unknown_ops;
  int64_t peak_bytes = -1;           // of a step of the signature; -1: not known
  std::vector<std::string> peak_notes;  // what the prediction rests on, or why there is none
};

bool IsVariable(const NodeView& node) {
  return node.op == "VarHandleOp" || node.op == "VariableV2" || node.op == "Variable";
}

// What a node is and holds, wherever it stands.
void Count(const NodeView& node, const model::GraphIndex& graph, Summary& summary) {
  if (graph.FindFunction(node.op) == nullptr) ++summary.ops[std::string(node.op)];
  if (IsVariable(node)) {
    summary.variables.Add(node.TypeAttr("dtype"), node.ShapeAttr("shape"));
  } else if (node.op == "Const") {
    const auto [dtype, shape] = node.TensorAttr("value");
    summary.constants.Add(dtype, shape);
  }
}

// An input is a node that asks to be fed; an output is a node with inputs whose values nobody takes.
Summary Summarize(const model::GraphIndex& index) {
  Summary summary;
  std::unordered_set<std::string_view> consumed;
  for (const NodeView& node : index.graph().nodes) {
    for (std::string_view input : node.inputs) consumed.insert(data::NodeOfInput(input));
  }
  for (const NodeView& node : index.graph().nodes) {
    Count(node, index, summary);
    if (IsVariable(node) || node.op == "Const") continue;
    if (node.op == "Placeholder" || node.op == "PlaceholderWithDefault") {
      summary.inputs.push_back(&node);
    } else if (!node.inputs.empty() && !consumed.contains(node.name)) {
      summary.outputs.push_back(&node);
    }
  }
  for (const data::FunctionView& function : index.functions()) {
    for (const NodeView& node : function.nodes) Count(node, index, summary);
  }
  return summary;
}

// The memory that a step of the signature takes at most, as placing it predicts.
Result<Json> PlaceSignature(const Runtime& runtime, const model::ModelFile& file, const model::Signature& signature) {
  TENON_TRY_ASSIGN(host::Session session, host::Session::Create(runtime));
  TENON_TRY(session.Extend(file.graph_def()));
  std::vector<host::Name> feeds, fetches;
  for (const model::TensorInfo& input : signature.inputs) {
    TENON_TRY_ASSIGN(std::string tensor, model::TensorOf(signature, input));
    feeds.emplace_back(std::move(tensor));
  }
  for (const model::TensorInfo& output : signature.outputs) {
    TENON_TRY_ASSIGN(std::string tensor, model::TensorOf(signature, output));
    fetches.emplace_back(std::move(tensor));
  }
  TENON_TRY_ASSIGN(const host::Placement placement, session.Place(feeds, fetches));
  return Json::parse(placement.json);
}

void PredictPeak(const Runtime& runtime, const model::ModelFile& file, const model::Signature& signature, Summary& summary) {
  const Result<Json> placed = PlaceSignature(runtime, file, signature);
  if (!placed.ok()) {
    summary.peak_notes.push_back("a step's peak cannot be told: " + placed.status().message());
    return;
  }
  summary.peak_bytes = 0;
  for (const Json& device : (*placed)["devices"]) summary.peak_bytes += device["peak_bytes"].get<int64_t>();
  for (const Json& note : (*placed)["notes"]) summary.peak_notes.push_back(note.get<std::string>());
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

Json TensorsJson(const std::vector<model::TensorInfo>& infos) {
  Json json = Json::array();
  for (const model::TensorInfo& info : infos) {
    Json entry = {{"name", info.key}, {"tensor", info.tensor}, {"dtype", host::DTypeName(info.dtype)}, {"shape", info.shape.ToString()}};
    if (!info.parts.empty()) entry["parts"] = info.parts;
    if (!info.default_value.empty()) entry["has_default"] = true;
    json.push_back(std::move(entry));
  }
  return json;
}

Json ModelJson(const model::ModelFile& file) {
  const model::MetaGraph& meta = file.meta();
  Json json = {{"form", model::FormName(file.form())}, {"text", file.is_text()}};
  if (!file.notes().empty()) json["notes"] = file.notes();
  if (file.form() == model::Form::kGraphDef) return json;
  json["tags"] = meta.tags;
  json["tensorflow_version"] = meta.tensorflow_version;
  json["checkpoint"] = file.checkpoint();
  json["main_op"] = meta.main_op;
  json["assets"] = Json::array();
  for (const model::Asset& asset : meta.assets) json["assets"].push_back(asset.file);
  json["signatures"] = Json::object();
  for (const model::Signature& signature : meta.signatures) {
    json["signatures"][signature.name] = {
        {"method", signature.method}, {"inputs", TensorsJson(signature.inputs)}, {"outputs", TensorsJson(signature.outputs)}};
  }
  return json;
}

Json SummaryJson(const model::ModelFile& file, const GraphView& graph, const Summary& summary) {
  Json json = ModelJson(file);
  json["nodes"] = graph.nodes.size();
  json["functions"] = graph.functions.size();
  json["producer"] = graph.producer;
  json["parameters"] = {{"variables", summary.variables.elements}, {"constants", summary.constants.elements}};
  json["memory"] = {{"variables", summary.variables.bytes}, {"constants", summary.constants.bytes}};
  if (summary.peak_bytes >= 0) json["memory"]["step_peak"] = summary.peak_bytes;
  if (!summary.peak_notes.empty()) json["memory"]["notes"] = summary.peak_notes;
  json["inputs"] = NodesJson(summary.inputs);
  json["outputs"] = NodesJson(summary.outputs);
  json["ops"] = summary.ops;
  json["unknown_ops"] = summary.unknown_ops;
  return json;
}

void PrintTensors(const char* what, const std::vector<model::TensorInfo>& infos) {
  for (const model::TensorInfo& info : infos) {
    const char* kind = info.kind == model::TensorInfo::Kind::kSparse ? "  (sparse)" : info.kind == model::TensorInfo::Kind::kComposite ? "  (several parts)" : "";
    fmt::print("  {} {}  {}{}{}{}\n", what, info.key, host::DTypeName(info.dtype), info.shape.ToString(), kind,
               info.default_value.empty() ? "" : "  (has a default)");
  }
}

void PrintModel(const model::ModelFile& file) {
  const model::MetaGraph& meta = file.meta();
  for (const std::string& note : file.notes()) fmt::print("note: {}\n", note);
  if (file.form() == model::Form::kGraphDef) return;
  fmt::print("{}: TensorFlow {}, {}\n", model::FormName(file.form()), meta.tensorflow_version.empty() ? "?" : meta.tensorflow_version,
             file.checkpoint().empty() ? "no variables beside it" : "variables in " + file.checkpoint());
  for (const model::Signature& signature : meta.signatures) {
    fmt::print("\nsignature {}{}\n", signature.name, signature.method.empty() ? "" : "  (" + signature.method + ")");
    PrintTensors("in ", signature.inputs);
    PrintTensors("out", signature.outputs);
  }
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

void PrintSummary(const model::ModelFile& file, const GraphView& graph, const Summary& summary) {
  fmt::print("{}: {} nodes, {} functions, producer {}\n", file.path(), graph.nodes.size(), graph.functions.size(),
             graph.producer);
  PrintModel(file);
  fmt::print("parameters: {} in variables, {} in constants\n", data::FormatCount(summary.variables.elements),
             data::FormatCount(summary.constants.elements));
  fmt::print("memory: {} of variables, {} of constants{}\n", FormatBytes(static_cast<double>(summary.variables.bytes)), FormatBytes(static_cast<double>(summary.constants.bytes)),
             summary.peak_bytes < 0 ? "" : ", " + FormatBytes(static_cast<double>(summary.peak_bytes)) + " at the peak of a step (predicted)");
  for (const std::string& note : summary.peak_notes) fmt::print("note: {}\n", note);
  if (file.meta().signatures.empty()) {
    PrintNodes("inputs", summary.inputs);
    PrintNodes("outputs", summary.outputs);
  }
  std::vector<std::pair<std::string, int64_t>> ops(summary.ops.begin(), summary.ops.end());
  std::stable_sort(ops.begin(), ops.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  Table table({"OP", "NODES", ""});
  for (const auto& [op, count] : ops) {
    table.Add({op, std::to_string(count), summary.unknown_ops.contains(op) ? "no loaded plugin has it" : ""});
  }
  fmt::print("\n{}", table.Format());
}

Status Inspect(const InspectArguments& arguments) {
  TENON_TRY_ASSIGN(const Runtime runtime, arguments.runtime.Create());  // whose plugins may bring the file system of the path
  TENON_TRY_ASSIGN(const model::ModelFile file, arguments.model.Open());
  TENON_TRY_ASSIGN(const model::Signature* signature, arguments.model.Choose(file));
  const Result<model::GraphIndex> index = model::GraphIndex::Build(file.graph_def());
  if (!index.ok()) return index.status().Annotate("graph '" + arguments.model.graph + "'");
  Summary summary = Summarize(*index);
  for (const auto& [op, count] : summary.ops) {
    if (!runtime.FindOp(op).ok()) summary.unknown_ops.insert(op);
  }
  if (signature != nullptr) PredictPeak(runtime, file, *signature, summary);
  if (arguments.json)
    PrintJson(SummaryJson(file, index->graph(), summary));
  else
    PrintSummary(file, index->graph(), summary);
  return Status();
}

}  // namespace

void AddInspectCommand(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<InspectArguments>();
  CLI::App* command = app.add_subcommand("inspect", "Show what stands in a model: signatures, parameters, memory, ops");
  arguments->model.AddTo(*command);
  command->add_flag("--json", arguments->json, "Print JSON");
  arguments->runtime.AddTo(*command);
  command->callback([arguments, &action] { action = [arguments] { return Inspect(*arguments); }; });
}

}  // namespace tenon::cli
