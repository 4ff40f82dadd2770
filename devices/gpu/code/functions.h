// SPDX-License-Identifier: Apache-2.0
// Element-wise functions that every device rounds in its own way: what tenon/extras/kernel/elementwise.h leaves to
// devices. By the standard library's names, which the vendors' compilers map to their own.
#ifndef TENON_DEVICES_GPU_CODE_FUNCTIONS_H_
#define TENON_DEVICES_GPU_CODE_FUNCTIONS_H_

#include <cmath>

#include "tenon/extras/kernel/elementwise.h"

namespace tenon::gpu {

#define TENON_GPU_MATH(Name, expression)     \
  struct Name##Op {                          \
    template <class T>                       \
    constexpr T operator()(T x) const {      \
      return expression;                     \
    }                                        \
  };
TENON_GPU_MATH(Exp, std::exp(x))
TENON_GPU_MATH(Expm1, std::expm1(x))
TENON_GPU_MATH(Log, std::log(x))
TENON_GPU_MATH(Log1p, std::log1p(x))
TENON_GPU_MATH(Sin, std::sin(x))
TENON_GPU_MATH(Cos, std::cos(x))
TENON_GPU_MATH(Tanh, std::tanh(x))
TENON_GPU_MATH(Erf, std::erf(x))
TENON_GPU_MATH(Erfc, std::erfc(x))
TENON_GPU_MATH(Sigmoid, T(1) / (T(1) + std::exp(-x)))
TENON_GPU_MATH(Elu, x < T(0) ? std::expm1(x) : x)
TENON_GPU_MATH(Tan, std::tan(x))
TENON_GPU_MATH(Asin, std::asin(x))
TENON_GPU_MATH(Acos, std::acos(x))
TENON_GPU_MATH(Atan, std::atan(x))
TENON_GPU_MATH(Sinh, std::sinh(x))
TENON_GPU_MATH(Cosh, std::cosh(x))
TENON_GPU_MATH(Asinh, std::asinh(x))
TENON_GPU_MATH(Acosh, std::acosh(x))
TENON_GPU_MATH(Atanh, std::atanh(x))
TENON_GPU_MATH(Softsign, x / (T(1) + std::fabs(x)))
#undef TENON_GPU_MATH

inline constexpr double kSeluScale = 1.0507009873554804934193349852946,
                        kSeluScaleAlpha = 1.7580993408473768599402175208123;
struct SeluOp {
  template <class T>
  constexpr T operator()(T x) const { return x < T(0) ? T(kSeluScaleAlpha) * std::expm1(x) : T(kSeluScale) * x; }
};
// Of the result.
struct SeluGradOp {
  template <class T>
  constexpr T operator()(T dy, T y) const { return y < T(0) ? dy * (y + T(kSeluScaleAlpha)) : dy * T(kSeluScale); }
};
struct SoftsignGradOp {
  template <class T>
  constexpr T operator()(T dy, T x) const { return dy / ((T(1) + std::fabs(x)) * (T(1) + std::fabs(x))); }
};
struct Atan2Op {
  template <class T>
  constexpr T operator()(T y, T x) const { return std::atan2(y, x); }
};
struct Xlog1pyOp {
  template <class T>
  constexpr T operator()(T x, T y) const { return x == T(0) ? T(0) : x * std::log1p(y); }
};
// What TruncateDiv leaves over, of x's sign.
struct TruncateModOp : sdk::ByZero {
  template <class T>
  constexpr T operator()(T x, T y) const {
    if constexpr (std::is_integral_v<T>) {
      return y == T(-1) ? T(0) : static_cast<T>(x % y);
    } else {
      return std::fmod(x, y);
    }
  }
};

// TensorFlow's threshold: beyond it the answer is x, or exp(x), to the last bit.
struct SoftplusOp {
  template <class T>
  constexpr T operator()(T x) const {
    const T threshold = sizeof(T) == 4 ? T(-13.942385) : T(-34.043653389117715);
    const T small = std::exp(x);
    return x > -threshold ? x : x < threshold ? small : std::log1p(small);
  }
};
struct SoftplusGradOp {
  template <class T>
  constexpr T operator()(T dy, T x) const { return dy / (std::exp(-x) + T(1)); }
};
struct FloatingPowOp {
  template <class T>
  constexpr T operator()(T x, T y) const { return std::pow(x, y); }
};
using PowOp = sdk::AnyPowOp<FloatingPowOp>;

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_FUNCTIONS_H_
