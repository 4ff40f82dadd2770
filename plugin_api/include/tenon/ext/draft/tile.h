/* SPDX-License-Identifier: Apache-2.0 */
/* Draft: an element-wise kernel's tile function, so that the planner can fuse chains, third-party ones too.
 *
 * tile() computes n elements; each input is contiguous or one element to broadcast (stride 0); bit-equal to run(). */
#ifndef TENON_EXT_DRAFT_TILE_H_
#define TENON_EXT_DRAFT_TILE_H_

#include "tenon/abi.h"
#include "tenon/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tenon_tile_function {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span op;
  tenon_span device_type;
  TENON_THREAD(any) TENON_OWN(borrow)
  void (*tile)(tenon_kernel* kernel, const tenon_prepared* prepared, const void* const* inputs,
               const int64_t* input_strides, void* const* outputs, int64_t n);
} tenon_tile_function;

#ifdef __cplusplus
}
#endif
#endif /* TENON_EXT_DRAFT_TILE_H_ */
