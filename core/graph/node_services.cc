// SPDX-License-Identifier: Apache-2.0
// The ABI's questions about a node, answered from graph::Node.
#include <algorithm>
#include <cstring>

#include "core/base/checked.h"
#include "core/graph/node.h"
#include "core/graph/op_def.h"

namespace tenon::graph {
namespace {

tenon_span Name(const tenon_node* node) { return Span(FromC(node)->name); }
tenon_span NameOfState(const tenon_node* node) { return Span(StateName(*FromC(node))); }
tenon_span Op(const tenon_node* node) { return Span(FromC(node)->op->name); }
tenon_span Device(const tenon_node* node) { return Span(FromC(node)->device); }

tenon_status* Attr(const tenon_node* node, tenon_span name, tenon_attr_value* out_value) {
  const AttrValue* value = FromC(node)->FindAttr(View(name));
  if (value == nullptr)
    return NotFound(StrCat(FromC(node)->Describe(), " has no attribute '", View(name), "'")).release();
  *out_value = value->c();
  return nullptr;
}

int32_t InputCount(const tenon_node* node) { return static_cast<int32_t>(FromC(node)->input_types.size()); }
int32_t OutputCount(const tenon_node* node) { return static_cast<int32_t>(FromC(node)->output_types.size()); }

uint32_t At(const std::vector<DType>& types, int32_t index) {
  return Within(index, types.size()) ? types[index] : TENON_DT_INVALID;
}
uint32_t InputType(const tenon_node* node, int32_t index) { return At(FromC(node)->input_types, index); }
uint32_t NodeOutputType(const tenon_node* node, int32_t index) { return At(FromC(node)->output_types, index); }

tenon_status* Range(const Node& node, const std::vector<ArgDef>& args, const std::vector<ArgRange>& ranges,
                    tenon_span argument, int32_t* out_begin, int32_t* out_count) {
  for (size_t i = 0; i < args.size(); ++i)
    if (args[i].name == View(argument)) {
      *out_begin = ranges[i].begin;
      *out_count = ranges[i].count;
      return nullptr;
    }
  return NotFound(StrCat(node.Describe(), " has no argument '", View(argument), "'")).release();
}
tenon_status* InputRange(const tenon_node* node, tenon_span argument, int32_t* out_begin, int32_t* out_count) {
  return Range(*FromC(node), FromC(node)->op->inputs, FromC(node)->input_ranges, argument, out_begin, out_count);
}
tenon_status* OutputRange(const tenon_node* node, tenon_span argument, int32_t* out_begin, int32_t* out_count) {
  return Range(*FromC(node), FromC(node)->op->outputs, FromC(node)->output_ranges, argument, out_begin, out_count);
}

// Of the inputs of those arguments; the last bit is for all that follow.
uint64_t BitsOf(const std::vector<size_t>& arguments, const std::vector<ArgRange>& ranges) {
  constexpr int32_t kLastBit = 63;
  uint64_t bits = 0;
  for (const size_t argument : arguments) {
    const ArgRange& range = ranges[argument];
    const int32_t end = range.begin + range.count;
    for (int32_t i = range.begin; i < std::min(end, kLastBit); ++i) bits |= uint64_t{1} << i;
    if (range.count > 0 && end > kLastBit) bits |= uint64_t{1} << kLastBit;
  }
  return bits;
}

void NodeProperties(const tenon_node* node, tenon_node_properties* out_properties) {
  const OpProperties& said = FromC(node)->op->properties;
  const std::vector<ArgRange>& ranges = FromC(node)->input_ranges;
  tenon_node_properties properties = {TENON_HEAD(tenon_node_properties), said.flags,
                                      BitsOf(said.elements, ranges),     BitsOf(said.rows, ranges),
                                      -1,                                0,
                                      Span(said.axes_attr),              Span(said.keep_dims_attr),
                                      Span(said.formula)};
  if (said.axes_argument >= 0) properties.axes_input = ranges[static_cast<size_t>(said.axes_argument)].begin;
  properties.struct_size = std::min<uint32_t>(properties.struct_size, out_properties->struct_size);
  std::memcpy(out_properties, &properties, properties.struct_size);
}

tenon_node_services Services(tenon_span (*name)(const tenon_node*)) {
  return {TENON_HEAD(tenon_node_services),
          name,
          &Op,
          &Attr,
          &InputCount,
          &OutputCount,
          &InputType,
          &NodeOutputType,
          &InputRange,
          &OutputRange,
          &Device,
          &NodeProperties};
}

}  // namespace

const tenon_node_services* NodeServices() {
  static const tenon_node_services services = Services(&Name);
  return &services;
}

const tenon_node_services* StateServices() {
  static const tenon_node_services services = Services(&NameOfState);
  return &services;
}

}  // namespace tenon::graph
