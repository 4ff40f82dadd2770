// SPDX-License-Identifier: Apache-2.0
// Complex numbers and their parts.
#include "kernels/elementwise/elementwise.h"

namespace tenon::cpu {
namespace {

using ComplexTypes = Types<std::complex<float>, std::complex<double>>;
using PartTypes = Types<float, double>;

struct ConjOp {
  template <class T>
  T operator()(T x) const { return std::conj(x); }
};
struct RealOp {
  template <class T>
  T operator()(std::complex<T> x) const { return x.real(); }
};
struct ImagOp {
  template <class T>
  T operator()(std::complex<T> x) const { return x.imag(); }
};
struct AngleOp {
  static constexpr double kCost = 10;
  template <class T>
  T operator()(std::complex<T> x) const { return std::arg(x); }
};
struct ComplexAbsOp {
  static constexpr double kCost = 4;
  template <class T>
  T operator()(std::complex<T> x) const { return std::abs(x); }
};
struct ComplexOp {
  template <class T>
  std::complex<T> operator()(T real, T imag) const { return {real, imag}; }
};

}  // namespace

TENON_CPU_KERNEL(Conj) = CpuUnary<ConjOp, ComplexTypes>("Conj");
TENON_CPU_KERNEL(Real) = CpuConversion<RealOp, ComplexTypes>("Real");
TENON_CPU_KERNEL(Imag) = CpuConversion<ImagOp, ComplexTypes>("Imag");
TENON_CPU_KERNEL(Angle) = CpuConversion<AngleOp, ComplexTypes>("Angle");
TENON_CPU_KERNEL(ComplexAbs) = CpuConversion<ComplexAbsOp, ComplexTypes>("ComplexAbs");
TENON_CPU_KERNEL(Complex) = CpuCompare<ComplexOp, PartTypes>("Complex");

}  // namespace tenon::cpu
