/* SPDX-License-Identifier: Apache-2.0 */
/* What the ASYNC device offers to kernels of other packages: work for its queues. Whoever writes such a kernel includes
 * this header alone, and finds the table by its id (device_extension of tenon/kernel.h); the driver's library is not
 * linked. */
#ifndef EXAMPLE_ASYNC_DEVICE_LAUNCH_H_
#define EXAMPLE_ASYNC_DEVICE_LAUNCH_H_

#include "tenon/kernel.h"

#define EXAMPLE_LAUNCH_ID "example.async_device.launch/1"

typedef struct example_launch {
  uint32_t struct_size;
  uint32_t must_understand;
  /* Gives the frame's queue a piece of work: function(argument) is called once on the queue's thread, after the work
   * that was submitted before; not at all when that has failed. argument [bytes] is copied, aligned as malloc does.
   * From run(), any thread. */
  tenon_status* (*launch)(const tenon_frame* frame, void (*function)(void* argument), const void* argument,
                          uint64_t bytes);
} example_launch;

#endif /* EXAMPLE_ASYNC_DEVICE_LAUNCH_H_ */
