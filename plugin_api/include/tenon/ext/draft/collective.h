/* SPDX-License-Identifier: Apache-2.0 */
/* Draft capability "tenon.collective/1": operations of a group of devices. Not frozen until a real user has passed.
 *
 * A communicator is one member's place in a group: its device and its rank. A collective is one piece of work on a
 * queue of each member; one call gives the work of all members that the caller holds, so that a library that wants them
 * together (ncclGroupStart) gets them together. Calls of one group come in the same order at all members, and one after
 * the other. Work of a collective begins when all members' queues have come to it: queues that come to two collectives
 * in different orders wait for each other for ever.
 *
 * What a failure leaves: the call's submissions were perhaps given in part, and the timelines of all its calls are the
 * caller's to fail; the group is to be aborted. A member whose device is lost keeps the others' queues from going on
 * until the group is aborted. */
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

/* Frozen value: a member that joins. */
typedef struct tenon_collective_place {
  tenon_device* device; /* of this driver; no two of a group are equal */
  int32_t rank;         /* from 0 */
  int32_t reserved;
} tenon_collective_place;

/* Frozen value: one member's part of a collective. */
typedef struct tenon_collective_call {
  tenon_communicator* communicator;
  tenon_queue* queue; /* of the communicator's device */
  const void* source; /* device memory that the work reads when the queue gets there */
  void* target;       /* may be source, but for all_gather */
  const tenon_submission* submission; /* what the work waits for, and what it tells */
} tenon_collective_call;

typedef struct tenon_collective {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span device_type;
  /* A token that all members of a new group share; at most 256 bytes. UNIMPLEMENTED says which library is missing. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*make_token)(tenon_plugin_self* self, char out_token[256], uint64_t* out_size);
  /* Joins `count` of the group's `size` members, and waits for those that join elsewhere until the deadline, an instant
   * of the monotonic clock. UNIMPLEMENTED where the plugin takes all members of a group in one call only (count ==
   * size). */
  TENON_THREAD(any) TENON_OWN(give(out_communicators))
  tenon_status* (*join)(tenon_plugin_self* self, tenon_span token, const tenon_collective_place* places, uint64_t count,
                        int32_t size, uint64_t deadline_ns, tenon_communicator** out_communicators);
  /* When its work is done. */
  TENON_THREAD(any) TENON_OWN(take(communicator)) void (*leave)(tenon_communicator* communicator);
  /* At any time: its work ends, and what it has written is of no account. */
  TENON_THREAD(any) TENON_OWN(take(communicator)) void (*abort)(tenon_communicator* communicator);
  /* target[i] = the sources' [i], reduced; elements: of each source. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*all_reduce)(tenon_plugin_self* self, const tenon_collective_call* calls, uint64_t count,
                              uint64_t elements, uint32_t dtype, uint32_t reduce);
  /* The sources by rank, one after the other, at each target. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*all_gather)(tenon_plugin_self* self, const tenon_collective_call* calls, uint64_t count,
                              uint64_t elements, uint32_t dtype);
  /* The root's source at each target; sources of others are not read. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*broadcast)(tenon_plugin_self* self, const tenon_collective_call* calls, uint64_t count,
                             uint64_t elements, uint32_t dtype, int32_t root);
} tenon_collective;

#ifdef __cplusplus
}
#endif
#endif /* TENON_EXT_DRAFT_COLLECTIVE_H_ */
