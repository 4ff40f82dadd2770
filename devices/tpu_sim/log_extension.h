/* SPDX-License-Identifier: Apache-2.0 */
/* The log of a simulated device: what ran when, in simulated cycles.
 *
 * tenon_device_driver.get_extension(device, "tenon.tpu_sim.log/1") gives a tenon_tpu_sim_log. Every piece of work that
 * a queue has finished is one span, numbered from 0 in the order of finishing; the latest `log_spans` (an option of the
 * plugin) are kept. A cycle has the same meaning on all queues and devices of one load. */
#ifndef TENON_DEVICES_TPU_SIM_LOG_EXTENSION_H_
#define TENON_DEVICES_TPU_SIM_LOG_EXTENSION_H_

#include "tenon/device.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_TPU_SIM_LOG "tenon.tpu_sim.log/1"

/* Frozen value. matrix + vector + load + stall is end - begin. Names are NUL-terminated, cut where too long. */
typedef struct tenon_tpu_sim_span {
  uint64_t number;
  uint64_t queue; /* number within its device */
  uint64_t begin; /* cycles */
  uint64_t end;
  uint64_t matrix; /* the matrix unit works */
  uint64_t vector; /* the vector unit works, the matrix unit does not */
  uint64_t load;   /* weights shift in, or a copy moves bytes */
  uint64_t stall;  /* all units wait for off-chip memory */
  uint64_t waited; /* cycles between the end of the queue's work before it and begin */
  char name[40];
  char waited_for[32]; /* "", "queue 1 of TPU:0", "the host", "the matrix and vector units", ... */
  uint32_t code;       /* TENON_OK, or how it failed; work that never began has begin == end */
  uint32_t reserved;
} tenon_tpu_sim_span;

typedef struct tenon_tpu_sim_log {
  uint32_t struct_size;
  uint32_t must_understand;
  /* Copies the spans numbered from `first` on, at most capacity of them. out_next is the number to go on with. */
  TENON_THREAD(any) TENON_OWN(borrow)
  void (*read)(tenon_device* device, uint64_t first, tenon_tpu_sim_span* out_spans, uint64_t capacity, uint64_t* out_count,
               uint64_t* out_next);
  /* Cycles a simulated second. */
  TENON_THREAD(any) TENON_OWN(borrow) double (*clock)(tenon_device* device);
} tenon_tpu_sim_log;

#ifdef __cplusplus
}
#endif
#endif /* TENON_DEVICES_TPU_SIM_LOG_EXTENSION_H_ */
