/* SPDX-License-Identifier: Apache-2.0 */
/* A device driver in one file: the smallest thing that the host takes for a device.
 *
 * The device type is "NULL". It is synchronous, so it has no queue and no semaphore, and its memory is the host's. It
 * has no kernel of its own: a package that registers kernels for device type "NULL" runs on it. Start a driver from
 * here by giving it real memory, then queues, then kernels. */
#include <stdlib.h>

#include "tenon/plugin.h"

#define ALIGNMENT 64u
#define DLPACK_EXTENSION_DEVICE 12 /* kDLExtDev */

struct tenon_device {
  uint32_t index;
};

/* One device; it has no state, so that opening it twice is harmless. */
static struct tenon_device the_device = {0};

static tenon_status* count(tenon_plugin_self* self, uint32_t* out_count) {
  (void)self;
  *out_count = 1;
  return NULL;
}

static tenon_status* open_device(tenon_plugin_self* self, uint32_t index, tenon_device** out_device) {
  (void)self;
  if (index != 0) return tenon_plugin_error(TENON_NOT_FOUND, "there is one NULL device, of index 0");
  *out_device = &the_device;
  return NULL;
}

static void close_device(tenon_device* device) { (void)device; }

/* TENON_SET: a host that is older than these headers has shorter structs. */
static tenon_status* properties(tenon_device* device, tenon_device_properties* out_properties) {
  static const tenon_span name = TENON_SPAN("null device in host memory");
  TENON_SET(out_properties, name, name);
  TENON_SET(out_properties, dl_device_type, DLPACK_EXTENSION_DEVICE);
  TENON_SET(out_properties, dl_device_id, (int32_t)device->index);
  TENON_SET(out_properties, synchronous, 1);
  TENON_SET(out_properties, memory_kind_count, 1);
  TENON_SET(out_properties, flops, 0);
  TENON_SET(out_properties, bytes_per_second, 0);
  return NULL;
}

static tenon_status* memory_kind(tenon_device* device, uint32_t index, tenon_memory_kind* out_kind) {
  static const tenon_span name = TENON_SPAN("host");
  (void)device;
  if (index != 0) return tenon_plugin_error(TENON_NOT_FOUND, "the NULL device has one kind of memory, of index 0");
  TENON_SET(out_kind, name, name);
  TENON_SET(out_kind, alignment, ALIGNMENT);
  TENON_SET(out_kind, total_bytes, 0); /* unknown: as much as the host has */
  TENON_SET(out_kind, flags, TENON_MEMORY_HOST_VISIBLE);
  return NULL;
}

static tenon_status* allocate(tenon_device* device, uint32_t kind, uint64_t bytes, uint64_t alignment,
                              tenon_queue* queue, void** out_data) {
  (void)device, (void)queue;
  if (kind != 0)
    return tenon_plugin_error(TENON_INVALID_ARGUMENT, "the NULL device has one kind of memory, of index 0");
  if (alignment < ALIGNMENT) alignment = ALIGNMENT;
  if ((alignment & (alignment - 1)) != 0)
    return tenon_plugin_error(TENON_INVALID_ARGUMENT, "the alignment must be a power of two");
  if (bytes > SIZE_MAX - alignment)
    return tenon_plugin_error(TENON_RESOURCE_EXHAUSTED, "more bytes than can be addressed");
  const uint64_t whole = bytes == 0 ? alignment : (bytes + alignment - 1) / alignment * alignment;
  *out_data = aligned_alloc(alignment, whole);
  if (*out_data == NULL)
    return tenon_plugin_error(TENON_RESOURCE_EXHAUSTED, "the host has no memory left for the NULL device");
  return NULL;
}

static void free_memory(tenon_device* device, uint32_t kind, void* data, uint64_t bytes, tenon_queue* queue) {
  (void)device, (void)kind, (void)bytes, (void)queue;
  free(data);
}

static tenon_status* map(tenon_device* device, uint32_t kind, void* data, uint64_t bytes, void** out_address) {
  (void)device, (void)kind, (void)bytes;
  *out_address = data;
  return NULL;
}

static void unmap(tenon_device* device, uint32_t kind, void* data, uint64_t bytes, void* address) {
  (void)device, (void)kind, (void)data, (void)bytes, (void)address;
}

/* What is not named here is NULL: the device does not have it. */
static const tenon_device_driver kDriver = {TENON_HEAD(tenon_device_driver),
                                            .device_type = TENON_SPAN("NULL"),
                                            .priority = -100, /* after every device that computes */
                                            .count = count,
                                            .open = open_device,
                                            .close = close_device,
                                            .properties = properties,
                                            .memory_kind = memory_kind,
                                            .allocate = allocate,
                                            .free = free_memory,
                                            .map = map,
                                            .unmap = unmap};

static const tenon_capability kCapabilities[] = {TENON_PROVIDES(DEVICE, &kDriver)};
TENON_PLUGIN("example.null_device", "1.0.0", "A device without kernels, in host memory.", kCapabilities)
