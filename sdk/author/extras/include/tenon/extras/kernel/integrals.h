// SPDX-License-Identifier: Apache-2.0
// Integrals that neither Eigen nor, to its last digits, the standard library has: in double, which narrower types are
// rounded from.
//
// T is double; everything is a template and constexpr, which lets compilers of accelerators' code call it too, as
// elementwise.h.
#ifndef TENON_SDK_KERNEL_INTEGRALS_H_
#define TENON_SDK_KERNEL_INTEGRALS_H_

#include <cmath>
#include <limits>
#include <numbers>

namespace tenon::sdk::integrals {

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                        kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kEnough = 1e-17;  // what a term adds no more to a sum than

// The inverse of erf from a first guess, which is good to single precision or better and right where it is infinite or
// NaN: Newton's step, twice, with erfc where erf is nearly 1.
template <class T>
constexpr T Erfinv(T x, T guess) {
  T y = guess;
  if (!(std::fabs(x) < 1)) return y;
  for (int turn = 0; turn < 2; ++turn) {
    const T slope = 2 * std::numbers::inv_sqrtpi * std::exp(-y * y);
    const T above = x > 0.5 ? (1 - x) - std::erfc(y) : x < -0.5 ? std::erfc(-y) - (1 + x) : std::erf(y) - x;
    y -= above / slope;
  }
  return y;
}

// exp(-x^2) times the integral of exp(t^2) from 0 to x.
template <class T>
constexpr T Dawson(T x) {
  const T square = x * x;
  if (square < 1) {  // x (1 - 2/3 x^2 (1 - 2/5 x^2 (...)))
    T term = x, sum = x;
    for (int n = 3; std::fabs(term) > kEnough * std::fabs(sum); n += 2) sum += term *= -2 * square / n;
    return sum;
  }
  if (!(square < 150)) {  // 1/2x (1 + 1/2x^2 (1 + 3/2x^2 (...)))
    T term = 0.5 / x, sum = term;
    for (int n = 1; n < 60 && std::fabs(term) > kEnough * std::fabs(sum); n += 2) sum += term *= n * 0.5 / square;
    return sum;
  }
  // Rybicki: the sum of exp(-(|x| - n h)^2) / n over the odd n; in steps of 1/4 all digits are right.
  constexpr double kStep = 0.25;
  const T y = std::fabs(x), nearest = 2 * std::round(y / (2 * kStep));
  T sum = 0;
  for (int k = -13; k <= 13; ++k) {
    const T n = nearest + 2 * k + 1, away = y - n * kStep;
    sum += std::exp(-away * away) / n;
  }
  return std::copysign(sum * std::numbers::inv_sqrtpi, x);
}

// The sum of x^k / (k k!).
template <class T>
constexpr T ExponentialSum(T x) {
  T power = 1, sum = 0;
  for (int k = 1; k < 500; ++k) {
    power *= x / k;
    sum += power / k;
    if (power / k <= kEnough * sum) break;
  }
  return sum;
}
// The integral of exp(t) / t up to x, its principal value; NaN below 0, as in TensorFlow.
template <class T>
constexpr T Expint(T x) {
  if (x == kInfinity || x == 0) return x == 0 ? -kInfinity : kInfinity;
  if (!(x > 0)) return kNan;
  if (x > 40) {  // exp(x) / x (1 + 1/x (1 + 2/x (...))), as long as the terms fall
    T term = 1, sum = 1;
    for (int n = 1; n < x && term > kEnough * sum; ++n) sum += term *= n / x;
    return std::exp(x / 2) * (sum / x) * std::exp(x / 2);
  }
  // Near where it is 0 the sum would cancel: there it is taken from its root on.
  constexpr double kRoot = 0.37250741078136663446;
  const T away = x - kRoot;
  // exp(t) / t around the root, integrated term by term: c_k r = 1/k! - c_(k-1), times exp(r)
  if (std::fabs(away) < 0.1) {
    T coefficient = std::exp(T(kRoot)) / kRoot, factorial = std::exp(T(kRoot)), power = away, sum = coefficient * power;
    for (int k = 1; k < 60; ++k) {
      factorial /= k;
      coefficient = (factorial - coefficient) / kRoot;
      power *= away;
      const T term = coefficient * power / (k + 1);
      sum += term;
      if (std::fabs(term) <= kEnough * std::fabs(sum)) break;
    }
    return sum;
  }
  return std::numbers::egamma + std::log(x) + ExponentialSum(x);
}

// With w = -log(x): w - w^2 / 4 + the sum of B_2k w^(2k + 1) / (2k + 1)!, of Bernoulli's numbers.
template <class T>
constexpr T SpenceOfLog(T w) {
  constexpr double kTerms[] = {1 / 36.0,
                               -1 / 3600.0,
                               1 / 211680.0,
                               -1 / 10886400.0,
                               1 / 526901760.0,
                               -691 / 16999766784000.0,
                               1 / 1120863744000.0,
                               -3617 / 181400588328960000.0,
                               43867 / 97072790126247936000.0,
                               -174611 / 16860010916664115200000.0};
  const T square = w * w;
  T sum = 0;
  for (int k = 9; k >= 0; --k) sum = (sum + kTerms[k]) * square;
  return w * (1 - w / 4 + sum);
}
// The integral of log(t) / (1 - t) from 1 to x; NaN below 0.
template <class T>
constexpr T Spence(T x) {
  constexpr double kSixth = std::numbers::pi * std::numbers::pi / 6;
  if (!(x >= 0)) return kNan;
  if (x == kInfinity) return -kInfinity;
  if (x == 0) return kSixth;
  const T log = std::log(x);
  if (x < 0.5) return kSixth - log * std::log1p(-x) - SpenceOfLog(-std::log1p(-x));
  if (x <= 2) return SpenceOfLog(0 - log);
  const T inverse = 1 / x;
  const T of_inverse = kSixth + log * std::log1p(-inverse) - SpenceOfLog(-std::log1p(-inverse));
  return -of_inverse - log * log / 2;
}

// A complex number, of which accelerators' libraries have none.
template <class T>
struct Pair {
  T real, imaginary;
  friend constexpr Pair operator*(const Pair& x, const Pair& y) {
    return {x.real * y.real - x.imaginary * y.imaginary, x.real * y.imaginary + x.imaginary * y.real};
  }
  friend constexpr Pair operator+(const Pair& x, const Pair& y) { return {x.real + y.real, x.imaginary + y.imaginary}; }
  constexpr Pair Times(T factor) const { return {real * factor, imaginary * factor}; }
  constexpr Pair Inverse() const {
    const T square = real * real + imaginary * imaginary;
    return {real / square, -imaginary / square};
  }
};

template <class T>
struct SineAndCosine {
  T sine, cosine;
};
// The integrals of sin(pi t^2 / 2) and cos(pi t^2 / 2) from 0 to x.
template <class T>
constexpr SineAndCosine<T> Fresnel(T x) {
  constexpr double kQuarter = std::numbers::pi / 2;
  const T y = std::fabs(x);
  if (y != y) return {x, x};
  if (y < 1.5) {  // the sines' and cosines' terms by turns
    const T angle = kQuarter * y * y;
    T term = y, sine = 0, cosine = y;
    for (int n = 1; n < 100; ++n) {
      term *= angle / n;
      const T part = term / (2 * n + 1);
      (n % 2 == 1 ? sine : cosine) += n % 4 < 2 ? part : -part;
      if (part <= kEnough * sine) break;
    }
    return {std::copysign(sine, x), std::copysign(cosine, x)};
  }
  if (y > 1e9) return {std::copysign(T(0.5), x), std::copysign(T(0.5), x)};
  // (1 + i) / 2 erf(sqrt(pi) / 2 (1 - i) y), of which 1 - erf is a continued fraction.
  Pair<T> b = {T(1), -std::numbers::pi * y * y}, c = b, d = b.Inverse(), h = d;
  for (int n = 1; n < 200; ++n) {
    const T a = -(2 * T(n) - 1) * (2 * T(n));
    b.real += 4;
    d = (d.Times(a) + b).Inverse();
    c = n == 1 ? b : b + c.Inverse().Times(a);  // the first has nothing above it
    const Pair<T> change = c * d;
    h = h * change;
    if (std::fabs(change.real - 1) + std::fabs(change.imaginary) < 1e-16) break;
  }
  // The angle pi / 2 y^2 modulo whole turns: y^2 modulo 4, with what y^2 is rounded by.
  const T whole = y * y, rest = std::fma(y, y, -whole);
  const T angle = kQuarter * (std::fmod(whole, T(4)) + rest);
  const Pair<T> left = Pair<T>{std::cos(angle), std::sin(angle)} * (h * Pair<T>{y, -y});
  const Pair<T> value = Pair<T>{T(0.5), T(0.5)} * Pair<T>{1 - left.real, -left.imaginary};
  return {std::copysign(value.imaginary, x), std::copysign(value.real, x)};
}

}  // namespace tenon::sdk::integrals

#endif  // TENON_SDK_KERNEL_INTEGRALS_H_
