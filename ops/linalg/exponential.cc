// SPDX-License-Identifier: Apache-2.0
// MatrixExponential.
#include <Eigen/LU>
#include <unsupported/Eigen/MatrixFunctions>

#include "matrix.h"

namespace tenon::ops {
using namespace sdk;
using namespace linalg;

namespace {

struct Exponential {
  void Run(RunContext c) const {
    const Stack stack = Stack::OfSquare(c.input_view(0));
    if (stack.size() == 0) return;
    Stored::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      ForEachMatrix(c, stack.count, 3 * stack.rows, [&](int64_t i) {
        const PreciseMatrix<T> matrix = LoadPrecise<T>(c, 0, stack, i);
        T* const out = c.output<T>(0) + i * stack.size();
        // How often it is halved is counted by a norm, which must be one.
        if (!matrix.allFinite()) std::fill_n(out, stack.size(), T(std::numeric_limits<RealOf<T>>::quiet_NaN()));
        else StorePrecise(PreciseMatrix<T>(matrix.exp()), out);
      });
    });
  }
};

}  // namespace

TENON_KERNEL(kMatrixExponentialKernel) =
    Registration<Exponential>("MatrixExponential", {.constraints = Constraints<Stored::Constraint<"T">>::list});

TENON_OP(kMatrixExponential) = DefineOp({
    .name = "MatrixExponential",
    .inputs = "input: T",
    .outputs = "output: T",
    .attrs = "T: {double, float, half, complex64, complex128}",
    .constraints = "rank(input) >= 2; dim(input, -1) == dim(input, -2)",
    .doc = "1 + x + x x / 2! + x x x / 3! and so on of square matrices.",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<SameSquareShape>,
    .deprecated_at = 27,
    .deprecation = "Use Python implementation tf.linalg.matrix_exponential instead.",
});

}  // namespace tenon::ops
