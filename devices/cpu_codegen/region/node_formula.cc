// SPDX-License-Identifier: Apache-2.0
#include "region/node_formula.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "tenon/sdk/kernel/kernel.h"
#include "tenon/sdk/op/formula.h"

namespace tenon::cpu_codegen {
namespace {

using Argument = sdk::FormulaOperand;

// Its channels broadcast by a rule of their own, which no property says.
constexpr std::string_view kBias = "BiasAdd";

bool IsQuestion(Function function) {
  using enum Function;
  return function == kIsNan || function == kIsInf || function == kIsFinite ||
         (function >= kEqual && function <= kOr) || function == kNot;
}

bool HasSetting(Function function) {
  return function == Function::kLeakyRelu || function == Function::kLeakyReluGrad || function == Function::kCast;
}
// Values of 16 bits are made wide before several functions, and the last one narrow: so little is rounded as in a
// kernel that computes in floats.
bool Widens(const sdk::Formula& formula) {
  const sdk::FormulaStep& first = formula[0];
  return formula.size() > 1 ||
         (!HasSetting(FunctionOf(first.function)) &&
          std::any_of(first.operands.begin(), first.operands.end(),
                      [](const Argument& operand) { return operand.kind == Argument::Kind::kNumber; }));
}

class Translation {
 public:
  Translation(const NodeTypes& types, Level level, bool widens) : types_(types), level_(level), widens_(widens) {
    dtypes_ = types.inputs;
    are_used_.resize(dtypes_.size());
  }

  // Nothing where one of them is not generated, or where the node has an input of which they say nothing: it may be of
  // any type.
  std::optional<std::vector<Node>> Of(const sdk::Formula& formula) {
    for (const sdk::FormulaStep& step : formula)
      if (!Add(step)) return std::nullopt;
    if (std::find(are_used_.begin(), are_used_.end(), false) != are_used_.end()) return std::nullopt;
    const int last = of_steps_.back();
    if (TypeOf(last) == types_.output) return std::move(nodes_);
    const bool is_wide = TypeOf(last) == Wide(types_.output);
    if (!is_wide || !Append({Function::kCast, types_.output, {last}})) return std::nullopt;
    return std::move(nodes_);
  }

 private:
  uint32_t TypeOf(int value) const { return dtypes_[static_cast<size_t>(value)]; }
  uint32_t Wide(uint32_t type) const { return widens_ && IsHalf(type) ? uint32_t{TENON_DT_FLOAT} : type; }

  // The new node's value.
  std::optional<int> Append(Node node) {
    std::vector<uint32_t> inputs;
    for (const int operand : node.operands) inputs.push_back(TypeOf(operand));
    if (!IsGenerated(node.function, inputs, node.dtype, level_)) return std::nullopt;
    dtypes_.push_back(node.dtype);
    nodes_.push_back(std::move(node));
    return static_cast<int>(dtypes_.size()) - 1;
  }
  std::optional<int> ValueOf(const Argument& operand) {
    if (operand.kind == Argument::Kind::kStep) return of_steps_[static_cast<size_t>(operand.index)];
    are_used_[static_cast<size_t>(operand.index)] = true;
    const uint32_t type = TypeOf(operand.index);
    if (Wide(type) == type) return operand.index;
    const auto [found, is_new] = widened_.emplace(operand.index, 0);
    if (is_new) {
      const std::optional<int> wide = Append({Function::kCast, Wide(type), {operand.index}});
      if (!wide) return std::nullopt;
      found->second = *wide;
    }
    return found->second;
  }

  bool Add(const sdk::FormulaStep& step) {
    Node node;
    node.function = FunctionOf(step.function);
    std::vector<Argument> operands = step.operands;
    if (node.function == Function::kUnknown || operands.empty()) return false;
    if (!TakeSetting(&node, &operands)) return false;
    std::vector<std::optional<int>> values(operands.size());
    std::optional<int> some;  // that is no number
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].kind == Argument::Kind::kNumber) continue;
      values[i] = ValueOf(operands[i]);
      if (!values[i]) return false;
      if (!some || i + 1 == operands.size()) some = values[i];
    }
    if (!some) return false;
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].kind == Argument::Kind::kNumber) values[i] = NumberBeside(operands[i].number, *some);
      if (!values[i]) return false;
      node.operands.push_back(*values[i]);
    }
    node.dtype = IsQuestion(node.function)          ? uint32_t{TENON_DT_BOOL}
                 : node.function == Function::kCast ? Wide(types_.output)
                                                    : TypeOf(node.operands.back());
    const std::optional<int> value = Append(std::move(node));
    if (value) of_steps_.push_back(*value);
    return value.has_value();
  }
  // What says how is no operand of the generator's.
  static bool TakeSetting(Node* node, std::vector<Argument>* operands) {
    if (!HasSetting(node->function)) return true;
    const Argument setting = operands->back();
    operands->pop_back();
    if (operands->empty() || setting.kind != Argument::Kind::kNumber) return false;
    if (node->function == Function::kCast) return setting.number == 0;  // one that does not truncate
    node->number = setting.number;
    return true;
  }
  std::optional<int> NumberBeside(double number, int value) {
    const uint32_t type = TypeOf(value);
    constexpr double kMostWhole = 0x1p31;
    if ((type == TENON_DT_INT32 || type == TENON_DT_INT64) &&
        (number != std::floor(number) || std::abs(number) >= kMostWhole))
      return std::nullopt;
    return Append({Function::kNumber, type, {value}, number});
  }

  const NodeTypes& types_;
  const Level level_;
  const bool widens_;
  std::vector<uint32_t> dtypes_;  // of values
  std::vector<bool> are_used_;    // inputs
  std::vector<Node> nodes_;
  std::vector<int> of_steps_;
  std::map<int, int> widened_;  // inputs
};

}  // namespace

NodeTypes TypesOf(const tenon_node_services& services, const tenon_node* node) {
  NodeTypes types;
  for (int32_t i = 0, count = services.input_count(node); i < count; ++i)
    types.inputs.push_back(services.input_dtype(node, i));
  types.output = services.output_dtype(node, 0);
  return types;
}

bool NodeFormula::IsSaid(const tenon_node_services& services, const tenon_node* node) {
  return sdk::PropertiesOf(services, node).formula.size > 0 || sdk::ToText(services.op(node)) == kBias;
}

NodeFormula::NodeFormula(const tenon_node_services& services, const tenon_node* node, Level level) {
  sdk::NodeContext context(&services, node);
  const tenon_node_properties properties = context.Properties();
  broadcasts_ = (properties.flags & TENON_PROPERTY_BROADCASTS) != 0 ||
                (properties.flags & TENON_PROPERTY_ELEMENTWISE) == 0;
  elements_ = properties.elements;
  is_bias_ = context.op() == kBias;
  constexpr Argument kValue = {Argument::Kind::kInput, 0, 0}, kChannels = {Argument::Kind::kInput, 1, 0};
  const sdk::Formula formula = is_bias_ ? sdk::Formula{sdk::FormulaStep{"add", {kValue, kChannels}}}
                                        : sdk::FormulaOf(services, node);
  is_said_ = !formula.empty();
  if (!is_said_) return;
  const NodeTypes types = TypesOf(services, node);
  is_power_ = sdk::FunctionOf(context) == "pow";
  is_of_known_ = std::all_of(formula.begin(), formula.end(), [](const sdk::FormulaStep& step) {
    return FunctionOf(step.function) != Function::kUnknown;
  });
  std::optional<std::vector<Node>> nodes = Translation(types, level, Widens(formula)).Of(formula);
  if (nodes) nodes_ = std::move(*nodes);
  else
    why_ = sdk::Concat(context.op(), " of ", sdk::TypeName(types.inputs.empty() ? types.output : types.inputs[0]),
                       " is not generated");
  if (is_bias_ && context.String("data_format") == "NCHW") {
    refusal_ = TENON_REFUSE_OP;
    why_ = "its channels are not the last dim";
  }
  sdk::Check(context.Finish());
}

bool NodeFormula::Fits(size_t input, std::span<const int64_t> shape, std::span<const int64_t> output) const {
  constexpr size_t kLast = 63;
  if (broadcasts_) return true;
  if (is_bias_ && input == 1) return output.size() >= 2 && shape.size() == 1 && shape[0] == output.back();
  const bool is_element = (elements_ >> std::min(input, kLast) & 1) != 0;
  return std::equal(shape.begin(), shape.end(), output.begin(), output.end()) || (!is_element && shape.empty());
}

}  // namespace tenon::cpu_codegen
