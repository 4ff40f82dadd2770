// SPDX-License-Identifier: Apache-2.0
// Comparisons and logic: results are bool.
#include <cmath>
#include <limits>

#include "kernels/elementwise/elementwise.h"

namespace tenon::cpu {
namespace {

using sdk::AndOp;
using sdk::EqualOp;
using sdk::GreaterEqualOp;
using sdk::GreaterOp;
using sdk::IsFiniteOp;
using sdk::IsNanOp;
using sdk::LessEqualOp;
using sdk::LessOp;
using sdk::NotEqualOp;
using sdk::OrOp;

// One comparison, where sdk::IsInfOp has two and a branch.
struct IsInfOp {
  template <class T>
  bool operator()(T x) const { return std::fabs(x) == std::numeric_limits<T>::infinity(); }
};

// By bytes, which are 0 or 1: of truths the compiler makes no vectors.
struct LogicalNotKernel {
  void Run(sdk::RunContext c) const {
    const auto* x = c.input<uint8_t>(0);
    auto* out = c.output<uint8_t>(0);
    c.ParallelFor(sdk::Count(c.output_view(0)), 0.05, [&](int64_t begin, int64_t end) {
      const uint8_t* from = x;  // on the stack: what stands in the lambda could be bytes that are written
      uint8_t* to = out;
#pragma GCC ivdep
      for (int64_t i = begin; i < end; ++i) to[i] = from[i] ^ 1;
    });
  }
};

using Bools = Types<bool>;
using Equals = Numbers::And<bool>::AndComplex;

// Equal and NotEqual: with incompatible_shape_error=false shapes that do not broadcast give a scalar answer.
template <class Op>
struct EqualKernel : BinaryKernel<Op, Equals> {
  using Base = BinaryKernel<Op, Equals>;
  struct Plan {
    Plan(const EqualKernel&, sdk::PrepareContext& c) : incompatible(!Fits(c)), plan(Prepare(c, incompatible)) {}
    bool incompatible;
    typename Base::Plan plan;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    if (plan.incompatible) [[unlikely]] {
      *c.output<bool>(0) = std::is_same_v<Op, NotEqualOp>;
      return;
    }
    Base::Run(plan.plan, c);
  }

 private:
  static bool Fits(sdk::PrepareContext& c) {
    const sdk::Dims x = sdk::DimsOf(c.input(0)), y = sdk::DimsOf(c.input(1));
    for (size_t back = 1; back <= std::min(x.size(), y.size()); ++back) {
      const int64_t a = x[x.size() - back], b = y[y.size() - back];
      if (a != b && a != 1 && b != 1) return sdk::DimsOf(c.output(0)).size() != 0;
    }
    return true;
  }
  static typename Base::Plan Prepare(sdk::PrepareContext& c, bool incompatible) {
    if (!incompatible) return typename Base::Plan(Base(), c);
    return typename Base::Plan();
  }
};

// Strings by their bytes.
template <bool kEqual>
struct StringEqualKernel {
  struct Plan {
    Plan(const StringEqualKernel&, sdk::PrepareContext& c)
        : shape({sdk::DimsOf(c.input(0)), sdk::DimsOf(c.input(1))}, sdk::DimsOf(c.output(0))) {}
    Broadcast<2> shape;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    const auto* x = c.input<tenon_string_cell>(0);
    const auto* y = c.input<tenon_string_cell>(1);
    bool* out = c.output<bool>(0);
    const auto text = [](const tenon_string_cell* base, const tenon_string_cell& cell) {
      return std::string_view(reinterpret_cast<const char*>(base) + cell.offset, static_cast<size_t>(cell.size));
    };
    plan.shape.ForEachRow(0, plan.shape.total, [&](const std::array<int64_t, 2>& at, int64_t to, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        const auto& a = x[at[0] + i * plan.shape.inner_stride[0]];
        const auto& b = y[at[1] + i * plan.shape.inner_stride[1]];
        out[to + i] = (text(x, a) == text(y, b)) == kEqual;
      }
    });
  }
};
constexpr sdk::Traits kStrings = {.constraints = sdk::Constraints<sdk::Allowed<"T", TENON_DT_STRING>>::list};

template <class Op>
constexpr tenon_kernel_registration CpuEqual(std::string_view op) {
  return CpuKernel<EqualKernel<Op>>(op, {.constraints = sdk::Constraints<Equals::Constraint<"T">>::list});
}
constexpr sdk::Traits Logic(std::span<const tenon_in_place> in_place) { return {.in_place = in_place}; }

}  // namespace

TENON_CPU_KERNEL(Equal) = CpuEqual<EqualOp>("Equal");
TENON_CPU_KERNEL(NotEqual) = CpuEqual<NotEqualOp>("NotEqual");
TENON_CPU_KERNEL(EqualString) = CpuKernel<StringEqualKernel<true>>("Equal", kStrings);
TENON_CPU_KERNEL(NotEqualString) = CpuKernel<StringEqualKernel<false>>("NotEqual", kStrings);
TENON_CPU_KERNEL(Less) = CpuCompare<LessOp, Numbers>("Less");
TENON_CPU_KERNEL(LessEqual) = CpuCompare<LessEqualOp, Numbers>("LessEqual");
TENON_CPU_KERNEL(Greater) = CpuCompare<GreaterOp, Numbers>("Greater");
TENON_CPU_KERNEL(GreaterEqual) = CpuCompare<GreaterEqualOp, Numbers>("GreaterEqual");
TENON_CPU_KERNEL(LogicalAnd) = CpuKernel<BinaryKernel<AndOp, Bools>>("LogicalAnd", Logic(kInPlaceEither));
TENON_CPU_KERNEL(LogicalOr) = CpuKernel<BinaryKernel<OrOp, Bools>>("LogicalOr", Logic(kInPlaceEither));
TENON_CPU_KERNEL(LogicalNot) = CpuKernel<LogicalNotKernel>("LogicalNot", Logic(kInPlaceFirst));
TENON_CPU_KERNEL(IsNan) = CpuKernel<UnaryKernel<IsNanOp, Reals>>(
    "IsNan", {.constraints = sdk::Constraints<Reals::Constraint<"T">>::list});
TENON_CPU_KERNEL(IsInf) = CpuKernel<UnaryKernel<IsInfOp, Reals>>(
    "IsInf", {.constraints = sdk::Constraints<Reals::Constraint<"T">>::list});
TENON_CPU_KERNEL(IsFinite) = CpuKernel<UnaryKernel<IsFiniteOp, Reals>>(
    "IsFinite", {.constraints = sdk::Constraints<Reals::Constraint<"T">>::list});

}  // namespace tenon::cpu
