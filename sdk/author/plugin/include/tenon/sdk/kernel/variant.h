// SPDX-License-Identifier: Apache-2.0
// Variants in kernels: immutable values of the host that hold tensors (tenon/tensor.h).
#ifndef TENON_SDK_KERNEL_VARIANT_H_
#define TENON_SDK_KERNEL_VARIANT_H_

#include "tenon/sdk/kernel/kernel.h"

namespace tenon::sdk {

// The variant in cell `cell` of an input, which a reference of the input's holds: it lives as long as the frame, unless
// it is retained. nullptr when the cell is empty. cell is not checked.
inline const tenon_variant* VariantOf(const tenon_tensor_view& view, int64_t cell = 0) {
  return Data<tenon_variant* const>(view)[cell];
}

// Output `index`, named in dynamic_outputs, as a scalar of one variant, whose reference is taken over, also when this
// fails.
inline void SetVariant(const RunContext& c, int32_t index, tenon_variant* taken) {
  try {
    c.AllocOutput(index, Dims());
  } catch (...) {
    c.services().variant_release(taken);
    throw;
  }
  *c.output<tenon_variant*>(index) = taken;
}

}  // namespace tenon::sdk
#endif  // TENON_SDK_KERNEL_VARIANT_H_
