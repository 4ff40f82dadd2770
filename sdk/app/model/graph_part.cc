// SPDX-License-Identifier: Apache-2.0
#include "tenon/model/graph_part.h"

#include <set>

#include "tenon/bytes/wire.h"

namespace tenon::model {
namespace {

using data::FunctionView;
using data::NodeView;
using sdk::WireReader;
using sdk::WireWriter;

// Field numbers of tensorflow.GraphDef and the messages in it.
constexpr uint32_t kGraphNode = 1, kGraphLibrary = 2, kGraphVersions = 4, kLibraryFunction = 1, kNodeDevice = 4,
                   kNodeAttr = 5, kMapKey = 1;
constexpr uint32_t kAttrList = 1, kListStrings = 2;
constexpr std::string_view kColocation = "_class", kColocatedWith = "loc:@";

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
      writer.Bytes(kGraphNode, Trimmed(node, wanted));
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
  // Without a device, where they are dropped, and without the wish to stand beside nodes that are left away.
  std::string Trimmed(const NodeView& node, const std::set<const NodeView*>& wanted) const {
    const bool drops_device = devices_ == Devices::kDropped && !node.device.empty();
    const bool is_beside = StandsBesideWhatIsLeftAway(node, wanted);
    if (!drops_device && !is_beside) return std::string(node.bytes);
    std::string bytes;
    WireReader reader(node.bytes);
    while (reader.Next()) {
      const bool colocation =
          is_beside && reader.field() == kNodeAttr && sdk::FindBytes(reader.bytes(), kMapKey) == kColocation;
      if (!colocation && !(drops_device && reader.field() == kNodeDevice)) bytes += reader.whole();
    }
    return bytes;
  }
  bool StandsBesideWhatIsLeftAway(const NodeView& node, const std::set<const NodeView*>& wanted) const {
    for (const auto& [name, value] : node.attrs) {
      if (name != kColocation) continue;
      WireReader reader(sdk::FindBytes(value, kAttrList));
      while (reader.Next()) {
        if (reader.field() != kListStrings || !reader.bytes().starts_with(kColocatedWith)) continue;
        const NodeView* beside = graph_.FindNode(reader.bytes().substr(kColocatedWith.size()));
        if (beside == nullptr || !wanted.contains(beside)) return true;
      }
    }
    return false;
  }

  void Add(const NodeView& node) {
    const bool reference = node.op == "VariableV2" || node.op == "Variable";
    if (reference || node.op == "VarHandleOp")
      part_.variables.push_back({std::string(node.name), node.TypeAttr("dtype"), node.ShapeAttr("shape"),
                                 std::string(node.device), reference});
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
      return Status(Code::kUnimplemented, "function '" + std::string(function.name) + "' creates the variable '" +
                                              part_.variables.back().name +
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

Result<GraphPart> CutGraph(const GraphIndex& graph, const std::vector<std::string>& targets, Devices devices) {
  return Cutter(graph, devices).Run(targets);
}

}  // namespace tenon::model
