// SPDX-License-Identifier: Apache-2.0
// Activations and their gradients. A NaN goes in and comes out.
#include <cmath>
#include <limits>

#include "kernels/common/math.h"
#include "kernels/elementwise/elementwise.h"

namespace tenon::cpu {
namespace {

using sdk::EluGradOp;
using sdk::LeakyReluGradOp;
using sdk::LeakyReluOp;
using sdk::Relu6GradOp;
using sdk::Relu6Op;
using sdk::ReluGradOp;
using sdk::ReluOp;

struct EluOp {
  static constexpr bool kBlocked = true;
  template <class T>
  T operator()(T x) const {
    const T below = math::Expm1(x < T(0) ? x : T(0));
    return x < T(0) ? below : x;
  }
};
constexpr double kSeluScale = 1.0507009873554804934193349852946, kSeluScaleAlpha = 1.7580993408473768599402175208123;
struct SeluOp {
  static constexpr bool kBlocked = true;
  template <class T>
  T operator()(T x) const {
    const T below = T(kSeluScaleAlpha) * math::Expm1(x < T(0) ? x : T(0));
    return x < T(0) ? below : T(kSeluScale) * x;
  }
};
// Of the result.
struct SeluGradOp {
  template <class T>
  T operator()(T dy, T y) const { return y < T(0) ? dy * (y + T(kSeluScaleAlpha)) : dy * T(kSeluScale); }
};
struct SoftsignOp {
  template <class T>
  T operator()(T x) const { return x / (T(1) + std::fabs(x)); }
};
struct SoftsignGradOp {
  template <class T>
  T operator()(T dy, T x) const { return dy / ((T(1) + std::fabs(x)) * (T(1) + std::fabs(x))); }
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
struct SoftplusGradOp {
  static constexpr bool kBlocked = true;
  template <class T>
  T operator()(T dy, T x) const {
    const T slope = dy / (math::Exp(-x) + T(1));
    return x > T(105) ? dy : slope;  // there it divides by 1, which the compiler may leave out: of what is below the
                                     // smallest normal number it is not the same
  }
};
}  // namespace

TENON_CPU_KERNEL(Relu) = CpuUnary<ReluOp, Numbers>("Relu");
TENON_CPU_KERNEL(Relu6) = CpuUnary<Relu6Op, Numbers>("Relu6");
TENON_CPU_KERNEL(Elu) = CpuUnary<EluOp, Reals>("Elu");
TENON_CPU_KERNEL(Softplus) = CpuUnary<SoftplusOp, Reals>("Softplus");
TENON_CPU_KERNEL(Selu) = CpuUnary<SeluOp, Reals>("Selu");
TENON_CPU_KERNEL(SeluGrad) = CpuBinary<SeluGradOp, Reals>("SeluGrad");
TENON_CPU_KERNEL(Softsign) = CpuUnary<SoftsignOp, Reals>("Softsign");
TENON_CPU_KERNEL(SoftsignGrad) = CpuBinary<SoftsignGradOp, Reals>("SoftsignGrad");
TENON_CPU_KERNEL(LeakyRelu) = CpuUnary<LeakyReluOp, Reals>("LeakyRelu");
TENON_CPU_KERNEL(ReluGrad) = CpuBinary<ReluGradOp, Numbers>("ReluGrad");
TENON_CPU_KERNEL(Relu6Grad) = CpuBinary<Relu6GradOp, Numbers>("Relu6Grad");
TENON_CPU_KERNEL(EluGrad) = CpuBinary<EluGradOp, Reals>("EluGrad");
TENON_CPU_KERNEL(SoftplusGrad) = CpuBinary<SoftplusGradOp, Reals>("SoftplusGrad");
TENON_CPU_KERNEL(LeakyReluGrad) = CpuBinary<LeakyReluGradOp, Reals>("LeakyReluGrad");

}  // namespace tenon::cpu
