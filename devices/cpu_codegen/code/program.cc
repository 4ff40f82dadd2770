// SPDX-License-Identifier: Apache-2.0
#include "code/program.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>

namespace tenon::cpu_codegen {
namespace {

bool IsReal(uint32_t type) { return type == TENON_DT_FLOAT || type == TENON_DT_DOUBLE || IsHalf(type); }
bool IsWhole(uint32_t type) { return type == TENON_DT_INT32 || type == TENON_DT_INT64; }
bool IsKnown(uint32_t type) { return IsReal(type) || IsWhole(type) || type == TENON_DT_BOOL; }

}  // namespace

Level BestLevel() {
#if defined(__x86_64__)
  // Of the compiler's library, which asks the system too whether it saves the registers.
  static const Level best = [] {
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("f16c") ||
        !__builtin_cpu_supports("bmi2"))
      return Level::kNone;
    const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    return wide ? Level::kAvx512 : Level::kAvx2;
  }();
  return best;
#else
  return Level::kNone;
#endif
}

Function FunctionOf(std::string_view word) {
  using enum Function;
  static const std::unordered_map<std::string_view, Function> known = {
      {"neg", kNeg}, {"abs", kAbs}, {"sign", kSign}, {"square", kSquare}, {"reciprocal", kReciprocal},
      {"sqrt", kSqrt}, {"rsqrt", kRsqrt}, {"floor", kFloor}, {"ceil", kCeil}, {"round", kRound}, {"exp", kExp},
      {"expm1", kExpm1}, {"log", kLog}, {"log1p", kLog1p}, {"tanh", kTanh}, {"erf", kErf}, {"sigmoid", kSigmoid},
      {"relu", kRelu}, {"relu6", kRelu6}, {"leaky_relu", kLeakyRelu}, {"elu", kElu}, {"selu", kSelu},
      {"softplus", kSoftplus}, {"softsign", kSoftsign}, {"logical_not", kNot}, {"is_nan", kIsNan}, {"is_inf", kIsInf},
      {"is_finite", kIsFinite}, {"cast", kCast}, {"add", kAdd}, {"sub", kSub}, {"mul", kMul}, {"div", kDiv},
      {"maximum", kMaximum}, {"minimum", kMinimum}, {"squared_difference", kSquaredDifference},
      {"floor_div", kFloorDiv}, {"truncate_div", kTruncateDiv}, {"div_no_nan", kDivNoNan}, {"mul_no_nan", kMulNoNan},
      {"xdivy", kXdivy}, {"xlogy", kXlogy}, {"tanh_grad", kTanhGrad}, {"sigmoid_grad", kSigmoidGrad},
      {"sqrt_grad", kSqrtGrad}, {"rsqrt_grad", kRsqrtGrad}, {"reciprocal_grad", kReciprocalGrad},
      {"relu_grad", kReluGrad}, {"relu6_grad", kRelu6Grad}, {"leaky_relu_grad", kLeakyReluGrad},
      {"elu_grad", kEluGrad}, {"selu_grad", kSeluGrad}, {"softplus_grad", kSoftplusGrad},
      {"softsign_grad", kSoftsignGrad}, {"equal", kEqual}, {"not_equal", kNotEqual}, {"less", kLess},
      {"less_equal", kLessEqual}, {"greater", kGreater}, {"greater_equal", kGreaterEqual}, {"logical_and", kAnd},
      {"logical_or", kOr}, {"select", kSelect}, {"clip", kClip}, {"add_n", kAddN}};
  const auto found = known.find(word);
  return found == known.end() ? kUnknown : found->second;
}

Function ReductionOf(std::string_view op) {
  using enum Function;
  return op == "Sum" || IsBiasGradient(op) ? kSum
         : op == "Mean"                    ? kMean
         : op == "Prod"                    ? kProd
         : op == "Max"                     ? kMax
         : op == "Min"                     ? kMin
                                           : kUnknown;
}

bool IsGeneratedReduction(Function function, uint32_t dtype, Level level) {
  if (!IsReduction(function) || level == Level::kNone) return false;
  if (IsReal(dtype)) return true;
  // A mean of integers is of sums that do not wrap; AVX2 has no products of int64.
  return IsWhole(dtype) && function != Function::kMean && function != Function::kLargest &&
         (function != Function::kProd || dtype == TENON_DT_INT32 || level == Level::kAvx512);
}

bool IsSoftmax(std::string_view op) { return op == "Softmax" || op == "LogSoftmax"; }

bool IsApproximate(Function function) {
  using enum Function;
  switch (function) {
    case kExp:
    case kExpm1:
    case kLog:
    case kLog1p:
    case kTanh:
    case kSigmoid:
    case kErf:
    case kElu:
    case kSelu:
    case kSoftplus:
    case kXlogy:
    case kSoftplusGrad: return true;
    default: return false;
  }
}

bool IsGenerated(Function function, const std::vector<uint32_t>& inputs, uint32_t output, Level level) {
  using enum Function;
  if (function == kUnknown || IsReduction(function) || level == Level::kNone || inputs.empty() || !IsKnown(output) ||
      !std::all_of(inputs.begin(), inputs.end(), IsKnown))
    return false;
  const uint32_t type = inputs[0];
  const bool is_real = IsReal(type), is_number = is_real || IsWhole(type), is_wide = level == Level::kAvx512;
  if (function == kCast) {
    // Between 64-bit integers and reals AVX2 has no instruction.
    const bool is_hard = (type == TENON_DT_INT64 && IsReal(output)) || (IsReal(type) && output == TENON_DT_INT64);
    return is_wide || !is_hard;
  }
  if (function == kNumber) return (IsReal(output) && !IsHalf(output)) || IsWhole(output);
  if (function == kSelect)
    return inputs.size() == 3 && type == TENON_DT_BOOL && inputs[1] == output && inputs[2] == output;
  if (!std::all_of(inputs.begin(), inputs.end(), [type](uint32_t each) { return each == type; })) return false;
  switch (function) {
    case kNot: case kAnd: case kOr: return type == TENON_DT_BOOL && output == TENON_DT_BOOL;
    case kIsNan: case kIsInf: case kIsFinite: return is_real && output == TENON_DT_BOOL;
    case kEqual: case kNotEqual: return output == TENON_DT_BOOL;
    case kLess: case kLessEqual: case kGreater: case kGreaterEqual: return is_number && output == TENON_DT_BOOL;
    default: break;
  }
  if (output != type) return false;
  switch (function) {
    case kNeg:
    case kAbs:
    case kSign:
    case kAdd:
    case kSub:
    case kMaximum:
    case kMinimum:
    case kRelu:
    case kRelu6:
    case kClip: return is_number;
    case kAddN: return is_number && inputs.size() >= 2 && inputs.size() <= 4;
    case kSquare:
    case kMul:
    case kSquaredDifference:
    case kReluGrad:
    case kRelu6Grad: return is_real || type == TENON_DT_INT32 || (type == TENON_DT_INT64 && is_wide);
    case kPlusProduct:
    case kProductMinus:
    case kMinusProduct: return inputs.size() == 3 && (type == TENON_DT_FLOAT || type == TENON_DT_DOUBLE);
    default: break;
  }
  // Of integers divisions may fail, and are their kernel's.
  return is_real && (type != TENON_DT_DOUBLE || !IsApproximate(function));
}

int Program::Lanes() const {
  if (lanes != 0) return lanes;
  const auto is_long = [](uint32_t type) { return type == TENON_DT_DOUBLE || type == TENON_DT_INT64; };
  const bool has_long =
      std::any_of(inputs.begin(), inputs.end(), [&](const Input& input) { return is_long(input.dtype); }) ||
      std::any_of(nodes.begin(), nodes.end(), [&](const Node& node) { return is_long(node.dtype); });
  return (level == Level::kAvx512 ? 64 : 32) / (has_long ? 8 : 4);
}

bool Program::IsSum(int value) const {
  const auto count = static_cast<int>(inputs.size());
  if (value < count) return inputs[static_cast<size_t>(value)].is_sum;
  const std::vector<int>& operands = nodes[static_cast<size_t>(value - count)].operands;
  return std::any_of(operands.begin(), operands.end(),
                     [&](int operand) { return operand < count && inputs[static_cast<size_t>(operand)].is_sum; });
}

std::vector<bool> Program::OfRows() const {
  std::vector<bool> of_row;
  for (const Input& input : inputs) of_row.push_back(input.is_single);
  for (const Node& node : nodes)
    of_row.push_back(row > 0 && (IsReduction(node.function) ||
                                 std::all_of(node.operands.begin(), node.operands.end(),
                                             [&](int operand) { return of_row[static_cast<size_t>(operand)]; })));
  return of_row;
}

std::string Program::Key() const {
  std::string key;
  const auto add = [&key](uint32_t value) { key.append(reinterpret_cast<const char*>(&value), sizeof value); };
  add(static_cast<uint32_t>(level) | (streams ? 256u : 0u) | static_cast<uint32_t>(lanes) << 16);
  add(static_cast<uint32_t>(row));
  add(static_cast<uint32_t>(row >> 32));
  add(static_cast<uint32_t>(inputs.size()));
  for (const Input& input : inputs)
    add(input.dtype << 3 | (input.is_listed ? 4u : 0u) | (input.is_sum ? 2u : 0u) | (input.is_single ? 1u : 0u));
  add(static_cast<uint32_t>(nodes.size()));
  for (const Node& node : nodes) {
    add(static_cast<uint32_t>(node.function) | node.dtype << 8);
    const auto bits = std::bit_cast<uint64_t>(node.number);
    add(static_cast<uint32_t>(bits));
    add(static_cast<uint32_t>(bits >> 32));
    add(static_cast<uint32_t>(node.operands.size()));
    for (int operand : node.operands) add(static_cast<uint32_t>(operand));
  }
  for (int output : outputs) add(static_cast<uint32_t>(output));
  return key;
}

std::string Loop::Key() const {
  std::string key = body.Key();
  const auto add = [&key](int value) { key.append(reinterpret_cast<const char*>(&value), sizeof value); };
  for (const int each : next) add(each);
  add(static_cast<int>(next.size()));
  add(condition);
  add(condition_nodes);
  return key + "loop";
}

}  // namespace tenon::cpu_codegen
