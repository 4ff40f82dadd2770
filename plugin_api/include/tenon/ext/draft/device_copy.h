/* SPDX-License-Identifier: Apache-2.0 */
/* Draft capability "tenon.device_copy/1": copies between the devices of two drivers, which neither driver's queue_copy
 * knows. Without one a value goes from the one device to the host and from there to the other. Not frozen until a real
 * user has passed.
 *
 * The host asks once for each pair of a session's devices, of these types and of different drivers; where several
 * packages reach a pair, the first that was loaded has it. The package knows both drivers: it is of the same vendor, or
 * asks their devices for an extension. While a session that uses it lives, it is not unloaded. */
#ifndef TENON_EXT_DRAFT_DEVICE_COPY_H_
#define TENON_EXT_DRAFT_DEVICE_COPY_H_

#include "tenon/abi.h"
#include "tenon/device.h"
#include "tenon/ext/draft/layout_hash.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_CAPABILITY_DEVICE_COPY "tenon.device_copy/1"

/* Two devices of different drivers. Lives as long as the call. */
typedef struct tenon_device_pair {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_device* source;
  tenon_device* target;
  tenon_span source_plugin; /* the packages that brought them: whose handles these are */
  tenon_span target_plugin;
  /* get_extension of the device's driver (device.h); NULL where it has none of this id. */
  TENON_THREAD(any) TENON_OWN(static)
  const void* (*extension)(const struct tenon_device_pair* pair, tenon_device* device, tenon_span id);
} tenon_device_pair;

/* Capability "tenon.device_copy/1". */
typedef struct tenon_device_copy {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span source_type; /* device types, as drivers say them */
  tenon_span target_type;
  /* For placement, numbers from 0 on, else the package is refused; bytes_per_second 0: not known, and the way through
   * the host is reckoned with. */
  double seconds; /* of a copy without bytes */
  double bytes_per_second;
  /* Whether it copies from this source to this target: out_reaches 0 or 1. A status is logged, and counts as 0. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*reaches)(tenon_plugin_self* self, const tenon_device_pair* pair, uint32_t* out_reaches);
  /* As queue_copy: gives the queue, which is one of either device, a copy, and returns at once. The submission's points
   * are of the queue's driver. What the source holds is there, and nobody uses the target's memory, when it is called:
   * the host has waited for the other driver's queues. The memory stays until the work is done. A status: nothing was
   * submitted, and the step fails with it. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*copy)(tenon_plugin_self* self, tenon_queue* queue, const tenon_copy_args* args,
                        const tenon_submission* submission);
} tenon_device_copy;

#ifdef __cplusplus
}
#endif
#endif /* TENON_EXT_DRAFT_DEVICE_COPY_H_ */
