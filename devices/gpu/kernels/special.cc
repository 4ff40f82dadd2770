// SPDX-License-Identifier: Apache-2.0
// Special functions.
#include "code/special.h"

#include "kernels/elementwise.h"

namespace tenon::gpu {
namespace {

// (a, b, x): scalars, or of one shape.
struct Betainc {
  struct Plan {
    Plan(const Betainc&, Shapes& s) : code(s.Code("Betainc", s.dtype(0))) {
      const sdk::Dims out = s.out(0);
      params.count = sdk::Count(out);
      for (int i = 0; i < 3; ++i) {
        const sdk::Dims dims = s.in(i);
        if (!dims.empty() && !std::equal(dims.begin(), dims.end(), out.begin(), out.end())) {
          sdk::Fail(TENON_INVALID_ARGUMENT, "input ", i, " of shape ", dims,
                    " is no scalar, and does not have the shape ", out);
        }
        params.steps[i] = dims.empty() ? 0 : 1;
      }
    }
    void Launch(Launcher& on, char* const* at) const {
      TernaryParams p = params;
      std::copy_n(at, 3, p.x);
      p.out = at[3];
      on(code, Flat(p.count), p);
    }
    TernaryParams params = {};
    Function code;
  };
};

using Wide = Types<float, double>;

}  // namespace

#define TENON_GPU_ONE(Name) \
  TENON_GPU_KERNEL(Name) = Kernel<Unary<#Name>>(#Name, {.constraints = kT<Floats>, .in_place = sdk::kInPlaceFirst});
#define TENON_GPU_TWO(Name) \
  TENON_GPU_KERNEL(Name) = Kernel<Binary<#Name>>(#Name, {.constraints = kT<Floats>, .in_place = sdk::kInPlaceEither});
#define TENON_GPU_TWO_WIDE(Name) \
  TENON_GPU_KERNEL(Name) = Kernel<Binary<#Name>>(#Name, {.constraints = kT<Wide>, .in_place = sdk::kInPlaceEither});
TENON_GPU_SPECIAL_OF_ONE(TENON_GPU_ONE)
TENON_GPU_SPECIAL_OF_TWO(TENON_GPU_TWO)
TENON_GPU_SPECIAL_OF_TWO_WIDE(TENON_GPU_TWO_WIDE)
TENON_GPU_KERNEL(Betainc) = Kernel<Betainc>("Betainc", {.constraints = kT<Wide>});

}  // namespace tenon::gpu
