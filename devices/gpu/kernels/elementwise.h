// SPDX-License-Identifier: Apache-2.0
// The host's half of ops on every element of one tensor, or of two that broadcast (code/map.h).
#ifndef TENON_DEVICES_GPU_KERNELS_ELEMENTWISE_H_
#define TENON_DEVICES_GPU_KERNELS_ELEMENTWISE_H_

#include "code/elementwise.h"

#include "kernels/kernel.h"
#include "tenon/extras/walk/broadcast.h"

namespace tenon::gpu {

inline float AlphaOf(sdk::CreateContext& c) { return c.Has("alpha") ? c.Float("alpha") : 0.0f; }

// The dtype that the device code is named by.
using CodeType = uint32_t (*)(uint32_t dtype);
inline uint32_t SameType(uint32_t dtype) { return dtype; }

// The device code's name is the template's argument.
template <sdk::FixedString kCode, CodeType kType = SameType>
struct Unary {
  explicit Unary(sdk::CreateContext& c) : alpha(AlphaOf(c)) {}
  struct Plan {
    Plan(const Unary& kernel, Shapes& s)
        : count(sdk::Count(s.in(0))), alpha(kernel.alpha), code(s.Code(kCode.data, kType(s.dtype(0)))) {}
    void Launch(Launcher& on, char* const* at) const {
      on(code, Flat(count, 4), UnaryParams{at[0], at[1], count, alpha});
    }
    int64_t count;
    float alpha;
    Function code;
  };
  float alpha;
};

inline constexpr char kByZero[] = "Integer division by zero (element {0})";
inline constexpr char kNegativePower[] = "Integers to negative integer powers are not allowed (element {0} is {1})";

inline BinaryParams ParamsOf(const sdk::Broadcast<2>& shape, float alpha) {
  if (shape.rank > kMostOuterDims) {
    sdk::Fail(TENON_UNIMPLEMENTED, "GPUs broadcast over at most ", kMostOuterDims + 1,
              " alternations of dims; these have ", shape.rank + 1);
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

template <sdk::FixedString kCode, CodeType kType = SameType>
struct Binary {
  explicit Binary(sdk::CreateContext& c) : alpha(AlphaOf(c)) {}
  struct Plan {
    Plan(const Binary& kernel, Shapes& s) : Plan(sdk::Broadcast<2>({s.in(0), s.in(1)}, s.out(0)), kernel.alpha, s) {}
    Plan(const sdk::Broadcast<2>& shape, float alpha, Shapes& s)
        : params(ParamsOf(shape, alpha)), code(s.Code(kCode.data, kType(s.dtype(0)))) {
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

template <class Set>
constexpr auto& kT = sdk::Constraints<typename Set::template Constraint<"T">>::list;

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_KERNELS_ELEMENTWISE_H_
