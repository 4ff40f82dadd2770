// SPDX-License-Identifier: Apache-2.0
// Transcendental functions that the compiler vectorises: glibc's libmvec where there is one, else the plain ones. The
// exponential of floats is its own, three times as fast as a call.
//
// The vector variants round differently from the scalar ones (up to 4 ulp). Loops over them run in whole blocks
// (elementwise.h), so that the result does not depend on how a range was shared among threads.
#ifndef TENON_DEVICES_CPU_KERNELS_COMMON_MATH_H_
#define TENON_DEVICES_CPU_KERNELS_COMMON_MATH_H_

#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
    (__GLIBC__ > 2 || (__GLIBC__ == 2 && __GLIBC_MINOR__ >= 35))
#define TENON_CPU_SIMD __attribute__((simd("notinbranch"), const))
#else
#define TENON_CPU_SIMD
#endif

// The library's own functions under their own names, declared again with the attribute that names their vector
// variants.
extern "C" {
#define TENON_CPU_DECLARE(name)                            \
  TENON_CPU_SIMD double name(double) noexcept(true); \
  TENON_CPU_SIMD float name##f(float) noexcept(true);
TENON_CPU_DECLARE(exp)
TENON_CPU_DECLARE(expm1)
TENON_CPU_DECLARE(log)
TENON_CPU_DECLARE(log1p)
TENON_CPU_DECLARE(sin)
TENON_CPU_DECLARE(cos)
TENON_CPU_DECLARE(tanh)
TENON_CPU_DECLARE(erf)
TENON_CPU_DECLARE(erfc)
TENON_CPU_DECLARE(tan)
TENON_CPU_DECLARE(asin)
TENON_CPU_DECLARE(acos)
TENON_CPU_DECLARE(atan)
TENON_CPU_DECLARE(sinh)
TENON_CPU_DECLARE(cosh)
TENON_CPU_DECLARE(asinh)
TENON_CPU_DECLARE(acosh)
TENON_CPU_DECLARE(atanh)
#undef TENON_CPU_DECLARE
TENON_CPU_SIMD double pow(double, double) noexcept(true);
TENON_CPU_SIMD float powf(float, float) noexcept(true);
TENON_CPU_SIMD double atan2(double, double) noexcept(true);
TENON_CPU_SIMD float atan2f(float, float) noexcept(true);
}

namespace tenon::cpu::math {

#define TENON_CPU_DEFINE(Name, name)                \
  inline float Name(float x) { return name##f(x); } \
  inline double Name(double x) { return name(x); }
TENON_CPU_DEFINE(Expm1, ::expm1)
TENON_CPU_DEFINE(Log, ::log)
TENON_CPU_DEFINE(Log1p, ::log1p)
TENON_CPU_DEFINE(Sin, ::sin)
TENON_CPU_DEFINE(Cos, ::cos)
TENON_CPU_DEFINE(Tanh, ::tanh)
TENON_CPU_DEFINE(Erf, ::erf)
TENON_CPU_DEFINE(Erfc, ::erfc)
TENON_CPU_DEFINE(Tan, ::tan)
TENON_CPU_DEFINE(Asin, ::asin)
TENON_CPU_DEFINE(Acos, ::acos)
TENON_CPU_DEFINE(Atan, ::atan)
TENON_CPU_DEFINE(Sinh, ::sinh)
TENON_CPU_DEFINE(Cosh, ::cosh)
TENON_CPU_DEFINE(Asinh, ::asinh)
TENON_CPU_DEFINE(Acosh, ::acosh)
TENON_CPU_DEFINE(Atanh, ::atanh)
#undef TENON_CPU_DEFINE
inline double Exp(double x) { return ::exp(x); }

// e^x within 1 ulp, without a call: 2^n e^r with n whole and r at most half of ln 2, e^r as 1 + r + r^2 q(r). q has the
// least relative error of its degree, 4e-9. 2^n is two factors: n goes beyond the exponents of a float on both sides.
inline float Exp(float x) {
  constexpr float kRound = 0x1.8p23f;  // what is added to it keeps its whole part in the low bits
  x = x < -105.0f ? -105.0f : x;       // a NaN stays
  x = x > 90.0f ? 90.0f : x;
  const float shifted = x * 1.44269504f + kRound;
  const float whole = shifted - kRound;
  const float r =
      x - whole * 0x1.63p-1f - whole * -2.12194440e-4f;  // ln 2 in two parts, products with the first are exact
  const float q = (((0.0013814318f * r + 0.0083688516f) * r + 0.0416684002f) * r + 0.1666651964f) * r + 0.49999994f;
  const int32_t n = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kRound);
  const int32_t half = n >> 1;
  const auto power = [](int32_t exponent) { return std::bit_cast<float>((exponent + 127) << 23); };
  return (r * r * q + r + 1.0f) * power(half) * power(n - half);
}
inline float Pow(float x, float y) { return ::powf(x, y); }
inline double Pow(double x, double y) { return ::pow(x, y); }
inline float Atan2(float y, float x) { return ::atan2f(y, x); }
inline double Atan2(double y, double x) { return ::atan2(y, x); }

// Complex numbers go one by one.
#define TENON_CPU_COMPLEX(Name, name)                                                   \
  template <class T>                                                                    \
  std::complex<T> Name(std::complex<T> x) {                                             \
    return name(x);                                                                     \
  }
TENON_CPU_COMPLEX(Exp, std::exp)
TENON_CPU_COMPLEX(Log, std::log)
TENON_CPU_COMPLEX(Sin, std::sin)
TENON_CPU_COMPLEX(Cos, std::cos)
TENON_CPU_COMPLEX(Tanh, std::tanh)
TENON_CPU_COMPLEX(Tan, std::tan)
TENON_CPU_COMPLEX(Asin, std::asin)
TENON_CPU_COMPLEX(Acos, std::acos)
TENON_CPU_COMPLEX(Atan, std::atan)
TENON_CPU_COMPLEX(Sinh, std::sinh)
TENON_CPU_COMPLEX(Cosh, std::cosh)
TENON_CPU_COMPLEX(Asinh, std::asinh)
TENON_CPU_COMPLEX(Acosh, std::acosh)
TENON_CPU_COMPLEX(Atanh, std::atanh)
#undef TENON_CPU_COMPLEX
// exp(a)(cos b + i sin b) - 1, where cos b - 1 is -2 sin^2(b / 2).
template <class T>
std::complex<T> Expm1(std::complex<T> x) {
  const T less = std::expm1(x.real()), half = std::sin(x.imag() / 2);
  return {less - 2 * (less + 1) * half * half, (less + 1) * std::sin(x.imag())};
}
// |1 + x|^2 is 1 + a(2 + a) + b^2, which cancels where it is small.
template <class T>
std::complex<T> Log1p(std::complex<T> x) {
  const T a = x.real(), b = x.imag(), less = a * (2 + a) + b * b;
  return {less < T(-0.5) ? std::log(std::hypot(1 + a, b)) : std::log1p(less) / 2, std::atan2(b, 1 + a)};
}
template <class T>
std::complex<T> Pow(std::complex<T> x, std::complex<T> y) {
  return std::pow(x, y);
}

template <class T>
inline T Sigmoid(T x) {
  return T(1) / (T(1) + Exp(-x));
}

}  // namespace tenon::cpu::math

#endif  // TENON_DEVICES_CPU_KERNELS_COMMON_MATH_H_
