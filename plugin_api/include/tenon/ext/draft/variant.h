/* SPDX-License-Identifier: Apache-2.0 */
/* Draft capability "tenon.variants/1": types of variants (tensor.h) that are what their metadata and elements say, and
 * nothing besides, so that the host may write them and make them anew in another process: lists of tensors, optionals.
 * Not frozen until a real user has passed.
 *
 * Variants of other types do not leave their process, nor does one that holds an object (kernel.h: variant_hold),
 * whatever its type. */
#ifndef TENON_EXT_DRAFT_VARIANT_H_
#define TENON_EXT_DRAFT_VARIANT_H_

#include "tenon/abi.h"
#include "tenon/ext/draft/layout_hash.h"
#include "tenon/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_CAPABILITY_VARIANTS "tenon.variants/1"

typedef struct tenon_variant_type {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span name; /* as variant_new gets it: "tenon.TensorList" */
  /* Comma-separated ops, of any package, whose outputs of type variant are of such types wherever they are not refused
   * when they run. The host parts such a node from its readers where their device names ask for it; other variants it
   * keeps in one process. */
  tenon_span makers;
  /* Whether these metadata and elements are a value of this type, which kernels then believe: they come from another
   * process, which may say anything. elements [told]: those from `told` on are empty places. Of an element its type,
   * shape and size are there, and no data; type TENON_DT_INVALID: an empty place. A status, which says what is wrong:
   * there is no such value. Quick. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*check)(tenon_plugin_self* self, const tenon_variant_info* info, const tenon_tensor_view* elements,
                         uint64_t told);
} tenon_variant_type;

/* Capability "tenon.variants/1". */
typedef struct tenon_variant_package {
  uint32_t struct_size;
  uint32_t must_understand;
  const tenon_variant_type* const* types; /* [count] */
  uint64_t count;
} tenon_variant_package;

#ifdef __cplusplus
}
#endif
#endif /* TENON_EXT_DRAFT_VARIANT_H_ */
