// SPDX-License-Identifier: Apache-2.0
#include "code/elementwise.h"

#include "kernels/kernel.h"
#include "tenon/sdk/kernel/elementwise.h"
#include "tenon/sdk/walk/broadcast.h"

namespace tenon::gpu {
namespace {

float AlphaOf(sdk::CreateContext& c) { return c.Has("alpha") ? c.Float("alpha") : 0.0f; }

// The device code's name is the template's argument.
template <sdk::FixedString kCode>
struct Unary {
  explicit Unary(sdk::CreateContext& c) : alpha(AlphaOf(c)) {}
  struct Plan {
    Plan(const Unary& kernel, Shapes& s) : count(sdk::Count(s.in(0))), alpha(kernel.alpha), code(s.Code(kCode.data, s.dtype(0))) {}
    void Launch(Launcher& on, char* const* at) const { on(code, Flat(count, 4), UnaryParams{at[0], at[1], count, alpha}); }
    int64_t count;
    float alpha;
    Function code;
  };
  float alpha;
};

constexpr char kByZero[] = "Integer division by zero (element {0})";
constexpr char kNegativePower[] = "Integers to negative integer powers are not allowed (element {0} is {1})";

BinaryParams ParamsOf(const sdk::Broadcast<2>& shape, float alpha) {
  if (shape.rank > kMostOuterDims) {
    sdk::Fail(TENON_UNIMPLEMENTED, "GPUs broadcast over at most ", kMostOuterDims + 1, " alternations of dims; these have ", shape.rank + 1);
  }
  BinaryParams p = {};
  p.total = shape.total;
  p.inner = shape.inner;
  p.a_step = shape.inner_stride[0];
  p.b_step = shape.inner_stride[1];
  p.rank = shape.rank;
  p.alpha = alpha;
  for (int d = 0; d < shape.rank; ++d) {
    const auto at = static_cast<size_t>(d);
    p.dims[d] = shape.dims[at];
    p.a_strides[d] = shape.strides[0][at];
    p.b_strides[d] = shape.strides[1][at];
  }
  return p;
}

template <sdk::FixedString kCode>
struct Binary {
  explicit Binary(sdk::CreateContext& c) : alpha(AlphaOf(c)) {}
  struct Plan {
    Plan(const Binary& kernel, Shapes& s) : Plan(sdk::Broadcast<2>({s.in(0), s.in(1)}, s.out(0)), kernel.alpha, s) {}
    Plan(const sdk::Broadcast<2>& shape, float alpha, Shapes& s) : params(ParamsOf(shape, alpha)), code(s.Code(kCode.data, s.dtype(0))) {
      const bool power = std::string_view(kCode.data) == "Pow";
      site = s.Site(TENON_INVALID_ARGUMENT, power ? kNegativePower : kByZero);
    }
    void Launch(Launcher& on, char* const* at) const {
      BinaryParams p = params;
      p.a = at[0];
      p.b = at[1];
      p.out = at[2];
      p.site = on.Site(site);
      on(code, Flat(p.total, 4), p);
    }
    BinaryParams params;
    Function code;
    uint64_t site;
  };
  float alpha;
};

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
      if (value.size() < 2) sdk::Fail(TENON_INVALID_ARGUMENT, "a value of shape ", value, "; BiasAdd needs rank 2 or more");
      const size_t at = kernel.channels_first ? 1 : value.size() - 1;
      if (sdk::Count(s.in(1)) != value[at]) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "a bias of shape ", s.in(1), " does not fit the ", value[at], " channels of ", value);
      }
      std::vector<int64_t> bias(value.size(), 1);
      bias[at] = value[at];
      return sdk::Broadcast<2>({value, sdk::Dims(bias)}, value);
    }
  };
  bool channels_first;
};

template <class Set>
constexpr auto& kT = sdk::Constraints<typename Set::template Constraint<"T">>::list;
using Bools = Types<bool>;
using Equals = Numbers::And<bool>;

}  // namespace

#define TENON_GPU_UNARY_NUMBERS(Name) TENON_GPU_KERNEL(Name) = Kernel<Unary<#Name>>(#Name, {.constraints = kT<Numbers>, .in_place = sdk::kInPlaceFirst});
#define TENON_GPU_UNARY_FLOATS(Name) TENON_GPU_KERNEL(Name) = Kernel<Unary<#Name>>(#Name, {.constraints = kT<Floats>, .in_place = sdk::kInPlaceFirst});
#define TENON_GPU_UNARY_TO_BOOL(Name) TENON_GPU_KERNEL(Name) = Kernel<Unary<#Name>>(#Name, {.constraints = kT<Floats>});
TENON_GPU_UNARY_OF_NUMBERS(TENON_GPU_UNARY_NUMBERS)
TENON_GPU_UNARY_OF_FLOATS(TENON_GPU_UNARY_FLOATS)
TENON_GPU_UNARY_QUESTIONS(TENON_GPU_UNARY_TO_BOOL)
TENON_GPU_KERNEL(LogicalNot) = Kernel<Unary<"Not">>("LogicalNot", {.in_place = sdk::kInPlaceFirst});

#define TENON_GPU_BINARY_NUMBERS(Name) TENON_GPU_KERNEL(Name) = Kernel<Binary<#Name>>(#Name, {.constraints = kT<Numbers>, .in_place = sdk::kInPlaceEither});
#define TENON_GPU_BINARY_FLOATS(Name) TENON_GPU_KERNEL(Name) = Kernel<Binary<#Name>>(#Name, {.constraints = kT<Floats>, .in_place = sdk::kInPlaceEither});
#define TENON_GPU_BINARY_TO_BOOL(Name) TENON_GPU_KERNEL(Name) = Kernel<Binary<#Name>>(#Name, {.constraints = kT<Numbers>});
TENON_GPU_BINARY_OF_NUMBERS(TENON_GPU_BINARY_NUMBERS)
TENON_GPU_BINARY_THAT_MAY_FAIL(TENON_GPU_BINARY_NUMBERS)
TENON_GPU_BINARY_OF_FLOATS(TENON_GPU_BINARY_FLOATS)
TENON_GPU_BINARY_QUESTIONS(TENON_GPU_BINARY_TO_BOOL)
TENON_GPU_KERNEL(AddV2) = Kernel<Binary<"Add">>("AddV2", {.constraints = kT<Numbers>, .in_place = sdk::kInPlaceEither});
TENON_GPU_KERNEL(RealDiv) = Kernel<Binary<"Div">>("RealDiv", {.constraints = kT<Numbers>, .in_place = sdk::kInPlaceEither});
TENON_GPU_KERNEL(Equal) = Kernel<Equality<"Equal", false>>("Equal", {.constraints = kT<Equals>});
TENON_GPU_KERNEL(NotEqual) = Kernel<Equality<"NotEqual", true>>("NotEqual", {.constraints = kT<Equals>});
TENON_GPU_KERNEL(LogicalAnd) = Kernel<Binary<"And">>("LogicalAnd", {.in_place = sdk::kInPlaceEither});
TENON_GPU_KERNEL(LogicalOr) = Kernel<Binary<"Or">>("LogicalOr", {.in_place = sdk::kInPlaceEither});
TENON_GPU_KERNEL(BiasAdd) = Kernel<BiasAdd>("BiasAdd", {.constraints = kT<Numbers>, .in_place = sdk::kInPlaceFirst});

}  // namespace tenon::gpu
