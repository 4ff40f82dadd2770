// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise.h"

#include "tenon/extras/kernel/elementwise.h"

namespace tenon::gpu {
namespace {

// Shapes that do not broadcast are unequal, where the op lets them be (incompatible_shape_error).
template <sdk::FixedString kCode, bool kOtherwise>
struct Equality {
  struct Plan {
    Plan(const Equality&, Shapes& s) {
      if (Fits(s)) {
        plan.emplace(sdk::Broadcast<2>({s.in(0), s.in(1)}, s.out(0)), 0.0f, s);
      }
    }
    static bool Fits(Shapes& s) {
      const sdk::Dims x = s.in(0), y = s.in(1);
      for (size_t back = 1; back <= std::min(x.size(), y.size()); ++back) {
        const int64_t a = x[x.size() - back], b = y[y.size() - back];
        if (a != b && a != 1 && b != 1) return s.out(0).size() != 0;
      }
      return true;
    }
    void Launch(Launcher& on, char* const* at) const {
      plan.has_value() ? plan->Launch(on, at) : on.Fill(at[2], kOtherwise ? 1 : 0, 1);
    }
    std::optional<typename Binary<kCode>::Plan> plan;
  };
};

// A sum in which the bias broadcasts along the channels.
struct BiasAdd {
  explicit BiasAdd(sdk::CreateContext& c) : channels_first(c.Has("data_format") && c.String("data_format") == "NCHW") {}
  struct Plan : Binary<"Add">::Plan {
    Plan(const BiasAdd& kernel, Shapes& s) : Binary<"Add">::Plan(Channels(kernel, s), 0.0f, s) {}
    static sdk::Broadcast<2> Channels(const BiasAdd& kernel, const Shapes& s) {
      const sdk::Dims value = s.in(0);
      if (value.size() < 2)
        sdk::Fail(TENON_INVALID_ARGUMENT, "a value of shape ", value, "; BiasAdd needs rank 2 or more");
      const size_t at = kernel.channels_first ? 1 : value.size() - 1;
      if (sdk::Count(s.in(1)) != value[at]) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "a bias of shape ", s.in(1), " does not fit the ", value[at], " channels of ",
                  value);
      }
      std::vector<int64_t> bias(value.size(), 1);
      bias[at] = value[at];
      return sdk::Broadcast<2>({value, sdk::Dims(bias)}, value);
    }
  };
  bool channels_first;
};

// ClipByValue: bounds are scalars, or of t's shape.
struct Clip {
  struct Plan {
    Plan(const Clip&, Shapes& s) : code(s.Code("Clip", s.dtype(0))) {
      params.count = sdk::Count(s.in(0));
      params.low_step = StepOf("clip_value_min", s.in(1), s.in(0));
      params.high_step = StepOf("clip_value_max", s.in(2), s.in(0));
    }
    static int64_t StepOf(const char* name, sdk::Dims bound, sdk::Dims shape) {
      if (!bound.empty() && !std::equal(bound.begin(), bound.end(), shape.begin(), shape.end())) {
        sdk::Fail(TENON_INVALID_ARGUMENT, name, " of shape ", bound, " is no scalar, and does not have t's shape ",
                  shape);
      }
      return bound.empty() ? 0 : 1;
    }
    void Launch(Launcher& on, char* const* at) const {
      ClipParams p = params;
      p.x = at[0];
      p.low = at[1];
      p.high = at[2];
      p.out = at[3];
      on(code, Flat(p.count, 4), p);
    }
    ClipParams params = {};
    Function code;
  };
};

using Bools = Types<bool>;
using Integers = Types<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;
using Equals = Numbers::And<bool>;

}  // namespace

#define TENON_GPU_UNARY_NUMBERS(Name) \
  TENON_GPU_KERNEL(Name) = Kernel<Unary<#Name>>(#Name, {.constraints = kT<Numbers>, .in_place = sdk::kInPlaceFirst});
#define TENON_GPU_UNARY_FLOATS(Name) \
  TENON_GPU_KERNEL(Name) = Kernel<Unary<#Name>>(#Name, {.constraints = kT<Floats>, .in_place = sdk::kInPlaceFirst});
#define TENON_GPU_UNARY_TO_BOOL(Name) TENON_GPU_KERNEL(Name) = Kernel<Unary<#Name>>(#Name, {.constraints = kT<Floats>});
TENON_GPU_UNARY_OF_NUMBERS(TENON_GPU_UNARY_NUMBERS)
TENON_GPU_UNARY_OF_FLOATS(TENON_GPU_UNARY_FLOATS)
TENON_GPU_UNARY_QUESTIONS(TENON_GPU_UNARY_TO_BOOL)
TENON_GPU_KERNEL(LogicalNot) = Kernel<Unary<"Not">>("LogicalNot", {.in_place = sdk::kInPlaceFirst});

#define TENON_GPU_BINARY_NUMBERS(Name) \
  TENON_GPU_KERNEL(Name) = Kernel<Binary<#Name>>(#Name, {.constraints = kT<Numbers>, .in_place = sdk::kInPlaceEither});
#define TENON_GPU_BINARY_FLOATS(Name) \
  TENON_GPU_KERNEL(Name) = Kernel<Binary<#Name>>(#Name, {.constraints = kT<Floats>, .in_place = sdk::kInPlaceEither});
#define TENON_GPU_BINARY_TO_BOOL(Name) \
  TENON_GPU_KERNEL(Name) = Kernel<Binary<#Name>>(#Name, {.constraints = kT<Numbers>});
TENON_GPU_BINARY_OF_NUMBERS(TENON_GPU_BINARY_NUMBERS)
TENON_GPU_BINARY_THAT_MAY_FAIL(TENON_GPU_BINARY_NUMBERS)
TENON_GPU_BINARY_OF_FLOATS(TENON_GPU_BINARY_FLOATS)
TENON_GPU_BINARY_QUESTIONS(TENON_GPU_BINARY_TO_BOOL)
TENON_GPU_KERNEL(AddV2) = Kernel<Binary<"Add">>("AddV2", {.constraints = kT<Numbers>, .in_place = sdk::kInPlaceEither});
TENON_GPU_KERNEL(RealDiv) = Kernel<Binary<"Div">>("RealDiv",
                                                  {.constraints = kT<Numbers>, .in_place = sdk::kInPlaceEither});
TENON_GPU_KERNEL(Equal) = Kernel<Equality<"Equal", false>>("Equal", {.constraints = kT<Equals>});
TENON_GPU_KERNEL(NotEqual) = Kernel<Equality<"NotEqual", true>>("NotEqual", {.constraints = kT<Equals>});
TENON_GPU_KERNEL(LogicalAnd) = Kernel<Binary<"And">>("LogicalAnd", {.in_place = sdk::kInPlaceEither});
TENON_GPU_KERNEL(LogicalOr) = Kernel<Binary<"Or">>("LogicalOr", {.in_place = sdk::kInPlaceEither});
TENON_GPU_KERNEL(NextAfter) = Kernel<Binary<"NextAfter">>("NextAfter", {.constraints = kT<Types<float, double>>,
                                                                        .in_place = sdk::kInPlaceEither});
TENON_GPU_KERNEL(ClipByValue) = Kernel<Clip>("ClipByValue",
                                             {.constraints = kT<Numbers>, .in_place = sdk::kInPlaceFirst});
#define TENON_GPU_BITS(Name) \
  TENON_GPU_KERNEL(Name) =   \
      Kernel<Binary<#Name, UnsignedType>>(#Name, {.constraints = kT<Integers>, .in_place = sdk::kInPlaceEither});
#define TENON_GPU_SHIFT(Name) \
  TENON_GPU_KERNEL(Name) = Kernel<Binary<#Name>>(#Name, {.constraints = kT<Integers>, .in_place = sdk::kInPlaceEither});
TENON_GPU_BINARY_OF_BITS(TENON_GPU_BITS)
TENON_GPU_SHIFTS(TENON_GPU_SHIFT)
TENON_GPU_KERNEL(Invert) = Kernel<Unary<"Invert", UnsignedType>>("Invert", {.constraints = kT<Integers>,
                                                                            .in_place = sdk::kInPlaceFirst});
TENON_GPU_KERNEL(PopulationCount) = Kernel<Unary<"PopulationCount", UnsignedType>>("PopulationCount",
                                                                                   {.constraints = kT<Integers>});
TENON_GPU_KERNEL(BiasAdd) = Kernel<BiasAdd>("BiasAdd", {.constraints = kT<Numbers>, .in_place = sdk::kInPlaceFirst});

}  // namespace tenon::gpu
