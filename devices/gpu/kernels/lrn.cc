// SPDX-License-Identifier: Apache-2.0
// LRN and LRNGrad.
#include "code/lrn.h"

#include <algorithm>

#include "kernels/kernel.h"

namespace tenon::gpu {
namespace {

struct Lrn {
  explicit Lrn(sdk::CreateContext& c) {
    params.radius = c.Int("depth_radius");
    params.bias = c.Float("bias");
    params.alpha = c.Float("alpha");
    params.beta = c.Float("beta");
    if (params.radius < 0 || params.radius > INT32_MAX) c.Invalid("depth_radius is ", params.radius);
  }
  LrnParams Of(sdk::Dims dims) const {
    if (dims.size() != 4) sdk::Fail(TENON_INVALID_ARGUMENT, "images need 4 dims; the shape is ", dims);
    LrnParams p = params;
    p.total = sdk::Count(dims);
    p.channels = dims[3];
    return p;
  }
  LrnParams params = {};
};

struct LrnForward : Lrn {
  using Lrn::Lrn;
  struct Plan {
    Plan(const LrnForward& kernel, Shapes& s) : params(kernel.Of(s.in(0))), code(s.Code("LRN", s.dtype(0))) {}
    void Launch(Launcher& on, char* const* at) const {
      LrnParams p = params;
      p.x = at[0];
      p.to = at[1];
      on(code, Flat(p.total), p);
    }
    LrnParams params;
    Function code;
  };
};

// (input_grads, input_image, output_image).
struct LrnBackward : Lrn {
  using Lrn::Lrn;
  struct Plan {
    Plan(const LrnBackward& kernel, Shapes& s)
        : params(kernel.Of(s.out(0))), slopes(s.Workspace(sdk::Multiply(params.total, sizeof(float)))),
          find(s.Code("LRNSlopes", s.dtype(0))), sum(s.Code("LRNGrad", s.dtype(0))) {
      for (int32_t i = 0; i < 3; ++i) {
        if (!std::ranges::equal(s.in(i), s.out(0)))
          sdk::Fail(TENON_INVALID_ARGUMENT, "input ", i, " has the shape ", s.in(i), ", the output ", s.out(0));
      }
    }
    void Launch(Launcher& on, char* const* at) const {
      LrnParams p = params;
      p.dy = at[0];
      p.x = at[1];
      p.y = at[2];
      p.to = at[3];
      p.slopes = on.Workspace<float>(slopes);
      on(find, Flat(p.total), p);
      on(sum, Flat(p.total), p);
    }
    LrnParams params;
    int64_t slopes;
    Function find, sum;
  };
};

using LrnTypes = Types<float, sdk::Half>;
constexpr sdk::Traits kTraits = {.constraints = sdk::Constraints<LrnTypes::Constraint<"T">>::list};

}  // namespace

TENON_GPU_KERNEL(LRN) = Kernel<LrnForward>("LRN", kTraits);
TENON_GPU_KERNEL(LRNGrad) = Kernel<LrnBackward>("LRNGrad", kTraits);

}  // namespace tenon::gpu
