// SPDX-License-Identifier: Apache-2.0
// A node built in code, as the functions of a plugin read it: its op, its attributes, and the types of its inputs and
// outputs.
//
//   const Node node = {"Concat", {{"axis", 1}, {"T", Type{TENON_DT_FLOAT}}}, {TENON_DT_FLOAT, TENON_DT_FLOAT},
//       {TENON_DT_FLOAT}};
//   create_args.node = &node, create_args.node_services = NodeServices();
//
// Attributes have no defaults: what a kernel asks for must be there, or it gets NOT_FOUND. A node is read by one thread
// at a time.
#ifndef TENON_TESTING_NODE_H_
#define TENON_TESTING_NODE_H_

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tenon/graph.h"
#include "tenon/testing/host.h"

namespace tenon::testing {

// An attribute that is a type: TENON_DT_*.
struct Type {
  uint32_t dtype;
};
// Lists besides single values; a list of Dimensions is one of shapes.
using Attribute = std::variant<bool, int64_t, float, Type, std::string, std::vector<int64_t>, std::vector<float>,
                               std::vector<uint32_t>, std::vector<std::string>, std::vector<Dimensions>>;
using Attributes = std::map<std::string, Attribute, std::less<>>;

}  // namespace tenon::testing

// The C ABI's opaque node.
struct tenon_node {
  std::string op = "";
  tenon::testing::Attributes attributes = {};  // a std::vector<uint32_t> is a list of types
  std::vector<uint32_t> input_types = {}, output_types = {};
  std::string name = "node";
  // of named inputs: where they begin, and how many they are
  std::map<std::string, std::pair<int32_t, int32_t>, std::less<>> arguments = {};
  // What callbacks were given pointers to.
  mutable std::deque<std::vector<tenon_span>> spans = {};
  mutable std::deque<std::vector<tenon_shape>> shapes = {};
  mutable uint8_t flag = 0;
};

namespace tenon::testing {

using Node = tenon_node;

// An attribute as the ABI gives it; valid as long as the node and its attributes are.
inline tenon_attr_value ValueOf(const Node& node, const Attribute& attribute) {
  const auto spans = [&](const std::vector<std::string>& texts) {
    std::vector<tenon_span>& kept = node.spans.emplace_back();
    for (const std::string& text : texts) kept.push_back(Span(text));
    return kept.data();
  };
  const auto list = [](uint32_t kind, const auto& values) {
    return tenon_attr_value{kind | TENON_ATTR_LIST, 0, values.size(), values.data()};
  };
  if (const auto* b = std::get_if<bool>(&attribute)) {
    node.flag = *b ? 1 : 0;
    return {TENON_ATTR_BOOL, 0, 1, &node.flag};
  }
  if (const auto* i = std::get_if<int64_t>(&attribute)) return {TENON_ATTR_INT, 0, 1, i};
  if (const auto* f = std::get_if<float>(&attribute)) return {TENON_ATTR_FLOAT, 0, 1, f};
  if (const auto* t = std::get_if<Type>(&attribute)) return {TENON_ATTR_TYPE, 0, 1, &t->dtype};
  if (const auto* s = std::get_if<std::string>(&attribute))
    return {TENON_ATTR_STRING, 0, 1, node.spans.emplace_back(1, Span(*s)).data()};
  if (const auto* is = std::get_if<std::vector<int64_t>>(&attribute)) return list(TENON_ATTR_INT, *is);
  if (const auto* fs = std::get_if<std::vector<float>>(&attribute)) return list(TENON_ATTR_FLOAT, *fs);
  if (const auto* ts = std::get_if<std::vector<uint32_t>>(&attribute)) return list(TENON_ATTR_TYPE, *ts);
  if (const auto* texts = std::get_if<std::vector<std::string>>(&attribute))
    return {TENON_ATTR_STRING | TENON_ATTR_LIST, 0, texts->size(), spans(*texts)};
  std::vector<tenon_shape>& shapes = node.shapes.emplace_back();
  for (const Dimensions& dims : std::get<std::vector<Dimensions>>(attribute))
    shapes.push_back({dims.data(), static_cast<int32_t>(dims.size()), 0});
  return list(TENON_ATTR_SHAPE, shapes);
}

inline uint32_t TypeAt(const std::vector<uint32_t>& types, int32_t index) {
  return index < 0 || static_cast<size_t>(index) >= types.size() ? TENON_DT_INVALID : types[static_cast<size_t>(index)];
}

inline const tenon_node_services* NodeServices() {
  static const tenon_node_services services = [] {
    tenon_node_services s = {};
    s.struct_size = sizeof s;
    s.name = [](const tenon_node* node) { return Span(node->name); };
    s.op = [](const tenon_node* node) { return Span(node->op); };
    s.attr = [](const tenon_node* node, tenon_span name, tenon_attr_value* out) -> tenon_status* {
      const auto found = node->attributes.find(View(name));
      if (found == node->attributes.end())
        return NewStatus(TENON_NOT_FOUND,
                         "node '" + node->name + "' (" + node->op + ") has no attribute '" + String(name) + "'");
      *out = ValueOf(*node, found->second);
      return nullptr;
    };
    s.input_count = [](const tenon_node* node) { return static_cast<int32_t>(node->input_types.size()); };
    s.output_count = [](const tenon_node* node) { return static_cast<int32_t>(node->output_types.size()); };
    s.input_dtype = [](const tenon_node* node, int32_t i) { return TypeAt(node->input_types, i); };
    s.output_dtype = [](const tenon_node* node, int32_t i) { return TypeAt(node->output_types, i); };
    s.input_range = [](const tenon_node* node, tenon_span argument, int32_t* out_begin,
                       int32_t* out_count) -> tenon_status* {
      const auto found = node->arguments.find(View(argument));
      if (found == node->arguments.end())
        return NewStatus(TENON_NOT_FOUND,
                         "node '" + node->name + "' (" + node->op + ") has no argument '" + String(argument) + "'");
      *out_begin = found->second.first;
      *out_count = found->second.second;
      return nullptr;
    };
    s.device = [](const tenon_node*) { return tenon_span{"", 0}; };
    return s;
  }();
  return &services;
}

}  // namespace tenon::testing

#endif  // TENON_TESTING_NODE_H_
