/* SPDX-License-Identifier: Apache-2.0 */
/* A device whose queues do all at once, so that what the engine's asynchronous path costs the host can be measured:
 * device type "QUEUE", with a null kernel of PerfNull. Its memory is the host's, which the engine is not told. */
#include <stdlib.h>
#include <string.h>

#include "tenon/plugin.h"

struct tenon_device {
  int32_t unused;
};
struct tenon_queue {
  uint64_t submitted;
};
struct tenon_semaphore {
  uint64_t value;
};

static struct tenon_device the_device;

static tenon_status* count(tenon_plugin_self* self, uint32_t* out_count) {
  (void)self;
  *out_count = 1;
  return NULL;
}
static tenon_status* open_device(tenon_plugin_self* self, uint32_t index, tenon_device** out_device) {
  (void)self, (void)index;
  *out_device = &the_device;
  return NULL;
}
static tenon_status* properties(tenon_device* device, tenon_device_properties* out) {
  (void)device;
  out->memory_kind_count = 1;
  out->compute_queues = 1;
  return NULL;
}
static tenon_status* memory_kind(tenon_device* device, uint32_t index, tenon_memory_kind* out) {
  (void)device, (void)index;
  out->alignment = 64;
  return NULL;
}
static tenon_status* allocate(tenon_device* device, uint32_t kind, uint64_t bytes, uint64_t alignment,
                              tenon_queue* queue, void** out) {
  (void)device, (void)kind, (void)alignment, (void)queue;
  *out = aligned_alloc(64, (bytes + 64) / 64 * 64);
  return *out != NULL ? NULL : tenon_plugin_error(TENON_RESOURCE_EXHAUSTED, "no memory");
}
static void free_memory(tenon_device* device, uint32_t kind, void* data, uint64_t bytes, tenon_queue* queue) {
  (void)device, (void)kind, (void)bytes, (void)queue;
  free(data);
}
static tenon_status* queue_create(tenon_device* device, int32_t priority, tenon_queue** out) {
  (void)device, (void)priority;
  *out = calloc(1, sizeof **out);
  return NULL;
}
static void queue_destroy(tenon_queue* queue) { free(queue); }
static tenon_status* submit(tenon_queue* queue, const tenon_submission* submission) {
  ++queue->submitted;
  if (submission->signal != 0) submission->timeline->value = submission->signal;
  return NULL;
}
static tenon_status* queue_copy(tenon_queue* queue, const tenon_copy_args* args, const tenon_submission* submission) {
  memcpy(args->target, args->source, args->bytes);
  return submit(queue, submission);
}
static tenon_status* queue_host_call(tenon_queue* queue, tenon_notify_function function, void* argument,
                                     const tenon_submission* submission) {
  function(argument, NULL);
  return submit(queue, submission);
}
static tenon_status* semaphore_create(tenon_device* device, uint64_t initial, tenon_semaphore** out) {
  (void)device;
  *out = calloc(1, sizeof **out);
  (*out)->value = initial;
  return NULL;
}
static void semaphore_destroy(tenon_semaphore* semaphore) { free(semaphore); }
static tenon_status* semaphore_query(tenon_semaphore* semaphore, uint64_t* out_value) {
  *out_value = semaphore->value;
  return NULL;
}
static void semaphore_fail(tenon_semaphore* semaphore, tenon_status* status) {
  (void)semaphore;
  tenon_plugin_host->status_release(status);
}
static tenon_status* semaphore_wait(tenon_semaphore* semaphore, uint64_t value, uint64_t deadline_ns) {
  (void)semaphore, (void)value, (void)deadline_ns;
  return NULL;
}

static const tenon_device_driver kDriver = {.struct_size = sizeof(tenon_device_driver),
                                            .device_type = TENON_SPAN("QUEUE"),
                                            .priority = -200,
                                            .count = count,
                                            .open = open_device,
                                            .properties = properties,
                                            .memory_kind = memory_kind,
                                            .allocate = allocate,
                                            .free = free_memory,
                                            .queue_create = queue_create,
                                            .queue_destroy = queue_destroy,
                                            .queue_copy = queue_copy,
                                            .queue_barrier = submit,
                                            .queue_host_call = queue_host_call,
                                            .semaphore_create = semaphore_create,
                                            .semaphore_destroy = semaphore_destroy,
                                            .semaphore_query = semaphore_query,
                                            .semaphore_fail = semaphore_fail,
                                            .semaphore_wait = semaphore_wait};

static tenon_status* run_null(tenon_kernel* kernel, const tenon_prepared* prepared, tenon_frame* frame) {
  (void)kernel, (void)prepared;
  ++frame->queue->submitted;
  return NULL;
}
static const tenon_kernel_registration kNull = {.struct_size = sizeof(tenon_kernel_registration),
                                                .op = TENON_SPAN("PerfNull"),
                                                .device_type = TENON_SPAN("QUEUE"),
                                                .priority = 1,
                                                .run = run_null};
static const tenon_kernel_registration* const kKernels[] = {&kNull};
static const tenon_kernel_package kKernelPackage = {TENON_HEAD(tenon_kernel_package), kKernels, 1};

static const tenon_capability kCapabilities[] = {TENON_PROVIDES(DEVICE, &kDriver),
                                                 TENON_PROVIDES(KERNELS, &kKernelPackage)};
TENON_PLUGIN("tenon.perf.queue", "0.1.0", "A device whose queues do all at once, for benchmarks.", kCapabilities)
