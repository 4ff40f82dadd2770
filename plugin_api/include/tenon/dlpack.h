/* SPDX-License-Identifier: Apache-2.0 */
/* DLPack's managed tensors, which carry memory and its owner from one library to another (DLPack 1.0,
 * dmlc.github.io/dlpack).
 *
 * The receiver calls deleter(self) once, from any thread, when it needs the memory no more; NULL: nothing to do. The
 * layouts are DLPack's own, so that a pointer from numpy, PyTorch or JAX may be cast to them, and back. */
#ifndef TENON_DLPACK_H_
#define TENON_DLPACK_H_

#include "tenon/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Frozen value: DLManagedTensor, what a "dltensor" capsule holds. */
typedef struct tenon_dl_managed_tensor {
  tenon_dl_tensor dl_tensor;
  void* manager_ctx;
  TENON_THREAD(any) TENON_OWN(take(self)) void (*deleter)(struct tenon_dl_managed_tensor* self);
} tenon_dl_managed_tensor;

#define TENON_DLPACK_MAJOR 1u
#define TENON_DLPACK_READ_ONLY 1u /* flags: the memory may not be written */
#define TENON_DLPACK_IS_COPIED 2u

/* Frozen value: DLManagedTensorVersioned, what a "dltensor_versioned" capsule holds. */
typedef struct tenon_dl_managed_tensor_versioned {
  uint32_t version_major;
  uint32_t version_minor;
  void* manager_ctx;
  TENON_THREAD(any) TENON_OWN(take(self)) void (*deleter)(struct tenon_dl_managed_tensor_versioned* self);
  uint64_t flags;
  tenon_dl_tensor dl_tensor;
} tenon_dl_managed_tensor_versioned;

#ifdef __cplusplus
}
#endif
#endif /* TENON_DLPACK_H_ */
