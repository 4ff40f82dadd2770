// SPDX-License-Identifier: Apache-2.0
// Complex numbers and their parts.
#include "kernels/elementwise.h"

namespace tenon::cpu {
namespace {

using Complex = Types<std::complex<float>, std::complex<double>>;

struct ConjOp {
  template <class T>
  T operator()(T x) const { return std::conj(x); }
};

}  // namespace

TENON_CPU_KERNEL(Conj) = CpuUnary<ConjOp, Complex>("Conj");

}  // namespace tenon::cpu
