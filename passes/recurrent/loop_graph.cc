// SPDX-License-Identifier: Apache-2.0
#include "loop_graph.h"

#include <algorithm>
#include <cstring>

#include "tenon/extras/device/regions.h"
#include "tenon/sdk/op/formula.h"
#include "tenon/sdk/op/graph_view.h"

namespace tenon::passes {

namespace {

using sdk::Output;

constexpr int kMostSteps = 64;       // along nodes that pass a value on
constexpr int kMostParts = 8;        // of a value that is made outside, one of another
constexpr size_t kMostNodes = 4096;  // that somebody in a loop waits for

}  // namespace

// ---- Nodes ----

const Nodes::Node& Nodes::At(int64_t id) {
  const auto [found, is_new] = nodes_.try_emplace(id);
  Node& node = found->second;
  if (!is_new || id < 0) return node;
  p_.With(id, [&](sdk::NodeContext& c) {
    if (p_.Runs(id)) node.op = c.op(), node.function = sdk::FunctionOf(c);
    const uint64_t properties = c.Properties().flags;
    node.is_part = p_.Runs(id) && (properties & (TENON_PROPERTY_MOVES | TENON_PROPERTY_VIEW)) != 0 &&
                   (properties & sdk::kOfMoreThanInputs) == 0;
    node.inputs.resize(static_cast<size_t>(c.input_count()), Output{-1, 0, 0});
    node.is_float = c.output_count() > 0 && c.output_type(0) == TENON_DT_FLOAT;
  });
  node.device = p_.DeviceOf(id);
  for (size_t i = 0; i < node.inputs.size(); ++i) node.inputs[i] = p_.input(id, static_cast<int>(i));
  for (int i = 0, count = p_.control_input_count(id); i < count; ++i) node.controls.push_back(p_.control_input(id, i));
  return node;
}

template <class T>
std::optional<std::vector<T>> Nodes::Elements(Output edge, uint32_t dtype) {
  constexpr uint64_t kMost = 16;
  if (At(edge.node).op != "Const") return std::nullopt;
  std::optional<std::vector<T>> elements;
  p_.With(edge.node, [&](sdk::NodeContext& c) {
    const tenon_attr_value value = c.Raw("value");
    if (value.kind != TENON_ATTR_TENSOR || value.count != 1) return;
    const tenon_tensor_view& view = *static_cast<const tenon_tensor_view*>(value.data);
    if (view.dtype != dtype || view.dl.ndim > 1 || view.byte_size > kMost * sizeof(T)) return;
    elements.emplace(view.byte_size / sizeof(T));
    if (view.byte_size != 0)
      std::memcpy(elements->data(), static_cast<const char*>(view.dl.data) + view.dl.byte_offset, view.byte_size);
    if (view.dl.ndim == 0 && elements->size() != 1) elements.reset();
  });
  return elements;
}
std::optional<std::vector<int32_t>> Nodes::Integers(Output edge) { return Elements<int32_t>(edge, TENON_DT_INT32); }
std::optional<std::vector<float>> Nodes::Floats(Output edge) { return Elements<float>(edge, TENON_DT_FLOAT); }

Output Nodes::Plain(Output edge) {
  for (int step = 0; step < kMostSteps && At(edge.node).op == "Identity"; ++step) edge = At(edge.node).inputs[0];
  return edge;
}

// ---- How many steps there are ----

Output Nodes::AsLong(Output x) {
  x = Plain(x);
  return At(x.node).op == "ReverseV2" ? Plain(At(x.node).inputs[0]) : x;
}

std::optional<int32_t> Nodes::ElementTaken(const Node& slice, int64_t id) {
  const auto mask = [&](const char* name) { return Attr(id, &sdk::NodeContext::Int, name); };
  if (mask("shrink_axis_mask") != 1 || mask("begin_mask") > 1 || mask("ellipsis_mask") != 0 ||
      mask("new_axis_mask") != 0)
    return std::nullopt;
  const std::optional<std::vector<int32_t>> begin = Integers(Plain(slice.inputs[1]));
  return begin.has_value() && begin->size() == 1 ? std::optional(mask("begin_mask") == 1 ? 0 : begin->front())
                                                 : std::nullopt;
}

bool Nodes::IsTime(Output x, Output edge) {
  edge = Plain(edge);
  if (At(edge.node).op == "Max") edge = Plain(At(edge.node).inputs[0]);
  const Node slice = At(edge.node);
  if (slice.op != "StridedSlice" || ElementTaken(slice, edge.node) != 0) return false;
  const Output shape = Plain(slice.inputs[0]);
  if (At(shape.node).op != "Shape") return false;
  const Output of = AsLong(At(shape.node).inputs[0]), wanted = AsLong(x);
  return of.node == wanted.node && of.index == wanted.index;
}

std::optional<int64_t> Nodes::Number(Output edge, int depth) {
  constexpr int kDeepest = 2;  // TensorFlow 1 writes the smaller of n and the larger of 1 and n
  edge = Plain(edge);
  const Node node = At(edge.node);
  // Of one number the largest is itself: so Keras says how many turns there are at most.
  if (node.op == "Max") edge = Plain(node.inputs[0]);
  if (const auto number = Integers(edge); number.has_value())
    return p_.shape(edge).rank() == 0 ? std::optional<int64_t>(number->front()) : std::nullopt;
  if (node.op == "StridedSlice") {
    const std::optional<std::vector<int32_t>> shape = Integers(Plain(node.inputs[0]));
    const std::optional<int32_t> at = ElementTaken(node, edge.node);
    if (!shape.has_value() || !at.has_value() || *at < 0 || static_cast<size_t>(*at) >= shape->size())
      return std::nullopt;
    return (*shape)[static_cast<size_t>(*at)];
  }
  if (depth == kDeepest || (node.function != "minimum" && node.function != "maximum") || node.inputs.size() != 2)
    return std::nullopt;
  const std::optional<int64_t> a = Number(node.inputs[0], depth + 1), b = Number(node.inputs[1], depth + 1);
  if (!a.has_value() || !b.has_value()) return std::nullopt;
  return node.function == "minimum" ? std::min(*a, *b) : std::max(*a, *b);
}

bool Nodes::IsTimeOf(Output x, Output edge) {
  edge = Plain(edge);
  const Node node = At(edge.node);
  if (node.function != "minimum" || node.inputs.size() != 2) return IsTime(x, edge);
  const auto at_least_one = [&](Output value) {
    value = Plain(value);
    const Node largest = At(value.node);
    if (largest.function != "maximum" || largest.inputs.size() != 2) return false;
    const auto one = [&](Output a, Output b) { return Integers(Plain(a)) == std::vector<int32_t>{1} && IsTime(x, b); };
    return one(largest.inputs[0], largest.inputs[1]) || one(largest.inputs[1], largest.inputs[0]);
  };
  return (IsTime(x, node.inputs[0]) && at_least_one(node.inputs[1])) ||
         (IsTime(x, node.inputs[1]) && at_least_one(node.inputs[0]));
}

std::optional<Nodes::Below> Nodes::AllBelow(Output edge) {
  edge = Plain(edge);
  const Node node = At(edge.node);
  if (node.op == "Range") {
    if (Number(node.inputs[0]) != 0 || Number(node.inputs[2]) != 1) return std::nullopt;
    return Below{Number(node.inputs[1]), node.inputs[1]};
  }
  const std::optional<std::vector<int64_t>> numbers = p_.Integers(edge);
  if (!numbers.has_value()) return std::nullopt;
  for (size_t i = 0; i < numbers->size(); ++i)
    if ((*numbers)[i] != static_cast<int64_t>(i)) return std::nullopt;
  return Below{static_cast<int64_t>(numbers->size()), {-1, 0, 0}};
}

// ---- Where values come from ----

Output LoopGraph::Plain(Output edge) {
  for (int step = 0; step < kMostSteps && At(edge.node).op == "Identity"; ++step) {
    passed_.insert(edge.node);
    edge = At(edge.node).inputs[0];
  }
  return edge;
}

std::optional<LoopGraph::Variable> LoopGraph::VariableOf(int64_t merge) {
  const Nodes::Node node = At(merge);
  if (node.op != "Merge" || node.inputs.size() != 2) return std::nullopt;
  Variable variable;
  variable.next = {-1, 0, 0};
  for (const Output& input : node.inputs) {
    const Nodes::Node& source = At(input.node);
    if (source.op == "Enter") variable.enter = input.node, variable.initial = source.inputs[0];
    if (source.op == "NextIteration") variable.next = source.inputs[0], passed_.insert(input.node);
  }
  if (variable.enter < 0 || variable.next.node < 0) return std::nullopt;
  passed_.insert(merge);
  enters_.insert(variable.enter);
  return variable;
}

LoopGraph::Source LoopGraph::SourceOf(Output edge) {
  for (int step = 0; step < kMostSteps; ++step) {
    const Nodes::Node& node = At(edge.node);
    if (node.op != "Enter") passed_.insert(edge.node);
    if (node.op == "Identity" || (node.op == "Switch" && edge.index == 1 && node.inputs[1].node == condition_)) {
      edge = node.inputs[0];
    } else if (node.op == "Enter") {
      enters_.insert(edge.node);
      return {Source::Kind::kOutside, Plain(node.inputs[0]), -1};
    } else if (node.op == "Merge" && edge.index == 0) {
      const std::optional<Variable> variable = VariableOf(edge.node);
      if (!variable.has_value()) break;
      if (IsUnchanged(edge.node, *variable)) return {Source::Kind::kOutside, Plain(variable->initial), -1};
      return {Source::Kind::kVariable, {-1, 0, 0}, edge.node};
    } else {
      break;
    }
  }
  return {Source::Kind::kInside, edge, -1};
}

sdk::Shape LoopGraph::ShapeOf(Output edge) {
  const Source source = SourceOf(edge);
  return pass().shape(source.kind == Source::Kind::kOutside ? source.edge : edge);
}

bool LoopGraph::IsUnchanged(int64_t merge, const Variable& variable) {
  Output edge = Plain(variable.next);
  const Nodes::Node& node = At(edge.node);
  if (node.op == "Switch" && edge.index == 1 && node.inputs[1].node == condition_) edge = Plain(node.inputs[0]);
  return edge.node == merge && edge.index == 0;
}

bool LoopGraph::IsVariable(Output edge, int64_t merge) {
  const Source source = SourceOf(edge);
  return source.kind == Source::Kind::kVariable && source.merge == merge;
}

int64_t LoopGraph::Made(Output edge, std::string_view op, std::string_view or_op) {
  const Source source = SourceOf(edge);
  if (source.kind != Source::Kind::kInside || source.edge.index != 0) return -1;
  const std::string& own = At(source.edge.node).op;
  return own == op || own == or_op ? source.edge.node : -1;
}

int64_t LoopGraph::Computed(Output edge, std::string_view function) {
  const Source source = SourceOf(edge);
  if (source.kind != Source::Kind::kInside || source.edge.index != 0) return -1;
  return At(source.edge.node).function == function ? source.edge.node : -1;
}

bool LoopGraph::BecomesOf(int64_t merge, Output made) {
  const std::optional<Variable> variable = VariableOf(merge);
  if (!variable.has_value()) return false;
  const Source next = SourceOf(variable->next);
  return next.kind == Source::Kind::kInside && next.edge.node == made.node && next.edge.index == made.index;
}

bool LoopGraph::Counts(int64_t merge) {
  const std::optional<Variable> variable = VariableOf(merge);
  if (!variable.has_value() || NumberOf(variable->initial) != 0) return false;
  return InEitherOrder(Computed(variable->next, "add"),
                       [&](Output a, Output b) { return IsVariable(a, merge) && NumberOf(b) == 1; });
}

std::optional<int64_t> LoopGraph::NumberOf(Output edge) {
  const Source source = SourceOf(edge);
  if (source.kind == Source::Kind::kVariable) return std::nullopt;
  return nodes_.Number(source.edge);
}

std::optional<float> LoopGraph::RealOf(Output edge) {
  const Source source = SourceOf(edge);
  if (source.kind == Source::Kind::kVariable) return std::nullopt;
  const std::optional<std::vector<float>> number = nodes_.Floats(source.edge);
  return number.has_value() && pass().shape(source.edge).rank() == 0 ? std::optional(number->front()) : std::nullopt;
}

// ---- What is the same in each turn ----

bool LoopGraph::IsInvariant(Output edge, std::string_view device, int depth) {
  const Source source = SourceOf(edge);
  if (source.kind != Source::Kind::kInside) return source.kind == Source::Kind::kOutside;
  const Nodes::Node& node = At(source.edge.node);
  if (node.op == "Const") return true;
  if (depth >= kMostParts || (!node.is_part && node.op != "ReadVariableOp") || node.device != device) return false;
  return std::all_of(node.inputs.begin(), node.inputs.end(),
                     [&](const Output& input) { return IsInvariant(input, device, depth + 1); });
}

bool LoopGraph::IsSame(Output a, Output b) {
  const Source one = SourceOf(a), other = SourceOf(b);
  if (one.kind != other.kind || one.kind == Source::Kind::kVariable) return false;
  if (one.edge.node == other.edge.node && one.edge.index == other.edge.index) return true;
  // One variable that is read twice.
  if (one.kind != Source::Kind::kInside || At(one.edge.node).op != "ReadVariableOp" ||
      At(other.edge.node).op != "ReadVariableOp")
    return false;
  const Source first = SourceOf(At(one.edge.node).inputs[0]), second = SourceOf(At(other.edge.node).inputs[0]);
  return first.kind == Source::Kind::kOutside && second.kind == first.kind && first.edge.node == second.edge.node &&
         first.edge.index == second.edge.index;
}

Output LoopGraph::Outside(Output edge) {
  const Source source = SourceOf(edge);
  if (source.kind == Source::Kind::kOutside) return source.edge;
  const int64_t id = source.edge.node;
  std::vector<Output> inputs;
  for (const Output& input : std::vector<Output>(At(id).inputs)) inputs.push_back(Outside(input));
  return {pass().Like(id, inputs), source.edge.index, 0};
}

bool LoopGraph::HasNoOtherEffects(int64_t enter) {
  std::vector<int64_t> left(passed_.begin(), passed_.end());
  std::set<int64_t> seen;
  while (!left.empty()) {
    const int64_t id = left.back();
    left.pop_back();
    if (id < 0 || !seen.insert(id).second) continue;
    if (seen.size() > kMostNodes) return false;
    const Nodes::Node& node = At(id);
    const bool is_harmless =
        passed_.contains(id) || sdk::IsOneOf(node.op, {"NoOp", "Identity", "ReadVariableOp", "Const", "Switch", "Merge",
                                                       "Enter", "LoopCond", "Fill", "TensorListReserve"});
    if (!is_harmless) return false;
    if (node.op == "Enter") continue;
    left.insert(left.end(), node.controls.begin(), node.controls.end());
  }
  const std::vector<int64_t>& waits = At(enter).controls;
  return std::all_of(enters_.begin(), enters_.end(), [&](int64_t id) { return At(id).controls == waits; });
}

}  // namespace tenon::passes
