// SPDX-License-Identifier: Apache-2.0
// Activations and their gradients. A NaN goes in and comes out.
#include <cmath>
#include <limits>

#include "kernels/elementwise.h"
#include "kernels/math.h"

namespace tenon::cpu {
namespace {

struct ReluOp {
  template <class T>
  T operator()(T x) const { return x < T(0) ? T(0) : x; }
};
struct Relu6Op {
  template <class T>
  T operator()(T x) const { return x < T(0) ? T(0) : x > T(6) ? T(6) : x; }
};
struct EluOp {
  static constexpr bool kBlocked = true;
  template <class T>
  T operator()(T x) const {
    const T below = math::Expm1(x < T(0) ? x : T(0));
    return x < T(0) ? below : x;
  }
};
struct SoftplusOp {
  static constexpr bool kBlocked = true;
  template <class T>
  T operator()(T x) const {
    // TensorFlow's threshold: beyond it the answer is x, or exp(x), to the last bit.
    const T threshold = std::is_same_v<T, float> ? T(-13.942385) : T(-34.043653389117715);
    const T small = math::Exp(x);
    const T middle = math::Log1p(small);
    return x > -threshold ? x : x < threshold ? small : middle;
  }
};
struct LeakyReluOp {
  explicit LeakyReluOp(sdk::CreateContext& c) : alpha(c.Float("alpha")) {}
  template <class T>
  T operator()(T x) const { return x > T(0) ? x : static_cast<T>(alpha) * x; }
  float alpha;
};

// (gradients, features or outputs).
struct ReluGradOp {
  template <class T>
  T operator()(T dy, T y) const { return y > T(0) ? dy : T(0); }
};
struct Relu6GradOp {
  template <class T>
  T operator()(T dy, T y) const { return (y > T(0)) & (y < T(6)) ? dy : T(0); }
};
struct EluGradOp {
  template <class T>
  T operator()(T dy, T y) const { return y < T(0) ? dy * (y + T(1)) : dy; }
};
struct SoftplusGradOp {
  static constexpr bool kBlocked = true;
  template <class T>
  T operator()(T dy, T x) const { return dy / (math::Exp(-x) + T(1)); }
};
struct LeakyReluGradOp {
  explicit LeakyReluGradOp(sdk::CreateContext& c) : alpha(c.Float("alpha")) {}
  template <class T>
  T operator()(T dy, T x) const { return x > T(0) ? dy : static_cast<T>(alpha) * dy; }
  float alpha;
};

}  // namespace

TENON_CPU_KERNEL(Relu) = CpuUnary<ReluOp, Numbers>("Relu");
TENON_CPU_KERNEL(Relu6) = CpuUnary<Relu6Op, Numbers>("Relu6");
TENON_CPU_KERNEL(Elu) = CpuUnary<EluOp, Reals>("Elu");
TENON_CPU_KERNEL(Softplus) = CpuUnary<SoftplusOp, Reals>("Softplus");
TENON_CPU_KERNEL(LeakyRelu) = CpuUnary<LeakyReluOp, Reals>("LeakyRelu");
TENON_CPU_KERNEL(ReluGrad) = CpuBinary<ReluGradOp, Numbers>("ReluGrad");
TENON_CPU_KERNEL(Relu6Grad) = CpuBinary<Relu6GradOp, Numbers>("Relu6Grad");
TENON_CPU_KERNEL(EluGrad) = CpuBinary<EluGradOp, Reals>("EluGrad");
TENON_CPU_KERNEL(SoftplusGrad) = CpuBinary<SoftplusGradOp, Reals>("SoftplusGrad");
TENON_CPU_KERNEL(LeakyReluGrad) = CpuBinary<LeakyReluGradOp, Reals>("LeakyReluGrad");

}  // namespace tenon::cpu
