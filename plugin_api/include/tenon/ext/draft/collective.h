/* SPDX-License-Identifier: Apache-2.0 */
/* Draft capability "tenon.collective/1": operations of a group of devices. Not frozen until a real user has passed. */
#ifndef TENON_EXT_DRAFT_COLLECTIVE_H_
#define TENON_EXT_DRAFT_COLLECTIVE_H_

#include "tenon/abi.h"
#include "tenon/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tenon_communicator tenon_communicator; /* opaque */

#define TENON_REDUCE_SUM 0u
#define TENON_REDUCE_PRODUCT 1u
#define TENON_REDUCE_MIN 2u
#define TENON_REDUCE_MAX 3u

typedef struct tenon_collective {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span device_type;
  /* A token that all members of a new group share; at most 256 bytes. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*make_token)(tenon_plugin_self* self, char out_token[256], uint64_t* out_size);
  TENON_THREAD(any) TENON_OWN(give(out_communicator))
  tenon_status* (*join)(tenon_plugin_self* self, tenon_device* device, tenon_span token, int32_t rank, int32_t size,
                        uint64_t deadline_ns, tenon_communicator** out_communicator);
  TENON_THREAD(any) TENON_OWN(take(communicator)) void (*leave)(tenon_communicator* communicator);
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*all_reduce)(tenon_communicator* communicator, tenon_queue* queue, const void* source, void* target,
                              uint64_t count, uint32_t dtype, uint32_t reduce);
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*all_gather)(tenon_communicator* communicator, tenon_queue* queue, const void* source, void* target,
                              uint64_t count, uint32_t dtype);
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*broadcast)(tenon_communicator* communicator, tenon_queue* queue, void* data, uint64_t count,
                             uint32_t dtype, int32_t root);
} tenon_collective;

#ifdef __cplusplus
}
#endif
#endif /* TENON_EXT_DRAFT_COLLECTIVE_H_ */
