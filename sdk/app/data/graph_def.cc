// SPDX-License-Identifier: Apache-2.0
#include "tenon/data/graph_def.h"

#include <unordered_map>
#include <unordered_set>

#include "tenon/bytes/wire.h"

namespace tenon::data {
namespace {

// Field numbers of tensorflow.GraphDef and the messages in it.
constexpr uint32_t kGraphNode = 1, kGraphLibrary = 2, kGraphVersions = 4;
constexpr uint32_t kNodeName = 1, kNodeOp = 2, kNodeInput = 3, kNodeDevice = 4, kNodeAttr = 5;
constexpr uint32_t kMapKey = 1, kMapValue = 2;
constexpr uint32_t kAttrString = 2, kAttrType = 6, kAttrShape = 7, kAttrTensor = 8, kAttrFunction = 10;
constexpr uint32_t kAttrList = 1, kListFunction = 9, kFunctionRefName = 1;
constexpr uint32_t kTensorDtype = 1, kTensorShape = 2, kTensorContent = 4;
constexpr uint32_t kShapeDim = 2, kShapeUnknownRank = 3, kDimSize = 1;
constexpr uint32_t kLibraryFunction = 1, kFunctionSignature = 1, kFunctionNode = 3, kFunctionReturn = 4,
                   kFunctionControlReturn = 6;
constexpr uint32_t kSignatureName = 1, kSignatureInput = 2, kArgumentName = 1, kArgumentNumber = 5,
                   kArgumentTypeList = 6;
constexpr uint32_t kVersionsProducer = 1;

std::string_view FindAttr(const NodeView& node, std::string_view name) {
  for (const auto& [key, value] : node.attrs) {
    if (key == name) return value;
  }
  return {};
}

Status Broken(const std::string& where) {
  return Status(Code::kInvalidArgument, where + " cannot be read; the bytes are no GraphDef, or damaged");
}

std::string SerializeShape(const Shape& shape) {
  sdk::WireWriter writer;
  for (int64_t size : shape.dims()) {
    sdk::WireWriter dim;
    dim.Varint(kDimSize, static_cast<uint64_t>(size));
    writer.Bytes(kShapeDim, dim.bytes());
  }
  return writer.bytes();
}

void AddAttr(sdk::WireWriter& node, std::string_view name, const sdk::WireWriter& value) {
  sdk::WireWriter entry;
  entry.Bytes(kMapKey, name);
  entry.Bytes(kMapValue, value.bytes());
  node.Bytes(kNodeAttr, entry.bytes());
}

// A node of op Const that stands where a variable's value was read. It may be anywhere, wherever the variable was.
std::string SerializeConstant(const NodeView& replaced, const Tensor& value) {
  const auto dtype = static_cast<uint64_t>(value.dtype());
  sdk::WireWriter tensor;
  tensor.Varint(kTensorDtype, dtype);
  tensor.Bytes(kTensorShape, SerializeShape(value.shape()));
  tensor.Bytes(kTensorContent, {reinterpret_cast<const char*>(value.bytes().data()), value.bytes().size()});
  sdk::WireWriter type_attr, tensor_attr, node;
  type_attr.Varint(kAttrType, dtype);
  tensor_attr.Bytes(kAttrTensor, tensor.bytes());
  node.Bytes(kNodeName, replaced.name);
  node.Bytes(kNodeOp, "Const");
  AddAttr(node, "dtype", type_attr);
  AddAttr(node, "value", tensor_attr);
  return node.bytes();
}

// The nodes of a graph by name, and which of them are needed.
class Freezer {
 public:
  explicit Freezer(const GraphView& graph) : graph_(graph) {
    for (const NodeView& node : graph.nodes) by_name_.emplace(node.name, &node);
  }

  Status Need(const std::vector<std::string>& outputs) {
    std::vector<std::string_view> left(outputs.begin(), outputs.end());
    while (!left.empty()) {
      const std::string_view name = left.back();
      left.pop_back();
      const auto found = by_name_.find(name);
      if (found == by_name_.end()) return Status(Code::kNotFound, "the graph has no node '" + std::string(name) + "'");
      if (!needed_.insert(name).second) continue;
      if (IsVariable(*found->second)) {
        variables_.push_back(found->second);
        continue;
      }
      for (std::string_view input : found->second->inputs) left.push_back(NodeOfInput(input));
    }
    return Status();
  }

  Result<std::string> Write(const Session& session) const {
    std::vector<Name> names;
    for (const NodeView* variable : variables_) names.emplace_back(variable->name);
    TENON_TRY_ASSIGN(const std::vector<Tensor> values, session.Run({}, names));
    std::unordered_map<std::string_view, const Tensor*> value_of;
    for (size_t i = 0; i < variables_.size(); ++i) value_of[variables_[i]->name] = &values[i];
    sdk::WireWriter writer;
    for (const NodeView& node : graph_.nodes) {
      if (!needed_.contains(node.name)) continue;
      const auto value = value_of.find(node.name);
      writer.Bytes(kGraphNode,
                   value == value_of.end() ? std::string(node.bytes) : SerializeConstant(node, *value->second));
    }
    if (!graph_.library.empty()) writer.Bytes(kGraphLibrary, graph_.library);
    if (!graph_.versions.empty()) writer.Bytes(kGraphVersions, graph_.versions);
    return writer.bytes();
  }

 private:
  static bool IsVariable(const NodeView& node) {
    return node.op == "ReadVariableOp" || node.op == "VariableV2" || node.op == "Variable";
  }

  const GraphView& graph_;
  std::unordered_map<std::string_view, const NodeView*> by_name_;
  std::unordered_set<std::string_view> needed_;
  std::vector<const NodeView*> variables_;
};

// A function's name and arguments.
void AddSignature(std::string_view bytes, FunctionView& function) {
  sdk::WireReader reader(bytes);
  while (reader.Next()) {
    if (reader.field() == kSignatureName) function.name = reader.bytes();
    if (reader.field() != kSignatureInput) continue;
    function.arguments.push_back(sdk::FindBytes(reader.bytes(), kArgumentName));
    const bool list = !sdk::FindBytes(reader.bytes(), kArgumentNumber).empty() ||
                      !sdk::FindBytes(reader.bytes(), kArgumentTypeList).empty();
    function.has_list_arguments = function.has_list_arguments || list;
  }
}

}  // namespace

Shape ParseTensorShape(std::string_view message) {
  std::vector<int64_t> dims;
  sdk::WireReader reader(message);
  while (reader.Next()) {
    if (reader.field() == kShapeUnknownRank && reader.number() != 0) return Shape::Unknown();
    if (reader.field() == kShapeDim) dims.push_back(static_cast<int64_t>(sdk::FindNumber(reader.bytes(), kDimSize)));
  }
  return reader.ok() ? Shape(std::move(dims)) : Shape::Unknown();
}

Result<NodeView> ParseNodeDef(std::string_view bytes, size_t index) {
  NodeView node;
  node.bytes = bytes;
  sdk::WireReader reader(bytes);
  while (reader.Next()) {
    if (!reader.is_bytes()) continue;
    switch (reader.field()) {
      case kNodeName:
        node.name = reader.bytes();
        break;
      case kNodeOp:
        node.op = reader.bytes();
        break;
      case kNodeInput:
        node.inputs.push_back(reader.bytes());
        break;
      case kNodeDevice:
        node.device = reader.bytes();
        break;
      case kNodeAttr:
        node.attrs.emplace_back(sdk::FindBytes(reader.bytes(), kMapKey), sdk::FindBytes(reader.bytes(), kMapValue));
        break;
      default:
        break;
    }
  }
  if (!reader.ok() || node.name.empty() || node.op.empty()) {
    return Broken("node " + std::to_string(index) + (node.name.empty() ? "" : " ('" + std::string(node.name) + "')"));
  }
  return node;
}

DType NodeView::TypeAttr(std::string_view name) const {
  return static_cast<DType>(sdk::FindNumber(FindAttr(*this, name), kAttrType));
}

Shape NodeView::ShapeAttr(std::string_view name) const {
  const std::string_view attr = FindAttr(*this, name);
  return attr.empty() ? Shape::Unknown() : ParseTensorShape(sdk::FindBytes(attr, kAttrShape));
}

std::string_view NodeView::StringAttr(std::string_view name) const {
  return sdk::FindBytes(FindAttr(*this, name), kAttrString);
}

std::vector<std::string_view> NodeView::Functions() const {
  std::vector<std::string_view> functions;
  const auto add = [&](std::string_view message, uint32_t field) {
    sdk::WireReader reader(message);
    while (reader.Next()) {
      if (reader.field() == field && reader.is_bytes())
        functions.push_back(sdk::FindBytes(reader.bytes(), kFunctionRefName));
    }
  };
  for (const auto& [name, value] : attrs) {
    add(value, kAttrFunction);
    add(sdk::FindBytes(value, kAttrList), kListFunction);
  }
  return functions;
}

std::pair<DType, Shape> NodeView::TensorAttr(std::string_view name) const {
  const std::string_view tensor = sdk::FindBytes(FindAttr(*this, name), kAttrTensor);
  return {static_cast<DType>(sdk::FindNumber(tensor, kTensorDtype)),
          ParseTensorShape(sdk::FindBytes(tensor, kTensorShape))};
}

std::string_view NodeOfInput(std::string_view input) {
  if (input.starts_with('^')) return input.substr(1);
  return input.substr(0, input.rfind(':'));
}

Result<GraphView> ParseGraphDef(std::string_view bytes) {
  GraphView graph;
  sdk::WireReader reader(bytes);
  while (reader.Next()) {
    if (!reader.is_bytes()) continue;
    if (reader.field() == kGraphNode) {
      TENON_TRY_ASSIGN(NodeView node, ParseNodeDef(reader.bytes(), graph.nodes.size()));
      graph.nodes.push_back(std::move(node));
    } else if (reader.field() == kGraphVersions) {
      graph.versions = reader.bytes();
      graph.producer = static_cast<int64_t>(sdk::FindNumber(graph.versions, kVersionsProducer));
    } else if (reader.field() == kGraphLibrary) {
      graph.library = reader.bytes();
    }
  }
  if (!reader.ok()) return Broken("what follows node " + std::to_string(graph.nodes.size()));
  sdk::WireReader library(graph.library);
  while (library.Next()) {
    if (library.field() != kLibraryFunction) continue;
    graph.functions.push_back(sdk::FindBytes(sdk::FindBytes(library.bytes(), kFunctionSignature), kSignatureName));
  }
  return graph;
}

Result<FunctionView> ParseFunctionDef(std::string_view bytes) {
  FunctionView function;
  function.bytes = bytes;
  sdk::WireReader reader(bytes);
  while (reader.Next()) {
    if (!reader.is_bytes()) continue;
    switch (reader.field()) {
      case kFunctionSignature:
        AddSignature(reader.bytes(), function);
        break;
      case kFunctionNode: {
        Result<NodeView> node = ParseNodeDef(reader.bytes(), function.nodes.size());
        if (!node.ok()) return node.status().Annotate("function '" + std::string(function.name) + "'");
        function.nodes.push_back(*std::move(node));
        break;
      }
      case kFunctionReturn:
        function.returns.push_back(sdk::FindBytes(reader.bytes(), kMapValue));
        break;
      case kFunctionControlReturn:
        function.control_returns.push_back(sdk::FindBytes(reader.bytes(), kMapValue));
        break;
      default:
        break;
    }
  }
  if (!reader.ok() || function.name.empty()) return Broken("function '" + std::string(function.name) + "'");
  return function;
}

Result<std::vector<FunctionView>> ParseFunctions(const GraphView& graph) {
  std::vector<FunctionView> functions;
  sdk::WireReader library(graph.library);
  while (library.Next()) {
    if (library.field() != kLibraryFunction) continue;
    TENON_TRY_ASSIGN(FunctionView function, ParseFunctionDef(library.bytes()));
    functions.push_back(std::move(function));
  }
  if (!library.ok()) return Broken("the function library");
  return functions;
}

Result<std::string> Freeze(const Session& session, std::string_view graph_def,
                           const std::vector<std::string>& outputs) {
  TENON_TRY_ASSIGN(const GraphView graph, ParseGraphDef(graph_def));
  Freezer freezer(graph);
  TENON_TRY(freezer.Need(outputs));
  return freezer.Write(session);
}

}  // namespace tenon::data
