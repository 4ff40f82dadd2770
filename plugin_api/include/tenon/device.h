/* SPDX-License-Identifier: Apache-2.0 */
/* Devices: memory, queues and timelines of one device type.
 *
 * A driver enumerates devices of its type. Memory has kinds (device memory, pinned host memory, ...). Work is
 * submitted to queues, in order within one queue; a timeline semaphore counts up, and work waits for and signals
 * points on it. A submission that fails poisons the points that it would have signalled: waiting for them gives its
 * status. Only a lost device fails everything (UNAVAILABLE from every call).
 *
 * A synchronous device (the CPU) has no queues: every queue function is NULL and kernels are done when run() returns.
 */
#ifndef TENON_DEVICE_H_
#define TENON_DEVICE_H_

#include "tenon/abi.h"
#include "tenon/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tenon_device tenon_device;       /* opaque, the driver's */
typedef struct tenon_queue tenon_queue;         /* opaque, the driver's */
typedef struct tenon_semaphore tenon_semaphore; /* opaque, the driver's */

/* Frozen value: the point `value` on a timeline. */
typedef struct tenon_timeline_point {
  tenon_semaphore* semaphore;
  uint64_t value;
} tenon_timeline_point;

typedef struct tenon_device_properties {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span name; /* of the model, for people */
  int32_t dl_device_type; /* DLPack's device type */
  int32_t dl_device_id;
  uint32_t synchronous; /* 1: no queues */
  uint32_t memory_kind_count;
  double flops;            /* peak, per second, float32; 0 unknown */
  double bytes_per_second; /* of its memory; 0 unknown */
} tenon_device_properties;

#define TENON_MEMORY_HOST_VISIBLE 1u /* the host may read and write it by address */
#define TENON_MEMORY_PREFAULTED 2u   /* the first touch is not a page fault */

typedef struct tenon_memory_kind {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span name;
  uint64_t alignment;
  uint64_t total_bytes; /* 0: unknown */
  uint32_t flags;       /* TENON_MEMORY_* */
  uint32_t reserved;
} tenon_memory_kind;

typedef struct tenon_copy_args {
  uint32_t struct_size;
  uint32_t must_understand;
  const void* source;
  void* target;
  uint64_t bytes;
  uint32_t source_kind; /* memory kind of this device; UINT32_MAX: ordinary host memory */
  uint32_t target_kind;
  const tenon_timeline_point* waits; /* [wait_count] */
  uint64_t wait_count;
  const tenon_timeline_point* signals; /* [signal_count] */
  uint64_t signal_count;
} tenon_copy_args;

/* Capability "tenon.device/1". */
typedef struct tenon_device_driver {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span device_type; /* "CPU", "TPU", ... */
  int32_t priority;       /* among device types that can run a node */
  uint32_t reserved;

  /* How many devices there are; 0 with a NULL status is an answer, a status says why there are none. */
  TENON_THREAD(any) TENON_OWN(borrow) tenon_status* (*count)(tenon_plugin_self* self, uint32_t* out_count);
  TENON_THREAD(any) TENON_OWN(give(out_device))
  tenon_status* (*open)(tenon_plugin_self* self, uint32_t index, tenon_device** out_device);
  TENON_THREAD(any) TENON_OWN(take(device)) void (*close)(tenon_device* device);
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*properties)(tenon_device* device, tenon_device_properties* out_properties);
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*memory_kind)(tenon_device* device, uint32_t index, tenon_memory_kind* out_kind);

  /* Allocates; with a queue the memory may be used by work submitted to it from now on. */
  TENON_THREAD(any) TENON_OWN(give(out_data))
  tenon_status* (*allocate)(tenon_device* device, uint32_t kind, uint64_t bytes, uint64_t alignment, tenon_queue* queue,
                            void** out_data);
  /* Frees; with a queue after the work submitted to it so far. */
  TENON_THREAD(any) TENON_OWN(take(data))
  void (*free)(tenon_device* device, uint32_t kind, void* data, uint64_t bytes, tenon_queue* queue);
  /* Host address of device memory until unmap; NULL function: not mappable. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*map)(tenon_device* device, uint32_t kind, void* data, uint64_t bytes, void** out_address);
  TENON_THREAD(any) TENON_OWN(borrow)
  void (*unmap)(tenon_device* device, uint32_t kind, void* data, uint64_t bytes, void* address);

  TENON_THREAD(any) TENON_OWN(give(out_queue))
  tenon_status* (*queue_create)(tenon_device* device, int32_t priority, tenon_queue** out_queue);
  TENON_THREAD(any) TENON_OWN(take(queue)) void (*queue_destroy)(tenon_queue* queue);
  TENON_THREAD(any) TENON_OWN(borrow) tenon_status* (*queue_copy)(tenon_queue* queue, const tenon_copy_args* args);
  /* Fills with a repeated pattern of 1, 2, 4, 8 or 16 bytes. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*queue_fill)(tenon_queue* queue, void* target, uint32_t kind, uint64_t bytes, const void* pattern,
                              uint64_t pattern_bytes, const tenon_timeline_point* signals, uint64_t signal_count);
  /* An empty piece of work that waits and signals. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*queue_barrier)(tenon_queue* queue, const tenon_timeline_point* waits, uint64_t wait_count,
                                 const tenon_timeline_point* signals, uint64_t signal_count);
  /* Calls back on a thread of the driver when the queue gets there. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*queue_host_call)(tenon_queue* queue, void (*function)(void* argument, tenon_status* status),
                                   void* argument);

  TENON_THREAD(any) TENON_OWN(give(out_semaphore))
  tenon_status* (*semaphore_create)(tenon_device* device, uint64_t initial, tenon_semaphore** out_semaphore);
  TENON_THREAD(any) TENON_OWN(take(semaphore)) void (*semaphore_destroy)(tenon_semaphore* semaphore);
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*semaphore_query)(tenon_semaphore* semaphore, uint64_t* out_value);
  TENON_THREAD(any) TENON_OWN(borrow) tenon_status* (*semaphore_signal)(tenon_semaphore* semaphore, uint64_t value);
  /* Waits until the value is reached; DEADLINE_EXCEEDED after deadline_ns of the monotonic clock. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*semaphore_wait)(tenon_semaphore* semaphore, uint64_t value, uint64_t deadline_ns);

  /* An optional table by id: "tenon.native_handle/1", "tenon.peer_copy/1", "tenon.graph_capture/1", ... */
  TENON_THREAD(any) TENON_OWN(static) const void* (*get_extension)(tenon_device* device, tenon_span id);
} tenon_device_driver;

#ifdef __cplusplus
}
#endif
#endif /* TENON_DEVICE_H_ */
