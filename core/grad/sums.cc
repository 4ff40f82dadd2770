// SPDX-License-Identifier: Apache-2.0
#include "core/grad/sums.h"

#include <algorithm>
#include <span>

#include "core/graph/graph.h"
#include "core/tensor/allowance.h"

namespace tenon::grad {
namespace {

using graph::AttrValue;
using graph::Builder;
using graph::Edge;
using graph::NodeId;

Result<Edge> ConstantAfter(Builder* builder, Shape shape, int32_t value, const std::vector<NodeId>& controls) {
  TENON_ASSIGN_OR_RETURN(
      Tensor tensor, Tensor::FromValues<int32_t>(KeptPool(), TENON_DT_INT32, std::move(shape), std::span(&value, 1)));
  const std::vector<NodeId> before = builder->controls();
  if (!controls.empty()) builder->set_controls(controls);
  auto edge = builder->Constant(std::move(tensor));
  builder->set_controls(before);
  return edge;
}

}  // namespace

Result<Edge> Densify(Builder* builder, const tenon_gradient& gradient, const std::vector<NodeId>& controls) {
  if (gradient.kind == TENON_GRADIENT_DENSE) return graph::FromC(gradient.dense);
  std::vector<Edge> inputs = {graph::FromC(gradient.dense_shape)};
  for (const int32_t value : {0, 1, 1}) {
    TENON_ASSIGN_OR_RETURN(const Edge edge, ConstantAfter(builder, Shape({1}), value, controls));
    inputs.push_back(edge);
  }
  TENON_ASSIGN_OR_RETURN(const NodeId rows,
                         builder->AddRole("strided_slice", inputs, {{"shrink_axis_mask", AttrValue::Int(1)}}));
  TENON_ASSIGN_OR_RETURN(const NodeId dense,
                         builder->AddRole("unsorted_segment_sum",
                                          {graph::FromC(gradient.dense), graph::FromC(gradient.indices), {rows, 0}}));
  return Edge{dense, 0};
}

std::vector<NodeId> Sums::Controls() const { return turn_ ? std::vector<NodeId>{turn_} : std::vector<NodeId>(); }

void Sums::Add(Arrived* arrived, Edge edge, const tenon_gradient& gradient) const {
  if (gradient.kind == TENON_GRADIENT_NONE) return;
  const DType type = BaseType(builder_->graph().TypeOf(edge));
  if (MayCarry(type) || type == TENON_DT_RESOURCE) (*arrived)[edge].push_back(gradient);
}

Result<tenon_gradient> Sums::Total(Arrived* arrived, Edge edge) {
  const auto it = arrived->find(edge);
  if (it == arrived->end() || it->second.empty()) return kNoGradient;
  std::vector<tenon_gradient>& list = it->second;
  std::erase_if(list, [](const tenon_gradient& g) { return g.kind == TENON_GRADIENT_ZERO; });
  if (list.empty()) return kZeroGradient;
  if (list.size() == 1) return list[0];
  const bool all_slices =
      std::all_of(list.begin(), list.end(), [](const tenon_gradient& g) { return g.kind == TENON_GRADIENT_SLICES; });
  TENON_ASSIGN_OR_RETURN(const tenon_gradient sum, all_slices ? JoinSlices(list) : SumDense(list));
  list = {sum};
  return sum;
}

Result<tenon_gradient> Sums::SumDense(const std::vector<tenon_gradient>& list) {
  std::vector<Edge> edges;
  for (const tenon_gradient& gradient : list) {
    TENON_ASSIGN_OR_RETURN(const Edge dense, Densify(gradient));
    edges.push_back(dense);
  }
  TENON_ASSIGN_OR_RETURN(const NodeId sum, builder_->AddRole("sum", edges));
  return Dense({sum, 0});
}

// Slices are put one after the other, not added.
Result<tenon_gradient> Sums::JoinSlices(const std::vector<tenon_gradient>& list) {
  std::vector<Edge> values, indices;
  for (const tenon_gradient& gradient : list) {
    values.push_back(graph::FromC(gradient.dense));
    indices.push_back(graph::FromC(gradient.indices));
  }
  TENON_ASSIGN_OR_RETURN(const Edge axis, ConstantAfter(builder_, Shape(), 0, Controls()));
  values.push_back(axis);
  indices.push_back(axis);
  TENON_ASSIGN_OR_RETURN(const NodeId value, builder_->AddRole("concat", values));
  TENON_ASSIGN_OR_RETURN(const NodeId index, builder_->AddRole("concat", indices));
  return tenon_gradient{TENON_GRADIENT_SLICES, 0, {value.number(), 0, 0}, {index.number(), 0, 0}, list[0].dense_shape};
}

Result<Edge> Sums::Densify(const tenon_gradient& gradient) { return grad::Densify(builder_, gradient, Controls()); }

Result<Edge> Sums::DenseOrZeros(const tenon_gradient& gradient, Edge like) {
  if (HasValue(gradient)) return Densify(gradient);
  return Zeros(like, TENON_DT_INVALID);
}

Result<Edge> Sums::Zeros(Edge like, DType type) {
  TENON_ASSIGN_OR_RETURN(const Edge value, ValueOf(like, type));
  TENON_ASSIGN_OR_RETURN(const NodeId zeros, builder_->AddRole("zeros_like", {value}));
  return Edge{zeros, 0};
}

// A variable's value, or the value itself.
Result<Edge> Sums::ValueOf(Edge like, DType type) {
  if (BaseType(builder_->graph().TypeOf(like)) != TENON_DT_RESOURCE || !IsPlain(type)) return like;
  TENON_ASSIGN_OR_RETURN(const NodeId read,
                         builder_->AddRole("read_variable", {like}, {{"dtype", AttrValue::Type(type)}}));
  return Edge{read, 0};
}

DType Sums::TypeOf(const tenon_output& end) const { return BaseType(builder_->graph().TypeOf(graph::FromC(end))); }

bool Sums::AreAlike(const tenon_gradient& a, const tenon_gradient& b) const {
  return TypeOf(a.dense) == TypeOf(b.dense) && TypeOf(a.indices) == TypeOf(b.indices) &&
         TypeOf(a.dense_shape) == TypeOf(b.dense_shape);
}

// The first none of the value's rows, and of its dims as indices: so both are dead where the value is.
Result<tenon_gradient> Sums::NoRows(Edge like, const tenon_gradient& alike) {
  TENON_ASSIGN_OR_RETURN(const Edge value, ValueOf(like, TypeOf(alike.dense)));
  const auto shape_of = [&](DType type) {
    return builder_->AddRole("shape", {value}, {{"out_type", AttrValue::Type(type)}});
  };
  TENON_ASSIGN_OR_RETURN(const NodeId shape, shape_of(TypeOf(alike.dense_shape)));
  TENON_ASSIGN_OR_RETURN(const NodeId dims, shape_of(TypeOf(alike.indices)));
  TENON_ASSIGN_OR_RETURN(const Edge zero, ConstantAfter(builder_, Shape({1}), 0, Controls()));
  TENON_ASSIGN_OR_RETURN(const Edge one, ConstantAfter(builder_, Shape({1}), 1, Controls()));
  TENON_ASSIGN_OR_RETURN(const NodeId rows, builder_->AddRole("strided_slice", {value, zero, zero, one}));
  TENON_ASSIGN_OR_RETURN(const NodeId indices, builder_->AddRole("strided_slice", {Edge{dims, 0}, zero, zero, one}));
  return tenon_gradient{
      TENON_GRADIENT_SLICES, 0, {rows.number(), 0, 0}, {indices.number(), 0, 0}, {shape.number(), 0, 0}};
}

}  // namespace tenon::grad
