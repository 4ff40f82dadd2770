// SPDX-License-Identifier: Apache-2.0
#include "region/update.h"

#include <algorithm>
#include <cmath>

#include "tenon/sdk/kernel/element.h"
#include "tenon/sdk/kernel/half.h"

namespace tenon::cpu_codegen {
namespace {

bool FlagOf(const tenon_node_services& services, const tenon_node* node, std::string_view name, bool otherwise) {
  tenon_attr_value value{};
  if (tenon_status* missing = services.attr(node, sdk::ToSpan(name), &value)) {
    tenon_plugin_host->status_release(missing);
    return otherwise;
  }
  return value.kind == TENON_ATTR_BOOL && value.count == 1 ? *static_cast<const uint8_t*>(value.data) != 0 : otherwise;
}

bool IsOfNumbers(Optimizer optimizer) { return optimizer == Optimizer::kAdd || optimizer == Optimizer::kSubtract; }

}  // namespace

const UpdateOp* UpdateOpOf(std::string_view op) {
  static const UpdateOp kAll[] = {{"AssignAddVariableOp", Optimizer::kAdd, 1, 1, {}},
                                  {"AssignSubVariableOp", Optimizer::kSubtract, 1, 1, {}},
                                  {"ResourceApplyGradientDescent", Optimizer::kGradientDescent, 1, 2, {1}},
                                  {"ResourceApplyMomentum", Optimizer::kMomentum, 2, 3, {2, 4}},
                                  {"ResourceApplyKerasMomentum", Optimizer::kKerasMomentum, 2, 3, {2, 4}},
                                  {"ResourceApplyAdagrad", Optimizer::kAdagrad, 2, 3, {2}},
                                  {"ResourceApplyAdagradV2", Optimizer::kAdagradV2, 2, 4, {2, 3}},
                                  {"ResourceApplyRMSProp", Optimizer::kRmsProp, 3, 7, {3, 4, 5, 6}},
                                  {"ResourceApplyAdam", Optimizer::kAdam, 3, 9, {3, 4, 5, 6, 7, 8}}};
  if (!op.starts_with("ResourceApply") && !op.starts_with("Assign")) return nullptr;
  const auto* const found =
      std::find_if(std::begin(kAll), std::end(kAll), [&](const UpdateOp& each) { return each.name == op; });
  return found == std::end(kAll) ? nullptr : found;
}

bool IsGeneratedUpdate(const UpdateOp& op, const tenon_node_services& services, const tenon_node* node, Level level) {
  if (services.input_count(node) != static_cast<int32_t>(op.variables + op.scalars.size()) + 1) return false;
  const uint32_t dtype = services.input_dtype(node, op.gradient);
  for (size_t i = 0; i < op.variables; ++i)
    if (services.input_dtype(node, static_cast<int32_t>(i)) != TENON_DT_RESOURCE) return false;
  for (const int32_t scalar : op.scalars)
    if (services.input_dtype(node, scalar) != dtype) return false;
  // Slots that stay as they are would be no results.
  if (!FlagOf(services, node, "update_slots", true)) return false;
  return IsOfNumbers(op.optimizer) ? IsGenerated(Function::kAdd, {dtype, dtype}, dtype, level)
                                   : IsGenerated(Function::kSqrt, {dtype}, dtype, level);
}

RegionUpdate::RegionUpdate(const UpdateOp& op, const tenon_node_services& services, const tenon_node* node)
    : op_(&op), dtype_(services.input_dtype(node, op.gradient)) {
  const bool is_half = dtype_ == TENON_DT_HALF || dtype_ == TENON_DT_BFLOAT16;
  wide_ = is_half && !IsOfNumbers(op.optimizer) ? TENON_DT_FLOAT : dtype_;
  lock_ = FlagOf(services, node, "use_locking", false) ? TENON_UPDATE_LOCK : 0u;
  nesterov_ = FlagOf(services, node, "use_nesterov", false);
  name_ = sdk::Concat("node '", sdk::ToText(services.name(node)), "' (", op.name, ")");
}

// ---- Formulas ----

size_t RegionUpdate::scalar_count() const {
  switch (op_->optimizer) {
    case Optimizer::kAdd: case Optimizer::kSubtract: return 0;
    case Optimizer::kMomentum: return nesterov_ ? 3 : 2;
    case Optimizer::kAdam: return nesterov_ ? 5 : 4;
    default: return op_->scalars.size();
  }
}

// Of the node's scalars those that the formula reads.
template <class T, class A>
void RegionUpdate::Prepare(const sdk::RunContext& c, A* to) const {
  std::array<A, kMostScalars> s{};
  for (size_t i = 0; i < scalars.size(); ++i) s[i] = static_cast<A>(*c.input<T>(scalars[i]));
  std::copy(s.begin(), s.end(), to);
  switch (op_->optimizer) {
    case Optimizer::kMomentum: to[2] = s[0] * s[1]; break;
    case Optimizer::kRmsProp: to[1] = A(1) - s[1]; break;
    case Optimizer::kAdam: {
      const A made[] = {s[2] * std::sqrt(A(1) - s[1]) / (A(1) - s[0]), A(1) - s[3], A(1) - s[4], s[5], s[3]};
      std::copy(std::begin(made), std::end(made), to);
      break;
    }
    default: break;
  }
}
void RegionUpdate::PrepareAny(const sdk::RunContext& c, char* to) const {
  if (scalars.empty()) return;
  switch (dtype_) {
    case TENON_DT_DOUBLE: return Prepare<double>(c, reinterpret_cast<double*>(to));
    case TENON_DT_HALF: return Prepare<sdk::Half>(c, reinterpret_cast<float*>(to));
    case TENON_DT_BFLOAT16: return Prepare<sdk::Bfloat16>(c, reinterpret_cast<float*>(to));
    default: return Prepare<float>(c, reinterpret_cast<float*>(to));
  }
}

std::vector<int> RegionUpdate::NewValues(int g, const int* s, const int* v,
                                         const std::function<int(Function, std::vector<int>)>& add) const {
  using enum Function;
  switch (op_->optimizer) {
    case Optimizer::kAdd: return {add(kAdd, {v[0], g})};
    case Optimizer::kSubtract: return {add(kSub, {v[0], g})};
    case Optimizer::kGradientDescent: return {add(kMinusProduct, {s[0], g, v[0]})};
    case Optimizer::kMomentum: {  // rate, momentum, their product
      const int sum = add(kPlusProduct, {s[1], v[1], g});
      if (!nesterov_) return {add(kMinusProduct, {s[0], sum, v[0]}), sum};
      const int ahead = add(kPlusProduct, {s[0], g, add(kMul, {s[2], sum})});
      return {add(kSub, {v[0], ahead}), sum};
    }
    case Optimizer::kKerasMomentum: {  // rate, momentum
      const int moved = add(kMul, {s[0], g}), step = add(kProductMinus, {v[1], s[1], moved});
      return {add(kAdd, {v[0], nesterov_ ? add(kProductMinus, {step, s[1], moved}) : step}), step};
    }
    case Optimizer::kAdagrad: case Optimizer::kAdagradV2: {  // rate, epsilon
      const int sum = add(kPlusProduct, {g, g, v[1]}), root = add(kSqrt, {sum}), moved = add(kMul, {s[0], g});
      return {
          add(kSub, {v[0], add(kDiv, {moved, op_->optimizer == Optimizer::kAdagrad ? root : add(kAdd, {root, s[1]})})}),
          sum};
    }
    case Optimizer::kRmsProp: {  // rate, 1 - rho, momentum, epsilon
      const int square = add(kPlusProduct, {add(kProductMinus, {g, g, v[1]}), s[1], v[1]}),
                root = add(kSqrt, {add(kAdd, {square, s[3]})});
      const int step = add(kPlusProduct, {v[2], s[2], add(kDiv, {add(kMul, {g, s[0]}), root})});
      return {add(kSub, {v[0], step}), square, step};
    }
    case Optimizer::kAdam: {  // alpha, 1 - beta1, 1 - beta2, epsilon, beta1
      const int m = add(kPlusProduct, {add(kSub, {g, v[1]}), s[1], v[1]}),
                square = add(kPlusProduct, {add(kProductMinus, {g, g, v[2]}), s[2], v[2]});
      const int ahead = nesterov_ ? add(kPlusProduct, {g, s[1], add(kMul, {s[4], m})}) : m;
      const int moved = add(kMul, {s[0], ahead}), root = add(kAdd, {add(kSqrt, {square}), s[3]});
      return {add(kSub, {v[0], add(kDiv, {moved, root})}), m, square};
    }
  }
  return {};
}

}  // namespace tenon::cpu_codegen
