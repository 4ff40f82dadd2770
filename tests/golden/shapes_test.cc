// SPDX-License-Identifier: Apache-2.0
// Shape functions against what TensorFlow infers: never another shape, never less, an error where it has one. Covers
// A3.
#include <gtest/gtest.h>

#include "core/graph/graph.h"
#include "core/graph/shape_inference.h"
#include "tests/golden/packages.h"

namespace tenon::golden {
namespace {

using graph::AttrMap;
using graph::AttrValue;
using graph::Edge;
using graph::Graph;
using graph::OutputFacts;
using graph::ShapeInference;

Shape ShapeOf(const Json& json) { return json.is_null() ? Shape::Unknown() : Shape(json.get<std::vector<int64_t>>()); }

Tensor TensorOf(DType dtype, const Shape& shape, const Json& values) {
  auto tensor = Tensor::Allocate(GlobalPool(), dtype, shape);
  EXPECT_TRUE(tensor.ok());
  for (size_t i = 0; i < values.size(); ++i) {
    switch (dtype) {
      case TENON_DT_INT32: tensor->as<int32_t>()[i] = values[i]; break;
      case TENON_DT_INT64: tensor->as<int64_t>()[i] = values[i]; break;
      case TENON_DT_FLOAT: tensor->as<float>()[i] = values[i]; break;
      default: ADD_FAILURE() << "no values of type " << TypeName(dtype);
    }
  }
  return *std::move(tensor);
}

AttrValue AttrOf(const graph::AttrDef& def, const Json& json) {
  switch (def.kind) {
    case TENON_ATTR_STRING: return AttrValue::String(json);
    case TENON_ATTR_INT: return AttrValue::Int(json);
    case TENON_ATTR_FLOAT: return AttrValue::Float(json);
    case TENON_ATTR_BOOL: return AttrValue::Bool(json);
    case TENON_ATTR_TYPE: return AttrValue::Type(json);
    case TENON_ATTR_INT | TENON_ATTR_LIST: return AttrValue::Ints(json.get<std::vector<int64_t>>());
    case TENON_ATTR_SHAPE: return AttrValue::OfShape(ShapeOf(json));
    case TENON_ATTR_TYPE | TENON_ATTR_LIST: return AttrValue::Types(json.get<std::vector<DType>>());
    case TENON_ATTR_STRING | TENON_ATTR_LIST: return AttrValue::Strings(json.get<std::vector<std::string>>());
    case TENON_ATTR_SHAPE | TENON_ATTR_LIST: {
      std::vector<Shape> shapes;
      for (const Json& one : json) shapes.push_back(ShapeOf(one));
      return AttrValue::Shapes(shapes);
    }
    default: ADD_FAILURE() << "attribute " << def.name; return AttrValue::Int(0);
  }
}

// A graph of the node and its inputs; the inferred shapes of its outputs, or the error.
Result<std::vector<Shape>> Infer(const Json& one) {
  const graph::OpDef* op = Registry().FindOrNull(one["op"].get<std::string>());
  EXPECT_NE(op, nullptr) << one["op"];
  Graph graph(&Registry());
  ShapeInference inference(&graph);
  graph::NodeSpec spec;
  spec.op = op;
  spec.name = "node";
  for (const graph::ArgDef& arg : op->inputs) {
    for (const Json& input : one["inputs"][arg.name]) {
      const DType dtype = input[0];
      graph::NodeSpec source;
      const bool known = !input[2].is_null();
      source.op = Registry().FindOrNull(known ? "Const" : "Placeholder");
      source.name = graph.UniqueName("input");
      source.attrs["dtype"] = AttrValue::Type(dtype);
      if (known)
        source.attrs["value"] = AttrValue::OfTensor(TensorOf(dtype, ShapeOf(input[1]), input[2]));
      else
        source.attrs["shape"] = AttrValue::OfShape(ShapeOf(input[1]));
      TENON_ASSIGN_OR_RETURN(const graph::NodeId id, graph.Add(std::move(source)));
      spec.inputs.push_back({id, 0});
    }
    if (!arg.number_attr.empty()) {
      spec.attrs[arg.number_attr] = AttrValue::Int(static_cast<int64_t>(one["inputs"][arg.name].size()));
    }
  }
  for (const auto& [name, value] : one["attrs"].items()) {
    const graph::AttrDef* def = op->FindAttr(name);
    EXPECT_NE(def, nullptr) << one["op"] << " " << name;
    spec.attrs[name] = AttrOf(*def, value);
  }
  TENON_ASSIGN_OR_RETURN(const graph::NodeId id, graph.Add(std::move(spec)));
  TENON_RETURN_IF_ERROR(inference.Run());
  std::vector<Shape> shapes;
  for (size_t i = 0; i < graph.node(id).output_types.size(); ++i) {
    shapes.push_back(inference.facts({id, static_cast<int32_t>(i)}).shape);
  }
  return shapes;
}

// Whether `found` says all that `want` says, and nothing else of the same dim.
bool SaysAtLeast(const Shape& found, const Shape& want) {
  if (!want.known_rank()) return true;
  if (found.rank() != want.rank()) return false;
  for (int i = 0; i < want.rank(); ++i) {
    if (want.dim(i) >= 0 && found.dim(i) != want.dim(i)) return false;
  }
  return true;
}

TEST(ShapeFunctions, SayWhatTensorFlowSays) {
  LoadAll();
  size_t cases = 0, errors = 0;
  for (const Json& one : ReadLines("shapes.jsonl")) {
    ++cases;
    const auto found = Infer(one);
    if (one["outputs"].is_null()) {
      ++errors;
      EXPECT_FALSE(found.ok()) << one << "\ninferred " << found->front().ToString() << " where TensorFlow has an error";
      continue;
    }
    if (!found.ok() && one.contains("fails")) continue;  // earlier than TensorFlow: better
    if (!found.ok()) {
      ADD_FAILURE() << one << "\n" << found.status().message();
      continue;
    }
    ASSERT_EQ(found->size(), one["outputs"].size()) << one;
    for (size_t i = 0; i < found->size(); ++i) {
      EXPECT_TRUE(SaysAtLeast((*found)[i], ShapeOf(one["outputs"][i])))
          << one << "\ninferred " << (*found)[i].ToString();
    }
  }
  EXPECT_GT(cases, 1000u);
  EXPECT_GT(errors, 200u);
}

}  // namespace
}  // namespace tenon::golden
