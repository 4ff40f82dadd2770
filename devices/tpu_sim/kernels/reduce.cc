// SPDX-License-Identifier: Apache-2.0
// Reductions on the vector unit: Sum, Mean, Prod, Max, Min, All, Any, BiasAddGrad, L2Loss, ArgMax, ArgMin.
//
// The result broadcasts against the input, so one walk over the input in its order does all of them. Sums of floats are
// kept in double and rounded once.
#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/kernel.h"
#include "tenon/extras/kernel/elementwise.h"
#include "tenon/extras/walk/pool.h"
#include "tenon/extras/walk/reduce_shape.h"

namespace tenon::tpu_sim {
namespace {

using sdk::Broadcast;
using sdk::Dims;

// A reduction begins with First and takes one element after the other. Total<A> is what it is kept in.
template <class Op>
struct Ordinary {
  template <class A>
  using Total = A;
  template <class A>
  static A Step(A x, A y) {
    return Op()(x, y);
  }
};
struct SumOp : Ordinary<sdk::AddOp> {
  template <class A>
  using Total = std::conditional_t<std::is_same_v<A, float>, double, A>;
  template <class A>
  static A First() { return A(0); }
};
struct SquaresOp : SumOp {
  template <class A>
  static A Step(A x, A y) { return x + y * y; }
};
struct ProdOp : Ordinary<sdk::MulOp> {
  template <class A>
  static A First() { return A(1); }
};
template <class A>
constexpr A Highest() {
  return std::is_floating_point_v<A> ? std::numeric_limits<A>::infinity() : std::numeric_limits<A>::max();
}
struct MaxOp : Ordinary<sdk::MaximumOp> {
  template <class A>
  static A First() { return std::is_floating_point_v<A> ? -Highest<A>() : std::numeric_limits<A>::lowest(); }
};
struct MinOp : Ordinary<sdk::MinimumOp> {
  template <class A>
  static A First() { return Highest<A>(); }
};
struct AllOp : Ordinary<sdk::AndOp> {
  template <class A>
  static A First() { return true; }
};
struct AnyOp : Ordinary<sdk::OrOp> {
  template <class A>
  static A First() { return false; }
};

// What the result is divided by.
enum class Divide { kNot, kByCount, kByTwo };

template <class Op, class Set, Divide kDivide>
struct Reduction {
  // kept: the input's dims with 1 where it is reduced.
  Reduction(Dims kept, Dims input, int64_t outputs, uint32_t dtype, Shapes& s)
      : shape({kept}, input), outputs(outputs) {
    if (outputs != sdk::Count(s.out(0))) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "the axes leave ", outputs, " elements; the output's shape is ", s.out(0));
    }
    Set::Dispatch(dtype, [&]<class T>(Tag<T>) { function = &Loop<T>; });
    s.Vector(shape.total);
  }
  void Work(char* const* at, int32_t output) const { function(*this, at[0], at[output]); }

 private:
  template <class T>
  static void Loop(const Reduction& r, const char* from, char* to) {
    using A = typename Op::template Total<Wide<T>>;
    const T* x = reinterpret_cast<const T*>(from);
    T* out = reinterpret_cast<T*>(to);
    // bool's vector is no array.
    const auto totals = std::make_unique<A[]>(static_cast<size_t>(r.outputs));
    std::fill_n(totals.get(), r.outputs, Op::template First<A>());
    r.shape.ForEachRow(0, r.shape.total, [&](const std::array<int64_t, 1>& at, int64_t begin, int64_t n) {
      A* total = totals.get() + at[0];
      const auto element = [&](int64_t i) { return static_cast<A>(static_cast<Wide<T>>(x[begin + i])); };
      if (r.shape.inner_stride[0] == 0) {
        A sum = *total;
        for (int64_t i = 0; i < n; ++i) sum = Op::template Step<A>(sum, element(i));
        *total = sum;
      } else {
        for (int64_t i = 0; i < n; ++i) total[i] = Op::template Step<A>(total[i], element(i));
      }
    });
    const int64_t inputs = r.outputs == 0 ? 0 : r.shape.total / r.outputs;
    for (int64_t i = 0; i < r.outputs; ++i) out[i] = Finish<T>(totals[static_cast<size_t>(i)], inputs);
  }
  template <class T, class A>
  static T Finish(A total, int64_t inputs) {
    if constexpr (kDivide == Divide::kByCount) {
      if (std::is_integral_v<A> && inputs == 0)
        sdk::Fail(TENON_INVALID_ARGUMENT, "Integer division by zero: the mean of no elements");
      total = static_cast<A>(total / static_cast<A>(inputs));
    } else if constexpr (kDivide == Divide::kByTwo) {
      total /= 2;
    }
    return static_cast<T>(static_cast<Wide<T>>(total));
  }
  Broadcast<1> shape;
  int64_t outputs;
  void (*function)(const Reduction&, const char*, char*) = nullptr;
};

template <class Op, class Set, Divide kDivide = Divide::kNot>
struct ReduceKernel {
  static constexpr HostInput kHostInputs[] = {{TENON_SPAN("reduction_indices"), 1}};
  struct Plan {
    Plan(const ReduceKernel&, Shapes& s) : reduction(Make(s)) {}
    void Work(char* const* at) const { reduction.Work(at, 2); }
    static Reduction<Op, Set, kDivide> Make(Shapes& s) {
      const View& axes = s.input(1);
      const sdk::ReduceShape shape(s.in(0), sdk::Data<const void>(axes), axes.dtype, sdk::Count(axes));
      std::array<int64_t, sdk::kMaxDims> kept = shape.dims;
      for (size_t d = 0; d < kept.size(); ++d) kept[d] = shape.reduced[d] ? 1 : kept[d];
      const auto rank = static_cast<size_t>(shape.rank);
      return {Dims(kept.data(), rank), Dims(shape.dims.data(), rank), shape.outputs, s.input(0).dtype, s};
    }
    Reduction<Op, Set, kDivide> reduction;
  };
};

struct BiasAddGradKernel {
  explicit BiasAddGradKernel(sdk::CreateContext& c)
      : channels_first(c.Has("data_format") && c.String("data_format") == "NCHW") {}
  using Sum = Reduction<SumOp, Numbers, Divide::kNot>;
  struct Plan {
    Plan(const BiasAddGradKernel& kernel, Shapes& s) : sum(Make(kernel, s)) {}
    void Work(char* const* at) const { sum.Work(at, 1); }
    static Sum Make(const BiasAddGradKernel& kernel, Shapes& s) {
      const Dims in = s.in(0);
      if (in.size() < 2)
        sdk::Fail(TENON_INVALID_ARGUMENT, "a gradient of shape ", in, "; BiasAddGrad needs rank 2 or more");
      const size_t at = kernel.channels_first ? 1 : in.size() - 1;
      std::vector<int64_t> kept(in.size(), 1);
      kept[at] = in[at];
      return Sum(kept, in, in[at], s.input(0).dtype, s);
    }
    Sum sum;
  };
  bool channels_first;
};

struct L2LossKernel {
  using Squares = Reduction<SquaresOp, Reals, Divide::kByTwo>;
  struct Plan {
    Plan(const L2LossKernel&, Shapes& s)
        : count(sdk::Count(s.in(0))), squares(Dims(), Dims(&count, 1), 1, s.input(0).dtype, s) {}
    void Work(char* const* at) const { squares.Work(at, 1); }
    int64_t count;
    Squares squares;
  };
};

// The first of equal elements. As in TensorFlow it is what is better than the worst finite number: a NaN is passed
// over, and where nothing is better it is the first element.
using Comparable = Types<float, Bfloat16, double, int32_t, int64_t, bool>;
using Places = Types<int32_t, int64_t>;

template <bool kMax>
struct ArgKernel {
  static constexpr HostInput kHostInputs[] = {{TENON_SPAN("dimension"), 1}};
  struct Plan {
    Plan(const ArgKernel&, Shapes& s) {
      const Dims in = s.in(0);
      const auto rank = static_cast<int64_t>(in.size());
      const int64_t given = s.Integer(1), axis = given < 0 ? given + rank : given;
      if (axis < 0 || axis >= rank) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "Expected dimension in the range [", -rank, ", ", rank, "), but got ", given);
      }
      size = in[static_cast<size_t>(axis)];
      outer = sdk::Count(in.first(static_cast<size_t>(axis)));
      inner = sdk::Count(in.subspan(static_cast<size_t>(axis) + 1));
      if (sdk::Count(s.out(0)) != outer * inner) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "dimension ", given, " of shape ", in, " does not give the output's shape ",
                  s.out(0));
      }
      if (size == 0 && outer * inner != 0)
        sdk::Fail(TENON_INVALID_ARGUMENT, "Reduction axis ", given, " is empty in shape ", in);
      Comparable::Dispatch(s.input(0).dtype, [&]<class T>(Tag<T>) {
        Places::Dispatch(s.output(0).dtype, [&]<class Place>(Tag<Place>) { function = &Loop<T, Place>; });
      });
      s.Vector(outer * size * inner);
    }
    void Work(char* const* at) const { function(*this, at[0], at[2]); }
    template <class T>
    static Wide<T> Worst() {
      if constexpr (kMax) return sdk::Lowest<T>();
      else if constexpr (sdk::kIsReal<T>) return -sdk::Lowest<T>();
      else return std::numeric_limits<T>::max();
    }
    template <class T, class Place>
    static void Loop(const Plan& plan, const char* from, char* to) {
      const T* x = reinterpret_cast<const T*>(from);
      Place* out = reinterpret_cast<Place*>(to);
      for (int64_t i = 0; i < plan.outer * plan.inner; ++i) {
        const T* column = x + i / plan.inner * plan.size * plan.inner + i % plan.inner;
        int64_t best = 0;
        Wide<T> most = Worst<T>();
        for (int64_t k = 0; k < plan.size; ++k)
          if (const Wide<T> value = column[k * plan.inner]; kMax ? value > most : value < most) most = value, best = k;
        out[i] = static_cast<Place>(best);
      }
    }
    int64_t outer, size, inner;
    void (*function)(const Plan&, const char*, char*) = nullptr;
  };
};

template <class Op, Divide kDivide = Divide::kNot>
constexpr tenon_kernel_registration Reduce(std::string_view op) {
  return Kernel<ReduceKernel<Op, Numbers, kDivide>>(
      op, {.constraints = sdk::Constraints<Numbers::Constraint<"T">, sdk::Indices::Constraint<"Tidx">>::list});
}
template <class Op>
constexpr tenon_kernel_registration ReduceBools(std::string_view op) {
  return Kernel<ReduceKernel<Op, Types<bool>>>(
      op, {.constraints = sdk::Constraints<sdk::Indices::Constraint<"Tidx">>::list});
}
template <bool kMax>
constexpr tenon_kernel_registration Arg(std::string_view op) {
  return Kernel<ArgKernel<kMax>>(
      op, {.constraints = sdk::Constraints<Comparable::Constraint<"T">, Places::Constraint<"output_type">>::list});
}

}  // namespace

TENON_TPU_KERNEL(Sum) = Reduce<SumOp>("Sum");
TENON_TPU_KERNEL(Mean) = Reduce<SumOp, Divide::kByCount>("Mean");
TENON_TPU_KERNEL(Prod) = Reduce<ProdOp>("Prod");
TENON_TPU_KERNEL(Max) = Reduce<MaxOp>("Max");
TENON_TPU_KERNEL(Min) = Reduce<MinOp>("Min");
TENON_TPU_KERNEL(All) = ReduceBools<AllOp>("All");
TENON_TPU_KERNEL(Any) = ReduceBools<AnyOp>("Any");
TENON_TPU_KERNEL(BiasAddGrad) =
    Kernel<BiasAddGradKernel>("BiasAddGrad", {.constraints = sdk::Constraints<Numbers::Constraint<"T">>::list});
TENON_TPU_KERNEL(L2Loss) = Kernel<L2LossKernel>("L2Loss",
                                                {.constraints = sdk::Constraints<Reals::Constraint<"T">>::list});
TENON_TPU_KERNEL(ArgMax) = Arg<true>("ArgMax");
TENON_TPU_KERNEL(ArgMin) = Arg<false>("ArgMin");

}  // namespace tenon::tpu_sim
