// SPDX-License-Identifier: Apache-2.0
// GraphDefs as bytes: looked at without an engine, and frozen (variables turned into constants).
//
// Views point into the bytes. Nothing of a GraphDef is trusted: what cannot be read is an error that names the node.
#ifndef TENON_DATA_GRAPH_DEF_H_
#define TENON_DATA_GRAPH_DEF_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/data/base.h"

namespace tenon::data {

struct NodeView {
  std::string_view name;
  std::string_view op;
  std::string_view device;
  std::vector<std::string_view> inputs;                              // "node", "node:1", "^node"
  std::vector<std::pair<std::string_view, std::string_view>> attrs;  // name, serialized AttrValue
  std::string_view bytes;                                            // the serialized NodeDef

  // Attributes of one kind; what is given back is empty, kInvalid or unknown when the node has none of this name.
  DType TypeAttr(std::string_view name) const;
  Shape ShapeAttr(std::string_view name) const;
  std::string_view StringAttr(std::string_view name) const;
  // The functions that any attribute names.
  std::vector<std::string_view> Functions() const;
  // Dtype and shape of a tensor attribute.
  std::pair<DType, Shape> TensorAttr(std::string_view name) const;
};

struct GraphView {
  std::vector<NodeView> nodes;
  std::vector<std::string_view> functions;  // names in the library
  int64_t producer = 0;                     // versions.producer
  std::string_view versions;                // serialized VersionDef
  std::string_view library;                 // serialized FunctionDefLibrary
};

Result<GraphView> ParseGraphDef(std::string_view bytes);

// A function of the library.
struct FunctionView {
  std::string_view name;
  std::vector<std::string_view> arguments;
  bool has_list_arguments = false;  // one of them stands for several inputs of a call
  std::vector<NodeView> nodes;      // whose inputs read "argument", "node:output:0", "^node"
  std::vector<std::string_view> returns;          // what each result reads
  std::vector<std::string_view> control_returns;  // nodes that run whoever reads them
  std::string_view bytes;                         // the serialized FunctionDef
};

Result<std::vector<FunctionView>> ParseFunctions(const GraphView& graph);

// Of a serialized NodeDef, the `index`th where it stands; FunctionDef; TensorShapeProto (what cannot be read is
// unknown).
Result<NodeView> ParseNodeDef(std::string_view bytes, size_t index);
Result<FunctionView> ParseFunctionDef(std::string_view bytes);
Shape ParseTensorShape(std::string_view bytes);

// The node of an input: "node" for "node:1" and "^node".
std::string_view NodeOfInput(std::string_view input);

// A GraphDef of what the outputs (names of nodes) need, in which every variable is a constant with the session's value.
Result<std::string> Freeze(const Session& session, std::string_view graph_def, const std::vector<std::string>& outputs);

}  // namespace tenon::data

#endif  // TENON_DATA_GRAPH_DEF_H_
