// SPDX-License-Identifier: Apache-2.0
// Functions of numbers that no instruction computes: roundings to halves, exponentials, logarithms.
#ifndef TENON_DEVICES_CPU_CODEGEN_EMIT_FUNCTIONS_H_
#define TENON_DEVICES_CPU_CODEGEN_EMIT_FUNCTIONS_H_

#include "emit/instructions.h"

namespace tenon::cpu_codegen {

class Functions : public Instructions {
 protected:
  using Instructions::Instructions;

  // Value to the nearest of its type.
  void RoundTo(uint32_t dtype, const Xmm& x) {
    const Scope scope(this);
    if (dtype == TENON_DT_HALF) {
      const int t = T(4).getIdx();
      const Xmm narrow = x.isZMM() ? static_cast<Xmm>(Xbyak::Ymm(t)) : Xmm(t);
      vcvtps2ph(narrow, x, 0);
      vcvtph2ps(x, narrow);
    }
    if (dtype != TENON_DT_BFLOAT16) return;
    const Xmm t = T();
    const Mask nan = Compare(x, x, kIsUnordered);
    vpsrld(t, x, 16);
    And(t, t, I(1));
    PlusI(t, t, I(0x7fff));
    PlusI(x, x, t);
    And(x, x, I(0xffff0000));
    Choose(x, nan, I(0x7fc00000));
  }

  template <size_t kCount>
  void Polynomial(const Xmm& d, const Xmm& x, const std::array<double, kCount>& highest_first) {
    Fill(d, C(highest_first[0]));
    for (size_t i = 1; i < kCount; ++i) ProductPlus(d, x, C(highest_first[i]));
  }
  // The same with fewer steps that wait for each other, of four coefficients or five.
  template <size_t kCount>
  void PolynomialOf(const Xmm& d, const Xmm& x, const Xmm& square, const std::array<double, kCount>& highest_first) {
    static_assert(kCount == 4 || kCount == 5);
    const Scope scope(this);
    const Xmm low = T();
    constexpr size_t kFirst = kCount - 4;
    Fill(d, C(highest_first[kFirst]));
    ProductPlus(d, x, C(highest_first[kFirst + 1]));
    if constexpr (kCount == 5) PlusProduct(d, square, C(highest_first[0]));
    Fill(low, C(highest_first[kFirst + 2]));
    ProductPlus(low, x, C(highest_first[kFirst + 3]));
    ProductPlus(d, square, low);
  }
  static constexpr double kLog2E = 1.44269504, kMagic = 0x1.8p23;
  // ln 2 in two parts, of which products with the first are exact; both positive, so that infinity times them is no
  // NaN.
  static constexpr double kLn2High = 0x1.62e4p-1, kLn2Low = 1.42860677e-6;
  // (e^r - 1 - r) / r^2 for r at most half of ln 2.
  static constexpr std::array<double, 5> kExponential = {0.0013814318, 0.0083688516, 0.0416684002, 0.1666651964,
                                                         0.49999994};

  // The same for e^r within 2 ulp.
  static constexpr std::array<double, 4> kShortExponential = {0.008312520325825872, 0.04189015709376832,
                                                              0.16667114648881054, 0.49999231492720864};

  // 2^n of whole n within [-252, 254] as two factors, by which d is multiplied.
  void TimesPower(const Xmm& d, const Xmm& n) {
    if (wide_) return vscalefps(d, d, n);
    const Scope scope(this);
    const Xmm whole = T(), half = T();
    vcvtps2dq(whole, n);
    vpsrad(half, whole, 1);
    vpsubd(whole, whole, half);
    vpaddd(half, half, I(127));
    vpaddd(whole, whole, I(127));
    vpslld(half, half, 23);
    vpslld(whole, whole, 23);
    vmulps(d, d, half);
    vmulps(d, d, whole);
  }
  // e^x of floats within 1 ulp.
  void Exponential(const Xmm& d, const Xmm& x) {
    const Scope scope(this);
    const Xmm r = T(), n = T();
    // A NaN is the second operand, which stays.
    vmaxps(r, Filled(C(-105)), x);
    vminps(r, Filled(C(90)), r);
    vmulps(n, r, C(kLog2E));
    Whole(n, n, kNearest);
    vfnmadd231ps(r, n, C(kLn2High));
    vfnmadd231ps(r, n, C(kLn2Low));
    const Xmm square = T();
    vmulps(square, r, r);
    PolynomialOf(d, r, square, kExponential);
    vfmadd213ps(d, square, r);
    vaddps(d, d, C(1));
    // What is 0 in the end, as of scores that a mask leaves out, is 0 before: a result that is too small for its type
    // takes some hundred cycles.
    if (wide_) {
      Pass(d, Compare(n, C(-150.5), kIsNotLessEqual), d);
    } else {
      vcmpps(square, n, C(-150.5), kIsNotLessEqual);
      vandps(d, d, square);
    }
    TimesPower(d, n);
  }
  // 1 + e^-x of floats; e^-x within 2 ulp.
  void OneAndExponentialOfLess(const Xmm& d, const Xmm& x) {
    const Scope scope(this);
    const Xmm r = T(), n = T();
    vminps(r, Filled(C(87)),
           x);  // whose e^-x is the smallest that is no denormal number, which would take long, and nothing beside 1
    vmaxps(r, Filled(C(-90)), r);
    vmulps(n, r, C(-kLog2E));
    Whole(n, n, kNearest);
    vfnmsub231ps(r, n, C(kLn2High));  // -r - n ln 2
    vfnmadd231ps(r, n, C(kLn2Low));
    const Xmm square = T();
    vmulps(square, r, r);
    PolynomialOf(d, r, square, kShortExponential);
    vaddps(r, r, C(1));
    vfmadd213ps(d, square, r);
    TimesPower(d, n);
    vaddps(d, d, C(1));
  }

  // e^x - 1 of floats, with x at most about 88.
  void ExponentialLessOne(const Xmm& d, const Xmm& x) {
    const Scope scope(this);
    const Xmm r = T(), n = T(), power = T();
    vmaxps(r, Filled(C(-20)), x);  // from where on it is -1
    vminps(r, Filled(C(90)), r);
    vmulps(n, r, C(kLog2E));
    Whole(n, n, kNearest);
    vfnmadd231ps(r, n, C(kLn2High));
    vfnmadd231ps(r, n, C(kLn2Low));
    // d = r + r^2 q
    Polynomial(d, r, kExponential);
    vmulps(d, d, r);
    vfmadd213ps(d, r, r);
    // (d + (1 - 2^-n)) 2^n
    if (wide_) {
      const Xmm less = T();
      vxorps(less, n, SignBit());
      Fill(power, C(1));
      vscalefps(power, power, less);
    } else {
      const Xmm zero = T();
      vcvtps2dq(power, n);
      Fill(zero, I(127));
      vpsubd(power, zero, power);
      vpxor(zero, zero, zero);
      vpmaxsd(power, power, zero);
      vpslld(power, power, 23);
    }
    const Xmm one = Filled(C(1));
    vsubps(power, one, power);
    vaddps(d, d, power);
    TimesPower(d, n);
    // The sign is x's, of 0 too.
    vandps(power, x, SignBit());
    vorps(d, d, power);
  }

  // (log(1 + f) - f + f^2 / 2) / f^3 for f within [-1/4, 1/2].
  static constexpr std::array<double, 8> kLogarithm = {-4.507478261e-02, 1.046302071e-01,  -1.316119371e-01,
                                                       1.447839529e-01,  -1.664731219e-01, 1.999086121e-01,
                                                       -2.500009584e-01, 3.333344911e-01};
  void Logarithm(const Xmm& d, const Xmm& x) {
    const Scope scope(this);
    const Xmm exponent = T(), f = T(), square = T();
    if (wide_) {
      // Of what is less than 0 the mantissa is NaN, of 0 and infinity 1.
      vgetmantps(f, x, 0xb);
      vgetexpps(exponent, x);
      vgetexpps(square, f);
      vsubps(exponent, exponent, square);
    } else {
      const Scope inside(this);
      const Xmm scaled = T(), less = T();
      vmulps(scaled, x, C(0x1p23));
      const Mask tiny = Compare(x, C(0x1p-126), kIsLess);
      vmovaps(f, x);
      Choose(f, tiny, scaled);
      vandps(less, tiny.lanes, C(23));
      vpsubd(exponent, f, I(0x3f400000));
      vpsrad(exponent, exponent, 23);
      vpslld(scaled, exponent, 23);
      vpsubd(f, f, scaled);
      vcvtdq2ps(exponent, exponent);
      vsubps(exponent, exponent, less);
    }
    vsubps(f, f, C(1));
    vmulps(square, f, f);
    Polynomial(d, f, kLogarithm);
    vmulps(d, d, f);
    vmulps(d, d, square);
    vfmadd231ps(d, exponent, C(kLn2Low));
    vfnmadd231ps(d, square, C(0.5));
    vaddps(d, d, f);
    vfmadd231ps(d, exponent, C(kLn2High));
    if (wide_) return;
    Choose(d, Compare(x, C(std::numeric_limits<double>::infinity()), kIsEqual), x);
    const Xmm zero = T();
    Zero(zero);
    Choose(d, Compare(x, zero, kIsEqual), C(-std::numeric_limits<double>::infinity()));
    const Mask none = Compare(x, zero, kIsGreaterEqual);
    vandnps(none.lanes, none.lanes, I(-1));
    Choose(d, none, I(0x7fc00000));
  }
  void LogarithmOfMore(const Xmm& d, const Xmm& x) {
    const Scope scope(this);
    const Xmm sum = T(), rest = T();
    vaddps(sum, x, C(1));
    vsubps(rest, sum, C(1));
    vsubps(rest, x, rest);
    vdivps(rest, rest, sum);
    Pass(rest, Compare(rest, rest, kIsOrdered), rest);  // of infinity and -1 nothing was lost
    Logarithm(d, sum);
    vaddps(d, d, rest);
    const Xmm zero = T();
    Zero(zero);
    Choose(d, Compare(x, zero, kIsEqual), x);
  }

  // x P(x^2) / Q(x^2).
  void HyperbolicTangent(const Xmm& d, const Xmm& x) {
    const Scope scope(this);
    const Xmm clamped = T(), square = T(), below = T();
    vmaxps(clamped, Filled(C(-9.02)), x);
    vminps(clamped, Filled(C(9.02)), clamped);
    vmulps(square, clamped, clamped);
    Polynomial(d, square,
               std::array<double, 5>{1.3383116236438739e-08, 2.063496884589155e-05, 3.497406183544345e-03,
                                     1.3382644263726284e-01, 1});
    Polynomial(below, square,
               std::array<double, 5>{7.789765713107819e-07, 3.2884327309603146e-04, 2.5884166004685936e-02,
                                     4.671596553971251e-01, 1});
    vmulps(d, d, clamped);
    vdivps(d, d, below);
  }
  // x + x P(x^2) up to 1, and from there on 1 - e^-Q(|x|) with the sign of x: its logarithm is nearly a parabola.
  // Fitted to be least wrong at worst.
  void ErrorFunction(const Xmm& d, const Xmm& x) {
    const Scope scope(this);
    const Xmm magnitude = T(), other = T();
    Magnitude(magnitude, x);
    vminps(other, Filled(C(4)), magnitude);  // a NaN is the second operand, which stays
    Polynomial(d, other,
               std::array<double, 7>{-0.00018557407, 0.002939608, -0.02180532, 0.10303737, 0.63822567, 1.12704,
                                     0.00035371876});
    Xor(d, d, SignBit());
    Exponential(other, d);
    Fill(d, C(1));
    vsubps(other, d, other);
    And(d, x, SignBit());
    Or(other, other, d);
    const Mask small = Compare(magnitude, C(1), kIsLessEqual);
    vmulps(magnitude, x, x);
    Polynomial(d, magnitude,
               std::array<double, 7>{7.853861e-05, -0.000801019371, 0.00518832773, -0.0268538129, 0.112835854,
                                     -0.37612626, 0.128379166});
    vfmadd213ps(d, x, x);
    Choose(other, small, d);
    Move(d, other);
  }
  void Logistic(const Xmm& d, const Xmm& x) {
    const Scope scope(this);
    const Xmm e = T();
    OneAndExponentialOfLess(e, x);
    vdivps(d, Filled(C(1)), e);
  }
};

}  // namespace tenon::cpu_codegen

#endif  // TENON_DEVICES_CPU_CODEGEN_EMIT_FUNCTIONS_H_
