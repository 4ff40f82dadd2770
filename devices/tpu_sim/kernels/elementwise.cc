// SPDX-License-Identifier: Apache-2.0
// Element-wise ops on the vector unit: what they mean is tenon/extras/kernel/elementwise.h, exp and its like stand
// here. Also Cast, the choices, AddN and BiasAdd.
#include "tenon/extras/kernel/elementwise.h"

#include <algorithm>

#include "kernels/kernel.h"
#include "tenon/extras/kernel/update.h"
#include "tenon/extras/walk/broadcast.h"

namespace tenon::tpu_sim {
namespace {

using sdk::Broadcast;
using namespace sdk;  // NOLINT(google-build-using-namespace): the names of the ops

// Operations of the vector unit for one element: functions are polynomials.
constexpr int64_t kFunction = 8;
#define TENON_TPU_FUNCTION(Name, expression)                            \
  struct Name##Op {                                                     \
    static constexpr int64_t kOperations = kFunction;                   \
    template <class T>                                                  \
    T operator()(T x) const {                                           \
      return expression;                                                \
    }                                                                   \
  };
TENON_TPU_FUNCTION(Exp, std::exp(x))
TENON_TPU_FUNCTION(Expm1, std::expm1(x))
TENON_TPU_FUNCTION(Log, std::log(x))
TENON_TPU_FUNCTION(Log1p, std::log1p(x))
TENON_TPU_FUNCTION(Sin, std::sin(x))
TENON_TPU_FUNCTION(Cos, std::cos(x))
TENON_TPU_FUNCTION(Tanh, std::tanh(x))
TENON_TPU_FUNCTION(Erf, std::erf(x))
TENON_TPU_FUNCTION(Sigmoid, T(1) / (T(1) + std::exp(-x)))
TENON_TPU_FUNCTION(Elu, x < T(0) ? std::expm1(x) : x)
TENON_TPU_FUNCTION(Softplus, x > T(0) ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)))
#undef TENON_TPU_FUNCTION
struct SoftplusGradOp {
  static constexpr int64_t kOperations = kFunction;
  template <class T>
  T operator()(T dy, T x) const {
    return dy / (std::exp(-x) + T(1));
  }
};
struct FloatingPowOp {
  static constexpr int64_t kOperations = 2 * kFunction;
  template <class T>
  T operator()(T x, T y) const {
    return std::pow(x, y);
  }
};

template <class Op>
constexpr int64_t OperationsOf() {
  if constexpr (requires { Op::kOperations; }) return Op::kOperations;
  return 1;
}

// out = op(inputs), each of which broadcasts to out.
template <int kInputs, class Op, class Set>
struct Map {
  Map() requires std::is_default_constructible_v<Op> = default;
  explicit Map(CreateContext& c) requires std::is_constructible_v<Op, CreateContext&> : op(c) {}

  struct Plan {
    Plan(const Map& map, Shapes& s) : Plan(map.op, Broadcast<kInputs>(DimsOfInputs(s), s.out(0)), s) {}
    Plan(const Op& op, const Broadcast<kInputs>& shape, Shapes& s) : op(op), shape(shape) {
      last_count = Count(s.input(kInputs - 1));
      Set::Dispatch(s.input(0).dtype, [&]<class T>(Tag<T>) { function = &Loop<T>; });
      s.Vector(Multiply(shape.total, OperationsOf<Op>()));
    }
    void Work(char* const* at) const {
      if (shape.total > 0) function(*this, at);
    }
    static std::array<Dims, kInputs> DimsOfInputs(const Shapes& s) {
      std::array<Dims, kInputs> dims;
      for (int i = 0; i < kInputs; ++i) dims[static_cast<size_t>(i)] = s.in(i);
      return dims;
    }
    Op op;
    Broadcast<kInputs> shape;
    int64_t last_count;
    void (*function)(const Plan&, char* const*) = nullptr;
  };

 private:
  template <class T>
  static auto Apply(const Op& op, const T* const* from, const int64_t* step, int64_t i) {
    const auto element = [&](int input) { return static_cast<Wide<T>>(from[input][i * step[input]]); };
    if constexpr (kInputs == 1) {
      return op(element(0));
    } else {
      return op(element(0), element(1));
    }
  }
  template <class T>
  static void Loop(const Plan& plan, char* const* at) {
    using Raw = decltype(Apply<T>(plan.op, nullptr, nullptr, 0));
    using Result = std::conditional_t<std::is_same_v<Raw, bool>, bool, T>;
    auto* const out = reinterpret_cast<Result*>(at[kInputs]);
    if constexpr (std::is_integral_v<T> && requires { Op::Invalid(T{}); }) {
      const T* last = reinterpret_cast<const T*>(at[kInputs - 1]);
      if (std::any_of(last, last + plan.last_count, [](T y) { return Op::Invalid(y); }))
        Fail(TENON_INVALID_ARGUMENT, Op::kInvalidText);
    }
    const auto& step = plan.shape.inner_stride;
    const bool even = std::all_of(step.begin(), step.end(), [](int64_t s) { return s == 1; });
    plan.shape.ForEachRow(0, plan.shape.total, [&](const auto& offsets, int64_t to, int64_t n) {
      const T* from[kInputs];
      for (size_t i = 0; i < kInputs; ++i) from[i] = reinterpret_cast<const T*>(at[i]) + offsets[i];
      static constexpr int64_t kOnes[] = {1, 1};
      if (even) {  // the usual case, in a form that vectorises
        for (int64_t i = 0; i < n; ++i) out[to + i] = static_cast<Result>(Apply<T>(plan.op, from, kOnes, i));
      } else {
        for (int64_t i = 0; i < n; ++i) out[to + i] = static_cast<Result>(Apply<T>(plan.op, from, step.data(), i));
      }
    });
  }
  [[no_unique_address]] Op op;
};

template <class Op, class Set>
constexpr tenon_kernel_registration Unary(std::string_view op) {
  return Kernel<Map<1, Op, Set>>(
      op, {.constraints = Constraints<typename Set::template Constraint<"T">>::list, .in_place = kInPlaceFirst});
}
template <class Op, class Set>
constexpr tenon_kernel_registration Binary(std::string_view op) {
  return Kernel<Map<2, Op, Set>>(
      op, {.constraints = Constraints<typename Set::template Constraint<"T">>::list, .in_place = kInPlaceEither});
}
// Results are smaller than what is compared.
template <class Op, class Set>
constexpr tenon_kernel_registration Question(std::string_view op) {
  return Kernel<Map<2, Op, Set>>(op, {.constraints = Constraints<typename Set::template Constraint<"T">>::list});
}
using Equals = Types<float, Bfloat16, double, int32_t, int64_t, bool>;
using Bools = Types<bool>;

// ---- Casts, choices, sums of many ----

using Castable = Types<float, Bfloat16, double, int32_t, int64_t, bool, uint8_t>;

struct CastKernel {
  struct Plan {
    Plan(const CastKernel&, Shapes& s) : count(Count(s.in(0))) {
      Castable::Dispatch(s.input(0).dtype, [&]<class From>(Tag<From>) {
        Castable::Dispatch(s.output(0).dtype, [&]<class To>(Tag<To>) { function = &Loop<From, To>; });
      });
      s.Vector(count);
    }
    void Work(char* const* at) const { function(at[0], at[1], count); }
    template <class From, class To>
    static void Loop(const char* from, char* to, int64_t count) {
      const From* x = reinterpret_cast<const From*>(from);
      To* out = reinterpret_cast<To*>(to);
      for (int64_t i = 0; i < count; ++i) out[i] = Convert<To>(x[i]);
    }
    int64_t count;
    void (*function)(const char*, char*, int64_t) = nullptr;
  };
};

// out = condition ? then : else, all broadcast. Select's condition may be a vector that chooses rows.
template <bool kRows>
struct SelectKernel {
  struct Plan {
    Plan(const SelectKernel&, Shapes& s) : shape({Condition(s, &padded), s.in(1), s.in(2)}, s.out(0)) {
      DispatchSize(s.output(0).dtype, [&]<class T>(Tag<T>) { function = &Loop<T>; });
      s.Vector(shape.total);
    }
    void Work(char* const* at) const {
      if (shape.total > 0) function(shape, at);
    }
    // A vector of rows stands before dims of 1.
    static Dims Condition(const Shapes& s, std::vector<int64_t>* padded) {
      if (!kRows || s.in(0).size() != 1) return s.in(0);
      padded->assign(std::max<size_t>(1, s.in(1).size()), 1);
      padded->front() = s.in(0)[0];
      return *padded;
    }
    template <class T>
    static void Loop(const Broadcast<3>& shape, char* const* at) {
      const auto& step = shape.inner_stride;
      shape.ForEachRow(0, shape.total, [&](const std::array<int64_t, 3>& offsets, int64_t to, int64_t n) {
        const bool* chosen = reinterpret_cast<const bool*>(at[0]) + offsets[0];
        const T* yes = reinterpret_cast<const T*>(at[1]) + offsets[1];
        const T* no = reinterpret_cast<const T*>(at[2]) + offsets[2];
        T* out = reinterpret_cast<T*>(at[3]) + to;
        for (int64_t i = 0; i < n; ++i) out[i] = chosen[i * step[0]] ? yes[i * step[1]] : no[i * step[2]];
      });
    }
    std::vector<int64_t> padded;
    Broadcast<3> shape;
    void (*function)(const Broadcast<3>&, char* const*) = nullptr;
  };
};
constexpr tenon_in_place kThenOrElse[] = {{1, 0}, {2, 0}};
template <bool kRows>
constexpr tenon_kernel_registration Choice(std::string_view op) {
  return Kernel<SelectKernel<kRows>>(op,
                                     {.constraints = Constraints<PlainConstraint<"T">>::list, .in_place = kThenOrElse});
}

// In the order of the inputs; the output may be the first one's memory.
struct AddNKernel {
  struct Plan {
    Plan(const AddNKernel&, Shapes& s) : count(Count(s.out(0))), inputs(s.input_count()) {
      for (int32_t i = 0; i < inputs; ++i) {
        if (Count(s.in(i)) != count)
          Fail(TENON_INVALID_ARGUMENT, "input ", i, " of AddN has shape ", s.in(i), "; the sum has ", s.out(0));
      }
      Numbers::Dispatch(s.output(0).dtype, [&]<class T>(Tag<T>) { function = &Loop<T>; });
      s.Vector(Multiply(count, std::max(inputs - 1, 1)));
    }
    void Work(char* const* at) const { function(*this, at); }
    template <class T>
    static void Loop(const Plan& plan, char* const* at) {
      T* out = reinterpret_cast<T*>(at[plan.inputs]);
      const auto input = [&](int32_t i) { return reinterpret_cast<const T*>(at[i]); };
      for (int64_t i = 0; i < plan.count; ++i) {
        T sum = input(0)[i];
        for (int32_t k = 1; k < plan.inputs; ++k) sum = AddOrSubtract<false>(sum, input(k)[i]);
        out[i] = sum;
      }
    }
    int64_t count;
    int32_t inputs;
    void (*function)(const Plan&, char* const*) = nullptr;
  };
};

// A sum in which the bias broadcasts along the channels.
struct BiasAddKernel {
  explicit BiasAddKernel(CreateContext& c)
      : channels_first(c.Has("data_format") && c.String("data_format") == "NCHW") {}
  struct Plan : Map<2, AddOp, Numbers>::Plan {
    Plan(const BiasAddKernel& kernel, Shapes& s) : Map<2, AddOp, Numbers>::Plan(AddOp(), Channels(kernel, s), s) {}
    static Broadcast<2> Channels(const BiasAddKernel& kernel, const Shapes& s) {
      const Dims value = s.in(0);
      if (value.size() < 2) Fail(TENON_INVALID_ARGUMENT, "a value of shape ", value, "; BiasAdd needs rank 2 or more");
      const size_t at = kernel.channels_first ? 1 : value.size() - 1;
      if (Count(s.in(1)) != value[at]) {
        Fail(TENON_INVALID_ARGUMENT, "a bias of shape ", s.in(1), " does not fit the ", value[at], " channels of ",
             value);
      }
      std::vector<int64_t> bias(value.size(), 1);
      bias[at] = value[at];
      return Broadcast<2>({value, Dims(bias)}, value);
    }
  };
  bool channels_first;
};

}  // namespace

TENON_TPU_KERNEL(Neg) = Unary<NegOp, Numbers>("Neg");
TENON_TPU_KERNEL(Abs) = Unary<AbsOp, Numbers>("Abs");
TENON_TPU_KERNEL(Sign) = Unary<SignOp, Numbers>("Sign");
TENON_TPU_KERNEL(Square) = Unary<SquareOp, Numbers>("Square");
TENON_TPU_KERNEL(Reciprocal) = Unary<ReciprocalOp, Reals>("Reciprocal");
TENON_TPU_KERNEL(Sqrt) = Unary<SqrtOp, Reals>("Sqrt");
TENON_TPU_KERNEL(Rsqrt) = Unary<RsqrtOp, Reals>("Rsqrt");
TENON_TPU_KERNEL(Floor) = Unary<FloorOp, Reals>("Floor");
TENON_TPU_KERNEL(Ceil) = Unary<CeilOp, Reals>("Ceil");
TENON_TPU_KERNEL(Round) = Unary<RoundOp, Numbers>("Round");
TENON_TPU_KERNEL(Exp) = Unary<ExpOp, Reals>("Exp");
TENON_TPU_KERNEL(Expm1) = Unary<Expm1Op, Reals>("Expm1");
TENON_TPU_KERNEL(Log) = Unary<LogOp, Reals>("Log");
TENON_TPU_KERNEL(Log1p) = Unary<Log1pOp, Reals>("Log1p");
TENON_TPU_KERNEL(Sin) = Unary<SinOp, Reals>("Sin");
TENON_TPU_KERNEL(Cos) = Unary<CosOp, Reals>("Cos");
TENON_TPU_KERNEL(Tanh) = Unary<TanhOp, Reals>("Tanh");
TENON_TPU_KERNEL(Erf) = Unary<ErfOp, Reals>("Erf");
TENON_TPU_KERNEL(Sigmoid) = Unary<SigmoidOp, Reals>("Sigmoid");
TENON_TPU_KERNEL(Relu) = Unary<ReluOp, Numbers>("Relu");
TENON_TPU_KERNEL(Relu6) = Unary<Relu6Op, Numbers>("Relu6");
TENON_TPU_KERNEL(Elu) = Unary<EluOp, Reals>("Elu");
TENON_TPU_KERNEL(Softplus) = Unary<SoftplusOp, Reals>("Softplus");
TENON_TPU_KERNEL(LeakyRelu) = Unary<LeakyReluOp, Reals>("LeakyRelu");
TENON_TPU_KERNEL(IsFinite) =
    Kernel<Map<1, IsFiniteOp, Reals>>("IsFinite", {.constraints = Constraints<Reals::Constraint<"T">>::list});
TENON_TPU_KERNEL(IsNan) = Kernel<Map<1, IsNanOp, Reals>>("IsNan",
                                                         {.constraints = Constraints<Reals::Constraint<"T">>::list});

TENON_TPU_KERNEL(Add) = Binary<AddOp, Numbers>("Add");
TENON_TPU_KERNEL(AddV2) = Binary<AddOp, Numbers>("AddV2");
TENON_TPU_KERNEL(Sub) = Binary<SubOp, Numbers>("Sub");
TENON_TPU_KERNEL(Mul) = Binary<MulOp, Numbers>("Mul");
TENON_TPU_KERNEL(Maximum) = Binary<MaximumOp, Numbers>("Maximum");
TENON_TPU_KERNEL(Minimum) = Binary<MinimumOp, Numbers>("Minimum");
TENON_TPU_KERNEL(SquaredDifference) = Binary<SquaredDifferenceOp, Numbers>("SquaredDifference");
TENON_TPU_KERNEL(RealDiv) = Binary<DivOp, Numbers>("RealDiv");
TENON_TPU_KERNEL(Div) = Binary<DivOp, Numbers>("Div");
TENON_TPU_KERNEL(FloorDiv) = Binary<FloorDivOp, Numbers>("FloorDiv");
TENON_TPU_KERNEL(FloorMod) = Binary<FloorModOp, Numbers>("FloorMod");
TENON_TPU_KERNEL(DivNoNan) = Binary<DivNoNanOp, Reals>("DivNoNan");
TENON_TPU_KERNEL(Pow) = Binary<AnyPowOp<FloatingPowOp>, Numbers>("Pow");
TENON_TPU_KERNEL(TanhGrad) = Binary<TanhGradOp, Reals>("TanhGrad");
TENON_TPU_KERNEL(SigmoidGrad) = Binary<SigmoidGradOp, Reals>("SigmoidGrad");
TENON_TPU_KERNEL(SqrtGrad) = Binary<SqrtGradOp, Reals>("SqrtGrad");
TENON_TPU_KERNEL(RsqrtGrad) = Binary<RsqrtGradOp, Reals>("RsqrtGrad");
TENON_TPU_KERNEL(ReciprocalGrad) = Binary<ReciprocalGradOp, Reals>("ReciprocalGrad");
TENON_TPU_KERNEL(ReluGrad) = Binary<ReluGradOp, Numbers>("ReluGrad");
TENON_TPU_KERNEL(Relu6Grad) = Binary<Relu6GradOp, Numbers>("Relu6Grad");
TENON_TPU_KERNEL(EluGrad) = Binary<EluGradOp, Reals>("EluGrad");
TENON_TPU_KERNEL(SoftplusGrad) = Binary<SoftplusGradOp, Reals>("SoftplusGrad");
TENON_TPU_KERNEL(LeakyReluGrad) = Binary<LeakyReluGradOp, Reals>("LeakyReluGrad");

TENON_TPU_KERNEL(Equal) = Question<EqualOp, Equals>("Equal");
TENON_TPU_KERNEL(NotEqual) = Question<NotEqualOp, Equals>("NotEqual");
TENON_TPU_KERNEL(Less) = Question<LessOp, Numbers>("Less");
TENON_TPU_KERNEL(LessEqual) = Question<LessEqualOp, Numbers>("LessEqual");
TENON_TPU_KERNEL(Greater) = Question<GreaterOp, Numbers>("Greater");
TENON_TPU_KERNEL(GreaterEqual) = Question<GreaterEqualOp, Numbers>("GreaterEqual");
TENON_TPU_KERNEL(LogicalAnd) = Kernel<Map<2, AndOp, Bools>>("LogicalAnd", {.in_place = kInPlaceEither});
TENON_TPU_KERNEL(LogicalOr) = Kernel<Map<2, OrOp, Bools>>("LogicalOr", {.in_place = kInPlaceEither});
TENON_TPU_KERNEL(LogicalNot) = Kernel<Map<1, NotOp, Bools>>("LogicalNot", {.in_place = kInPlaceFirst});

TENON_TPU_KERNEL(Cast) = Kernel<CastKernel>(
    "Cast", {.constraints = Constraints<Castable::Constraint<"SrcT">, Castable::Constraint<"DstT">>::list});
TENON_TPU_KERNEL(Select) = Choice<true>("Select");
TENON_TPU_KERNEL(SelectV2) = Choice<false>("SelectV2");
TENON_TPU_KERNEL(AddN) =
    Kernel<AddNKernel>("AddN", {.constraints = Constraints<Numbers::Constraint<"T">>::list, .in_place = kInPlaceFirst});
TENON_TPU_KERNEL(BiasAdd) = Kernel<BiasAddKernel>("BiasAdd",
                                                  {.constraints = Constraints<Numbers::Constraint<"T">>::list,
                                                   .in_place = kInPlaceFirst});

}  // namespace tenon::tpu_sim
