// SPDX-License-Identifier: Apache-2.0
// Sum, Mean, Prod, Max, Min, All, Any, L2Loss, BiasAddGrad, ArgMax, ArgMin, CheckNumerics and AddN.
#include "code/reduce.h"

#include "kernels/reduction.h"

namespace tenon::gpu {
namespace {

using sdk::Dims;

template <sdk::FixedString kCode>
struct Reduce {
  static constexpr HostInput kHostInputs[] = {{TENON_SPAN("reduction_indices"), 1}};
  static constexpr bool kMean = std::string_view(kCode.data) == "Mean";
  struct Plan {
    Plan(const Reduce&, Shapes& s)
        : Plan(s,
               sdk::ReduceShape(s.in(0), sdk::Data<const void>(s.input(1)), s.input(1).dtype, sdk::Count(s.input(1)))) {
    }
    Plan(Shapes& s, const sdk::ReduceShape& shape)
        : inputs(shape.inputs), bytes(shape.outputs * static_cast<int64_t>(sdk::ElementSize(s.dtype(0)))) {
      if (shape.outputs != sdk::Count(s.out(0))) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "the axes leave ", shape.outputs, " elements; the output has ",
                  sdk::Count(s.out(0)));
      }
      const uint32_t dtype = s.dtype(0);
      const bool whole = dtype == TENON_DT_INT32 || dtype == TENON_DT_INT64;
      if (kMean && whole && inputs == 0 && shape.outputs != 0) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "Integer division by zero: the mean of no elements");
      }
      if (inputs != 1) reduction.emplace(s, shape, kMean && dtype != TENON_DT_INT32 ? "Sum" : kCode.data, dtype);
    }
    void Launch(Launcher& on, char* const* at) const {
      // Each element is its own sum, a -0 too.
      if (!reduction.has_value()) return on.Copy(at[2], at[0], bytes);
      (*reduction)(on, ReduceParams{{}, at[0], at[2], inputs, kMean ? 1 : 0});
    }
    int64_t inputs, bytes;
    std::optional<Reduction> reduction;
  };
};

// All elements of `count`.
sdk::ReduceShape Whole(int64_t count) {
  const int64_t axis = 0;
  return sdk::ReduceShape(Dims(&count, 1), &axis, TENON_DT_INT64, 1);
}

// sum(x^2) / 2.
struct L2Loss {
  struct Plan {
    Plan(const L2Loss&, Shapes& s) : squares(s, Whole(sdk::Count(s.in(0))), "Squares", s.dtype(0)) {}
    void Launch(Launcher& on, char* const* at) const { squares(on, ReduceParams{{}, at[0], at[1], 2, 1}); }
    Reduction squares;
  };
};

struct BiasAddGrad {
  explicit BiasAddGrad(sdk::CreateContext& c)
      : channels_first(c.Has("data_format") && c.String("data_format") == "NCHW") {}
  struct Plan {
    Plan(const BiasAddGrad& kernel, Shapes& s) : Plan(s, Summed(kernel, s.in(0))) {}
    Plan(Shapes& s, const sdk::ReduceShape& shape)
        : bytes(shape.outputs * static_cast<int64_t>(sdk::ElementSize(s.dtype(0)))) {
      if (shape.inputs != 1) sum.emplace(s, shape, "Sum", s.dtype(0));
    }
    static sdk::ReduceShape Summed(const BiasAddGrad& kernel, Dims in) {
      if (in.size() < 2)
        sdk::Fail(TENON_INVALID_ARGUMENT, "a gradient of shape ", in, "; BiasAddGrad needs rank 2 or more");
      return AllBut(in, kernel.channels_first ? 1 : in.size() - 1);
    }
    void Launch(Launcher& on, char* const* at) const {
      if (!sum.has_value()) return on.Copy(at[1], at[0], bytes);
      (*sum)(on, ReduceParams{{}, at[0], at[1], 0, 0});
    }
    int64_t bytes;
    std::optional<Reduction> sum;
  };
  bool channels_first;
};

template <sdk::FixedString kCode>
struct Arg {
  static constexpr HostInput kHostInputs[] = {{TENON_SPAN("dimension"), 1}};
  struct Plan {
    Plan(const Arg&, Shapes& s)
        : place_bytes(static_cast<int32_t>(sdk::ElementSize(s.output(0).dtype))),
          reduction(s, Shape(s), kCode.data, s.dtype(0)) {}
    static sdk::ReduceShape Shape(Shapes& s) {
      const Dims in = s.in(0);
      const auto rank = static_cast<int64_t>(in.size());
      const int64_t given = s.Integer(1), axis = given < 0 ? given + rank : given;
      if (axis < 0 || axis >= rank) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "Expected dimension in the range [", -rank, ", ", rank, "), but got ", given);
      }
      const sdk::ReduceShape shape(in, &axis, TENON_DT_INT64, 1);
      if (sdk::Count(s.out(0)) != shape.outputs) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "dimension ", given, " of shape ", in, " does not give the output's shape ",
                  s.out(0));
      }
      if (shape.inputs == 0 && shape.outputs != 0)
        sdk::Fail(TENON_INVALID_ARGUMENT, "Reduction axis ", given, " is empty in shape ", in);
      return shape;
    }
    void Launch(Launcher& on, char* const* at) const { reduction(on, ArgParams{{}, at[0], at[2], place_bytes}); }
    int32_t place_bytes;
    Reduction reduction;
  };
};

struct CheckNumerics {
  explicit CheckNumerics(sdk::CreateContext& c) : message(c.String("message")) {}
  struct Plan {
    Plan(const CheckNumerics& kernel, Shapes& s)
        : bytes(static_cast<int64_t>(sdk::ElementSize(s.dtype(0))) * sdk::Count(s.in(0))),
          check(s, Whole(sdk::Count(s.in(0))), "Check", s.dtype(0)) {
      const auto site = [&](const char* what) {
        return s.Site(TENON_INVALID_ARGUMENT, sdk::Concat(kernel.message, " : Tensor had ", what, " values"));
      };
      nan = site("NaN");
      infinite = site("Inf");
      both = site("Inf and NaN");
    }
    void Launch(Launcher& on, char* const* at) const {
      check(on, CheckParams{{}, at[0], on.Site(nan), on.Site(infinite), on.Site(both)});
      on.Copy(at[1], at[0], bytes);
    }
    int64_t bytes;
    Reduction check;
    uint64_t nan, infinite, both;
  };
  std::string message;
};

struct AddN {
  struct Plan {
    Plan(const AddN&, Shapes& s)
        : count(sdk::Count(s.out(0))), inputs(s.input_count()), code(s.Code("AddN", s.output(0).dtype)) {
      for (int32_t i = 0; i < inputs; ++i) {
        if (sdk::Count(s.in(i)) != count) {
          sdk::Fail(TENON_INVALID_ARGUMENT, "input ", i, " of AddN has shape ", s.in(i), "; the sum's is ", s.out(0));
        }
      }
    }
    // The first group, and then the sum so far with the next ones.
    void Launch(Launcher& on, char* const* at) const {
      AddNParams p = {};
      p.out = at[inputs];
      p.count = count;
      p.x[0] = at[0];
      int32_t next = 1;
      do {
        p.inputs = 1;
        while (p.inputs < kMostSummands && next < inputs) p.x[p.inputs++] = at[next++];
        on(code, Flat(count, 4), p);
        p.x[0] = p.out;
      } while (next < inputs);
    }
    int64_t count;
    int32_t inputs;
    Function code;
  };
};

template <sdk::FixedString kCode>
constexpr tenon_kernel_registration OfNumbers(std::string_view op) {
  return Kernel<Reduce<kCode>>(
      op, {.constraints = sdk::Constraints<Numbers::Constraint<"T">, sdk::Indices::Constraint<"Tidx">>::list});
}
template <sdk::FixedString kCode>
constexpr tenon_kernel_registration OfBools(std::string_view op) {
  return Kernel<Reduce<kCode>>(op, {.constraints = sdk::Constraints<sdk::Indices::Constraint<"Tidx">>::list});
}
using Comparable = Numbers::And<bool>;
using Places = Types<int32_t, int64_t, int16_t, uint16_t>;
template <sdk::FixedString kCode>
constexpr tenon_kernel_registration OfComparable(std::string_view op) {
  return Kernel<Arg<kCode>>(
      op, {.constraints = sdk::Constraints<Comparable::Constraint<"T">, Places::Constraint<"output_type">>::list});
}
template <class Set>
constexpr auto& kT = sdk::Constraints<typename Set::template Constraint<"T">>::list;

}  // namespace

TENON_GPU_KERNEL(Sum) = OfNumbers<"Sum">("Sum");
TENON_GPU_KERNEL(Mean) = OfNumbers<"Mean">("Mean");
TENON_GPU_KERNEL(Prod) = OfNumbers<"Prod">("Prod");
TENON_GPU_KERNEL(Max) = OfNumbers<"Max">("Max");
TENON_GPU_KERNEL(Min) = OfNumbers<"Min">("Min");
TENON_GPU_KERNEL(All) = OfBools<"All">("All");
TENON_GPU_KERNEL(Any) = OfBools<"Any">("Any");
TENON_GPU_KERNEL(L2Loss) = Kernel<L2Loss>("L2Loss", {.constraints = kT<Floats>});
TENON_GPU_KERNEL(BiasAddGrad) = Kernel<BiasAddGrad>("BiasAddGrad", {.constraints = kT<Numbers>});
TENON_GPU_KERNEL(ArgMax) = OfComparable<"ArgMax">("ArgMax");
TENON_GPU_KERNEL(ArgMin) = OfComparable<"ArgMin">("ArgMin");
TENON_GPU_KERNEL(CheckNumerics) = Kernel<CheckNumerics>("CheckNumerics",
                                                        {.constraints = kT<Floats>, .in_place = sdk::kInPlaceFirst});
TENON_GPU_KERNEL(AddN) = Kernel<AddN>("AddN", {.constraints = kT<Numbers>, .in_place = sdk::kInPlaceFirst});

}  // namespace tenon::gpu
