// SPDX-License-Identifier: Apache-2.0
// Special functions of gamma, beta, zeta, the normal distribution and Bessel: Eigen's, which are Cephes', where it has them.
#include <cmath>

// Then Eigen takes the logarithm of gamma that writes its sign to no variable of the whole process.
#define _BSD_SOURCE  // NOLINT
#include <unsupported/Eigen/SpecialFunctions>

#include <algorithm>
#include <limits>

#include "kernels/elementwise.h"
#include "tenon/sdk/kernel/integrals.h"

namespace tenon::cpu {
namespace {

template <class T>
T Quantile(T x) {
  return x >= 0 && x <= 1 ? Eigen::numext::ndtri(x) : std::numeric_limits<T>::quiet_NaN();
}
// Of (1 + x) / 2, exact near both ends.
double CentralQuantile(double x) { return x < 0 ? Quantile((1 + x) / 2) : -Quantile((1 - x) / 2); }

#define TENON_CPU_SPECIAL(Name, expression)     \
  struct Name##Op {                             \
    static constexpr double kCost = 20;         \
    template <class T>                          \
    T operator()(T x) const { return expression; } \
  };
TENON_CPU_SPECIAL(Lgamma, Eigen::numext::lgamma(x))
TENON_CPU_SPECIAL(Digamma, Eigen::numext::digamma(x))
TENON_CPU_SPECIAL(Ndtri, Quantile(x))
TENON_CPU_SPECIAL(Erfinv, T(sdk::integrals::Erfinv<double>(x, CentralQuantile(x) / std::numbers::sqrt2)))
TENON_CPU_SPECIAL(Dawsn, T(sdk::integrals::Dawson<double>(x)))
TENON_CPU_SPECIAL(Expint, T(sdk::integrals::Expint<double>(x)))
TENON_CPU_SPECIAL(Spence, T(sdk::integrals::Spence<double>(x)))
TENON_CPU_SPECIAL(FresnelSin, T(sdk::integrals::Fresnel<double>(x).sine))
TENON_CPU_SPECIAL(FresnelCos, T(sdk::integrals::Fresnel<double>(x).cosine))
TENON_CPU_SPECIAL(BesselI0, Eigen::numext::bessel_i0(x))
TENON_CPU_SPECIAL(BesselI0e, Eigen::numext::bessel_i0e(x))
TENON_CPU_SPECIAL(BesselI1, Eigen::numext::bessel_i1(x))
TENON_CPU_SPECIAL(BesselI1e, Eigen::numext::bessel_i1e(x))
TENON_CPU_SPECIAL(BesselJ0, Eigen::numext::bessel_j0(x))
TENON_CPU_SPECIAL(BesselJ1, Eigen::numext::bessel_j1(x))
TENON_CPU_SPECIAL(BesselY0, Eigen::numext::bessel_y0(x))
TENON_CPU_SPECIAL(BesselY1, Eigen::numext::bessel_y1(x))
TENON_CPU_SPECIAL(BesselK0, Eigen::numext::bessel_k0(x))
TENON_CPU_SPECIAL(BesselK0e, Eigen::numext::bessel_k0e(x))
TENON_CPU_SPECIAL(BesselK1, Eigen::numext::bessel_k1(x))
TENON_CPU_SPECIAL(BesselK1e, Eigen::numext::bessel_k1e(x))
#undef TENON_CPU_SPECIAL

// x as it is, but where Eigen turns it into a whole number of 64 bits, to see whether it is even, no larger than those go: it is even there.
template <class T>
T Countable(T x, T q) {
  return q <= 0 && x > T(0x1p62) ? T(0x1p62) : x;
}
// Sums of nothing but zeros are 0, where Eigen says NaN.
template <class T>
T ZetaOf(T x, T q) {
  return q == std::numeric_limits<T>::infinity() && x > 1 ? T(0) : Eigen::numext::zeta(Countable(x, q), q);
}
template <class T>
T PolygammaOf(T n, T x) {
  if (x == std::numeric_limits<T>::infinity() && n >= 1 && n == std::floor(n)) return std::fmod(n, T(2)) == 0 ? -T(0) : T(0);
  return Eigen::numext::polygamma(Countable(n, x), x);
}

#define TENON_CPU_SPECIAL(Name, expression)          \
  struct Name##Op {                                  \
    static constexpr double kCost = 500;             \
    template <class T>                               \
    T operator()(T a, T x) const { return expression; } \
  };
TENON_CPU_SPECIAL(Polygamma, PolygammaOf(a, x))
TENON_CPU_SPECIAL(Zeta, ZetaOf(a, x))
TENON_CPU_SPECIAL(Igamma, Eigen::numext::igamma(a, x))
TENON_CPU_SPECIAL(Igammac, Eigen::numext::igammac(a, x))
TENON_CPU_SPECIAL(IgammaGradA, Eigen::numext::igamma_der_a(a, x))
TENON_CPU_SPECIAL(RandomGammaGrad, Eigen::numext::gamma_sample_der_alpha(a, x))
#undef TENON_CPU_SPECIAL

using Plain = Types<float, double>;

// (a, b, x): scalars, or of one shape.
struct BetaincKernel {
  struct Plan {
    Plan(const BetaincKernel&, sdk::PrepareContext& c) : count(sdk::Count(c.output(0))) {
      for (int i = 0; i < 3; ++i) {
        const sdk::Dims dims = sdk::DimsOf(c.input(i));
        if (!dims.empty() && !std::ranges::equal(dims, sdk::DimsOf(c.output(0)))) {
          sdk::Fail(TENON_INVALID_ARGUMENT, "input ", i, " of shape ", dims, " is no scalar, and does not have the shape ", sdk::DimsOf(c.output(0)));
        }
        step[i] = dims.empty() ? 0 : 1;
      }
    }
    int64_t count;
    int64_t step[3];
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    Plain::Dispatch(c.output_view(0).dtype, [&]<class T>(Tag<T>) {
      c.ParallelFor(plan.count, 1000, [&](int64_t begin, int64_t end) {
        const auto at = [&](int input, int64_t i) { return c.input<T>(input)[i * plan.step[input]]; };
        for (int64_t i = begin; i < end; ++i) c.output<T>(0)[i] = Eigen::numext::betainc(at(0, i), at(1, i), at(2, i));
      });
    });
  }
};

}  // namespace

TENON_CPU_KERNEL(Lgamma) = CpuUnary<LgammaOp, Reals>("Lgamma");
TENON_CPU_KERNEL(Digamma) = CpuUnary<DigammaOp, Reals>("Digamma");
TENON_CPU_KERNEL(Ndtri) = CpuUnary<NdtriOp, Reals>("Ndtri");
TENON_CPU_KERNEL(Erfinv) = CpuUnary<ErfinvOp, Reals>("Erfinv");
TENON_CPU_KERNEL(Dawsn) = CpuUnary<DawsnOp, Reals>("Dawsn");
TENON_CPU_KERNEL(Expint) = CpuUnary<ExpintOp, Reals>("Expint");
TENON_CPU_KERNEL(Spence) = CpuUnary<SpenceOp, Reals>("Spence");
TENON_CPU_KERNEL(FresnelSin) = CpuUnary<FresnelSinOp, Reals>("FresnelSin");
TENON_CPU_KERNEL(FresnelCos) = CpuUnary<FresnelCosOp, Reals>("FresnelCos");
TENON_CPU_KERNEL(BesselI0) = CpuUnary<BesselI0Op, Reals>("BesselI0");
TENON_CPU_KERNEL(BesselI0e) = CpuUnary<BesselI0eOp, Reals>("BesselI0e");
TENON_CPU_KERNEL(BesselI1) = CpuUnary<BesselI1Op, Reals>("BesselI1");
TENON_CPU_KERNEL(BesselI1e) = CpuUnary<BesselI1eOp, Reals>("BesselI1e");
TENON_CPU_KERNEL(BesselJ0) = CpuUnary<BesselJ0Op, Reals>("BesselJ0");
TENON_CPU_KERNEL(BesselJ1) = CpuUnary<BesselJ1Op, Reals>("BesselJ1");
TENON_CPU_KERNEL(BesselY0) = CpuUnary<BesselY0Op, Reals>("BesselY0");
TENON_CPU_KERNEL(BesselY1) = CpuUnary<BesselY1Op, Reals>("BesselY1");
TENON_CPU_KERNEL(BesselK0) = CpuUnary<BesselK0Op, Reals>("BesselK0");
TENON_CPU_KERNEL(BesselK0e) = CpuUnary<BesselK0eOp, Reals>("BesselK0e");
TENON_CPU_KERNEL(BesselK1) = CpuUnary<BesselK1Op, Reals>("BesselK1");
TENON_CPU_KERNEL(BesselK1e) = CpuUnary<BesselK1eOp, Reals>("BesselK1e");
TENON_CPU_KERNEL(Polygamma) = CpuBinary<PolygammaOp, Plain>("Polygamma");
TENON_CPU_KERNEL(Zeta) = CpuBinary<ZetaOp, Plain>("Zeta");
TENON_CPU_KERNEL(Igamma) = CpuBinary<IgammaOp, Reals>("Igamma");
TENON_CPU_KERNEL(Igammac) = CpuBinary<IgammacOp, Reals>("Igammac");
TENON_CPU_KERNEL(IgammaGradA) = CpuBinary<IgammaGradAOp, Plain>("IgammaGradA");
TENON_CPU_KERNEL(RandomGammaGrad) = CpuBinary<RandomGammaGradOp, Plain>("RandomGammaGrad");
TENON_CPU_KERNEL(Betainc) = CpuKernel<BetaincKernel>("Betainc", {.constraints = sdk::Constraints<Plain::Constraint<"T">>::list});

}  // namespace tenon::cpu
