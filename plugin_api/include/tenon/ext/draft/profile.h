/* SPDX-License-Identifier: Apache-2.0 */
/* Draft device extension "tenon.profile/1": what ran when on a device's queues.
 *
 * Every piece of work that a queue finished is one span, or several of its label where the driver tells its parts apart
 * (the kernels of a captured graph), numbered from 0 in the order of finishing; a driver keeps the latest ones. Found
 * through tenon_device_driver.get_extension. */
#ifndef TENON_EXT_DRAFT_PROFILE_H_
#define TENON_EXT_DRAFT_PROFILE_H_

#include "tenon/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_EXTENSION_PROFILE "tenon.profile/1" TENON_TEXT_PROFILE

/* Frozen value. Texts are NUL-terminated, cut where too long. */
typedef struct tenon_profile_span {
  uint64_t number;
  uint64_t queue;    /* number within its device */
  uint64_t begin_ns; /* of the host's monotonic clock */
  uint64_t end_ns;
  uint64_t begin_tick; /* of the device's own clock */
  uint64_t end_tick;
  uint64_t waited_ticks; /* between the end of the queue's work before it and begin_tick */
  char name[64];         /* the submission's label */
  char kind[16];         /* "kernel", "copy", ... */
  char waited_for[48];   /* "", "queue 1 of TPU:0", "the host", ... */
  char detail[80];       /* "matrix 120, load 8, stall 3" */
  uint32_t code;         /* TENON_OK, or how it failed */
  uint32_t reserved;
} tenon_profile_span;

typedef struct tenon_profile {
  uint32_t struct_size;
  uint32_t must_understand;
  /* Copies the spans numbered from `first` on, at most capacity of them. out_next is the number to go on with; with
   * capacity 0 it is the number that the next span will get. */
  TENON_THREAD(any) TENON_OWN(borrow)
  void (*read)(tenon_device* device, uint64_t first, tenon_profile_span* out_spans, uint64_t capacity,
               uint64_t* out_count, uint64_t* out_next);
  /* Ticks of the device's own clock in a second; 0: it has none. */
  TENON_THREAD(any) TENON_OWN(borrow) double (*ticks_per_second)(tenon_device* device);
  /* on 1: work that is submitted from now on is recorded; 0: that is not wanted any more. Counted. NULL: all work is
   * recorded always. */
  TENON_THREAD(any) TENON_OWN(borrow) tenon_status* (*watch)(tenon_device* device, uint32_t on);
} tenon_profile;

#ifdef __cplusplus
}
#endif
#endif /* TENON_EXT_DRAFT_PROFILE_H_ */
