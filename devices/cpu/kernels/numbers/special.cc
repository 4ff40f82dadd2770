// SPDX-License-Identifier: Apache-2.0
// Special functions of gamma, beta, zeta, the normal distribution and Bessel: Eigen's, which are Cephes', where it has
// them.
#include <cmath>

// Then Eigen takes the logarithm of gamma that writes its sign to no variable of the whole process.
#define _BSD_SOURCE  // NOLINT
#include <unsupported/Eigen/SpecialFunctions>

#include <algorithm>
#include <limits>

#include "kernels/elementwise/elementwise.h"
#include "tenon/extras/kernel/integrals.h"

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
TENON_CPU_SPECIAL(Erfinv, T(sdk::integrals::Erfinv<double>(x, CentralQuantile(x) / std::numbers::sqrt2)))
TENON_CPU_SPECIAL(Dawsn, T(sdk::integrals::Dawson<double>(x)))
TENON_CPU_SPECIAL(Expint, T(sdk::integrals::Expint<double>(x)))
TENON_CPU_SPECIAL(Spence, T(sdk::integrals::Spence<double>(x)))
TENON_CPU_SPECIAL(FresnelSin, T(sdk::integrals::Fresnel<double>(x).sine))
TENON_CPU_SPECIAL(FresnelCos, T(sdk::integrals::Fresnel<double>(x).cosine))
#undef TENON_CPU_SPECIAL

// What Eigen has vectors of, block by block, each of them whole: its lanes know nothing of each other, so that where a
// share begins changes nothing.
template <class Op>
struct ArrayKernel {
  void Run(sdk::RunContext c) const {
    Reals::Dispatch(c.output_view(0).dtype, [&]<class T>(Tag<T>) {
      const T* x = c.input<T>(0);
      T* out = c.output<T>(0);
      c.ParallelFor(sdk::Count(c.output_view(0)), 3, [x, out](int64_t begin, int64_t end) {
        using Block = Eigen::Array<Wide<T>, kBlock, 1>;
        for (int64_t i = begin; i < end; i += kBlock) {
          const int64_t n = std::min(kBlock, end - i);
          Block given;
          FillBlock(x + i, 1, n, given.data());
          const Block found = Op::Of(given);
          if constexpr (kIsHalf<T>) {
            FromFloats(found.data(), out + i, n);
          } else {
            std::copy_n(found.data(), n, out + i);
          }
        }
      });
    });
  }
};
template <class Op>
constexpr tenon_kernel_registration CpuArray(std::string_view op) {
  return CpuKernel<ArrayKernel<Op>>(
      op, {.constraints = sdk::Constraints<Reals::Constraint<"T">>::list, .in_place = kInPlaceFirst});
}
#define TENON_CPU_ARRAY(Name, expression)    \
  struct Name##Op {                          \
    template <class Block>                   \
    [[gnu::flatten]] static Block Of(const Block& x) { return expression; } \
  };
TENON_CPU_ARRAY(BesselI0, Eigen::bessel_i0(x))
TENON_CPU_ARRAY(BesselI0e, Eigen::bessel_i0e(x))
TENON_CPU_ARRAY(BesselI1, Eigen::bessel_i1(x))
TENON_CPU_ARRAY(BesselI1e, Eigen::bessel_i1e(x))
TENON_CPU_ARRAY(BesselJ0, Eigen::bessel_j0(x))
TENON_CPU_ARRAY(BesselJ1, Eigen::bessel_j1(x))
TENON_CPU_ARRAY(BesselY0, Eigen::bessel_y0(x))
TENON_CPU_ARRAY(BesselY1, Eigen::bessel_y1(x))
TENON_CPU_ARRAY(BesselK0, Eigen::bessel_k0(x))
TENON_CPU_ARRAY(BesselK0e, Eigen::bessel_k0e(x))
TENON_CPU_ARRAY(BesselK1, Eigen::bessel_k1(x))
TENON_CPU_ARRAY(BesselK1e, Eigen::bessel_k1e(x))
#undef TENON_CPU_ARRAY
struct NdtriOp {
  template <class Block>
  static Block Of(const Block& x) {
    Block found = x.ndtri();
    for (int64_t k = 0; k < kBlock; ++k)
      found[k] = (x[k] >= 0) & (x[k] <= 1) ? found[k] : std::numeric_limits<typename Block::Scalar>::quiet_NaN();
    return found;
  }
};

// x as it is, but where Eigen turns it into a whole number of 64 bits, to see whether it is even, no larger than those
// go: it is even there.
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
  if (x == std::numeric_limits<T>::infinity() && n >= 1 && n == std::floor(n))
    return std::fmod(n, T(2)) == 0 ? -T(0) : T(0);
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
          sdk::Fail(TENON_INVALID_ARGUMENT, "input ", i, " of shape ", dims,
                    " is no scalar, and does not have the shape ", sdk::DimsOf(c.output(0)));
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
TENON_CPU_KERNEL(Ndtri) = CpuArray<NdtriOp>("Ndtri");
TENON_CPU_KERNEL(Erfinv) = CpuUnary<ErfinvOp, Reals>("Erfinv");
TENON_CPU_KERNEL(Dawsn) = CpuUnary<DawsnOp, Reals>("Dawsn");
TENON_CPU_KERNEL(Expint) = CpuUnary<ExpintOp, Reals>("Expint");
TENON_CPU_KERNEL(Spence) = CpuUnary<SpenceOp, Reals>("Spence");
TENON_CPU_KERNEL(FresnelSin) = CpuUnary<FresnelSinOp, Reals>("FresnelSin");
TENON_CPU_KERNEL(FresnelCos) = CpuUnary<FresnelCosOp, Reals>("FresnelCos");
TENON_CPU_KERNEL(BesselI0) = CpuArray<BesselI0Op>("BesselI0");
TENON_CPU_KERNEL(BesselI0e) = CpuArray<BesselI0eOp>("BesselI0e");
TENON_CPU_KERNEL(BesselI1) = CpuArray<BesselI1Op>("BesselI1");
TENON_CPU_KERNEL(BesselI1e) = CpuArray<BesselI1eOp>("BesselI1e");
TENON_CPU_KERNEL(BesselJ0) = CpuArray<BesselJ0Op>("BesselJ0");
TENON_CPU_KERNEL(BesselJ1) = CpuArray<BesselJ1Op>("BesselJ1");
TENON_CPU_KERNEL(BesselY0) = CpuArray<BesselY0Op>("BesselY0");
TENON_CPU_KERNEL(BesselY1) = CpuArray<BesselY1Op>("BesselY1");
TENON_CPU_KERNEL(BesselK0) = CpuArray<BesselK0Op>("BesselK0");
TENON_CPU_KERNEL(BesselK0e) = CpuArray<BesselK0eOp>("BesselK0e");
TENON_CPU_KERNEL(BesselK1) = CpuArray<BesselK1Op>("BesselK1");
TENON_CPU_KERNEL(BesselK1e) = CpuArray<BesselK1eOp>("BesselK1e");
TENON_CPU_KERNEL(Polygamma) = CpuBinary<PolygammaOp, Plain>("Polygamma");
TENON_CPU_KERNEL(Zeta) = CpuBinary<ZetaOp, Plain>("Zeta");
TENON_CPU_KERNEL(Igamma) = CpuBinary<IgammaOp, Reals>("Igamma");
TENON_CPU_KERNEL(Igammac) = CpuBinary<IgammacOp, Reals>("Igammac");
TENON_CPU_KERNEL(IgammaGradA) = CpuBinary<IgammaGradAOp, Plain>("IgammaGradA");
TENON_CPU_KERNEL(RandomGammaGrad) = CpuBinary<RandomGammaGradOp, Plain>("RandomGammaGrad");
TENON_CPU_KERNEL(Betainc) = CpuKernel<BetaincKernel>("Betainc",
                                                     {.constraints = sdk::Constraints<Plain::Constraint<"T">>::list});

}  // namespace tenon::cpu
