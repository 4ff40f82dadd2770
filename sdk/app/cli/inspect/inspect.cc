// SPDX-License-Identifier: Apache-2.0
// `tenon inspect`: what stands in a model. The file is read as it is, so graphs with unknown ops can be looked at.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "sdk/app/cli/command.h"
#include "sdk/app/cli/describe.h"
#include "sdk/app/cli/flags.h"
#include "sdk/app/cli/inspect/checkpoint_view.h"
#include "sdk/app/cli/inspect/summary.h"
#include "sdk/app/cli/json.h"
#include "sdk/app/cli/line/printable.h"
#include "sdk/app/cli/line/wrong_flag.h"
#include "sdk/app/cli/model_flags.h"
#include "sdk/app/cli/table.h"
#include "tenon/data/graph_def.h"
#include "tenon/data/number_text.h"
#include "tenon/model/checkpoint.h"
#include "tenon/model/coverage.h"
#include "tenon/model/graph_index.h"
#include "tenon/model/load.h"

namespace tenon::cli {
namespace {

using data::GraphView;
using data::NodeView;
using host::DType;
using host::Result;
using host::Runtime;
using host::Status;

struct InspectArguments {
  ModelFlags model;
  std::string values;  // --values NAME, of a checkpoint
  bool json = false;
  RuntimeFlags runtime;
};

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

void PredictPeak(const Runtime& runtime, const model::ModelFile& file, const model::Signature& signature,
                 Summary& summary) {
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
      entry["dtype"] = DTypeText(node->TypeAttr("dtype"));
      entry["shape"] = ShapeJson(node->ShapeAttr("shape"));
    }
    json.push_back(std::move(entry));
  }
  return json;
}

Json TensorsJson(const std::vector<model::TensorInfo>& infos) {
  Json json = Json::array();
  for (const model::TensorInfo& info : infos) {
    Json entry = {{"name", info.key},
                  {"tensor", info.tensor},
                  {"dtype", DTypeText(info.dtype)},
                  {"shape", ShapeJson(info.shape)}};
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
    json["signatures"][signature.name] = {{"method", signature.method},
                                          {"inputs", TensorsJson(signature.inputs)},
                                          {"outputs", TensorsJson(signature.outputs)}};
  }
  return json;
}

Json SummaryJson(const model::ModelFile& file, const GraphView& graph, const Summary& summary) {
  Json json = ModelJson(file);
  json["nodes"] = graph.nodes.size();
  json["functions"] = graph.functions.size();
  json["producer"] = graph.producer;
  json["parameters"] = {{"variables", summary.reached.variables.elements},
                        {"constants", summary.reached.constants.elements},
                        {"variables_in_graph", summary.whole.variables.elements}};
  json["memory"] = {{"variables", summary.reached.variables.bytes},
                    {"constants", summary.reached.constants.bytes},
                    {"variables_in_graph", summary.whole.variables.bytes}};
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
    const char* kind = info.kind == model::TensorInfo::Kind::kSparse      ? "  (sparse)"
                       : info.kind == model::TensorInfo::Kind::kComposite ? "  (several parts)"
                                                                          : "";
    fmt::print("  {} {}  {}{}{}\n", what, Printable(info.key), TensorText(info.dtype, info.shape), kind,
               info.default_value.empty() ? "" : "  (has a default)");
  }
}

void PrintModel(const model::ModelFile& file) {
  const model::MetaGraph& meta = file.meta();
  for (const std::string& note : file.notes()) fmt::print("note: {}\n", Printable(note));
  if (file.form() == model::Form::kGraphDef) return;
  fmt::print("{}: TensorFlow {}, {}\n", model::FormName(file.form()),
             meta.tensorflow_version.empty() ? "?" : Printable(meta.tensorflow_version),
             file.checkpoint().empty() ? "no variables beside it" : "variables in " + Printable(file.checkpoint()));
  for (const model::Signature& signature : meta.signatures) {
    fmt::print("\nsignature {}{}\n", Printable(signature.name),
               signature.method.empty() ? "" : "  (" + Printable(signature.method) + ")");
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
    fmt::print("  {}  ({}){}\n", Printable(nodes[i]->name), Printable(nodes[i]->op),
               dtype == DType::kInvalid ? "" : "  " + TensorText(dtype, nodes[i]->ShapeAttr("shape")));
  }
  if (nodes.size() > kMost) fmt::print("  and {} more\n", nodes.size() - kMost);
}

std::string BytesText(int64_t bytes) { return FormatBytes(static_cast<double>(bytes)); }

// What a caller gets; what else stands in the graph (an optimizer's, a second copy for training) is said beside it.
void PrintParameters(const model::ModelFile& file, const Summary& summary) {
  const Parameters &own = summary.reached, &whole = summary.whole;
  const bool more = whole.variables.elements > own.variables.elements;
  fmt::print(
      "\nparameters: {} in variables, {} in constants{}\n", data::FormatCount(own.variables.elements),
      data::FormatCount(own.constants.elements),
      more ? fmt::format("; the whole graph has {} in variables", data::FormatCount(whole.variables.elements)) : "");
  fmt::print("memory: {} of variables, {} of constants{}\n", BytesText(own.variables.bytes),
             BytesText(own.constants.bytes),
             summary.peak_bytes < 0 ? "" : ", " + BytesText(summary.peak_bytes) + " at the peak of a step (predicted)");
  if (!file.meta().signatures.empty() && more)
    fmt::print("note: counted is what the signatures reach; --signature NAME counts one of them\n");
}

void PrintSummary(const model::ModelFile& file, const GraphView& graph, const Summary& summary) {
  fmt::print("{}: {} nodes, {} functions, producer {}\n", Printable(file.path()), graph.nodes.size(),
             graph.functions.size(), graph.producer);
  PrintModel(file);
  PrintParameters(file, summary);
  for (const std::string& note : summary.peak_notes) fmt::print("note: {}\n", Printable(note));
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
  fmt::print("\n");
  table.Print();
}

void RefuseModelFlags(const InspectArguments& arguments, const std::string& is) {
  for (const auto& [flag, text] :
       {std::pair("--signature", arguments.model.signature), std::pair("--tags", arguments.model.tags)})
    if (!text.empty()) WrongFlag(flag, "it chooses a part of a model, and '" + arguments.model.graph + "' is " + is);
}

Status InspectFolder(const InspectArguments& arguments) {
  RefuseModelFlags(arguments, "a folder of checkpoints");
  if (!arguments.values.empty())
    WrongFlag("--values", "'" + arguments.model.graph + "' is a folder of checkpoints; name one of them");
  return InspectCheckpointFolder(arguments.model.graph, arguments.json);
}

Status InspectValues(const Runtime& runtime, const InspectArguments& arguments) {
  const std::string& path = arguments.model.graph;
  RefuseModelFlags(arguments, "a checkpoint");
  return InspectCheckpoint(runtime, path, arguments.values, arguments.json);
}

// Of a model: of the checkpoint beside it.
Status InspectValuesOf(const Runtime& runtime, const model::ModelFile& file, const InspectArguments& arguments) {
  if (file.checkpoint().empty()) WrongFlag("--values", "'" + file.path() + "' has no checkpoint beside it");
  return InspectCheckpoint(runtime, file.checkpoint(), arguments.values, arguments.json);
}

Status Inspect(const InspectArguments& arguments) {
  TENON_TRY_ASSIGN(const Runtime runtime,
                   arguments.runtime.Create());  // whose plugins may bring the file system of the path
  if (model::IsCheckpoint(arguments.model.graph)) return InspectValues(runtime, arguments);
  if (IsCheckpointFolder(arguments.model.graph)) return InspectFolder(arguments);
  TENON_TRY_ASSIGN(const model::ModelFile file, arguments.model.Open());
  if (!arguments.values.empty()) return InspectValuesOf(runtime, file, arguments);
  TENON_TRY_ASSIGN(const model::Signature* signature, arguments.model.Choose(file));
  TENON_TRY_ASSIGN(const model::GraphIndex index, IndexOf(file));
  const Result<std::vector<const NodeView*>> reached = model::ReachOfCall(file, index, signature);
  if (!reached.ok()) return reached.status().Annotate("graph '" + arguments.model.graph + "'");
  Summary summary = Summarize(index, *reached, !arguments.model.signature.empty());
  for (const auto& [op, count] : summary.ops) {
    if (!runtime.FindOp(op).ok()) summary.unknown_ops.insert(op);
  }
  if (signature != nullptr) PredictPeak(runtime, file, *signature, summary);
  if (arguments.json)
    PrintJson(SummaryJson(file, index.graph(), summary));
  else
    PrintSummary(file, index.graph(), summary);
  return Status();
}

}  // namespace

void AddInspectCommand(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<InspectArguments>();
  CLI::App* command = app.add_subcommand(
      "inspect", "Show what stands in a model or a checkpoint: signatures, parameters, memory, ops; tensors");
  arguments->model.AddTo(*command);
  command
      ->add_option("--values", arguments->values, "Of a checkpoint, or of the one beside the model: print this tensor")
      ->type_name("NAME");
  command->add_flag("--json", arguments->json, "Print JSON");
  arguments->runtime.AddTo(*command);
  command->footer(
      "Counted are the parameters that the signatures reach; --signature narrows it to one, and the ops too.\n"
      "GRAPH may be a checkpoint: its prefix, or its .index file; or a folder of checkpoints, which lists them.\n\n"
      "Examples:\n"
      "  tenon inspect model --signature train\n"
      "  tenon inspect checkpoints/model.ckpt-300 --values global_step");
  command->callback([arguments, &action] { action = [arguments] { return Inspect(*arguments); }; });
}

}  // namespace tenon::cli
