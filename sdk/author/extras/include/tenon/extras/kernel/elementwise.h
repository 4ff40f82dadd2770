// SPDX-License-Identifier: Apache-2.0
// What element-wise ops mean: function objects, of numbers of any type. Halves are computed as float by their caller.
//
// What differs between devices is not here: functions whose vector variants round in ways of their own (exp, tanh,
// ...). An op whose operands may have no answer has Invalid(y) and kInvalidText, to be asked before.
// Everything is constexpr, which lets compilers of accelerators' code call it too (nvcc: --expt-relaxed-constexpr).
#ifndef TENON_SDK_KERNEL_ELEMENTWISE_H_
#define TENON_SDK_KERNEL_ELEMENTWISE_H_

#include <cmath>
#include <complex>
#include <cstdint>
#include <type_traits>

#include "tenon/sdk/kernel/half.h"

namespace tenon::sdk {

// The number itself where it is not complex.
template <class T>
constexpr T Conjugate(T x) {
  if constexpr (kIsComplex<T>) {
    return conj(x);
  } else {
    return x;
  }
}

// ---- Of one tensor ----

template <class T>
constexpr T Negated(T x) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(0u - static_cast<std::make_unsigned_t<T>>(x));
  } else {
    return -x;
  }
}

// Integers wrap: -INT_MIN is INT_MIN, and so is its absolute value.
struct NegOp {
  template <class T>
  constexpr T operator()(T x) const { return Negated(x); }
};
struct AbsOp {
  template <class T>
  constexpr T operator()(T x) const {
    if constexpr (std::is_integral_v<T>) {
      return x < 0 ? Negated(x) : x;
    } else {
      return std::fabs(x);
    }
  }
};
// Of complex numbers the direction, x / |x|.
struct SignOp {
  template <class T>
  constexpr T operator()(T x) const {
    if constexpr (kIsComplex<T>) {
      return x == T(0) ? T(0) : x / std::abs(x);
    } else {
      return x > 0 ? T(1) : x < 0 ? T(-1) : x == 0 ? T(0) : x;  // 0 for -0, NaN for NaN
    }
  }
};
struct SquareOp {
  template <class T>
  constexpr T operator()(T x) const {
    if constexpr (std::is_integral_v<T>) {
      using Unsigned = std::conditional_t<(sizeof(T) < 4), uint32_t, std::make_unsigned_t<T>>;
      return static_cast<T>(static_cast<Unsigned>(x) * static_cast<Unsigned>(x));
    } else {
      return x * x;
    }
  }
};
struct ReciprocalOp {
  template <class T>
  constexpr T operator()(T x) const { return T(1) / x; }
};
struct SqrtOp {
  template <class T>
  constexpr T operator()(T x) const { return std::sqrt(x); }
};
struct RsqrtOp {
  template <class T>
  constexpr T operator()(T x) const { return T(1) / std::sqrt(x); }
};
struct FloorOp {
  template <class T>
  constexpr T operator()(T x) const { return std::floor(x); }
};
struct CeilOp {
  template <class T>
  constexpr T operator()(T x) const { return std::ceil(x); }
};
// Half to even: the default rounding mode.
struct RoundOp {
  template <class T>
  constexpr T operator()(T x) const {
    if constexpr (std::is_integral_v<T>) {
      return x;
    } else {
      return std::nearbyint(x);
    }
  }
};

// Activations. A NaN goes in and comes out.
struct ReluOp {
  template <class T>
  constexpr T operator()(T x) const { return x <= T(0) ? T(0) : x; }  // 0 for -0
};
// min(max(x, 0), 6).
struct Relu6Op {
  template <class T>
  constexpr T operator()(T x) const { return x < T(0) ? T(0) : x > T(6) ? T(6) : x; }
};
// x, or alpha * x where x is not positive. alpha: the node's attribute.
struct LeakyReluOp {
  template <class Context>
  explicit LeakyReluOp(Context& c) requires requires { c.Float("alpha"); } : alpha(c.Float("alpha")) {}
  constexpr explicit LeakyReluOp(float alpha) : alpha(alpha) {}
  template <class T>
  constexpr T operator()(T x) const { return x > T(0) ? x : static_cast<T>(alpha) * x; }
  float alpha;
};

// ---- Of two tensors ----

// Integer arithmetic wraps, as TensorFlow's does; signed overflow is undefined in C++, so it is done unsigned. Types
// narrower than int are promoted and need nothing.
template <class T, class Function>
constexpr T Wrapping(T x, T y, Function function) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    using Wider = std::conditional_t<(sizeof(T) < 4), uint32_t, Unsigned>;
    return static_cast<T>(function(static_cast<Wider>(x), static_cast<Wider>(y)));
  } else {
    return function(x, y);
  }
}

struct AddOp {
  template <class T>
  constexpr T operator()(T x, T y) const {
    return Wrapping(x, y, [](auto a, auto b) { return a + b; });
  }
};
struct SubOp {
  template <class T>
  constexpr T operator()(T x, T y) const {
    return Wrapping(x, y, [](auto a, auto b) { return a - b; });
  }
};
struct MulOp {
  template <class T>
  constexpr T operator()(T x, T y) const {
    return Wrapping(x, y, [](auto a, auto b) { return a * b; });
  }
};
// (x - y)^2; of complex numbers conj(x - y) * (x - y).
struct SquaredDifferenceOp {
  template <class T>
  constexpr T operator()(T x, T y) const {
    if constexpr (kIsComplex<T>) return Conjugate(x - y) * (x - y);
    return Wrapping(x, y, [](auto a, auto b) { return (a - b) * (a - b); });
  }
};
// A NaN on either side comes out.
struct MaximumOp {
  template <class T>
  constexpr T operator()(T x, T y) const {
    if constexpr (std::is_floating_point_v<T>) {
      const T larger = x > y ? x : y;  // y when x is NaN
      return x != x ? x : larger;
    } else {
      return x > y ? x : y;
    }
  }
};
struct MinimumOp {
  template <class T>
  constexpr T operator()(T x, T y) const {
    if constexpr (std::is_floating_point_v<T>) {
      const T smaller = x < y ? x : y;
      return x != x ? x : smaller;
    } else {
      return x < y ? x : y;
    }
  }
};

struct ByZero {
  static constexpr char kInvalidText[] = "Integer division by zero";
  template <class T>
  static constexpr bool Invalid(T y) {
    return y == 0;
  }
};
// Truncates; INT_MIN / -1 wraps.
template <class T>
constexpr T TruncatedQuotient(T x, T y) {
  if constexpr (std::is_signed_v<T>) {
    if (y == -1) return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(x));
  }
  return static_cast<T>(x / y);
}
// Div and RealDiv: of integers as C divides.
struct DivOp : ByZero {
  template <class T>
  constexpr T operator()(T x, T y) const {
    if constexpr (std::is_integral_v<T>) {
      return TruncatedQuotient(x, y);
    } else {
      return x / y;
    }
  }
};
// Toward zero.
struct TruncateDivOp : ByZero {
  template <class T>
  constexpr T operator()(T x, T y) const {
    if constexpr (std::is_integral_v<T>) {
      return TruncatedQuotient(x, y);
    } else {
      return std::trunc(x / y);
    }
  }
};
// floor(x / y): toward minus infinity.
struct FloorDivOp : ByZero {
  template <class T>
  constexpr T operator()(T x, T y) const {
    if constexpr (std::is_integral_v<T>) {
      const T quotient = TruncatedQuotient(x, y);
      if constexpr (std::is_signed_v<T>) {
        return y != -1 && x % y != 0 && ((x < 0) != (y < 0)) ? static_cast<T>(quotient - 1) : quotient;
      } else {
        return quotient;
      }
    } else {
      return std::floor(x / y);
    }
  }
};
// x - floor(x / y) * y: of y's sign.
struct FloorModOp : ByZero {
  template <class T>
  constexpr T operator()(T x, T y) const {
    if constexpr (std::is_integral_v<T>) {
      if constexpr (std::is_signed_v<T>) {
        if (y == -1) return 0;
        const T rest = static_cast<T>(x % y);
        return rest != 0 && ((rest < 0) != (y < 0)) ? static_cast<T>(rest + y) : rest;
      } else {
        return static_cast<T>(x % y);
      }
    } else {
      const T rest = std::fmod(x, y);
      return rest != 0 && ((rest < 0) != (y < 0)) ? rest + y : rest;
    }
  }
};
// 0 where y is 0, whatever x is: NaN and infinity too.
struct DivNoNanOp {
  template <class T>
  constexpr T operator()(T x, T y) const {
    return y == T(0) ? T(0) : x / y;
  }
};
struct MulNoNanOp {
  template <class T>
  constexpr T operator()(T x, T y) const {
    return y == T(0) ? T(0) : x * y;
  }
};
// 0 where x is 0, whatever y is.
struct XdivyOp {
  template <class T>
  constexpr T operator()(T x, T y) const {
    return x == T(0) ? T(0) : x / y;
  }
};
// x log y, and 0 where x is 0, whatever y is.
struct XlogyOp {
  static constexpr double kCost = 4;
  template <class T>
  constexpr T operator()(T x, T y) const {
    return x == T(0) ? T(0) : x * std::log(y);
  }
};
// x^y by squaring; wraps as products do.
struct IntegerPowOp {
  static constexpr double kCost = 4;
  static constexpr char kInvalidText[] = "Integers to negative integer powers are not allowed";
  template <class T>
  static constexpr bool Invalid(T y) {
    return y < 0;
  }
  template <class T>
  constexpr T operator()(T x, T y) const {
    using Wider = std::make_unsigned_t<std::conditional_t<(sizeof(T) < 4), int32_t, T>>;
    Wider base = static_cast<Wider>(x);
    Wider result = 1;
    for (Wider n = static_cast<Wider>(y); n != 0; n >>= 1) {
      if ((n & 1) != 0) result *= base;
      base *= base;
    }
    return static_cast<T>(result);
  }
};
// One op name, two op objects by kind of number; that of floating ones is the device's.
template <class FloatingPow>
struct AnyPowOp : FloatingPow {
  static constexpr const char* kInvalidText = IntegerPowOp::kInvalidText;
  template <class T>
  static constexpr bool Invalid(T y) {
    return IntegerPowOp::Invalid(y);
  }
  template <class T>
  constexpr T operator()(T x, T y) const {
    if constexpr (std::is_integral_v<T>) {
      return IntegerPowOp()(x, y);
    } else {
      return FloatingPow::operator()(x, y);
    }
  }
};

// Gradients: (y, dy) with y the function's result. Of a complex y the conjugate counts, which the gradients that use
// TanhGrad and SigmoidGrad have made before. A gradient that is 0 stays 0 also where y is 0 or infinite.
// dy (1 - y^2).
struct TanhGradOp {
  template <class T>
  constexpr T operator()(T y, T dy) const { return dy * (T(1) - y * y); }
};
// dy y (1 - y).
struct SigmoidGradOp {
  template <class T>
  constexpr T operator()(T y, T dy) const { return dy * y * (T(1) - y); }
};
struct SqrtGradOp {
  template <class T>
  constexpr T operator()(T y, T dy) const {
    const T dx = T(0.5) * dy / Conjugate(y);
    return dy == T(0) ? T(0) : dx;
  }
};
struct RsqrtGradOp {
  template <class T>
  constexpr T operator()(T y, T dy) const {
    const T dx = T(-0.5) * dy * Conjugate(y) * (Conjugate(y) * Conjugate(y));
    return dy == T(0) ? T(0) : dx;
  }
};
struct ReciprocalGradOp {
  template <class T>
  constexpr T operator()(T y, T dy) const {
    const T dx = -Conjugate(y) * Conjugate(y) * dy;
    return dy == T(0) ? T(0) : dx;
  }
};

// (gradients, features or outputs). Nothing passes is a product with 0: of -1 it is -0, of infinity NaN.
struct ReluGradOp {
  template <class T>
  constexpr T operator()(T dy, T y) const { return dy * (y > T(0) ? T(1) : T(0)); }
};
struct Relu6GradOp {
  template <class T>
  constexpr T operator()(T dy, T y) const { return dy * (((y > T(0)) & (y < T(6))) ? T(1) : T(0)); }
};
// dy (y + 1) where y, the result, is negative: there it is exp(x) - 1.
struct EluGradOp {
  template <class T>
  constexpr T operator()(T dy, T y) const { return y < T(0) ? dy * (y + T(1)) : dy; }
};
// (dy, x): of what went in, as the slope alpha may be of any sign.
struct LeakyReluGradOp {
  template <class Context>
  explicit LeakyReluGradOp(Context& c) requires requires { c.Float("alpha"); } : alpha(c.Float("alpha")) {}
  constexpr explicit LeakyReluGradOp(float alpha) : alpha(alpha) {}
  template <class T>
  constexpr T operator()(T dy, T x) const { return x > T(0) ? dy : static_cast<T>(alpha) * dy; }
  float alpha;
};

// ---- Questions ----

struct EqualOp {
  template <class T>
  constexpr bool operator()(T x, T y) const { return x == y; }
};
struct NotEqualOp {
  template <class T>
  constexpr bool operator()(T x, T y) const { return x != y; }
};
struct LessOp {
  template <class T>
  constexpr bool operator()(T x, T y) const { return x < y; }
};
struct LessEqualOp {
  template <class T>
  constexpr bool operator()(T x, T y) const { return x <= y; }
};
struct GreaterOp {
  template <class T>
  constexpr bool operator()(T x, T y) const { return x > y; }
};
struct GreaterEqualOp {
  template <class T>
  constexpr bool operator()(T x, T y) const { return x >= y; }
};
struct AndOp {
  constexpr bool operator()(bool x, bool y) const { return x & y; }
};
struct OrOp {
  constexpr bool operator()(bool x, bool y) const { return x | y; }
};
struct NotOp {
  constexpr bool operator()(bool x) const { return !x; }
};
struct IsNanOp {
  template <class T>
  constexpr bool operator()(T x) const { return x != x; }
};
struct IsInfOp {
  template <class T>
  constexpr bool operator()(T x) const { return x == x && x - x != T(0); }
};
struct IsFiniteOp {
  template <class T>
  constexpr bool operator()(T x) const { return x - x == T(0); }
};

}  // namespace tenon::sdk

#endif  // TENON_SDK_KERNEL_ELEMENTWISE_H_
