// SPDX-License-Identifier: Apache-2.0
// Complex types and the real ones of their parts.
#ifndef TENON_OPS_MATH_PARTS_H_
#define TENON_OPS_MATH_PARTS_H_

#include "tenon/sdk/op/op.h"

namespace tenon::ops {

inline uint32_t ComplexOf(uint32_t real) { return real == TENON_DT_DOUBLE ? TENON_DT_COMPLEX128 : TENON_DT_COMPLEX64; }
inline uint32_t RealOf(uint32_t complex) { return complex == TENON_DT_COMPLEX128 ? TENON_DT_DOUBLE : TENON_DT_FLOAT; }

// INVALID_ARGUMENT unless the two types are of one width: TensorFlow has no kernel for others.
inline void CheckParts(sdk::ShapeContext& c, uint32_t real, uint32_t complex) {
  if (ComplexOf(real) == complex) return;
  c.Invalid("the types ", sdk::TypeName(real), " and ", sdk::TypeName(complex),
            " do not go together: complex64 is of float, complex128 of double");
}

}  // namespace tenon::ops

#endif  // TENON_OPS_MATH_PARTS_H_
