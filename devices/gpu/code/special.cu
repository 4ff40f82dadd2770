// SPDX-License-Identifier: Apache-2.0
// Functions of gamma, beta, zeta, the normal distribution and Bessel. All are computed in double, and rounded once: a
// second set for float would cost as much code again. Each is one function that its kernels call. Loops end whatever
// the operands.
#include "code/special.h"

#include "code/map.h"
#include "tenon/extras/kernel/integrals.h"

#if defined(__CUDACC__) || defined(__HIPCC__)
#define TENON_GPU_CALLED static __device__ __attribute__((noinline))
#else
#define TENON_GPU_CALLED static
#endif

namespace tenon::gpu {
namespace {

using sdk::integrals::kEnough;
using sdk::integrals::kInfinity;
using sdk::integrals::kNan;
constexpr double kPi = 3.14159265358979323846, kGamma = 0.57721566490153286061, kRootOfTwo = 1.41421356237309504880,
                 kTwoByRootOfPi = 1.12837916709551257390;
constexpr double kRounding = 1.1102230246251565e-16;
constexpr int kMostTerms = 2000;

// ---- Gamma ----

TENON_GPU_CALLED double Lgamma(double x) {
#if defined(__CUDACC__) || defined(__HIPCC__)
  return ::lgamma(x);
#else
  int sign = 0;  // lgamma has it in a variable of the whole process
  return ::lgamma_r(x, &sign);
#endif
}

TENON_GPU_CALLED double Digamma(double x) {
  double reflected = 0;
  if (x <= 0) {
    const double below = std::floor(x);
    if (below == x) return kNan;
    double away = x - below;  // to the nearest whole number
    if (away > 0.5) away -= 1;
    reflected = away == 0.5 ? 0 : kPi / std::tan(kPi * away);
    x = 1 - x;
  }
  double before = 0;
  for (; x < 10; x += 1) before += 1 / x;
  const double z = 1 / (x * x);
  const double series =
      z *
      (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z / 12))))));
  return std::log(x) - 0.5 / x - series - before - reflected;
}

// A number and its derivative.
struct Dual {
  double value, slope;
};
TENON_GPU_FUNCTION Dual operator+(Dual x, Dual y) { return {x.value + y.value, x.slope + y.slope}; }
TENON_GPU_FUNCTION Dual operator*(Dual x, Dual y) { return {x.value * y.value, x.value * y.slope + x.slope * y.value}; }
TENON_GPU_FUNCTION Dual operator/(Dual x, Dual y) {
  const double quotient = x.value / y.value;
  return {quotient, (x.slope - quotient * y.slope) / y.value};
}

// The factors that x^a exp(-x) is to be multiplied by: of the lower integral (a / x)... as a series over Gamma(a + 1),
// of the upper as a continued fraction over Gamma(a); with their derivatives by a.
TENON_GPU_CALLED Dual LowerFactor(double a, double x) {
  Dual sum = {1, 0}, term = {1, 0};
  for (int n = 1; n < kMostTerms; ++n) {
    term = term * (Dual{x, 0} / Dual{a + n, 1});
    sum = sum + term;
    if (term.value <= kRounding * sum.value && std::fabs(term.slope) <= kRounding * std::fabs(sum.slope)) break;
  }
  return sum;
}
TENON_GPU_CALLED Dual UpperFactor(double a, double x) {
  Dual b = {x + 1 - a, -1}, c = b, d = Dual{1, 0} / b, h = d;
  for (int n = 1; n < kMostTerms; ++n) {
    const Dual top = {-n * (n - a), static_cast<double>(n)};
    b.value += 2;
    d = Dual{1, 0} / (top * d + b);
    c = n == 1 ? b : b + top / c;  // the first has nothing above it
    const Dual change = c * d;
    h = h * change;
    if (std::fabs(change.value - 1) <= 2 * kRounding && std::fabs(change.slope) <= 2 * kRounding) break;
  }
  return h;
}
TENON_GPU_FUNCTION double LowerGamma(double a, double x) {
  return LowerFactor(a, x).value * std::exp(a * std::log(x) - x - Lgamma(a + 1));
}
TENON_GPU_FUNCTION double UpperGamma(double a, double x) {
  return UpperFactor(a, x).value * std::exp(a * std::log(x) - x - Lgamma(a));
}

TENON_GPU_CALLED double Igamma(double a, double x) {
  if (x == 0) return 0;
  if (!(x > 0) || !(a > 0)) return kNan;
  return x > 1 && x > a ? 1 - UpperGamma(a, x) : LowerGamma(a, x);
}
TENON_GPU_CALLED double Igammac(double a, double x) {
  if (!(x >= 0) || !(a > 0)) return kNan;
  if (x == 0) return 1;
  return x < 1 || x < a ? 1 - LowerGamma(a, x) : UpperGamma(a, x);
}
// By a; divided by the density at x, and negative, it is how a sample x moves with a.
TENON_GPU_CALLED double IgammaGradA(double a, double x) {
  if (x == 0) return 0;
  if (!(x > 0) || !(a > 0)) return kNan;
  if (x > 1 && x > a) {
    const Dual factor = UpperFactor(a, x);
    return -(factor.slope + factor.value * (std::log(x) - Digamma(a))) * std::exp(a * std::log(x) - x - Lgamma(a));
  }
  const Dual factor = LowerFactor(a, x);
  return (factor.slope + factor.value * (std::log(x) - Digamma(a + 1))) * std::exp(a * std::log(x) - x - Lgamma(a + 1));
}
TENON_GPU_CALLED double RandomGammaGrad(double a, double x) {
  if (x == 0) return 0;
  if (!(x > 0) || !(a > 0)) return kNan;
  if (x > 1 && x > a) {
    const Dual factor = UpperFactor(a, x);
    return x * (factor.slope + factor.value * (std::log(x) - Digamma(a)));
  }
  const Dual factor = LowerFactor(a, x);
  return -(factor.slope + factor.value * (std::log(x) - Digamma(a + 1))) * x / a;
}

// ---- Zeta ----

// The sum of (q + k)^-s over k from 0 on, for s > 1 and q no whole number below 1: the first terms, then Euler's and
// Maclaurin's formula. narrow: after nine terms wherever that is, as Eigen's of floats, which the CPU and TensorFlow
// have: below 0 the formula is far off then.
TENON_GPU_CALLED double ZetaSum(double s, double q, bool narrow) {
  // (2k)! / B_2k.
  constexpr double kOver[] = {12.0,
                              -720.0,
                              30240.0,
                              -1209600.0,
                              47900160.0,
                              -1307674368000.0 / 691,
                              74724249600.0,
                              -10670622842880000.0 / 3617,
                              5109094217170944000.0 / 43867,
                              -802857662698291200000.0 / 174611,
                              1.5511210043330985984e23 / 854513,
                              -1.6938241367317436694528e27 / 236364091};
  double sum = std::pow(q, -s), at = q, term = sum;
  for (int n = 0; n < 9 || (at <= 9 && !narrow); ++n) {
    at += 1;
    term = std::pow(at, -s);
    sum += term;
    if (std::fabs(term) <= kRounding * std::fabs(sum)) return sum;  // of infinity too
  }
  if (term == 0) return sum;
  sum += term * at / (s - 1) - 0.5 * term;
  double factor = s, power = term / at;
  for (int k = 0; k < 12; ++k) {
    const double more = factor * power / kOver[k];
    sum += more;
    if (!(std::fabs(more) > kRounding * std::fabs(sum))) break;
    factor *= (s + 2 * k + 1) * (s + 2 * k + 2);
    power /= at * at;
  }
  return sum;
}
TENON_GPU_CALLED double ZetaOf(double s, double q, bool narrow) {
  if (s == 1) return kInfinity;
  if (!(s > 1) || q != q) return kNan;
  if (q == kInfinity) return 0;
  if (q > 0) return ZetaSum(s, q, narrow);
  const double below = std::floor(q);
  const bool whole = s == std::floor(s), even = whole && std::fmod(s, 2.0) == 0;
  if (below == q) return even ? kInfinity : kNan;
  if (!whole) return kNan;
  if (narrow || q > -1000) return ZetaSum(s, q, narrow);
  // What is above 0, and what is below as a difference of two such sums: however far down q is.
  const double rest = q - below, under = ZetaSum(s, 1 - rest, false) - ZetaSum(s, 1 - q, false);
  return ZetaSum(s, rest, false) + (even ? under : -under);
}
TENON_GPU_CALLED double PolygammaOf(double n, double x, bool narrow) {
  if (!(n >= 0) || n != std::floor(n)) return kNan;
  if (n == 0) return Digamma(x);
  const double sign = std::fmod(n, 2.0) == 0 ? -1 : 1;
  if (x == kInfinity) return sign * 0.0;
  return sign * std::exp(Lgamma(n + 1)) * ZetaOf(n + 1, x, narrow);
}
template <class T>
TENON_GPU_FUNCTION double Zeta(T s, T q) { return ZetaOf(s, q, sizeof(T) == 4); }
template <class T>
TENON_GPU_FUNCTION double Polygamma(T n, T x) { return PolygammaOf(n, x, sizeof(T) == 4); }

// ---- Beta ----

// The continued fraction of the incomplete integral, which falls fast for x below (a + 1) / (a + b + 2).
TENON_GPU_CALLED double BetaFraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  const auto held = [](double value) { return std::fabs(value) < kTiny ? kTiny : value; };
  double c = 1, d = 1 / held(1 - (a + b) * x / (a + 1)), h = d;
  for (int n = 1; n < kMostTerms; ++n) {
    const double even = n * (b - n) * x / ((a + 2 * n - 1) * (a + 2 * n));
    d = 1 / held(1 + even * d);
    c = held(1 + even / c);
    h *= d * c;
    const double odd = -(a + n) * (a + b + n) * x / ((a + 2 * n) * (a + 2 * n + 1));
    d = 1 / held(1 + odd * d);
    c = held(1 + odd / c);
    h *= d * c;
    if (std::fabs(d * c - 1) <= 2 * kRounding) break;
  }
  return h;
}
TENON_GPU_CALLED double Betainc(double a, double b, double x) {
  if (!(a > 0) || !(b > 0) || !(x >= 0) || !(x <= 1)) return kNan;
  if (x == 0 || x == 1) return x;
  const double front = std::exp(a * std::log(x) + b * std::log1p(-x) + Lgamma(a + b) - Lgamma(a) - Lgamma(b));
  if (x < (a + 1) / (a + b + 2)) return front * BetaFraction(a, b, x) / a;
  return 1 - front * BetaFraction(b, a, 1 - x) / b;
}

// ---- The normal distribution ----

// Winitzki's formula for the inverse of erf, of log(1 - erf^2): good to two digits everywhere.
TENON_GPU_FUNCTION double InverseGuess(double log) {
  constexpr double kShape = 0.147;
  const double half = 2 / (kPi * kShape) + log / 2;
  return std::sqrt(std::sqrt(half * half - log / kShape) - half);
}
// The y from 0 on of which erfc is q, for q in (0, 1]: Newton's steps on the logarithm, which is nearly a parabola.
TENON_GPU_CALLED double InverseErfc(double q) {
  const double goal = std::log(q);
  double y = InverseGuess(std::log(q * (2 - q)));
  for (int turn = 0; turn < 5; ++turn) {
    const double now = std::erfc(y);
    y += (std::log(now) - goal) * now / (kTwoByRootOfPi * std::exp(-y * y));
  }
  return y;
}
TENON_GPU_CALLED double Ndtri(double p) {
  if (!(p >= 0) || !(p <= 1)) return kNan;
  if (p == 0 || p == 1) return p == 0 ? -kInfinity : kInfinity;
  return p < 0.5 ? -kRootOfTwo * InverseErfc(2 * p) : kRootOfTwo * InverseErfc(2 * (1 - p));
}
TENON_GPU_CALLED double Erfinv(double x) {
  const double size = std::fabs(x);
  if (!(size < 1)) return size == 1 ? std::copysign(kInfinity, x) : kNan;
  if (size > 0.5) return std::copysign(InverseErfc(1 - size), x);
  double y = std::copysign(InverseGuess(std::log1p(-size * size)), x);
  for (int turn = 0; turn < 4; ++turn) y -= (std::erf(y) - x) / (kTwoByRootOfPi * std::exp(-y * y));
  return x == 0 ? x : y;
}

// ---- Bessel ----

// I of x >= 0 divided by exp(x): all terms of the series are positive; far out, as many of the others as fall.
TENON_GPU_CALLED double ScaledI(int order, double x) {
  if (x < 20) {
    const double square = x * x / 4;
    double term = order == 0 ? 1 : x / 2, sum = term;
    for (int k = 1; term > kEnough * sum && k < 200; ++k) sum += term *= square / (k * (k + order));
    return sum * std::exp(-x);
  }
  double term = 1, sum = 1;
  for (int k = 1; k < 40 && std::fabs(term) > kEnough; ++k)
    sum += term *= -(4.0 * order - (2 * k - 1) * (2 * k - 1)) / (8 * k * x);
  return sum / std::sqrt(2 * kPi * x);
}
// K of x > 0 times exp(x).
TENON_GPU_CALLED double ScaledK(int order, double x) {
  if (x <= 2) {
    const double square = x * x / 4, log = std::log(x / 2);
    double term = order == 0 ? 1 : x / 2, harmonic = 0, plain = 0, sum = 0;
    for (int k = 0; k < 40; ++k) {
      if (k > 0) {
        term *= square / (k * (k + order));
        harmonic += 1.0 / k;
      }
      plain += term;
      sum += term * (order == 0 ? harmonic - kGamma : harmonic + 0.5 / (k + 1) - kGamma);
      if (term <= kEnough * plain && k > 0) break;
    }
    const double value = order == 0 ? sum - log * plain : 1 / x + log * plain - sum;
    return value * std::exp(x);
  }
  if (x < 20) {  // the integral of exp(-x (cosh(t) - 1)) cosh(order t), whose sum in steps is as good as it
    constexpr double kStep = 0.09375;
    double sum = 0.5;
    for (int k = 1; k < 60; ++k) {
      const double t = k * kStep, sine = std::sinh(t / 2), left = 2 * x * sine * sine;
      if (left > 45) break;
      sum += std::exp(-left) * (order == 0 ? 1 : std::cosh(t));
    }
    return sum * kStep;
  }
  double term = 1, sum = 1;
  for (int k = 1; k < 40 && std::fabs(term) > kEnough; ++k)
    sum += term *= (4.0 * order - (2 * k - 1) * (2 * k - 1)) / (8 * k * x);
  return sum * std::sqrt(kPi / (2 * x));
}
TENON_GPU_FUNCTION double Grown(double scaled, double x) { return std::exp(x / 2) * scaled * std::exp(x / 2); }
TENON_GPU_FUNCTION double BesselI(int order, double x, bool scaled) {
  const double size = std::fabs(x), value = scaled ? ScaledI(order, size) : Grown(ScaledI(order, size), size);
  return order == 1 && x < 0 ? -value : value;
}
TENON_GPU_FUNCTION double BesselK(int order, double x, bool scaled) {
  if (!(x > 0)) return x <= 0 ? kInfinity : kNan;  // of negative numbers too, as on the CPU
  return scaled ? ScaledK(order, x) : Grown(ScaledK(order, x), -x);
}
TENON_GPU_CALLED double BesselI0(double x) { return BesselI(0, x, false); }
TENON_GPU_CALLED double BesselI0e(double x) { return BesselI(0, x, true); }
TENON_GPU_CALLED double BesselI1(double x) { return BesselI(1, x, false); }
TENON_GPU_CALLED double BesselI1e(double x) { return BesselI(1, x, true); }
TENON_GPU_CALLED double BesselK0(double x) { return BesselK(0, x, false); }
TENON_GPU_CALLED double BesselK0e(double x) { return BesselK(0, x, true); }
TENON_GPU_CALLED double BesselK1(double x) { return BesselK(1, x, false); }
TENON_GPU_CALLED double BesselK1e(double x) { return BesselK(1, x, true); }
TENON_GPU_CALLED double BesselJ0(double x) { return ::j0(x); }
TENON_GPU_CALLED double BesselJ1(double x) { return ::j1(x); }
TENON_GPU_CALLED double BesselY0(double x) { return x > 0 ? ::y0(x) : x <= 0 ? -kInfinity : kNan; }
TENON_GPU_CALLED double BesselY1(double x) { return x > 0 ? ::y1(x) : x <= 0 ? -kInfinity : kNan; }
// At 0 the CPU's of floats, which is Eigen's, as TensorFlow's is, has no limit.
TENON_GPU_FUNCTION double BesselY1(float x) { return x == 0 ? kNan : BesselY1(static_cast<double>(x)); }

// ---- Integrals ----

TENON_GPU_CALLED double Dawsn(double x) { return sdk::integrals::Dawson(x); }
TENON_GPU_CALLED double Expint(double x) { return sdk::integrals::Expint(x); }
TENON_GPU_CALLED double Spence(double x) { return sdk::integrals::Spence(x); }
TENON_GPU_CALLED double FresnelSin(double x) { return sdk::integrals::Fresnel(x).sine; }
TENON_GPU_CALLED double FresnelCos(double x) { return sdk::integrals::Fresnel(x).cosine; }

}  // namespace

// ---- Kernels ----

template <class T>
TENON_GPU_FUNCTION Wide<T> Widened(T x) { return static_cast<Wide<T>>(x); }

#define TENON_GPU_OF_ONE(Name)                                                                         \
  template <class T>                                                                                   \
  TENON_GPU_FUNCTION void Each##Name(const UnaryParams& p) {                                           \
    TENON_GPU_ROLLED for (int64_t i = Thread(); i < p.count; i += Threads()) static_cast<T*>(p.y)[i] = \
        T(Name(Widened(static_cast<const T*>(p.x)[i])));                                               \
  }                                                                                                    \
  TENON_GPU_KERNEL(Name##_f32, UnaryParams, Each##Name<float>)                                         \
  TENON_GPU_KERNEL(Name##_f64, UnaryParams, Each##Name<double>)                                        \
  TENON_GPU_KERNEL(Name##_f16, UnaryParams, Each##Name<Half>)                                          \
  TENON_GPU_KERNEL(Name##_bf16, UnaryParams, Each##Name<Bfloat16>)
#define TENON_GPU_OF_TWO_WIDE(Name)                                                                \
  template <class T>                                                                               \
  TENON_GPU_FUNCTION void Each##Name(const BinaryParams& p) {                                      \
    ForEachPair(p, [&](int64_t i, int64_t a, int64_t b) {                                          \
      static_cast<T*>(p.out)[i] =                                                                  \
          T(Name(Widened(static_cast<const T*>(p.a)[a]), Widened(static_cast<const T*>(p.b)[b]))); \
    });                                                                                            \
  }                                                                                                \
  TENON_GPU_KERNEL(Name##_f32, BinaryParams, Each##Name<float>)                                    \
  TENON_GPU_KERNEL(Name##_f64, BinaryParams, Each##Name<double>)
#define TENON_GPU_OF_TWO(Name)                                 \
  TENON_GPU_OF_TWO_WIDE(Name)                                  \
  TENON_GPU_KERNEL(Name##_f16, BinaryParams, Each##Name<Half>) \
  TENON_GPU_KERNEL(Name##_bf16, BinaryParams, Each##Name<Bfloat16>)
TENON_GPU_SPECIAL_OF_ONE(TENON_GPU_OF_ONE)
TENON_GPU_SPECIAL_OF_TWO(TENON_GPU_OF_TWO)
TENON_GPU_SPECIAL_OF_TWO_WIDE(TENON_GPU_OF_TWO_WIDE)

template <class T>
TENON_GPU_FUNCTION void EachBetainc(const TernaryParams& p) {
  TENON_GPU_ROLLED for (int64_t i = Thread(); i < p.count; i += Threads()) {
    const auto at = [&](int k) { return Widened(static_cast<const T*>(p.x[k])[i * p.steps[k]]); };
    static_cast<T*>(p.out)[i] = T(Betainc(at(0), at(1), at(2)));
  }
}
TENON_GPU_KERNEL(Betainc_f32, TernaryParams, EachBetainc<float>)
TENON_GPU_KERNEL(Betainc_f64, TernaryParams, EachBetainc<double>)

}  // namespace tenon::gpu
