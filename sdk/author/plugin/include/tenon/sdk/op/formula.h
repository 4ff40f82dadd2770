// SPDX-License-Identifier: Apache-2.0
// What a node's op computes of one element (tenon/formula.h), for compilers and passes: functions in their order, each
// of inputs, numbers, and what functions before it gave. The last one's is the node's output.
//
//   for (const FormulaStep& step : FormulaOf(services, node)) if (step.function == "tanh") ...
//
// Any thread. Texts live as long as the node's op.
#ifndef TENON_SDK_OP_FORMULA_H_
#define TENON_SDK_OP_FORMULA_H_

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "tenon/formula.h"
#include "tenon/sdk/node.h"

namespace tenon::sdk {

struct FormulaOperand {
  enum class Kind : uint8_t { kInput, kStep, kNumber };
  Kind kind = Kind::kInput;
  int32_t index = 0;  // of the node's inputs, or of the steps
  double number = 0;  // an attribute's value, too
};
struct FormulaStep {
  std::string_view function;  // as tenon/formula.h has it, or a later one
  std::vector<FormulaOperand> operands;
};
using Formula = std::vector<FormulaStep>;

namespace formula_internal {

// An int, a float or a bool as a number.
inline bool NumberOf(const tenon_node_services& services, const tenon_node* node, std::string_view attr, double* out) {
  tenon_attr_value value{};
  if (tenon_status* const status = services.attr(node, ToSpan(attr), &value); status != nullptr) {
    tenon_plugin_host->status_release(status);
    return false;
  }
  if (value.count != 1) return false;
  switch (value.kind) {
    case TENON_ATTR_FLOAT: *out = static_cast<double>(*static_cast<const float*>(value.data)); return true;
    case TENON_ATTR_INT: *out = static_cast<double>(*static_cast<const int64_t*>(value.data)); return true;
    case TENON_ATTR_BOOL: *out = *static_cast<const uint8_t*>(value.data) != 0 ? 1 : 0; return true;
    default: return false;
  }
}

// Adds what a word stands for to the stack; false: it is none of those that are known.
inline bool AddOperands(const tenon_node_services& services, const tenon_node* node, std::string_view word,
                        std::vector<std::vector<FormulaOperand>>* stack) {
  using Kind = FormulaOperand::Kind;
  if (word[0] == '$') {
    int32_t begin = 0, count = 0;
    if (tenon_status* const status = services.input_range(node, ToSpan(word.substr(1)), &begin, &count);
        status != nullptr) {
      tenon_plugin_host->status_release(status);
      return false;
    }
    stack->emplace_back();
    for (int32_t i = 0; i < count; ++i) stack->back().push_back({Kind::kInput, begin + i, 0});
    return true;
  }
  FormulaOperand number = {Kind::kNumber, 0, 0};
  if (word[0] == '@') {
    if (!NumberOf(services, node, word.substr(1), &number.number)) return false;
  } else if (const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number.number);
             error != std::errc() || end != word.data() + word.size()) {
    return false;
  }
  stack->push_back({number});
  return true;
}

// A sum or the like of numbers is one, so that "sub(1, weight)" is no step.
inline bool Fold(const FormulaStep& step, double* out) {
  const auto& x = step.operands;
  for (const FormulaOperand& operand : x)
    if (operand.kind != FormulaOperand::Kind::kNumber) return false;
  if (x.size() == 1 && step.function == "neg") return *out = -x[0].number, true;
  if (x.size() != 2) return false;
  if (step.function == "add") *out = x[0].number + x[1].number;
  else if (step.function == "sub") *out = x[0].number - x[1].number;
  else if (step.function == "mul") *out = x[0].number * x[1].number;
  else if (step.function == "div") *out = x[0].number / x[1].number;
  else return false;
  return true;
}

}  // namespace formula_internal

// Empty where the op says none, and where a newer host says it in words that are not known here.
inline Formula FormulaOf(const tenon_node_services& services, const tenon_node* node) {
  Formula steps;
  std::string_view rest = ToText(PropertiesOf(services, node).formula);
  std::vector<std::vector<FormulaOperand>> stack;  // several: a list's
  while (!rest.empty()) {
    const std::string_view word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(word.size() < rest.size() ? word.size() + 1 : word.size());
    const size_t slash = word.find('/');
    if (slash == std::string_view::npos) {
      if (word.empty() || !formula_internal::AddOperands(services, node, word, &stack)) return {};
      continue;
    }
    size_t count = 0;
    const auto [end, error] = std::from_chars(word.data() + slash + 1, word.data() + word.size(), count);
    if (error != std::errc() || end != word.data() + word.size() || count > stack.size()) return {};
    FormulaStep step = {word.substr(0, slash), {}};
    for (auto each = stack.end() - static_cast<std::ptrdiff_t>(count); each != stack.end(); ++each)
      step.operands.insert(step.operands.end(), each->begin(), each->end());
    stack.resize(stack.size() - count);
    if (double number = 0; formula_internal::Fold(step, &number)) {
      stack.push_back({{FormulaOperand::Kind::kNumber, 0, number}});
      continue;
    }
    stack.push_back({{FormulaOperand::Kind::kStep, static_cast<int32_t>(steps.size()), 0}});
    steps.push_back(std::move(step));
  }
  if (steps.empty() || stack.size() != 1 || stack[0][0].kind != FormulaOperand::Kind::kStep) return {};
  return steps;
}

// The one function that the node is of its inputs, each once and in their order: "mul"; empty: another formula, or
// none.
inline std::string_view FunctionOf(NodeContext& node) {
  std::string_view words = ToText(node.Properties().formula);
  int next = 0;
  while (words.starts_with('$')) {
    const size_t end = words.find(' ');
    if (end == std::string_view::npos) return {};
    const Range range = node.InputRange(words.substr(1, end - 1));
    if (!node.ok() || range.begin != next) return {};
    next += range.count;
    words.remove_prefix(end + 1);
  }
  const size_t slash = words.find('/');
  const bool is_one = slash != std::string_view::npos && words.find(' ') == std::string_view::npos;
  return is_one && next == node.input_count() ? words.substr(0, slash) : std::string_view();
}

}  // namespace tenon::sdk

#endif  // TENON_SDK_OP_FORMULA_H_
