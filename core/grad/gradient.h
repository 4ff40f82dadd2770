// SPDX-License-Identifier: Apache-2.0
// A gradient as op functions give and take it, and what is asked of one.
#ifndef TENON_CORE_GRAD_GRADIENT_H_
#define TENON_CORE_GRAD_GRADIENT_H_

#include "core/graph/builder.h"
#include "core/tensor/dtype.h"
#include "tenon/op.h"

namespace tenon::grad {

inline constexpr tenon_gradient kNoGradient = {TENON_GRADIENT_NONE, 0, {-1, 0, 0}, {-1, 0, 0}, {-1, 0, 0}};
inline constexpr tenon_gradient kZeroGradient = {TENON_GRADIENT_ZERO, 0, {-1, 0, 0}, {-1, 0, 0}, {-1, 0, 0}};

inline tenon_gradient Dense(graph::Edge edge) {
  return {TENON_GRADIENT_DENSE, 0, graph::ToC(edge), {-1, 0, 0}, {-1, 0, 0}};
}

// Whether there is a value: zero is none.
inline bool HasValue(const tenon_gradient& gradient) {
  return gradient.kind == TENON_GRADIENT_DENSE || gradient.kind == TENON_GRADIENT_SLICES;
}

// Whether values of the type may have gradients: a variant has one of its elements'.
inline bool MayCarry(DType dtype) { return IsFloating(dtype) || BaseType(dtype) == TENON_DT_VARIANT; }

}  // namespace tenon::grad

#endif  // TENON_CORE_GRAD_GRADIENT_H_
