// SPDX-License-Identifier: Apache-2.0
// Cross: products of vectors in space.
#include "matrix.h"

namespace tenon::ops {
using namespace sdk;
using namespace linalg;

namespace {

// Whole numbers wrap around; halves are rounded after each step, as TensorFlow's are.
template <class T>
T Difference(T a, T b, T c, T d) {
  if constexpr (std::is_integral_v<T>) {
    const auto wide = [](T value) { return static_cast<uint64_t>(value); };
    return static_cast<T>(wide(a) * wide(b) - wide(c) * wide(d));
  } else {
    using Real = sdk::Wide<T>;
    const auto product = [](T x, T y) { return static_cast<Real>(T(static_cast<Real>(x) * static_cast<Real>(y))); };
    return T(product(a, b) - product(c, d));
  }
}

struct CrossKernel {
  void Run(RunContext c) const {
    const Dims dims = DimsOf(c.input_view(0)), others = DimsOf(c.input_view(1));
    if (!std::equal(dims.begin(), dims.end(), others.begin(), others.end()))
      Fail(TENON_INVALID_ARGUMENT, "both inputs must be of same shape; they are ", dims, " and ", others);
    if (dims.empty() || dims.back() != 3)
      Fail(TENON_INVALID_ARGUMENT, "cross-products are only defined for 3-element vectors; the shape is ", dims);
    Numbers::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      c.ParallelFor(Count(dims) / 3, 4, [&](int64_t begin, int64_t end) {
        for (int64_t i = 3 * begin; i < 3 * end; i += 3) {
          const T *a = c.input<T>(0) + i, *b = c.input<T>(1) + i;
          const T product[] = {Difference(a[1], b[2], a[2], b[1]), Difference(a[2], b[0], a[0], b[2]),
                               Difference(a[0], b[1], a[1], b[0])};
          std::copy_n(product, 3, c.output<T>(0) + i);
        }
      });
    });
  }
};

void CrossShape(ShapeContext& c) {
  const Shape shape = c.Merge(c.WithRankAtLeast(0, 1), c.WithRankAtLeast(1, 1), "the shapes of a and b");
  c.Merge(shape[-1], 3, "the elements of a vector and 3");
  c.SetOutput(0, shape);
}

void CrossGradient(GradientContext& g) {
  g.SetDx(0, g.Op("Cross", {g.input(1), g.dy(0)}));
  g.SetDx(1, g.Op("Cross", {g.dy(0), g.input(0)}));
}

}  // namespace

TENON_KERNEL(kCrossKernel) = Registration<CrossKernel>("Cross",
                                                       {.constraints = Constraints<Numbers::Constraint<"T">>::list});

TENON_OP(kCross) = DefineOp({
    .name = "Cross",
    .inputs = "a: T, b: T",
    .outputs = "product: T",
    .attrs = "T: realnumbertype",
    .constraints = "rank(a) >= 1; rank(b) == rank(a); dim(a, -1) == 3",
    .doc = "The cross products of vectors of three numbers, which are the last dims of both.",
    .shape = ShapeFunction<CrossShape>,
    .gradient = GradientFunction<CrossGradient>,
});

}  // namespace tenon::ops
