/* SPDX-License-Identifier: Apache-2.0 */
/* Devices: memory, queues and timelines of one device type.
 *
 * A driver enumerates devices of its type. Memory has kinds (device memory, pinned host memory, ...). Work is
 * submitted to queues and runs in order within one queue: each piece begins when the one before it has ended.
 * plugin_api/docs/devices.md tells how a host uses all this.
 *
 * Timelines. A semaphore is a timeline: a value that only grows. Each piece of work belongs to at most one timeline;
 * the host makes one for each step and queue, so that the points of a timeline are signalled in order by one queue.
 * When work fails, its timeline has failed from there on: points reached before stay good, every later point has the
 * failure's status, and work of that timeline that has not begun is not run; where a device cannot leave out what it
 * was given (a GPU's stream), what that work writes is of no account. Work that waits for a failed point fails with the
 * same status. So a failure reaches what depends on it and nothing else: the queue goes on with the work of other
 * timelines. Only a lost device fails everything (UNAVAILABLE from every call, but for host calls).
 *
 * Lifetimes. Memory that work names (the host's memory of a copy too), a kernel's workspace, its prepared object and
 * the semaphores stay until that work is done; views, frames and submissions end with the call that gets them.
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

/* Frozen value: the point `value` on a timeline. */
typedef struct tenon_timeline_point {
  tenon_semaphore* semaphore;
  uint64_t value;
} tenon_timeline_point;

/* What a piece of work waits for, and what it tells. */
typedef struct tenon_submission {
  uint32_t struct_size;
  uint32_t must_understand;
  const tenon_timeline_point* waits; /* [wait_count]; of this driver's semaphores, those of its other devices too */
  uint64_t wait_count;
  tenon_semaphore* timeline; /* that the work belongs to; NULL: none, its failure is told by host calls alone */
  uint64_t signal;           /* the timeline's value when the work is done; 0: unchanged */
  tenon_span label;          /* of the node, for traces and failures; copied */
} tenon_submission;

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
  double link_bytes_per_second; /* between host and device memory; 0 unknown */
  double peer_bytes_per_second; /* between devices of this driver; 0: through the host */
  double copy_seconds;          /* of a copy without bytes */
  double launch_seconds;        /* of a kernel without work */
  uint32_t compute_queues;      /* that may make progress side by side; 0 is 1 */
  uint32_t reserved;
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

/* Where memory of a copy lies: a device of this driver, or NULL for the host's ordinary memory. The queue is one of
 * either device. */
typedef struct tenon_copy_args {
  uint32_t struct_size;
  uint32_t must_understand;
  const void* source;
  void* target;
  uint64_t bytes;
  tenon_device* source_device;
  tenon_device* target_device;
} tenon_copy_args;

typedef struct tenon_fill_args {
  uint32_t struct_size;
  uint32_t must_understand;
  void* target; /* memory of the queue's device */
  uint64_t bytes;
  const void* pattern; /* copied */
  uint64_t pattern_bytes; /* 1, 2, 4, 8 or 16 */
} tenon_fill_args;

/* status: NULL, or why the point or the queue was not reached. */
typedef TENON_THREAD(callback) TENON_OWN(take(status)) void (*tenon_notify_function)(void* argument,
                                                                                     tenon_status* status);

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
  /* Frees: with a queue after the work submitted to it so far; without one now, and no work may still name the
   * memory. */
  TENON_THREAD(any) TENON_OWN(take(data))
  void (*free)(tenon_device* device, uint32_t kind, void* data, uint64_t bytes, tenon_queue* queue);
  /* Host address of device memory until unmap; NULL function: not mappable, copy it. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*map)(tenon_device* device, uint32_t kind, void* data, uint64_t bytes, void** out_address);
  TENON_THREAD(any) TENON_OWN(borrow)
  void (*unmap)(tenon_device* device, uint32_t kind, void* data, uint64_t bytes, void* address);

  TENON_THREAD(any) TENON_OWN(give(out_queue))
  tenon_status* (*queue_create)(tenon_device* device, int32_t priority, tenon_queue** out_queue);
  /* Work that has not begun is CANCELLED; returns when none runs any more. */
  TENON_THREAD(any) TENON_OWN(take(queue)) void (*queue_destroy)(tenon_queue* queue);
  /* Submissions return at once. A status means that nothing was submitted; the timeline is untouched.
   * Copies between host and device, within a device, and between devices of this driver. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*queue_copy)(tenon_queue* queue, const tenon_copy_args* args, const tenon_submission* submission);
  /* Fills with a repeated pattern. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*queue_fill)(tenon_queue* queue, const tenon_fill_args* args, const tenon_submission* submission);
  /* An empty piece of work that waits and signals. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*queue_barrier)(tenon_queue* queue, const tenon_submission* submission);
  /* Calls back exactly once on a thread of the driver when the queue gets there. A lost device takes host calls too,
   * and calls back with UNAVAILABLE: then nothing names any more what the work before them named. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*queue_host_call)(tenon_queue* queue, tenon_notify_function function, void* argument,
                                   const tenon_submission* submission);

  TENON_THREAD(any) TENON_OWN(give(out_semaphore))
  tenon_status* (*semaphore_create)(tenon_device* device, uint64_t initial, tenon_semaphore** out_semaphore);
  /* No work may still name it. */
  TENON_THREAD(any) TENON_OWN(take(semaphore)) void (*semaphore_destroy)(tenon_semaphore* semaphore);
  /* The value reached; a failed timeline's status too. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*semaphore_query)(tenon_semaphore* semaphore, uint64_t* out_value);
  /* The host signals. */
  TENON_THREAD(any) TENON_OWN(borrow) tenon_status* (*semaphore_signal)(tenon_semaphore* semaphore, uint64_t value);
  /* The host fails the timeline from here on: what waits is told, what has not begun is not run. */
  TENON_THREAD(any) TENON_OWN(take(status)) void (*semaphore_fail)(tenon_semaphore* semaphore, tenon_status* status);
  /* Waits until the value is reached. deadline_ns: an instant of the monotonic clock, after which it is
   * DEADLINE_EXCEEDED; UINT64_MAX: none. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*semaphore_wait)(tenon_semaphore* semaphore, uint64_t value, uint64_t deadline_ns);
  /* Calls back exactly once when the value is reached or the timeline fails, perhaps before it returns. A status
   * returned means that it will not call. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*semaphore_notify)(tenon_semaphore* semaphore, uint64_t value, tenon_notify_function function,
                                    void* argument);

  /* An optional table by id: "tenon.native_handle/1", "tenon.profile/1", "tenon.graph_capture/1", ... */
  TENON_THREAD(any) TENON_OWN(static) const void* (*get_extension)(tenon_device* device, tenon_span id);
} tenon_device_driver;

#ifdef __cplusplus
}
#endif
#endif /* TENON_DEVICE_H_ */
