// SPDX-License-Identifier: Apache-2.0
// MaxPool, AvgPool and their gradients, NHWC and NCHW (the geometry: tenon/extras/walk/pool.h).
#include "tenon/extras/walk/pool.h"

#include "code/pool.h"
#include "kernels/kernel.h"

namespace tenon::gpu {
namespace {

using sdk::Dims;

// What kernels compute places of a window in has 32 bits.
PoolDim DimOf(const sdk::WindowDim& w) {
  constexpr int64_t kMost = INT64_C(1) << 30;
  if (w.input > kMost || w.size > kMost)
    sdk::Fail(TENON_UNIMPLEMENTED, "GPUs pool images and windows of at most ", kMost, " rows or columns");
  const auto narrow = [](int64_t value) { return static_cast<int32_t>(value); };
  return {narrow(w.input), narrow(w.output), narrow(w.size), narrow(w.stride), narrow(w.before)};
}
struct PoolOf : sdk::PoolPlan {
  PoolOf(const sdk::WindowAttributes& attributes, Dims image, Dims result) : PoolPlan(attributes, image, result) {
    params.lanes = lanes();
    params.y = DimOf(y);
    params.x = DimOf(x);
  }
  // (orig_input, orig_output, grad) and the result.
  PoolParams OfMaxima(char* const* at) const {
    PoolParams p = params;
    p.in = at[0];
    p.out = at[1];
    p.d = at[2];
    p.to = at[3];
    return p;
  }
  PoolParams params = {};
};
struct Pooling {
  explicit Pooling(sdk::CreateContext& c) : attributes(c, "ksize") {}
  sdk::WindowAttributes attributes;
};

template <sdk::FixedString kCode>
struct Pool : Pooling {
  using Pooling::Pooling;
  struct Plan : PoolOf {
    Plan(const Pool& kernel, Shapes& s)
        : PoolOf(kernel.attributes, s.in(0), s.out(0)), code(s.Code(kCode.data, s.dtype(0))) {}
    void Launch(Launcher& on, char* const* at) const {
      PoolParams p = params;
      p.in = at[0];
      p.to = at[1];
      p.count = out.count();
      on(code, Flat(p.count), p);
    }
    Function code;
  };
};

// (orig_input, orig_output, grad).
struct MaxPoolGrad : Pooling {
  using Pooling::Pooling;
  struct Plan : PoolOf {
    Plan(const MaxPoolGrad& kernel, Shapes& s)
        : PoolOf(kernel.attributes, s.in(0), s.in(1)),
          find(s.Code("MaxPoolPlaces", s.dtype(0))),
          gather(s.Code("MaxPoolGrad", s.dtype(0))) {
      if (sdk::Count(s.in(2)) != out.count() || sdk::Count(s.out(0)) != in.count()) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "a gradient of shape ", s.in(2), " for a result of shape ", s.in(1));
      }
      if (in.pixels() > INT32_MAX)
        sdk::Fail(TENON_UNIMPLEMENTED, "GPUs count the pixels of an image in 32 bits; it has ", in.pixels());
      places = s.Workspace(sdk::Multiply(out.count(), sizeof(int32_t)));
    }
    void Launch(Launcher& on, char* const* at) const {
      PoolParams p = OfMaxima(at);
      p.places = on.Workspace<int32_t>(places);
      p.count = out.count();
      on(find, Flat(p.count), p);
      p.count = in.count();
      on(gather, Flat(p.count), p);
    }
    Function find, gather;
    int64_t places;
  };
};

// (orig_input, orig_output, grad): what MaxPoolGrad moves from output to input is read the other way.
struct MaxPoolGradGrad : Pooling {
  using Pooling::Pooling;
  struct Plan : PoolOf {
    Plan(const MaxPoolGradGrad& kernel, Shapes& s)
        : PoolOf(kernel.attributes, s.in(0), s.in(1)), code(s.Code("MaxPoolGradGrad", s.dtype(0))) {
      if (sdk::Count(s.in(2)) != in.count() || sdk::Count(s.out(0)) != out.count()) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "a gradient of shape ", s.in(2), " for an input of shape ", s.in(0));
      }
    }
    void Launch(Launcher& on, char* const* at) const {
      PoolParams p = OfMaxima(at);
      p.count = out.count();
      on(code, Flat(p.count), p);
    }
    Function code;
  };
};

// (orig_input_shape, grad).
struct AvgPoolGrad : Pooling {
  static constexpr HostInput kHostInputs[] = {{TENON_SPAN("orig_input_shape"), 0}};
  using Pooling::Pooling;
  struct Plan : PoolOf {
    Plan(const AvgPoolGrad& kernel, Shapes& s)
        : PoolOf(kernel.attributes, s.out(0), s.in(1)), code(s.Code("AvgPoolGrad", s.dtype(1))) {}
    void Launch(Launcher& on, char* const* at) const {
      PoolParams p = params;
      p.d = at[1];
      p.to = at[2];
      p.count = in.count();
      on(code, Flat(p.count), p);
    }
    Function code;
  };
};

constexpr sdk::Traits kMax = {.constraints = sdk::Constraints<Numbers::Constraint<"T">>::list};
constexpr sdk::Traits kAverage = {.constraints = sdk::Constraints<Floats::Constraint<"T">>::list};

}  // namespace

TENON_GPU_KERNEL(MaxPool) = Kernel<Pool<"MaxPool">>("MaxPool", kMax);
TENON_GPU_KERNEL(AvgPool) = Kernel<Pool<"AvgPool">>("AvgPool", kAverage);
TENON_GPU_KERNEL(MaxPoolGrad) = Kernel<MaxPoolGrad>("MaxPoolGrad", kMax);
TENON_GPU_KERNEL(MaxPoolGradGrad) = Kernel<MaxPoolGradGrad>("MaxPoolGradGrad", kMax);
TENON_GPU_KERNEL(AvgPoolGrad) = Kernel<AvgPoolGrad>("AvgPoolGrad", kAverage);

}  // namespace tenon::gpu
