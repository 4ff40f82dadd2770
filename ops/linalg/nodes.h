// SPDX-License-Identifier: Apache-2.0
// Nodes that gradients of matrix ops are made of, for stacks of any rank, which need not be known.
#ifndef TENON_OPS_LINALG_NODES_H_
#define TENON_OPS_LINALG_NODES_H_

#include <numeric>
#include <optional>

#include "tenon/sdk/op/op.h"

namespace tenon::ops::linalg {

using sdk::NodeBuilder;
using sdk::Output;

// a b, of which each may be adjoint. One batch, or batches that broadcast.
inline Output Product(NodeBuilder& g, Output a, bool adjoint_a, Output b, bool adjoint_b) {
  return g.Op("BatchMatMulV2", {a, b}, {{"adj_x", adjoint_a}, {"adj_y", adjoint_b}});
}
inline Output Product(NodeBuilder& g, Output a, Output b) { return Product(g, a, false, b, false); }

inline Output Transpose(NodeBuilder& g, Output x) {
  const sdk::Shape shape = g.shape(x);
  if (shape.rank() >= 2) {
    std::vector<int64_t> order(static_cast<size_t>(shape.rank()));
    std::iota(order.begin(), order.end(), 0);
    std::swap(order[order.size() - 2], order.back());
    return g.Op("Transpose", {x, g.Vector(order)});
  }
  const Output rank = g.Op("Rank", {x});
  const Output order = g.Op("Range", {g.Number(0), g.Sub(rank, g.Number(2)), g.Number(1)});
  return g.Op("Transpose", {x, g.Concat({order, g.Sub(rank, g.Vector({1, 2}))})});
}
inline Output Adjoint(NodeBuilder& g, Output x) { return Transpose(g, g.Conj(x)); }

// x between `lower` diagonals below the main one and `upper` above; -1: all.
inline Output Band(NodeBuilder& g, Output x, int64_t lower, int64_t upper) {
  return g.Op("MatrixBandPart", {x, g.Number(lower, TENON_DT_INT64), g.Number(upper, TENON_DT_INT64)});
}
inline Output DiagonalOf(NodeBuilder& g, Output x) { return g.Op("MatrixDiagPart", {x}); }
inline Output WithDiagonal(NodeBuilder& g, Output x, Output diagonal) { return g.Op("MatrixSetDiag", {x, diagonal}); }
inline Output DiagonalMatrix(NodeBuilder& g, Output diagonal) { return g.Op("MatrixDiag", {diagonal}); }
// Of a complex number.
inline Output RealPart(NodeBuilder& g, Output x) {
  return g.Cast(x, g.type(x) == TENON_DT_COMPLEX64 ? TENON_DT_FLOAT : TENON_DT_DOUBLE);
}
inline Output Halved(NodeBuilder& g, Output x) { return g.Mul(x, g.Scalar(0.5, x)); }
// (x + its adjoint) / 2
inline Output HermitianPart(NodeBuilder& g, Output x) { return Halved(g, g.Add(x, Adjoint(g, x))); }

// [begin, end) of dim -1 or -2 of x; without an end to where it ends. begin, end: scalars or vectors of one number.
inline Output Part(NodeBuilder& g, Output x, int dim, std::optional<Output> begin, std::optional<Output> end) {
  const auto bound = [&](std::optional<Output> at) {
    std::vector<Output> parts = {g.Vector({0}), at.has_value() ? g.Reshape(*at, g.Vector({1})) : g.Vector({0})};
    if (dim == -2) parts.push_back(g.Vector({0}));
    return g.Concat(parts);
  };
  const bool inner = dim == -2;
  return g.Op("StridedSlice", {x, bound(begin), bound(end), inner ? g.Vector({1, 1, 1}) : g.Vector({1, 1})},
              {{"ellipsis_mask", 1},
               {"begin_mask", (inner ? 4 : 0) | (begin.has_value() ? 0 : 2)},
               {"end_mask", (inner ? 4 : 0) | (end.has_value() ? 0 : 2)}});
}
// The size of dim -1 or -2 of x, a vector of one number.
inline Output SizeOf(NodeBuilder& g, Output x, int dim) {
  const int64_t known = g.shape(x)[dim];
  if (known >= 0) return g.Vector({known});
  return dim == -1 ? g.VectorSlice(g.ShapeOf(x), -1) : g.VectorSlice(g.ShapeOf(x), -2, -1);
}

// x / (x^2 + a little): 0 where x is 0, as TensorFlow's gradients of decompositions have it for equal eigenvalues.
inline Output SafeReciprocal(NodeBuilder& g, Output x) { return g.Div(x, g.Add(g.Mul(x, x), g.Scalar(1e-20, x))); }

// 1 / (e[j] - e[i]) at [i, j], 0 on the diagonal.
inline Output ReciprocalGaps(NodeBuilder& g, Output e) {
  const Output gaps = g.Sub(g.ExpandDims(e, -2), g.ExpandDims(e, -1));
  return WithDiagonal(g, SafeReciprocal(g, gaps), g.ZerosLike(e));
}

}  // namespace tenon::ops::linalg
#endif  // TENON_OPS_LINALG_NODES_H_
