/* SPDX-License-Identifier: Apache-2.0 */
/* Draft kernel extension "tenon.tile/1": element-wise kernels a piece at a time, so that the host runs a chain of them
 * in one pass over memory.
 *
 * A kernel whose output is, element by element, a function of the elements of its inputs at the same place, which are
 * broadcast as numpy does, says how a piece of it is computed. The host prepares it for the shapes at hand, so that
 * what prepare() refuses is refused, and then takes several such nodes together, anybody's, and computes them piece
 * after piece in memory that stays in the processor's cache: values between them are never written to memory as a
 * whole. The results are run()'s to the bit (of NaNs any is as good as another), whatever pieces the host chooses.
 *
 * Found through tenon_kernel_registration.tile. A host that does not know the id leaves the kernel to run(). */
#ifndef TENON_EXT_DRAFT_TILE_H_
#define TENON_EXT_DRAFT_TILE_H_

#include "tenon/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tenon_kernel;

#define TENON_EXTENSION_TILE "tenon.tile/1" TENON_TEXT_TILE

/* output[i] = f(inputs[0][i * strides[0]], ...) for i in [0, count). A stride is 1, or 0: one element stands for all;
 * one at least is 1. count: at least 1. Pieces that follow one another begin at multiples of 64 elements, and the
 * memory of each is 64-byte aligned where the tensor's is. Tensors of one element are run()'s. The output may be the
 * memory of an input of stride 1 whose elements are as large; else it overlaps none. It cannot fail. argument: as
 * select() gave it. */
typedef TENON_THREAD(any) TENON_OWN(borrow) void (*tenon_tile_function)(const void* argument, const void* const* inputs,
                                                                        const int64_t* strides, void* output,
                                                                        int64_t count);

typedef struct tenon_tile_args {
  uint32_t struct_size;
  uint32_t must_understand;
  const struct tenon_kernel* kernel; /* of the node; NULL where the registration has no create() */
  const uint32_t* input_dtypes;      /* [input_count] TENON_DT_* */
  uint64_t input_count;
  uint32_t output_dtype;
  uint32_t reserved;
  /* Filled by select(). */
  tenon_tile_function out_function; /* NULL: not with these types */
  const void* out_argument;         /* for the function; lives as long as the kernel */
  double out_cost;                  /* rough nanoseconds of an element; 0: a few instructions */
} tenon_tile_args;

typedef struct tenon_tile {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span id; /* TENON_EXTENSION_TILE */
  /* Quick, and without effect. A status means no. */
  TENON_THREAD(any) TENON_OWN(borrow) tenon_status* (*select)(tenon_tile_args* args);
} tenon_tile;

#ifdef __cplusplus
}
#endif
#endif /* TENON_EXT_DRAFT_TILE_H_ */
