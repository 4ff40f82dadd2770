// SPDX-License-Identifier: Apache-2.0
#include "tenon/model/graph_part.h"

#include <set>

#include "tenon/sdk/wire.h"

namespace tenon::model {
namespace {

using data::FunctionView;
using data::NodeView;
using sdk::WireReader;
using sdk::WireWriter;

// Field numbers of tensorflow.GraphDef and the messages in it.
constexpr uint32_t kGraphNode = 1, kGraphLibrary = 2, kGraphVersions = 4, kLibraryFunction = 1, kNodeDevice = 4;

class Cutter {
 public:
  Cutter(const GraphIndex& graph, Devices devices) : graph_(graph), devices_(devices) {}

  Result<GraphPart> Run(const std::vector<std::string>& targets) {
    TENON_TRY_ASSIGN(const std::vector<const NodeView*> nodes, graph_.Reach({}, targets));
    const std::set<const NodeView*> wanted(nodes.begin(), nodes.end());
    WireWriter writer, library;
    for (const NodeView& node : graph_.graph().nodes) {
      if (!wanted.contains(&node)) continue;
      Add(node);
      writer.Bytes(kGraphNode, devices_ == Devices::kKept ? std::string(node.bytes) : WithoutDevice(node));
    }
    TENON_TRY(AddFunctions());
    for (const FunctionView& function : graph_.functions()) {
      if (functions_.contains(&function)) library.Bytes(kLibraryFunction, function.bytes);
    }
    if (!functions_.empty()) writer.Bytes(kGraphLibrary, library.bytes());
    if (!graph_.graph().versions.empty()) writer.Bytes(kGraphVersions, graph_.graph().versions);
    part_.graph_def = writer.bytes();
    return std::move(part_);
  }

 private:
  static std::string WithoutDevice(const NodeView& node) {
    if (node.device.empty()) return std::string(node.bytes);
    std::string bytes;
    WireReader reader(node.bytes);
    while (reader.Next()) {
      if (reader.field() != kNodeDevice) bytes += reader.whole();
    }
    return bytes;
  }

  void Add(const NodeView& node) {
    const bool reference = node.op == "VariableV2" || node.op == "Variable";
    if (reference || node.op == "VarHandleOp")
      part_.variables.push_back({std::string(node.name), node.TypeAttr("dtype"), node.ShapeAttr("shape"), std::string(node.device), reference});
    for (const FunctionView* function : graph_.FunctionsOf(node)) {
      if (functions_.insert(function).second) left_.push_back(function);
    }
  }

  Status AddFunctions() {
    const size_t outside = part_.variables.size();
    while (!left_.empty()) {
      const FunctionView& function = *left_.back();
      left_.pop_back();
      for (const NodeView& node : function.nodes) Add(node);
      if (part_.variables.size() == outside) continue;
      return Status(Code::kUnimplemented, "function '" + std::string(function.name) + "' creates the variable '" + part_.variables.back().name +
                                              "', whose value cannot be saved; create it outside and hand it in");
    }
    return Status();
  }

  const GraphIndex& graph_;
  const Devices devices_;
  GraphPart part_;
  std::set<const FunctionView*> functions_;
  std::vector<const FunctionView*> left_;
};

}  // namespace

Result<GraphPart> CutGraph(const GraphIndex& graph, const std::vector<std::string>& targets, Devices devices) { return Cutter(graph, devices).Run(targets); }

}  // namespace tenon::model
