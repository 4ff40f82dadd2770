// SPDX-License-Identifier: Apache-2.0
// Special functions, and the kernels that have them: <Op>_<type>.
#ifndef TENON_DEVICES_GPU_CODE_SPECIAL_H_
#define TENON_DEVICES_GPU_CODE_SPECIAL_H_

#include <cstdint>

#include "code/elementwise.h"

namespace tenon::gpu {

// X(op's name). Those of one tensor take UnaryParams, those of two BinaryParams.
#define TENON_GPU_SPECIAL_OF_ONE(X)                                                                                 \
  X(Lgamma)                                                                                                         \
  X(Digamma) X(Ndtri) X(Erfinv) X(Dawsn) X(Expint) X(Spence) X(FresnelSin) X(FresnelCos) X(BesselI0) X(BesselI0e)   \
      X(BesselI1) X(BesselI1e) X(BesselJ0) X(BesselJ1) X(BesselY0) X(BesselY1) X(BesselK0) X(BesselK0e) X(BesselK1) \
          X(BesselK1e)
#define TENON_GPU_SPECIAL_OF_TWO(X) X(Igamma) X(Igammac)                               // of all floats
#define TENON_GPU_SPECIAL_OF_TWO_WIDE(X) X(Polygamma) X(Zeta) X(IgammaGradA) X(RandomGammaGrad)  // of float and double

// out[i] = op(x[0][..], x[1][..], x[2][..]): each of `count` elements (a step of 1), or of one (0).
struct TernaryParams {
  const void* x[3];
  int64_t steps[3];
  void* out;
  int64_t count;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_SPECIAL_H_
